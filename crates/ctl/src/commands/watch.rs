//! `ctl watch`: the announcements of the members, as they happen.

use client::json::Event;
use client::{Cause, ClientError, News, Transition, now_ms};

use crate::args::Globals;
use crate::connection_options::{Target, no_member_answered};
use crate::failure::{Failure, remark};
use crate::output::{Ink, Output};

/// Print events as they happen, one per line, until interrupted
///
/// The first line of each member is its present state. A member that cannot be followed is reported as `down` and
/// dialled again.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl watch
  ctl watch --all
  ctl watch -o json | jq -c 'select(.role == \"leader\")'")]
pub(crate) struct Args {
    /// Print everything that members announce: also links, elections with their messages, grants and injected faults
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::resolve_listed(globals).await?;
    let mut observer = if args.all { target.observer_of_everything() } else { target.observer() };
    let mut ids: Vec<Option<u32>> = target.endpoints.iter().map(|endpoint| endpoint.id).collect();
    let mut refused: Vec<Option<ClientError>> = target.endpoints.iter().map(|_| None).collect();
    let mut handover = Handover::default();
    loop {
        let report = observer.next().await;
        let at = report.at;
        let address = &target.endpoints[at].address;
        match report.news {
            News::Became { announcement, .. } | News::Announced(announcement) => {
                ids[at] = Some(announcement.member);
                refused[at] = None;
                let mut event = Event::announced(&announcement, address);
                if let Some(transition) = announcement.transition() {
                    handover.name(announcement.member, transition, &mut event);
                }
                print(&event, output)?;
            }
            News::Gap { missed } => remark(format!("{missed} events of {address} were missed: not read fast enough")),
            News::Lost(error) => {
                print(&Event::lost(ids[at], address, now_ms(), error.to_string()), output)?;
                refused[at] = error.is_refusal().then_some(error);
                let failures: Vec<_> =
                    target.endpoints.iter().zip(&refused).filter_map(|(e, r)| Some((e, r.as_ref()?))).collect();
                if failures.len() == target.endpoints.len() {
                    return Err(no_member_answered(&failures));
                }
            }
        }
    }
}

/// The last handover that a member told: its successor says that it was elected, since a majority had to grant its epoch.
#[derive(Default)]
struct Handover(Option<(u32, u64)>);

impl Handover {
    fn name(&mut self, member: u32, transition: &Transition, event: &mut Event) {
        let epoch = transition.now.epoch.0;
        match transition.cause {
            Cause::HandedOver => self.0 = Some((member, epoch)),
            Cause::Elected if transition.leads() => {
                if let Some((from, _)) = self.0.take().filter(|(_, given)| *given < epoch) {
                    event.handed_over_by = Some(from);
                }
            }
            _ => {}
        }
    }
}

fn print(event: &Event, output: Output) -> Result<(), Failure> {
    Ok(output.show(event, || line(event, |ink, text| output.paint(ink, text)))?)
}

/// The line of an event, without colour.
pub(super) fn plain_line(event: &Event) -> String {
    line(event, |_, text| text.to_owned())
}

fn line(event: &Event, paint: impl Fn(Ink, &str) -> String) -> String {
    let who = event.id.map_or_else(|| event.address.clone(), |id| id.to_string());
    let what = match event.role {
        Some(role) => standing(event, role, paint),
        None => in_words(event),
    };
    format!("{}  {who:>3}  {what}", clock(event.at_ms))
}

fn standing(event: &Event, role: &str, paint: impl Fn(Ink, &str) -> String) -> String {
    let ink = match role {
        "leader" => Some(Ink::Green),
        "candidate" => Some(Ink::Yellow),
        "down" => Some(Ink::Red),
        _ => None,
    };
    let padded = format!("{role:<9}");
    let painted = ink.map_or(padded.clone(), |ink| paint(ink, &padded));
    let whom = match (role, event.leader) {
        ("leader" | "down", _) => String::new(),
        (_, Some(leader)) => format!(" of {leader}"),
        (_, None) => " of nobody".to_owned(),
    };
    let epoch = event.epoch.map_or_else(String::new, |epoch| format!(" in epoch {epoch}"));
    let cause = match (event.cause.as_deref(), event.handed_over_by) {
        (_, Some(from)) => format!("{from} handed over"),
        (cause, None) => cause.unwrap_or_default().to_owned(),
    };
    format!("{painted}{whom}{epoch}: {cause}")
}

/// An announcement that is no change of standing.
fn in_words(event: &Event) -> String {
    let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let (epoch, holder) = (number(event.epoch), number(event.holder.map(u64::from)));
    let peer = number(event.peer.map(u64::from));
    let list = event.list.as_deref().unwrap_or_default();
    let voters: Vec<String> = event.voters.iter().flatten().map(u32::to_string).collect();
    let voters = voters.join(", ");
    match event.what {
        "granted" => format!("granted epoch {epoch} to {holder}"),
        "adopted" => format!("member list {list} on disk: voters {voters}"),
        "in-force" => format!("member list {list} in force: voters {voters}"),
        "forced" => format!("an operator began a new cluster with member list {list}: voters {voters}"),
        "promise-ended" => format!("promise of epoch {epoch} to {holder} ended"),
        "link" if event.up == Some(true) => format!("connected to {peer}"),
        "link" => format!("disconnected from {peer}"),
        "faults" => match event.faults.as_deref() {
            Some([]) | None => "no injected faults".to_owned(),
            Some(faults) => format!("injected faults: {}", faults.join(", ")),
        },
        "elected" => {
            let sent = event.sent.iter().flatten().map(|(kind, count)| format!("{kind} {count}"));
            let role = if event.initiator == Some(true) { "started it" } else { "took part" };
            format!("election over: {role}, sent {}", sent.collect::<Vec<_>>().join(", "))
        }
        "leaving" => "left".to_owned(),
        other => other.to_owned(),
    }
}

/// Time of day in UTC: enough to compare lines; the JSON has the whole instant.
fn clock(at_ms: u64) -> String {
    let (seconds, ms) = (at_ms / 1000 % 86_400, at_ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use client::{Announcement, Happened, InstanceId, Role, Standing};
    use types::{Epoch, NodeId};

    use super::*;

    #[test]
    fn the_clock_is_utc() {
        assert_eq!(clock(1_700_000_000_123), "22:13:20.123Z");
    }

    #[test]
    fn a_transfer_is_called_a_transfer() {
        let mut handover = Handover::default();
        let mut told = |member: u32, role: Role, epoch: u64, cause: Cause| {
            let now = Standing { role, leader: (role == Role::Leader).then_some(NodeId(member)), epoch: Epoch(epoch) };
            let transition = Transition { old: None, now, cause, lease_until_ns: None };
            let what = Happened::Became(transition);
            let announcement =
                Announcement { member, instance: InstanceId::ELECTION, sequence: 1, wall_ms: 0, boot_ns: 0, what };
            let mut event = Event::announced(&announcement, "a:1");
            handover.name(member, &transition, &mut event);
            plain_line(&event)
        };
        assert!(told(5, Role::Candidate, 7, Cause::HandedOver).ends_with("of nobody in epoch 7: handed-over"));
        assert!(told(3, Role::Leader, 8, Cause::Elected).ends_with("leader    in epoch 8: 5 handed over"));
        assert!(told(4, Role::Leader, 9, Cause::Elected).ends_with("leader    in epoch 9: elected"));
        assert!(told(4, Role::Leader, 9, Cause::Present).ends_with("leader    in epoch 9: present"));
    }
}
