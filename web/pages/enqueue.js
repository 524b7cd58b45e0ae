// Forms for a task and for a schedule: what is typed, what it means, what came of it.

import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { bytesOf, clock, textOf } from "./format.js";
import { get, inPath, may, post } from "./api.js";
import { newID } from "./ids.js";
import { headersOf } from "./tasks.js";
import { Live, Table, TaskLink, Until, Wrong, html, link } from "./parts.js";
import { useLive } from "./live.js";

// taskOf makes the specification of a task of what is typed. It throws what cannot be read.
export function taskOf(f) {
  const text = (name) => (f.get(name) || "").trim();
  const t = { queue: text("queue") };
  const payload = f.get("payload") || "";
  if (f.get("as") === "json") {
    try {
      JSON.parse(payload);
    } catch (e) {
      throw new Error("The payload is no JSON: " + e.message);
    }
  }
  t.payload_text = payload; // JSON as it was typed
  if (text("kind")) t.kind = text("kind");
  const tags = text("tags").split(",").map((s) => s.trim()).filter(Boolean);
  if (tags.length) t.tags = tags;
  if (text("priority")) t.priority = Number(text("priority"));
  if (text("attempts")) t.retry = { max_attempts: Number(text("attempts")) };
  const headers = headersOf(text("headers"));
  for (const h of headers) {
    const i = h.indexOf("=");
    if (i < 1) throw new Error(`The header "${h}" is not name=value.`);
    (t.headers ||= {})[h.slice(0, i)] = h.slice(i + 1);
  }
  if (text("key")) t.key = text("key");
  if (text("delay")) t.delay_seconds = Number(text("delay"));
  if (text("not_before")) t.not_before = new Date(text("not_before")).toISOString();
  return t;
}

// Fields are those that tasks and what schedules enqueue have in common.
const Fields = ({ t, children }) => html`
  <label>queue<input name="queue" required maxlength="128" defaultValue=${t.queue} /></label>
  <label>kind<input name="kind" maxlength="128" defaultValue=${t.kind} /></label>
  <label>tags, by commas<input name="tags" defaultValue=${(t.tags || []).join(", ")} /></label>
  <label>priority<input name="priority" type="number" step="1" defaultValue=${t.priority || ""} placeholder="0" /></label>
  <label>attempts, at most<input name="attempts" type="number" min="1" step="1" defaultValue=${t.retry?.max_attempts || ""} placeholder="of the queue" /></label>
  <label>headers, name=value<input name="headers" defaultValue=${Object.entries(t.headers || {}).map(([k, v]) => k + "=" + v).join(", ")} /></label>
  ${children}
  <label class="full">payload<textarea name="payload" rows="6" spellcheck=${false}>${t.text}</textarea></label>
  <fieldset><legend>payload is</legend><label class="chip"><input type="radio" name="as" value="text" defaultChecked=${true} />text</label><label class="chip"><input type="radio" name="as" value="json" />JSON, and is checked</label></fieldset>`;

// Spec shows what is sent, or why it cannot be.
function Spec({ of }) {
  return of.error ? html`<${Wrong} error=${of.error} />` : html`<details class="data"><summary>what is sent</summary><pre>${JSON.stringify(of.spec, null, 2)}</pre></details>`;
}

export function Enqueue({ params }) {
  const [s, set] = useState({ spec: {} }), [went, say] = useState({}), id = useRef("");
  const read = (form) => {
    id.current = ""; // another task
    try {
      set({ spec: taskOf(new FormData(form)) });
    } catch (error) {
      set({ error });
    }
  };
  const submit = async (e) => {
    e.preventDefault();
    say({ busy: true });
    try {
      const spec = taskOf(new FormData(e.target));
      id.current ||= newID(Date.parse((await get("/api/v1/ping")).now)); // kept until it is there: a second try is no second task
      const { results: [r] } = await post("/api/v1/tasks", { tasks: [spec.key ? spec : { ...spec, id: id.current }] });
      if (r.error) throw new Error(r.error.message);
      id.current = "";
      say({ id: r.receipt.id, existed: r.receipt.existed });
    } catch (error) {
      say({ error });
    }
  };
  if (!may("enqueue")) return html`<h1>Enqueue a task</h1><p class="quiet">This token may not enqueue.</p>`;
  return html`<h1>Enqueue a task</h1>
    <form class="filter" aria-label="task" onSubmit=${submit} onInput=${(e) => read(e.currentTarget)}>
      <${Fields} t=${{ queue: params.get("queue") || "", text: "" }}>
        <label>unique key<input name="key" maxlength="256" /></label>
        <label>delay, seconds<input name="delay" type="number" min="0" step="any" /></label>
        <label>not before<input name="not_before" type="datetime-local" /></label>
      <//>
      <button class="main" disabled=${went.busy}>enqueue</button>
    </form>
    <div class="outcome" role="status">${went.id && html`<p class="good">${went.existed ? "It was there already: " : "Enqueued: "}<${TaskLink} id=${went.id} /></p>`}</div>
    <${Wrong} error=${went.error} /><${Spec} of=${s} />
    <p class="quiet">Many at once: <code>norn task enqueue -q QUEUE --lines FILE</code></p>`;
}

const overlaps = { allow: "run beside it", skip: "skip it", queue_one: "wait for its end", replace: "cancel it and run" };
const catches = { latest: "launch the last one", none: "skip them", all: "launch them all" };
const options = (all, is) => Object.entries(all).map(([v, text]) => html`<option value=${v} selected=${v === is}>${text}</option>`);

