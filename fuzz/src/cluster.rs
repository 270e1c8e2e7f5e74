//! One member of any algorithm and kind of safety, fed with frames that no honest peer may have sent; and honest
//! clusters whose frames are the first inputs.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

use algorithms::catalog::{AnyElection, ROWS, Row};
use algorithms::drive::{Dice, Driver, Effect};
use algorithms::{Ctx, Input, NodeId, Topology, Uid, View};
use member::{Authority, Classic, Command, Member, Quorum, Safety, Settings};
use node::as_bytes;
use node::records::Kept;
use transport::codec;

const MEMBERS: u32 = 3;
/// The member that gets the frames.
const ME: u32 = 2;
/// Time between two inputs of a fuzzed member: heartbeats, leases and patience all end within some inputs.
const STEP: Duration = Duration::from_millis(20);
/// Inputs of one case, so that a case stays short.
const INPUTS_MAX: usize = 64;

/// The first byte chooses algorithm and safety. Then inputs follow: `sender and kind (1) | length (1) | bytes`.
pub fn envelope(bytes: &[u8]) {
    let [choice, inputs @ ..] = bytes else { return };
    static RUNS: OnceLock<Vec<Transcript>> = OnceLock::new();
    let runs = RUNS.get_or_init(|| (0..choices()).map(honest).collect());
    let (row, safety) = chosen(*choice);
    let record = &runs[usize::from(*choice % choices())].record;
    match safety {
        Safety::Classic => fuzzed::<Classic>(row, inputs, record.as_ref()),
        Safety::Quorum => fuzzed::<Quorum>(row, inputs, record.as_ref()),
    }
}

/// An honest run as one member saw it: its inputs, and the record on its disk at the end. A fuzzed member begins with that
/// record: it has a past and votes.
struct Transcript {
    inputs: Vec<u8>,
    record: Option<Kept>,
}

fn choices() -> u8 {
    (2 * ROWS.len()) as u8
}

fn honest(choice: u8) -> Transcript {
    let (row, safety) = chosen(choice);
    match safety {
        Safety::Classic => honest_run::<Classic>(row),
        Safety::Quorum => honest_run::<Quorum>(row),
    }
}

/// Honest runs of small clusters as inputs of [`envelope`], one of every algorithm and kind of safety.
pub fn transcripts() -> Vec<(String, Vec<u8>)> {
    let run = |choice: u8| {
        let (row, safety) = chosen(choice);
        (format!("{}-{}", row.name, safety.name()), [vec![choice], honest(choice).inputs].concat())
    };
    (0..choices()).map(run).collect()
}

fn chosen(choice: u8) -> (&'static Row, Safety) {
    let choice = usize::from(choice % choices());
    (&ROWS[choice / 2], if choice % 2 == 0 { Safety::Classic } else { Safety::Quorum })
}

fn settings_of(row: &Row) -> Settings {
    Settings { election: algorithms::Settings::of(row), ..Settings::default() }
}

fn view(row: &Row) -> View {
    let uids = (1..=MEMBERS).map(Uid::plain).collect();
    match row.topology {
        Topology::Ring => View::ring(uids),
        Topology::Mesh => View::mesh(uids),
        // A path: every member but the ends divides it.
        Topology::Graph => View::graph(uids, &(1..MEMBERS as usize).map(|at| (at - 1, at)).collect::<Vec<_>>()),
    }
}

struct Running<'a, A: Authority> {
    row: &'static Row,
    me: Uid,
    view: &'a View,
    settings: &'a Settings,
    driver: Driver<Member<AnyElection, A>, Duration>,
    dice: Dice,
    now: Duration,
    /// The newest record on its disk.
    record: Option<Kept>,
}

impl<'a, A: Authority> Running<'a, A> {
    /// Without a record the disk is empty.
    fn start(row: &'static Row, id: u32, view: &'a View, settings: &'a Settings, record: Option<&Kept>) -> Self {
        let me = Uid::plain(id);
        let mut dice = Dice(u64::from(id));
        let ctx = Ctx { me, view, settings, dice: dice.roll() };
        let stored = record.and_then(|record| as_bytes::decode::<A>(row.algorithm, record).ok());
        let driver = Driver::start(&ctx, stored);
        Running { row, me, view, settings, driver, dice, now: Duration::ZERO, record: record.cloned() }
    }

    fn step(&mut self, input: Input<Member<AnyElection, A>>) {
        let ctx = Ctx { me: self.me, view: self.view, settings: self.settings, dice: self.dice.roll() };
        self.driver.step(&ctx, input);
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        while let Some(timer) = self.driver.pop_due(self.now) {
            self.step(Input::Timer(timer));
        }
    }

