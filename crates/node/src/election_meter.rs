//! The cost of an election for this member: the messages of that election, by kind, and nothing else. Counted outside
//! the machine, because the model checker compares the machine's state.

use algorithms::drive::Counts;
use algorithms::{Kind, Message, NodeId, View};
use client::{ElectionCost, ElectionName, KindCount};
use member::{Envelope, NodeSet, Round, Standing};

#[derive(Debug)]
pub(crate) struct ElectionMeter {
    me: NodeId,
    /// Of the algorithm's messages.
    kinds: &'static [Kind],
    election: Option<Counted>,
    /// An algorithm that counts votes asks for them while a leader is still followed: the votes that were asked for and given
    /// since the last election belong to the next one.
    votes: Votes,
    /// Does this member follow a leader, or lead?
    has_leader: bool,
    /// Frames of all elections, since the process started.
    total: u64,
    /// Has the cost changed since it was last asked for?
    changed: bool,
}

#[derive(Debug)]
struct Counted {
    name: Name,
    /// `None`: all members.
    participants: Option<NodeSet>,
    initiator: bool,
    sent: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    sent: Counts,
    asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    Round(Round),
    /// An algorithm that numbers its own attempts searches for a leader.
    Open,
    /// It found the leader of this epoch: messages from now on maintain the order and belong to no election.
    Closed(u64),
}

impl ElectionMeter {
    pub(crate) fn new(me: NodeId, kinds: &'static [Kind]) -> Self {
        let votes = Votes::default();
        ElectionMeter { me, kinds, election: None, votes, has_leader: false, total: 0, changed: false }
    }

    /// Called after every step. `round`: the present round; `joined`: the round that a message asked this member to
    /// join as one of its initiators.
    pub(crate) fn stepped(&mut self, round: Option<Round>, participants: NodeSet, joined: Option<Round>) {
        let Some(round) = round else { return };
        if self.election.as_ref().is_some_and(|election| election.name == Name::Round(round)) {
            return;
        }
        self.changed = true;
        self.election = Some(Counted {
            name: Name::Round(round),
            participants: Some(participants),
            initiator: round.initiator == self.me || joined == Some(round),
            sent: Counts::default(),
        });
    }

    pub(crate) fn sends<L, M: Message, A>(&mut self, envelope: &Envelope<L, M, A>) {
        let (name, message) = match envelope {
            // An effect that waited for the disk may belong to a round that is over.
            Envelope::Round { round, message, .. } => (Name::Round(*round), message),
            Envelope::Plain { message, .. } => (Name::Open, message),
            Envelope::Beat(_) | Envelope::Join { .. } | Envelope::Authority(_) => return,
        };
        self.total += 1;
        if name == Name::Open && self.election.is_none() && !self.has_leader {
            self.open();
        }
        let kind = self.kinds[message.kind()];
        if let Some(election) = self.election.as_mut().filter(|election| election.name == name) {
            election.sent.add(message);
            election.initiator |= name == Name::Open && kind.candidacy;
            self.changed = true;
        } else if name == Name::Open && !kind.announcement && self.kinds.iter().any(|kind| kind.candidacy) {
            self.votes.sent.add(message);
            self.votes.asked |= kind.candidacy;
        }
    }

    /// An algorithm without rounds: its election lasts from the loss of a leader to the next one.
    pub(crate) fn became(&mut self, now: Standing) {
        self.has_leader = now.leader.is_some();
        let name = self.election.as_ref().map(|election| election.name);
        match (name, now.leader) {
            (Some(Name::Open), Some(_)) => self.close(now.epoch.0),
            (Some(Name::Closed(_)), None) => self.open(),
            // Elected before the last leader was lost.
            (Some(Name::Closed(epoch)), Some(_)) if epoch < now.epoch.0 && self.votes.sent.total() > 0 => {
                self.open();
                self.close(now.epoch.0);
            }
            // A process that found a leader when it started, and lost it.
            (None, None) if self.votes.sent.total() > 0 => self.open(),
            (Some(Name::Open | Name::Closed(_) | Name::Round(_)) | None, _) => {}
        }
    }

    fn open(&mut self) {
        self.changed = true;
        let Votes { sent, asked } = std::mem::take(&mut self.votes);
        self.election = Some(Counted { name: Name::Open, participants: None, initiator: asked, sent });
    }

