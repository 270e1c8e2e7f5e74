// Locks: who holds, who waits, in the order of service. Locks have no events, so the leader is asked once a second.

import { get } from "./net.js";
import { byId, h, table } from "./page.js";
import { span } from "./words.js";

const EVERY_MS = 1000;
const SHOWN = 30;
const short = (session) => session.slice(0, 8);

function holder({ session, token, left_ms, ttl_ms }) {
  const left = left_ms === null ? null : h("meter", { min: 0, max: ttl_ms, value: left_ms, title: `${span(left_ms)} left without a word of its holder` });
  return [h("span", { class: "chip holds", "data-holder": session }, short(session)), h("span", { class: "muted" }, `token ${token}`), left];
}

function queue(lock) {
  const mode = lock.slots === null ? lock.mode : `${lock.slots} slots`;
  const waiters = lock.waiters.slice(0, SHOWN).map((session) => h("span", { class: "chip", "data-waiter": session }, short(session)));
  const more = lock.waiters.length > SHOWN ? [`and ${lock.waiters.length - SHOWN} more`] : [];
  const waiting = waiters.length > 0 ? h("div", { class: "queue" }, h("span", { class: "muted" }, "wait:"), ...waiters, ...more) : null;
  return h("div", { class: "lock", "data-lock": lock.name },
    h("div", {}, h("span", { class: "name" }, lock.name), " ", h("span", { class: "muted" }, mode)),
    h("div", { class: "queue" }, h("span", { class: "muted" }, "held by"), lock.holders.length > 0 ? lock.holders.flatMap(holder) : "nobody"),
    waiting);
}

function show(words, locks) {
  const shown = locks.slice(0, SHOWN);
  const more = locks.length > SHOWN ? h("p", { class: "note" }, `${locks.length - SHOWN} more locks are not shown here.`) : "";
  byId("locks").replaceChildren(...(words ? [h("p", { class: "empty" }, words)] : shown.map(queue)), more);
  const rows = shown.flatMap((lock) => (lock.holders.length > 0 ? lock.holders : [null]).map((held, at) => [
    at === 0 ? lock.name : "", lock.mode, held ? short(held.session) : null, held?.token, held ? span(held.held_ms) : null, held ? span(held.left_ms) : null,
    at === 0 ? lock.waiters.map(short).join(" ") || null : "",
  ]));
  byId("locks-twin").replaceChildren(table([["Lock"], ["Mode"], ["Holder"], ["Token", true], ["Held", true], ["Left", true], ["Waiters"]], rows));
}

async function ask(status) {
  if (!status) return;
  if (status.safety === "classic") return show("This cluster grants no locks: they need safety = \"quorum\".", []);
  if (status.leader === null) return show("No leader answers for the locks.", []);
  const { ok, body } = await get("/v1/locks");
  if (!ok) return show(body?.detail ?? "The leader does not list its locks.", []);
  show(body.locks.length > 0 ? null : "No lock is held.", body.locks);
}

export async function followLocks(latest, live) {
  for (;;) {
    if (!document.hidden && live()) await ask(latest()).catch(() => {});
    await new Promise((done) => setTimeout(done, EVERY_MS));
  }
}
