// What an operator may ask for, each beside the command line that does the same. Needs the token.

import { post, token } from "./net.js";
import { byId, h } from "./page.js";
import { list } from "./words.js";

let chosen = new Set();
let known = "";
let ids = [];
let members = null;
let buttons = [];
let outcome = null;

const rest = () => ids.filter((id) => !chosen.has(id));
const some = () => ids.filter((id) => chosen.has(id));
const one = () => (chosen.size === 1 ? some()[0] : null);
const parted = () => chosen.size > 0 && rest().length > 0;
const comma = (of) => of.join(",");

// [name, label, is it possible now?, the command line, path, body]
const ORDERS = [
  ["cut", "Cut off", parted, () => `ctl chaos cut ${comma(some())} ${comma(rest())}`, "/v1/chaos", () => ({ action: "cut", a: some(), b: rest(), one_way: false })],
  ["cut-one-way", "Mute", parted, () => `ctl chaos cut ${comma(some())} ${comma(rest())} --one-way`, "/v1/chaos", () => ({ action: "cut", a: some(), b: rest(), one_way: true })],
  ["delay", "Delay", parted, () => `ctl chaos delay ${comma(some())} ${comma(rest())} 50ms`, "/v1/chaos", () => ({ action: "delay", a: some(), b: rest(), ms: 50 })],
  ["heal", "Heal", () => true, () => "ctl chaos heal", "/v1/chaos", () => ({ action: "heal" })],
  ["pause", "Pause", () => one() !== null, () => `ctl chaos pause ${one() ?? "ID"}`, "/v1/chaos", () => ({ action: "pause", a: some(), ms: 2000 })],
  ["kill", "Kill", () => one() !== null, () => `ctl chaos kill ${one() ?? "ID"}`, "/v1/chaos", () => ({ action: "kill", a: some() })],
  ["transfer", "Hand over", () => one() !== null, () => `ctl transfer ${one() ?? "ID"}`, "/v1/transfer", () => ({ to: one() })],
  ["step-down", "Step down", () => true, () => "ctl step-down", "/v1/step-down", () => ({})],
  ["elect", "Elect", () => true, () => "ctl elect", "/v1/elect", () => ({})],
];

function refresh() {
  for (const { button, code, possible, line } of buttons) {
    button.disabled = !token.get() || !possible();
    button.title = !token.get() ? "needs the token, above" : possible() ? "" : "choose members first";
    code.textContent = line();
  }
}

async function send(line, path, body) {
  outcome.textContent = `${line} …`;
  outcome.removeAttribute("data-bad");
  try {
    const answer = await post(path, body);
    outcome.toggleAttribute("data-bad", !answer.ok);
    outcome.textContent = `${line}: ${answer.ok ? done(answer.body) : answer.body?.detail ?? `refused (${answer.status})`}`;
  } catch {
    outcome.toggleAttribute("data-bad", true);
    outcome.textContent = `${line}: this member does not answer`;
  }
}

function done(body) {
  if (body.schema !== "conclave.chaos/1") return `member ${body.leader} leads in epoch ${body.epoch}`;
  const failed = body.failed.map(({ id, why }) => `; member ${id} did not: ${why}`).join("");
  return `done at ${list(body.applied)}${failed}`;
}

export function startOrders() {
  members = h("fieldset", { id: "sides" });
  outcome = h("p", { class: "outcome", role: "status", "aria-live": "polite" });
  const rows = ORDERS.map(([name, label, possible, line, path, body]) => {
    const button = h("button", { type: "button", "data-order": name, onclick: () => send(line(), path, body()) }, label);
    const code = h("code");
    buttons.push({ button, code, possible, line });
    return h("div", { class: "order" }, button, code);
  });
  const note = h("p", { class: "note" }, "Faults are refused unless the members' config says chaos = true. Every order is in the members' ledgers: ctl history.");
  byId("orders").replaceChildren(members, h("div", { class: "orders" }, rows), outcome, note);
  addEventListener("token", refresh);
  refresh();
}

/// The members to choose from; built again only when they are others, so that the keyboard's focus stays.
export function showSides(status) {
  ids = status.members.map((member) => member.id).filter((id) => id !== null);
  if (known === list(ids)) return;
  known = list(ids);
  chosen = new Set([...chosen].filter((id) => ids.includes(id)));
  const side = (id) => {
    const box = h("input", { type: "checkbox", value: id, onchange: (event) => {
      if (event.target.checked) chosen.add(id);
      else chosen.delete(id);
      refresh();
    } });
    box.checked = chosen.has(id);
    return h("label", {}, box, `member ${id}`);
  };
  members.replaceChildren(h("legend", {}, "On one side:"), ...ids.map(side));
  refresh();
}
