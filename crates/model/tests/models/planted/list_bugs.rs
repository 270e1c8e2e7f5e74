//! Bugs of lists, each of which breaks one rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use algorithms::drive::Effect;
use algorithms::{Epoch, Input, NodeId};
use member::reign::{Msg, Reign, ReignCommand, ReignEvent, VoterRecord};
use member::{Context, ListEvent};
use types::{MemberList, Stamp};

use crate::wrapper::{Bug, start, step};

type List = Vec<Effect<Reign>>;

fn list_in(message: &mut Msg) -> Option<&mut Arc<MemberList>> {
    match message {
        Msg::Probe { list, .. }
        | Msg::ProbeDenied { list, .. }
        | Msg::Bid { list, .. }
        | Msg::Refuse { list, .. }
        | Msg::SurveyReply { list, .. }
        | Msg::List { list, .. } => Some(list),
        _ => None,
    }
}

fn restamped(list: &MemberList, stamp: Stamp) -> Arc<MemberList> {
    Arc::new(list.stamped(stamp))
}

/// The request of the last bid among these effects.
fn request(effects: &List) -> Option<(Epoch, u64)> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Send { message: Msg::Bid { epoch, request, .. }, .. } => Some((*epoch, *request)),
        _ => None,
    })
}

/// As if these voters had granted this request.
fn granted(reign: &mut Reign, ctx: &Context<'_>, (epoch, request): (Epoch, u64), by: &[NodeId], out: &mut List) {
    let incarnation = reign.holder().incarnation;
    for &from in by.iter().filter(|&&id| id != ctx.me.id) {
        step(
            reign,
            ctx,
            Input::Message {
                from,
                message: Msg::Ack { epoch, request, incarnation, locks: member::reign::LockPast::default() },
            },
            out,
        );
    }
}

/// Lists are compared by a number that counts all lists, whichever leader made them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ByNumber;

fn number(stamp: Stamp) -> u64 {
    stamp.epoch.0 + u64::from(stamp.n)
}

impl Bug<Reign> for ByNumber {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        let own = Arc::clone(reign.list());
        if let Input::Message { message: Msg::Bid { list, .. }, .. } = &mut input
            && list.stamp != own.stamp
            && number(list.stamp) == number(own.stamp)
            && list.votes(ctx.me.id)
        {
            // The same number: it is taken for the same list.
            *list = own;
        }
        step(reign, ctx, input, out);
    }
}

/// A leader changes the list without stamping it first. As if all voters had it already, and no time had passed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct NoAffirmation;

impl Bug<Reign> for NoAffirmation {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        let unaffirmed = reign
            .proposal()
            .is_some_and(|(force, sent)| force.stamp == sent.stamp && Some(force.stamp.epoch) != reign.leads());
        if unaffirmed && matches!(input, Input::Command(ReignCommand::Change(_))) {
            let mut silent = Vec::new();
            step(reign, ctx, input.clone(), &mut silent);
            if let Some(bid) = request(&silent) {
                let voters: Vec<NodeId> = reign.list().voters().collect();
                granted(reign, ctx, bid, &voters, &mut silent);
            }
            let told = |effect: &Effect<Reign>| {
                let list = matches!(effect, Effect::Announce(ReignEvent::List(_)));
                matches!(effect, Effect::SetTimer(..) | Effect::CancelTimer(_) | Effect::Announce(_)) && !list
            };
            out.extend(silent.into_iter().filter(told));
        }
        step(reign, ctx, input, out);
    }
}

/// A candidate stamps the list that it stands under.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct StampsBids;

impl Bug<Reign> for StampsBids {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        let led = reign.leads().is_some();
        step(reign, ctx, input, out);
        let Some((epoch, _)) = request(out).filter(|_| !led && reign.leads().is_none()) else { return };
        for effect in out.iter_mut() {
            match effect {
                Effect::Send { message: Msg::Bid { list, .. }, .. } => *list = restamped(list, Stamp::new(epoch, 0)),
                Effect::Persist(VoterRecord { vote: Some(vote), .. }) => {
                    vote.list = restamped(&vote.list, Stamp::new(epoch, 0));
                }
                _ => {}
            }
        }
    }
}

/// A leader does not wait for a pending list: it sends the next one, made from the list in force and this change as well.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ChangesTwice {
    sent: Option<(Stamp, Arc<MemberList>)>,
}

impl Bug<Reign> for ChangesTwice {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        if let (Input::Command(ReignCommand::Change(types::Change::List(listed))), Some((force, sent))) =
            (&input, reign.proposal())
            && force.stamp != sent.stamp
        {
            let mut next = sent.stamped(Stamp::new(sent.stamp.epoch, sent.stamp.n + 1));
            next.members.push(listed.clone());
            self.sent = Some((sent.stamp, Arc::new(next)));
        }
        step(reign, ctx, input, out);
        let Some((of, next)) = &self.sent else { return };
        for effect in out.iter_mut() {
            match effect {
                Effect::Send { message: Msg::Bid { list, .. }, .. } if list.stamp == *of => *list = Arc::clone(next),
                Effect::Persist(VoterRecord { vote: Some(vote), .. }) if vote.list.stamp == *of => {
                    vote.list = Arc::clone(next);
                }
                Effect::Announce(ReignEvent::List(ListEvent::InForce(list))) if list.stamp == *of => {
                    *list = Arc::clone(next);
                }
                _ => {}
            }
        }
    }
}

