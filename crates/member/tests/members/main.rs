//! Members at the level of the code: whole clusters as transcripts, and one file of tests per part.

mod golden;
mod story;
mod world;
