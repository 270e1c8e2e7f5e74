// What the page says: the verdict, events, times.

export const list = (ids) => ids.join(", ");
const members = (ids) => (ids.length === 1 ? `member ${ids[0]}` : `members ${list(ids)}`);
const capital = (words) => words[0].toUpperCase() + words.slice(1);

/// The verdict in a sentence or two.
export function verdict(status) {
  const all = status.members;
  const up = all.filter((member) => member.up);
  const down = all.filter((member) => !member.up).map((member) => member.id ?? member.address);
  const silent = down.length === 0 ? "" : ` ${capital(members(down))} ${down.length === 1 ? "does" : "do"} not answer.`;
  switch (status.verdict) {
    case "AGREED": {
      const agree = down.length === 0 ? `All ${all.length} members agree.` : `The ${up.length} of ${all.length} members that answer agree.`;
      return `Member ${status.leader} leads in epoch ${status.epoch}. ${agree}${silent}`;
    }
    case "SPLIT": {
      const sides = new Map();
      for (const member of up) {
        const side = sides.get(member.leader) ?? [];
        side.push(member.id);
        sides.set(member.leader, side);
      }
      const side = ([leader, ids]) =>
        leader === null ? `${members(ids)} ${ids.length === 1 ? "follows" : "follow"} nobody` : `${members(ids)} ${ids.length === 1 ? "names" : "name"} ${leader}`;
      return `Members name different leaders: ${[...sides].map(side).join("; ")}.${silent}`;
    }
    case "UNREACHABLE":
      return `No member answers.${silent}`;
    case "NO QUORUM":
      return `No quorum: ${up.length} of ${all.length} members answer, too few for any of them to lead.${silent}`;
    default: {
      const unsure = up.filter((member) => member.leader === null).map((member) => member.id);
      const who = unsure.length > 0 ? ` ${capital(members(unsure))} ${unsure.length === 1 ? "has" : "have"} found none.` : "";
      return `No leader that all members agree on.${who}${silent}`;
    }
  }
}

export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ${Math.floor((ms / 1000) % 60)} s`;
  return `${Math.floor(ms / 3600000)} h ${Math.floor((ms / 60000) % 60)} min`;
}

export const clock = (ms) => new Date(ms).toISOString().slice(11, 23);

/// The bounds of theory: both ends included, null is no bound.
export function range({ min, max }) {
  if (max === null) return `${min} or more`;
  return max === min ? String(min) : `${min} to ${max}`;
}

const CAUSES = {
  started: "how it stands now",
  elected: "it won the election",
  "other-elected": "another member won the election",
  heard: "heard from a heartbeat",
  "leader-lost": "it lost its leader",
  "leader-resigned": "the leader resigned",
  "stepped-down": "it stepped down",
  bumped: "it continues in a later epoch",
  halted: "it stopped",
  "lease-ended": "its lease ended",
  "handed-over": "leadership was handed over",
  "supporters-lost": "too few voters stayed connected",
  superseded: "its own vote went to another candidate",
};

export const cause = (name) => CAUSES[name] ?? name;

/// An event in words.
export function event(event) {
  const why = event.cause ? `: ${cause(event.cause)}` : "";
  switch (event.what) {
    case "became": {
      if (event.role === "leader") return `leads in epoch ${event.epoch}${why}`;
      const whom = event.leader === null ? "nobody" : `member ${event.leader}`;
      return `${event.role} of ${whom}, epoch ${event.epoch}${why}`;
    }
    case "lost":
      return `does not answer${why}`;
    case "elected": {
      const sent = Object.entries(event.sent ?? {}).filter(([, count]) => count > 0);
      const words = sent.length > 0 ? sent.map(([kind, count]) => `${kind} ${count}`).join(", ") : "nothing";
      return `election over: ${event.initiator ? "started it" : "took part"}, sent ${words}`;
    }
    case "granted":
      return `granted epoch ${event.epoch} to member ${event.holder}`;
    case "promise-ended":
      return `its promise of epoch ${event.epoch} to member ${event.holder} ended`;
    case "link":
      return `${event.up ? "connected to" : "disconnected from"} member ${event.peer}`;
    case "faults":
      return event.faults?.length ? `injected faults: ${event.faults.join(", ")}` : "no injected faults";
    case "ordered":
      return `an operator asked: ${event.order}${event.name ? ` (${event.name})` : ""}`;
    case "adopted":
      return `member list ${event.list} on disk: voters ${list(event.voters ?? [])}`;
    case "in-force":
      return `member list ${event.list} in force: voters ${list(event.voters ?? [])}`;
    case "forced":
      return `an operator began a new cluster with member list ${event.list}`;
    case "started":
      return "its process started";
    case "leaving":
      return "leaves in order";
    default:
      return event.what;
  }
}
