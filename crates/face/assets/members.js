// The state of each member, a row each. A cell that has changed is marked for a while.

import { byId, h } from "./page.js";
import { span } from "./words.js";

const MARKED_MS = 4000;

// [field, heading, is it a number?, is a change worth a mark?, the value as text]
const FIELDS = [
  ["id", "Id", true, false],
  ["role", "Role", false, true],
  ["leader", "Follows", true, true],
  ["epoch", "Epoch", true, true],
  ["faults", "Faults", false, true, faults],
  ["lease_ms", "Lease left", true, false, span],
  ["last_heard_ms", "Heard", true, false, (ms) => (ms === null ? "–" : `${span(ms)} ago`)],
  ["sent", "Sent", true, false],
  ["received", "Received", true, false],
  ["incarnation", "Starts", true, true],
  ["priority", "Priority", true, true],
  ["address", "Address", false, true],
];

/// Faults of one kind with several members become one: "cut to and from 1, 2".
function faults(all) {
  const kinds = new Map();
  for (const fault of all ?? []) {
    const [, kind, peer] = /^(.*?) (\d+)$/.exec(fault) ?? [null, fault, null];
    kinds.set(kind, [...(kinds.get(kind) ?? []), ...(peer ? [peer] : [])]);
  }
  return kinds.size > 0 ? [...kinds].map(([kind, peers]) => `${kind} ${peers.join(", ")}`.trim()).join("; ") : "–";
}

const rows = new Map();
let body = null;

function words(field, value) {
  const [, , , , show] = field;
  if (show) return show(value);
  return value === null || value === undefined ? "–" : String(value);
}

function row(key) {
  const cells = new Map();
  const line = h("tr", { "data-member": key });
  for (const [name, , number] of FIELDS) {
    const cell = h("td", { class: number ? "num" : name === "faults" ? "wrap" : null, "data-field": name });
    cells.set(name, { cell, shown: null });
    line.append(cell);
  }
  return { line, cells };
}

function set(entry, field, member) {
  const [name, , , marks] = field;
  const value = words(field, member[name]);
  if (entry.shown === value) return;
  if (name === "faults") entry.cell.classList.toggle("wide", value !== "–");
  const first = entry.shown === null;
  const was = entry.shown;
  entry.shown = value;
  entry.cell.replaceChildren(name === "role" ? h("span", { class: "role", "data-role": value }, value) : value);
  if (!marks || first) return;
  entry.cell.classList.add("changed");
  entry.cell.title = `was ${was}`;
  clearTimeout(entry.timer);
  entry.timer = setTimeout(() => entry.cell.classList.remove("changed"), MARKED_MS);
}

export function showMembers(status) {
  if (!body) {
    const heads = FIELDS.map(([, heading, number]) => h("th", { scope: "col", class: number ? "num" : null }, heading));
    body = h("tbody");
    byId("members").replaceChildren(h("table", { id: "member-table" }, h("thead", {}, h("tr", {}, heads)), body));
  }
  const present = new Set();
  for (const member of status.members) {
    const key = String(member.id ?? member.address);
    present.add(key);
    if (!rows.has(key)) rows.set(key, row(key));
    const { line, cells } = rows.get(key);
    if (line.parentNode !== body) body.append(line);
    for (const field of FIELDS) set(cells.get(field[0]), field, member);
  }
  for (const [key, { line }] of rows) {
    if (present.has(key)) continue;
    line.remove();
    rows.delete(key);
  }
}
