//! Clusters of real processes: elected, killed, paused, cut, starved of their disks.

mod binary;
mod budgets;
mod catalog;
mod certificates;
mod chaos;
mod disk_faults;
mod graphs;
mod history;
mod hooks;
mod hostile;
mod identity;
mod instances;
mod liars;
mod live;
mod locks;
mod membership;
mod power;
mod priorities;
mod quorum;
mod rotation;
mod slew;
mod strangers;
mod succession;
mod trust_ledger;
mod volumes;
mod watchers;
