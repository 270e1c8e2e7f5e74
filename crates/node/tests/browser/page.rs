//! A cluster with the HTTP face, and a browser that shows its dashboard.

use algorithms::catalog;
use client::Safety;
use testkit::browser::Browser;
use testkit::http::with_faces;
use testkit::{Live, Plan};

/// A lease that a busy machine does not miss.
/// A leader whose voters lost their copies of locks waits for max_ttl: no longer than a test has patience.
const PATIENT: &str = "\n[timing]\nlease = \"2s\"\nsuspect_after = \"1s\"\n[locks]\nmax_ttl = \"5s\"\n";

pub(crate) struct Page {
    pub(crate) browser: Browser,
    pub(crate) live: Live,
    ports: Vec<u16>,
}

impl Page {
    pub(crate) async fn of_quorum() -> Self {
        Page::of(Safety::Quorum).await
    }

    pub(crate) async fn of(safety: Safety) -> Self {
        let row = catalog::row(catalog::DEFAULT).unwrap();
        // A member that came back does not take over: tests name the leader.
        let preempt = safety == Safety::Classic;
        let plan = with_faces(Plan { safety, preempt, chaos: true, ..Plan::new(5, row) });
        let mut live = Live::start_with(&plan, PATIENT);
        live.agreement(super::ALL).await;
        live.voting(super::ALL).await;
        Page { browser: Browser::open(1280, 1000), live, ports: plan.http_ports }
    }

    pub(crate) fn address(&self, id: u32) -> String {
        format!("http://127.0.0.1:{}", self.ports[id as usize - 1])
    }

    /// Opens the page of a member, and marks this document: a page that is loaded again has no mark.
    pub(crate) async fn open(&mut self, id: u32) {
        self.browser.go(&format!("{}/", self.address(id)));
        self.browser.script(
            "window.mark = 'the first'; window.flights = 0;
             new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((node) => {
                 if (node.dataset?.flight) window.flights += 1;
             }))).observe(document.body, { childList: true, subtree: true });",
        );
        self.until("the stream is open", "document.getElementById('link').dataset.state == 'live'").await;
    }

    /// The token of every member.
    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.live.scratch.path().join("http.token")).unwrap().trim().to_owned()
    }

    /// Types the token into its field.
    pub(crate) fn give_token(&self) {
        self.browser.keys("#token", &self.token());
        self.browser.click("#token-form button");
    }

    /// Looks repeatedly for an expression that is true.
    pub(crate) async fn until(&self, what: &str, expression: &str) {
        self.browser.until(what, &format!("return Boolean({expression})")).await;
    }

    /// The banner, the picture and the table.
    pub(crate) async fn shows_leader(&self, leader: u32, says: &str) {
        let banner = format!(
            "document.getElementById('verdict').innerText.includes('Member {leader} leads in epoch ') \
             && document.getElementById('verdict').innerText.includes('{says}')"
        );
        self.until("the banner", &banner).await;
        self.until("the picture", &format!("document.querySelector('[data-node=\"{leader}\"].leader')")).await;
        let row = format!("document.querySelector('tr[data-member=\"{leader}\"] [data-role=leader]')");
        self.until("the table", &row).await;
    }

    pub(crate) fn count(&self, selector: &str) -> u64 {
        self.number(&format!("return document.querySelectorAll('{selector}').length"))
    }

    pub(crate) fn number(&self, script: &str) -> u64 {
        self.browser.script(script).as_u64().expect("a number")
    }

    pub(crate) fn was_never_loaded_again(&self) {
        assert_eq!(self.browser.script("return window.mark"), "the first");
    }

    /// By the browser's own record of the network, of everything since it was opened.
    pub(crate) fn asked_nobody_else(&self) {
        let origins: Vec<String> = self.ports.iter().map(|port| format!("http://127.0.0.1:{port}/")).collect();
        let mut asked = 0;
        for entry in self.browser.log("performance") {
            let message: serde_json::Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            if message["message"]["method"] != "Network.requestWillBeSent" {
                continue;
            }
            let url = message["message"]["params"]["request"]["url"].as_str().unwrap().to_owned();
            let inside = url.starts_with("data:") || url.starts_with("chrome:") || url.starts_with("about:");
            assert!(inside || origins.iter().any(|origin| url.starts_with(origin)), "a request left the origin: {url}");
            asked += 1;
        }
        assert!(asked > 10, "the record has {asked} requests only");
    }

    /// Requests that failed while a member did not run, or while nobody led, are the network's; anything else is an error of
    /// the page.
    pub(crate) fn logged_no_error(&self) {
        for entry in self.browser.log("browser") {
            let of_network = entry["source"] == "network";
            assert!(entry["level"] != "SEVERE" || of_network, "{entry}");
        }
    }
}
