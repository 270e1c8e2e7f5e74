//! One file per algorithm.

pub mod bully;
pub mod bully_1982;
pub mod by_lock;
pub mod chang_roberts;
pub mod chang_roberts_substitute;
pub mod dfs;
pub mod dolev_klawe_rodeh;
pub mod dolev_klawe_rodeh_b;
pub mod echo;
pub mod franklin;
pub mod hirschberg_sinclair;
pub mod hirschberg_sinclair_reply;
pub mod improved_bully;
pub mod invitation;
pub mod itai_rodeh;
pub mod le_lann;
pub mod modified_bully;
pub mod modified_ring;
pub mod modified_ring_literal;
pub(crate) mod numbers;
pub mod peterson;
pub mod raft;
pub mod ring_list;
pub mod time_slice;
pub mod variable_speeds;
