//! What a config file may say, and how each thing it may not say is refused: with its line and what to write instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use algorithms::catalog::{self, Row};
use algorithms::{NodeId, Topology, Uid, View, Wins};
use client::{ReloadOutcome, SecretPermissions};
use locks::service::Limits;
use member::{Bootstrap, OnClose, Safety, Stand};
use node::config::{Config, EXAMPLE, Peer, PeerRole, Problems};

/// A good config; line numbers in the tests count from its first line.
const GOOD: &str = r#"[cluster]
name = "test"
topology = "mesh"
safety = "classic"

[timing]
heartbeat = "50ms"
suspect_after = "250ms"

[[peers]]
id = 1
address = "127.0.0.1:7401"
[[peers]]
id = 2
address = "127.0.0.1:7402"
"#;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::parse(text, Path::new("config/x.toml"))
}

fn good() -> Config {
    parse(GOOD).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The one problem of a text, printed.
fn problem(text: &str) -> String {
    let problems = parse(text).expect_err("a bad config was taken");
    assert_eq!(problems.list.len(), 1, "one problem only:\n{problems}\nin\n{text}");
    problems.to_string()
}

/// The first row on this topology.
fn on(topology: Topology) -> &'static Row {
    catalog::ROWS.iter().find(|row| row.topology == topology).unwrap()
}

/// `GOOD` with one piece of text replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

#[test]
fn a_minimal_config_gets_its_defaults_from_the_catalog() {
    let config = good();
    assert_eq!(config.name, "test");
    assert_eq!(config.row.name, catalog::DEFAULT);
    assert_eq!(config.topology, config.row.topology);
    assert_eq!(config.settings.election.wins, config.row.wins);
    assert_eq!(config.safety, Safety::Classic);
    assert!(config.settings.preempt && !config.insecure && !config.chaos);
    assert_eq!(
        config.settings.election.coordinator_timeout,
        config.settings.election.answer_timeout * config.row.coordinator_factor
    );
    assert_eq!(config.view().members(), [Uid::plain(1), Uid::plain(2)]);
    assert_eq!(config.peer(NodeId(2)).unwrap().address, "127.0.0.1:7402");
    assert_eq!(config.notices, []);
}

#[test]
fn a_member_stands_as_its_own_table_says_or_else_as_the_cluster_says() {
    assert_eq!(good().stand(NodeId(1)), Stand::Always);
    let text = changed("name = \"test\"", "name = \"test\"\nstand = \"attached\"");
    let text = text.replacen("id = 2", "id = 2\nstand = \"always\"", 1);
    let config = parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((config.stand(NodeId(1)), config.stand(NodeId(2))), (Stand::Attached, Stand::Always));
    assert!(problem(&changed("id = 2", "id = 2\nstand = \"atached\"")).contains("did you mean \"attached\"?"));
}

#[test]
fn every_key_is_read() {
    let text = r#"
[cluster]
name = "all"
topology = "mesh"
safety = "classic"
wins = "lowest"
preempt = false
preempt_after = "2s"
secret_file = "keys/secret"
secret_permissions = "any"
insecure = true
chaos = true
http_token_file = "keys/http.token"
[timing]
heartbeat = "20ms"
suspect_after = "100ms"
answer_timeout = "40ms"
coordinator_timeout = "1m"
start_grace = "0ms"
lease = "1.5s"
max_drift = 0.1
on_close = "immediate"
[[peers]]
id = 65535
address = "n1:7400"
listen = "[::]:7400"
http = "n1:8400"
priority = 7
role = "witness"
[[peers]]
id = 3
address = "[::1]:7400"
[hooks]
on_change = "true"
[locks]
algorithm = "central"
max_ttl = "20s"
max_sessions = 11
max_waiters = 12
max_names = 13
[priority]
command = "echo 5"
interval = "3s"
timeout = "1500ms"
"#;
    let config =
        Config::parse(text, Path::new("/etc/conclave/all.toml")).unwrap_or_else(|problems| panic!("{problems}"));
    let millis = Duration::from_millis;
    let timing = &config.settings.timing;
    assert_eq!(config.settings.election.wins, Wins::Lowest);
    assert!(!config.settings.preempt && config.insecure && config.chaos);
    assert_eq!(config.settings.preempt_after, millis(2_000));
    assert_eq!(config.secret_file.as_deref(), Some(Path::new("/etc/conclave/keys/secret")));
    assert_eq!(config.secret_permissions, SecretPermissions::Any);
    assert_eq!(good().secret_permissions, SecretPermissions::Owner);
    assert_eq!((timing.heartbeat, timing.suspect_after), (millis(20), millis(100)));
    assert_eq!(
        (config.settings.election.answer_timeout, config.settings.election.coordinator_timeout),
        (millis(40), millis(60_000))
    );
    assert_eq!((timing.start_grace, timing.lease, timing.max_drift), (millis(0), millis(1_500), 0.1));
    assert_eq!(config.settings.on_close, OnClose::Immediate);
    assert_eq!(config.settings.witnesses, [NodeId(65535)]);
    let first = &config.peers[0];
    assert_eq!((first.uid(), first.role, first.line), (Uid { priority: 7, id: NodeId(65535) }, PeerRole::Witness, 23));
    assert_eq!(first.http.as_deref(), Some("n1:8400"));
    assert_eq!(config.on_change.as_deref(), Some("true"));
    assert_eq!((config.locks.row.name, config.locks.max_ttl), ("central", millis(20_000)));
    let limits = config.locks.limits;
    assert_eq!((limits.sessions, limits.waiters, limits.names), (11, 12, 13));
    assert_eq!(good().locks.limits, Limits::default());
    let command = config.priority_command.as_ref().unwrap();
    assert_eq!((&*command.command, command.interval, command.timeout), ("echo 5", millis(3_000), millis(1_500)));
    assert_eq!(config.http_token_file.as_deref(), Some(Path::new("/etc/conclave/keys/http.token")));
    let face = |http: &str, listen: &str| Some((http.to_owned(), listen.to_owned()));
    assert_eq!(config.http_addresses(NodeId(65535)), face("n1:8400", "0.0.0.0:8400"));
    assert_eq!(config.http_addresses(NodeId(3)), None);
    assert_eq!(config.notices, []);
}

