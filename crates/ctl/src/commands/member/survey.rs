//! `ctl member survey`: what the survivors have on their disks when a majority is lost for ever, and which of them is to
//! begin a new cluster.

use std::path::{Path, PathBuf};

use client::history::MemberLedger;
use client::{LedgerEntry, LedgerKind, ListPart, format_instant};
use node::offline::{self, Volume};
use serde::Serialize;
use types::{Epoch, MemberList, NodeId, Stamp, Token};

use crate::args::Globals;
use crate::connection_options::find_file;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The newest entries of each ledger that are shown.
const LAST: usize = 5;

/// `conclave.survey/1`
#[derive(Serialize, Debug)]
struct Survey {
    schema: &'static str,
    members: Vec<Survivor>,
    /// The survivor to use; null if none is, or none needs to be.
    r#use: Option<u32>,
    lost: Vec<u32>,
    /// The command to run there.
    command: Option<String>,
    advice: String,
}

#[derive(Serialize, Debug)]
struct Survivor {
    dir: PathBuf,
    id: u32,
    cluster_id: Option<String>,
    epoch: u64,
    holder: Option<u32>,
    list: Option<String>,
    voters: Vec<u32>,
    /// The list in force without this member, if it was removed.
    removed: Option<String>,
    /// What is missing from its ledger.
    flaws: Vec<String>,
    /// The newest entries of its ledger, oldest first, as sentences.
    last: Vec<String>,
}

pub(super) fn run(dirs: &[PathBuf], globals: &Globals, output: Output) -> Result<(), Failure> {
    let mut found: Vec<(&Path, Volume)> = Vec::new();
    for dir in dirs {
        let volume = offline::read(dir).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot survey {}", dir.display()))
                .because(error.to_string())
                .hint("name the data directories of stopped members, or copies of them")
        })?;
        found.push((dir, volume));
    }
    let file = find_file(globals)?;
    let first: Vec<u32> = file.map(|file| file.voters).unwrap_or_default();
    let config = globals.config.clone().unwrap_or_else(|| PathBuf::from("FILE"));
    let survey = Survey::of(&found, &first, &config);
    Ok(output.show_words(&survey, || survey.in_words())?)
}

/// What follows from the volumes.
#[derive(PartialEq, Eq, Debug)]
enum Advice {
    Force {
        id: NodeId,
        lost: Vec<u32>,
    },
    /// These voters are a majority of the newest list.
    Start(Vec<u32>),
    /// Directories of two clusters.
    Mixed,
    /// No survivor knows what was granted and may lead.
    None,
}

/// `first`: the voters of the config, for a record without a list.
fn advise(volumes: &[&Volume], first: &[u32]) -> Advice {
    let mut clusters: Vec<_> = volumes.iter().filter_map(|volume| volume.cluster).collect();
    clusters.sort_unstable();
    clusters.dedup();
    if clusters.len() > 1 {
        return Advice::Mixed;
    }
    let able = |volume: &&&Volume| {
        let may_lead = |list: &MemberList| list.members.is_empty() || list.may_lead(volume.id);
        volume.removed.is_none() && volume.list.as_ref().is_some_and(may_lead)
    };
    let rank = |volume: &&&Volume| (stamp(volume), volume.epoch, volume.id);
    // The newest list may be on the disk of a witness, or of a removed member: it tells who votes, and another one leads.
    let (Some(newest), Some(leader)) = (volumes.iter().max_by_key(rank), volumes.iter().filter(able).max_by_key(rank))
    else {
        return Advice::None;
    };
    let counts = |volume: &Volume| volume.removed.is_none() && volume.list.is_some();
    let survives = |id: &u32| volumes.iter().any(|volume| volume.id.0 == *id && counts(volume));
    let voting = voters(newest, first);
    let alive: Vec<u32> = voting.iter().copied().filter(survives).collect();
    if 2 * alive.len() > voting.len() {
        return Advice::Start(alive);
    }
    let lost = voters(leader, first).into_iter().filter(|id| !survives(id)).collect();
    Advice::Force { id: leader.id, lost }
}

fn stamp(volume: &Volume) -> Option<Stamp> {
    volume.list.as_ref().map(|list| list.stamp)
}

fn voters(volume: &Volume, first: &[u32]) -> Vec<u32> {
    match &volume.list {
        Some(list) if !list.members.is_empty() => list.voters().map(|id| id.0).collect(),
        Some(_) => first.to_vec(),
        None => Vec::new(),
    }
}

