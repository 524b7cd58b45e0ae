// Requests to the API of the node that served this page (docs/reference/http.md).

const base = new URL("..", import.meta.url).href.replace(/\/$/, ""); // a proxy may serve it below a path
const kept = "norn-token " + base; // for this tab only: it is gone when the tab is closed
let token = sessionStorage.getItem(kept) || "";
const waiting = new Set(); // who hears that a token is needed

export function setToken(t) {
  token = t;
  if (t) sessionStorage.setItem(kept, t);
  else sessionStorage.removeItem(kept);
}

export const hasToken = () => token !== "";

// onUnauthenticated calls f when the API wants a token; gives what ends that.
export function onUnauthenticated(f) {
  waiting.add(f);
  return () => waiting.delete(f);
}

let rights = null; // of who shows the token; null: not known, so everything is offered, and the API refuses

// learnRights asks what the token may do; gives it, or null from a node that does not say.
export async function learnRights(signal) {
  try {
    rights = await get("/api/v1/access/whoami", {}, signal);
  } catch {
    rights = null;
  }
  return rights;
}

// may tells whether a verb is worth offering on a name; without one, on anything.
export function may(verb, name) {
  if (!rights) return true;
  if (name !== undefined && !name.startsWith(rights.prefix || "")) return false;
  return rights.allow.some((rule) => {
    const [verbs, pattern] = [rule.slice(0, rule.indexOf(":")), rule.slice(rule.indexOf(":") + 1)];
    if (verbs !== "*" && !verbs.split(",").includes(verb)) return false;
    return name === undefined || pattern === name || (pattern.endsWith("*") && name.startsWith(pattern.slice(0, -1)));
  });
}

// Failure is what the API answered instead of a result.
export class Failure extends Error {
  constructor(status, error) {
    super(error.message || `status ${status}`);
    this.status = status;
    this.kind = error.kind || "";
    this.effect = error.effect || "unknown";
  }
}

// query writes parameters as the API reads them: lists repeated, a dot for what is
// within, nothing for what is empty.
export function query(params, within = "") {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) {
    const at = within + name;
    if (value === undefined || value === null || value === "" || value === false) continue;
    if (Array.isArray(value)) value.forEach((v) => out.append(at, v));
    else if (typeof value === "object") for (const [n, v] of query(value, at + ".")) out.append(n, v);
    else out.append(at, value);
  }
  return out;
}

function head(more) {
  const h = { ...more };
  if (token) h["X-Norn-Token"] = token; // a proxy may have Authorization for itself
  return h;
}

async function answer(r) {
  const text = await r.text();
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    if (r.ok) throw new Failure(r.status, { message: "the answer is no JSON: is this Norn's HTTP port?" });
  }
  if (r.status === 401) waiting.forEach((f) => f());
  if (!r.ok) throw new Failure(r.status, body.error || { message: text.trim().slice(0, 300) || r.statusText });
  return body;
}

async function send(path, init) {
  let r;
  try {
    r = await fetch(base + path, { cache: "no-store", ...init });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Failure(0, { kind: "unavailable", message: "the node does not answer (it is stopped, or the network is gone)" });
  }
  return answer(r);
}

export function get(path, params, signal) {
  const q = query(params).toString();
  return send(path + (q ? "?" + q : ""), { headers: head(), signal });
}

const write = (method) => (path, body, signal) =>
  send(path, { method, headers: head({ "Content-Type": "application/json" }), body: JSON.stringify(body), signal });
export const post = write("POST");
export const patch = write("PATCH");
export const remove = write("DELETE");

// inPath writes a name as a part of a path.
export const inPath = (name) => encodeURIComponent(name);

// follow reads the log of a task as it comes and calls got(update) for each, until the
// task is finished or the signal says so; gives what the last event said. It begins
// again after what it has when the connection breaks.
export async function follow(id, got, signal) {
  let last = "";
  for (;;) {
    try {
      const end = await once(id, last, (u, at) => { last = at; got(u); }, signal);
      if (end) return end;
    } catch (e) {
      if (e.name === "AbortError" || (e instanceof Failure && e.status >= 400 && e.status < 500)) throw e;
    }
    await pause(2000, signal);
  }
}

async function once(id, last, got, signal) {
  const h = head({ Accept: "text/event-stream" });
  if (last) h["Last-Event-ID"] = last;
  const r = await fetch(`${base}/api/v1/tasks/${inPath(id)}/log`, { headers: h, signal, cache: "no-store" });
  if (!r.ok) return answer(r);
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return null;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const e of events) {
      const { event, id: at, data } = parse(e);
      if (event === "update") got(JSON.parse(data), at);
      if (event === "end") return JSON.parse(data);
      if (event === "error") return null;
    }
  }
}

function parse(event) {
  const out = { event: "", id: "", data: "" };
  for (const line of event.split("\n")) {
    const i = line.indexOf(":");
    if (i < 1) continue; // a comment
    const name = line.slice(0, i), value = line.slice(i + 1).replace(/^ /, "");
    if (name === "data") out.data += value;
    else out[name] = value;
  }
  return out;
}

export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const gone = () => { clearTimeout(t); reject(new DOMException("ended", "AbortError")); };
    const t = setTimeout(() => { signal?.removeEventListener("abort", gone); resolve(); }, ms);
    if (signal?.aborted) gone();
    else signal?.addEventListener("abort", gone, { once: true });
  });
}