#[test]
fn the_order_of_the_list_is_the_order_of_the_ring() {
    let ring = format!("topology = \"ring\"\nalgorithm = \"{}\"", on(Topology::Ring).name);
    let text = changed("topology = \"mesh\"", &ring).replace("id = 1\n", "id = 9\n");
    let view = parse(&text).unwrap_or_else(|problems| panic!("{problems}")).view();
    assert_eq!((view.topology(), view.members()), (Topology::Ring, &[Uid::plain(9), Uid::plain(2)][..]));
    let without_topology = changed("topology = \"mesh\"", &format!("algorithm = \"{}\"", on(Topology::Ring).name));
    assert_eq!(parse(&without_topology).unwrap().topology, Topology::Ring, "the algorithm knows");
}

#[test]
fn it_listens_where_the_contract_says() {
    let listens = |peer: &str| {
        let text = changed("address = \"127.0.0.1:7401\"", peer).replace("[timing]", "insecure = true\n[timing]");
        let config = parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
        config.listen_address(NodeId(1)).unwrap()
    };
    // `insecure` lands in [cluster], which is the table before [timing].
    assert_eq!(listens("address = \"127.0.0.1:7401\""), "127.0.0.1:7401");
    assert_eq!(listens("address = \"[fe80::1]:7400\""), "[fe80::1]:7400");
    assert_eq!(listens("address = \"n1:7400\""), "0.0.0.0:7400");
    assert_eq!(listens("address = \"localhost:7400\""), "127.0.0.1:7400", "loopback stays loopback");
    assert_eq!(listens("address = \"n1:7400\"\nlisten = \"10.0.0.1:9\""), "10.0.0.1:9");
    assert_eq!(good().listen_address(NodeId(9)), None);
}

/// Each part of it changed alone. The list has a record of its own.
#[test]
fn votes_are_given_under_lease_and_drift_and_before_lists_were_on_disk_under_the_voters_too() {
    let parsed = |text: &str| parse(text).unwrap_or_else(|problems| panic!("{problems}"));
    let digest = |text: &str| parsed(text).votes_digest();
    let earlier = |text: &str| parsed(text).votes_digest_with_list();
    let timing = |line: &str| changed("[timing]\n", &format!("[timing]\n{line}\n"));
    for other in [timing("lease = \"700ms\""), timing("max_drift = 0.02")] {
        assert_ne!((digest(GOOD), earlier(GOOD)), (digest(&other), earlier(&other)), "{other}");
    }
    for list in [
        changed("id = 2", "id = 3"),
        changed("id = 2", "id = 2\nrole = \"witness\""),
        changed("id = 2", "id = 2\nrole = \"learner\""),
        format!("{GOOD}[[peers]]\nid = 3\naddress = \"127.0.0.1:7403\"\n"),
    ] {
        assert_ne!(earlier(GOOD), earlier(&list), "{list}");
        assert_eq!(digest(GOOD), digest(&list), "{list}");
    }
    let turned = GOOD.replace("id = 1", "id = 0x9").replace("id = 2", "id = 1").replace("0x9", "2");
    for other in
        [turned, changed("7402", "7403"), changed("50ms", "60ms"), changed("name = \"test\"", "name = \"other\"")]
    {
        assert_eq!((digest(GOOD), earlier(GOOD)), (digest(&other), earlier(&other)), "{other}");
    }
}

#[test]
fn members_are_told_apart_by_their_facts() {
    let digest = |text: &str| {
        let config = parse(text).unwrap();
        Config::list_digest(&config.list_entries(&config.first_list()))
    };
    let same = changed("name = \"test\"", "name = \"other\"");
    assert_eq!(digest(GOOD), digest(&same));
    let swapped = |text: &str| text.replace("id = 1", "id = 0x9").replace("id = 2", "id = 1").replace("0x9", "2");
    for other in [changed("id = 2", "id = 3"), changed("id = 2", "id = 2\nrole = \"witness\""), swapped(GOOD)] {
        assert_ne!(digest(GOOD), digest(&other), "{other}");
    }
    let own = [changed("7402", "7403"), changed("id = 2", "id = 2\npriority = 1")];
    let quorum = |text: &str| text.replace("safety = \"classic\"", "safety = \"quorum\"");
    for other in &own {
        assert_eq!(digest(GOOD), digest(other), "{other}");
        assert_ne!(digest(&quorum(GOOD)), digest(&quorum(other)), "{other}");
    }
    let facts = good().facts();
    let names: Vec<&str> = facts.iter().map(|(name, _)| name.as_str()).collect();
    // The list itself may change while the members run: the handshake compares it by its stamp.
    let all =
        ["algorithm", "topology", "safety", "wins", "lease", "max_drift", "on_close", "instances", "locks", "max_ttl"];
    assert_eq!(names, all);
    let lease = facts.iter().find(|(name, _)| name == "lease").unwrap();
    assert_eq!(lease.1, "500ms");
}

