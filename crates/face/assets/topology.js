// The members on a circle, the links between them, and the messages of an election as they move.

import { byId, colour, h, legend, picture, s, still, table, text } from "./page.js";

const [SIZE, CENTRE, RADIUS] = [380, 184, 140];
const BODY = 27;
const LIT_MS = 2500;
const FLIGHT_MS = 900;
export const CROWN = "v-9l5 5 4 -8 4 8 5 -5v9z";

let places = new Map();
let kinds = [];
const linked = new Map();

const key = (a, b) => (a < b ? `${a}-${b}` : `${b}-${a}`);

/// Links as their ends announced them; graphs have no other source.
export function noteLink(event) {
  if (event.what === "link" && event.id !== null) linked.set(key(event.id, event.peer), event.up);
}

function links(status) {
  const ids = status.members.map((member) => member.id).filter((id) => id !== null);
  if (status.topology === "ring") {
    return ids.length < 2 ? [] : ids.map((id, at) => [id, ids[(at + 1) % ids.length]]);
  }
  const pairs = ids.flatMap((a, at) => ids.slice(at + 1).map((b) => [a, b]));
  return status.topology === "graph" ? pairs.filter(([a, b]) => linked.has(key(a, b))) : pairs;
}

/// Pairs with an injected cut, out of the words of `ctl chaos`.
function cuts(status) {
  const found = new Map();
  for (const member of status.members) {
    for (const fault of member.faults ?? []) {
      const cut = /^cut (to|from|to and from) (\d+)/.exec(fault);
      if (cut) found.set(key(member.id, Number(cut[2])), [member.id, Number(cut[2])]);
    }
  }
  return found;
}

function place(status) {
  const ids = status.members.map((member) => member.id);
  const at = (nth) => (2 * Math.PI * nth) / ids.length - Math.PI / 2;
  const radius = ids.length === 1 ? 0 : RADIUS;
  return new Map(ids.map((id, nth) => [id, { x: CENTRE + radius * Math.cos(at(nth)), y: CENTRE + radius * Math.sin(at(nth)) }]));
}

function node(member) {
  const { x, y } = places.get(member.id);
  const small = places.size > 12 ? 0.62 : 1;
  const group = s("g", { class: member.role, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${small})`, "data-node": member.id });
  group.append(s("circle", { class: "body", r: BODY }));
  if (member.role === "leader") group.append(s("path", { class: "crown", d: `M-9 ${-BODY - 5}${CROWN}` }));
  if (member.role === "down") group.append(s("path", { class: "cross", d: "M-19 -19 19 19M19 -19-19 19" }));
  group.append(text(0, 7, String(member.id ?? "?"), "id"));
  const follows = member.role === "follower" && member.leader !== null ? `follows ${member.leader}` : member.role;
  group.append(text(0, BODY + 15, follows, "dim under"));
  return group;
}

export function showTopology(status) {
  places = place(status);
  const cut = cuts(status);
  const line = ([a, b], kind) => {
    const [from, to] = [places.get(a), places.get(b)];
    if (!from || !to) return null;
    return s("line", { class: kind, x1: from.x, y1: from.y, x2: to.x, y2: to.y, "data-link": key(a, b) });
  };
  const ties = links(status).filter(([a, b]) => !cut.has(key(a, b))).map((pair) => line(pair, "tie"));
  const broken = [...cut.values()].map((pair) => line(pair, "tie cut"));
  const leader = status.leader === null ? "nobody leads" : `member ${status.leader} leads`;
  const title = `${status.members.length} members, ${leader}${cut.size > 0 ? `, ${cut.size} links cut` : ""}`;
  const flights = byId("flights") ?? s("g", { id: "flights" });
  const drawing = picture(SIZE, SIZE, title, ...ties, ...broken, flights, ...status.members.map(node));
  const note = "Members do not tell the links of a graph; those that were announced since this page was opened are drawn.";
  byId("topology").replaceChildren(drawing, kinds.length > 0 ? legend(kinds) : "", status.topology === "graph" ? h("p", { class: "note" }, note) : "");
  const rows = status.members.map((member) => [
    String(member.id ?? member.address), member.role, member.leader === null ? null : String(member.leader),
    [...cut.values()].filter((pair) => pair.includes(member.id)).map(([a, b]) => (a === member.id ? b : a)).join(", ") || null,
  ]);
  byId("topology-twin").replaceChildren(table([["Member", true], ["Role"], ["Follows", true], ["Cut from"]], rows));
}

/// One message of each kind to each receiver, one kind after the other.
export function showMessages(sender, messages, allKinds) {
  kinds = allKinds;
  messages.forEach(({ kind, receivers }, nth) => {
    for (const receiver of receivers) fly(sender, receiver, kinds.indexOf(kind), nth * 250);
  });
}

function fly(sender, receiver, kind, after) {
  const [from, to, layer] = [places.get(sender), places.get(receiver), byId("flights")];
  if (!from || !to || !layer || document.hidden) return;
  if (still()) {
    const tie = document.querySelector(`[data-link="${key(sender, receiver)}"]`);
    tie?.classList.add("lit");
    setTimeout(() => tie?.classList.remove("lit"), LIT_MS);
    return;
  }
  const dot = s("circle", { r: 6, class: `f${colour(kind)}`, "data-flight": `${sender}-${receiver}` });
  layer.append(dot);
  const at = ({ x, y }) => ({ transform: `translate(${x}px, ${y}px)` });
  const moving = dot.animate([at(from), at(to)], { duration: FLIGHT_MS, delay: after, fill: "both", easing: "ease-in-out" });
  moving.finished.then(() => dot.remove(), () => dot.remove());
}
