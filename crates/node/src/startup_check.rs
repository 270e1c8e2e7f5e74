//! May this process continue with the votes on its disk?

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use algorithms::{Epoch, NodeId};
use member::reign::{LockPast, Vote};
use member::{QuorumRecord, Safety};
use thiserror::Error;
use types::{InstanceId, MemberList, PeerRole, Stamp};

use crate::binding::Binding;
use crate::config::Config;
use crate::records::{self, AuthorityRecord, OnDisk};
use crate::recovery::{ForceRefusal, Forced};
use crate::storage::{StateFile, VolumeRecord};

/// What the operator declared about the disk.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// This is a new cluster: nothing was ever granted.
    pub bootstrap: bool,
    /// The lease or the drift has changed on all members, which were all stopped.
    pub accept_members: bool,
    /// The volume was moved to this machine and directory, and no copy is left behind.
    pub moved: bool,
    /// A majority of the voters is lost for ever: this member begins a new cluster alone.
    pub force: Option<Forced>,
}

/// The record and the config contradict each other. Nothing was changed.
#[derive(Debug, Error)]
pub enum Mismatch {
    #[error(
        "the data directory belongs to member {owner}, and this is member {id}: it would act on promises that it never \
         made. Name this member's own directory with --data-dir, or an empty one"
    )]
    Owner { owner: NodeId, id: NodeId },
    #[error(
        "the state on disk was written with safety = \"{recorded}\", the config says \"{configured}\": epochs of the two \
         count differently, so tokens could go back. Write safety = \"{recorded}\", or stop all members and give all of \
         them new data directories"
    )]
    Safety { recorded: &'static str, configured: &'static str },
    #[error(
        "the lease or max_drift is not what the votes on disk were given under: members that disagree on it could elect \
         two leaders. Undo the change; or stop all members, change the config everywhere, and start each once with \
         --accept-members"
    )]
    Members,
    #[error(
        "the member list of the config is not the one on disk: members that disagree on it could elect two leaders. Undo \
         the change; `ctl member` adds, removes and replaces members while the cluster runs"
    )]
    List,
    #[error(
        "member {id} was removed from the cluster in {list}: it takes no part in it any more. To add it again, empty its \
         data directory, write join instead of [[peers]] into its config, and run `ctl member add {id} HOST:PORT`; its \
         ledger may be needed by `ctl audit`, so keep a copy"
    )]
    Removed { id: NodeId, list: Stamp },
    #[error(
        "[[instances]] cannot be added to a cluster whose member list was changed (list {list}): members of one list only \
         have elections of their own"
    )]
    Instances { list: Stamp },
    #[error("--bootstrap begins a new cluster, and a member with join is added to one: start it without --bootstrap")]
    JoinBootstrap,
    #[error(transparent)]
    Force(#[from] ForceRefusal),
    #[error(
        "the state on disk holds a record of the algorithm {recorded}, the config says {configured}: promises in that \
         record would be forgotten. Write algorithm = \"{recorded}\", or give this member an empty data directory, one \
         member after the other"
    )]
    Algorithm { recorded: String, configured: &'static str },
    #[error("--bootstrap is for a member without votes on disk; this member has votes: start it without --bootstrap")]
    Bootstrap,
    #[error(
        "the volume in {directory} was written {difference}: a copy of a volume must not vote beside its original. If \
         it was really moved, and nothing can start with the old one any more, start it here once with `node --moved`; \
         if it is a copy or a restored backup, empty the directory instead: this member then learns from the other \
         members"
    )]
    Elsewhere { directory: String, difference: &'static str },
}

/// Where this process runs; its binding is `None` if volumes are not bound.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) binding: Option<Binding>,
}