/// What is changed in `GOOD`, into what, the line to be named, and words of the message and the remedy.
type Case = (&'static str, &'static str, usize, &'static [&'static str]);

#[test]
fn each_mistake_is_named_with_its_line_and_its_remedy() {
    let cases: &[Case] = &[
        // Unknown names.
        ("topology = ", "topolgy = ", 3, &["unknown key \"topolgy\" in [cluster]: did you mean \"topology\"?"]),
        ("name = \"test\"", "name = \"test\"\nzzz = 1", 3, &["unknown key \"zzz\"", "the keys are name, topology"]),
        ("name = \"test\"", "name = \"test\"\nlease = \"1s\"", 3, &["unknown key \"lease\"", "belongs in [timing]"]),
        ("id = 2", "id = 2\nadress = \"x:1\"", 15, &["in [[peers]]", "did you mean \"address\"?"]),
        ("[timing]", "[timings]", 6, &["unknown table [timings]", "did you mean [timing]?"]),
        ("[timing]", "[tls]\ncertificate = \"a\"\nkey = \"b\"\n[timing]", 6, &["[tls] has no ca", "ca = \"ca.pem\""]),
        ("[timing]", "[tls]\nca = \"a\"\nkey = \"b\"\n[timing]", 6, &["[tls] has no certificate", "n{id}.pem"]),
        (
            "[timing]",
            "[tls]\nca = \"\"\ncertificate = \"a\"\nkey = \"b\"\n[timing]",
            7,
            &["a file in [tls] has no name", "ca = \"ca.pem\""],
        ),
        (
            "[timing]",
            "secret_file = \"s\"\n[tls]\nca = \"a\"\ncertificate = \"a\"\nkey = \"b\"\n[timing]",
            7,
            &["a secret_file and [tls]", "remove secret_file"],
        ),
        ("[cluster]", "chaos = true\n[cluster]", 1, &["outside of any table", "move it below [cluster]"]),
        // Locks.
        (
            "[timing]",
            "[locks]\nalgorithm = \"centrl\"\n[timing]",
            7,
            &["unknown lock algorithm", "did you mean \"central\"?"],
        ),
        (
            "[timing]",
            "[locks]\nmax_ttl = \"50ms\"\n[timing]",
            7,
            &["max_ttl = \"50ms\" cannot work", "500ms (not less than the"],
        ),
        ("[timing]", "[locks]\nmax_ttl = \"2h\"\n[timing]", 7, &["max_ttl = \"2h\" cannot work", "to 1h"]),
        ("[timing]", "[locks]\nmax_waiters = 0\n[timing]", 7, &["max_waiters in [locks] is not an integer from 1"]),
        (
            "[timing]",
            "[locks]\nttl = \"1s\"\n[timing]",
            7,
            &["unknown key \"ttl\" in [locks]", "the keys are algorithm"],
        ),
        // Wrong kinds of values.
        ("name = \"test\"", "name = 5", 2, &["name in [cluster] is not a string", "write name = \"...\""]),
        ("name = \"test\"", "name = \"\"", 2, &["is empty", "1 to 64"]),
        ("name = \"test\"\n", "", 1, &["[cluster] has no name", "write name = \"demo\""]),
        ("name = \"test\"", "name = \"t\"\npreempt = \"yes\"", 3, &["not true or false", "preempt = true"]),
        ("topology = \"mesh\"", "topology = \"mash\"", 3, &["unknown topology", "did you mean \"mesh\"?"]),
        ("topology = \"mesh\"", "topology = \"star\"", 3, &["write one of \"mesh\", \"ring\", \"graph\""]),
        ("topology = \"mesh\"", "topology = \"mesh\"\nwins = \"largest\"", 4, &["unknown wins", "highest"]),
        ("id = 2", "id = 2\nrole = \"voter\"", 15, &["unknown role", "\"member\", \"witness\", \"learner\""]),
        ("id = 2", "id = 2\npriority = -1", 15, &["not an integer from 0 to 4294967295", "priority = 1"]),
        ("\"50ms\"", "50", 7, &["heartbeat in [timing] is not a duration", "\"250ms\""]),
        ("\"50ms\"", "\"50\"", 7, &["not a duration", "a number and a unit"]),
        ("[timing]", "[timing]\nmax_drift = 0.7", 7, &["not a number from 0 to below 0.5", "max_drift = 0.01"]),
        ("[timing]", "[timing]\nmax_drift = nan", 7, &["not a number", "max_drift = 0.01"]),
        ("[timing]", "[timing]\non_close = \"now\"", 7, &["unknown on_close", "\"wait-lease\", \"immediate\""]),
        // Times that cannot work together.
        ("\"250ms\"", "\"99ms\"", 8, &["less than two heartbeats", "suspect_after = \"100ms\""]),
        ("\"50ms\"", "\"0ms\"", 7, &["heartbeat = \"0\" cannot work", "1ms to 1h"]),
        ("[timing]", "[timing]\nlease = \"2h\"", 7, &["lease = \"2h\" cannot work", "1ms to 1h"]),
        (
            "[timing]",
            "[timing]\ncoordinator_timeout = \"80ms\"",
            7,
            &["T', 80ms", "not longer than answer_timeout (T, 100ms)", "coordinator_timeout = \"300ms\""],
        ),
        // Hooks.
        ("[timing]", "[hooks]\non_change = \" \"\n[timing]", 7, &["on_change is empty", "`sh -c`"]),
        // Leases, where quorum is said or implied.
        ("\"classic\"", "\"quorum\"\npreempt_after = \"900ms\"", 5, &["less than two leases", "\"1s\" or more"]),
        (
            "\"classic\"\n\n[timing]",
            "\"quorum\"\n\n[timing]\nlease = \"150ms\"",
            7,
            &["two answer_timeouts", "\"200ms\""],
        ),
        ("\"classic\"", "\"clasic\"", 4, &["unknown safety", "did you mean \"classic\"?"]),
        // Members.
        ("id = 2", "id = 1", 14, &["id 1 is already taken in line 11", "id = 2"]),
        ("id = 2", "id = 0", 14, &["not an integer from 1 to 65535", "id = 1"]),
        ("id = 2", "id = 65536", 14, &["not an integer from 1 to 65535"]),
        ("id = 2\n", "", 13, &["a [[peers]] table has no id", "id = 1"]),
        ("address = \"127.0.0.1:7402\"\n", "", 13, &["a [[peers]] table has no address", "host:7400"]),
        ("7402", "7401", 15, &["already taken in line 12", "another host or port"]),
        ("127.0.0.1:7402", "127.0.0.1", 15, &["is not a host and a port", "host:7400"]),
        ("127.0.0.1:7402", "127.0.0.1:99999", 15, &["is not a host and a port"]),
        ("127.0.0.1:7402", "::1:7402", 15, &["is not a host and a port", "[::1]:7400"]),
        ("id = 2", "id = 2\nhttp = \"127.0.0.1:7401\"", 15, &["http", "already taken in line 12"]),
        ("id = 2", "id = 2\nlisten = \"nowhere\"", 15, &["listen = \"nowhere\" is not a host and a port"]),
        // Secrets.
        ("127.0.0.1:7402", "n2:7402", 15, &["\"n2:7402\" is reachable", "secret_file = \"secret\"", "insecure = true"]),
        ("id = 2", "id = 2\nlisten = \"0.0.0.0:1\"", 15, &["reachable from other machines", "secret_file"]),
        ("name = \"test\"", "name = \"test\"\nsecret_file = \"\"", 3, &["secret_file is empty"]),
        ("name = \"test\"", "name = \"test\"\nsecret_permissions = \"all\"", 3, &["secret_permissions", "any"]),
        // Graphs.
        ("[timing]", "[graph]\nlinks = [[1, 2]]\n[timing]", 7, &["the topology is a mesh", "remove [graph]"]),
        // TOML itself.
        ("name = \"test\"", "name = test", 2, &["write TOML"]),
        ("name = \"test\"", "name = \"test\"\nname = \"twice\"", 3, &["duplicate key", "keep one"]),
    ];
    all_are_named(cases);
}

