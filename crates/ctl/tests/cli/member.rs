//! `ctl member`, `ctl bootstrap` and `ctl audit` over real members whose list changes, also where a change stops half-way:
//! every case that docs/membership.md names.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use algorithms::catalog;
use client::Safety;
use serde_json::Value;
use testkit::{Live, PATIENCE, Plan, ctl, node_binary, root, stderr, stdout};
use tokio::process::Command;
use types::{Change, Listed, NodeId, PeerRole, Uid};

/// A member that a shell starts may have a config of its own beside that of the cluster.
const OWN_CONFIG: &str = "if [ -f \"$2.$4\" ]; then own=\"$2.$4\"; shift 2; set -- --config \"$own\" \"$@\"; fi";
/// Leases and suspicion that a test can be faster than.
const SLOW: &str = "\n[timing]\nlease = \"2s\"\nsuspect_after = \"3s\"\n";

/// A leader without the copies of a majority changes no voter before every lock has expired.
const LOCKS: &str = "[locks]\nmax_ttl = \"3s\"\n";

/// Members 1 to 3 are in the config; 4 and 5 have addresses, and join when they are started.
struct Changing {
    live: Live,
}

impl Changing {
    /// No member runs. `cluster`: more lines of `[cluster]`; `timing`: more tables.
    fn prepare(cluster: &str, timing: &str) -> Self {
        let row = catalog::row(catalog::DEFAULT).unwrap();
        let plan = Plan { safety: Safety::Quorum, chaos: true, ..Plan::new(5, row) };
        let live = Live::behind_shell(&plan, OWN_CONFIG);
        let config = live.cluster.config();
        let text = fs::read_to_string(&config).unwrap().replace("[cluster]\n", &format!("{LOCKS}[cluster]\n{cluster}"));
        let (head, _) = text.split_once("\n[[peers]]").unwrap();
        let peers: Vec<String> =
            live.cluster.endpoints().iter().take(3).map(|e| peer(e.id.unwrap(), &e.address)).collect();
        let changing = Changing { live };
        for id in [4, 5] {
            let join: Vec<String> = (1..=3).map(|id| format!("{:?}", changing.address(id))).collect();
            let own = format!("[cluster]\njoin = [{}]\nlisten = {:?}\n", join.join(", "), changing.address(id));
            let text = head.replace(cluster, "").replace("[cluster]\n", &own) + timing;
            fs::write(format!("{}.{id}", config.display()), text).unwrap();
        }
        fs::write(config, format!("{head}{timing}{}", peers.concat())).unwrap();
        changing
    }

    async fn start(timing: &str) -> Self {
        let mut changing = Self::prepare("", timing);
        for id in 1..=3 {
            changing.live.cluster.start(id).unwrap();
        }
        changing.live.agreement(&[1, 2, 3]).await;
        changing.live.voting(&[1, 2, 3]).await;
        changing
    }

    fn address(&self, id: u32) -> String {
        self.live.cluster.endpoints()[id as usize - 1].address.clone()
    }

    /// What `ctl member ...` says, and its exit code.
    async fn member(&self, words: &[&str]) -> (String, Option<i32>) {
        let output = self.live.ctl(&[&["member"], words].concat()).await;
        (format!("{}{}", stdout(&output), stderr(&output)), output.status.code())
    }

    /// The same, and it succeeds within the patience of tests.
    async fn reaches(&self, words: &[&str]) -> String {
        let (said, code) = self.member(&[words, &["--timeout", "15s"]].concat()).await;
        assert_eq!(code, Some(0), "{words:?}: {said}\n{}", self.live.logs());
        said
    }

    async fn list(&self) -> Value {
        let (list, code) = self.live.json(&["member", "list"]).await;
        assert_eq!(code, Some(0), "{list}");
        list
    }

    async fn voters(&self) -> Vec<u64> {
        let list = self.list().await;
        let members = list["members"].as_array().unwrap();
        let votes = members.iter().filter(|member| member["role"] == "member" || member["role"] == "witness");
        votes.map(|member| member["id"].as_u64().unwrap()).collect()
    }

    async fn leader(&mut self) -> u32 {
        self.live.agreement(&[1, 2, 3]).await.0
    }

