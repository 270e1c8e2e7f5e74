// Who led when: a lane per member. A member's own reigns are bars, the leader it follows is a thin line, and moments at which
// two members led are marked through all lanes.

import { byId, colour, h, onWidth, picture, s, table, text } from "./page.js";
import { cause, clock, span } from "./words.js";

const [LEFT, RIGHT, TOP, LANE] = [88, 18, 10, 34];
const KEPT = 400;

const reigns = new Map();
const lanes = new Map();
let members = [];
let offset = 0;

export const now = () => Date.now() + offset;

/// The clock of the member may differ from that of the browser by more than the second that a header tells.
export function setClock(atMember) {
  if (atMember === null) return;
  const differs = atMember - Date.now();
  offset = Math.abs(differs) > 3000 ? differs : 0;
}

const lane = (id) => {
  if (!lanes.has(id)) lanes.set(id, []);
  return lanes.get(id);
};

/// What the ledgers of all members tell.
export function noteHistory(history) {
  for (const reign of history.reigns ?? []) {
    const to = reign.to_earliest_ms;
    reigns.set(`${reign.leader}/${reign.epoch}`, { leader: reign.leader, epoch: reign.epoch, from: reign.from_ms, to, cause: reign.cause, end: reign.end });
  }
  forget();
}

function forget() {
  const oldest = [...reigns.keys()].slice(0, Math.max(0, reigns.size - KEPT));
  for (const key of oldest) reigns.delete(key);
}

function endReigns(id, at, except, end) {
  for (const reign of reigns.values()) {
    if (reign.leader === id && reign.to === null && reign.epoch !== except) Object.assign(reign, { to: Math.max(at, reign.from), end });
  }
}

export function noteStanding(event) {
  if (event.id === null || event.instance !== 0) return;
  const at = event.at_ms;
  if (event.what === "became") {
    if (event.role === "leader") {
      endReigns(event.id, at, event.epoch, "bumped");
      const known = reigns.get(`${event.id}/${event.epoch}`);
      // It was only out of our sight.
      if (known) known.to = null;
      else reigns.set(`${event.id}/${event.epoch}`, { leader: event.id, epoch: event.epoch, from: at, to: null, cause: event.cause, end: null });
    } else {
      endReigns(event.id, at, null, event.cause);
    }
    follow(event.id, at, { leader: event.leader, role: event.role });
  } else if (["lost", "leaving", "started"].includes(event.what)) {
    endReigns(event.id, at, null, event.what === "started" ? "process-ended" : event.what);
    follow(event.id, at, { leader: null, role: event.what === "started" ? "candidate" : "down" });
  }
  forget();
}

function follow(id, at, standing) {
  const spans = lane(id);
  const last = spans.at(-1);
  if (last && last.leader === standing.leader && last.role === standing.role) return;
  if (last) last.to = at;
  spans.push({ from: at, to: null, ...standing });
  if (spans.length > KEPT) spans.shift();
}

/// Moments at which two members led.
function overlaps(from, until) {
  const shown = [...reigns.values()].filter((reign) => (reign.to ?? until) > from);
  const found = [];
  shown.forEach((a, at) => {
    for (const b of shown.slice(at + 1)) {
      const [begin, end] = [Math.max(a.from, b.from, from), Math.min(a.to ?? until, b.to ?? until)];
      if (a.leader !== b.leader && end > begin) found.push({ begin, end, of: [a.leader, b.leader].sort((x, y) => x - y) });
    }
  });
  return found;
}

function axis(scale, from, until, height) {
  const seconds = (until - from) / 1000;
  // On a narrow screen every second mark.
  const step = (seconds <= 60 ? 10 : seconds <= 300 ? 60 : 600) * (scale(until) - scale(from) < 420 ? 2 : 1);
  const marks = [];
  for (let ago = 0; ago < seconds - step / 3; ago += step) {
    const x = scale(until - ago * 1000);
    marks.push(s("line", { class: "rail", x1: x, x2: x, y1: TOP, y2: height - 24 }));
    const words = ago === 0 ? "now" : seconds <= 60 ? `−${ago} s` : `−${ago / 60} min`;
    marks.push(text(x, height - 8, words, "dim", ago === 0 ? "end" : "middle"));
  }
  return marks;
}

