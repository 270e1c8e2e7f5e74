//! Members at the level of the code: whole clusters as transcripts, and one file of tests per part.

mod bench;
mod candidate;
mod classic;
mod golden;
mod leader;
mod quorum;
mod reigns;
mod story;
mod voter;
mod world;
