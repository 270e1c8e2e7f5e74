//! One file per algorithm.

pub mod bully;
pub mod bully_1982;
pub mod chang_roberts;
