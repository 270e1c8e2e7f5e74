//! Members at the level of the code: whole clusters as transcripts, and one file of tests per part.

mod bench;
mod candidacy;
mod candidate;
mod children;
mod classic;
mod golden;
mod graphs;
mod identity;
mod leader;
mod lists;
mod locks;
mod maintenance;
mod priorities;
mod quorum;
mod reigns;
mod rounds;
mod single;
mod story;
mod terms;
mod voter;
mod world;