    /// Carries out all effects; every write succeeds at once. Returns the frames that were sent.
    fn carry_out(&mut self) -> Vec<(NodeId, Vec<u8>)> {
        let mut sent = Vec::new();
        let (now, mut dice) = (self.now, self.dice);
        while let Some(effect) = self.driver.next_effect(|_, span| now + span.draw(dice.roll())) {
            match effect {
                Effect::Send { to, message, .. } if to == self.me.id => self.step(Input::Message { from: to, message }),
                Effect::Send { to, message, .. } => {
                    sent.push((to, codec::to_vec(&message).expect("a message of ours can be written")));
                }
                Effect::Persist(record) => {
                    self.record = Some(as_bytes::encode::<A>(&record));
                    self.driver.written();
                }
                Effect::Store(record) => self.step(Input::Stored(record)),
                Effect::Announce(_) | Effect::SetTimer(..) | Effect::CancelTimer(_) => {}
            }
        }
        self.dice = dice;
        sent
    }

    fn frame(&mut self, from: NodeId, bytes: &[u8]) {
        if let Ok(message) = as_bytes::read::<A>(self.row.algorithm, bytes, false) {
            self.step(Input::Message { from, message });
        }
    }
}

fn fuzzed<A: Authority>(row: &'static Row, inputs: &[u8], record: Option<&Kept>) {
    let (view, settings) = (view(row), settings_of(row));
    let mut member = Running::<A>::start(row, ME, &view, &settings, record);
    member.carry_out();
    // Every promise of the process before is over.
    member.passes(Duration::from_secs(1));
    member.carry_out();
    let mut rest = inputs;
    for _ in 0..INPUTS_MAX {
        let [head, length, more @ ..] = rest else { break };
        let (bytes, more) = more.split_at(usize::from(*length).min(more.len()));
        rest = more;
        let from = NodeId(u32::from(head & 1) * 2 + 1);
        match head >> 4 {
            0 => member.step(Input::PeerUp(from)),
            1 => member.step(Input::PeerDown(from)),
            2 => member.step(Input::Command(command(bytes, from))),
            3 => member.passes(Duration::from_millis(u64::from(*length))),
            _ => member.frame(from, bytes),
        }
        member.passes(STEP);
        member.carry_out();
    }
}

fn command(bytes: &[u8], about: NodeId) -> Command {
    match bytes.first() {
        Some(0) => Command::Elect,
        Some(1) => Command::StepDown(None),
        Some(2) => Command::Attached(true),
        Some(3) => Command::Attached(false),
        Some(4) => Command::Pause(true),
        Some(5) => Command::Pause(false),
        Some(6) => Command::StepDown(Some(Duration::from_secs(5))),
        Some(7) => Command::Transfer { to: about, hold: true },
        _ => Command::Transfer { to: about, hold: false },
    }
}

/// A cluster that starts, elects and loses its leader, as one member saw it.
fn honest_run<A: Authority>(row: &'static Row) -> Transcript {
    let (view, settings) = (view(row), settings_of(row));
    let mut members: Vec<Running<'_, A>> =
        (1..=MEMBERS).map(|id| Running::start(row, id, &view, &settings, None)).collect();
    let mut seen = Vec::new();
    for from in (1..=MEMBERS).filter(|&id| id != ME).map(NodeId) {
        seen.extend([(from.0 / 2) as u8, 0]);
    }
    let mut on_the_way: VecDeque<(NodeId, NodeId, Vec<u8>)> = VecDeque::new();
    for member in &mut members {
        let me = member.me.id;
        for id in (1..=MEMBERS).map(NodeId).filter(|&id| id != me) {
            member.step(Input::PeerUp(id));
        }
    }
    for _ in 0..60 {
        for member in &mut members {
            member.passes(STEP);
            let from = member.me.id;
            on_the_way.extend(member.carry_out().into_iter().map(|(to, bytes)| (from, to, bytes)));
        }
        while let Some((from, to, bytes)) = on_the_way.pop_front() {
            let Some(member) = members.iter_mut().find(|member| member.me.id == to) else { continue };
            if to.0 == ME && bytes.len() < 256 && seen.len() < 4096 {
                seen.extend([0x40 | (from.0 / 2) as u8, bytes.len() as u8]);
                seen.extend(&bytes);
            }
            member.frame(from, &bytes);
            on_the_way.extend(member.carry_out().into_iter().map(|(next, bytes)| (to, next, bytes)));
        }
    }
    let me = members.iter().find(|member| member.me.id.0 == ME).expect("one of the members");
    Transcript { inputs: seen, record: me.record.clone() }
}
