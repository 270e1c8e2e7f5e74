//! The real `ctl`: alone, and with members to ask.

mod chaos;
mod docs;
mod lead;
mod live;
mod offline;
mod reports;
mod versions;