impl Survey {
    fn of(found: &[(&Path, Volume)], first: &[u32], config: &Path) -> Self {
        let volumes: Vec<&Volume> = found.iter().map(|(_, volume)| volume).collect();
        let advice = advise(&volumes, first);
        let highest = volumes.iter().map(|volume| volume.epoch).max().unwrap_or(Epoch(0));
        let (chosen, lost, command) = match &advice {
            Advice::Force { id, lost } => {
                let dir = found.iter().find(|(_, volume)| volume.id == *id).map_or(Path::new("DIR"), |(dir, _)| dir);
                let (token, dead) = (Token::leader(highest).0, ids(lost));
                let command = format!(
                    "node --config {} --id {id} --data-dir {} --force-voters {id} --lost {dead} --token-above {token}",
                    config.display(),
                    dir.display()
                );
                (Some(id.0), lost.clone(), Some(command))
            }
            _ => (None, Vec::new(), None),
        };
        Survey {
            schema: "conclave.survey/1",
            members: found.iter().map(|(dir, volume)| Survivor::of(dir, volume, first)).collect(),
            r#use: chosen,
            lost,
            command,
            advice: in_words(&advice),
        }
    }

    fn in_words(&self) -> String {
        let mut lines = Vec::new();
        for member in &self.members {
            let list = member.list.as_ref().map_or_else(
                || "does not know what was granted".to_owned(),
                |list| format!("list {list} with the voters {}", ids(&member.voters)),
            );
            let holder = member.holder.map_or_else(String::new, |holder| format!(", granted to {holder}"));
            lines.push(format!(
                "member {} in {}: epoch {}{holder}, {list}",
                member.id,
                member.dir.display(),
                member.epoch
            ));
            lines.extend(member.removed.iter().map(|stamp| format!("  removed in {stamp}")));
            lines.extend(member.flaws.iter().map(|flaw| format!("  ledger: {flaw}")));
            lines.extend(member.last.iter().map(|entry| format!("  {entry}")));
        }
        lines.push(self.advice.clone());
        lines.extend(self.command.iter().map(|command| format!("  {command}")));
        lines.join("\n")
    }
}

fn in_words(advice: &Advice) -> String {
    match advice {
        Advice::Force { id, lost } => format!(
            "use member {id}. First make sure that {} are off and stay off. If any resource has seen a larger token than \
             that of this line, write the larger one:",
            ids(lost)
        ),
        Advice::Start(alive) => {
            format!("nothing is to be forced: {} are a majority of the newest list. Start them", ids(alive))
        }
        Advice::Mixed => "these are directories of two clusters: survey the members of one".to_owned(),
        Advice::None => {
            "none of these members knows what was granted and may lead: there is nothing to continue from".to_owned()
        }
    }
}

impl Survivor {
    fn of(dir: &Path, volume: &Volume, first: &[u32]) -> Self {
        let ledger = MemberLedger::new(volume.id.0, volume.ledger.clone());
        let last = ledger.entries.iter().rev().take(LAST).rev().map(entry_in_words).collect();
        Survivor {
            dir: dir.to_path_buf(),
            id: volume.id.0,
            cluster_id: volume.cluster.map(|id| id.to_string()),
            epoch: volume.epoch.0,
            holder: volume.holder.map(|id| id.0),
            list: stamp(volume).map(|stamp| stamp.to_string()),
            voters: voters(volume, first),
            removed: volume.removed.map(|stamp| stamp.to_string()),
            flaws: ledger.flaws(),
            last,
        }
    }
}

