//! Conclave's Raft election beside the `raft` crate: both in the same harness, under the same kinds of faults. Prints the
//! mean time to a leader of both in election timeouts, and fails if a term of either had two leaders or if Conclave's mean
//! is more than 1.1 times the other's.

mod ours;
mod theirs;
mod world;

use ours::Ours;
use theirs::Theirs;
use world::{Means, Node, survey};

/// How much longer than the reference the mean may take.
const ALLOWED: f64 = 1.1;

fn main() {
    let runs = std::env::args().nth(1).map_or(1000, |text| text.parse().expect("a number of runs"));
    let (ours, theirs) = (report::<Ours<false>>("conclave", runs), report::<Theirs>("raft 0.7", runs));
    let slower = |ours: f64, theirs: f64| ours > ALLOWED * theirs;
    let failed = ours.shared_terms + theirs.shared_terms > 0
        || slower(ours.cold, theirs.cold)
        || slower(ours.after_crash, theirs.after_crash)
        || slower(ours.after_faults, theirs.after_faults);
    println!(
        "ratios: {:.3} cold, {:.3} after a crash, {:.3} after faults",
        ours.cold / theirs.cold,
        ours.after_crash / theirs.after_crash,
        ours.after_faults / theirs.after_faults
    );
    std::process::exit(i32::from(failed));
}

fn report<N: Node>(name: &str, runs: u64) -> Means {
    let means = survey::<N>(runs);
    println!(
        "{name:9} {runs} runs, {} leaders, {} terms with two leaders; election timeouts to a leader: {:.3} from a cold start, {:.3} after \
         the leader's crash, {:.3} after faults",
        means.leaders, means.shared_terms, means.cold, means.after_crash, means.after_faults
    );
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_term_of_either_has_two_leaders_and_ours_is_as_fast() {
        let (ours, theirs) = (report::<Ours<false>>("conclave", 300), report::<Theirs>("raft 0.7", 300));
        assert_eq!((ours.shared_terms, theirs.shared_terms), (0, 0));
        assert!(ours.after_crash <= 1.2 * theirs.after_crash, "{ours:?} {theirs:?}");
    }

    #[test]
    fn nodes_that_forget_their_votes_share_terms() {
        assert!(survey::<Ours<true>>(1000).shared_terms > 0);
    }
}
