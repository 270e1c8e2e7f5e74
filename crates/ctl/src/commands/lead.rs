//! `ctl lead`: runs a command only while this node's member leads.

mod deadlines;
mod keep;
mod load;
mod member;
mod run;

use std::ffi::OsString;
use std::time::Duration;

use client::{Attachment, ClientError, Notice, Role, format_duration};

use self::deadlines::Terms;
use self::load::Load;
use self::member::{Answer, Member, Poller, Unreached};
use self::run::{Pipes, Run};
use crate::args::Globals;
use crate::connection_options::Target;
use crate::failure::{Exit, Failure, remark};
use crate::guard::{Deadlines, Progress, Signals};

/// A member whose connection ended is dialled again after this long, and then less and less often.
const REDIAL: Duration = Duration::from_millis(200);
const REDIAL_MAX: Duration = Duration::from_secs(2);

/// Run a command only while this node's member leads
///
/// Waits until the member leads, then runs the command. When the member does not lead any more, or cannot confirm that
/// it does, the command and everything it started get SIGTERM, and after the grace SIGKILL, before another member may
/// lead. No process of the command outlives `ctl`. Signals sent to `ctl` are passed on.
///
/// The command's environment has CONCLAVE_TOKEN, a number that grows with every reign: send it to the resource that the
/// command writes to, and let the resource refuse smaller ones (`ctl fence-check` is an example).
///
/// A command that hangs keeps leadership for nothing: with --progress it is stopped if it does not write to a pipe regularly.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl lead --id 3 -- ./worker --queue jobs
  ctl --endpoints 127.0.0.1:7403 lead --grace 50ms -- sh -c 'ctl fence-check /srv/fence && exec ./writer'
  ctl lead --id 3 --keep -- ./worker    # again after every loss of leadership, and whenever the worker ends

Exit codes: the command's own (128 + signal if it was killed; 126 or 127 if it cannot be run), 6 leadership was lost
while it ran, 2 usage, 3 the member is not reachable, 4 it does not lead (--wait 0), 5 nor after --wait, 8 refused.
With --keep only a signal ends it, with the code of the command (128 + signal while it waits), or usage before the member
was reached once.")]
pub(crate) struct Args {
    /// The id of this node's member in the config
    #[arg(long, value_name = "N", env = "CONCLAVE_ID")]
    id: Option<u32>,

    /// Time between SIGTERM and SIGKILL when leadership ends, at most 1m: a member that gives its leadership away waits so long.
    /// Where leadership is lost the command has what fits the lease [default: a fifth of the lease]
    #[arg(long, value_name = "TIME", value_parser = client::parse_duration)]
    grace: Option<Duration>,

    /// The command must write a byte to the descriptor in CONCLAVE_PROGRESS_FD at least this often: else it counts as hung, and
    /// is stopped
    #[arg(long, value_name = "TIME", value_parser = client::parse_duration)]
    progress: Option<Duration>,

    /// The command writes lines `LOAD CAPACITY` (two numbers: what it does now and the most that it could do) to the descriptor in
    /// CONCLAVE_LOAD_FD; `ctl status` and the metrics of the member show the newest
    #[arg(long)]
    load: bool,

    /// Wait this long for leadership; 0 does not wait [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = client::parse_duration)]
    wait: Option<Duration>,

    /// Start over whatever happens: leadership is lost, the command ends (with any code), the member cannot be reached or
    /// refuses. A command that ended is started again after 1s, 2s, 4s ... up to 30s
    #[arg(long, conflicts_with = "wait")]
    keep: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    if args.keep {
        keep::run(args, globals, &mut signals).await
    } else {
        once(args, globals, &mut signals, &mut None).await
    }
}

/// One run of the command. `reached`: the address at which the member answered last.
async fn once(
    args: &Args,
    globals: &Globals,
    signals: &mut Signals,
    reached: &mut Option<String>,
) -> Result<(), Failure> {
    // Before the guard is started, which inherits it.
    let progress = args.progress.map(Progress::new).transpose()?;
    let load = args.load.then(Load::new).transpose()?;
    let target = Target::election_only(globals)?;
    let mut member = Member::choose(&target, globals, args.id)?;
    let client = member.reach().await?;
    let terms = Terms::of(&client, args.grace)?;
    let before = reached.replace(member.address().to_owned());
    if before.as_ref().is_some_and(|before| before != member.address()) {
        member.tell_address();
    }
    if before.is_none() && terms.is_classic() {
        remark(
            "warning: safety is \"classic\": each connected part of the cluster has a leader of its own, so two \
             commands may run at once. Only the token (CONCLAVE_TOKEN) protects from that.",
        );
    }
    let mut poller = Poller::new(member.clone(), terms, client);
    let accession = tokio::select! {
        accession = accession(&mut member, &mut poller, args.wait) => accession?,
        number = signals.deadly() => return Err(Failure::passed((128 + number) as u8)),
    };
    *reached = Some(member.address().to_owned());
    Run::start(args, &member, terms, accession, Pipes { progress, load })?.finish(poller, signals).await
}

