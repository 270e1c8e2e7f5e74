// The last election as a space-time diagram: members are lines, time runs to the right, messages are arrows. Announcements tell
// when a member learnt the result and how many messages of each kind it sent. Receivers follow from the links where there is
// no choice, and the moments of messages are estimated. The picture says so.

import { lastElection, messagesOf } from "./election.js";
import { byId, colour, h, legend, onWidth, picture, s, table, text } from "./page.js";
import { CROWN } from "./topology.js";
import { clock, event as inWords } from "./words.js";

const [LEFT, RIGHT, TOP, ROW] = [92, 34, 16, 46];
/// Kinds that announce a result that is already decided.
const ANNOUNCES = ["coordinator", "selected", "elected", "announce", "leader"];
const NOTE = "From the members' announcements: ■ lost its leader, ○ started an election, ♛ won it, ● follows the winner, ✕ does not answer. They tell how many messages a member sent, not when: the moments of arrows are estimated, and dashed ones have receivers that are not told. Silences are shortened.";

/// What a change of standing means for an election.
function meaning(event) {
  if (event.what === "lost") return "dies";
  if (event.role === "leader") return "wins";
  return event.leader === null ? "notices" : "follows";
}

/// The first mark of each kind of each member. Who followed another leader before is no part of it.
function marks(election) {
  const first = new Map();
  const winner = election.marks.findLast((event) => event.role === "leader")?.id;
  for (const event of election.marks) {
    const kind = meaning(event);
    if (kind === "follows" && event.leader !== winner) continue;
    if (!first.has(`${event.id}/${kind}`)) first.set(`${event.id}/${kind}`, { ...event, kind });
  }
  return [...first.values()];
}

/// Positions from 0 to 1: a step for every moment, longer steps for longer silences.
function positions(times) {
  const moments = [...new Set(times)].sort((a, b) => a - b);
  const at = new Map();
  let sum = 0;
  moments.forEach((moment, nth) => {
    if (nth > 0) sum += 1 + Math.log2(moment - moments[nth - 1]);
    at.set(moment, sum);
  });
  return { moments, at: (moment) => at.get(moment) / Math.max(sum, 1) };
}

function arrowHead(nth) {
  const shape = s("path", { d: "M0 0 8 4 0 8z", class: `f${colour(nth)}` });
  return s("marker", { id: `head${nth}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, shape);
}

/// An announcement leaves when its sender knew the result and arrives where its receiver follows; other messages are spread over
/// the time before.
function arrows(election, topology, shown, x, y) {
  const parts = [];
  const known = (id) => shown.find((mark) => mark.id === id && mark.kind === "follows");
  const noticed = (id) => shown.find((mark) => mark.id === id && mark.kind === "notices");
  for (const event of election.told.values()) {
    const messages = messagesOf(topology, event);
    const end = x(event.at_ms);
    const begin = noticed(event.id) ? x(noticed(event.id).at_ms) : LEFT + 8;
    messages.forEach((message, nth) => {
      const kind = election.kinds.indexOf(message.kind);
      const announces = ANNOUNCES.includes(message.kind);
      const from = announces ? end : begin + ((end - begin) * (nth + 0.3)) / (messages.length + 0.5);
      const words = `${message.kind} ×${message.count} of member ${event.id}`;
      for (const to of message.receivers) {
        const arrives = announces && known(to) ? Math.max(from + 14, x(known(to).at_ms) - 5) : from + 34;
        const line = { x1: from, y1: y(event.id), x2: arrives, y2: y(to), class: `s${colour(kind)}`, "stroke-width": 1.6, "marker-end": `url(#head${kind})`, "data-arrow": `${event.id}-${to}` };
        parts.push(s("line", line, s("title", {}, `${words}, to ${to}`)));
      }
      if (message.certain) return;
      parts.push(s("path", { class: `s${colour(kind)}`, fill: "none", "stroke-width": 1.6, "stroke-dasharray": "4 3", d: `M${from} ${y(event.id)}l20 -16` }, s("title", {}, `${words}; its receivers are not told`)));
      parts.push(text(from + 22, y(event.id) - 14, `×${message.count}`, "dim"));
    });
  }
  return parts;
}

function sign(mark, x, y) {
  const title = s("title", {}, `${clock(mark.at_ms)} member ${mark.id} ${inWords(mark)}`);
  const known = { "data-mark": `${mark.id}-${mark.kind}` };
  switch (mark.kind) {
    case "wins": return s("path", { ...known, class: "crown", d: `M${x - 9} ${y - 7}${CROWN}` }, title);
    case "dies": return s("path", { ...known, class: "cross", d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` }, title);
    case "notices": return s("rect", { ...known, class: "notice", x: x - 3.5, y: y - 3.5, width: 7, height: 7 }, title);
    case "starts": return s("circle", { ...known, class: "woke", cx: x, cy: y, r: 5 }, title);
    default: return s("circle", { ...known, class: "learnt", cx: x, cy: y, r: 4.5 }, title);
  }
}

function ticks(moments, x, height) {
  let last = -Infinity;
  return moments.flatMap((moment) => {
    if (x(moment) - last < 46) return [];
    last = x(moment);
    return [text(last, height - 8, `${moment - moments[0]} ms`, "dim", "middle")];
  });
}

export function showSpaceTime(status) {
  const election = lastElection();
  const columns = [["Time (UTC)"], ["Member", true], ["What"]];
  if (!election) {
    byId("spacetime").replaceChildren(h("p", { class: "empty" }, "No election since this page was opened. The next one is drawn here as its participants announce it."));
    byId("spacetime-twin").replaceChildren(table(columns, []));
    return;
  }
  const shown = marks(election);
  const told = [...election.told.values()];
  const lanes = [...new Set([...election.participants, ...shown.map((mark) => mark.id)])].sort((a, b) => a - b);
  const { moments, at } = positions([...told, ...shown].map((event) => event.at_ms));
  const width = Math.max(420, byId("spacetime-card").clientWidth - 36);
  const height = TOP + lanes.length * ROW + 30;
  const y = (id) => TOP + ROW / 2 + lanes.indexOf(id) * ROW;
  const x = (moment) => LEFT + 16 + at(moment) * (width - LEFT - RIGHT - 30);
  const rails = lanes.flatMap((id) => [text(LEFT - 12, y(id) + 4, `member ${id}`, "", "end"), s("line", { class: "rail", x1: LEFT, x2: width - 12, y1: y(id), y2: y(id) })]);
  const noticed = (id) => shown.find((mark) => mark.id === id && mark.kind === "notices");
  const started = told.filter((event) => event.initiator).map((event) => ({ ...event, kind: "starts", at_ms: noticed(event.id)?.at_ms ?? moments[0] }));
  const signs = [...shown, ...started].map((mark) => sign(mark, x(mark.at_ms), y(mark.id)));
  const title = `The last election, of members ${election.participants.join(", ")}`;
  const drawing = picture(width, height, title, s("defs", {}, election.kinds.map((_, nth) => arrowHead(nth))), ...rails,
    ...ticks(moments, x, height), ...arrows(election, status.topology, shown, x, y), ...signs);
  byId("spacetime").replaceChildren(drawing, legend(election.kinds), h("p", { class: "note" }, NOTE));
  const all = [...told, ...shown].sort((a, b) => a.at_ms - b.at_ms);
  byId("spacetime-twin").replaceChildren(table(columns, all.map((event) => [clock(event.at_ms), String(event.id), inWords(event)])));
}

export function startSpaceTime(latest) {
  onWidth(byId("spacetime-card"), () => latest() && showSpaceTime(latest()));
}