fn all_are_named(cases: &[Case]) {
    for (from, to, line, words) in cases {
        let printed = problem(&changed(from, to));
        assert!(printed.starts_with(&format!("config/x.toml:{line}: ")), "line {line} for {to:?}:\n{printed}");
        for word in *words {
            assert!(printed.contains(word), "{word:?} for {to:?}:\n{printed}");
        }
    }
}

#[test]
fn each_mistake_about_the_priority_command_is_named() {
    all_are_named(&[
        ("[timing]", "[priority]\ncommand = \" \"\n[timing]", 7, &["command in [priority] is empty", "sh -c"]),
        ("[timing]", "[priority]\ncommand = 5\n[timing]", 7, &["command in [priority] is not a string"]),
        ("[timing]", "[priority]\ninterval = \"1s\"\n[timing]", 7, &["[priority] has no command"]),
        (
            "[timing]",
            "[priority]\ncommand = \"x\"\ninterval = \"10ms\"\n[timing]",
            8,
            &["interval = \"10ms\" in [priority] cannot work", "100ms to 1h"],
        ),
        (
            "[timing]",
            "[priority]\ncommand = \"x\"\ninterval = \"1s\"\ntimeout = \"2s\"\n[timing]",
            9,
            &["timeout in [priority] is longer than the interval (1s)"],
        ),
        ("[timing]", "[priority]\nscript = \"x\"\n[timing]", 7, &["unknown key \"script\" in [priority]"]),
    ]);
}

#[test]
fn a_peers_table_in_single_brackets_is_explained() {
    let printed = problem(&GOOD.split("[[peers]]").next().map(|head| format!("{head}[peers]\nid = 1\n")).unwrap());
    assert!(printed.contains("write [[peers]], with double brackets"), "{printed}");
}

