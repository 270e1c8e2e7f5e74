//! The real binary where no member is needed: help, exit codes, and the shape of its JSON.

use std::path::Path;
use std::process::{Command, Output};

use algorithms::catalog::{DEFAULT, ROWS};
use algorithms::{Topology, catalog};
use serde_json::Value;
use testkit::{Scratch, ctl_binary, stderr, stdout, strace};

/// Runs `ctl` in an empty directory, without anything inherited that it would read.
fn ctl(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(ctl_binary())
        .args(arguments)
        .current_dir(directory)
        .env_remove("CONCLAVE_CONFIG")
        .env_remove("CONCLAVE_ENDPOINTS")
        .output()
        .expect("ctl runs")
}

fn run(arguments: &[&str]) -> Output {
    let scratch = Scratch::new("cli").unwrap();
    ctl(scratch.path(), arguments)
}

fn json_lines(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("a JSON object per line")).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// A port that nobody listens on, as long as nobody else takes it.
fn closed_endpoint() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn every_command_explains_itself() {
    let commands: &[&[&str]] = &[
        &[],
        &["leader"],
        &["status"],
        &["watch"],
        &["history"],
        &["audit"],
        &["explain"],
        &["elect"],
        &["step-down"],
        &["transfer"],
        &["priority"],
        &["chaos"],
        &["chaos", "cut"],
        &["chaos", "delay"],
        &["chaos", "heal"],
        &["chaos", "pause"],
        &["chaos", "kill"],
        &["lead"],
        &["fence-check"],
        &["up"],
        &["init"],
        &["config"],
        &["algorithms"],
        &["bench", "failover"],
        &["bench", "idle"],
        &["bench", "sim"],
        &["sim", "run"],
        &["sim", "faults"],
        &["sim", "sweep"],
        &["sim", "draw"],
        &["sim", "step"],
        &["sim", "export"],
        &["sim", "compare"],
        &["sim", "deadlock"],
        &["completions"],
        &["man"],
    ];
    for command in commands {
        let output = run(&[command, &["--help"][..]].concat());
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert!(stdout(&output).contains("Examples:"), "{command:?} has no examples");
    }
}

#[test]
fn wrong_usage_exits_2_and_says_why_on_stderr() {
    let cases: &[(&[&str], &str)] = &[
        (&["no-such-command"], "no-such-command"),
        (&["leader", "--no-such-option"], "--no-such-option"),
        (&["leader", "--wait", "5"], "50ms"),
        (&["leader", "-o", "xml"], "table"),
        (&["--endpoints", "127.0.0.1:1", "history", "--at", "yesterday"], "-5m"),
        (&["leader"], "ctl up"),
        (&["--config", "missing.toml", "leader"], "missing.toml"),
        (&["--endpoints", "nonsense", "leader"], "host:port"),
        (&["--endpoints", "127.0.0.1:1", "--secret-file", "missing", "leader"], "missing"),
        (&["sim", "run", "--nodes", "0"], "0"),
        (&["sim", "run", "--ids", "1,2,1"], "1"),
        (&["sim", "run", "--ids", "1,4294967296"], "4294967296"),
        (&["sim", "run", "--ids", "1,x"], "x"),
        (&["sim", "run", "--ids", "1,2", "--initiators", "3"], "3"),
        (&["sim", "run", "--ids", "1,2", "--crash", "3"], "3"),
        (&["sim", "run", "--ids", "7,7"], "id 7 is there twice"),
        (&["sim", "run"], "--nodes"),
        (&["up", "-n", "0"], "0"),
        (&["chaos", "cut", "1"], "<B[,B...]>"),
        (&["chaos", "cut", "1,2", "3,2"], "member 2 is on both sides"),
        (&["chaos", "delay", "1", "2", "61s"], "at most 1m"),
        (&["chaos", "pause", "1", "--for", "2m"], "at most 1m"),
        (&["chaos", "kill", "x"], "x"),
        (&["chaos", "cut", "1,x", "2"], "`x` is no member"),
        (&["init", "-n", "3", "alpha", "beta"], "ctl init -n 2 alpha beta"),
        (&["config"], "--example"),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}: errors are no data");
    }
}

