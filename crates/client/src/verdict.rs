//! The meaning of the views of several members together.

use std::collections::BTreeSet;
use std::fmt;

use types::Role;

use crate::announcement::Transition;
use crate::wire::MemberStatus;

/// One member's view of the leader, from a status or an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    pub id: u32,
    /// Does it claim to lead?
    pub leads: bool,
    pub leader: Option<u32>,
    pub epoch: u64,
}

impl From<&MemberStatus> for View {
    fn from(status: &MemberStatus) -> Self {
        let MemberStatus { id, leader, epoch, .. } = *status;
        View { id, leads: status.role == Role::Leader, leader, epoch }
    }
}

impl View {
    /// The view of a member after its change of standing.
    pub fn after(member: u32, transition: &Transition) -> Self {
        let leader = transition.leader();
        View { id: member, leads: transition.leads(), leader, epoch: transition.now.epoch.0 }
    }
}

/// The members whose answers are needed for a leader to be possible at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Electorate {
    /// Under classic safety a single member can lead.
    Anybody,
    /// A majority of these voters. Learners are not among them.
    Voters(Vec<u32>),
    /// A majority of this many: no config lists the voters, so every member that answers counts.
    Members(usize),
}

impl Electorate {
    /// How many are needed.
    pub fn majority(&self) -> usize {
        match self {
            Electorate::Anybody => 1,
            Electorate::Voters(voters) => voters.len() / 2 + 1,
            Electorate::Members(members) => members / 2 + 1,
        }
    }

    /// How many of these count.
    pub fn counted(&self, answering: impl IntoIterator<Item = u32>) -> usize {
        let counts = |id: &u32| match self {
            Electorate::Voters(voters) => voters.contains(id),
            Electorate::Anybody | Electorate::Members(_) => true,
        };
        answering.into_iter().filter(counts).count()
    }
}

/// The state of a cluster in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All reachable members name one (leader, epoch), and that leader is reachable and claims it.
    Agreed { leader: u32, epoch: u64 },
    /// No two members name different leaders, but not every member has found the leader, or the leader does not answer.
    Electing,
    /// Two members name different leaders.
    Split,
    /// Too few voters answer for any member to lead.
    NoQuorum,
    /// No member answers: nothing is known.
    Unreachable,
}

impl Verdict {
    /// Judges the views of the members that answered, where all members were asked.
    pub fn of(views: &[View], electorate: &Electorate) -> Self {
        Self::of_some(views, electorate, |_| true)
    }

    /// Judges the views of the members that answered. A leader that was not asked need not claim to lead: `asked` returns whether
    /// this member was asked, or could have been.
    pub fn of_some(views: &[View], electorate: &Electorate, asked: impl Fn(u32) -> bool) -> Self {
        let named: BTreeSet<u32> = views.iter().filter_map(|view| view.leader).collect();
        if let Some(View { id, leader: Some(leader), epoch, .. }) = views.iter().find(|view| view.leads) {
            let agreed = |view: &View| view.leader == Some(*leader) && view.epoch == *epoch;
            let claimants = views.iter().filter(|view| view.leads).all(|view| view.id == *id);
            if id == leader && claimants && views.iter().all(agreed) {
                return Verdict::Agreed { leader: *leader, epoch: *epoch };
            }
        }
        if let Some(&View { leader: Some(leader), epoch, .. }) = views.first()
            && views.iter().all(|view| !view.leads && view.leader == Some(leader) && view.epoch == epoch)
            && !asked(leader)
        {
            return Verdict::Agreed { leader, epoch };
        }
        if views.is_empty() {
            Verdict::Unreachable
        } else if named.len() > 1 {
            Verdict::Split
        } else if electorate.counted(views.iter().map(|view| view.id)) < electorate.majority() {
            Verdict::NoQuorum
        } else {
            Verdict::Electing
        }
    }

