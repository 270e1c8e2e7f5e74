//! Frames of an authenticated peer that sends nonsense: every row of the catalog, under both kinds of safety.

use algorithms::{Topology, catalog};

use super::*;

/// Keeps what is announced; every write is done at once.
#[derive(Default)]
struct Desk {
    writes: Vec<bool>,
    frames: Vec<(NodeId, Vec<u8>)>,
}

impl EffectSink for Desk {
    fn send(&mut self, to: NodeId, payload: &[u8]) {
        self.frames.push((to, payload.to_vec()));
    }
    fn write(&mut self, _: Kept, barrier: bool) {
        self.writes.push(barrier);
    }
    fn announce(&mut self, _: Event, _: Option<Duration>) {}
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

/// Five members whose frames are reordered, duplicated and corrupted. Returns how many corrupted frames still decoded.
fn bear(row: &'static Row, safety: Safety, seed: u64, frames: usize) -> usize {
    let mut dice = Dice(seed);
    let mut roll = |sides: usize| (dice.roll() % sides as u64) as usize;
    let mut members: Vec<_> = (1..=MEMBERS).map(|id| member(row, safety, id, seed)).collect();
    let mut air: Vec<(NodeId, NodeId, Vec<u8>)> = Vec::new();
    let (mut now, mut taken) = (Duration::from_secs(1), 0);
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
        for (member, from) in members.iter_mut().zip(1..) {
            member.tick(now);
            let mut desk = Desk::default();
            while !member.carry_out(now, &mut desk) || !desk.writes.is_empty() {
                for barrier in std::mem::take(&mut desk.writes) {
                    member.written(barrier);
                }
            }
            // A made-up list has made-up members.
            let exists = |to: NodeId| (1..=MEMBERS).contains(&to.0);
            let frames = desk.frames.into_iter().filter(|(to, _)| exists(*to));
            air.extend(frames.map(|(to, payload)| (NodeId(from), to, payload)));
        }
        while air.len() > 60 {
            air.swap_remove(roll(air.len()));
        }
    }
    taken
}

#[test]
fn no_frame_of_a_mad_peer_ends_the_process() {
    // Of every row and safety, so that it is fewer than the parsers have.
    let cases = std::env::var("CONCLAVE_FUZZ_CASES").map_or(100_000, |text| text.parse().expect("a number"));
    let seeds: u64 = (cases / 12 / FRAMES).max(1);
    for row in catalog::ROWS {
        for safety in [Safety::Classic, Safety::Quorum] {
            let taken: usize = (1..=seeds).map(|seed| bear(row, safety, seed, FRAMES as usize)).sum();
            assert!(taken > 50 * seeds as usize, "{}: only {taken} mad frames were understood", row.name);
        }
    }
}
