//! Repeats a goal to the present leader until it is reached, refused, or undecided when the time is up.

use std::time::Duration;

use client::{Client, ClientError, FailCode, LeaderClient};
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};
use types::{Change, MemberList, Membership, NodeId, PeerRole, Stamp};

use super::goal::{Candidate, Goal, Refusal, Seen, Step, next_step};
use super::overview::overview;
use crate::connection_options::{Target, request_failed};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The pause between two questions to the leader.
const AGAIN: Duration = Duration::from_millis(30);
/// How long a handover may take before it is asked for again.
const HAND_OVER: Duration = Duration::from_secs(1);

/// `conclave.member/1`
#[derive(Serialize, Debug)]
struct Reached {
    schema: &'static str,
    goal: String,
    /// False: it was so already.
    changed: bool,
    /// The list in force.
    list: String,
    voters: Vec<u32>,
}

pub(super) async fn run(goal: &Goal, target: &Target, output: Output) -> Result<(), Failure> {
    let overview = overview(target).await?;
    let mut endpoints = overview.endpoints();
    if let Goal::Votes(Candidate { id, address: Some(address), .. }) | Goal::Replaced { new: id, address, .. } = goal
        && endpoints.iter().all(|endpoint| endpoint.address != *address)
    {
        // It may lead as soon as it votes.
        endpoints.push(client::Endpoint::member(id.0, address.clone()));
    }
    let leader = LeaderClient::new(endpoints, &target.settings);
    let until = Instant::now() + target.timeout;
    let mut pursuit = Pursuit {
        goal,
        target,
        leader,
        until,
        said: Vec::new(),
        accepted: false,
        refused: None,
        last: None,
        handed_over: None,
    };
    let (seen, changed) = pursuit.pursue().await?;
    let list = &seen.membership.known;
    let voters: Vec<u32> = list.voters().map(|id| id.0).collect();
    if output.is_json() {
        let (goal, list) = (goal_in_words(goal), list.stamp.to_string());
        return Ok(Output::json(&Reached { schema: "conclave.member/1", goal, changed, list, voters })?);
    }
    let ids: Vec<String> = voters.iter().map(u32::to_string).collect();
    let already = if changed { "" } else { " already" };
    Ok(Output::words(format!(
        "{}{already}: list {} in force, voters {}",
        goal_in_words(goal),
        list.stamp,
        ids.join(", ")
    ))?)
}

struct Pursuit<'a> {
    goal: &'a Goal,
    target: &'a Target,
    leader: LeaderClient,
    until: Instant,
    /// Progress that was printed.
    said: Vec<String>,
    /// A leader has accepted a step.
    accepted: bool,
    /// Why the leader did not take the last step yet.
    refused: Option<String>,
    last: Option<Seen>,
    /// When the leader was last asked to hand over.
    handed_over: Option<Instant>,
}

