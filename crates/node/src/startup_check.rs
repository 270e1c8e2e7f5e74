//! May this process continue with the votes on its disk?

use std::collections::BTreeMap;
use std::path::PathBuf;

use algorithms::{Epoch, NodeId};
use member::reign::Vote;
use member::{QuorumRecord, Safety};
use thiserror::Error;
use types::InstanceId;

use crate::binding::Binding;
use crate::config::Config;
use crate::records::{self, AuthorityRecord, OnDisk};
use crate::storage::{StateFile, VolumeRecord};

/// What the operator declared about the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// This is a new cluster: nothing was ever granted.
    pub bootstrap: bool,
    /// The member list and the lease have changed on all members, which were all stopped.
    pub accept_members: bool,
    /// The volume was moved to this machine and directory, and no copy is left behind.
    pub moved: bool,
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
        "the member list, a role, the lease or max_drift is not what the votes on disk were given under: members that \
         disagree on it could elect two leaders. Undo the change; or stop all members, change the config everywhere, \
         and start each once with --accept-members"
    )]
    Members,
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
    start: Start,
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
    let election = |file| records::authority(file, InstanceId::ELECTION);
    let votes = stored.as_ref().and_then(election).is_some_and(|record| record.vote().is_some());
    if start.bootstrap {
        return if votes { Err(Mismatch::Bootstrap) } else { Ok(Some(new_cluster(config, id, stored))) };
    }
    let changed = volume.is_some_and(|volume| volume.members != config.votes_digest());
    if changed && !start.accept_members { Err(Mismatch::Members) } else { Ok(stored) }
}

/// The operator's declaration that nothing was ever granted replaces the survey of all other voters.
fn new_cluster(config: &Config, id: NodeId, stored: Option<StateFile>) -> StateFile {
    let vote = Vote { epoch: Epoch(0), holder: None, longest_lease: config.settings.timing.lease };
    let (members, seen) = (config.votes_digest(), BTreeMap::new());
    let volume = VolumeRecord { id, refused: false, members, safety: Safety::Quorum, seen, binding: None };
    let mut file = stored.unwrap_or_else(|| StateFile::new(volume));
    file.volume.members = members;
    for election in config.elections() {
        let record = records::authority(&file, election.instance);
        let quorum = if let Some(AuthorityRecord::Quorum(record)) = record { record } else { QuorumRecord::default() };
        let record = AuthorityRecord::Quorum(QuorumRecord { vote: Some(vote), ..quorum });
        records::put_authority(&mut file, election.instance, record.encode());
    }
    file
}