// specOf makes the specification of a schedule of what is typed, on the one that there is.
export function specOf(f, old) {
  const text = (name) => (f.get(name) || "").trim();
  const { payload_text: _, payload, ...rest } = old.task || {}, task = taskOf(f);
  const was = payload === undefined ? null : textOf(bytesOf(payload));
  if (payload !== undefined && (was === null || was === task.payload_text)) { // not typed here, or as it was
    delete task.payload_text;
    task.payload = payload;
  }
  for (const name of ["kind", "tags", "priority", "headers"]) if (!(name in task)) delete rest[name];
  if (rest.retry && !task.retry) rest.retry = { ...rest.retry, max_attempts: 0 };
  return {
    ...old, cron: text("cron"), time_zone: text("time_zone"), overlap: text("overlap"), catch_up: text("catch_up"),
    jitter_seconds: Number(text("jitter") || 0), pause_on_failure: f.get("pause_on_failure") === "on",
    task: { ...rest, ...task, retry: task.retry ? { ...rest.retry, ...task.retry } : rest.retry },
  };
}

// EditSchedule is for the schedule that the address names, or a new one.
export function EditSchedule({ params }) {
  const name = params.get("name") || "";
  const live = useLive(async (s) => (name ? (await get(`/api/v1/schedules/${inPath(name)}`, {}, s)).schedules[0] || {} : {}), 0, [name]);
  if (!may("schedule")) return html`<h1>Schedule</h1><p class="quiet">This token may not make schedules.</p>`;
  return html`<h1>${name ? `Edit schedule ${name}` : "New schedule"}</h1><${Live} of=${live}>${(s) => html`<${ScheduleForm} old=${s} />`}<//>`;
}

function ScheduleForm({ old }) {
  const spec = old.spec || {}, form = useRef(null), wait = useRef(0);
  const [seen, see] = useState({}), [went, say] = useState({});
  const put = async (more) => {
    const f = new FormData(form.current), name = old.name || (f.get("name") || "").trim();
    const { results: [r] } = await post("/api/v1/schedules", { changes: [{ name, if_version: old.version, put: { spec: specOf(f, spec), create: !old.name, upcoming: 10, ...more } }] });
    if (r.error) throw new Error(r.error.message);
    return r.schedule;
  };
  const look = async () => {
    try {
      const f = new FormData(form.current);
      if (!f.get("cron").trim() || !f.get("queue").trim() || !(old.name || f.get("name").trim())) return see({});
      const s = await put({ dry_run: true });
      see({ schedule: s, spec: specOf(f, spec) });
    } catch (error) {
      see({ error });
    }
    return undefined;
  };
  const soon = () => { clearTimeout(wait.current); wait.current = setTimeout(look, 300); };
  useEffect(() => { look(); return () => clearTimeout(wait.current); }, []);
  const submit = async (e) => {
    e.preventDefault();
    say({ busy: true });
    try {
      const s = await put({});
      location.hash = link("schedules", s.name);
    } catch (error) {
      say({ error });
    }
  };
  const text = spec.task ? textOf(bytesOf(spec.task.payload)) : "";
  return html`<form class="filter" aria-label="schedule" ref=${form} onSubmit=${submit} onInput=${soon}>
      ${!old.name && html`<label>name<input name="name" required maxlength="128" /></label>`}
      <label>times<input name="cron" required maxlength="1024" placeholder="0 3 * * *  or  @every 10m" defaultValue=${spec.cron} /></label>
      <label>time zone<input name="time_zone" placeholder="UTC" defaultValue=${spec.time_zone} /></label>
      <label>when one still runs<select name="overlap">${options(overlaps, spec.overlap || "allow")}</select></label>
      <label>times that were missed<select name="catch_up">${options(catches, spec.catch_up || "latest")}</select></label>
      <label>spread over, seconds<input name="jitter" type="number" min="0" step="any" defaultValue=${spec.jitter_seconds || ""} /></label>
      <label class="chip"><input type="checkbox" name="pause_on_failure" defaultChecked=${spec.pause_on_failure} />pause when a task has failed</label>
      <${Fields} t=${{ ...spec.task, text: text === null ? "" : text }} />
      <button class="main" disabled=${went.busy || !!seen.error}>${old.name ? "save" : "create"}</button>
    </form>
    ${text === null && html`<p class="quiet">The payload is no text, and stays as it is.</p>`}
    <${Wrong} error=${went.error} />
    <h2>What it means</h2>
    <div class="preview">${seen.error ? html`<${Wrong} error=${seen.error} />` : !seen.schedule ? html`<p class="quiet">Name, times and queue are needed: then the next ten times are shown.</p>` : html`
      ${seen.schedule.warnings.map((w) => html`<p class="quiet">${w}</p>`)}
      <${Table} label="next times" empty="it has no further time" head=${["at", "", "there", "note"]} rows=${seen.schedule.upcoming.map((o) => html`<tr key=${o.at}>
        <td>${clock(o.at)}</td><td><${Until} at=${o.at} /></td><td>${o.local.replace("T", " ")} <small>${o.offset}</small></td><td>${o.note}</td></tr>`)} />
      <${Spec} of=${{ spec: seen.spec }} />`}</div>
    <p class="quiet">What times can be written: <code>norn schedule set --help</code>. What is typed here changes nothing until it is saved.</p>`;
}
