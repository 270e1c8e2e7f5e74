// The last election: what its participants announced, and its messages beside theory.

import { byId, colour, onWidth, picture, s, table, text } from "./page.js";
import { list, range } from "./words.js";

/// Announcements of one election are this close to each other.
const TOGETHER_MS = 4000;
/// After so long without an event another election begins.
const QUIET_MS = 1500;

let last = null;

/// Collects the announcements of one election; true if it is a new one.
export function noteElection(event) {
  const same = last && list(last.participants) === list(event.participants) && event.at_ms - last.newest < TOGETHER_MS && !last.told.has(event.id);
  if (!same) last = { participants: event.participants, told: new Map(), marks: [], newest: event.at_ms, kinds: [] };
  last.told.set(event.id, event);
  last.newest = Math.max(last.newest, event.at_ms);
  for (const kind of Object.keys(event.sent ?? {})) if (!last.kinds.includes(kind)) last.kinds.push(kind);
  return !same;
}

/// Changes of standing and lost members of the last seconds, which belong to the election around them.
const recent = [];

export function noteMark(event) {
  recent.push(event);
  while (recent.length > 200) recent.shift();
}

/// From the loss of the leader before to the last member that follows the winner.
function around(newest) {
  const events = recent.filter((event) => event.at_ms < newest + TOGETHER_MS).sort((a, b) => a.at_ms - b.at_ms);
  const won = events.findLastIndex((event) => event.role === "leader");
  const winner = events[won];
  let first = events.length - 1;
  while (first > 0) {
    const [event, later] = [events[first - 1], events[first]];
    const before = first - 1 < won && event.role === "leader" && event.epoch !== winner.epoch;
    if (before || later.at_ms - event.at_ms > QUIET_MS) break;
    first -= 1;
  }
  return events.slice(Math.max(0, first));
}

export function lastElection() {
  if (!last) return null;
  return { ...last, marks: around(last.newest) };
}

/// The receivers of a member's messages, where their number and the topology leave no choice; else null.
export function receivers(topology, participants, sender, count) {
  const others = participants.filter((id) => id !== sender);
  if (count === 0 || others.length === 0) return [];
  if (topology === "ring") {
    const at = participants.indexOf(sender);
    return [participants[(at + 1) % participants.length]];
  }
  if (topology === "mesh" && count % others.length === 0) return others;
  return null;
}

/// A member's messages by kind: { kind, count, receivers, certain }. The best ids are tried where the receivers are not certain.
export function messagesOf(topology, event) {
  const kinds = Object.entries(event.sent ?? {}).filter(([, count]) => count > 0);
  return kinds.map(([kind, count]) => {
    const certain = receivers(topology, event.participants, event.id, count);
    return { kind, count, certain: certain !== null, receivers: certain ?? [] };
  });
}

const [LEFT, ROW] = [116, 40];

export function showMessageCounts(status) {
  const election = status.election;
  const note = byId("messages-note");
  if (!election) {
    byId("messages").replaceChildren();
    note.textContent = "No member tells of an election.";
    return;
  }
  const kinds = Object.keys(election.messages.by_kind);
  const rows = kinds.map((kind) => [kind, election.messages.by_kind[kind], election.theory?.by_kind?.[kind] ?? null]);
  const sums = [["election", election.messages.election, election.theory?.election ?? null], ["announcement", election.messages.announcement, election.theory?.announcement ?? null]];
  draw(rows);
  const cells = [...rows.map(([kind, ...rest]) => [kind, ...rest]), ...sums.map(([kind, ...rest]) => [`all of the ${kind}`, ...rest])];
  const columns = [["Kind"], ["Sent", true], ["Theory", true]];
  byId("messages-twin").replaceChildren(table(columns, cells.map(([kind, count, expected]) => [kind, String(count), expected ? range(expected) : null])));
  note.textContent = sentence(status, election);
}

function sentence(status, election) {
  const started = election.initiators?.length ? `, started by ${list(election.initiators)}` : "";
  const sums = `${election.messages.election} messages and ${election.messages.announcement} to announce the result`;
  const who = `Election of ${list(election.participants)}${started}: ${sums}.`;
  if (election.theory) return `${who} The bracket is what theory says for exactly this case.`;
  if (!election.complete) return `${who} Not all participants have answered, so theory is not compared.`;
  const bounds = status.theory;
  return bounds ? `${who} Theory for any such election: ${bounds.best} to ${bounds.worst ?? "any number of"} messages.` : `${who} Theory has no number for this case.`;
}

function draw(rows) {
  const width = Math.max(260, byId("messages-card").clientWidth - 34);
  const most = Math.max(1, ...rows.map(([, count, expected]) => Math.max(count, expected?.max ?? expected?.min ?? 0)));
  const scale = (value) => LEFT + (value / most) * (width - LEFT - 60);
  const parts = rows.flatMap(([kind, count, expected], nth) => {
    const y = 8 + nth * ROW;
    const bar = s("rect", { class: `f${colour(nth)}`, x: LEFT, y: y + 6, width: Math.max(count > 0 ? 3 : 0, scale(count) - LEFT), height: 16, rx: 4, "data-kind": kind });
    const drawn = [text(LEFT - 10, y + 19, kind, "", "end"), s("line", { class: "rail", x1: LEFT, x2: LEFT, y1: y, y2: y + ROW - 8 }), bar];
    let label = scale(count);
    if (expected) {
      const [min, max] = [scale(expected.min), scale(expected.max ?? most)];
      drawn.push(s("path", { class: "theory", d: `M${min} ${y + 2}v24M${max} ${y + 2}v24M${min} ${y + 26}H${max}` }, s("title", {}, `theory: ${range(expected)}`)));
      label = Math.max(label, max);
    }
    const words = expected && expected.min !== expected.max ? `${count} of ${range(expected)}` : expected && expected.min !== count ? `${count}, not ${expected.min}` : String(count);
    drawn.push(text(label + 8, y + 19, words, "bold"));
    return drawn;
  });
  const said = rows.map(([kind, count, expected]) => `${kind} ${count}${expected ? `, theory ${range(expected)}` : ""}`).join("; ");
  byId("messages").replaceChildren(picture(width, 16 + rows.length * ROW, said, ...parts));
}

export function startMessageCounts(latest) {
  onWidth(byId("messages-card"), () => latest() && showMessageCounts(latest()));
}
