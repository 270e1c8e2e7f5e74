//! The dashboard in a headless Chromium, against live members. `./scripts/test-browser` runs these tests and nothing else does:
//! the test stage leaves this binary out.

mod page;
mod pictures;
mod split;

use client::Session;
use serde_json::{Value, json};
use testkit::{PATIENCE, browser};

use self::page::Page;

const ALL: &[u32] = &[1, 2, 3, 4, 5];

/// One member serves the page all the time, and it is never loaded again.
#[tokio::test]
async fn the_page_follows_a_live_cluster_without_being_loaded_again() {
    if !browser::works() {
        return;
    }
    let mut page = Page::of_quorum().await;
    let (leader, _) = page.live.agreement(ALL).await;
    let server = if leader == 1 { 2 } else { 1 };
    page.open(server).await;
    page.shows_leader(leader, "All 5 members agree.").await;
    assert_eq!(page.count("[data-node]"), 5, "members are drawn");
    assert_eq!(page.count("#member-table tbody tr"), 5, "members are listed");
    the_table_equals_the_status(&page).await;
    orders_need_the_token(&page).await;

    page.live.kill(leader).await;
    let (next, _) = page.live.agreement(&others(&[leader])).await;
    page.shows_leader(next, &format!("Member {leader} does not answer.")).await;
    page.until("the ring follows", &format!("document.querySelector('[data-node=\"{leader}\"].down')")).await;
    page.until("the timeline follows", &format!("document.querySelector('[data-reign^=\"{next}/\"]')")).await;
    page.until("the election is drawn", &format!("document.querySelector('[data-mark=\"{next}-wins\"]')")).await;
    let sent = "document.querySelector('#messages [data-kind=\"coordinator\"]')";
    page.until("its messages are shown beside theory", sent).await;
    page.until("messages moved", "window.flights > 0").await;

    page.live.cluster.start(leader).unwrap();
    page.live.agreement_on(next, ALL).await;
    page.shows_leader(next, "All 5 members agree.").await;
    page.until("it is up again", &format!("!document.querySelector('[data-node=\"{leader}\"].down')")).await;
    the_table_equals_the_status(&page).await;
    locks_are_shown(&page).await;
    the_page_connects_again(&mut page, server).await;

    let others = others(&[server]);
    page.live.kill_all(&others[..3]).await;
    page.until("no quorum is said", "document.getElementById('banner').dataset.verdict == 'NO QUORUM'").await;
    page.was_never_loaded_again();
    page.asked_nobody_else();
    page.logged_no_error();
}

/// No request of the page is ever answered, and yet it shows the members: they came with it.
#[tokio::test]
async fn the_first_picture_waits_for_no_answer() {
    if !browser::works() {
        return;
    }
    let mut page = Page::of_quorum().await;
    let (leader, _) = page.live.agreement(ALL).await;
    let silent = json!({ "source": "window.fetch = () => new Promise(() => {});" });
    page.browser.devtools("Page.addScriptToEvaluateOnNewDocument", &silent);
    page.browser.go(&format!("{}/", page.address(leader)));
    page.shows_leader(leader, "All 5 members agree.").await;
    assert_eq!((page.count("[data-node]"), page.count("#member-table tbody tr")), (5, 5));
    let state = page.browser.script("return document.getElementById('link').dataset.state");
    assert_eq!(state, json!("connecting"), "nothing was answered");
    page.logged_no_error();
}

fn others(without: &[u32]) -> Vec<u32> {
    ALL.iter().copied().filter(|id| !without.contains(id)).collect()
}

async fn the_page_connects_again(page: &mut Page, server: u32) {
    page.live.kill(server).await;
    page.until("the lost connection is said", "document.getElementById('lost').innerText.includes('retrying')").await;
    page.live.cluster.start(server).unwrap();
    page.until("it is connected again", "document.getElementById('link').dataset.state == 'live'").await;
    let (now, _) = page.live.agreement(ALL).await;
    page.shows_leader(now, "All 5 members agree.").await;
    assert_eq!(page.browser.script("return document.getElementById('lost').hidden"), json!(true));
}

/// What the page lists, beside what the member tells at the same time. Counters go on, so other fields are compared.
async fn the_table_equals_the_status(page: &Page) {
    let compare = "
        const request = new XMLHttpRequest();
        request.open('GET', '/v1/status', false);
        request.send();
        const text = (value) => (value === null || value === undefined ? '–' : String(value));
        return JSON.parse(request.responseText).members.every((member) =>
            ['id', 'role', 'leader', 'epoch', 'incarnation', 'priority', 'address'].every((field) => {
                const cell = document.querySelector(`tr[data-member=\"${member.id}\"] td[data-field=\"${field}\"]`);
                return cell && cell.innerText.replace(' ●', '') === text(member[field]);
            }));";
    page.browser.until("the table equals /v1/status", compare).await;
}

async fn orders_need_the_token(page: &Page) {
    assert_eq!(page.count("[data-order]"), page.count("[data-order]:disabled"), "no order without the token");
    page.give_token();
    page.until("what needs no choice is allowed", "!document.querySelector('[data-order=heal]').disabled").await;
    assert_eq!(page.browser.script("return document.querySelector('[data-order=kill]').disabled"), json!(true));
    page.browser.click("#sides input[value=\"2\"]");
    let line = "document.querySelector('[data-order=cut] + code').innerText == 'ctl chaos cut 2 1,3,4,5'";
    page.until("the command line of an order is shown", line).await;
    page.browser.click("#sides input[value=\"2\"]");
}

async fn locks_are_shown(page: &Page) {
    let ttl = std::time::Duration::from_secs(5);
    let open = || Session::open_within(page.live.cluster.endpoints(), page.live.cluster.settings(), ttl, PATIENCE);
    let (holder, waiter) = (open().await.unwrap(), open().await.unwrap());
    let guard = holder.lock("backup").await.unwrap();
    let token = guard.token().to_string();
    let held = format!("document.querySelector('[data-lock=backup]')?.innerText.includes('{token}')");
    page.until("the lock and its token", &held).await;
    let waiting = tokio::spawn(async move { waiter.lock("backup").await.map(|guard| guard.token()) });
    page.until("the waiter", "document.querySelector('[data-lock=backup] [data-waiter]')").await;
    page.browser.click("#locks-card .head button");
    page.until("the same as a table", &format!("document.getElementById('locks-twin').innerText.includes('{token}')"))
        .await;
    guard.release().await.unwrap();
    let next: Value = waiting.await.unwrap().unwrap().0.into();
    assert!(next.as_u64() > token.parse().ok(), "the next token is larger");
}
