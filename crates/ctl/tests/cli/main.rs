//! The real `ctl`: alone, and with members to ask.

mod chaos;
mod docs;
mod lead;
mod live;
mod lock;
mod member;
mod mutex_docs;
mod mutexes;
mod offline;
mod reports;
mod sim_runs;
mod versions;
