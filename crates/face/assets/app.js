// The page: draws the state that came with it, follows the events, and asks again after each of them.

import { lastElection, messagesOf, noteElection, noteMark, showMessageCounts, startMessageCounts } from "./election.js";
import { followLocks } from "./locks.js";
import { logEvent, startLog } from "./log.js";
import { showMembers } from "./members.js";
import { follow, get, takeTokenFromAddress, token } from "./net.js";
import { showSides, startOrders } from "./orders.js";
import { byId, h, twin } from "./page.js";
import { showSpaceTime, startSpaceTime } from "./spacetime.js";
import { leadingSince, noteHistory, noteStanding, now, setClock, showTimeline, startTimeline } from "./timeline.js";
import { noteLink, showMessages, showTopology } from "./topology.js";
import { span, verdict } from "./words.js";

/// Leases and silences change without events.
const REFRESH_MS = 2000;
const AFTER_EVENT_MS = 60;
const THEMES = ["auto", "light", "dark"];

let status = null;
let link = "connecting";
let asking = false;
let again = false;
const latest = () => status;

function showBanner() {
  const banner = byId("banner");
  banner.dataset.verdict = status.verdict;
  const words = verdict(status);
  if (byId("verdict").dataset.words !== `${status.verdict} ${words}`) {
    byId("verdict").dataset.words = `${status.verdict} ${words}`;
    byId("verdict").replaceChildren(h("span", { class: "tag" }, status.verdict), words);
    document.title = `${status.leader === null ? status.verdict : `${status.leader} leads`} · ${status.cluster} · Conclave`;
  }
  showDetail();
  const kind = [status.cluster, status.algorithm, status.topology, status.safety].filter(Boolean);
  byId("cluster").textContent = kind.join(" · ");
}

function showDetail() {
  const since = status.leader === null ? null : leadingSince(status);
  byId("detail").textContent = since === null ? `Asked at ${location.host}.` : `It has led for ${span(Math.max(0, now() - since))}. Asked at ${location.host}.`;
}

function show() {
  showBanner();
  showMembers(status);
  showTopology(status);
  showTimeline(status);
  showMessageCounts(status);
  showSpaceTime(status);
  showSides(status);
}

/// Asks all members, by way of the one that serves this page. One question at a time.
async function ask() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    do {
      again = false;
      const answer = await get("/v1/status").catch(() => null);
      if (answer?.ok) {
        status = answer.body;
        setClock(answer.at);
        show();
      }
    } while (again);
  } finally {
    // Also after an answer that cannot be shown: the next one is asked for.
    asking = false;
  }
}

/// The page carries the state of the moment at which it was asked for, where its reader needs no token: nothing is waited for.
function showFirst() {
  const carried = byId("first").textContent;
  if (!carried || status) return;
  status = JSON.parse(carried);
  show();
}

let soon = null;
function askSoon() {
  soon ??= setTimeout(() => {
    soon = null;
    ask();
  }, AFTER_EVENT_MS);
}

async function askHistory() {
  const answer = await get("/v1/history").catch(() => null);
  if (!answer?.ok) return;
  noteHistory(answer.body);
  if (status) show();
}

function setLink(state) {
  const was = link;
  link = state;
  const words = { connecting: "connecting", live: "live", lost: "connection lost", token: "token needed" };
  byId("link").dataset.state = state;
  byId("link").textContent = words[state];
  const trouble = state === "lost" || state === "token";
  byId("lost").hidden = !trouble;
  byId("lost").textContent = state === "token" ? "This member asks for its token: type it in, above." : "Connection lost, retrying. What follows is the last known state.";
  byId("banner").classList.toggle("stale", trouble);
  if (state === "live" && was !== "live") {
    ask();
    askHistory();
  }
}

function take(event) {
  if (event.instance !== 0) return;
  logEvent(event);
  noteLink(event);
  noteStanding(event);
  if (event.what === "elected") {
    noteElection(event);
    showMessages(event.id, messagesOf(status?.topology, event), lastElection().kinds);
  } else if (event.what === "lost" || (event.what === "became" && !["started", "present"].includes(event.cause))) {
    noteMark(event);
  }
  askSoon();
}

function startTheme() {
  let at = Math.max(0, THEMES.indexOf(localStorage.getItem("theme")));
  const apply = () => {
    if (THEMES[at] === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = THEMES[at];
    byId("theme").textContent = `Theme: ${THEMES[at]}`;
  };
  byId("theme").addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    localStorage.setItem("theme", THEMES[at]);
    apply();
  });
  apply();
}

function startToken() {
  byId("token").value = token.get();
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(byId("token").value.trim());
    dispatchEvent(new Event("token"));
    ask();
  });
}

function start() {
  takeTokenFromAddress();
  ["topology", "timeline", "spacetime", "messages", "locks"].forEach(twin);
  startTheme();
  startToken();
  startLog();
  startOrders();
  startTimeline(latest);
  startMessageCounts(latest);
  startSpaceTime(latest);
  showFirst();
  ask();
  follow({ event: take, gap: () => ask(), state: setLink });
  followLocks(latest, () => link === "live");
  setInterval(() => document.hidden || link !== "live" || ask(), REFRESH_MS);
  setInterval(() => status && showDetail(), 1000);
}

start();
