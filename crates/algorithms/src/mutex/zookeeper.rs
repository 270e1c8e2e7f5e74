//! The lock recipe of ZooKeeper (Hunt, Konar, Junqueira & Reed 2010): entries with rising numbers at a service, and
//! watches.
//!
//! Model: a full mesh, reliable FIFO links, no failure: sessions do not end. The service is the first member of the view,
//! and may take part itself, without messages.
//!
//! A member that wants to enter creates an entry at the service, which numbers it, and lists all entries. If its own has
//! the smallest number it enters. Otherwise it watches its predecessor, the largest entry below its own, and lists again
//! when the service says that this entry was deleted. At its exit it deletes its entry. (Every member could watch the
//! smallest entry, the holder's: that is the herd, a row of its own.)
//!
//! Messages: 2 to create, 2 to list, 1 to delete: 5 where no other member wants to enter. A member that waits adds 2 to
//! watch, 1 notification and 2 to list: at most 10 per entry. An exit causes 1 notification, however many members wait.
//!
//! Pitfalls. A watch fires once. The watched entry may be gone before the watch arrives: the service says so, and the
//! member lists again. Where sessions end, a predecessor that is deleted need not have been the holder: list again, do
//! not enter. Entries are numbered in the order of arrival at the service: a request that happened before another one may
//! have the larger number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Mutex, MutexSettings, Post, Section, Stage, Want, learn, next};
use crate::protocol::{Ctx, Input, Outbox, Protocol};
use types::{NodeId, Token};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Recipe<const HERD: bool> {
    stage: Stage,
    /// The number of its own entry.
    entry: Option<u64>,
    /// The largest token that it knows of.
    known: Token,
    /// Only at the first member.
    service: Option<Service>,
}

pub type Predecessor = Recipe<false>;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Service {
    /// The largest number of an entry so far.
    numbered: u64,
    entries: BTreeMap<u64, NodeId>,
    /// The members to be told when an entry is deleted.
    watches: BTreeMap<u64, BTreeSet<NodeId>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Msg {
    Create,
    Created {
        entry: u64,
    },
    List,
    Entries {
        all: BTreeSet<u64>,
        token: Token,
    },
    Watch {
        entry: u64,
    },
    /// `exists`: else the entry was gone before the watch arrived.
    Watching {
        exists: bool,
    },
    Deleted {
        entry: u64,
    },
    Delete {
        entry: u64,
        token: Token,
    },
}

kinds!(Msg {
    Create: mutex("create"),
    Created: mutex("created"),
    List: mutex("list"),
    Entries: mutex("entries"),
    Watch: mutex("watch"),
    Watching: mutex("watching"),
    Deleted: mutex("deleted"),
    Delete: mutex("delete"),
});

fn server(ctx: &Ctx<'_, MutexSettings>) -> NodeId {
    ctx.view.members().first().map_or(ctx.me.id, |member| member.id)
}

impl<const HERD: bool> Protocol for Recipe<HERD> {
    type Link = NodeId;
    type Message = Msg;
    type Timer = ();
    type Command = Want;
    type Event = Section;
    type Durable = ();
    type Settings = MutexSettings;

    /// A holder has the entry 0.
    fn start(ctx: &Ctx<'_, MutexSettings>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
        let entries = ctx.settings.holder.map(|holder| (0, holder)).into_iter().collect();
        Recipe {
            stage: Stage::at_start(ctx.me.id, ctx.settings),
            entry: (ctx.settings.holder == Some(ctx.me.id)).then_some(0),
            known: ctx.settings.floor,
            service: (server(ctx) == ctx.me.id).then(|| Service { entries, ..Service::default() }),
        }
    }

    fn step(&mut self, ctx: &Ctx<'_, MutexSettings>, input: Input<Self>, out: &mut impl Outbox<Self>) {
        let mut post = Post { me: ctx.me.id, own: VecDeque::new(), out };
        match input {
            Input::Command(Want::Request(_)) if self.stage == Stage::Released => {
                self.stage = Stage::Wanted;
                post.send(server(ctx), Msg::Create);
            }
            Input::Command(Want::Exit) if self.stage == Stage::Held => {
                self.stage = Stage::Released;
                if let Some(entry) = self.entry.take() {
                    post.send(server(ctx), Msg::Delete { entry, token: self.known });
                }
            }
            Input::Message { from, message } if ctx.view.contains(from) => self.message(ctx, from, message, &mut post),
            _ => {}
        }
        while let Some(message) = post.own.pop_front() {
            self.message(ctx, ctx.me.id, message, &mut post);
        }
    }
}

impl<const HERD: bool> Mutex for Recipe<HERD> {
    fn stage(&self) -> Stage {
        self.stage
    }
}

impl<const HERD: bool> Recipe<HERD> {
    fn message<O: Outbox<Self>>(
        &mut self,
        ctx: &Ctx<'_, MutexSettings>,
        from: NodeId,
        message: Msg,
        post: &mut Post<'_, Self, O>,
    ) {
        match message {
            Msg::Create | Msg::List | Msg::Watch { .. } | Msg::Delete { .. } => self.serve(from, &message, post),
            _ if from != server(ctx) || self.stage != Stage::Wanted => {}
            Msg::Created { entry } => {
                self.entry = Some(entry);
                post.send(from, Msg::List);
            }
            Msg::Entries { all, token } => {
                learn(&mut self.known, token);
                self.listed(ctx, &all, post);
            }
            Msg::Watching { exists: true } => {}
            Msg::Watching { exists: false } | Msg::Deleted { .. } => post.send(from, Msg::List),
        }
    }

    fn listed<O: Outbox<Self>>(
        &mut self,
        ctx: &Ctx<'_, MutexSettings>,
        all: &BTreeSet<u64>,
        post: &mut Post<'_, Self, O>,
    ) {
        let Some(mine) = self.entry else { return };
        let mut before = all.range(..mine);
        let watched = if HERD { before.next() } else { before.next_back() };
        if let Some(&entry) = watched {
            post.send(server(ctx), Msg::Watch { entry });
        } else {
            self.stage = Stage::Held;
            post.out.announce(Section::Enter(next(&mut self.known)));
        }
    }

    /// What the service does.
    fn serve<O: Outbox<Self>>(&mut self, from: NodeId, message: &Msg, post: &mut Post<'_, Self, O>) {
        let Some(service) = &mut self.service else { return };
        match *message {
            // A member has one entry.
            Msg::Create if !service.entries.values().any(|&owner| owner == from) => {
                service.numbered += 1;
                service.entries.insert(service.numbered, from);
                post.send(from, Msg::Created { entry: service.numbered });
            }
            Msg::List => {
                let all = service.entries.keys().copied().collect();
                post.send(from, Msg::Entries { all, token: self.known });
            }
            Msg::Watch { entry } => {
                let exists = service.entries.contains_key(&entry);
                if exists {
                    service.watches.entry(entry).or_default().insert(from);
                }
                post.send(from, Msg::Watching { exists });
            }
            Msg::Delete { entry, token } if service.entries.get(&entry) == Some(&from) => {
                learn(&mut self.known, token);
                service.entries.remove(&entry);
                for member in service.watches.remove(&entry).unwrap_or_default() {
                    post.send(member, Msg::Deleted { entry });
                }
            }
            _ => {}
        }
    }
}
