//! One file per algorithm.

pub mod bully;
pub mod bully_1982;
pub mod chang_roberts;
pub mod dolev_klawe_rodeh;
pub mod hirschberg_sinclair;
pub mod hirschberg_sinclair_reply;
pub mod itai_rodeh;
pub mod le_lann;
pub mod modified_ring;
pub(crate) mod numbers;
pub mod peterson;
pub mod ring_list;
pub mod time_slice;
pub mod variable_speeds;
