//! Known wrong readings of the algorithms for graphs: the harness must catch each of them.

use std::marker::PhantomData;

use algorithms::catalog;
use algorithms::election::{dfs, echo};
use algorithms::{Campaign, Ctx, Edge, Election, Input, NodeId, Outbox, Outcome, Protocol, Uid};

use crate::audit::Survey;
use crate::graphs::random_survey;
use crate::subject::Machine;

fn survey_of<E: Election>(name: &str) -> Survey {
    random_survey(catalog::row(name).expect("a row"), &Machine::<E>(PhantomData), 2000)
}

#[test]
fn depth_first_search_that_accepts_at_once_has_two_winners() {
    let survey = survey_of::<AcceptsAtOnce>("dfs");
    assert!(survey.wrong_result > 100, "{survey:?}");
}

#[test]
fn depth_first_search_that_explores_a_rejected_link_again_costs_too_much() {
    let survey = survey_of::<ExploresTwice>("dfs");
    assert!(survey.wrong_result == 0 && survey.wrong_price > 100, "{survey:?}");
}

#[test]
fn an_echo_that_counts_echoes_of_extinct_waves_is_caught() {
    let survey = survey_of::<CountsExtinctEchoes>("echo");
    assert!(survey.wrong_result > 0, "{survey:?}");
}

/// What these mutants share.
macro_rules! mutant {
    ($name:ident, $message:ty) => {
        impl Protocol for $name {
            type Link = Edge;
            type Message = $message;
            type Timer = ();
            type Command = Campaign;
            type Event = Outcome;
            type Durable = ();
            type Settings = algorithms::Settings;

            fn start(_: &Ctx<'_>, _: Option<()>, _: &mut impl Outbox<Self>) -> Self {
                $name::default()
            }

            fn step(&mut self, ctx: &Ctx<'_>, input: Input<Self>, out: &mut impl Outbox<Self>) {
                match input {
                    Input::Command(Campaign) if self.best.is_none() => self.join(ctx, ctx.me, None, out),
                    Input::Message { from: Edge(from), message } => self.message(ctx, from, message, out),
                    _ => {}
                }
            }
        }

        impl Election for $name {}
    };
}

/// Both mutants of the depth-first search; they differ in two lines.
macro_rules! depth_first_search {
    ($name:ident, at_once: $at_once:expr, forgets: $forgets:expr) => {
        #[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
        struct $name {
            best: Option<Uid>,
            parent: Option<NodeId>,
            unexplored: Vec<NodeId>,
            children: Vec<NodeId>,
            decided: bool,
        }

        mutant!($name, dfs::Msg);

        impl $name {
            fn join(&mut self, ctx: &Ctx<'_>, root: Uid, parent: Option<NodeId>, out: &mut impl Outbox<Self>) {
                (self.best, self.parent) = (Some(root), parent);
                self.unexplored = ctx.view.neighbour_ids(ctx.me.id).filter(|&id| Some(id) != parent).collect();
                self.children.clear();
                if let Some(parent) = parent.filter(|_| $at_once) {
                    out.send(Edge(parent), dfs::Msg::Accept(root));
                }
                self.explore(ctx, root, out);
            }

            fn explore(&mut self, ctx: &Ctx<'_>, root: Uid, out: &mut impl Outbox<Self>) {
                match (self.unexplored.pop(), self.parent) {
                    (Some(next), _) => out.send(Edge(next), dfs::Msg::Explore(root)),
                    (None, Some(parent)) if !$at_once => out.send(Edge(parent), dfs::Msg::Accept(root)),
                    (None, None) if root == ctx.me && !self.decided => {
                        self.decided = true;
                        out.announce(Outcome::Won);
                        self.children.iter().for_each(|&child| out.send(Edge(child), dfs::Msg::Leader(root)));
                    }
                    _ => {}
                }
            }

            fn message(&mut self, ctx: &Ctx<'_>, from: NodeId, message: dfs::Msg, out: &mut impl Outbox<Self>) {
                match message {
                    dfs::Msg::Explore(root) => {
                        if self.best.is_none() && ctx.beats(ctx.me, root) {
                            self.join(ctx, ctx.me, None, out);
                        }
                        if self.best == Some(root) {
                            self.unexplored.retain(|&id| id != from || !$forgets);
                            out.send(Edge(from), dfs::Msg::Reject(root));
                        } else if self.best.is_none_or(|best| ctx.beats(root, best)) {
                            self.join(ctx, root, Some(from), out);
                        }
                    }
                    dfs::Msg::Accept(root) | dfs::Msg::Reject(root) if self.best == Some(root) => {
                        if matches!(message, dfs::Msg::Accept(_)) {
                            self.children.push(from);
                        }
                        self.explore(ctx, root, out);
                    }
                    dfs::Msg::Leader(root) if !self.decided => {
                        self.decided = true;
                        out.announce(Outcome::Follow(Some(root)));
                        self.children.iter().for_each(|&child| out.send(Edge(child), dfs::Msg::Leader(root)));
                    }
                    _ => {}
                }
            }
        }
    };
}

depth_first_search!(AcceptsAtOnce, at_once: true, forgets: true);
depth_first_search!(ExploresTwice, at_once: false, forgets: false);

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct CountsExtinctEchoes {
    best: Option<Uid>,
    father: Option<NodeId>,
    missing: Vec<NodeId>,
    children: Vec<NodeId>,
    decided: bool,
}

mutant!(CountsExtinctEchoes, echo::Msg);

impl CountsExtinctEchoes {
    fn join(&mut self, ctx: &Ctx<'_>, wave: Uid, father: Option<NodeId>, out: &mut impl Outbox<Self>) {
        (self.best, self.father) = (Some(wave), father);
        self.children.clear();
        self.missing = ctx.view.neighbour_ids(ctx.me.id).filter(|&id| Some(id) != father).collect();
        self.missing.iter().for_each(|&id| out.send(Edge(id), echo::Msg::Explore(wave)));
        self.done(ctx, wave, out);
    }

    fn done(&mut self, ctx: &Ctx<'_>, wave: Uid, out: &mut impl Outbox<Self>) {
        match self.father {
            _ if !self.missing.is_empty() => {}
            Some(father) => out.send(Edge(father), echo::Msg::Echo(wave)),
            None if wave == ctx.me && !self.decided => {
                self.decided = true;
                out.announce(Outcome::Won);
                self.children.iter().for_each(|&child| out.send(Edge(child), echo::Msg::Leader(wave)));
            }
            None => {}
        }
    }

    fn message(&mut self, ctx: &Ctx<'_>, from: NodeId, message: echo::Msg, out: &mut impl Outbox<Self>) {
        match message {
            echo::Msg::Explore(wave) => {
                if self.best.is_none() && ctx.beats(ctx.me, wave) {
                    self.join(ctx, ctx.me, None, out);
                }
                if self.best == Some(wave) {
                    self.missing.retain(|&id| id != from);
                    self.done(ctx, wave, out);
                } else if self.best.is_none_or(|best| ctx.beats(wave, best)) {
                    self.join(ctx, wave, Some(from), out);
                }
            }
            echo::Msg::Echo(_) => {
                self.missing.retain(|&id| id != from);
                self.children.push(from);
                self.done(ctx, self.best.unwrap_or(ctx.me), out);
            }
            echo::Msg::Leader(wave) if !self.decided => {
                self.decided = true;
                out.announce(Outcome::Follow(Some(wave)));
                self.children.iter().for_each(|&child| out.send(Edge(child), echo::Msg::Leader(wave)));
            }
            echo::Msg::Leader(_) => {}
        }
    }
}
