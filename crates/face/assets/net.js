// The member that serves this page: requests, and the stream of all members' events. No request goes anywhere else.

const SILENCE_MS = 40000;
const RETRY_MS = [300, 700, 1500, 3000];

export const token = {
  get: () => sessionStorage.getItem("token") ?? "",
  set: (value) => (value ? sessionStorage.setItem("token", value) : sessionStorage.removeItem("token")),
};

/// `#token=HEX` in the address is taken over and removed from it.
export function takeTokenFromAddress() {
  const found = /[#&]token=([^&]+)/.exec(location.hash);
  if (!found) return;
  token.set(decodeURIComponent(found[1]));
  history.replaceState(null, "", location.pathname + location.search);
}

const authorised = (headers = {}) => (token.get() ? { ...headers, Authorization: `Bearer ${token.get()}` } : headers);

/// { ok, status, body, at }; `at` is the member's clock. Throws if the member cannot be reached.
export async function get(path) {
  const response = await fetch(path, { headers: authorised(), signal: AbortSignal.timeout(10000) });
  return answer(response);
}

export async function post(path, body) {
  const headers = authorised({ "Content-Type": "application/json" });
  const request = { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(30000) };
  return answer(await fetch(path, request));
}

async function answer(response) {
  const at = Date.parse(response.headers.get("Date") ?? "");
  const body = await response.json().catch(() => null);
  return { ok: response.ok, status: response.status, body, at: Number.isNaN(at) ? null : at };
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/// Follows the events for ever; `on` has event(value), gap(), state(name).
export async function follow(on) {
  let last = null;
  let failures = 0;
  for (;;) {
    try {
      await stream(last, (id, kind, value) => {
        failures = 0;
        last = id ?? last;
        if (kind === "gap") on.gap(value);
        else on.event(value);
      }, (name) => on.state(name));
    } catch (problem) {
      if (problem.status === 401) {
        on.state("token");
        await new Promise((given) => addEventListener("token", given, { once: true }));
        continue;
      }
    }
    on.state("lost");
    await pause(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
  }
}

async function stream(last, take, state) {
  const controller = new AbortController();
  const headers = authorised({ Accept: "text/event-stream" });
  if (last) headers["Last-Event-ID"] = last;
  let watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
  try {
    const response = await fetch("/v1/events", { headers, signal: controller.signal });
    if (!response.ok) throw Object.assign(new Error("no stream"), { status: response.status });
    state("live");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
      const blocks = (rest + value.replaceAll("\r\n", "\n")).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) dispatch(block, take);
    }
  } finally {
    clearTimeout(watchdog);
    controller.abort();
  }
}

function dispatch(block, take) {
  const fields = { id: null, event: "message", data: [] };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
    if (name === "data") fields.data.push(value);
    else fields[name] = value;
  }
  if (fields.data.length > 0) take(fields.id, fields.event, JSON.parse(fields.data.join("\n")));
}
