//! A network that is cut by a button of the page: under classic safety both sides have a leader.

use client::Safety;
use testkit::browser;

use super::ALL;
use super::page::Page;

#[tokio::test]
async fn a_cut_by_a_button_of_the_page_shows_two_leaders_until_it_is_healed() {
    if !browser::works() {
        return;
    }
    let mut page = Page::of(Safety::Classic).await;
    page.live.agreement_on(5, ALL).await;
    page.open(1).await;
    page.shows_leader(5, "All 5 members agree.").await;
    page.give_token();
    page.browser.click("#sides input[value=\"5\"]");
    page.until("it may be cut off", "!document.querySelector('[data-order=cut]').disabled").await;
    page.browser.click("[data-order=cut]");
    page.until("the split is said", "document.getElementById('banner').dataset.verdict == 'SPLIT'").await;
    page.until("who names whom", "document.getElementById('verdict').innerText.includes('member 5 names 5')").await;
    page.until("both leaders are drawn", "document.querySelectorAll('#topology .leader').length == 2").await;
    page.until("the cut links are drawn", "document.querySelectorAll('#topology .cut').length == 4").await;
    page.until("two leaders at once stand out", "document.querySelector('[data-overlap=\"4-5\"]')").await;
    page.browser.click("[data-order=heal]");
    page.until("one leader again", "document.getElementById('banner').dataset.verdict == 'AGREED'").await;
    page.until("no link is cut", "document.querySelectorAll('#topology .cut').length == 0").await;
    page.was_never_loaded_again();
    page.asked_nobody_else();
    page.logged_no_error();
}