fn ids(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn entry_in_words(entry: &LedgerEntry) -> String {
    let list = |part: &ListPart| format!("list {} with {} voters", part.stamp, part.of);
    let what = match &entry.kind {
        LedgerKind::Started { incarnation, .. } => format!("started, run {incarnation}"),
        LedgerKind::Became(became) => {
            let leader = became.leader().map_or_else(|| "nobody".to_owned(), |leader| leader.to_string());
            format!("{} of {leader} in epoch {}: {}", became.now.role.name(), became.now.epoch, became.cause)
        }
        LedgerKind::Granted { epoch, holder, list } => format!("granted epoch {epoch} to {holder} under list {list}"),
        LedgerKind::PromiseEnded { epoch, holder } => format!("promise of epoch {epoch} to {holder} ended"),
        LedgerKind::Ordered(ordered) => format!("ordered: {}", ordered.order),
        LedgerKind::Adopted(part) => format!("{} on disk", list(part)),
        LedgerKind::InForce(part) => format!("{} in force", list(part)),
        LedgerKind::Forced(part) => format!("an operator began a new cluster: {}", list(part)),
        LedgerKind::Left => "left in order".to_owned(),
    };
    format!("entry {} at {}: {what}", entry.sequence, format_instant(entry.wall_ms))
}

#[cfg(test)]
mod tests {
    use client::LedgerPage;
    use types::{ClusterId, Listed, PeerRole, Uid};

    use super::*;

    fn volume(id: u32, (epoch, n): (u64, u32), voters: &[u32]) -> Volume {
        let listed = |&id: &u32| Listed { uid: Uid::plain(id), role: PeerRole::Member, address: format!("n{id}:1") };
        let list = MemberList { stamp: Stamp::new(Epoch(epoch), n), members: voters.iter().map(listed).collect() };
        Volume {
            id: NodeId(id),
            cluster: Some(ClusterId(7)),
            epoch: Epoch(epoch + 1),
            holder: Some(NodeId(1)),
            list: Some(list),
            removed: None,
            ledger: LedgerPage::default(),
            last_alive_ms: None,
        }
    }

    fn judged(volumes: &[Volume]) -> Advice {
        advise(&volumes.iter().collect::<Vec<_>>(), &[1, 2, 3])
    }

    #[test]
    fn the_survivor_with_the_newest_list_is_used_then_the_one_with_the_newest_epoch() {
        let four = &[1, 2, 3, 4, 5][..];
        let (two, three) = (volume(2, (4, 0), four), volume(3, (4, 1), four));
        let lost = vec![1, 4, 5];
        assert_eq!(judged(&[two.clone(), three.clone()]), Advice::Force { id: NodeId(3), lost: lost.clone() });
        assert_eq!(judged(&[three.clone(), two.clone()]), Advice::Force { id: NodeId(3), lost: lost.clone() });
        let ahead = Volume { epoch: Epoch(99), ..volume(2, (4, 1), four) };
        assert_eq!(judged(&[ahead, three]), Advice::Force { id: NodeId(2), lost });
    }

    #[test]
    fn a_living_majority_is_started_and_a_removed_or_blank_member_is_not_used() {
        let three = &[1, 2, 3][..];
        assert_eq!(judged(&[volume(2, (4, 0), three), volume(3, (4, 0), three)]), Advice::Start(vec![2, 3]));
        let blank = Volume { list: None, ..volume(3, (4, 0), three) };
        let forced = Advice::Force { id: NodeId(2), lost: vec![1, 3] };
        assert_eq!(judged(&[volume(2, (4, 0), three), blank.clone()]), forced);
        let removed = Volume { removed: Some(Stamp::new(Epoch(9), 1)), ..volume(3, (9, 1), &[1, 2]) };
        assert_eq!(
            judged(&[volume(2, (4, 0), three), removed]),
            forced,
            "3 was removed, and 1 and 2 are not a majority"
        );
        assert_eq!(judged(&[blank]), Advice::None);
    }

    #[test]
    fn two_clusters_are_not_mixed_and_a_record_without_a_list_takes_that_of_the_config() {
        let three = &[1, 2, 3][..];
        let other = Volume { cluster: Some(ClusterId(8)), ..volume(3, (4, 0), three) };
        assert_eq!(judged(&[volume(2, (4, 0), three), other]), Advice::Mixed);
        assert_eq!(judged(&[volume(2, (0, 0), &[])]), Advice::Force { id: NodeId(2), lost: vec![1, 3] });
    }

    #[test]
    fn the_command_names_the_directory_the_lost_and_a_token_of_the_highest_epoch() {
        let (two, three) =
            (volume(2, (4, 1), &[1, 2, 3, 4]), Volume { epoch: Epoch(9), ..volume(3, (4, 0), &[1, 2, 3, 4]) });
        let found = [(Path::new("/d/n2"), two), (Path::new("/d/n3"), three)];
        let survey = Survey::of(&found, &[], Path::new("c.toml"));
        let token = 9_u64 << 28;
        let command =
            format!("node --config c.toml --id 2 --data-dir /d/n2 --force-voters 2 --lost 1,4 --token-above {token}");
        assert_eq!((survey.r#use, survey.command.as_deref()), (Some(2), Some(command.as_str())));
        let words = survey.in_words();
        assert!(
            words.contains("member 2 in /d/n2: epoch 5, granted to 1, list 4.1 with the voters 1,2,3,4"),
            "{words}"
        );
    }
}