#[test]
fn an_empty_list_is_refused() {
    let without = GOOD.split("[[peers]]").next().unwrap();
    for text in [without.to_owned(), format!("peers = []\n{without}")] {
        let printed = problem(&text);
        assert!(printed.contains("lists no members") && printed.contains("[[peers]] table with id"), "{printed}");
    }
}

#[test]
fn an_address_that_nobody_can_dial_is_refused() {
    let printed = problem(&changed("[timing]", "insecure = true\n[timing]").replace("127.0.0.1:7402", "0.0.0.0:7402"));
    assert!(printed.starts_with("config/x.toml:16: no member can dial") && printed.contains("listen"), "{printed}");
}

#[test]
fn an_unknown_algorithm_is_answered_with_all_there_are() {
    let mut typo = catalog::DEFAULT.to_owned();
    typo.push('y');
    for name in [typo.as_str(), "quicksort"] {
        let printed = problem(&changed("topology = \"mesh\"", &format!("algorithm = \"{name}\"")));
        assert!(printed.starts_with("config/x.toml:3: unknown algorithm"), "{printed}");
        assert!(catalog::names().all(|name| printed.contains(name)), "{printed}");
        assert_eq!(printed.contains(&format!("did you mean {:?}?", catalog::DEFAULT)), name == typo, "{printed}");
    }
}

#[test]
fn every_algorithm_is_refused_on_the_other_topology_with_those_that_fit() {
    for row in catalog::ROWS {
        let other = if row.topology == Topology::Ring { Topology::Mesh } else { Topology::Ring };
        let both = format!("topology = \"{}\"\nalgorithm = \"{}\"", other.name(), row.name);
        let printed = problem(&changed("topology = \"mesh\"", &both));
        assert!(printed.starts_with("config/x.toml:4: "), "{printed}");
        assert!(printed.contains(&format!("{} runs on a {}", row.name, row.topology.name())), "{printed}");
        let fitting = catalog::ROWS.iter().filter(|fitting| fitting.topology == other);
        assert!(fitting.clone().all(|fitting| printed.contains(&format!("{:?}", fitting.name))), "{printed}");
        assert!(fitting.count() > 0);
    }
}

/// The links of two members, where the algorithm needs them.
fn graph(row: &catalog::Row, second: u32) -> &'static str {
    match (row.topology, second) {
        (Topology::Graph, 2) => "[graph]\nlinks = [[1, 2]]\n",
        (Topology::Graph, _) => "[graph]\nlinks = [[1, 65535]]\n",
        _ => "",
    }
}

#[test]
fn an_algorithm_that_cannot_wait_is_refused_without_preemption() {
    for row in catalog::ROWS {
        let head = format!("topology = \"{}\"\nalgorithm = \"{}\"\npreempt = false", row.topology.name(), row.name);
        let text = changed("topology = \"mesh\"", &head) + graph(row, 2);
        if row.can_wait {
            assert!(!parse(&text).unwrap_or_else(|problems| panic!("{problems}")).settings.preempt);
        } else {
            let printed = problem(&text);
            assert!(printed.starts_with("config/x.toml:5: preempt = false"), "{printed}");
            assert!(printed.contains("write preempt = true"), "{printed}");
        }
    }
}

#[test]
fn members_that_an_algorithm_cannot_run_with_are_refused_with_its_reason() {
    let mut refusing = 0;
    for row in catalog::ROWS {
        let head = format!("topology = \"{}\"\nalgorithm = \"{}\"", row.topology.name(), row.name);
        let text = changed("topology = \"mesh\"", &head).replace("id = 2\n", "id = 65535\npriority = 7\n");
        let text = text + graph(row, 65535);
        let members = vec![Uid::plain(1), Uid { priority: 7, id: NodeId(65535) }];
        let view = if row.topology == Topology::Ring { View::ring(members) } else { View::mesh(members) };
        match (row.check)(&view, row.wins) {
            Ok(()) => assert!(parse(&text).is_ok(), "{}", row.name),
            Err(why) => {
                refusing += 1;
                let printed = problem(&text);
                assert!(printed.starts_with("config/x.toml:4: ") && printed.contains(&why), "{printed}");
            }
        }
    }
    assert!(refusing > 0, "no row shows it");
}

#[test]
fn a_coordinator_timeout_below_the_proven_multiple_is_noticed() {
    let short = "[timing]\nanswer_timeout = \"100ms\"\ncoordinator_timeout = \"150ms\"";
    let config = parse(&changed("[timing]", short)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.notices.len(), 1);
    assert!(config.notices[0].to_string().contains("300ms would be safe"), "{}", config.notices[0]);
}

#[test]
fn a_priority_command_is_refused_where_no_priority_counts() {
    let mut refusing = Vec::new();
    for row in catalog::ROWS {
        let head = format!("topology = \"{}\"\nalgorithm = \"{}\"", row.topology.name(), row.name);
        let text = changed("topology = \"mesh\"", &head) + graph(row, 2) + "[priority]\ncommand = \"echo 1\"\n";
        match parse(&text) {
            Ok(config) => assert!(config.priority_command.is_some()),
            Err(problems) => {
                let printed = problems.to_string();
                assert!(printed.contains("plain ids") || printed.contains("chance decides"), "{printed}");
                refusing.push(row.name);
            }
        }
    }
    assert_eq!(refusing.len(), 3, "{refusing:?}");
}