    /// 4 is a learner that has joined; then one follower and 4 hang, and the leader proposes that 4 votes: it keeps its lease
    /// by the other follower, and a majority of the new voters does not answer. Returns the leader, and who hangs.
    async fn with_pending(&mut self) -> (u32, [u32; 2]) {
        self.live.cluster.start(4).unwrap();
        self.reaches(&["add", "4", &self.address(4), "--learner"]).await;
        let leader = self.leader().await;
        let client = self.live.client(leader).await;
        let joined = async {
            while !client.members().await.unwrap().ready.contains(&NodeId(4)) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, joined).await.expect("4 joins");
        let listed = Listed { uid: Uid::plain(4), role: PeerRole::Member, address: self.address(4) };
        // The leader confirms its list before its first change; that is not to wait for those who hang.
        let hang = [(1..=3).find(|&id| id != leader).unwrap(), 4];
        for id in hang {
            self.live.cluster.pause(id).unwrap();
        }
        client.change_members(Change::List(listed)).await.expect("proposed");
        assert!(client.members().await.unwrap().pending.is_some());
        (leader, hang)
    }

    fn resume(&self, ids: [u32; 2]) {
        for id in ids {
            self.live.cluster.resume(id).unwrap();
        }
    }
}

fn peer(id: u32, address: &str) -> String {
    format!("\n[[peers]]\nid = {id}\naddress = \"{address}\"\n")
}

#[tokio::test]
async fn a_member_is_added_and_removed_and_the_audit_follows_the_lists() {
    let mut cluster = Changing::start("").await;
    cluster.live.cluster.start(4).unwrap();
    let added = cluster.reaches(&["add", "4", &cluster.address(4)]).await;
    for step in ["to list member 4 as a learner", "joined: ", "in force: list ", "member 4 votes: list "] {
        assert!(added.contains(step), "no {step:?} in {added}");
    }
    assert_eq!(cluster.voters().await, [1, 2, 3, 4]);
    let again = cluster.reaches(&["add", "4", &cluster.address(4)]).await;
    assert!(again.contains("member 4 votes already"), "{again}");
    let list = cluster.list().await;
    let on_disk: Vec<&Value> = list["members"].as_array().unwrap().iter().map(|member| &member["blank"]).collect();
    assert_eq!(on_disk, [&Value::from(false); 4], "{list}");
    let (elsewhere, code) = cluster.member(&["add", "4", "127.0.0.1:1"]).await;
    assert!(code == Some(2) && elsewhere.contains("ctl member move 4 127.0.0.1:1"), "{code:?}: {elsewhere}");

    cluster.reaches(&["remove", "4"]).await;
    let ended = tokio::time::timeout(PATIENCE, cluster.live.cluster.reap(4)).await.expect("4 ends").unwrap();
    assert_eq!(ended.code(), Some(0), "{}", cluster.live.cluster.log_tail(4, 5));
    assert!(cluster.reaches(&["remove", "4"]).await.contains("member 4 is removed already"));
    let reader = cluster.live.scratch.path().join("reader.secret");
    let reader = ["--secret-file", reader.to_str().unwrap()];
    assert_eq!(cluster.member(&[&["list"], &reader[..]].concat()).await.1, Some(0), "readers may look");
    let (said, code) = cluster.member(&[&["remove", "2", "--yes"], &reader[..]].concat()).await;
    assert_eq!(code, Some(8), "readers change nothing: {said}");
    let (refused, code) = cluster.member(&["remove", "2"]).await;
    assert!(code == Some(2) && refused.contains("--yes"), "{code:?}: {refused}");

    let (history, _) = cluster.live.json(&["history"]).await;
    let orders: Vec<&str> = history["orders"].as_array().unwrap().iter().filter_map(|o| o["order"].as_str()).collect();
    for order in ["member 4 listed as learner", "member 4 listed as member", "member remove 4"] {
        assert!(orders.contains(&order), "{orders:?}");
    }
    let voters: Vec<Value> = history["lists"].as_array().unwrap().iter().map(|list| list["voters"].clone()).collect();
    assert!(voters.contains(&[1, 2, 3, 4].into()) && voters.last() == Some(&[1, 2, 3].into()), "{history}");
    let (audit, code) = cluster.live.json(&["audit"]).await;
    assert_eq!((audit["outcome"].as_str(), code), (Some("ordered"), Some(0)), "{audit}");
    let data = cluster.live.cluster.data_directory(4);
    let (audit, code) = cluster.live.json(&["audit", "--ledger", data.to_str().unwrap()]).await;
    let told: Vec<u64> = audit["ledgers"].as_array().unwrap().iter().filter_map(|l| l["member"].as_u64()).collect();
    assert_eq!((told.contains(&4), audit["outcome"].as_str(), code), (true, Some("ordered"), Some(0)), "{audit}");
}

