//! What operators ask for by POST. The face is a client of the members for it: they check it, carry it out and record it,
//! under the name of the HTTP client's address.

use std::net::SocketAddr;
use std::time::Duration;

use client::json::{Change, Fault, FaultLack};
use client::{CHAOS_MAX, Chaos, ClaimedName, Endpoint, Members, Observer, REST_MAX, find_leader, within};
use hyper::StatusCode;
use serde::Deserialize;

use crate::answer::{Answer, Problem, json};
use crate::reads::{Reads, failed};
use crate::request::{Whole, bad, parse};
use crate::routes::What;

/// How long an order may take: children of the leader may have to stop first.
const PATIENCE: Duration = Duration::from_secs(10);
const MEMBERS_MAX: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Elect {
    member: Option<Whole>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepDown {
    for_ms: Option<Whole>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    to: Whole,
    #[serde(default)]
    hold: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pause {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inject {
    action: Action,
    #[serde(default)]
    a: Vec<Whole>,
    #[serde(default)]
    b: Vec<Whole>,
    #[serde(default)]
    one_way: bool,
    ms: Option<Whole>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Cut,
    Delay,
    Heal,
    Pause,
    Kill,
}

pub(crate) async fn carry_out(what: What, body: &[u8], peer: SocketAddr, reads: &Reads) -> Result<Answer, Problem> {
    // The body is read before any member is asked.
    let order = match what {
        What::Elect => Order::Elect(parse::<Elect>(body)?.member.map(Whole::id).transpose()?),
        What::StepDown => {
            let rest = parse::<StepDown>(body)?.for_ms.map(|Whole(ms)| Duration::from_millis(ms));
            if rest.is_some_and(|rest| rest.is_zero() || rest > REST_MAX) {
                return Err(bad("for_ms is 1 to 604800000"));
            }
            Order::StepDown(rest)
        }
        What::Transfer => {
            let Transfer { to, hold } = parse(body)?;
            Order::Transfer(to.id()?, hold)
        }
        What::Pause | What::Resume => parse(body).map(|Pause {}| Order::Pause(what == What::Pause))?,
        _ => Order::Chaos(plan(parse(body)?)?),
    };
    let members = reads.listed().await;
    let operator = Operator { members, name: ClaimedName::from(format!("http {peer}").as_str()) };
    match order {
        Order::Chaos(fault) => operator.inject(fault).await,
        Order::Pause(paused) => {
            let done = operator.members.order_pause(&operator.name, paused, PATIENCE).await;
            done.map(|done| json(&done)).map_err(|error| failed(&error))
        }
        order => operator.change(order).await,
    }
}

enum Order {
    Elect(Option<u32>),
    StepDown(Option<Duration>),
    Transfer(u32, bool),
    Pause(bool),
    Chaos(Plan),
}

/// A fault, and the part of each member in it.
struct Plan {
    fault: Fault,
    parts: Vec<(u32, Vec<Chaos>)>,
}

/// Every pair, and both ends of every pair: each end applies its half.
fn plan(Inject { action, a, b, one_way, ms }: Inject) -> Result<Plan, Problem> {
    let ids = |all: Vec<Whole>| all.into_iter().map(Whole::id).collect::<Result<Vec<u32>, _>>();
    let (a, b, ms) = (ids(a)?, ids(b)?, ms.map(|Whole(ms)| ms));
    if a.len() > MEMBERS_MAX || b.len() > MEMBERS_MAX {
        return Err(bad("too many members"));
    }
    if ms.is_some_and(|ms| Duration::from_millis(ms) > CHAOS_MAX) {
        return Err(bad("ms is at most 60000"));
    }
    let (name, between) = match action {
        Action::Cut => ("cut", true),
        Action::Delay => ("delay", true),
        Action::Heal => ("heal", false),
        Action::Pause => ("pause", false),
        Action::Kill => ("kill", false),
    };
    let members_fit = if action == Action::Heal { a.is_empty() } else { !a.is_empty() };
    if !members_fit || between == b.is_empty() {
        return Err(bad("cut and delay need members in a and in b, pause and kill in a alone, heal none"));
    }
    if let Some(both) = a.iter().find(|id| b.contains(id)) {
        return Err(Problem::new(StatusCode::CONFLICT, format!("member {both} is on both sides")));
    }
    let time = || ms.ok_or_else(|| bad("this fault needs ms"));
    let parts = match action {
        Action::Heal => Vec::new(),
        Action::Kill => a.iter().map(|&id| (id, vec![Chaos::Kill])).collect(),
        Action::Pause => {
            let ms = time()?;
            a.iter().map(|&id| (id, vec![Chaos::Pause { ms }])).collect()
        }
        Action::Cut => Chaos::between(&a, &b, one_way, |peer, way| Chaos::Cut { peer, way }),
        Action::Delay => {
            let ms = time()?;
            Chaos::between(&a, &b, one_way, |peer, way| Chaos::Delay { peer, way, ms })
        }
    };
    Ok(Plan { fault: Fault { action: name, a, b, one_way, ms, ..Fault::default() }, parts })
}

struct Operator {
    members: Members,
    name: ClaimedName,
}

/// The one leader that members name and that claims to lead, with its epoch.
fn claimed(observer: &Observer) -> Option<(u32, u64)> {
    let views = observer.views();
    let leader = find_leader(&views, |_| true).ok()?;
    views.iter().find(|view| view.id == leader).map(|view| (leader, view.epoch))
}

impl Operator {
    /// Streams first, so that no event is missed; then the order; then its outcome.
    async fn change(&self, order: Order) -> Result<Answer, Problem> {
        let mut observer = self.members.observer();
        let _ = tokio::time::timeout(self.members.member_timeout, observer.until(Observer::all_tried)).await;
        let (before, newest) = (claimed(&observer), observer.views().iter().map(|view| view.epoch).max().unwrap_or(0));
        let was = before.map(|(leader, _)| leader);
        let asked = match order {
            Order::Elect(member) => member.or(was).or_else(|| observer.views().first().map(|view| view.id)),
            _ => was,
        };
        let nobody = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no member leads that could do this");
        let member = asked.ok_or_else(nobody)?;
        let endpoint = self.endpoint(&observer, member)?;
        let client = within(self.members.member_timeout, self.members.connect_as(&endpoint, &self.name))
            .await
            .map_err(|error| failed(&error))?;
        let (action, done) = match order {
            Order::Elect(_) => ("elect", within(PATIENCE, client.elect()).await),
            Order::Transfer(to, hold) => ("transfer", within(PATIENCE, client.transfer(to, hold)).await),
            Order::StepDown(rest) => ("step-down", within(PATIENCE, client.step_down(rest)).await),
            Order::Pause(_) | Order::Chaos(_) => return Err(nobody()),
        };
        done.map_err(|error| failed(&error))?;
        let fits = |&(leader, epoch): &(u32, u64)| match order {
            Order::Elect(_) => epoch > newest,
            Order::Transfer(to, _) => leader == to,
            _ => leader != member,
        };
        let settled = observer.until(|observer| claimed(observer).is_some_and(|found| fits(&found)));
        let _ = tokio::time::timeout(PATIENCE, settled).await;
        let detail = "the request was accepted, but there is no new leader yet";
        let late = || Problem::new(StatusCode::GATEWAY_TIMEOUT, detail);
        let (leader, epoch) = claimed(&observer).filter(fits).ok_or_else(late)?;
        Ok(json(&Change { schema: Change::SCHEMA, action, member, was, leader, epoch }))
    }

    fn endpoint(&self, observer: &Observer, member: u32) -> Result<Endpoint, Problem> {
        let at = observer.position_of(member);
        let endpoints = &self.members.endpoints;
        let at = at.or_else(|| endpoints.iter().position(|endpoint| endpoint.id == Some(member)));
        at.map(|at| endpoints[at].clone()).ok_or_else(|| no_member(member))
    }

    /// All members are reached before the first one is asked to act.
    async fn inject(&self, Plan { mut fault, mut parts }: Plan) -> Result<Answer, Problem> {
        let ids = || self.members.endpoints.iter().filter_map(|endpoint| endpoint.id);
        let heals = fault.action == "heal";
        if heals {
            parts = ids().map(|id| (id, vec![Chaos::Heal])).collect();
        }
        let patience = self.members.member_timeout;
        let mut ready = Vec::new();
        for (id, parts) in parts {
            let endpoint = self.members.endpoints.iter().find(|endpoint| endpoint.id == Some(id));
            let endpoint = endpoint.ok_or_else(|| no_member(id))?;
            match within(patience, self.members.connect_as(endpoint, &self.name)).await {
                Ok(client) => ready.push((id, endpoint, client, parts)),
                // The faults of a member that does not run have ended with its process.
                Err(error) if heals => fault.failed.push(FaultLack::new(endpoint, &error)),
                Err(error) => {
                    let detail = format!("nothing was injected: member {endpoint} cannot be asked: {error}");
                    return Err(Problem::new(StatusCode::BAD_GATEWAY, detail));
                }
            }
        }
        for (id, endpoint, client, parts) in ready {
            let asked = within(patience, async {
                for part in parts {
                    client.chaos(part).await?;
                }
                Ok(())
            });
            match asked.await {
                Ok(()) => fault.applied.push(id),
                Err(error) if fault.applied.is_empty() && !heals => return Err(failed(&error)),
                Err(error) => fault.failed.push(FaultLack::new(endpoint, &error)),
            }
        }
        Ok(json(&fault))
    }
}

fn no_member(id: u32) -> Problem {
    Problem::new(StatusCode::CONFLICT, format!("no member {id}: /v1/status lists the members"))
}

#[cfg(test)]
mod tests {
    use client::Way;

    use super::*;

    fn planned(body: &str) -> Result<Plan, Problem> {
        plan(parse(body.as_bytes())?)
    }

    #[test]
    fn a_fault_between_groups_is_asked_of_both_ends_of_every_pair() {
        let Ok(plan) = planned(r#"{"action":"cut","a":[1],"b":[2,3],"one_way":true}"#) else { panic!() };
        let cut = |peer, way| Chaos::Cut { peer, way };
        let expected =
            vec![(1, vec![cut(2, Way::Out), cut(3, Way::Out)]), (2, vec![cut(1, Way::In)]), (3, vec![cut(1, Way::In)])];
        assert_eq!(plan.parts, expected);
    }

    #[test]
    fn a_fault_that_makes_no_sense_is_refused() {
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"action":"melt"}"#,
            r#"{"action":"cut","a":[1]}"#,
            r#"{"action":"cut","a":[1],"b":[1]}"#,
            r#"{"action":"heal","a":[1]}"#,
            r#"{"action":"pause","a":[1]}"#,
            r#"{"action":"pause","a":[1],"ms":60001}"#,
            r#"{"action":"kill","a":[]}"#,
            r#"{"action":"kill","a":[1],"b":[2]}"#,
            r#"{"action":"kill","a":[1],"force":true}"#,
        ] {
            assert!(planned(wrong).is_err(), "{wrong}");
        }
    }
}