#[test]
fn too_many_peers_are_refused_at_the_first_too_many() {
    let peers = |count: u32| {
        let head = GOOD.split("[[peers]]").next().unwrap();
        let list = (1..=count).map(|id| format!("[[peers]]\nid = {id}\naddress = \"127.0.0.1:{}\"\n", 10_000 + id));
        list.fold(head.to_owned(), |text, peer| text + &peer)
    };
    assert_eq!(parse(&peers(256)).unwrap_or_else(|problems| panic!("{problems}")).peers.len(), 256);
    let printed = problem(&peers(257));
    assert!(printed.starts_with(&format!("config/x.toml:{}: 257 peers", 10 + 3 * 256)), "{printed}");
    assert!(printed.contains("after the first 256"), "{printed}");
}

#[test]
fn somebody_must_be_able_to_lead() {
    let text =
        GOOD.replace("id = 1\n", "id = 1\nrole = \"learner\"\n").replace("id = 2\n", "id = 2\nrole = \"witness\"\n");
    let printed = problem(&text);
    assert!(printed.starts_with("config/x.toml:10: no peer may lead"), "{printed}");
}

#[test]
fn graph_links_name_known_members_and_connect_them() {
    let graph =
        |links: &str| changed("topology = \"mesh\"", "topology = \"graph\"") + "[graph]\nlinks = " + links + "\n";
    let row = catalog::ROWS.iter().find(|row| row.topology == Topology::Graph).unwrap();
    let named = format!("topology = \"graph\"\nalgorithm = \"{}\"", row.name);
    let graph = |links: &str| graph(links).replace("topology = \"graph\"", &named);
    let config = parse(&graph("[[1, 2]]")).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.view().neighbours(0), [1]);
    for (links, word) in [
        ("[[1, 2], [2, 7]]", "unknown id 7: write two of 1, 2"),
        ("[[1, 2], [2, 2]]", "joins a member to itself"),
        ("[]", "no path of links leads from 1 to 2"),
        ("[[1, 2], [1]]", "not a pair of ids: write it like [1, 2]"),
        ("5", "write links = [[1, 2], [2, 3]]"),
    ] {
        let problems = parse(&graph(links)).unwrap_err();
        assert!(problems.to_string().contains(word), "{links}:\n{problems}");
        assert!(problems.list.iter().any(|problem| problem.line == 18), "{problems}");
    }
    let without = changed("topology = \"mesh\"", "topology = \"graph\"");
    assert!(parse(&without).unwrap_err().to_string().contains("a graph without links"));
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_lines() {
    let text = GOOD
        .replace("name = ", "nme = ")
        .replace("\"250ms\"", "\"1ms\"")
        .replace("id = 2", "id = 1")
        .replace("7402", "7401")
        .replace("\"classic\"", "\"clasic\"");
    let problems = parse(&text).unwrap_err();
    let lines: Vec<usize> = problems.list.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 2, 4, 8, 14, 15], "{problems}");
    assert_eq!(problems.to_string().lines().count(), 6);
}