pub(crate) fn check_record(
    config: &Config,
    id: NodeId,
    stored: Option<StateFile>,
    start: &Start,
    place: &Place,
) -> Result<Option<StateFile>, Mismatch> {
    let volume = stored.as_ref().map(|file| &file.volume);
    if let Some(volume) = volume.filter(|volume| volume.id != id) {
        return Err(Mismatch::Owner { owner: volume.id, id });
    }
    let binding = volume.and_then(|volume| volume.binding).filter(|_| !start.moved);
    if let (Some(bound), Some(here)) = (binding, &place.binding)
        && let Some(difference) = bound.difference(here)
    {
        return Err(Mismatch::Elsewhere { directory: place.directory.display().to_string(), difference });
    }
    let safety = config.safety;
    if let Some(volume) = volume.filter(|volume| volume.safety != safety) {
        return Err(Mismatch::Safety { recorded: volume.safety.name(), configured: safety.name() });
    }
    for election in config.elections() {
        let on_disk = stored.as_ref().map(|file| records::algorithm(file, election.instance, election.row.name));
        if let Some(OnDisk::OfAnother(recorded)) = on_disk {
            return Err(Mismatch::Algorithm { recorded, configured: election.row.name });
        }
    }
    if safety == Safety::Classic {
        return Ok(stored);
    }
    if let Some(list) = stored.as_ref().and_then(|file| records::list_mark(file).removed) {
        return Err(Mismatch::Removed { id, list });
    }
    let election = |file| records::authority(file, InstanceId::ELECTION);
    let votes = stored.as_ref().and_then(election).is_some_and(|record| record.vote().is_some());
    if start.bootstrap {
        return match votes {
            _ if !config.join.is_empty() => Err(Mismatch::JoinBootstrap),
            true => Err(Mismatch::Bootstrap),
            false => Ok(Some(new_cluster(config, id, stored))),
        };
    }
    let without_list = stored.as_ref().is_some_and(records::is_without_list);
    let digest = if without_list { config.votes_digest_with_list() } else { config.votes_digest() };
    let changed = volume.is_some_and(|volume| volume.members != digest);
    if changed && !start.accept_members {
        return Err(Mismatch::Members);
    }
    let Some(mut file) = stored else { return Ok(None) };
    for election in config.elections() {
        check_list(config, id, &mut file, election.instance)?;
    }
    if let Some(force) = &start.force {
        crate::recovery::force(config, id, &mut file, force)?;
    }
    Ok(Some(file))
}

/// The list on disk rules. The first list of a cluster is that of its config, whose addresses and priorities may change.
fn check_list(config: &Config, id: NodeId, file: &mut StateFile, instance: InstanceId) -> Result<(), Mismatch> {
    let Some(AuthorityRecord::Quorum(mut record)) = records::authority(file, instance) else {
        return Ok(());
    };
    let Some(vote) = &mut record.vote else { return Ok(()) };
    let first = config.first_list();
    if vote.list.members.is_empty() {
        // Written before lists were on disk; `votes_digest_with_list` has compared it.
        vote.list = Arc::new(first);
    } else if vote.list.stamp == Stamp::FIRST {
        if config.join.is_empty() {
            if ids_and_roles(&vote.list) != ids_and_roles(&first) {
                return Err(Mismatch::List);
            }
            vote.list = Arc::new(first);
        }
    } else {
        let list = vote.list.stamp;
        if !config.instances.is_empty() {
            return Err(Mismatch::Instances { list });
        }
        // A member that waits to be added has lists without itself, too.
        let was_listed = config.join.is_empty() || records::list_mark(file).listed;
        if was_listed && !vote.list.contains(id) {
            return Err(Mismatch::Removed { id, list });
        }
        if config.join.is_empty() && !vote.list.same_members(&first) {
            tracing::warn!(
                %list, members = ?vote.list.voters().map(|id| id.0).collect::<Vec<_>>(),
                "the list on disk rules; the [[peers]] of the config differ from it (`ctl member list` shows it)"
            );
        }
        return Ok(());
    }
    records::put_authority(file, instance, AuthorityRecord::Quorum(record).encode());
    Ok(())
}

fn ids_and_roles(list: &MemberList) -> BTreeSet<(NodeId, PeerRole)> {
    list.members.iter().map(|listed| (listed.uid.id, listed.role)).collect()
}

