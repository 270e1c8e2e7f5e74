// The event log, newest first.

import { byId, h } from "./page.js";
import { clock, event as inWords } from "./words.js";

const KEPT = 300;
const MAJOR = ["became", "lost", "elected", "faults", "ordered", "started", "leaving", "in-force", "forced", "gap"];

export function startLog() {
  const list = byId("log");
  const brief = () => list.classList.toggle("brief", !byId("all-events").checked);
  byId("all-events").addEventListener("change", brief);
  brief();
}

export function logEvent(event) {
  const kind = event.what === "lost" ? "down" : event.role === "leader" ? "leader" : null;
  const line = h("li", { class: MAJOR.includes(event.what) ? null : "minor", "data-what": event.what },
    h("time", {}, clock(event.at_ms)), h("span", { class: "who" }, String(event.id ?? "")), h("span", { class: kind }, inWords(event)));
  const list = byId("log");
  list.prepend(line);
  while (list.children.length > KEPT) list.lastChild.remove();
}
