//! The lock service of a reign: each part alone, whole exchanges as transcripts, and random runs.

mod bench;
mod client;
mod golden;
mod hostile;
mod parts;
mod random;
mod story;
mod world;
