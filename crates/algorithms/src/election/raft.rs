//! Raft's leader election: Ongaro & Ousterhout 2014, "In search of an understandable consensus algorithm", with the
//! pre-vote, the check of the quorum, the lease and the transfer of Ongaro's dissertation.
//!
//! Model: a full mesh, crashed nodes recover with their disk, no bound on delays for safety; a leader is found once
//! messages are fast compared with E. A majority of the voters must live.
//!
//! Time is divided into terms. A node votes once in a term, and its term and its vote are on the disk before the answer
//! leaves, so a term has at most one leader, over restarts too. A node that has not heard a leader for a random time
//! between E and 2E asks the voters whether they would elect it (PRE-VOTE, which changes nothing); if a majority would, it
//! moves to the next term, votes for itself and asks again (VOTE). With a majority of votes it leads, and says so with
//! HEARTBEAT. A node that sees a later term moves to it and follows. The log of a replicated state machine is empty here,
//! so every candidate's log is as good as any other.
//!
//! The lease. A node that heard a leader less than E ago gives no vote and does not even take the term of the request; a
//! restarted node behaves as if it had heard one. So once a majority has acknowledged a heartbeat no other node can be
//! elected within E of the moment at which the heartbeat was sent. The leader counts 0.9 E from there, which leaves 5 %
//! for the error of each clock, and steps down when no later heartbeat was acknowledged by a majority (check-quorum). So
//! two leaders with a lease never overlap. Under `safety = "quorum"` this lease is not used: the election only proposes.
//!
//! Transfer. The leader gives up its lease and sends TIMEOUT-NOW to its successor, which asks for votes at once, without
//! PRE-VOTE; voters answer such a request although they hear the leader. A leader that is not replaced goes on, but
//! has no lease in this term any more: TIMEOUT-NOW may still arrive.
//!
//! Learners follow the leader's heartbeats; they neither vote nor count. A witness votes and does not ask for votes.
//!
//! Messages of an undisturbed election of n nodes, k of them alive, one candidate: n-1 PRE-VOTE, k-1 replies, n-1 VOTE,
//! k-1 replies; then n-1 HEARTBEAT and k-1 replies. So 4(n-1) and 2(n-1) if all live. Six message times. Candidates at
//! the same moment may share the votes out so that none has a majority: each further term costs n-1 requests a candidate.
//!
//! Ids decide nothing: the first candidate that a majority hears wins, and a better member does not take over from a
//! healthy leader. A cluster of one elects itself without a message. Two members elect only together: the death of either
//! leaves none, so two are less available than one.
//!
//! Chosen where the paper leaves room: E is `coordinator_timeout`, the time between two heartbeats `answer_timeout`, a
//! tenth of it; a node without a record waits for its first order or message and not for a timeout; a request is repeated
//! to a node whose connection comes up; a leader that is ordered to elect hands over to itself, in the next term, and any
//! other node that hears a leader leaves it alone; a node that hears a heartbeat of an earlier term answers with its own term, so
//! that a leader cannot be ignored for ever.

mod leader;
mod messages;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::protocol::{Campaign, Ctx, Election, Features, Input, Outbox, Outcome, Protocol, Span};
use crate::settings::Settings;
use leader::Leadership;
pub use messages::Msg;
use types::{Epoch, NodeId};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Raft {
    ballot: Ballot,
    role: Role,
    /// The leader of this term, if this node has heard it; the node itself if it leads.
    leader: Option<NodeId>,
    /// Heard a leader less than E ago: gives no vote.
    bound: bool,
    /// May be elected.
    stands: bool,
    /// A message has raised the term by a leap less than E ago.
    leapt: bool,
}

/// What must be on the disk before anything is said of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Ballot {
    pub term: u64,
    pub voted_for: Option<NodeId>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Role {
    Follower,
    Candidate(Candidacy),
    Leader(Leadership),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Candidacy {
    request: Request,
    granted: BTreeSet<NodeId>,
    refused: BTreeSet<NodeId>,
}

/// What a candidate asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Request {
    PreVote,
    Vote { transfer: bool },
}