    fn close(&mut self, epoch: u64) {
        self.changed = true;
        if let Some(election) = &mut self.election {
            election.name = Name::Closed(epoch);
        }
    }

    /// The positions of members have changed.
    pub(crate) fn reseat(&mut self, old: &View, new: &View) {
        if let Some(participants) = self.election.as_mut().and_then(|election| election.participants.as_mut()) {
            *participants = participants.reseated(old, new);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The cost, if it has changed since it was last taken.
    pub(crate) fn take_cost(&mut self, full: &View) -> Option<ElectionCost> {
        if std::mem::take(&mut self.changed) { self.cost(full) } else { None }
    }

    pub(crate) fn cost(&self, full: &View) -> Option<ElectionCost> {
        let election = self.election.as_ref()?;
        let kind = |(kind, count): (Kind, u64)| KindCount {
            kind: kind.name.to_owned(),
            announcement: kind.announcement,
            count,
        };
        let takes_part = |at: &usize| election.participants.is_none_or(|set| set.contains(member::FullPos(*at)));
        let ids = (0..full.len()).filter(takes_part).map(|at| full.members()[at].id.0);
        Some(ElectionCost {
            election: match election.name {
                Name::Round(Round { attempt, initiator, incarnation }) => {
                    ElectionName::Round { attempt: attempt.0, initiator: initiator.0, incarnation }
                }
                Name::Open => ElectionName::Epoch(0),
                Name::Closed(epoch) => ElectionName::Epoch(epoch),
            },
            participants: ids.collect(),
            initiator: election.initiator,
            sent: election.sent.by_kind(self.kinds).map(kind).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use algorithms::{Epoch, Uid};
    use member::{Attempt, Beat, FullPos, News, Role};
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
    enum Word {
        Probe,
        Winner,
    }

    impl Message for Word {
        const KINDS: &'static [Kind] = &[Kind::election("probe"), Kind::announcement("winner")];

        fn kind(&self) -> usize {
            usize::from(*self == Word::Winner)
        }
    }

    type Sent = Envelope<NodeId, Word, ()>;

    fn round(attempt: u64, initiator: u32) -> Round {
        Round { attempt: Attempt(attempt), initiator: NodeId(initiator), incarnation: 1 }
    }

    fn in_round(round: Round, message: Word) -> Sent {
        let list = types::Stamp::FIRST;
        Envelope::Round { round, list, participants: everybody(), link: NodeId(1), hops: 0, message }
    }

    fn everybody() -> NodeSet {
        [0, 2].map(FullPos).into_iter().collect()
    }

    fn counts(meter: &ElectionMeter) -> Vec<u64> {
        let full = View::mesh([1, 2, 3].map(Uid::plain).to_vec());
        meter.cost(&full).map_or_else(Vec::new, |cost| cost.sent.iter().map(|kind| kind.count).collect())
    }

    fn standing(leader: Option<u32>, epoch: u64) -> Standing {
        Standing { role: Role::Follower, leader: leader.map(NodeId), epoch: Epoch(epoch) }
    }

    #[test]
    fn a_new_round_counts_from_zero_and_a_late_message_of_the_old_one_is_left_out() {
        let mut meter = ElectionMeter::new(NodeId(1), Word::KINDS);
        assert!(counts(&meter).is_empty());
        meter.stepped(Some(round(4, 1)), everybody(), None);
        meter.sends(&in_round(round(4, 1), Word::Probe));
        meter.sends(&in_round(round(4, 1), Word::Winner));
        assert_eq!(counts(&meter), [1, 1]);
        meter.stepped(Some(round(5, 3)), everybody(), None);
        meter.sends(&in_round(round(4, 1), Word::Probe));
        assert_eq!((counts(&meter), meter.total()), (vec![0, 0], 3));
    }

    #[test]
    fn who_opens_a_round_or_joins_it_as_a_starter_is_an_initiator() {
        let full = View::mesh([1, 2, 3].map(Uid::plain).to_vec());
        let initiator = |opened_by, joined| {
            let mut meter = ElectionMeter::new(NodeId(1), Word::KINDS);
            meter.stepped(Some(round(4, opened_by)), everybody(), joined);
            meter.stepped(Some(round(4, opened_by)), everybody(), None);
            let cost = meter.cost(&full).unwrap();
            assert_eq!(cost.participants, [1, 3]);
            cost.initiator
        };
        assert!(initiator(1, None));
        assert!(initiator(3, Some(round(4, 3))));
        assert!(!initiator(3, None));
        assert!(!initiator(3, Some(round(3, 2))), "asked to join another one");
    }

    #[test]
    fn heartbeats_are_no_messages_of_an_election() {
        let news = News { next_attempt_min: Attempt(1), leader: None, firsthand: false };
        let mut meter = ElectionMeter::new(NodeId(1), Word::KINDS);
        meter.sends(&Sent::Beat(Beat {
            news,
            stands: true,
            ask: true,
            incarnation: 1,
            setbacks: 0,
            priority: 0,
            mode: None,
            hold: None,
        }));
        assert_eq!((counts(&meter), meter.total()), (Vec::new(), 0));
    }

    #[test]
    fn without_rounds_an_election_lasts_from_the_loss_of_a_leader_to_the_next_one() {
        let mut meter = ElectionMeter::new(NodeId(1), Word::KINDS);
        let plain = || Sent::Plain { link: NodeId(2), hops: 0, message: Word::Probe };
        meter.sends(&plain());
        meter.became(standing(Some(3), 7));
        meter.sends(&plain());
        assert_eq!(counts(&meter), [1, 0], "idle messages are not counted");
        meter.became(standing(None, 8));
        meter.sends(&plain());
        meter.sends(&plain());
        meter.became(standing(Some(2), 9));
        assert_eq!((counts(&meter), meter.total()), (vec![2, 0], 4));
    }

    #[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
    enum Ballot {
        Ask,
        Grant,
        Lead,
    }

    impl Message for Ballot {
        const KINDS: &'static [Kind] = &[Kind::candidacy("ask"), Kind::election("grant"), Kind::announcement("lead")];

        fn kind(&self) -> usize {
            self.clone() as usize
        }
    }

    fn votes(meter: &ElectionMeter) -> Option<(Vec<u64>, bool)> {
        let full = View::mesh([1, 2, 3].map(Uid::plain).to_vec());
        let cost = meter.cost(&full)?;
        Some((cost.sent.iter().map(|kind| kind.count).collect(), cost.initiator))
    }

    fn ballot(message: Ballot) -> Envelope<NodeId, Ballot, ()> {
        Envelope::Plain { link: NodeId(2), hops: 0, message }
    }

    #[test]
    fn votes_asked_for_and_given_while_a_leader_is_followed_belong_to_the_next_election() {
        let mut meter = ElectionMeter::new(NodeId(1), Ballot::KINDS);
        meter.sends(&ballot(Ballot::Ask));
        meter.became(standing(Some(1), 7));
        assert_eq!(votes(&meter), Some((vec![1, 0, 0], true)));
        // Heartbeats of a leader belong to no election.
        meter.sends(&ballot(Ballot::Lead));
        assert_eq!(votes(&meter), Some((vec![1, 0, 0], true)));
        meter.sends(&ballot(Ballot::Grant));
        meter.became(standing(None, 8));
        meter.sends(&ballot(Ballot::Lead));
        meter.became(standing(Some(2), 8));
        assert_eq!(votes(&meter), Some((vec![0, 1, 1], false)), "the vote was given before the leader was given up");
        meter.sends(&ballot(Ballot::Grant));
        meter.became(standing(Some(3), 9));
        assert_eq!(votes(&meter), Some((vec![0, 1, 0], false)), "it followed one leader after the other");
    }

    #[test]
    fn what_a_member_sends_to_a_leader_that_it_found_belongs_to_no_election() {
        let mut meter = ElectionMeter::new(NodeId(1), Ballot::KINDS);
        meter.became(standing(None, 7));
        meter.became(standing(Some(2), 7));
        meter.sends(&ballot(Ballot::Lead));
        assert_eq!(votes(&meter), None);
        meter.became(standing(None, 8));
        meter.sends(&ballot(Ballot::Grant));
        meter.became(standing(Some(3), 8));
        assert_eq!(votes(&meter), Some((vec![0, 1, 0], false)));
    }
}
