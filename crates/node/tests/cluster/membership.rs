//! Members are added, removed, replaced and moved while real processes run, are killed, paused and cut off.
//! `CONCLAVE_MEMBER_ROUNDS=50` changes the list for longer; `CONCLAVE_MEMBER_SEED` chooses other members and faults.

mod faults;
mod recovery;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use algorithms::catalog;
use client::{Client, ClientSettings, Endpoint, LedgerKind, Safety};
use testkit::{Live, PATIENCE, Plan};
use types::{Change, Listed, MemberList, Membership, NodeId, PeerRole, Stamp, Uid};

/// A member that a shell starts may have a config of its own beside that of the cluster.
const OWN_CONFIG: &str = "if [ -f \"$2.$4\" ]; then own=\"$2.$4\"; shift 2; set -- --config \"$own\" \"$@\"; fi";

/// A leader without the copies of a majority changes no voter before every lock has expired.
const LOCKS: &str = "[locks]\nmax_ttl = \"1s\"\n";

/// A cluster whose config lists its first members; the others have addresses and run when they are started.
struct Changing {
    live: Live,
    /// The members of the list in force.
    inside: BTreeSet<u32>,
}

/// What is needed to ask members while the test does other things to them.
#[derive(Clone)]
struct Asker {
    endpoints: Vec<Endpoint>,
    settings: ClientSettings,
}

fn listed(id: u32, role: PeerRole, address: &str) -> Listed {
    Listed { uid: Uid::plain(id), role, address: address.to_owned() }
}

impl Asker {
    async fn client(&self, id: u32) -> Option<Client> {
        Client::connect(&self.endpoints[id as usize - 1].address, &self.settings).await.ok()
    }

    /// The answers of the members that answer.
    async fn memberships(&self) -> Vec<(Client, Membership)> {
        let mut all = Vec::new();
        for endpoint in &self.endpoints {
            let asked = async {
                let client = self.client(endpoint.id?).await?;
                let membership = client.members().await.ok()?;
                Some((client, membership))
            };
            all.extend(tokio::time::timeout(Duration::from_secs(1), asked).await.ok().flatten());
        }
        all
    }