/// Of timers that are due at one moment the first named fires first: a node that asks for votes is no longer bound.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// E has passed since a leader was heard.
    Contact,
    /// No leader was heard for the random time of an election timeout.
    Election,
    /// Of a leader: the lease ends, or the heartbeat that was to renew it is too old.
    Lease(Slot),
    /// Of a leader: the next heartbeat is to be sent.
    Heartbeat,
    /// The term may leap again.
    Leap,
}

/// A leader's two lease timers: one runs for the present lease, the other from the heartbeat that is to renew it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Slot {
    A,
    B,
}

impl Protocol for Raft {
    type Link = NodeId;
    type Message = Msg;
    type Timer = Timer;
    type Command = Campaign;
    type Event = Outcome;
    type Durable = Ballot;
    type Settings = Settings;

    fn start(ctx: &Ctx<'_>, stored: Option<Ballot>, out: &mut impl Outbox<Self>) -> Self {
        let ballot = stored.unwrap_or_default();
        let bound = stored.is_some();
        if bound {
            out.set_timer(Timer::Contact, Span::exactly(election_timeout(ctx)));
            wait(ctx, out);
        }
        Raft { ballot, role: Role::Follower, leader: None, bound, stands: true, leapt: false }
    }

    fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        match input {
            Input::Command(Campaign) => self.ordered(ctx, out),
            Input::Message { from, message } if ctx.view.contains(from) => self.message(ctx, from, message, out),
            Input::Timer(timer) => self.timer(ctx, timer, out),
            Input::PeerUp(peer) if peer == ctx.me.id => {
                self.stands = true;
                wait(ctx, out);
            }
            Input::PeerDown(peer) if peer == ctx.me.id => {
                self.stands = false;
                if !matches!(self.role, Role::Follower) {
                    self.retire(ctx, out);
                }
            }
            Input::PeerUp(peer) => self.ask_again(ctx, peer, out),
            // The lease of a leader that was heard still runs.
            Input::PeerDown(peer) if self.leader == Some(peer) => self.leader = None,
            Input::PeerDown(_) | Input::Message { .. } | Input::Stored(_) => {}
        }
    }
}

impl Election for Raft {
    const FEATURES: Features = Features {
        continuous: true,
        has_terms: true,
        chance_decides: true,
        votes: true,
        hands_over: true,
        ..Features::PLAIN
    };

    fn term(&self) -> Option<Epoch> {
        Some(Epoch(self.ballot.term))
    }

    fn vote(me: NodeId, to: NodeId, message: &Msg) -> Option<(Epoch, NodeId)> {
        match *message {
            Msg::Vote { term, .. } => Some((Epoch(term), me)),
            Msg::VoteReply { term, granted: true } => Some((Epoch(term), to)),
            _ => None,
        }
    }

    fn hand_over(&mut self, ctx: &Ctx<'_>, to: NodeId, out: &mut impl Outbox<Self>) {
        self.transfer(ctx, to, out);
    }
}

impl Raft {
    /// The record of this node: its term, and its vote in it.
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    fn may_campaign(&self, ctx: &Ctx<'_>) -> bool {
        self.stands && ctx.settings.votes(ctx.me.id)
    }