#[test]
fn an_id_outside_the_list_and_a_port_0_are_refused_at_the_start_only() {
    let config = parse(&changed("7402", "0")).unwrap_or_else(|problems| panic!("{problems}"));
    let port = config.start_as(NodeId(1)).unwrap_err().to_string();
    assert!(port.starts_with("config/x.toml:13: peer 2 has port 0"), "{port}");
    assert_eq!(good().start_as(NodeId(2)), Ok(()));
    let unknown = good().start_as(NodeId(9)).unwrap_err().to_string();
    assert!(unknown.contains("no peer has the id 9") && unknown.contains("1, 2"), "{unknown}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let printed = Config::load("no/such.toml").unwrap_err().to_string();
    assert!(printed.starts_with("no/such.toml: cannot read the config"), "{printed}");
    assert!(printed.contains("--config"), "{printed}");
}

#[test]
fn garbage_is_refused_and_never_panics() {
    for text in [
        "",
        "\u{0}",
        "[",
        "[[peers]",
        "peers = 5",
        "cluster = 1",
        "[cluster]\nname = \"\u{e9}",
        "]]]\n= = =\n",
        "a.b.c = {",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    for end in 0..GOOD.len() {
        let _ = parse(&GOOD[..end]);
    }
    for byte in 0..GOOD.len() {
        for with in ["[", "\"", "=", "\n", "{", "\u{e9}"] {
            let _ = parse(&format!("{}{with}{}", &GOOD[..byte], &GOOD[byte + 1..]));
        }
    }
}

#[test]
fn every_config_of_this_repository_loads() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config");
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let config = Config::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(config.notices, [], "{}", path.display());
            names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    for name in ["example", "compose", "mesh-bully", "ring-chang-roberts"] {
        assert!(names.iter().any(|found| found == name), "config/{name}.toml is missing from {names:?}");
    }
}

/// Five members on one machine with this row's algorithm.
fn local(row: &Row) -> String {
    let (topology, name) = (row.topology.name(), row.name);
    let order = match row.topology {
        Topology::Ring => "in a ring: each sends to the next in this list, the last to the first",
        Topology::Mesh => "all linked to each other",
        Topology::Graph => "linked as [graph] says",
    };
    let mut text = format!(
        "# Five members on this machine, {order}.\n\n[cluster]\nname = \"{topology}-{name}\"\n\
         topology = \"{topology}\"\nalgorithm = \"{name}\"\nsafety = \"classic\"\n"
    );
    for id in 1..=5 {
        text += "\n[[peers]]\n";
        text += &[format!("id = {id}"), format!("address = \"127.0.0.1:740{id}\"\n")].join("\n");
    }
    if row.topology == Topology::Graph {
        text += "\n[graph]\nlinks = [[1, 2], [2, 3], [3, 4], [4, 5], [5, 1], [1, 3]]\n";
    }
    text
}

#[test]
fn every_algorithm_has_a_config_to_start_from() {
    for row in catalog::ROWS {
        let path = testkit::root().join(format!("config/{}-{}.toml", row.topology.name(), row.name));
        testkit::golden::compare(&path, &local(row));
        Config::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

#[test]
fn the_example_parses_and_so_do_its_comments() {
    let example = Config::parse(EXAMPLE, Path::new("example.toml")).unwrap_or_else(|problems| panic!("{problems}"));
    // What it shows as defaults are the defaults: uncommented, nothing changes but what is said not to be built.
    let optional =
        ["join", "listen", "http", "secret_file", "links", "command", "interval", "timeout", "algorithm", "on_change"];
    let uncommented: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ").and_then(|rest| rest.split_once(" = ").map(|(key, _)| (key, rest))) {
            Some((key, rest)) if !key.contains(' ') && !optional.contains(&key) => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let full = Config::parse(&uncommented, Path::new("example.toml")).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((&full.settings, &full.locks), (&example.settings, &example.locks));
    assert_eq!(full.peers.iter().map(Peer::uid).collect::<Vec<_>>(), example.view().members());
    assert_ne!(uncommented, EXAMPLE);
}

/// `GOOD` with two more elections.
fn with_instances(lines: &str) -> String {
    format!("{GOOD}[[instances]]\nid = 256\nalgorithm = \"chang-roberts\"\n{lines}")
}

#[test]
fn instances_are_elections_of_their_own_over_the_same_members() {
    let config = parse(&with_instances("wins = \"lowest\"\n[[instances]]\nid = 300\nalgorithm = \"bully\"\n")).unwrap();
    let elections = config.elections();
    let seen: Vec<_> = elections.iter().map(|one| (one.instance.0, one.row.name, one.topology)).collect();
    let ring = (256, "chang-roberts", Topology::Ring);
    assert_eq!(seen, [(0, "bully", Topology::Mesh), ring, (300, "bully", Topology::Mesh)]);
    assert_eq!(elections[1].settings.election.wins, Wins::Lowest);
    assert!(matches!(config.view_as(Topology::Ring).topology(), Topology::Ring));
    assert_eq!(elections[1].settings.timing, elections[0].settings.timing);
    let fact = |text: &str| parse(text).unwrap().facts().into_iter().find(|(name, _)| name == "instances").unwrap().1;
    assert_eq!(fact(GOOD), "");
    assert_eq!(fact(&with_instances("")), "256 chang-roberts highest");
}

#[test]
fn instances_that_cannot_be_are_refused_with_their_line() {
    let cases: [(&str, &str); 5] = [
        ("id = 5\nalgorithm = \"bully\"", "id in [[instances]] is not an integer from 256 to 65535"),
        ("algorithm = \"bully\"", "an [[instances]] table has no id: write id = 256 or above"),
        ("id = 257", "an [[instances]] table has no algorithm"),
        ("id = 257\nalgorithm = \"bulli\"", "unknown algorithm \"bulli\": did you mean \"bully\"?"),
        ("id = 256\nalgorithm = \"bully\"", "two [[instances]] have the id 256"),
    ];
    for (lines, said) in cases {
        let text = with_instances(&format!("[[instances]]\n{lines}\n"));
        assert!(problem(&text).contains(said), "{}", problem(&text));
    }
    let graph = catalog::ROWS.iter().find(|row| row.topology == Topology::Graph).unwrap().name;
    let text = with_instances(&format!("[[instances]]\nid = 257\nalgorithm = \"{graph}\"\n"));
    assert!(problem(&text).contains("runs on a graph, but this cluster is a mesh"), "{}", problem(&text));
    let impatient = with_instances("[[instances]]\nid = 300\nalgorithm = \"bully-1982\"\n")
        .replace("safety = \"classic\"", "safety = \"classic\"\npreempt = false");
    assert!(problem(&impatient).contains("bully-1982 cannot leave a worse leader alone"), "{}", problem(&impatient));
}

/// A member that is to be added to a cluster.
const JOINING: &str = r#"[cluster]
name = "test"
join = ["127.0.0.1:7401", "localhost:7402"]
listen = "127.0.0.1:7406"
"#;

#[test]
fn a_member_that_is_to_be_added_has_addresses_instead_of_a_list() {
    let config = parse(JOINING).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.join, ["127.0.0.1:7401", "localhost:7402"]);
    assert_eq!(config.listen_address(NodeId(6)).as_deref(), Some("127.0.0.1:7406"));
    assert_eq!(config.start_as(NodeId(6)), Ok(()));
    assert!(config.start_as(NodeId(70_000)).is_err());
    assert!(config.first_list().members.is_empty());
    assert_eq!(config.bootstrap, Bootstrap::Manual, "it never begins a cluster");
    assert_eq!(config.http_addresses(NodeId(6)), None);
    let faced = parse(&format!("{JOINING}http = \"n6:8406\"\n")).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(faced.http_addresses(NodeId(6)), Some(("n6:8406".to_owned(), "0.0.0.0:8406".to_owned())));
    assert_eq!(good().bootstrap, Bootstrap::Auto);
    assert_eq!(parse(&changed("[timing]", "bootstrap = \"manual\"\n[timing]")).unwrap().bootstrap, Bootstrap::Manual);
}

#[test]
fn a_join_that_cannot_be_is_refused_with_its_line() {
    let peer = "[[peers]]\nid = 1\naddress = \"127.0.0.1:7401\"\n";
    let cases: &[(&str, String)] = &[
        ("config/x.toml:5: join and [[peers]]", format!("{JOINING}{peer}")),
        ("config/x.toml:3: join without listen", JOINING.replace("listen", "# listen")),
        ("config/x.toml:3: join names no member", JOINING.replace("\"127.0.0.1:7401\", \"localhost:7402\"", "")),
        (
            "config/x.toml:3: \"localhost\" in join is not a host and a port",
            JOINING.replace("localhost:7402", "localhost"),
        ),
        ("config/x.toml:3: join in [cluster] is not a list of strings", JOINING.replace("\"localhost:7402\"", "7402")),
        ("config/x.toml:4: listen = \"127.0.0.1:0\" is not a host and a port", JOINING.replace("7406", "0")),
        ("config/x.toml:3: join needs safety = \"quorum\"", format!("{JOINING}safety = \"classic\"\n")),
        ("config/x.toml:5: join and bootstrap", format!("{JOINING}bootstrap = \"auto\"\n")),
        ("config/x.toml:4: \"n6:7406\" is reachable from other machines", JOINING.replace("127.0.0.1:7406", "n6:7406")),
        (
            "config/x.toml:6: listen in [cluster] is for a member with join",
            changed("[timing]", "listen = \"127.0.0.1:1\"\n[timing]"),
        ),
        ("config/x.toml:5: http = \"8406\" is not a host and a port", format!("{JOINING}http = \"8406\"\n")),
        (
            "config/x.toml:6: http in [cluster] is for a member with join",
            changed("[timing]", "http = \"127.0.0.1:1\"\n[timing]"),
        ),
        ("config/x.toml:6: unknown bootstrap \"now\"", changed("[timing]", "bootstrap = \"now\"\n[timing]")),
    ];
    for (said, text) in cases {
        assert!(problem(text).starts_with(said), "{}", problem(text));
    }
}

#[test]
fn what_may_change_is_taken_and_the_rest_stays_and_is_named() {
    let mut config = good();
    let list = config.first_list();
    let text = changed("heartbeat = \"50ms\"", "heartbeat = \"40ms\"\nlease = \"2s\"")
        .replace("[[peers]]\nid = 2", "[[peers]]\npriority = 3\nid = 2");
    let said = |new: &str, config: &mut Config| {
        let said = config.adopt(&parse(new).unwrap(), NodeId(1), &list);
        said.into_iter().map(|key| (key.key, key.outcome)).collect::<Vec<_>>()
    };
    let (now, later) = (ReloadOutcome::Changed, ReloadOutcome::NeedsRestart);
    let keys =
        |keys: &[(&str, ReloadOutcome)]| keys.iter().map(|(key, how)| ((*key).to_owned(), *how)).collect::<Vec<_>>();
    // The file was checked as a whole: a heartbeat beside a lease that waits, waits with it.
    let waiting = [
        ("cluster.preempt_after", later),
        ("timing.heartbeat", later),
        ("timing.lease", later),
        ("peers.2.priority", later),
    ];
    assert_eq!(said(&text, &mut config), keys(&waiting));
    assert_eq!((config.settings.timing.heartbeat, config.peers[1].priority), (Duration::from_millis(50), 0));
    let text = text.replace("lease = \"2s\"", "");
    assert_eq!(said(&text, &mut config), keys(&[("timing.heartbeat", now), ("peers.2.priority", now)]));
    assert_eq!((config.settings.timing.heartbeat, config.peers[1].priority), (Duration::from_millis(40), 3));
    assert_eq!(said(&text, &mut config), []);
    let text = text.replace("7401", "7411").replace("7402", "7412")
        + "[hooks]\non_change = \"true\"\n[log]\nlevel = \"debug\"\n";
    let own = [("hooks.on_change", now), ("log.level", now), ("peers.1.address", later), ("peers.2.address", now)];
    assert_eq!(said(&text, &mut config), keys(&own));
    assert_eq!(config.listen_address(NodeId(1)).as_deref(), Some("127.0.0.1:7401"), "it listens where it did");
    assert!(problem(&changed("[timing]", "[log]\nlevel = \"loud=very\"\n[timing]")).contains("in [log]"));
}