#[test]
fn errors_are_json_where_the_output_is() {
    for arguments in [&["-o", "json", "leader"][..], &["leader", "--output=json", "--no-such-option"]] {
        let output = run(arguments);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{arguments:?}");
        let error: Value = serde_json::from_str(&stderr(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        assert_eq!(keys(&error), ["error", "exit", "schema", "try", "why"]);
        assert_eq!((&error["schema"], &error["exit"]), (&"conclave.error/1".into(), &2.into()));
        assert!(!error["error"].as_str().unwrap().is_empty());
    }
}

#[test]
fn an_unknown_algorithm_exits_2_and_lists_the_known_ones() {
    for command in [&["sim", "run", "--nodes", "5"][..], &["bench", "failover"], &["up"], &["init", "alpha"]] {
        let output = run(&[command, &["--algorithm", "no-such"][..]].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        for name in catalog::names() {
            assert!(stderr(&output).contains(name), "{name} is missing: {}", stderr(&output));
        }
    }
}

#[test]
fn ids_an_algorithm_cannot_count_to_exit_2_and_name_the_limit() {
    let fussy = ROWS.iter().filter(|row| row.assumes.contains("small ids"));
    for row in fussy {
        for command in ["run", "draw", "step"] {
            let output = run(&["sim", command, "--algorithm", row.name, "--ids", "1,4000000000"]);
            assert_eq!(output.status.code(), Some(2), "{}: {}", row.name, stderr(&output));
            let said = stderr(&output);
            assert!(said.contains(row.name) && said.contains("4000000000") && said.contains("limit"), "{said}");
        }
    }
}

#[test]
fn an_algorithm_on_the_wrong_topology_exits_2_and_names_what_fits() {
    let ring = ROWS.iter().find(|row| row.topology == Topology::Ring).unwrap();
    let output = run(&["up", "--algorithm", ring.name, "--topology", "mesh"]);
    assert_eq!(output.status.code(), Some(2));
    let fitting = ROWS.iter().filter(|row| row.topology == Topology::Mesh);
    fitting.for_each(|row| assert!(stderr(&output).contains(row.name), "{}", stderr(&output)));
}

#[test]
fn nobody_reachable_exits_3_and_options_may_follow_the_command() {
    let endpoint = closed_endpoint();
    let chaos = [&["chaos", "heal"][..], &["chaos", "cut", "1", "2"]];
    for command in
        [&["leader"][..], &["status"], &["elect"], &["step-down"], &["leader", "--wait", "100ms"], chaos[0], chaos[1]]
    {
        for arguments in
            [[&["--endpoints", &endpoint][..], command].concat(), [command, &["--endpoints", &endpoint]].concat()]
        {
            let output = run(&arguments);
            assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", stderr(&output));
            let said = stderr(&output);
            assert!(said.contains(&endpoint) && said.contains("try:"), "{said}");
        }
    }
}

#[test]
fn status_of_a_dead_cluster_still_shows_its_members() {
    let endpoint = closed_endpoint();
    let output = run(&["--endpoints", &endpoint, "status", "-o", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let status = &json_lines(&output)[0];
    assert_eq!(status["schema"], "conclave.status/1");
    assert_eq!(status["verdict"], "UNREACHABLE");
    assert_eq!(status["leader"], Value::Null);
    assert_eq!((&status["election_messages"], &status["theory"]), (&Value::Null, &Value::Null));
    let member = &status["members"][0];
    assert_eq!((&member["up"], &member["role"], &member["address"]), (&false.into(), &"down".into(), &endpoint.into()));
    for key in ["id", "leader", "epoch", "incarnation", "lease_ms", "sent", "received", "last_heard_ms", "faults"] {
        assert_eq!(member[key], Value::Null, "{key}");
    }
}

#[test]
fn a_member_that_never_answers_costs_the_member_timeout_and_no_more() {
    // Connections complete in the kernel; nobody ever reads them, as with a stopped process.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let endpoints = [endpoint.as_str(); 8].join(",");
    let start = std::time::Instant::now();
    let output = run(&["--endpoints", &endpoints, "leader", "--member-timeout", "200ms"]);
    let took = start.elapsed().as_millis();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!((200..600).contains(&took), "{took} ms");
}

#[test]
fn the_nearest_config_above_is_found_and_a_missing_secret_exits_8() {
    let scratch = Scratch::new("cli").unwrap();
    let below = scratch.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::create_dir(scratch.path().join(".conclave")).unwrap();
    let endpoint = closed_endpoint();
    let config = scratch.path().join(".conclave/cluster.toml");
    let text = format!("[cluster]\nname = 'x'\n[[peers]]\nid = 7\naddress = '{endpoint}'\n");
    std::fs::write(&config, &text).unwrap();
    let output = ctl(&below, &["leader"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("7 at {endpoint}")), "{}", stderr(&output));
    std::fs::write(&config, text.replace("[[peers]]", "secret_file = 'gone'\n[[peers]]")).unwrap();
    let output = ctl(&below, &["leader"]);
    assert_eq!(output.status.code(), Some(8), "{}", stderr(&output));
}

#[test]
fn every_row_elects_a_leader_in_the_documented_schema() {
    for row in ROWS {
        let output = run(&["sim", "run", "--algorithm", row.name, "--ids", "1,2,3,4,5,6", "-o", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}: {}", row.name, stderr(&output));
        let [line] = &json_lines(&output)[..] else { panic!("one object per trial") };
        assert_eq!(line["schema"], "conclave.sim/1");
        assert_eq!(line["algorithm"], row.name);
        assert_eq!(line["nodes"], 6);
        assert!(line["leader"].is_u64(), "{line}");
        for key in ["seed", "schedule", "initiators", "rounds", "steps", "wall_ms"] {
            assert!(line.get(key).is_some(), "{key} is missing: {line}");
        }
        assert_eq!(keys(&line["theory"]), ["best", "mean", "worst"]);
        let messages = &line["messages"];
        let count = |value: &Value| value.as_u64().unwrap();
        let by_kind: u64 = messages["by_kind"].as_object().unwrap().values().map(count).sum();
        assert_eq!(count(&messages["total"]), by_kind);
        assert_eq!(count(&messages["total"]), count(&messages["election"]) + count(&messages["announcement"]));
    }
}

#[test]
fn the_same_seed_prints_the_same_and_trials_take_the_next_ones() {
    let arguments = ["sim", "run", "--nodes", "50", "--schedule", "random", "--seed", "9", "--trials", "3"];
    assert_eq!(stdout(&run(&arguments)), stdout(&run(&arguments)));
    let seeds: Vec<Value> =
        json_lines(&run(&[&arguments[..], &["-o", "json"]].concat())).iter().map(|line| line["seed"].clone()).collect();
    assert_eq!(seeds, [9, 10, 11].map(Value::from));
}

#[test]
fn many_trials_end_with_their_mean_close_to_theorys() {
    let row = ROWS.iter().find(|row| (row.bounds)(64).mean.is_some_and(|mean| mean < (row.bounds)(64).worst)).unwrap();
    let output = run(&["sim", "run", "--nodes", "1024", "--trials", "1000", "--algorithm", row.name]);
    let text = stdout(&output);
    let summary = text.lines().last().unwrap();
    let deviation = summary.rsplit_once("deviation ").and_then(|(_, rest)| rest.strip_suffix(" %"));
    let deviation: f64 = deviation.unwrap_or_else(|| panic!("{summary}")).parse().unwrap();
    assert!(summary.starts_with("1000 trials: ") && deviation.abs() < 2.0, "{summary}");
}

#[test]
fn fault_runs_hold_and_repeat_themselves() {
    let arguments = ["sim", "faults", "--algorithm", "all", "--seeds", "3", "--seed", "5", "-o", "json"];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines = json_lines(&output);
    assert_eq!(lines.len(), ROWS.len());
    for line in &lines {
        assert_eq!((&line["schema"], &line["seeds"]), (&"conclave.sim.faults/1".into(), &3.into()));
    }
    assert_eq!(stdout(&run(&arguments)), stdout(&output));
}

#[test]
fn runs_are_drawn_exported_swept_and_stepped_through() {
    let ids = ["--ids", "3,1,2"];
    let drawn = stdout(&run(&[&["sim", "draw"][..], &ids].concat()));
    assert!(drawn.contains("<svg"), "{drawn}");
    for (format, expected) in [("shiviz", "{"), ("chrome", "traceEvents")] {
        let output = run(&[&["sim", "export", "--format", format][..], &ids].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(expected), "{}", stdout(&output));
    }
    let scratch = Scratch::new("cli").unwrap();
    let sweep = ["sim", "sweep", "--largest", "8", "--trials", "2", "--svg", "s.svg", "--csv", "s.csv", "-o", "json"];
    let output = ctl(scratch.path(), &sweep);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(json_lines(&output).iter().all(|line| line["schema"] == "conclave.sim.sweep/1"));
    assert!(std::fs::read_to_string(scratch.path().join("s.svg")).unwrap().contains("<svg"));
    assert!(std::fs::read_to_string(scratch.path().join("s.csv")).unwrap().lines().count() > ROWS.len());
    let ctl = ctl_binary();
    let ctl = ctl.display();
    let script = format!("yes r | head -200 | {ctl} sim step --ids 3,1,2");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(stdout(&output).contains("no message is left"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn the_catalog_is_listed_whole() {
    let output = run(&["algorithms", "-o", "json"]);
    let lines = json_lines(&output);
    let names: Vec<&str> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, catalog::names().chain(catalog::mutex::names()).collect::<Vec<_>>());
    let defaults: Vec<&Value> = lines.iter().filter(|line| line["default"] == true).map(|line| &line["name"]).collect();
    assert_eq!(defaults, [DEFAULT]);
    let table = stdout(&run(&["algorithms"]));
    catalog::names().chain(catalog::mutex::names()).for_each(|name| assert!(table.contains(name), "{table}"));
}

#[test]
fn completions_and_manual_pages_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("step-down"), "{shell}");
    }
    let scratch = Scratch::new("cli").unwrap();
    let output = ctl(scratch.path(), &["man", "pages"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(scratch.path().join("pages/man1/ctl-sim-run.1").is_file());
}

#[test]
fn init_writes_a_config_and_a_private_secret_and_replaces_neither() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("cli").unwrap();
    let output = ctl(scratch.path(), &["init", "-n", "3", "alpha", "beta:7500", "[::1]", "--dir", "deploy"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let secret = scratch.path().join("deploy/secret");
    for name in ["secret", "operator.secret", "reader.secret"] {
        let path = scratch.path().join("deploy").join(name);
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        assert!(stdout(&output).contains(&format!("deploy/{name}")), "{}", stdout(&output));
    }
    let config = std::fs::read_to_string(scratch.path().join("deploy/cluster.toml")).unwrap();
    for address in ["alpha:7400", "beta:7500", "[::1]:7400"] {
        assert!(config.contains(&format!("address = \"{address}\"")), "{config}");
    }
    let before = std::fs::read(&secret).unwrap();
    let again = ctl(scratch.path(), &["init", "alpha", "--dir", "deploy"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(std::fs::read(&secret).unwrap(), before);
    let output = ctl(scratch.path(), &["init", "alpha", "--dir", "json", "-o", "json"]);
    let [line] = &json_lines(&output)[..] else { panic!("one object") };
    assert_eq!(keys(line), ["config", "http_token", "nodes", "operator_secret", "reader_secret", "schema", "secret"]);
    assert_eq!(line["http_token"], serde_json::Value::Null);
    assert_eq!(line["reader_secret"], "json/reader.secret");
}

#[test]
fn init_writes_where_members_serve_http_as_comments_unless_it_is_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("cli").unwrap();
    let written = |arguments: &[&str], dir: &str| {
        let output = ctl(scratch.path(), &[&["init", "--dir", dir], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (stdout(&output), std::fs::read_to_string(scratch.path().join(dir).join("cluster.toml")).unwrap())
    };
    let parse =
        |text: &str| node::config::Config::parse(text, scratch.path()).unwrap_or_else(|error| panic!("{error}"));
    let faces = |text: &str| {
        let peers = parse(text).peers.into_iter();
        peers.filter_map(|peer| peer.http).collect::<Vec<_>>()
    };
    let (words, text) = written(&["alpha", "beta"], "plain");
    assert!(faces(&text).is_empty() && !words.contains("http"), "{text}");
    assert!(!scratch.path().join("plain/http.token").exists());
    // What the comments say works.
    let uncommented = text.replace("# http = ", "http = ").replace("# http_token_file = ", "http_token_file = ");
    assert_eq!(faces(&uncommented), ["alpha:8400", "beta:8400"]);
    assert!(parse(&uncommented).http_token_file.is_some());
    for (hosts, dir) in [(&["-n", "3", "--http", "127.0.0.1"][..], "one"), (&["--tls", "--http", "alpha"], "tls")] {
        let (words, text) = written(hosts, dir);
        let token = scratch.path().join(dir).join("http.token");
        assert_eq!(std::fs::metadata(token).unwrap().permissions().mode() & 0o777, 0o600);
        let first = faces(&text)[0].clone();
        assert!(words.contains(&format!("http://{first}/")) && words.contains("http.token"), "{words}");
    }
    let (_, text) = written(&["--http=9000", "10.0.0.1:7400", "beta", "10.0.0.1:7401"], "ports");
    assert_eq!(faces(&text), ["10.0.0.1:9000", "beta:9000", "10.0.0.1:9001"]);
    let taken = ctl(scratch.path(), &["init", "--http=7400", "alpha", "--dir", "taken"]);
    assert_eq!(taken.status.code(), Some(2), "{}", stderr(&taken));
}

#[test]
fn secrets_are_derived_from_the_clusters_own_and_from_no_other() {
    let scratch = Scratch::new("cli").unwrap();
    assert_eq!(ctl(scratch.path(), &["init", "alpha"]).status.code(), Some(0));
    for access in ["operator", "reader"] {
        let file = format!("{access}.secret");
        let written = std::fs::read_to_string(scratch.path().join(&file)).unwrap();
        let derive =
            |secret: &str| ctl(scratch.path(), &["--secret-file", secret, "secret", "derive", "--access", access]);
        let by_config = ctl(scratch.path(), &["--config", "cluster.toml", "secret", "derive", "--access", access]);
        assert_eq!((stdout(&derive("secret")), stdout(&by_config)), (written.clone(), written));
        let output = derive(&file);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!(stderr(&output).contains(&format!("a secret of {access}s")), "{}", stderr(&output));
    }
    let output = ctl(scratch.path(), &["secret", "derive", "--access", "member"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
    assert_eq!(ctl(scratch.path(), &["secret", "derive", "--access", "reader"]).status.code(), Some(2), "no secret");
}

#[test]
fn a_secret_that_others_can_read_is_refused_unless_the_config_allows_it() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("cli").unwrap();
    let secret = scratch.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o640)).unwrap();
    let endpoint = closed_endpoint();
    let config = |key: &str| {
        let text = format!(
            "[cluster]\nname = 'x'\nsecret_file = 'secret'\n{key}\n[[peers]]\nid = 7\naddress = '{endpoint}'\n"
        );
        std::fs::write(scratch.path().join("c.toml"), text).unwrap();
    };
    let options = [&["--config", "c.toml"][..], &["--config", "c.toml", "--secret-file", "secret"]];
    let bare = ["--endpoints", &endpoint, "--cluster", "x", "--secret-file", "secret"];
    config("");
    for options in options.into_iter().chain([&bare[..]]) {
        let output = ctl(scratch.path(), &[options, &["leader"]].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("mode 0640") && said.contains("chmod 600"), "{said}");
    }
    config("secret_permissions = 'any'");
    for options in options {
        let output = ctl(scratch.path(), &[options, &["leader"]].concat());
        assert_eq!(output.status.code(), Some(3), "as far as the members: {}", stderr(&output));
    }
}

#[test]
fn the_example_config_is_one() {
    let output = run(&["config", "--example"]);
    assert_eq!(output.status.code(), Some(0));
    let scratch = Scratch::new("cli").unwrap();
    let path = scratch.path().join("example.toml");
    std::fs::write(&path, stdout(&output)).unwrap();
    assert!(client::ClusterFile::read(&path).unwrap().peers.len() > 1);
}

#[test]
fn a_fence_accepts_tokens_that_do_not_decrease_and_names_the_larger_one() {
    let scratch = Scratch::new("cli").unwrap();
    let check = |token: &str| ctl(scratch.path(), &["fence-check", "fence", token]);
    for (token, code) in [("5", 0), ("5", 0), ("9", 0), ("5", 1), ("9", 0), ("10", 0)] {
        let output = check(token);
        assert_eq!(output.status.code(), Some(code), "{token}: {}", stderr(&output));
        assert_eq!(stderr(&output).contains('9'), code == 1, "{}", stderr(&output));
    }
    let refused = ctl(scratch.path(), &["fence-check", "fence", "3", "-o", "json"]);
    assert_eq!(refused.status.code(), Some(1));
    let [line] = &json_lines(&refused)[..] else { panic!("one object") };
    assert_eq!(keys(line), ["accepted", "largest", "schema", "token"]);
    assert_eq!((&line["accepted"], &line["token"], &line["largest"]), (&false.into(), &"3".into(), &"10".into()));
    assert_eq!(check("-1").status.code(), Some(2));

    std::fs::write(scratch.path().join("fence"), "damaged").unwrap();
    let output = check("99");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("damaged") && stderr(&output).contains("mv "), "{}", stderr(&output));
    assert_eq!(std::fs::read(scratch.path().join("fence")).unwrap(), b"damaged");
    assert_eq!(check("nonsense").status.code(), Some(2));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let script = format!("{} algorithms -o json | head -0", ctl_binary().display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(stderr(&output), "");
}

#[test]
fn an_accepted_token_is_on_the_disk_before_its_name_and_its_name_before_the_answer() {
    if !strace::works() {
        return;
    }
    let scratch = Scratch::new("fence").unwrap();
    let recorded = scratch.path().join("calls");
    let fence = scratch.path().join("fence");
    let line = strace::record(&recorded);
    let check = || {
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).arg(ctl_binary()).arg("fence-check").arg(&fence).arg("7");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        strace::calls(&recorded, scratch.path())
    };
    let calls = check();
    let mut at = 0;
    for (name, file) in [("write", "fence.tmp"), ("fsync", "fence.tmp"), ("rename", "fence.tmp"), ("fsync", "")] {
        at = strace::find(&calls, at, name, file).unwrap_or_else(|| panic!("no {name} of {file:?} then: {calls:?}"));
    }
    // The process that wrote it may have died before its name was on the disk.
    let calls = check();
    assert!(strace::find(&calls, 0, "fsync", "").is_some(), "{calls:?}");
}
