//! `/v1/events`: all members' announcements from any member, resumed, with gaps told.

use member::Safety;
use serde_json::{Value, json};
use testkit::Live;
use testkit::http::Http;

use super::plan;

#[tokio::test]
async fn one_member_streams_what_all_announce_and_a_client_that_comes_back_misses_nothing() {
    let plan = plan(3, Safety::Classic);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    let (leader, _) = live.agreement(&[1, 2, 3]).await;
    assert_eq!(leader, 3);
    let mut stream = Http::events(port, "").await;
    // The standing of every member comes first.
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 3 {
        let (_, standing) = stream.event_that(|event| event["what"] == "became").await;
        assert_eq!(standing["schema"], "conclave.event/1");
        seen.insert(standing["id"].as_u64().unwrap());
    }
    live.kill(3).await;
    // Members 1 and 2 elect without waiting for the loss to be told: either may come first.
    let is_loss = |event: &Value| event["what"] == "lost" && event["id"] == 3;
    let is_successor = |event: &Value| event["what"] == "became" && event["leader"] == 2;
    let (id, first) = stream.event_that(|event| is_loss(event) || is_successor(event)).await;
    let id = id.expect("live events have ids");
    let is_other = |event: &Value| if is_loss(&first) { is_successor(event) } else { is_loss(event) };
    let second = stream.event_that(is_other).await.0.expect("live events have ids");
    drop(stream);
    // It comes back as if it had seen nothing behind the first of them.
    let mut again = Http::events(port, &format!("Last-Event-ID: {id}\r\n")).await;
    let (next, name, _) = again.event().await;
    let number = |id: &str| id.split_once('-').unwrap().1.parse::<u64>().unwrap();
    assert_eq!((name, number(&next.unwrap())), (None, number(&id) + 1), "the next one, and no gap");
    // That event may be the second one itself.
    if number(&second) > number(&id) + 1 {
        let found = again.event_that(is_other).await;
        assert_eq!(found.0.as_deref(), Some(second.as_str()));
    }
}

#[tokio::test]
async fn an_id_of_another_process_begins_with_a_gap_and_the_present_standings() {
    let plan = plan(3, Safety::Classic);
    let (port, other) = (plan.http_ports[0], plan.http_ports[1]);
    let mut live = Live::start(&plan);
    live.agreement(&[1, 2, 3]).await;
    let mut stream = Http::events(port, "").await;
    stream.event_that(|event| event["what"] == "became" && event["id"] == 3).await;
    for (port, id) in [(port, "00000000-7"), (port, "nonsense"), (other, "12345678-3")] {
        let mut again = Http::events(port, &format!("Last-Event-ID: {id}\r\n")).await;
        let (_, name, data) = again.event().await;
        assert_eq!(
            (name.as_deref(), &data["schema"], &data["missed"]),
            (Some("gap"), &json!("conclave.gap/1"), &json!(null))
        );
        again.event_that(|event| event["what"] == "became" && event["id"] == 3).await;
    }
}
