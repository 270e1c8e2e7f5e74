//! Clusters of real processes: elected, killed, paused, cut, starved of their disks.

mod binary;
mod budgets;
mod catalog;
mod chaos;
mod disk_faults;
mod history;
mod hooks;
mod hostile;
mod instances;
mod live;
mod power;
mod quorum;
mod volumes;
mod watchers;
