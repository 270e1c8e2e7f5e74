//! Locks over HTTP: taken, busy, kept alive, released, and lost when nobody names the session.

use member::Safety;
use serde_json::{Value, json};
use testkit::Live;
use testkit::http::post;

use super::{plan, token, until};

#[tokio::test]
async fn a_lock_is_held_while_its_session_is_named_and_passes_on_when_it_is_not() {
    let plan = plan(3, Safety::Quorum);
    let ports = plan.http_ports.clone();
    let mut live = Live::start(&plan);
    live.agreement(&[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    let token = token(&live);
    let order = async |member: usize, what: &str, body: Value| -> (u16, Value) {
        let answer = post(ports[member], &format!("/v1/locks/{what}"), &token, &body.to_string()).await;
        (answer.code, answer.json())
    };
    let open = async |member: usize, ttl_ms: u64| -> String {
        let (code, opened) = order(member, "open", json!({"ttl_ms": ttl_ms})).await;
        assert_eq!(code, 200, "{opened}");
        opened["session"].as_str().unwrap().to_owned()
    };
    let (mine, other) = (open(0, 20_000).await, open(1, 20_000).await);
    let (code, taken) = order(0, "acquire", json!({"session": mine, "name": "backup"})).await;
    assert_eq!(code, 200, "{taken}");
    let first: u64 = taken["locks"][0]["token"].as_str().unwrap().parse().unwrap();
    assert!(taken["locks"][0]["valid_ms"].as_u64().is_some_and(|ms| ms > 0 && ms <= 20_000), "{taken}");
    assert_eq!(order(1, "acquire", json!({"session": other, "name": "backup"})).await.0, 409, "busy");
    assert_eq!(order(0, "acquire", json!({"session": mine, "name": "backup"})).await.0, 409, "not re-entrant");
    assert_eq!(order(0, "keep-alive", json!({"session": mine})).await.1["locks"][0]["name"], "backup");
    assert_eq!(order(0, "keep-alive", json!({"session": other})).await.0, 404, "another member keeps it");
    let held = until(ports[2], "/v1/locks", |answer| answer.code == 200 && answer.json()["locks"] != json!([])).await;
    assert_eq!(held.json()["locks"][0]["holders"][0]["token"], json!(first.to_string()));
    assert_eq!(order(0, "release", json!({"session": mine, "name": "backup"})).await.0, 200);
    assert_eq!(order(0, "release", json!({"session": mine, "name": "backup"})).await.0, 409);
    let (code, taken) = order(1, "acquire", json!({"session": other, "name": "backup", "wait_ms": 20_000})).await;
    assert_eq!(code, 200, "{taken}");
    assert!(taken["locks"][0]["token"].as_str().unwrap().parse::<u64>().unwrap() > first);
    assert_eq!(order(1, "release", json!({"session": other})).await.0, 200);
    // A session that nobody names ends, and its lock passes on.
    let silent = open(2, 1_000).await;
    assert_eq!(order(2, "acquire", json!({"session": silent, "name": "backup"})).await.0, 200);
    let (code, taken) = order(0, "acquire", json!({"session": mine, "name": "backup", "wait_ms": 20_000})).await;
    assert_eq!(code, 200, "{taken}");
    assert_eq!(order(2, "keep-alive", json!({"session": silent})).await.0, 404);
    for (what, body) in [
        ("open", json!({"ttl_ms": 5})),
        ("acquire", json!({"session": mine, "name": ""})),
        ("acquire", json!({"session": mine, "name": "x", "wait_ms": 60_000})),
        ("release", json!({})),
    ] {
        assert_eq!(order(0, what, body.clone()).await.0, 400, "{what} {body}");
    }
}
