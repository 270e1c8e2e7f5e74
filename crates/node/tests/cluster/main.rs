//! Clusters of real processes: elected, killed, paused, cut, starved of their disks.

mod binary;
mod catalog;
mod chaos;
mod disk_faults;
mod history;
mod hooks;
mod hostile;
mod instances;
mod live;
mod quorum;
mod succession;
mod volumes;
mod watchers;