/// The member leads.
struct Accession {
    attachment: Attachment,
    epoch: u64,
    deadlines: Deadlines,
}

async fn accession(member: &mut Member, poller: &mut Poller, wait: Option<Duration>) -> Result<Accession, Failure> {
    let Some(patience) = wait else { return await_leadership(member, poller, false).await };
    let at_once = patience.is_zero();
    let patience = if at_once { Duration::MAX } else { patience };
    let waiting = tokio::time::timeout(patience, await_leadership(member, poller, at_once));
    let waited = waiting.await;
    waited.unwrap_or_else(|_| {
        let what = format!("member {} does not lead after {}", member.id(), format_duration(patience));
        Err(Failure::new(Exit::TimedOut, what).hint("look at `ctl status`, or wait longer"))
    })
}

/// Follows the member's announcements and asks the member once they name it as leader: only an answer contains the
/// remaining lease.
async fn await_leadership(member: &mut Member, poller: &mut Poller, at_once: bool) -> Result<Accession, Failure> {
    let mut said = false;
    let mut contact = Contact::default();
    loop {
        let mut attachment = match member.attach(poller.handover()).await {
            Ok(attachment) => attachment,
            Err(error) if error.is_refusal() || at_once => return Err(member.unreachable(&error)),
            // The member may be restarting, here or at another address: it was reached once.
            Err(error) => {
                contact.lost(member, &error);
                if member.look_up().await {
                    member.tell_address();
                    poller.follow(member);
                }
                tokio::time::sleep(contact.redial()).await;
                continue;
            }
        };
        contact.found(member);
        while let Ok(Some(notice)) = attachment.next().await {
            let Notice::Announced(announcement) = notice else {
                if at_once {
                    return Err(gives_leadership_away(member));
                }
                // Whatever this member announces next, the leadership that it shows now is over. The next attachment
                // learns of the next one.
                break;
            };
            let Some(became) = announcement.transition() else { continue };
            match became.now.role {
                Role::Leader => {
                    match poller.ask().await {
                        Answer::Leads { epoch, deadlines } => return Ok(Accession { attachment, epoch, deadlines }),
                        Answer::DoesNotLead { .. } => {}
                        // There may be no second announcement; a new attachment begins with one.
                        Answer::Silent(_) => break,
                    }
                }
                role @ (Role::Witness | Role::Learner) => return Err(never_leads(member, role)),
                role if at_once => return Err(does_not_lead(member, role, became.leader())),
                _ if !said => {
                    said = true;
                    let whom = became.leader().map_or_else(|| "nobody".to_owned(), |leader| format!("member {leader}"));
                    remark(format!("waiting until member {} leads; now {whom} does", member.id()));
                }
                _ => {}
            }
        }
        if at_once {
            return Err(member.unreachable(&ClientError::Closed.into()));
        }
        // A member that gives leadership away waits for its attached clients.
        drop(attachment);
        tokio::time::sleep(REDIAL).await;
    }
}

/// Whether the member can be reached: the user is told once when it cannot be, and once when it can be again.
#[derive(Debug, Default)]
struct Contact {
    failures: u32,
}

impl Contact {
    fn lost(&mut self, member: &Member, why: &Unreached) {
        if self.failures == 0 {
            let (id, address) = (member.id(), member.address());
            remark(format!("member {id} is not reachable at {address}: {why}. The command waits for it; trying again"));
        }
        self.failures = self.failures.saturating_add(1);
    }

    fn found(&mut self, member: &Member) {
        if std::mem::take(&mut self.failures) > 0 {
            remark(format!("member {} is reachable again, at {}", member.id(), member.address()));
        }
    }

    fn redial(&self) -> Duration {
        (REDIAL * (1 << self.failures.min(5))).min(REDIAL_MAX)
    }
}

fn never_leads(member: &Member, role: Role) -> Failure {
    Failure::usage(format!("member {} never leads", member.id()))
        .because(format!("its role is {role}"))
        .hint("run it beside a member with role = \"member\"")
}

fn gives_leadership_away(member: &Member) -> Failure {
    Failure::new(Exit::NoLeader, format!("member {} does not lead", member.id()))
        .because("it gives leadership away")
        .hint("without --wait 0 the command starts when it leads")
}

fn does_not_lead(member: &Member, role: Role, leader: Option<u32>) -> Failure {
    let whom = leader.map_or_else(|| "nobody leads".to_owned(), |leader| format!("member {leader} leads"));
    Failure::new(Exit::NoLeader, format!("member {} does not lead", member.id()))
        .because(format!("it is a {role}, and {whom}"))
        .hint("without --wait 0 the command starts when it does")
}