    pub fn leader(self) -> Option<(u32, u64)> {
        match self {
            Verdict::Agreed { leader, epoch } => Some((leader, epoch)),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Verdict::Agreed { .. } => "AGREED",
            Verdict::Electing => "ELECTING",
            Verdict::Split => "SPLIT",
            Verdict::NoQuorum => "NO QUORUM",
            Verdict::Unreachable => "UNREACHABLE",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

/// Why there is no leader to name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoLeader {
    /// Members name different leaders: (member, its leader).
    Disagree(Vec<(u32, u32)>),
    /// No member names a leader.
    Nobody,
    /// This member is named, but was asked and did not answer, or does not claim to lead.
    Silent(u32),
}

/// The one leader that the members name. Weaker than [`Verdict::Agreed`]: a member that knows no leader does not
/// contradict it (unknown is not disagreement). The leader itself must claim to lead, unless it was not asked:
/// `unanswered` returns whether the endpoint of a member that did not answer could have been this one.
pub fn find_leader(views: &[View], unanswered: impl Fn(u32) -> bool) -> Result<u32, NoLeader> {
    let named: Vec<(u32, u32)> = views.iter().filter_map(|view| Some((view.id, view.leader?))).collect();
    let Some(&(_, leader)) = named.first() else { return Err(NoLeader::Nobody) };
    if named.iter().any(|&(_, other)| other != leader) {
        return Err(NoLeader::Disagree(named));
    }
    let claimed = match views.iter().find(|view| view.id == leader) {
        Some(view) => view.leads,
        None => !unanswered(leader),
    };
    if claimed { Ok(leader) } else { Err(NoLeader::Silent(leader)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(id: u32, leader: impl Into<Option<u32>>, epoch: u64) -> View {
        let leader = leader.into();
        View { id, leads: leader == Some(id), leader, epoch }
    }

    #[test]
    fn agreed_needs_everybody_reachable_and_the_leaders_own_claim() {
        let all = [view(1, 3, 7), view(2, 3, 7), view(3, 3, 7)];
        assert_eq!(Verdict::of(&all, &Electorate::Anybody), Verdict::Agreed { leader: 3, epoch: 7 });
        assert_eq!(
            Verdict::of(&all[1..], &Electorate::Anybody),
            Verdict::Agreed { leader: 3, epoch: 7 },
            "unreachable is no disagreement"
        );
        assert_eq!(Verdict::of(&all[..2], &Electorate::Anybody), Verdict::Electing, "the leader does not answer");
        let mut unclaimed = all;
        unclaimed[2].leads = false;
        assert_eq!(Verdict::of(&unclaimed, &Electorate::Anybody), Verdict::Electing);
    }

    #[test]
    fn one_ignorant_member_or_one_older_epoch_means_electing() {
        assert_eq!(Verdict::of(&[view(1, None, 7), view(3, 3, 7)], &Electorate::Anybody), Verdict::Electing);
        assert_eq!(Verdict::of(&[view(1, 3, 6), view(3, 3, 7)], &Electorate::Anybody), Verdict::Electing);
    }

    #[test]
    fn two_leaders_are_a_split_whoever_names_them() {
        assert_eq!(Verdict::of(&[view(1, 1, 7), view(2, 2, 7)], &Electorate::Anybody), Verdict::Split);
        assert_eq!(Verdict::of(&[view(1, 4, 7), view(2, 5, 7)], &Electorate::Anybody), Verdict::Split);
        assert_eq!(Verdict::of(&[view(1, 4, 7), view(2, 5, 7)], &Electorate::Members(5)), Verdict::Split);
    }

    #[test]
    fn quorum_is_missed_only_where_it_is_needed() {
        let five = Electorate::Members(5);
        assert_eq!((five.majority(), Electorate::Members(4).majority(), Electorate::Anybody.majority()), (3, 3, 1));
        let two = [view(1, None, 7), view(2, None, 7)];
        assert_eq!(Verdict::of(&two, &five), Verdict::NoQuorum);
        assert_eq!(Verdict::of(&two, &Electorate::Anybody), Verdict::Electing);
        for electorate in [Electorate::Anybody, five.clone()] {
            assert_eq!(Verdict::of(&[], &electorate), Verdict::Unreachable, "nothing is known");
        }
        // A leader with a running lease leads, however few of its followers answer a client.
        assert_eq!(Verdict::of(&[view(1, 1, 7)], &five), Verdict::Agreed { leader: 1, epoch: 7 });
    }

    #[test]
    fn a_leader_that_was_not_asked_need_not_answer() {
        let one = [view(2, 4, 7)];
        let only_two = |id| id == 2;
        assert_eq!(Verdict::of_some(&one, &Electorate::Members(5), only_two), Verdict::Agreed { leader: 4, epoch: 7 });
        assert_eq!(Verdict::of_some(&one, &Electorate::Anybody, |id| id == 4), Verdict::Electing, "4 does not answer");
        assert_eq!(
            Verdict::of_some(&[view(2, 4, 7), view(3, 4, 6)], &Electorate::Anybody, only_two),
            Verdict::Electing
        );
        assert_eq!(Verdict::of_some(&[view(2, 4, 7), view(3, 5, 7)], &Electorate::Anybody, only_two), Verdict::Split);
        assert_eq!(Verdict::of_some(&[view(2, None, 7)], &Electorate::Anybody, only_two), Verdict::Electing);
    }

    #[test]
    fn learners_neither_make_a_majority_nor_raise_it() {
        let electorate = Electorate::Voters(vec![1, 2]);
        let unsure = [1, 2, 3, 4, 5].map(|id| view(id, None, 7));
        assert_eq!(Verdict::of(&unsure[..2], &electorate), Verdict::Electing, "both voters are enough");
        assert_eq!(Verdict::of(&unsure[1..], &electorate), Verdict::NoQuorum, "one voter and three learners are not");
        assert_eq!(Verdict::of(&unsure, &electorate), Verdict::Electing);
    }

    #[test]
    fn unknown_is_not_disagreement() {
        let all_asked = |_| true;
        assert_eq!(find_leader(&[view(1, None, 7), view(3, 3, 7)], all_asked), Ok(3));
        assert_eq!(find_leader(&[view(1, None, 7)], all_asked), Err(NoLeader::Nobody));
        let two = [view(1, 4, 7), view(2, 5, 7)];
        assert_eq!(find_leader(&two, all_asked), Err(NoLeader::Disagree(vec![(1, 4), (2, 5)])));
    }

    #[test]
    fn a_leader_that_was_asked_must_claim_it() {
        let one = [view(1, 5, 7)];
        assert_eq!(find_leader(&one, |id| id == 5), Err(NoLeader::Silent(5)));
        assert_eq!(find_leader(&one, |_| false), Ok(5), "only member 1 was asked");
        let resigned = [view(1, 5, 7), view(5, None, 7)];
        assert_eq!(find_leader(&resigned, |_| false), Err(NoLeader::Silent(5)));
    }
}