#[tokio::test]
async fn a_new_node_that_never_starts_leaves_a_learner_and_remove_undoes_it() {
    let cluster = Changing::start("").await;
    let (said, code) = cluster.member(&["add", "4", &cluster.address(4), "--timeout", "1500ms"]).await;
    assert_eq!(code, Some(1), "{said}");
    for words in ["member 4 votes: undecided", "has not joined", "join = [", "ctl member remove 4"] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    let list = cluster.list().await;
    let four = &list["members"][3];
    assert_eq!((&four["id"], &four["role"], &four["up"]), (&4.into(), &"learner".into(), &false.into()), "{list}");
    assert_eq!(cluster.voters().await, [1, 2, 3]);
    cluster.reaches(&["remove", "4"]).await;
    assert_eq!(cluster.list().await["members"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_new_node_that_stays_blank_does_not_vote_until_it_hears_a_majority() {
    let mut cluster = Changing::start("").await;
    let leader = cluster.leader().await;
    cluster.reaches(&["add", "4", &cluster.address(4), "--learner"]).await;
    // It reaches the leader alone, and cannot tell what the others have granted.
    for other in (1..=3).filter(|&id| id != leader) {
        let client = cluster.live.client(other).await;
        client.chaos(client::Chaos::Cut { peer: 4, way: client::Way::Both }).await.unwrap();
    }
    cluster.live.cluster.start(4).unwrap();
    let (said, code) = cluster.member(&["promote", "4", "--timeout", "2s"]).await;
    assert!(code == Some(1) && said.contains("has not joined"), "{code:?}: {said}");
    assert_eq!(cluster.list().await["members"][3]["blank"], true, "{}", cluster.live.cluster.log_tail(4, 9));
    assert_eq!(cluster.live.ctl(&["chaos", "heal"]).await.status.code(), Some(0));
    cluster.reaches(&["promote", "4"]).await;
    assert_eq!(cluster.voters().await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn another_change_is_refused_while_one_is_pending_and_abort_gives_it_up() {
    let mut cluster = Changing::start(SLOW).await;
    let (_, hang) = cluster.with_pending().await;
    let (said, code) = cluster.member(&["add", "5", &cluster.address(5), "--member-timeout", "100ms"]).await;
    assert!(code == Some(2) && said.contains("another change is pending: list "), "{code:?}: {said}");
    assert!(said.contains("ctl member abort"), "{said}");
    let listed = cluster.live.ctl(&["member", "list", "-o", "json", "--member-timeout", "100ms"]).await;
    let list: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    assert!(list["pending"].is_string() && list["pending_voters"] == Value::from([1, 2, 3, 4]), "{list}");
    let said = cluster.reaches(&["abort", "--member-timeout", "100ms"]).await;
    assert!(said.contains("asking leader ") && said.contains("no change is pending: list "), "{said}");
    cluster.resume(hang);
    assert_eq!(cluster.voters().await, [1, 2, 3]);
    assert!(cluster.reaches(&["abort"]).await.contains("no change is pending already"));
    cluster.reaches(&["promote", "4"]).await;
}

#[tokio::test]
async fn a_leader_that_dies_while_a_change_pends_is_followed_by_one_that_makes_it() {
    let mut cluster = Changing::start(SLOW).await;
    let (leader, hang) = cluster.with_pending().await;
    let config = cluster.live.cluster.config().to_str().unwrap().to_owned();
    let promoting = tokio::spawn(async move {
        ctl(&["--config", &config, "member", "promote", "4", "--timeout", "20s", "--member-timeout", "100ms"]).await
    });
    cluster.live.kill(leader).await;
    cluster.resume(hang);
    let output = promoting.await.unwrap();
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{said}\n{}", cluster.live.logs());
    assert_eq!(cluster.voters().await, [1, 2, 3, 4]);
    cluster.live.cluster.start(leader).unwrap();
    let (audit, code) = cluster.live.json(&["audit"]).await;
    assert_ne!((audit["outcome"].as_str(), code), (Some("overlap"), Some(7)), "{audit}");
}

/// Two of the old voters live, and one of them has the list of four on its disk: nobody can tell whether that list came into
/// force.
#[tokio::test]
async fn nobody_leads_while_too_few_voters_of_the_newest_list_live() {
    let mut cluster = Changing::start(SLOW).await;
    let (leader, [idle, new]) = cluster.with_pending().await;
    let pending = cluster.live.client(leader).await.members().await.unwrap().pending;
    let other = (1..=3).find(|&id| id != leader && id != idle).unwrap();
    let client = cluster.live.client(other).await;
    let written = async {
        while client.members().await.unwrap().on_disk != pending {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, written).await.expect("the other follower writes the list");
    cluster.live.kill_all(&[leader, new]).await;
    cluster.live.cluster.resume(idle).unwrap();
    // Several leases: the wait for a leader ends without one.
    let asked = cluster.live.ctl(&["leader", "--wait", "8s", "--timeout", "10s"]).await;
    assert_eq!(asked.status.code(), Some(5), "{}\n{}", stdout(&asked), cluster.live.logs());
    cluster.live.cluster.start(leader).unwrap();
    cluster.live.cluster.start(new).unwrap();
    cluster.live.agreement(&[1, 2, 3, new]).await;
    cluster.reaches(&["promote", "4"]).await;
    assert_eq!(cluster.voters().await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn the_leader_hands_over_before_it_is_removed_and_a_machine_is_replaced() {
    let mut cluster = Changing::start("").await;
    let dead = (1..=3).find(|id| *id != 3).unwrap();
    cluster.live.kill(dead).await;
    cluster.live.cluster.start(4).unwrap();
    cluster.reaches(&["replace", &dead.to_string(), "4", &cluster.address(4)]).await;
    assert_eq!(cluster.voters().await, [2, 3, 4]);
    let again = cluster.reaches(&["replace", &dead.to_string(), "4", &cluster.address(4)]).await;
    assert!(again.contains("member 4 replaces 1 already"), "{again}");
    cluster.live.cluster.start(5).unwrap();
    cluster.reaches(&["add", "5", &cluster.address(5)]).await;
    // The config still has 1, 2 and 3.
    let status = cluster.live.ctl_until(&["status", "-o", "json"], |text| text.contains("\"AGREED\"")).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    let ids: Vec<u64> = status["members"].as_array().unwrap().iter().filter_map(|m| m["id"].as_u64()).collect();
    assert_eq!(ids, [2, 3, 4, 5], "{status}");
    let moved = cluster.live.ctl(&["transfer", "4"]).await;
    assert_eq!(moved.status.code(), Some(0), "{}", stderr(&moved));
    let begun = cluster.live.ctl(&["bootstrap"]).await;
    assert_eq!(begun.status.code(), Some(0), "{}", stderr(&begun));
    // Of four voters.
    cluster.live.ctl_until(&["explain"], |text| text.contains("a majority is 3")).await;
    let leader = cluster.list().await["leader"].as_u64().unwrap().to_string();
    let said = cluster.reaches(&["remove", &leader]).await;
    assert!(said.contains("handing over to "), "{said}");
    assert_eq!(cluster.voters().await.len(), 3);
}

#[tokio::test]
async fn a_manual_cluster_begins_by_the_operators_word_and_once() {
    let mut cluster = Changing::prepare("bootstrap = \"manual\"\n", "");
    for id in 1..=3 {
        cluster.live.cluster.start(id).unwrap();
    }
    cluster.live.statuses_that(&[1, 2, 3], |all| all.iter().all(|status| status.blank)).await;
    let output = cluster.live.ctl(&["bootstrap", "--timeout", "20s"]).await;
    assert_eq!(output.status.code(), Some(0), "{}\n{}", stderr(&output), cluster.live.logs());
    let again = cluster.live.ctl(&["bootstrap"]).await;
    assert!(stdout(&again).contains("the cluster has begun before"), "{}{}", stdout(&again), stderr(&again));
}

/// Every file of a directory, with its bytes.
fn contents(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

/// The survey's line, run as it is printed.
fn run_line(line: &str, log: &Path) -> tokio::process::Child {
    let words: Vec<&str> = line.split_whitespace().collect();
    let log = fs::File::create(log).unwrap();
    let mut command = Command::new(node_binary());
    command.args(&words[1..]).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
    command.spawn().unwrap()
}

#[tokio::test]
async fn a_lost_majority_is_left_behind_by_the_line_that_the_survey_prints() {
    let mut cluster = Changing::start("").await;
    cluster.live.kill_all(&[1, 2, 3]).await;
    let data = |id| cluster.live.cluster.data_directory(id).to_str().unwrap().to_owned();
    let (two, three) = (data(2), data(3));
    let before = contents(Path::new(&two));
    let alive = stdout(&cluster.live.ctl(&["member", "survey", &two, &three]).await);
    assert!(alive.contains("nothing is to be forced: 2,3 are a majority"), "{alive}");
    let (survey, code) = cluster.live.json(&["member", "survey", &two]).await;
    assert_eq!((survey["use"].as_u64(), &survey["lost"], code), (Some(2), &[1, 3].into(), Some(0)), "{survey}");
    let last = survey["members"][0]["last"].as_array().unwrap();
    assert!(last.iter().any(|entry| entry.as_str().unwrap().contains("granted epoch")), "{survey}");

    assert_eq!(contents(Path::new(&two)), before, "a survey changes nothing");

    let log = cluster.live.scratch.path().join("forced.log");
    let _node = run_line(survey["command"].as_str().unwrap(), &log);
    let waited = cluster.live.ctl(&["--endpoints", &cluster.address(2), "leader", "--wait", "20s"]).await;
    let said = fs::read_to_string(&log).unwrap();
    assert_eq!(stdout(&waited), "2\n", "{}{said}", stderr(&waited));
    let busy = cluster.live.ctl(&["member", "survey", &two]).await;
    assert_eq!(busy.status.code(), Some(1), "{}", stdout(&busy));
    let words = ["audit", "--endpoints", &cluster.address(2), "--ledger", &data(1), "--ledger", &three];
    let audit = cluster.live.ctl(&words).await;
    let text = stdout(&audit);
    assert!(text.contains("cut: by an operator's word a new cluster began at member 2"), "{text}");
    assert_eq!(audit.status.code(), Some(0), "{text}{}", stderr(&audit));
}

/// A line of the page is a command, and perhaps the code it ends with.
#[tokio::test]
async fn the_examples_of_the_page_run() {
    let page = fs::read_to_string(root().join("docs/membership.md")).expect("the page");
    let mut cluster = Changing::start("").await;
    for id in [4, 5] {
        cluster.live.cluster.start(id).unwrap();
    }
    let (_, examples) = page.split_once("```sh\n").expect("a block of commands");
    let lines: Vec<&str> = examples.lines().take_while(|line| line.starts_with("ctl ")).collect();
    assert!(lines.len() >= 8, "{lines:?}");
    for line in lines {
        let (command, comment) = line.split_once('#').unwrap_or((line, ""));
        let code = comment
            .split_once("exit ")
            .and_then(|(_, code)| code.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
        let data = cluster.live.cluster.data_directory(2);
        let command = command
            .replace("n4:7400", &cluster.address(4))
            .replace("n5:7400", &cluster.address(5))
            .replace("/var/lib/conclave/n2", data.to_str().unwrap());
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        // On a busy machine a member joins late and a ledger is written late: the command says so, and to try it again.
        let began = std::time::Instant::now();
        loop {
            let output = cluster.live.ctl(&[&words[..], &["--timeout", "15s"]].concat()).await;
            if output.status.code() == Some(code.unwrap_or(0)) {
                break;
            }
            let said = format!("{}{}\n{}", stdout(&output), stderr(&output), cluster.live.logs());
            assert!(began.elapsed() < 3 * PATIENCE, "{line}: {said}");
        }
    }
}
