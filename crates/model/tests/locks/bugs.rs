//! A lock service with one rule broken: the bug stands between the machine and its driver, and changes what goes in and
//! what comes out. Which bug it is, the model says by the random word, which the service itself never draws.

mod heirs;
mod reserved;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use algorithms::drive::{Effect, Effects};
use algorithms::{Epoch, Input, NodeId, Outbox, Protocol, Span};
use locks::central::{Central, CentralMsg, CentralTimer, Chunk, Context, Copy, Entry, Label, Note, Place, Table, Term};
use locks::service::{Grantee, LockSettings, ServiceCommand, ServiceEvent};
use locks::wire::{AttachNumber, Mode, ToClerk, ToClient, Wanted};
use types::{Incarnation, Token};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Bug {
    /// A voter without a copy counts for the majority of copies.
    NothingCounts,
    /// A lock is granted before a majority has noted it.
    GrantsAtOnce,
    /// A voter with an older copy gets notes and no table.
    NotesWithoutTable,
    /// The new clerk takes its own copy, whichever is the newest.
    AnyCopy,
    /// Acknowledgements of earlier epochs count.
    OldAcks,
    /// Sessions of an earlier clerk have no new time to live.
    TtlsGoOn,
    /// A voter takes a table and notes from any clerk.
    Unfenced,
    /// The office opens at once.
    NoWait,
    /// Copies are compared by the number of their last note alone.
    SeqAlone,
    /// A request that is repeated is answered before its note is acknowledged.
    AnswersRepeats,
    /// What a client names as wanted is freed, and then asked for.
    FreesFirst,
    /// The clerk's own copy is not its table.
    StaleOwn,
    /// The table is cleared when the office ends.
    Clears,
    /// What a client does not name when it opens goes on.
    Revives,
    /// An Acquire is answered and does not extend the session.
    AcquireExtendsNothing,
    /// A voter removes all holders of a lock when one is removed.
    RemovesByName,
    /// An Open that comes late counts.
    AnyAttach,
    /// An Open for an earlier clerk counts.
    AnyEpoch,
    /// A voter whose connection broke gets nothing again.
    NoResend,
    /// The new clerk's table has the holders of all copies that it has seen.
    Union,
    /// The heir is granted the lock of a holder that lets go before a majority has noted the heir.
    HeirAtOnce,
    /// The heir is granted the lock of a holder that expired before a majority has noted the end of that holder.
    ExpiredIsGone,
    /// A voter that gets the table leaves heirs out.
    HeirNotInstalled,
    /// A new clerk leaves heirs out of its table.
    HeirNotTakenOver,
    /// A new clerk takes an heir for the holder.
    HeirBeforeHolder,
    /// An heir that is withdrawn stays the heir.
    WithdrawnHeir,
    /// Where the holder or the heir does not name the lock any more, both are freed.
    FreesBoth,
    /// The heir gets the token of the holder.
    HolderToken,
    /// An heir gets the token of one that was withdrawn.
    TokenAgain,
    /// When the session of the heir expires, the holder is freed as well.
    HeirExpiryFreesHolder,
    /// An heir that was granted the lock by an earlier clerk is freed.
    GrantedHeirFreed,
    /// A voter does not note the end of a reservation that another session's request ends.
    ReservationStays,
    /// A new clerk takes a table over without what is reserved in it, and a session may have been granted that.
    ReservedNotTakenOver,
}

const ALL: [Bug; 33] = [
    Bug::NothingCounts,
    Bug::GrantsAtOnce,
    Bug::NotesWithoutTable,
    Bug::AnyCopy,
    Bug::OldAcks,
    Bug::TtlsGoOn,
    Bug::Unfenced,
    Bug::NoWait,
    Bug::SeqAlone,
    Bug::AnswersRepeats,
    Bug::FreesFirst,
    Bug::StaleOwn,
    Bug::Clears,
    Bug::Revives,
    Bug::AcquireExtendsNothing,
    Bug::RemovesByName,
    Bug::AnyAttach,
    Bug::AnyEpoch,
    Bug::NoResend,
    Bug::Union,
    Bug::HeirAtOnce,
    Bug::ExpiredIsGone,
    Bug::HeirNotInstalled,
    Bug::HeirNotTakenOver,
    Bug::HeirBeforeHolder,
    Bug::WithdrawnHeir,
    Bug::FreesBoth,
    Bug::HolderToken,
    Bug::TokenAgain,
    Bug::HeirExpiryFreesHolder,
    Bug::GrantedHeirFreed,
    Bug::ReservationStays,
    Bug::ReservedNotTakenOver,
];

