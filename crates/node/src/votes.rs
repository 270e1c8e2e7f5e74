//! May this process go on with the votes that are on its disk?

use std::collections::BTreeMap;

use algorithms::{Epoch, NodeId, Safety};
use member::Record;
use member::reign::Vote;
use thiserror::Error;

use crate::config::Config;
use crate::records::Stored;
use crate::storage::{StateFile, VolumeRecord};

/// What the operator said about the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// This is a new cluster: nothing was ever granted.
    pub bootstrap: bool,
    /// The member list and the lease have changed on all members, which were all stopped.
    pub accept_members: bool,
}

/// The record and the config do not belong together. Nothing was changed.
#[derive(Debug, Error)]
pub enum Mismatch {
    #[error(
        "the data directory is that of member {owner}, and this is member {id}: it would act on promises that it never \
         made. Name its own with --data-dir, or an empty one"
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
    #[error("--bootstrap is for a member that has no votes on disk; this one has: start it without")]
    Bootstrap,
}

pub(crate) fn go_on(
    config: &Config,
    id: NodeId,
    stored: Option<Stored>,
    start: Start,
) -> Result<Option<Stored>, Mismatch> {
    let volume = stored.as_ref().map(|stored| &stored.file.volume);
    if let Some(volume) = volume.filter(|volume| volume.id != id) {
        return Err(Mismatch::Owner { owner: volume.id, id });
    }
    let safety = config.settings.safety;
    if let Some(volume) = volume.filter(|volume| volume.safety != safety) {
        return Err(Mismatch::Safety { recorded: volume.safety.name(), configured: safety.name() });
    }
    if safety == Safety::Classic {
        return Ok(stored);
    }
    let votes = stored.as_ref().is_some_and(|stored| stored.member.vote.is_some());
    if start.bootstrap {
        return if votes { Err(Mismatch::Bootstrap) } else { Ok(Some(new_cluster(config, id, stored))) };
    }
    let changed = volume.is_some_and(|volume| volume.members != config.votes_digest());
    if changed && !start.accept_members { Err(Mismatch::Members) } else { Ok(stored) }
}

/// The operator's word that nothing was ever granted stands for asking all the others.
fn new_cluster(config: &Config, id: NodeId, stored: Option<Stored>) -> Stored {
    let vote = Vote { epoch: Epoch(0), holder: None, longest_lease: config.settings.timing.lease };
    let (members, seen) = (config.votes_digest(), BTreeMap::new());
    let mut stored = stored.unwrap_or_else(|| Stored {
        file: StateFile::new(VolumeRecord { id, refused: false, members, safety: Safety::Quorum, seen }),
        member: Record::default(),
    });
    stored.file.volume.members = members;
    stored.member.vote = Some(vote);
    stored
}
