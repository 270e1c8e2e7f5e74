//! The settings of the reader: dark, without motion, a phone, the keyboard. With `UPDATE_SCREENSHOTS=1` also the pictures of the
//! README.

use std::time::Duration;

use client::Session;
use serde_json::json;
use testkit::{PATIENCE, browser, root};

use super::page::Page;
use super::{ALL, others};

#[tokio::test]
async fn the_page_heeds_dark_mode_reduced_motion_narrow_screens_and_the_keyboard() {
    if !browser::works() {
        return;
    }
    let mut page = Page::of_quorum().await;
    let (leader, _) = page.live.agreement(ALL).await;
    page.open(if leader == 2 { 1 } else { 2 }).await;
    page.shows_leader(leader, "All 5 members agree.").await;
    colours_follow_the_reader_and_the_button(&page);
    no_motion_for_those_who_want_none(&mut page).await;
    the_keyboard_reaches_every_control(&page).await;
    page.resize_to_a_phone().await;
    if std::env::var_os("UPDATE_SCREENSHOTS").is_some() {
        take_screenshots(&mut page).await;
    }
    page.was_never_loaded_again();
    page.asked_nobody_else();
    page.logged_no_error();
}

/// The brightness of the page's background, from 0 to 255.
fn brightness(page: &Page) -> u64 {
    page.number("return Number(/\\d+/.exec(getComputedStyle(document.body).backgroundColor)[0])")
}

fn colours_follow_the_reader_and_the_button(page: &Page) {
    page.browser.prefers(&[("prefers-color-scheme", "light")]);
    assert!(brightness(page) > 200, "light");
    page.browser.prefers(&[("prefers-color-scheme", "dark")]);
    assert!(brightness(page) < 60, "dark");
    let contrast =
        "const ink = getComputedStyle(document.querySelector('svg .id')).fill; return Number(/\\d+/.exec(ink)[0])";
    assert!(page.number(contrast) > 180, "letters in pictures are light on dark");
    page.browser.click("#theme");
    assert!(brightness(page) > 200, "the button says light");
    page.browser.click("#theme");
    page.browser.prefers(&[("prefers-color-scheme", "light")]);
    assert!(brightness(page) < 60, "the button says dark");
    page.browser.click("#theme");
    assert!(brightness(page) > 200, "as the reader's system again");
}

async fn no_motion_for_those_who_want_none(page: &mut Page) {
    page.browser.prefers(&[("prefers-reduced-motion", "reduce")]);
    page.browser.script(
        "window.flights = 0; window.lit = 0;
         new MutationObserver((changes) => changes.forEach((change) => {
             if (change.target.classList.contains('lit')) window.lit += 1;
         })).observe(document.getElementById('topology'), { subtree: true, attributes: true, attributeFilter: ['class'] });",
    );
    let (leader, _) = page.live.agreement(ALL).await;
    page.live.kill(leader).await;
    let (next, _) = page.live.agreement(&others(&[leader])).await;
    page.shows_leader(next, "does not answer").await;
    page.until("links are lit instead", "window.lit > 0").await;
    assert_eq!(page.number("return window.flights"), 0, "nothing moves");
    page.live.cluster.start(leader).unwrap();
    page.live.agreement_on(next, ALL).await;
    page.shows_leader(next, "All 5 members agree.").await;
}

async fn the_keyboard_reaches_every_control(page: &Page) {
    for name in ["topology", "timeline", "spacetime", "messages", "locks"] {
        let button = format!("#{name}-card .head button");
        page.browser.keys(&button, " ");
        page.until("the table is shown", &format!("!document.getElementById('{name}-twin').hidden")).await;
        page.until("it has rows", &format!("document.querySelector('#{name}-twin table')")).await;
        page.browser.keys(&button, " ");
        page.until("the picture is shown", &format!("document.getElementById('{name}-twin').hidden")).await;
    }
    // Tab goes through the controls in the order of the page.
    page.browser.script("document.getElementById('token').focus()");
    let mut met = Vec::new();
    for _ in 0..6 {
        page.browser.keys(":focus", "\u{e004}");
        page.until("the focus is visible", "getComputedStyle(document.activeElement).outlineStyle != 'none'").await;
        met.push(page.browser.script("return document.activeElement.id || document.activeElement.textContent"));
    }
    assert_eq!(met[..4], [json!("Use"), json!("theme"), json!("Table"), json!("members")], "{met:?}");
}

impl Page {
    async fn resize_to_a_phone(&self) {
        self.browser.resize(360, 780);
        self.until("nothing is wider than the screen", "document.documentElement.scrollWidth <= 360").await;
        self.browser.resize(1280, 1000);
        self.until("it is wide again", "document.getElementById('timeline-card').clientWidth > 1000").await;
    }
}

async fn take_screenshots(page: &mut Page) {
    page.give_token();
    let ttl = Duration::from_secs(5);
    let open = || Session::open_within(page.live.cluster.endpoints(), page.live.cluster.settings(), ttl, PATIENCE);
    let (holder, waiter) = (open().await.unwrap(), open().await.unwrap());
    let _guard = holder.lock("backup").await.unwrap();
    let waiting = tokio::spawn(async move { waiter.lock("backup").await.map(|_| ()) });
    let (leader, _) = page.live.agreement(ALL).await;
    page.live.kill(leader).await;
    let (next, _) = page.live.agreement(&others(&[leader])).await;
    page.shows_leader(next, "does not answer").await;
    page.until("the waiter", "document.querySelector('[data-waiter]')").await;
    // A reign of some length is easier to see.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let folder = root().join("docs/screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    page.browser.resize(1280, 1000);
    for scheme in ["light", "dark"] {
        page.browser.prefers(&[("prefers-color-scheme", scheme), ("prefers-reduced-motion", "reduce")]);
        page.browser.screenshot(&folder.join(format!("dashboard-{scheme}.png")), (1280, 1420), 0.66);
    }
    page.browser.prefers(&[("prefers-color-scheme", "light")]);
    page.browser.resize(360, 780);
    page.until("it is narrow", "document.getElementById('timeline-card').clientWidth < 360").await;
    page.browser.screenshot(&folder.join("dashboard-phone.png"), (360, 1100), 1.0);
    waiting.abort();
}