    /// Asks whichever member leads for this change until it is in force.
    async fn reach(&self, change: Change) -> Result<MemberList, String> {
        let mut last = String::new();
        let trying = async {
            loop {
                for (client, membership) in self.memberships().await {
                    let Some(in_force) = membership.in_force else { continue };
                    let settled = membership.pending.is_none() && membership.known.stamp == in_force;
                    if settled && change.is_made_in(&membership.known) {
                        return membership.known;
                    }
                    if let Change::Unlist(id) = change
                        && id.0 == client.member_id()
                    {
                        // A leader is not removed: it hands over first.
                        for to in membership.known.voters().filter(|&to| to != id) {
                            let _ = client.transfer(to.0, false).await;
                        }
                    } else if let Err(error) = client.change_members(change.clone()).await {
                        last = format!("member {}: {error}", client.member_id());
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(2 * PATIENCE, trying).await;
        reached.map_err(|_| format!("{change:?} is not in force; {last}"))
    }
}

impl Changing {
    /// `first` members of `nodes` are in the config and run.
    fn start(first: u32, nodes: u32) -> Self {
        let mut changing = Self::prepare(first, nodes, "");
        for id in 1..=first {
            changing.live.cluster.start(id).unwrap();
        }
        changing
    }

    /// No member runs. `lines`: more of the table `[cluster]`.
    fn prepare(first: u32, nodes: u32, lines: &str) -> Self {
        let row = catalog::row(catalog::DEFAULT).unwrap();
        let plan = Plan { safety: Safety::Quorum, chaos: true, ..Plan::new(nodes, row) };
        let live = Live::behind_shell(&plan, OWN_CONFIG);
        let config = live.cluster.config();
        let text = fs::read_to_string(&config).unwrap().replace("[cluster]\n", &format!("{LOCKS}[cluster]\n{lines}"));
        let tables: Vec<&str> = text.split("[[peers]]").take(1 + first as usize).collect();
        fs::write(config, tables.join("[[peers]]")).unwrap();
        Changing { live, inside: (1..=first).collect() }
    }

    fn address(&self, id: u32) -> String {
        self.live.cluster.endpoints()[id as usize - 1].address.clone()
    }

    fn asker(&self) -> Asker {
        Asker { endpoints: self.live.cluster.endpoints(), settings: self.live.cluster.settings().clone() }
    }

    fn inside(&self) -> Vec<u32> {
        self.inside.iter().copied().collect()
    }

    /// An empty directory, and addresses of the cluster instead of its list.
    fn make_joiner(&self, id: u32) {
        let directory = self.live.cluster.data_directory(id);
        for entry in fs::read_dir(&directory).unwrap().flatten().filter(|entry| entry.file_name() != "log") {
            let _ = fs::remove_file(entry.path());
            let _ = fs::remove_dir_all(entry.path());
        }
        let config = self.live.cluster.config();
        let text = fs::read_to_string(&config).unwrap();
        let head = text.split("[[peers]]").next().unwrap().replace("bootstrap = \"manual\"\n", "");
        let join: Vec<String> = self.inside.iter().map(|&id| format!("{:?}", self.address(id))).collect();
        let lines = format!("[cluster]\njoin = [{}]\nlisten = {:?}\n", join.join(", "), self.address(id));
        fs::write(format!("{}.{id}", config.display()), head.replace("[cluster]\n", &lines)).unwrap();
    }

    async fn reach(&self, change: Change) -> MemberList {
        let reached = self.asker().reach(change).await;
        reached.unwrap_or_else(|error| panic!("{error}\n{}", self.live.logs()))
    }

    /// As `ctl member add` does it: listed as a learner, started, and then a voter.
    async fn add(&mut self, id: u32) -> MemberList {
        self.make_joiner(id);
        self.reach(Change::List(listed(id, PeerRole::Learner, &self.address(id)))).await;
        self.live.cluster.start(id).unwrap();
        let list = self.reach(Change::List(listed(id, PeerRole::Member, &self.address(id)))).await;
        self.inside.insert(id);
        list
    }

    async fn remove(&mut self, id: u32) -> MemberList {
        self.inside.remove(&id);
        self.reach(Change::Unlist(NodeId(id))).await
    }

    /// A process that was removed ends by itself, with one of these codes.
    async fn ends_removed(&mut self, id: u32, codes: &[i32]) {
        let ended = tokio::time::timeout(PATIENCE, self.live.cluster.reap(id)).await;
        let ended = ended.unwrap_or_else(|_| panic!("{id} does not end\n{}", self.live.logs())).unwrap();
        let log = self.live.cluster.log_tail(id, 20);
        assert!(ended.code().is_some_and(|code| codes.contains(&code)), "{ended}: {log}");
        assert!(log.contains("removed in ") || log.contains("was removed from the cluster in "), "{log}");
        self.live.observer.forget(id as usize - 1);
    }

    /// Waits until this member has this list, or a later one, on its disk.
    async fn on_disk(&self, id: u32, stamp: Stamp) {
        let asker = self.asker();
        let asking = async {
            loop {
                let client = asker.client(id).await;
                let on_disk = match client {
                    Some(client) => client.members().await.ok().and_then(|membership| membership.on_disk),
                    None => None,
                };
                if on_disk.is_some_and(|found| found >= stamp) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, asking).await;
        assert!(in_time.is_ok(), "member {id} has no list {stamp}\n{}", self.live.logs());
    }

    async fn agreement(&mut self) -> (u32, u64) {
        let inside = self.inside();
        self.live.agreement(&inside).await
    }
}

/// Waits until the ledger of this member says that it has this list on its disk: a moment after the write.
async fn adopted(changing: &Changing, id: u32, stamp: Stamp) {
    let asking = async {
        loop {
            let page = changing.live.client(id).await.history().await.unwrap();
            let is_it = |kind: &LedgerKind| matches!(kind, LedgerKind::Adopted(part) if part.stamp == stamp);
            if page.entries.iter().any(|entry| is_it(&entry.kind)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, asking).await;
    assert!(in_time.is_ok(), "the ledger of {id} has no list {stamp}\n{}", changing.live.logs());
}

#[tokio::test]
async fn a_blank_third_member_joins_by_an_address_and_votes() {
    let mut changing = Changing::start(2, 3);
    let (_, before) = changing.agreement().await;
    changing.live.voting(&[1, 2]).await;
    let list = changing.add(3).await;
    assert!(list.votes(NodeId(3)) && list.stamp > Stamp::FIRST);
    let (leader, _) = changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    changing.on_disk(3, list.stamp).await;
    // It is one of a majority of three: another one may die.
    let other = if leader == 1 { 2 } else { 1 };
    changing.live.kill(other).await;
    let rest: Vec<u32> = [1, 2, 3].into_iter().filter(|&id| id != other).collect();
    let (leader, epoch) = changing.live.agreement_that(&rest, |_, epoch| epoch >= before).await;
    adopted(&changing, 3, list.stamp).await;
    // Restarted with its own config, it finds its list on its disk.
    changing.live.kill(3).await;
    changing.live.cluster.start(3).unwrap();
    changing.live.agreement_that(&rest, |_, found| found >= epoch).await;
    assert!(leader != other);
}

#[tokio::test]
async fn a_member_that_joins_serves_http_where_its_config_says() {
    let mut changing = Changing::start(2, 3);
    changing.agreement().await;
    changing.live.voting(&[1, 2]).await;
    changing.make_joiner(3);
    let port = testkit::free_ports_elsewhere(1).unwrap()[0];
    let config = format!("{}.3", changing.live.cluster.config().display());
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("[cluster]\n", &format!("[cluster]\nhttp = \"127.0.0.1:{port}\"\n"))).unwrap();
    changing.reach(Change::List(listed(3, PeerRole::Learner, &changing.address(3)))).await;
    changing.live.cluster.start(3).unwrap();
    changing.reach(Change::List(listed(3, PeerRole::Member, &changing.address(3)))).await;
    // The new member is the best one: it takes over.
    changing.live.agreement_on(3, &[1, 2, 3]).await;
    let status = testkit::http::get(port, "/v1/status").await.json();
    assert_eq!((&status["leader"], status["members"].as_array().map(Vec::len)), (&3.into(), Some(3)), "{status}");
    assert_eq!(testkit::http::get(port, "/metrics").await.code, 200);
}

#[tokio::test]
async fn a_voter_that_was_made_a_learner_is_made_a_voter_again_without_a_restart() {
    let mut changing = Changing::start(3, 3);
    let (leader, _) = changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    let id = if leader == 1 { 2 } else { 1 };
    let of = |role| Change::List(listed(id, role, &changing.address(id)));
    let learns = changing.reach(of(PeerRole::Learner)).await;
    assert!(!learns.votes(NodeId(id)) && learns.contains(NodeId(id)));
    let votes = changing.reach(of(PeerRole::Member)).await;
    assert!(votes.votes(NodeId(id)) && votes.stamp > learns.stamp);
    changing.on_disk(id, votes.stamp).await;
    changing.agreement().await;
}

#[tokio::test]
async fn a_removed_member_says_so_ends_and_does_not_come_back_until_its_directory_is_emptied() {
    let mut changing = Changing::start(3, 3);
    changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    changing.remove(1).await;
    changing.ends_removed(1, &[0]).await;
    changing.live.cluster.start(1).unwrap();
    let ended = tokio::time::timeout(PATIENCE, changing.live.cluster.reap(1)).await.expect("it ends").unwrap();
    let log = changing.live.cluster.log_tail(1, 2);
    assert_eq!(ended.code(), Some(2), "{log}");
    assert!(log.contains("was removed from the cluster in") && log.contains("empty its data directory"), "{log}");
    changing.agreement().await;
    changing.add(1).await;
    assert_eq!(changing.inside(), [1, 2, 3]);
    changing.agreement().await;
}

#[tokio::test]
async fn a_removed_member_that_was_down_hears_of_it_when_it_returns() {
    let mut changing = Changing::start(3, 3);
    changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    changing.live.kill(1).await;
    changing.remove(1).await;
    changing.live.cluster.start(1).unwrap();
    changing.ends_removed(1, &[0]).await;
}

#[tokio::test]
async fn the_list_on_disk_rules_after_all_were_killed_and_the_config_still_has_the_first_one() {
    let mut changing = Changing::start(3, 3);
    changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    let list = changing.remove(1).await;
    changing.ends_removed(1, &[0]).await;
    let (_, before) = changing.agreement().await;
    for id in [2, 3] {
        changing.on_disk(id, list.stamp).await;
    }
    changing.live.kill_all(&[2, 3]).await;
    for id in [2, 3] {
        changing.live.cluster.start(id).unwrap();
    }
    changing.live.agreement_that(&[2, 3], |_, epoch| epoch > before).await;
    for (_, membership) in changing.asker().memberships().await {
        assert!(membership.known.stamp >= list.stamp, "{membership:?}");
        assert_eq!(membership.known.voters().collect::<Vec<_>>(), [2, 3].map(NodeId));
    }
}

#[tokio::test]
async fn a_dead_machine_is_replaced() {
    let mut changing = Changing::start(3, 4);
    changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    changing.live.kill(2).await;
    fs::remove_dir_all(changing.live.cluster.data_directory(2)).unwrap();
    changing.inside.remove(&2);
    changing.add(4).await;
    let list = changing.remove(2).await;
    assert_eq!(list.voters().collect::<Vec<_>>(), [1, 3, 4].map(NodeId));
    let (leader, before) = changing.agreement().await;
    changing.live.voting(&[1, 3, 4]).await;
    changing.live.kill(leader).await;
    changing.inside.remove(&leader);
    let rest = changing.inside();
    changing.live.agreement_that(&rest, |_, epoch| epoch > before).await;
}

#[tokio::test]
async fn a_member_moves_to_another_address() {
    let mut changing = Changing::start(3, 4);
    changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    // Port 4 of the cluster is free.
    let new = changing.address(4);
    let list = changing.reach(Change::List(listed(3, PeerRole::Member, &new))).await;
    assert_eq!(list.get(NodeId(3)).unwrap().address, new);
    let config = changing.live.cluster.config();
    let text = fs::read_to_string(&config).unwrap().replace(&changing.address(3), &new);
    fs::write(format!("{}.3", config.display()), text).unwrap();
    changing.live.kill(3).await;
    changing.live.cluster.start(3).unwrap();
    let asker = changing.asker();
    let connected = async {
        loop {
            // Member 3 answers at the address of the fourth endpoint.
            let there = asker.client(4).await;
            if there.is_some_and(|client| client.member_id() == 3) {
                let statuses = changing.live.statuses_that(&[1, 2], |_| true).await;
                if statuses.iter().all(|status| status.peers.iter().all(|peer| peer.connected)) {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, connected).await;
    assert!(in_time.is_ok(), "member 3 is not connected\n{}", changing.live.logs());
}

#[tokio::test]
async fn a_new_cluster_waits_for_the_word_of_the_operator_where_the_config_says_so() {
    let mut changing = Changing::prepare(3, 3, "bootstrap = \"manual\"\n");
    changing.live.cluster.start_all().unwrap();
    changing.live.connected(&[1, 2, 3]).await;
    // Several leases.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let blank = changing.live.statuses_that(&[1, 2, 3], |_| true).await;
    assert!(blank.iter().all(|status| status.blank && status.leader.is_none()), "{blank:?}");
    changing.live.client(2).await.bootstrap().await.unwrap();
    changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    changing.live.client(1).await.bootstrap().await.unwrap();
}

#[tokio::test]
async fn a_change_that_cannot_be_is_refused_with_a_sentence() {
    let mut changing = Changing::start(3, 4);
    let (leader, _) = changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    let client = changing.live.client(leader).await;
    let taken = changing.address(if leader == 1 { 2 } else { 1 });
    for (change, said) in [
        (Change::List(listed(4, PeerRole::Learner, "nowhere")), "not a host and a port"),
        (Change::List(listed(4, PeerRole::Learner, "0.0.0.0:9")), "no member can dial"),
        (Change::List(listed(4, PeerRole::Learner, &taken)), "is the address of member"),
        (Change::List(listed(70_000, PeerRole::Learner, "127.0.0.1:9")), "ids are 1 to 65535"),
        (Change::Abort, "no change is pending"),
        (Change::Unlist(NodeId(9)), "is not in the list"),
        (Change::Unlist(NodeId(leader)), "is the leader"),
    ] {
        let error = client.change_members(change.clone()).await.unwrap_err().to_string();
        assert!(error.contains(said), "{change:?}: {error}");
    }
    let follower = changing.live.client(if leader == 1 { 2 } else { 1 }).await;
    let error = follower.change_members(Change::Unlist(NodeId(9))).await.unwrap_err().to_string();
    assert!(error.contains(&format!("member {leader} leads")), "{error}");
}
