//! Every route that there is, asked by those who may not: the list comes from the description that the member serves.

use member::Safety;
use testkit::Live;
use testkit::http::{ask, get, post};

use super::{plan, token, until};

/// For load balancers and service managers, under any name.
const PROBES: [&str; 3] = ["/leader", "/livez", "/readyz"];
const OPEN: [&str; 2] = ["/metrics", "/v1/openapi.json"];
const KIND: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn no_route_forgets_the_host_the_origin_or_the_token() {
    let plan = plan(1, Safety::Quorum);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    let (_, epoch) = live.agreement(&[1]).await;
    let bearer = format!("Authorization: Bearer {}\r\n", token(&live));
    let description = get(port, "/v1/openapi.json").await.json();
    let (mut orders, mut reads) = (0, 0);
    for (path, methods) in description["paths"].as_object().unwrap() {
        let refused = async |method: &str, headers: &str, code: u16| {
            let body = if method == "POST" { "{}" } else { "" };
            let answer = ask(port, method, path, headers, body).await;
            assert_eq!(answer.code, code, "{method} {path} {headers:?}: {}", answer.body);
        };
        if methods.as_object().unwrap().contains_key("post") {
            orders += 1;
            refused("POST", KIND, 401).await;
            refused("POST", &format!("{KIND}Authorization: Bearer {}\r\n", "0".repeat(64)), 401).await;
            refused("POST", &format!("{KIND}{bearer}Origin: http://evil.example\r\n"), 403).await;
            refused("POST", &format!("{KIND}{bearer}Sec-Fetch-Site: cross-site\r\n"), 403).await;
            refused("POST", &format!("{KIND}{bearer}Host: evil.example\r\n"), 421).await;
            refused("POST", &bearer, 415).await;
        } else if !PROBES.contains(&path.as_str()) {
            refused("GET", "Host: evil.example\r\n", 421).await;
            if !OPEN.contains(&path.as_str()) {
                reads += 1;
                refused("GET", "X-Forwarded-For: 10.0.0.1\r\n", 401).await;
                refused("GET", "Authorization: Bearer wrong\r\n", 401).await;
            }
        }
    }
    assert!(orders >= 10 && reads >= 7, "{orders} orders, {reads} reads");
    // None of them has done anything.
    let history = get(port, "/v1/history").await.json();
    assert_eq!(history["orders"].as_array().map(Vec::len), Some(0), "{history}");
    assert_eq!(live.agreement(&[1]).await.1, epoch);
}

/// The probes do not ask the event loop by way of anything that it could have answered before.
#[tokio::test]
async fn a_member_whose_event_loop_hangs_is_not_alive() {
    let plan = plan(3, Safety::Quorum);
    let ports = plan.http_ports.clone();
    let mut live = Live::start(&plan);
    let (leader, _) = live.agreement(&[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    let port = ports[leader as usize - 1];
    let other = ports[leader as usize % 3];
    until(port, "/leader", |answer| answer.code == 200).await;
    let pause = format!("{{\"action\":\"pause\",\"a\":[{leader}],\"ms\":9000}}");
    assert_eq!(post(other, "/v1/chaos", &token(&live), &pause).await.code, 200);
    // Its lease runs out, and nobody renews it: the reader compares the clock.
    until(port, "/leader", |answer| answer.code == 503).await;
    let (alive, ready) = tokio::join!(get(port, "/livez"), get(port, "/readyz"));
    assert_eq!((alive.code, alive.body.as_str()), (503, "the event loop does not answer\n"));
    assert_eq!(ready.code, 503, "{}", ready.body);
    let metrics = until(port, "/metrics", |_| true).await.body;
    assert!(super::metrics::value(&metrics, "conclave_is_leader") == 0.0, "{metrics}");
    until(port, "/livez", |answer| answer.code == 200).await;
}
