//! Frames of an authenticated peer that sends nonsense: every row of the catalog, under both kinds of safety.

use algorithms::{Topology, catalog};

use super::*;

/// Keeps what is announced; every write is done at once.
#[derive(Default)]
struct Desk {
    writes: Vec<bool>,
    frames: Vec<(NodeId, Vec<u8>)>,
    announced: usize,
}

impl EffectSink for Desk {
    fn send(&mut self, to: NodeId, payload: &[u8]) {
        self.frames.push((to, payload.to_vec()));
    }
    fn write(&mut self, _: Kept, barrier: bool) {
        self.writes.push(barrier);
    }
    fn announce(&mut self, _: Event, _: Option<Duration>) {
        self.announced += 1;
    }
}

const MEMBERS: u32 = 5;
/// Frames of one seed.
const FRAMES: u64 = 1_000;

/// Numbers as the codec writes them: small ones, and the ends of every width.
const PIECES: &[&[u8]] = &[
    &[0],
    &[1],
    &[2],
    &[3],
    &[4],
    &[5],
    &[7],
    &[63],
    &[250],
    &[0xfb, 0xff, 0xff],
    &[0xfc, 0xff, 0xff, 0xff, 0xff],
    &[0xfc, 0xff, 0xff, 0xff, 0x7f],
    &[0xfd, 0, 0, 0, 0, 0, 1, 0, 0],
    &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
];

fn member(row: &'static Row, safety: Safety, id: u32, seed: u64) -> Box<dyn Instance> {
    let uids: Vec<Uid> = (1..=MEMBERS).map(Uid::plain).collect();
    let view = match row.topology {
        Topology::Ring => View::ring(uids),
        Topology::Mesh => View::mesh(uids),
        // A path: every member but the ends divides it.
        Topology::Graph => View::graph(uids, &(1..MEMBERS as usize).map(|at| (at - 1, at)).collect::<Vec<_>>()),
    };
    let election = algorithms::Settings { wins: row.wins, ..algorithms::Settings::default() };
    let settings = Settings { election, ..Settings::default() };
    let (me, instance) = (Uid::plain(id), InstanceId::ELECTION);
    let (links, refused, seed) = (Vec::new(), false, seed + u64::from(id));
    let setup = Setup { me, view, settings, links, refused, stored: None, seed, instance };
    let mut member = start(row, safety, setup).expect("a new member needs no record");
    for peer in (1..=MEMBERS).filter(|&peer| peer != id) {
        member.peer(NodeId(peer), true);
    }
    member
}

/// What the event loop reads of a member when its effects have been carried out.
#[derive(PartialEq, Debug)]
struct Shown(u64, bool, bool, NodeSet, Option<ClusterId>, Option<Vec<u32>>);

impl Shown {
    fn of(member: &dyn Instance) -> Self {
        let (messages, knows, held) = (member.algorithm_messages(), member.knows_the_past(), member.is_held());
        Shown(messages, knows, held, member.links(), member.cluster_id(), member.active_list())
    }
}

/// Five members whose frames are reordered, duplicated and corrupted. Returns how many corrupted frames still decoded, and how
/// often a member rested: then it has no effects, and nothing that it shows has changed.
fn bear(row: &'static Row, safety: Safety, seed: u64, frames: usize) -> (usize, usize) {
    let mut dice = Dice(seed);
    let mut roll = |sides: usize| (dice.roll() % sides as u64) as usize;
    let mut members: Vec<_> = (1..=MEMBERS).map(|id| member(row, safety, id, seed)).collect();
    let mut air: Vec<(NodeId, NodeId, Vec<u8>)> = Vec::new();
    let (mut now, mut taken, mut rested) = (Duration::from_secs(1), 0, 0);
    let mut shown: Vec<Option<Shown>> = members.iter().map(|_| None).collect();
    for _ in 0..frames {
        if !air.is_empty() {
            let (from, to, mut payload) = air[roll(air.len())].clone();
            let mad = roll(3);
            for _ in 0..mad {
                let at = roll(payload.len());
                payload.splice(at..=at, PIECES[roll(PIECES.len())].iter().copied());
            }
            let understood = members[to.0 as usize - 1].frame(from, &payload, false);
            taken += usize::from(understood && mad > 0);
        }
        if roll(3) == 0 {
            now += Duration::from_millis(roll(100) as u64);
        }
        for ((member, from), shown) in members.iter_mut().zip(1..).zip(&mut shown) {
            member.tick(now);
            let mut desk = Desk::default();
            if member.rests() {
                rested += 1;
                assert!(shown.as_ref().is_none_or(|shown| *shown == Shown::of(&**member)), "{}", row.name);
                assert!(member.carry_out(now, &mut desk) && member.take_election().is_none(), "{}", row.name);
                assert_eq!((desk.writes.len(), desk.frames.len(), desk.announced), (0, 0, 0), "{}", row.name);
                continue;
            }
            while !member.carry_out(now, &mut desk) || !desk.writes.is_empty() {
                for barrier in std::mem::take(&mut desk.writes) {
                    member.written(barrier);
                }
            }
            // A made-up list has made-up members.
            let exists = |to: NodeId| (1..=MEMBERS).contains(&to.0);
            let frames = desk.frames.into_iter().filter(|(to, _)| exists(*to));
            air.extend(frames.map(|(to, payload)| (NodeId(from), to, payload)));
            member.take_election();
            *shown = Some(Shown::of(&**member)).filter(|_| member.rests());
        }
        while air.len() > 60 {
            air.swap_remove(roll(air.len()));
        }
    }
    (taken, rested)
}

#[test]
fn no_frame_of_a_mad_peer_ends_the_process() {
    // Of every row and safety, so that it is fewer than the parsers have.
    let cases = std::env::var("CONCLAVE_FUZZ_CASES").map_or(100_000, |text| text.parse().expect("a number"));
    let seeds: u64 = (cases / 12 / FRAMES).max(1);
    for row in catalog::ROWS {
        for safety in [Safety::Classic, Safety::Quorum] {
            let (mut taken, mut rested) = (0, 0);
            for seed in 1..=seeds {
                let (more_taken, more_rested) = bear(row, safety, seed, FRAMES as usize);
                (taken, rested) = (taken + more_taken, rested + more_rested);
            }
            assert!(taken > 50 * seeds as usize, "{}: only {taken} mad frames were understood", row.name);
            assert!(rested > 500 * seeds as usize, "{}: members rested only {rested} times", row.name);
        }
    }
}