impl Pursuit<'_> {
    async fn pursue(&mut self) -> Result<(Seen, bool), Failure> {
        loop {
            let seen = self.look().await?;
            self.last = Some(seen.clone());
            match next_step(self.goal, &seen) {
                Step::Done => {
                    self.say(format!("in force: list {}", seen.membership.known.stamp));
                    return Ok((seen, self.accepted));
                }
                Step::Refused(Refusal { why, next }) => {
                    return Err(Failure::usage(format!("{}: refused", goal_in_words(self.goal)))
                        .because(why)
                        .hint(next));
                }
                step => {
                    self.say(in_words(&step, &seen));
                    self.take(step).await?;
                }
            }
            if Instant::now() >= self.until {
                return Err(self.undecided());
            }
            sleep(AGAIN).await;
        }
    }

    /// The leader's word on the lists.
    async fn look(&mut self) -> Result<Seen, Failure> {
        let question = |client: Client| async move {
            let membership = client.members().await?;
            // It has just lost leadership: the next leader is asked.
            let leads = membership.in_force.is_some();
            let lost = || ClientError::Failed { reason: "it leads no more".to_owned(), code: FailCode::NoLeader };
            leads.then_some((client.member_id(), membership)).ok_or_else(lost)
        };
        let (leader, membership) = match timeout_at(self.until, self.leader.ask_leader(question)).await {
            Err(_) => return Err(self.undecided()),
            Ok(Err(error)) => return Err(request_failed("the leader does not tell its member list", &error)),
            Ok(Ok(told)) => told,
        };
        let pending = match membership.pending {
            Some(stamp) => self.pending(stamp, &membership).await,
            None => None,
        };
        Ok(Seen { leader: NodeId(leader), membership, pending, accepted: self.accepted })
    }

    /// The pending list. A leader that removes a member goes by the list before until the new one is in force, but voters
    /// have it.
    async fn pending(&self, stamp: Stamp, membership: &Membership) -> Option<MemberList> {
        if membership.known.stamp == stamp {
            return Some(membership.known.clone());
        }
        overview(self.target).await.ok()?.with_stamp(stamp).cloned()
    }

    async fn take(&mut self, step: Step) -> Result<(), Failure> {
        let name = self.target.claimed_name();
        let order = |client: Client| {
            let (name, step) = (name.clone(), step.clone());
            async move {
                client.introduce(name).await?;
                match step {
                    Step::Ask(change) => client.change_members(change).await,
                    Step::HandOver(heir) => client.transfer(heir.0, false).await,
                    _ => Ok(()),
                }
            }
        };
        match step {
            Step::Ask(_) => {}
            Step::HandOver(_) if self.handed_over.is_none_or(|at| at.elapsed() > HAND_OVER) => {
                self.handed_over = Some(Instant::now());
            }
            _ => return Ok(()),
        }
        match timeout_at(self.until, self.leader.ask_leader(order)).await {
            Err(_) => return Err(self.undecided()),
            Ok(Ok(())) => {
                self.refused = None;
                self.accepted |= matches!(step, Step::Ask(_));
            }
            // Not now: the same request may succeed when the leader has confirmed its list, or the member has joined.
            Ok(Err(ClientError::Failed { reason, code: FailCode::Failed })) => self.refused = Some(reason),
            Ok(Err(ClientError::Failed { reason, code: FailCode::BadRequest })) => {
                return Err(Failure::usage(format!("{}: refused by the leader", goal_in_words(self.goal)))
                    .because(reason)
                    .hint("`ctl member list` shows the list and what is pending"));
            }
            Ok(Err(error)) => return Err(request_failed("the leader does not change its member list", &error)),
        }
        Ok(())
    }

    fn say(&mut self, progress: String) {
        if !self.said.contains(&progress) {
            eprintln!("{progress}");
            self.said.push(progress);
        }
    }

    /// The time is up.
    fn undecided(&self) -> Failure {
        let goal = goal_in_words(self.goal);
        let again = "the same command again is safe, with a longer --timeout; `ctl member list` shows the list";
        let Some(seen) = &self.last else {
            return Failure::new(Exit::NoLeader, format!("{goal}: no leader can do it"))
                .hint("ctl leader --wait 5s, then again; `ctl explain` says why nobody leads");
        };
        let Membership { known, in_force, pending, .. } = &seen.membership;
        let (why, next) = match (pending, next_step(self.goal, seen)) {
            (Some(pending), _) => {
                let why = format!("list {pending} was pending when leader {} last answered", seen.leader);
                (why, format!("{again}; `ctl member abort` gives it up"))
            }
            (None, Step::AwaitJoin(id)) => {
                let address = known.get(id).map(|listed| listed.address.clone()).unwrap_or_default();
                let why = format!("member {id} ({address}) is in list {} as a learner and has not joined", known.stamp);
                let join = known.get(seen.leader).map(|listed| listed.address.clone()).unwrap_or_default();
                let next = format!(
                    "start node {id} with an empty data directory and join = [\"{join}\"] in its config, then the same \
                     command again; `ctl member remove {id}` undoes it"
                );
                (why, next)
            }
            _ => {
                let list = in_force.map_or_else(|| "no list".to_owned(), |stamp| format!("list {stamp}"));
                let why = format!("{list} was in force and nothing pending when leader {} last answered", seen.leader);
                (self.refused.as_ref().map_or(why.clone(), |refused| format!("{why}\n{refused}")), again.to_owned())
            }
        };
        Failure::new(Exit::Failed, format!("{goal}: undecided")).because(why).hint(next)
    }
}

fn goal_in_words(goal: &Goal) -> String {
    match goal {
        Goal::Votes(candidate) => format!("member {} votes", candidate.id),
        Goal::Learns(candidate) => format!("member {} is a learner", candidate.id),
        Goal::Gone { id, .. } => format!("member {id} is removed"),
        Goal::At { id, address } => format!("member {id} is at {address}"),
        Goal::Replaced { old, new, .. } => format!("member {new} replaces {old}"),
        Goal::Settled => "no change is pending".to_owned(),
    }
}

/// A step as progress for the operator.
fn in_words(step: &Step, seen: &Seen) -> String {
    let list = seen.membership.known.stamp;
    match step {
        Step::Ask(Change::List(listed)) if listed.role == PeerRole::Learner => {
            format!("asking leader {} to list member {} as a learner", seen.leader, listed.uid.id)
        }
        Step::Ask(Change::List(listed)) if seen.membership.known.votes(listed.uid.id) => {
            format!(
                "asking leader {} to list member {} as {} at {}",
                seen.leader, listed.uid.id, listed.role, listed.address
            )
        }
        Step::Ask(Change::List(listed)) => {
            format!("joined: asking leader {} to let member {} vote", seen.leader, listed.uid.id)
        }
        Step::Ask(Change::Unlist(id)) => format!("asking leader {} to remove member {id}", seen.leader),
        Step::Ask(Change::Abort) => format!("asking leader {} to give up the pending list", seen.leader),
        Step::HandOver(heir) => format!("member {} leads: handing over to {heir} first", seen.leader),
        Step::AwaitForce(stamp) if stamp.n == 0 => {
            format!("leader {} confirms the list it found, as {stamp}", seen.leader)
        }
        Step::AwaitForce(stamp) => format!("list {stamp} proposed: waiting for a majority of its voters"),
        Step::AwaitJoin(id) => format!("listed in {list}: waiting for member {id} to join"),
        Step::AwaitLeader | Step::Done | Step::Refused(_) => format!("waiting for leader {}", seen.leader),
    }
}
