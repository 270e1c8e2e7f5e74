//! Mutual exclusion: the machines of the papers, one file each, and what they share.
//!
//! A machine is told [`Want::Request`] and answers, now or later, with [`Section::Enter`]; it is told [`Want::Exit`]
//! when the work in the critical section is done. It has at most one request at a time: a request while one is open,
//! and an exit outside the section, are ignored. Callers of one member queue in front of its machine.
//!
//! The papers assume that no member fails. So does a machine: it lives in one view, and another view gets new machines.
//! A view may begin while a member is inside its section ([`MutexSettings::holder`]): the machine of that member starts
//! inside, announces nothing, and is told to exit like any other.
//!
//! **Tokens.** Every message that gives a permission, and every token of a token algorithm, carries the largest fencing
//! token that its sender knows of; a machine that enters takes a larger one. So two sections that exclude each other
//! have rising tokens, and a resource that refuses smaller tokens than it has seen is safe from a late write.

pub mod by_election;
pub mod central;
pub mod clock;
pub mod lamport;
pub mod maekawa;
pub mod raymond;
pub mod ricart_agrawala;
pub mod ricart_agrawala_readers;
pub mod suzuki_kasami;
pub mod token_ring;
pub mod zookeeper;
pub mod zookeeper_herd;

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::mutex::LiveMutex;
use crate::protocol::{Kind, Outbox, Protocol};
use crate::view::TypedLink;
use clock::Stamp;
use types::{NodeId, Token, Topology};

/// The two commands of a machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Want {
    /// Enter the critical section, now or later.
    Request(Access),
    /// Leave it.
    Exit,
}

impl Want {
    /// What most machines know: one member in the section.
    pub const ENTER: Want = Want::Request(Access::Exclusive);
}

/// With which other sections a section may overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Access {
    /// A writer: with none.
    #[default]
    Exclusive,
    /// A reader: with those of other readers. A machine without readers treats it as exclusive.
    Shared,
}

impl Access {
    /// Must the two not be inside at the same time?
    pub fn excludes(self, other: Access) -> bool {
        self == Access::Exclusive || other == Access::Exclusive
    }
}

/// What a machine announces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Section {
    /// This member is inside its critical section, under this fencing token.
    Enter(Token),
}

/// What a machine may know of its view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MutexSettings {
    /// The view begins with this one of its members inside its section, alone; `None`: no member is inside.
    pub holder: Option<NodeId>,
    /// No token up to this one is given again; the holder's own is at most this.
    pub floor: Token,
    /// Where a Lamport clock begins.
    pub clock: u64,
    /// How long a member keeps a circulating token that it does not need. Zero passes it on at once, as in the papers:
    /// a driver then ends its run itself, because the token never rests.
    pub idle_hold: Duration,
    /// Which machine [`AnyMutex`](crate::catalog::mutex::AnyMutex) is; the others do not look at it.
    pub machine: Option<LiveMutex>,
}

impl Default for MutexSettings {
    fn default() -> Self {
        MutexSettings { holder: None, floor: Token(0), clock: 0, idle_hold: Duration::ZERO, machine: None }
    }
}

/// Where a machine is between two of its commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Stage {
    #[default]
    Released,
    Wanted,
    Held,
}

impl Stage {
    /// The stage in which a machine starts.
    pub fn at_start(me: NodeId, settings: &MutexSettings) -> Self {
        if settings.holder == Some(me) { Stage::Held } else { Stage::Released }
    }
}

pub trait Mutex:
    Protocol<Link: TypedLink, Command = Want, Event = Section, Settings = MutexSettings, Durable = ()>
{
    /// May readers be inside together?
    const SHARED: bool = false;

    /// Of its links. `machine`: see [`MutexSettings::machine`], here and below.
    fn topology(_machine: Option<LiveMutex>) -> Topology {
        <Self::Link as TypedLink>::TOPOLOGY
    }

    /// May readers be inside together?
    fn shares(_machine: Option<LiveMutex>) -> bool {
        Self::SHARED
    }

    fn stage(&self) -> Stage;

    /// Its Lamport clock, if it has one: for drawings and checks.
    fn clock(&self) -> Option<u64> {
        None
    }

    /// The timestamp of its open request or present section, if it has timestamps.
    fn stamp(&self) -> Option<Stamp> {
        None
    }

    /// A message of the application arrived, and the clock of the member that sent it showed this time. A machine with a
    /// clock moves its own: then what members tell each other outside of the machine is part of happened-before too.
    fn heard(&mut self, _time: u64) {}
}

/// The larger of two tokens, for what a machine knows.
pub(crate) fn learn(known: &mut Token, heard: Token) {
    *known = (*known).max(heard);
}

/// The token of a machine that enters. A hostile peer may name the largest number there is: the next token is then equal.
pub(crate) fn next(known: &mut Token) -> Token {
    *known = Token(known.0.saturating_add(1));
    *known
}

/// Messages to itself take no link: the machine handles them in the same step.
pub(crate) struct Post<'a, P: Protocol, O> {
    pub(crate) me: NodeId,
    pub(crate) own: VecDeque<P::Message>,
    pub(crate) out: &'a mut O,
}

impl<P: Protocol<Link = NodeId>, O: Outbox<P>> Post<'_, P, O> {
    pub(crate) fn send(&mut self, to: NodeId, message: P::Message) {
        if to == self.me { self.own.push_back(message) } else { self.out.send(to, message) }
    }
}

/// The kinds of two message types in one list; the rest of the array is not used.
pub(crate) const fn kinds_with(first: &[Kind], second: &[Kind]) -> [Kind; 16] {
    let mut all = [Kind::mutex(""); 16];
    let mut at = 0;
    while at < first.len() + second.len() {
        all[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    all
}
