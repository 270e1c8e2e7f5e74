//! The real `ctl`: alone, and with members to ask.

mod animation;
mod chaos;
mod docs;
mod installed;
mod json_page;
mod lead;
mod live;
mod lock;
mod maintenance;
mod member;
mod mutex_docs;
mod mutexes;
mod offline;
mod reports;
mod sim_runs;
mod stopped;
mod top;
mod up;
mod versions;
mod workers;