function drawLane(id, nth, scale, from, until) {
  const y = TOP + nth * LANE;
  const middle = y + LANE / 2;
  const parts = [s("rect", { class: "lane", x: LEFT, y: y + 5, width: Math.max(0, scale(until) - LEFT), height: LANE - 10, rx: 6 }), text(LEFT - 12, middle + 4, `member ${id}`, "", "end")];
  for (const part of lane(id)) {
    const [begin, end] = [Math.max(part.from, from), part.to ?? until];
    if (end <= from) continue;
    const line = { x1: scale(begin), x2: scale(end), y1: middle, y2: middle };
    if (part.role === "down") parts.push(s("line", { class: "lost-lane", ...line }));
    else if (part.leader !== null && part.leader !== id) parts.push(s("line", { class: `s${shade(part.leader)}`, "stroke-width": 3, ...line }));
  }
  for (const reign of reigns.values()) {
    const end = reign.to ?? until;
    if (reign.leader !== id || end <= from) continue;
    const x = scale(Math.max(reign.from, from));
    const width = Math.max(3, scale(end) - x);
    const words = `member ${id} led in epoch ${reign.epoch} from ${clock(reign.from)} to ${reign.to === null ? "now" : clock(reign.to)}`;
    parts.push(s("rect", { class: `f${shade(id)}`, x, y: y + 5, width, height: LANE - 10, rx: 5, "data-reign": `${id}/${reign.epoch}` }, s("title", {}, words)));
    const label = `epoch ${reign.epoch}`;
    if (width > label.length * 7 + 12) parts.push(text(x + 8, middle + 4, label, "onbar"));
  }
  return parts;
}

const shade = (id) => colour(members.indexOf(id));

export function showTimeline(status) {
  members = status.members.map((member) => member.id).filter((id) => id !== null);
  const seconds = Number(byId("span").value);
  const until = now();
  const from = until - seconds * 1000;
  const width = Math.max(300, byId("timeline-card").clientWidth - 34);
  const height = TOP + members.length * LANE + 30;
  const scale = (at) => LEFT + (Math.max(0, Math.min(1, (at - from) / (until - from)))) * (width - LEFT - RIGHT);
  const both = overlaps(from, until);
  const bands = both.map(({ begin, end, of }) => {
    const x = scale(begin);
    const band = { class: "overlap", x, y: TOP, width: Math.max(3, scale(end) - x), height: height - TOP - 26, "data-overlap": of.join("-") };
    return s("rect", band, s("title", {}, `members ${of.join(" and ")} both led for ${span(end - begin)}`));
  });
  const parts = members.flatMap((id, nth) => drawLane(id, nth, scale, from, until));
  const title = both.length > 0 ? `A lane per member; two members led at the same time ${both.length} times` : "A lane per member; never two leaders at the same time";
  const drawing = picture(width, height, title, ...axis(scale, from, until, height), ...parts, ...bands);
  const last = both.at(-1);
  const alarm = last ? h("p", { class: "note alarm" }, `Two leaders at once: members ${last.of.join(" and ")}, for ${span(last.end - last.begin)}.`) : "";
  byId("timeline").replaceChildren(drawing, alarm);
  showTable();
}

function showTable() {
  const shown = [...reigns.values()].sort((a, b) => b.from - a.from).slice(0, 50);
  const rows = shown.map((reign) => [
    String(reign.leader), String(reign.epoch), clock(reign.from), reign.to === null ? "leads" : clock(reign.to),
    span((reign.to ?? now()) - reign.from), cause(reign.cause), reign.end ? cause(reign.end) : null,
  ]);
  const columns = [["Leader", true], ["Epoch", true], ["From (UTC)"], ["To (UTC)"], ["For", true], ["Began"], ["Ended"]];
  byId("timeline-twin").replaceChildren(table(columns, rows));
}

export function leadingSince(status) {
  return reigns.get(`${status.leader}/${status.epoch}`)?.from ?? null;
}

export function startTimeline(latest) {
  const draw = () => latest() && showTimeline(latest());
  byId("span").value = localStorage.getItem("span") ?? byId("span").value;
  byId("span").addEventListener("change", () => {
    localStorage.setItem("span", byId("span").value);
    draw();
  });
  onWidth(byId("timeline-card"), draw);
  setInterval(() => document.hidden || draw(), 1000);
}