impl Bug {
    /// The word that chooses it.
    pub(crate) fn dice(self) -> u64 {
        self as u64 + 1
    }

    fn of(dice: u64) -> Option<Bug> {
        ALL.get(usize::try_from(dice).ok()?.checked_sub(1)?).copied()
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Buggy {
    central: Central,
    labels: BTreeMap<NodeId, Label>,
    acks: BTreeMap<NodeId, u64>,
    reported: BTreeSet<NodeId>,
    opens: u64,
    at_opening: Option<Copy>,
    /// Of an heir that was withdrawn.
    spare: Option<Token>,
}

impl model::locks::Subject for Buggy {
    fn central(&self) -> &Central {
        &self.central
    }
}

type List = Vec<Effect<Central>>;

impl Protocol for Buggy {
    type Link = NodeId;
    type Message = CentralMsg;
    type Timer = CentralTimer;
    type Command = ServiceCommand;
    type Event = ServiceEvent;
    type Durable = ();
    type Settings = LockSettings;

    fn start(ctx: &Context<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        let central = Central::start(ctx, None, &mut Effects::default());
        let (labels, acks, reported) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Buggy { central, labels, acks, reported, opens: 0, at_opening: None, spare: None }
    }

    fn step(&mut self, ctx: &Context<'_>, mut input: Input<Self>, out: &mut impl Outbox<Self>) {
        let mut list = List::new();
        let epoch = self.epoch();
        let spoils = self.spoil(ctx, &mut input, &mut list);
        match input {
            Input::Message { from, message } => self.message(ctx, from, message, &mut list),
            Input::Command(command) => self.command(ctx, command, &mut list),
            Input::Timer(timer) => self.run(ctx, Input::Timer(timer), &mut list),
            Input::PeerUp(peer) => self.run(ctx, Input::PeerUp(peer), &mut list),
            Input::PeerDown(peer) => self.run(ctx, Input::PeerDown(peer), &mut list),
            Input::Stored(()) => {}
        }
        let opens = self.epoch().is_some() && self.epoch() != epoch;
        if opens {
            self.at_opening = self.central.keeper().copy().cloned();
        }
        self.acknowledge(ctx, &mut list);
        self.spoil_more(ctx, spoils, &mut list);
        for effect in list {
            self.pass_on(ctx, opens, effect, out);
        }
    }
}

impl Buggy {
    fn epoch(&self) -> Option<Epoch> {
        self.central.clerk().map(locks::central::Clerk::epoch)
    }

    fn own(&self) -> Option<Label> {
        self.central.keeper().copy().map(|copy| copy.label)
    }

    fn run(&mut self, ctx: &Context<'_>, input: Input<Central>, list: &mut List) {
        let mut effects = Effects::default();
        self.central.step(ctx, input, &mut effects);
        list.extend(std::iter::from_fn(|| effects.pop()));
    }

    fn message(&mut self, ctx: &Context<'_>, mut from: NodeId, mut message: CentralMsg, list: &mut List) {
        let bug = Bug::of(ctx.dice);
        let own = self.own();
        match &mut message {
            CentralMsg::Report { copy, .. } => {
                let again = self.central.clerk().is_some() && !self.reported.insert(from);
                if bug == Some(Bug::NoResend) && again {
                    return;
                }
                self.labels.remove(&from);
                self.labels.extend(copy.map(|label| (from, label)));
                if self.central.clerk().is_none() {
                    *copy = seen(bug, own, *copy);
                }
            }
            CentralMsg::Fetched { label, chunk, .. } => {
                if bug == Some(Bug::SeqAlone) {
                    *label = seen(bug, own, Some(*label)).unwrap_or(*label);
                }
                if let Some(copy) = self.central.keeper().copy().filter(|_| bug == Some(Bug::Union)) {
                    chunk.entries.extend(entries(&copy.table));
                    chunk.entries.sort_by_key(|entry| (entry.name.clone(), entry.token));
                    chunk.entries.dedup();
                }
            }
            CentralMsg::Ack { seq, .. } => {
                let known = self.acks.entry(from).or_default();
                *known = (*known).max(*seq);
            }
            CentralMsg::Notes { notes, .. } if bug == Some(Bug::ReservationStays) => reserved::keep_reserved(notes),
            CentralMsg::Install { term, .. } | CentralMsg::Notes { term, .. } | CentralMsg::Adopt { term, .. } => {
                let clerk = self.central.keeper().granted().filter(|(_, to)| to.id != ctx.me.id);
                if let Some((epoch, to)) = clerk.filter(|_| bug == Some(Bug::Unfenced)) {
                    (from, *term) = (to.id, Term { epoch, life: to.incarnation });
                }
            }
            CentralMsg::Fetch { .. } | CentralMsg::Pull { .. } => {}
        }
        let removed = removed(&message);
        self.run(ctx, Input::Message { from, message }, list);
        if let Some(copy) = self.central.keeper().copy().filter(|_| bug == Some(Bug::RemovesByName)).cloned()
            && !removed.is_empty()
        {
            let kept = entries(&copy.table).filter(|entry| !removed.iter().any(|place| place.name == entry.name));
            self.set_copy(ctx, copy.label, kept.collect());
        }
    }

    fn command(&mut self, ctx: &Context<'_>, mut command: ServiceCommand, list: &mut List) {
        let bug = Bug::of(ctx.dice);
        match &mut command {
            ServiceCommand::OfficeBegan { wait, .. } => {
                self.reported.clear();
                if bug == Some(Bug::NoWait) {
                    *wait = Duration::ZERO;
                }
            }
            ServiceCommand::Message { message: ToClerk::Open { .. }, .. } => return self.open(ctx, command, list),
            _ => {}
        }
        let acquires = matches!(command, ServiceCommand::Message { message: ToClerk::Acquire { .. }, .. });
        let ends = command == ServiceCommand::OfficeEnded;
        self.run(ctx, Input::Command(command), list);
        if acquires && bug == Some(Bug::AcquireExtendsNothing) {
            list.retain(|effect| !matches!(effect, Effect::SetTimer(CentralTimer::Session(_), _)));
        }
        if let Some(label) = self.own().filter(|_| ends && bug == Some(Bug::Clears)) {
            self.set_copy(ctx, label, Vec::new());
        }
        if let Some(copy) = self.at_opening.take_if(|_| ends && bug == Some(Bug::StaleOwn)) {
            self.set_copy(ctx, copy.label, entries(&copy.table).collect());
        }
    }

    fn open(&mut self, ctx: &Context<'_>, mut command: ServiceCommand, list: &mut List) {
        let (bug, clerk) = (Bug::of(ctx.dice), self.epoch());
        let ServiceCommand::Message { from, message, .. } = &mut command else { return };
        let ToClerk::Open { session, attach, epoch, wants, holds, .. } = message else { return };
        let (stream, id, wanted, real) = (*from, *session, wants.clone(), *attach);
        match bug {
            Some(Bug::AnyEpoch) => *epoch = clerk.unwrap_or(*epoch),
            Some(Bug::AnyAttach) => {
                self.opens += 1;
                *attach = AttachNumber(self.opens);
            }
            Some(Bug::Revives) => {
                let known = self.central.clerk().and_then(|clerk| clerk.sessions().get(id));
                let claims = known.into_iter().flat_map(locks::central::Session::requests);
                let missing = claims.filter(|(request, _)| {
                    holds.iter().all(|held| held.request != **request)
                        && wanted.iter().all(|want| want.request != **request)
                });
                wants.extend(missing.map(|(&request, claim)| {
                    let (name, mode) = (claim.name.clone(), Mode::Exclusive);
                    Wanted { request, name, mode, wait: None, ticket: None, waited: Duration::ZERO }
                }));
            }
            Some(Bug::FreesFirst) => {
                *attach = AttachNumber(2 * real.0);
                wants.clear();
                self.run(ctx, Input::Command(command.clone()), list);
                list.retain(|effect| !is_opened(effect));
                if let ServiceCommand::Message { message: ToClerk::Open { attach, wants, .. }, .. } = &mut command {
                    (*attach, *wants) = (AttachNumber(2 * real.0 + 1), wanted.clone());
                }
            }
            _ => {}
        }
        self.run(ctx, Input::Command(command), list);
        for effect in &mut *list {
            if let Effect::Announce(ServiceEvent::Tell { message: ToClient::Opened { attach, .. }, .. }) = effect {
                *attach = real;
            }
        }
        if bug == Some(Bug::AnswersRepeats) && list.iter().any(is_opened) {
            let known = self.central.clerk().and_then(|clerk| clerk.sessions().get(id));
            for Wanted { request, .. } in wanted {
                if let Some(token) = known.and_then(|known| known.requests().get(&request)?.token) {
                    let message = ToClient::Granted { number: None, request, token };
                    list.push(Effect::Announce(ServiceEvent::Tell { to: stream, message }));
                }
            }
        }
    }

    /// Acknowledgements that no voter has given.
    fn acknowledge(&mut self, ctx: &Context<'_>, list: &mut List) {
        let (Some(epoch), Some(newest)) = (self.epoch(), self.own().map(|label| label.seq)) else { return };
        let acks: Vec<(NodeId, u64)> = match Bug::of(ctx.dice) {
            Some(Bug::GrantsAtOnce) => ctx.view.others(ctx.me.id).map(|peer| (peer.id, newest)).collect(),
            Some(Bug::OldAcks) => self.acks.iter().map(|(&peer, &seq)| (peer, seq.min(newest))).collect(),
            _ => return,
        };
        for (from, seq) in acks {
            self.run(ctx, Input::Message { from, message: CentralMsg::Ack { epoch, seq } }, list);
        }
    }

    /// Gives the machine another copy, as an office of another member would.
    fn set_copy(&mut self, ctx: &Context<'_>, Label { epoch, seq }: Label, entries: Vec<Entry>) {
        let granted = self.central.keeper().granted();
        let Some(peer) = ctx.view.others(ctx.me.id).next() else { return };
        let incarnation = Incarnation { counter: u64::MAX, nonce: u64::MAX };
        let (mut dropped, to) = (List::new(), Grantee { id: peer.id, incarnation });
        self.run(ctx, Input::Command(ServiceCommand::Granted { epoch, to }), &mut dropped);
        let chunk = Chunk { after: None, entries, last: true };
        let message = CentralMsg::Install { term: Term { epoch, life: incarnation }, seq, chunk };
        self.run(ctx, Input::Message { from: peer.id, message }, &mut dropped);
        if let Some((epoch, to)) = granted {
            self.run(ctx, Input::Command(ServiceCommand::Granted { epoch, to }), &mut dropped);
        }
    }

    fn pass_on(&self, ctx: &Context<'_>, opens: bool, effect: Effect<Central>, out: &mut impl Outbox<Self>) {
        let bug = Bug::of(ctx.dice);
        match effect {
            Effect::Send { to, message, .. } => {
                let label = self.labels.get(&to).copied();
                let message = match (message, label) {
                    (CentralMsg::Install { term, .. }, Some(label))
                        if bug == Some(Bug::NotesWithoutTable) && label.epoch < term.epoch =>
                    {
                        CentralMsg::Adopt { term, label }
                    }
                    (CentralMsg::Fetch { term, life, after, .. }, Some(label)) if bug == Some(Bug::SeqAlone) => {
                        CentralMsg::Fetch { term, life, label, after }
                    }
                    (message, _) => message,
                };
                out.send(to, message);
            }
            Effect::SetTimer(timer @ CentralTimer::Session(_), _) if opens && bug == Some(Bug::TtlsGoOn) => {
                out.set_timer(timer, Span::exactly(Duration::ZERO));
            }
            Effect::SetTimer(timer, after) => out.set_timer(timer, after),
            Effect::CancelTimer(timer) => out.cancel_timer(timer),
            Effect::Announce(event) => out.announce(self.respell(bug, event)),
            Effect::Persist(()) | Effect::Store(()) => {}
        }
    }
}

/// The label of a report, as the bug sees it.
fn seen(bug: Option<Bug>, own: Option<Label>, copy: Option<Label>) -> Option<Label> {
    match bug {
        Some(Bug::NothingCounts) => copy.or(Some(Label { epoch: Epoch(0), seq: 0 })),
        Some(Bug::AnyCopy) => copy.map(|label| own.map_or(label, |own| own.min(label))),
        Some(Bug::SeqAlone) => {
            let epoch = own.map_or(Epoch(0), |own| own.epoch);
            copy.map(|label| Label { epoch, ..label })
        }
        _ => copy,
    }
}

fn entries(table: &Table) -> impl Iterator<Item = Entry> + '_ {
    table.iter().map(|(Place { name, token }, &holder)| Entry { name: name.clone(), token: *token, holder })
}

fn removed(message: &CentralMsg) -> Vec<Place> {
    let CentralMsg::Notes { notes, .. } = message else { return Vec::new() };
    let place = |note: &Note| match note {
        Note::Remove { name, token } => Some(Place { name: name.clone(), token: *token }),
        Note::Add(_) => None,
    };
    notes.iter().filter_map(place).collect()
}

fn is_opened(effect: &Effect<Central>) -> bool {
    matches!(effect, Effect::Announce(ServiceEvent::Tell { message: ToClient::Opened { .. }, .. }))
}
