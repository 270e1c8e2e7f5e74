//! Clusters of real processes: elected, killed, paused, cut, starved of their disks.

mod binary;
mod budgets;
mod catalog;
mod chaos;
mod disk_faults;
mod history;
mod hooks;
mod hostile;
mod identity;
mod instances;
mod live;
mod power;
mod quorum;
mod slew;
mod strangers;
mod succession;
mod trust_ledger;
mod volumes;
mod watchers;
