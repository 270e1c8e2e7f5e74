//! The files of the dashboard, the description of the routes, and the commands of docs/http.md.

use member::Safety;
use testkit::Live;
use testkit::http::{ask, get};

use super::plan;

#[tokio::test]
async fn the_page_and_the_description_are_served_to_all() {
    let plan = plan(1, Safety::Classic);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    live.agreement(&[1]).await;
    let page = get(port, "/").await;
    assert_eq!((page.code, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.body.contains("Conclave"));
    assert_eq!(ask(port, "HEAD", "/", "", "").await.code, 200);
    let script = get(port, "/assets/app.js").await;
    let head = ask(port, "HEAD", "/assets/app.js", "", "").await;
    assert_eq!((head.code, head.header("content-length")), (200, script.header("content-length")));
    let description = get(port, "/v1/openapi.json").await.json();
    assert_eq!(description["openapi"], "3.1.0");
    for (path, methods) in description["paths"].as_object().unwrap() {
        assert_ne!(ask(port, "OPTIONS", path, "", "").await.code, 404, "{path}");
        for method in methods.as_object().unwrap().keys() {
            if path == "/v1/events" {
                continue;
            }
            let code = ask(port, &method.to_ascii_uppercase(), path, "", "").await.code;
            assert!(!matches!(code, 404 | 405), "{method} {path}: {code}");
        }
    }
}

/// What the page carries for its first picture.
fn carried(page: &str) -> &str {
    let (_, from) = page.split_once("<script type=\"application/json\" id=\"first\">").expect("the element");
    from.split_once("</script>").expect("its end").0
}

#[tokio::test]
async fn the_page_carries_the_state_for_those_who_may_read_it() {
    let plan = plan(3, Safety::Quorum);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    let (leader, _) = live.agreement(&[1, 2, 3]).await;
    let page = super::until(port, "/", |page| carried(&page.body).contains("AGREED")).await;
    let state: serde_json::Value = serde_json::from_str(carried(&page.body)).expect("JSON");
    assert_eq!((&state["schema"], &state["leader"]), (&"conclave.status/1".into(), &leader.into()));
    assert_eq!(state["members"].as_array().map(Vec::len), Some(3));
    // A proxy speaks for a client elsewhere, which would have to show the token.
    let elsewhere = ask(port, "GET", "/", "Host: localhost\r\nX-Forwarded-For: 10.0.0.1\r\n", "").await;
    assert_eq!((elsewhere.code, carried(&elsewhere.body)), (200, ""));
    let wrong = ask(port, "GET", "/", "Authorization: Bearer wrong\r\n", "").await;
    assert_eq!((wrong.code, carried(&wrong.body)), (200, ""));
    assert_eq!(ask(port, "GET", "/", "Host: evil.example\r\n", "").await.code, 421);
}

#[tokio::test]
async fn the_commands_of_the_page_can_be_typed_from_top_to_bottom() {
    let page = std::fs::read_to_string(testkit::root().join("docs/http.md")).expect("the page");
    let commands: Vec<&str> = page.lines().filter(|line| line.starts_with("curl ")).collect();
    assert!(commands.len() >= 7, "{commands:?}");
    let plan = plan(3, Safety::Classic);
    let port = plan.http_ports[0];
    let mut live = Live::start(&plan);
    live.agreement(&[1, 2, 3]).await;
    live.connected(&[1, 2, 3]).await;
    if tokio::process::Command::new("curl").arg("--version").output().await.is_err() {
        println!("SKIPPED: there is no curl");
        return;
    }
    for command in commands {
        let directory = live.scratch.path().display().to_string();
        let typed = command.replace("8401", &port.to_string()).replace(".conclave", &directory);
        let output = tokio::process::Command::new("sh").args(["-c", &typed]).output().await.unwrap();
        let text = testkit::stdout(&output);
        assert!(output.status.success() && !text.is_empty(), "{command}: {output:?}");
        assert!(!text.contains("\"status\":"), "{command}: a problem: {text}");
    }
}