    /// An order to elect. A leader asks to be elected again, in the next term; a node that hears a leader names it again.
    fn ordered(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        match (&self.role, self.leader) {
            (Role::Leader(_), _) => self.campaign(ctx, true, out),
            (_, Some(leader)) => out.announce(Outcome::Follow(ctx.view.uid(leader))),
            (Role::Follower, None) if !self.bound => self.ask_before(ctx, out),
            // The election timer runs.
            (Role::Follower | Role::Candidate(_), None) => {}
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, from: NodeId, message: Msg, out: &mut impl Outbox<Self>) {
        if !self.believes(ctx, message.term(), out) {
            return;
        }
        match message {
            Msg::PreVote { term } => self.pre_vote(ctx, from, term, out),
            Msg::Vote { term, transfer } => self.vote(ctx, from, term, transfer, out),
            Msg::Heartbeat { term, number } => self.heartbeat(ctx, from, term, number, out),
            Msg::TimeoutNow { term } => {
                if term == self.ballot.term && self.leader == Some(from) && self.may_campaign(ctx) {
                    self.campaign(ctx, true, out);
                }
            }
            // Names the next term of this node, which it has not reached.
            Msg::PreVoteReply { term, granted: true } => {
                if term == self.ballot.term + 1 {
                    self.answered(ctx, from, true, true, out);
                }
            }
            Msg::PreVoteReply { term, .. } | Msg::VoteReply { term, .. } | Msg::HeartbeatReply { term, .. }
                if term > self.ballot.term =>
            {
                self.enter(ctx, Ballot { term, voted_for: None }, out);
            }
            Msg::PreVoteReply { granted, .. } => self.answered(ctx, from, true, granted, out),
            Msg::VoteReply { term, granted } => {
                if term == self.ballot.term {
                    self.answered(ctx, from, false, granted, out);
                }
            }
            Msg::HeartbeatReply { term, number } => {
                if term == self.ballot.term {
                    self.acknowledged(ctx, from, number, out);
                }
            }
        }
    }

    fn timer(&mut self, ctx: &Ctx<'_>, timer: Timer, out: &mut impl Outbox<Self>) {
        match timer {
            Timer::Contact => self.bound = false,
            Timer::Election => {
                if !self.leads() {
                    self.retire(ctx, out);
                    self.ask_before(ctx, out);
                }
            }
            Timer::Lease(slot) => self.lease_over(ctx, slot, out),
            Timer::Heartbeat => self.beat(ctx, out),
            Timer::Leap => self.leapt = false,
        }
    }

    /// An election takes one term or a few. A message that names a term far ahead is not believed, but this node moves a
    /// leap towards it, because it may have been away for long; only one leap in the time of E, so that a single member
    /// cannot use all terms up. A node that knows of no term has nothing to measure a leap from.
    fn believes(&mut self, ctx: &Ctx<'_>, term: u64, out: &mut impl Outbox<Self>) -> bool {
        let ahead = term.saturating_sub(self.ballot.term);
        if term > Epoch::MAX.0 {
            return false;
        }
        if self.ballot.term == 0 || ahead <= Epoch::MAX_STEP {
            return true;
        }
        if std::mem::replace(&mut self.leapt, true) {
            return false;
        }
        out.set_timer(Timer::Leap, Span::exactly(election_timeout(ctx)));
        if ahead > Epoch::MAX_LEAP {
            self.enter(ctx, Ballot { term: self.ballot.term + Epoch::MAX_LEAP, voted_for: None }, out);
        }
        ahead <= Epoch::MAX_LEAP
    }

    /// Another term, or the own vote in this one.
    fn enter(&mut self, ctx: &Ctx<'_>, ballot: Ballot, out: &mut impl Outbox<Self>) {
        self.ballot = ballot;
        out.persist(ballot);
        self.retire(ctx, out);
    }

    /// A follower of no leader.
    fn retire(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if let Role::Leader(_) = std::mem::replace(&mut self.role, Role::Follower) {
            leader::cancel_timers(out);
            wait(ctx, out);
        }
        if self.leader.take().is_some() {
            out.announce(Outcome::Halted);
        }
    }

    fn ask_before(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        if self.may_campaign(ctx) {
            self.ask(ctx, Request::PreVote, out);
        }
    }

    /// To the next term, in which this node votes for itself.
    fn campaign(&mut self, ctx: &Ctx<'_>, transfer: bool, out: &mut impl Outbox<Self>) {
        let term = self.ballot.term + 1;
        if term <= Epoch::MAX.0 {
            self.enter(ctx, Ballot { term, voted_for: Some(ctx.me.id) }, out);
            self.ask(ctx, Request::Vote { transfer }, out);
        }
    }

    fn ask(&mut self, ctx: &Ctx<'_>, request: Request, out: &mut impl Outbox<Self>) {
        self.role =
            Role::Candidate(Candidacy { request, granted: BTreeSet::from([ctx.me.id]), refused: BTreeSet::new() });
        wait(ctx, out);
        for voter in ctx.view.others(ctx.me.id).filter(|uid| ctx.settings.votes(uid.id)) {
            out.send(voter.id, self.question(request));
        }
        self.count(ctx, out);
    }

    fn question(&self, request: Request) -> Msg {
        match request {
            Request::PreVote => Msg::PreVote { term: self.ballot.term + 1 },
            Request::Vote { transfer } => Msg::Vote { term: self.ballot.term, transfer },
        }
    }

    fn answered(&mut self, ctx: &Ctx<'_>, from: NodeId, pre: bool, granted: bool, out: &mut impl Outbox<Self>) {
        let Role::Candidate(candidacy) = &mut self.role else { return };
        if pre == (candidacy.request == Request::PreVote) {
            let side = if granted { &mut candidacy.granted } else { &mut candidacy.refused };
            side.insert(from);
            self.count(ctx, out);
        }
    }

    fn count(&mut self, ctx: &Ctx<'_>, out: &mut impl Outbox<Self>) {
        let Role::Candidate(Candidacy { request, granted, refused }) = &self.role else { return };
        match request {
            Request::PreVote if is_majority(ctx, granted) => self.campaign(ctx, false, out),
            Request::Vote { .. } if is_majority(ctx, granted) => self.lead(ctx, out),
            _ if is_majority(ctx, refused) => self.role = Role::Follower,
            _ => {}
        }
    }

    fn pre_vote(&mut self, ctx: &Ctx<'_>, from: NodeId, term: u64, out: &mut impl Outbox<Self>) {
        if ctx.settings.votes(ctx.me.id) {
            let granted = term > self.ballot.term && !self.bound && !self.leads();
            out.send(from, Msg::PreVoteReply { term: if granted { term } else { self.ballot.term }, granted });
        }
    }

    fn vote(&mut self, ctx: &Ctx<'_>, from: NodeId, term: u64, transfer: bool, out: &mut impl Outbox<Self>) {
        let hears_leader = self.bound || self.leads();
        if (hears_leader && !transfer) || !ctx.settings.votes(ctx.me.id) || !ctx.settings.votes(from) {
            return;
        }
        let ballot = Ballot { term, voted_for: Some(from) };
        let free = term == self.ballot.term && self.ballot.voted_for.is_none();
        if term > self.ballot.term || free {
            self.enter(ctx, ballot, out);
            wait(ctx, out);
        }
        out.send(from, Msg::VoteReply { term: self.ballot.term, granted: self.ballot == ballot });
    }

    fn heartbeat(&mut self, ctx: &Ctx<'_>, from: NodeId, term: u64, number: u64, out: &mut impl Outbox<Self>) {
        if term > self.ballot.term {
            self.enter(ctx, Ballot { term, voted_for: None }, out);
        }
        out.send(from, Msg::HeartbeatReply { term: self.ballot.term, number });
        if term < self.ballot.term || self.leads() {
            return;
        }
        self.role = Role::Follower;
        self.bound = true;
        out.set_timer(Timer::Contact, Span::exactly(election_timeout(ctx)));
        wait(ctx, out);
        if self.leader.replace(from) != Some(from) {
            out.announce(Outcome::Follow(ctx.view.uid(from)));
        }
    }

    /// What was sent before the connection came up is lost.
    fn ask_again(&self, ctx: &Ctx<'_>, peer: NodeId, out: &mut impl Outbox<Self>) {
        match &self.role {
            Role::Follower => {}
            Role::Candidate(Candidacy { request, granted, refused }) => {
                let open = !granted.contains(&peer) && !refused.contains(&peer);
                if open && ctx.view.contains(peer) && ctx.settings.votes(peer) {
                    out.send(peer, self.question(*request));
                }
            }
            Role::Leader(leadership) => out.send(peer, leadership.heartbeat(self.ballot.term)),
        }
    }
}

/// E.
fn election_timeout(ctx: &Ctx<'_>) -> Duration {
    ctx.settings.coordinator_timeout
}

/// For a leader, or for the end of the own candidacy.
fn wait(ctx: &Ctx<'_>, out: &mut impl Outbox<Raft>) {
    let least = election_timeout(ctx);
    out.set_timer(Timer::Election, Span { min: least, max: 2 * least });
}

fn is_majority(ctx: &Ctx<'_>, nodes: &BTreeSet<NodeId>) -> bool {
    let voters = || ctx.view.members().iter().filter(|uid| ctx.settings.votes(uid.id));
    2 * voters().filter(|uid| nodes.contains(&uid.id)).count() > voters().count()
}
