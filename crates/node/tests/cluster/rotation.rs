//! New secrets and certificates for a cluster that runs: connections stay, no election, no command is restarted.

use std::fs;

use algorithms::catalog;
use client::{
    Announcement, Client, ClientSettings, Happened, Keyring, MemberStatus, Order, Safety, SecretPermissions, Watch,
    Watched, read_secrets,
};
use rustix::process::Signal;
use testkit::lead::{Lead, marked};
use testkit::{Live, PATIENCE, Plan, done, refused, stdout, until};

const ALL: &[u32] = &[1, 2, 3];
/// A rotation asks each member this often to read its keys again: before each of three steps, and after the last.
const ORDERS: usize = 4;
/// Tells its process id, and stays.
const STAYS: &str = "echo $$ >&3\nwhile :; do sleep 1000; done";

fn plan(tls: bool) -> Plan {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    Plan { safety: Safety::Quorum, tls, ..Plan::new(3, row) }
}

async fn statuses(live: &Live) -> Vec<MemberStatus> {
    live.statuses_that(ALL, |_| true).await
}

fn key_ids(statuses: &[MemberStatus]) -> Vec<Vec<String>> {
    statuses.iter().map(|status| status.key_ids.clone()).collect()
}

/// The announcements of a member up to the last order of the rotations, over one connection: none of them is a link, an
/// election or a change of standing.
async fn nothing_but_orders(watch: &mut Watch, orders: usize) {
    let mut seen = 0;
    while seen < orders {
        let next = tokio::time::timeout(PATIENCE, watch.next()).await.expect("the orders are announced");
        match next.expect("the client's own connection stays") {
            Some(Watched::Announced(Announcement { what: Happened::Ordered(ordered), .. })) => {
                assert_eq!(ordered.order, Order::Reload);
                seen += 1;
            }
            other => panic!("member {}: {other:?}", watch.member_id()),
        }
    }
}

/// The process id of the command's shell, once it runs.
async fn shell_of(lead: &mut Lead) -> i32 {
    lead.next().await.expect("the command runs").parse().expect("a process id")
}

/// The whole rotation under a running cluster with a command that depends on its leader.
async fn rotate(tls: bool) {
    let mut live = Live::alone(&plan(tls));
    let epoch = live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    let mut lead = Lead::start(&live, 3, STAYS);
    let shell = shell_of(&mut lead).await;
    let connected = |all: &[MemberStatus]| all.iter().flat_map(|status| &status.peers).all(|peer| peer.connected);
    let before = key_ids(&live.statuses_that(ALL, connected).await);
    let pids = |live: &Live| live.cluster.ids().map(|id| live.cluster.pid(id)).collect::<Vec<_>>();
    let started = pids(&live);
    let mut watches = Vec::new();
    for &id in ALL {
        let mut watch = live.client(id).await.watch_everything().await.unwrap();
        watch.next().await.unwrap().expect("the present standing");
        watches.push(watch);
    }
    let old_keys = live.cluster.settings().clone();
    let old = Keyring::default();
    old.replace(&old_keys.keyring);
    for round in 0..2 {
        let output = live.ctl(&["secret", "rotate", "--member-timeout", "5s", "--timeout", "20s"]).await;
        done(&output);
        for step in ["1 of 3", "2 of 3", "3 of 3", "all members hold the new key only"] {
            assert!(stdout(&output).contains(step), "round {round}: {}", stdout(&output));
        }
        read_again(&live, tls);
    }
    let now = statuses(&live).await;
    let after = key_ids(&now);
    assert!(
        after.iter().zip(&before).all(|(now, then)| now.iter().all(|key| !then.contains(key))),
        "{after:?} {before:?}"
    );
    assert!(now.iter().all(|status| (status.leader, status.epoch) == (Some(3), epoch)), "an election: {now:?}");
    for watch in &mut watches {
        nothing_but_orders(watch, 2 * ORDERS).await;
    }
    assert_eq!(pids(&live), started);
    let processes = lead.processes();
    assert!(processes.iter().any(|&(pid, _)| pid == shell), "the command was started anew: {shell}, {processes:?}");
    assert!(lead.ctl.try_wait().unwrap().is_none());
    // The old keys are worth nothing now.
    let address = &live.cluster.endpoints()[0].address;
    let settings = ClientSettings { keyring: old, ..old_keys };
    let error = Client::connect(address, &settings).await.expect_err("the old keys are dropped");
    assert!(error.is_refusal(), "{error}");
    // New handshakes of members use the new ones: a member that starts anew is connected to all.
    live.kill(1).await;
    live.cluster.start(1).unwrap();
    live.agreement_on(3, ALL).await;
    lead.signal(Signal::TERM);
    lead.exit().await;
}

/// The test's own client reads its keys again.
fn read_again(live: &Live, tls: bool) {
    let directory = live.cluster.directory();
    let new = if tls {
        let [ca, certificate, key] = ["ca.pem", "operator.pem", "operator.key"].map(|name| directory.join(name));
        let files = client::CertificateFiles { ca, certificate, key };
        Keyring::from(client::read_certificate(&files, SecretPermissions::Owner).unwrap())
    } else {
        Keyring::from(read_secrets(&directory.join("secret"), SecretPermissions::Owner).unwrap())
    };
    live.cluster.settings().keyring.replace(&new);
}

