//! Data directories of real members: read, copied, put back.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use member::{Incarnation, QuorumRecord};
use node::records::{self, AuthorityRecord};
use node::storage::StateFile;
use tokio::process::{Child, Command};

use crate::{Cluster, PATIENCE, Scratch, node_binary};

/// The records on the disk of a member.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    pub file: StateFile,
    pub authority: AuthorityRecord,
}

impl Recorded {
    pub fn incarnation(&self) -> Incarnation {
        *self.authority.clone().incarnation_mut()
    }

    pub fn quorum(&self) -> QuorumRecord {
        let AuthorityRecord::Quorum(record) = self.authority.clone() else { panic!("no record of a voter: {self:?}") };
        record
    }
}

/// For a running member too. Read from a copy: the directory itself is locked while the member runs, and the file is
/// replaced as a whole.
pub fn record(data: &Path) -> Option<Recorded> {
    let copy = Scratch::new("record").unwrap();
    fs::copy(data.join("state"), copy.path().join("state")).ok()?;
    let file = records::open(copy.path()).unwrap_or_else(|error| panic!("{error}")).1?;
    let authority = records::authority(&file, types::InstanceId::ELECTION)?;
    Some(Recorded { file, authority })
}

/// Copies the record, as a backup would.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::copy(from.join("state"), to.join("state")).unwrap();
}

/// A member of the cluster, below `wrapper` if there is one.
pub fn start(wrapper: &[String], cluster: &Cluster, config: &Path, id: u32, data: &Path) -> Child {
    start_with(wrapper, cluster, config, id, data, &[])
}

/// The same with more arguments.
pub fn start_with(
    wrapper: &[String],
    cluster: &Cluster,
    config: &Path,
    id: u32,
    data: &Path,
    arguments: &[&str],
) -> Child {
    let line = [wrapper, &[node_binary().display().to_string()]].concat();
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]).arg("--config").arg(config).arg("--id").arg(id.to_string()).arg("--data-dir").arg(data);
    command.args(arguments);
    command.env("CONCLAVE_DIE_WITH_PARENT", "1").current_dir(cluster.directory()).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The same, until the process ends by itself.
pub async fn run(wrapper: &[String], cluster: &Cluster, config: &Path, id: u32, data: &Path) -> Output {
    let running = start(wrapper, cluster, config, id, data).wait_with_output();
    tokio::time::timeout(PATIENCE, running).await.expect("the member ends by itself").unwrap()
}

/// The member below a wrapper.
pub fn below(wrapper: &Child) -> i32 {
    let pid = wrapper.id().expect("it runs");
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("a living wrapper");
    children.split_whitespace().next().expect("it has started the member").parse().expect("a process id")
}
