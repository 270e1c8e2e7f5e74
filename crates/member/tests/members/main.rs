//! Members at the level of the code: whole clusters as transcripts, and one file of tests per part.

mod bench;
mod candidate;
mod golden;
mod leader;
mod reigns;
mod story;
mod voter;
mod world;