#[tokio::test]
async fn a_secret_is_rotated_without_an_election_and_without_restarting_a_command() {
    rotate(false).await;
}

#[tokio::test]
async fn certificates_are_rotated_without_an_election_and_without_restarting_a_command() {
    rotate(true).await;
}

/// `ctl lead` outlives the secret that it began with: it reads the new one when it has to connect again.
#[tokio::test]
async fn a_command_that_waits_reads_the_new_secret_when_it_connects_again() {
    let mut live = Live::alone(&plan(false));
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    // Member 2 does not lead: the command waits for it.
    let mut lead = Lead::start(&live, 2, STAYS);
    until("the command line has asked its member", || (!marked(&lead.mark).is_empty()).then_some(())).await;
    done(&live.ctl(&["secret", "rotate", "--member-timeout", "5s", "--timeout", "20s"]).await);
    read_again(&live, false);
    live.kill(2).await;
    live.cluster.start(2).unwrap();
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    done(&live.ctl(&["transfer", "2", "--member-timeout", "5s", "--timeout", "20s"]).await);
    shell_of(&mut lead).await;
    lead.signal(Signal::TERM);
    lead.exit().await;
}

/// A member with a file of its own is not rotated past: the command says what to copy, and goes on afterwards.
#[tokio::test]
async fn no_step_is_taken_before_every_member_holds_the_new_key() {
    let live = {
        let mut live = Live::prepared(&plan(false), "");
        let config = fs::read_to_string(live.cluster.config()).unwrap();
        // Member 2 reads another file, as on a machine of its own.
        let own = live.cluster.directory().join("elsewhere");
        fs::create_dir(&own).unwrap();
        fs::copy(live.cluster.directory().join("secret"), own.join("secret")).unwrap();
        fs::write(own.join("cluster.toml"), config).unwrap();
        for id in [1, 3] {
            live.cluster.start(id).unwrap();
        }
        let log = fs::File::create(own.join("log")).unwrap();
        let member = std::process::Command::new(testkit::node_binary())
            .args(["--id", "2", "--config"])
            .arg(own.join("cluster.toml"))
            .arg("--data-dir")
            .arg(live.cluster.data_directory(2))
            .stderr(log)
            .spawn()
            .unwrap();
        (live, Ended(member), own)
    };
    let (mut live, _member, own) = live;
    let epoch = live.agreement_on(3, ALL).await;
    let rotate = ["secret", "rotate", "--member-timeout", "5s", "--timeout", "20s"];
    let secret = live.cluster.directory().join("secret");
    for step in 1..=3 {
        let output = live.ctl(&rotate).await;
        let shown = secret.display().to_string();
        refused(&output, 1, &["member 2 at", "does not hold the keys of the files here", &format!("copy {shown}")]);
        assert!(stdout(&output).contains(&format!("{step} of 3")), "{step}: {}", stdout(&output));
        // Again without a copy: nothing happens.
        let before = fs::read_to_string(&secret).unwrap();
        let output = live.ctl(&rotate).await;
        refused(&output, 1, &["member 2 at", "does not hold the keys"]);
        assert_eq!((stdout(&output).as_str(), &fs::read_to_string(&secret).unwrap()), ("", &before));
        fs::copy(&secret, own.join("secret")).unwrap();
    }
    done(&live.ctl(&["secret", "reload", "--member-timeout", "5s"]).await);
    read_again(&live, false);
    let now = live.statuses_that(ALL, |_| true).await;
    assert!(now.iter().all(|status| status.key_ids.len() == 1 && status.key_ids == now[0].key_ids), "{now:?}");
    assert!(now.iter().all(|status| status.epoch == epoch), "an election");
}

struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same without `ctl secret`: files by hand, and a signal. Files that cannot be used change nothing.
#[tokio::test]
async fn a_signal_reads_the_files_again_and_what_cannot_be_used_is_not_taken() {
    let mut live = Live::start(&plan(false));
    live.agreement_on(3, ALL).await;
    let secret = live.cluster.directory().join("secret");
    let old = fs::read_to_string(&secret).unwrap();
    let ids =
        |live: &Live| statuses_of_one(live.cluster.endpoints()[0].address.clone(), live.cluster.settings().clone());
    let before = ids(&live).await;
    fs::write(&secret, "short\n").unwrap();
    live.cluster.signal(1, Signal::HUP).unwrap();
    until("the refusal is logged", || live.cluster.log_tail(1, 5).contains("stay in force").then_some(())).await;
    assert_eq!(ids(&live).await, before);
    let operator = live.cluster.directory().join("operator.secret");
    let output = live.ctl(&["secret", "reload", "--secret-file", operator.to_str().unwrap()]).await;
    assert!(stdout(&output).contains("the old config, secrets and certificates stay in force"), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(1));
    fs::write(&secret, format!("{old}another secret of text\n")).unwrap();
    live.cluster.signal(1, Signal::HUP).unwrap();
    until("the keys are read", || live.cluster.log_tail(1, 5).contains("were read again").then_some(())).await;
    let after = ids(&live).await;
    assert_eq!((after.len(), &after[0]), (2, &before[0]));
    let (history, _) = live.json(&["history"]).await;
    assert!(!history.to_string().contains("reload"), "a signal is no order of a client");
}

async fn statuses_of_one(address: String, settings: ClientSettings) -> Vec<String> {
    Client::connect(&address, &settings).await.unwrap().status().await.unwrap().key_ids
}