/// The operator's declaration that nothing was ever granted replaces the survey of all other voters.
fn new_cluster(config: &Config, id: NodeId, stored: Option<StateFile>) -> StateFile {
    let list = Arc::new(config.first_list());
    let vote = Vote {
        epoch: Epoch(0),
        holder: None,
        longest_lease: config.settings.timing.lease,
        list,
        locks: LockPast::default(),
    };
    let (members, seen) = (config.votes_digest(), BTreeMap::new());
    let volume = VolumeRecord { id, refused: false, members, safety: Safety::Quorum, seen, binding: None };
    let mut file = stored.unwrap_or_else(|| StateFile::new(volume));
    file.volume.members = members;
    for election in config.elections() {
        let record = records::authority(&file, election.instance);
        let quorum = if let Some(AuthorityRecord::Quorum(record)) = record { record } else { QuorumRecord::default() };
        let record = AuthorityRecord::Quorum(QuorumRecord { vote: Some(vote.clone()), ..quorum });
        records::put_authority(&mut file, election.instance, record.encode());
    }
    file
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use member::BeliefRecord;

    use super::*;

    const LISTED: &str =
        "[[peers]]\nid = 1\naddress = \"127.0.0.1:7401\"\n[[peers]]\nid = 2\naddress = \"127.0.0.1:7402\"\n";
    const HEAD: &str = "[cluster]\nname = \"test\"\n";
    const JOIN: &str = "join = [\"127.0.0.1:7401\"]\nlisten = \"127.0.0.1:7402\"\n";

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("x.toml")).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn file(config: &Config, list: MemberList) -> StateFile {
        let (members, seen) = (config.votes_digest(), BTreeMap::new());
        let id = NodeId(2);
        let volume = VolumeRecord { id, refused: false, members, safety: Safety::Quorum, seen, binding: None };
        let vote = Vote {
            epoch: Epoch(7),
            holder: None,
            longest_lease: Duration::from_secs(1),
            list: Arc::new(list),
            locks: LockPast::default(),
        };
        let record = QuorumRecord { belief: BeliefRecord::default(), vote: Some(vote), cluster: None };
        let mut file = StateFile::new(volume);
        records::put_authority(&mut file, InstanceId::ELECTION, AuthorityRecord::Quorum(record).encode());
        file
    }

    /// What a start of member 2 with this config says about a disk with this list, and the list that it goes on with.
    fn judge(text: &str, list: MemberList, start: &Start) -> Result<MemberList, String> {
        let config = config(text);
        let place = Place { directory: PathBuf::new(), binding: None };
        let stored = file(&config, list);
        let checked = check_record(&config, NodeId(2), Some(stored), start, &place);
        let record =
            checked.map(|file| records::authority(&file.expect("a file"), InstanceId::ELECTION).expect("a record"));
        record.map(|record| MemberList::clone(record.list().expect("a list"))).map_err(|error| error.to_string())
    }

    fn later(list: &MemberList, ids: &[u32]) -> MemberList {
        let mut list = list.stamped(Stamp::new(Epoch(5), 1));
        list.members.retain(|listed| ids.contains(&listed.uid.id.0));
        list
    }

    #[test]
    fn the_first_list_follows_the_file_as_long_as_the_voters_are_the_same() {
        let first = config(&format!("{HEAD}{LISTED}")).first_list();
        let moved = format!("{HEAD}{}", LISTED.replace("7401", "7501"));
        assert_eq!(judge(&moved, first.clone(), &Start::default()), Ok(config(&moved).first_list()));
        let accept = Start { accept_members: true, ..Start::default() };
        let more = format!("{HEAD}{LISTED}[[peers]]\nid = 3\naddress = \"127.0.0.1:7403\"\n");
        let witness = format!("{HEAD}{}", LISTED.replace("id = 1\n", "id = 1\nrole = \"witness\"\n"));
        for other in [more, witness] {
            let said = judge(&other, first.clone(), &accept).unwrap_err();
            assert!(said.contains("ctl member"), "{said}");
        }
        assert_eq!(judge(&format!("{HEAD}{JOIN}"), first.clone(), &Start::default()), Ok(first.clone()));
        assert_eq!(
            judge(&moved, MemberList::default(), &Start::default()),
            Ok(config(&moved).first_list()),
            "no list yet"
        );
    }

    #[test]
    fn a_later_list_rules_and_a_member_outside_it_does_not_start() {
        let text = format!("{HEAD}{LISTED}");
        let first = config(&text).first_list();
        let alone = later(&first, &[2]);
        assert_eq!(judge(&text, alone.clone(), &Start::default()), Ok(alone.clone()));
        let without = later(&first, &[1]);
        let said = judge(&text, without.clone(), &Start::default()).unwrap_err();
        assert!(said.contains("removed from the cluster in 5.1") && said.contains("empty"), "{said}");
        assert_eq!(judge(&format!("{HEAD}{JOIN}"), without.clone(), &Start::default()), Ok(without), "not added yet");
        let joins = config(&format!("{HEAD}{JOIN}"));
        let mut stored = file(&joins, later(&first, &[1]));
        records::put_list_mark(&mut stored, records::ListMark { listed: true, ..Default::default() });
        let place = Place { directory: PathBuf::new(), binding: None };
        let refused = check_record(&joins, NodeId(2), Some(stored), &Start::default(), &place);
        assert!(matches!(refused, Err(Mismatch::Removed { .. })), "it was added and removed: {refused:?}");
        let instances = format!("{text}[[instances]]\nid = 256\nalgorithm = \"bully\"\n");
        assert!(judge(&instances, alone, &Start::default()).unwrap_err().contains("[[instances]]"));
    }

    #[test]
    fn a_mark_of_removal_ends_every_later_start() {
        let config = config(&format!("{HEAD}{JOIN}"));
        let mut stored = file(&config, MemberList::default());
        let list = Stamp::new(Epoch(9), 2);
        records::put_list_mark(&mut stored, records::ListMark { removed: Some(list), ..Default::default() });
        let place = Place { directory: PathBuf::new(), binding: None };
        let refused = check_record(&config, NodeId(2), Some(stored), &Start::default(), &place);
        assert!(matches!(refused, Err(Mismatch::Removed { list: found, .. }) if found == list), "{refused:?}");
    }

    #[test]
    fn a_forced_member_begins_above_all_that_was_granted_alone_and_in_a_new_cluster() {
        use crate::recovery::Forced;
        use types::{ClusterId, Token};
        let config = config(&format!("{HEAD}{LISTED}"));
        let force = |token_above| {
            let ids = |id| BTreeSet::from([NodeId(id)]);
            let forced = Forced { voters: ids(2), lost: ids(1), token_above, cluster: ClusterId(77) };
            let start = Start { force: Some(forced), ..Start::default() };
            let place = Place { directory: PathBuf::new(), binding: None };
            let stored = file(&config, later(&config.first_list(), &[1, 2]));
            let file = check_record(&config, NodeId(2), Some(stored), &start, &place).unwrap().unwrap();
            assert!(records::list_mark(&file).forced);
            let Some(AuthorityRecord::Quorum(record)) = records::authority(&file, InstanceId::ELECTION) else {
                panic!()
            };
            assert_eq!(record.cluster.map(|mark| (mark.agreed, mark.id)), Some((true, ClusterId(77))));
            record.vote.unwrap()
        };
        for (token, epoch) in [(None, 7), (Some(Token::new(Epoch(3), 9)), 7), (Some(Token::new(Epoch(8), 9)), 8)] {
            let vote = force(token);
            assert_eq!((vote.epoch, vote.list.stamp), (Epoch(epoch + (1 << 20)), Stamp::new(vote.epoch, 0)));
            assert_eq!((vote.holder, vote.list.voters().collect::<Vec<_>>()), (None, vec![NodeId(2)]));
        }
    }
}