/// A majority of the list in force puts the next one in force.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct OldMajority {
    acks: BTreeMap<u64, Vec<NodeId>>,
}

impl Bug<Reign> for OldMajority {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        let ack = match &input {
            &Input::Message { from, message: Msg::Ack { epoch, request, .. } } => Some((from, epoch, request)),
            _ => None,
        };
        step(reign, ctx, input, out);
        let Some((from, epoch, request)) = ack else { return };
        self.acks.retain(|&of, _| of == request);
        let acks = self.acks.entry(request).or_default();
        acks.extend([from, ctx.me.id]);
        let Some((force, sent)) = reign.proposal() else { return };
        if force.stamp != sent.stamp && force.is_majority(|id| acks.contains(&id)) {
            let all: Vec<NodeId> = sent.voters().collect();
            granted(reign, ctx, (epoch, request), &all, out);
        }
    }
}

/// The list is not on the disk: after a restart the voter has the first one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ForgetsList;

impl Bug<Reign> for ForgetsList {
    fn start(ctx: &Context<'_>, stored: Option<VoterRecord>, out: &mut List) -> Reign {
        let mut stored = stored.unwrap_or_default();
        if let Some(vote) = &mut stored.vote {
            vote.list = Arc::default();
        }
        start(ctx, Some(stored), out)
    }
}

/// Grants an epoch under an older list than its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AnyList;

impl Bug<Reign> for AnyList {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        let own = Arc::clone(reign.list());
        if let Input::Message { message: Msg::Bid { list, .. }, .. } = &mut input
            && list.stamp < own.stamp
        {
            *list = own;
        }
        step(reign, ctx, input, out);
    }
}

/// Takes over the older list besides, and has it on its disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct AdoptsOlder;

impl Bug<Reign> for AdoptsOlder {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        let (own, mut older) = (Arc::clone(reign.list()), None);
        if let Input::Message { message: Msg::Bid { list, .. }, .. } = &mut input
            && list.stamp < own.stamp
        {
            older = Some(std::mem::replace(list, own));
        }
        step(reign, ctx, input, out);
        for effect in out {
            if let (Effect::Persist(VoterRecord { vote: Some(vote), .. }), Some(older)) = (effect, &older) {
                vote.list = Arc::clone(older);
            }
        }
    }
}

/// The answer of a member that is no voter of the pending list, to whichever request, fills a majority.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct CountsRemoved {
    last: Option<u64>,
}

impl Bug<Reign> for CountsRemoved {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        if let (Input::Message { from, message: Msg::Ack { request, .. } }, Some((_, sent))) =
            (&mut input, reign.proposal())
            && !sent.votes(*from)
            && let (Some(last), Some(other)) = (self.last, sent.voters().find(|&id| id != ctx.me.id))
        {
            (*from, *request) = (other, last);
        }
        step(reign, ctx, input, out);
        self.last = request(out).map(|(_, request)| request).or(self.last);
    }
}

/// What a blank voter makes of the answers to its survey.
fn replies(reign: &mut Reign, ctx: &Context<'_>, from: &[NodeId], message: &Msg, out: &mut List) {
    for &from in from.iter().filter(|&&id| id != ctx.me.id) {
        step(reign, ctx, Input::Message { from, message: message.clone() }, out);
    }
}

/// Half of the other voters, rounded up, can tell a blank voter what was granted.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct HalfTells {
    told: Vec<NodeId>,
}

impl Bug<Reign> for HalfTells {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        let reply = match &input {
            Input::Message { from, message: message @ Msg::SurveyReply { epoch: Some(_), .. } } => {
                Some((*from, message.clone()))
            }
            _ => None,
        };
        step(reign, ctx, input, out);
        if let Some((from, message)) = reply {
            self.told.push(from);
            let voters: Vec<NodeId> = reign.known_list().voters().collect();
            if reign.is_blank() && self.told.len() >= voters.len().div_ceil(2) {
                replies(reign, ctx, &voters, &message, out);
            }
        }
    }
}

/// A blank voter counts answers in the list of its file, and never hears of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct CountsInFile;

impl Bug<Reign> for CountsInFile {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, mut input: Input<Reign>, out: &mut List) {
        if let Input::Message { message, .. } = &mut input
            && reign.is_blank()
            && let Some(list) = list_in(message)
        {
            *list = Arc::clone(reign.list());
        }
        step(reign, ctx, input, out);
    }
}

/// The answer of a member without a vote tells a blank voter as much as a voter's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LearnersTell;

impl Bug<Reign> for LearnersTell {
    fn step(&mut self, reign: &mut Reign, ctx: &Context<'_>, input: Input<Reign>, out: &mut List) {
        let (from, reply) = match &input {
            Input::Message { from, message: message @ Msg::SurveyReply { .. } } => (*from, Some(message.clone())),
            _ => (ctx.me.id, None),
        };
        step(reign, ctx, input, out);
        let known = Arc::clone(reign.known_list());
        if let Some(message) = reply.filter(|_| reign.is_blank() && !known.votes(from)) {
            let voters: Vec<NodeId> = known.voters().collect();
            replies(reign, ctx, &voters, &message, out);
        }
    }
}
