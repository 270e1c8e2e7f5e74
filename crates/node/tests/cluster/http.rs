//! The HTTP face of real processes: every route, every refusal, and what clients that misbehave can do.

mod door;
mod events;
mod lock_sessions;
pub(crate) mod metrics;
mod pages;
mod slow;

use algorithms::catalog;
use member::Safety;
use serde_json::{Value, json};
use testkit::http::{Answer, Http, ask, get, post, with_faces};
use testkit::{Live, Plan};

pub(crate) fn plan(nodes: u32, safety: Safety) -> Plan {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    with_faces(Plan { safety, chaos: true, ..Plan::new(nodes, row) })
}

fn token(live: &Live) -> String {
    std::fs::read_to_string(live.scratch.path().join("http.token")).unwrap().trim().to_owned()
}

/// Asks until the answer fits: states change a moment after the event that a test awaited.
async fn until(port: u16, path: &str, fits: impl Fn(&Answer) -> bool) -> Answer {
    let asking = async {
        loop {
            let answer = get(port, path).await;
            if fits(&answer) {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(testkit::PATIENCE, asking).await.unwrap_or_else(|_| panic!("{path} never fits"))
}

/// The members that answer `/leader` with 200.
async fn leaders(ports: &[u16]) -> Vec<u16> {
    let mut found = Vec::new();
    for &port in ports {
        let mut http = Http::connect(port).await;
        http.send(b"HEAD /leader HTTP/1.0\r\n\r\n").await;
        let answer = http.answer(true).await.expect("an answer");
        assert!(matches!(answer.code, 200 | 503), "{answer:?}");
        found.extend((answer.code == 200).then_some(port));
    }
    found
}

#[tokio::test]
async fn only_the_leader_answers_the_load_balancer_and_another_member_does_after_its_death() {
    let plan = plan(3, Safety::Quorum);
    let ports = plan.http_ports.clone();
    let mut live = Live::start(&plan);
    let (first, _) = live.agreement(&[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    until(ports[first as usize - 1], "/leader", |answer| answer.code == 200).await;
    assert_eq!(leaders(&ports).await, [ports[first as usize - 1]]);
    live.kill(first).await;
    let others: Vec<u32> = [1, 2, 3].into_iter().filter(|&id| id != first).collect();
    let (second, epoch) = live.agreement(&others).await;
    let port = ports[second as usize - 1];
    let answer = until(port, "/leader", |answer| answer.code == 200).await;
    assert_eq!(answer.body, format!("{second} leads in epoch {epoch}\n"));
    let other = others.into_iter().find(|&id| id != second).unwrap();
    let answer = get(ports[other as usize - 1], "/leader").await;
    assert_eq!(answer.code, 503);
    assert!(answer.body.contains(&format!("{second} does, in epoch")), "{}", answer.body);
    for path in ["/livez", "/readyz"] {
        assert_eq!(get(port, path).await.code, 200, "{path}");
    }
    // A leader alone loses its lease, whatever its event loop does: the reader compares the clock.
    live.kill(other).await;
    let answer = until(port, "/leader", |answer| answer.code == 503).await;
    assert!(answer.body.contains("knows no leader"), "{}", answer.body);
    assert_eq!(
        until(port, "/readyz", |answer| answer.code == 503).await.body,
        "not ready: this member knows no leader\n"
    );
    assert_eq!(get(port, "/livez").await.code, 200);
}

#[tokio::test]
async fn the_documents_are_those_of_ctl() {
    let plan = plan(3, Safety::Quorum);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    live.agreement(&[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    live.connected(&[1, 2, 3]).await;
    for (path, command) in [
        ("/v1/status", "status"),
        ("/v1/history", "history"),
        ("/v1/audit", "audit"),
        ("/v1/explain", "explain"),
        ("/v1/locks", "locks"),
    ] {
        let served = until(port, path, |answer| answer.code == 200).await;
        assert_eq!(served.header("content-type"), Some("application/json"));
        let (printed, _) = live.json(&[command]).await;
        assert_eq!(shape(&served.json()), shape(&printed), "{path}");
    }
    let status = get(port, "/v1/status").await.json();
    assert_eq!((&status["verdict"], status["members"].as_array().unwrap().len()), (&json!("AGREED"), 3));
    let catalog = get(port, "/v1/algorithms").await.json();
    let printed = live.ctl(&["algorithms", "-o", "json"]).await;
    let lines: Vec<Value> = testkit::stdout(&printed).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(catalog, Value::from(lines));
}

/// The document with every leaf replaced by its type; numbers and nulls count as the same, lists as their first element.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(list) => list.first().map(shape).into_iter().collect(),
        Value::String(_) => json!("text"),
        _ => json!(0),
    }
}

#[tokio::test]
async fn requests_that_are_wrong_are_refused_with_their_reason() {
    let plan = plan(1, Safety::Classic);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    live.agreement(&[1]).await;
    let token = token(&live);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let kind = "Content-Type: application/json\r\n";
    let long = format!("{{\"member\":{}}}", "1".repeat(70_000));
    let cases: &[(&str, &str, String, &str, u16)] = &[
        ("GET", "/nothing", String::new(), "", 404),
        ("GET", "/assets/../secret", String::new(), "", 404),
        ("DELETE", "/v1/status", String::new(), "", 405),
        ("POST", "/v1/status", String::new(), "", 405),
        ("GET", "/v1/elect", String::new(), "", 405),
        ("POST", "/", String::new(), "", 405),
        ("GET", "/v1/status", "Host: evil.example\r\n".into(), "", 421),
        ("GET", "/v1/status", "Host: localhost\r\nX-Forwarded-For: 10.0.0.1\r\n".into(), "", 401),
        ("GET", "/v1/status", "Authorization: Bearer wrong\r\n".into(), "", 401),
        ("GET", "/v1/events", "Origin: http://evil.example\r\n".into(), "", 403),
        ("POST", "/v1/elect", kind.into(), "{}", 401),
        ("POST", "/v1/elect", format!("{bearer}{kind}Origin: http://evil.example\r\n"), "{}", 403),
        ("POST", "/v1/elect", bearer.clone(), "{}", 415),
        ("POST", "/v1/elect", format!("{bearer}Content-Type: text/plain\r\n"), "{}", 415),
        ("POST", "/v1/elect", format!("{bearer}{kind}"), "{", 400),
        ("POST", "/v1/elect", format!("{bearer}{kind}"), r#"{"whom":1}"#, 400),
        ("POST", "/v1/transfer", format!("{bearer}{kind}"), "{}", 400),
        ("POST", "/v1/chaos", format!("{bearer}{kind}"), r#"{"action":"pause","a":[1],"ms":99999}"#, 400),
        ("POST", "/v1/elect", format!("{bearer}{kind}"), &long, 413),
    ];
    for (method, path, headers, body, code) in cases {
        let answer = ask(port, method, path, headers, body).await;
        assert_eq!(answer.code, *code, "{method} {path} {headers}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{method} {path}");
        let problem = answer.json();
        assert_eq!(problem["status"], json!(code));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
        for (name, value) in [("x-content-type-options", "nosniff"), ("cache-control", "no-store")] {
            assert_eq!(answer.header(name), Some(value), "{method} {path}");
        }
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'"), "{policy}");
    }
    assert_eq!(ask(port, "GET", "/v1/elect", "", "").await.header("allow"), Some("POST"));
    assert!(ask(port, "POST", "/v1/elect", kind, "{}").await.header("www-authenticate").is_some());
}

#[tokio::test]
async fn orders_are_carried_out_and_recorded_as_an_operators() {
    let plan = plan(3, Safety::Quorum);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    let (first, epoch) = live.agreement(&[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    live.connected(&[1, 2, 3]).await;
    let token = token(&live);
    let other = if first == 1 { 2 } else { 1 };
    let answer = post(port, "/v1/transfer", &token, &format!("{{\"to\":{other},\"hold\":true}}")).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let change = answer.json();
    assert_eq!((&change["schema"], &change["action"]), (&json!("conclave.change/1"), &json!("transfer")));
    assert_eq!((&change["was"], &change["leader"]), (&json!(first), &json!(other)));
    assert!(change["epoch"].as_u64().unwrap() > epoch);
    let answer = post(port, "/v1/pause", &token, "{}").await;
    let (paused, keeps) = (answer.json()["paused"].clone(), answer.json()["keeps"].clone());
    assert_eq!((answer.code, paused, keeps), (200, json!(true), json!(other)), "{}", answer.body);
    assert!(get(port, "/readyz").await.body.contains("PAUSED"));
    let answer = post(port, "/v1/resume", &token, "{}").await;
    assert_eq!((answer.code, &answer.json()["paused"]), (200, &json!(false)), "{}", answer.body);
    assert_eq!(post(port, "/v1/step-down", &token, r#"{"for_ms":0}"#).await.code, 400);
    let answer = post(port, "/v1/chaos", &token, r#"{"action":"delay","a":[1],"b":[2],"ms":1}"#).await;
    assert_eq!((answer.code, &answer.json()["applied"]), (200, &json!([1, 2])), "{}", answer.body);
    let answer = post(port, "/v1/chaos", &token, r#"{"action":"heal"}"#).await;
    assert_eq!((answer.code, &answer.json()["applied"]), (200, &json!([1, 2, 3])), "{}", answer.body);
    assert_eq!(post(port, "/v1/transfer", &token, r#"{"to":99}"#).await.code, 409);
    let answer =
        until(port, "/v1/history", |answer| answer.json()["orders"].as_array().is_some_and(|orders| orders.len() >= 8))
            .await;
    let orders = answer.json()["orders"].clone();
    let transfer = orders
        .as_array()
        .unwrap()
        .iter()
        .find(|order| order["order"].as_str().is_some_and(|words| words.contains("transfer")))
        .unwrap();
    assert_eq!(transfer["access"], json!("operator"));
    assert!(transfer["name"].as_str().unwrap().starts_with("http 127.0.0.1:"), "{transfer}");
}
