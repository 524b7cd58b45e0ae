// Queues: counts, settings, pausing.

import { useState } from "./vendor/hooks.js";
import { count, num, span } from "./format.js";
import { get, inPath, patch, remove } from "./api.js";
import { Chart } from "./chart.js";
import { useLive } from "./live.js";
import { rates } from "./overview.js";
import { Act, Facts, Figure, Live, Pager, QueueLink, State, Table, TaskLink, html, link } from "./parts.js";

const columns = ["ready", "claimed", "waiting", "scheduled", "completed", "dead", "cancelled"];

const condition = (q) => (q.effective.paused ? "paused" : q.effective.draining ? "draining" : "open");

export function Queues() {
  const [cursors, set] = useState([]);
  const live = useLive((s) => get("/api/v1/queues", { cursor: cursors.at(-1), limit: 100 }, s), 3000, [cursors.length]);
  const go = (e) => {
    e.preventDefault();
    const name = new FormData(e.target).get("name").trim();
    if (name) location.hash = link("queues", name);
  };
  return html`<h1>Queues</h1>
    <form class="filter" onSubmit=${go}><label>open queue<input name="name" /></label><button>open</button></form>
    <${Live} of=${live}>${(d) => html`
      <${Table} label="queues" empty="no queue yet" head=${["queue", "", ...[...columns, "oldest ready", "workers waiting"].map((n) => ({ n })), ""]}
        rows=${d.queues.map((q) => html`<tr key=${q.name}><th scope="row"><${QueueLink} name=${q.name} /></th>
          <td><${State} is=${condition(q)} />${q.effective.note && html` <small>${q.effective.note}</small>`}</td>
          ${columns.map((s) => html`<td class="n"><a href=${link("tasks", "", { queue: q.name, states: s })}>${count(q.count[s])}</a></td>`)}
          <td class="n">${q.oldest_ready_seconds ? span(q.oldest_ready_seconds) : ""}</td><td class="n">${q.waiting_claims || ""}</td>
          <td><${Pause} q=${q} done=${live.again} /></td></tr>`)} />
      <${Pager} cursors=${cursors} next=${d.next_cursor} set=${set} />`}<//>`;
}

// change sets fields of a queue, if nobody else did since it was shown.
const change = (q, settings) => patch(`/api/v1/queues/${inPath(q.name)}`, { settings, fields: Object.keys(settings), if_version: q.version });

// Pause has another key than resume, so that a question that is open goes away, and does not
// become the other one, when somebody else pauses the queue.
function Pause({ q, done }) {
  if (condition(q) !== "open") {
    return html`<${Act} needs=${["operate", q.name]} key="resume" label="resume" ask=${html`Let <b>${q.name}</b> take enqueues and hand out tasks again?`} done=${done}
      run=${async () => { await change(q, { paused: false, draining: false, note: "" }); return "resumed"; }} />`;
  }
  return html`<${Act} needs=${["operate", q.name]} key="pause" label="pause" kind="warn" reason="note, shown to others" done=${done}
    ask=${html`Pause <b>${q.name}</b>? Workers finish what they have and get nothing more; enqueues go on.`}
    run=${async (note) => { await change(q, { paused: true, note }); return "paused"; }} />`;
}

const Drain = ({ q, done }) => html`<${Act} needs=${["operate", q.name]} label="drain" kind="warn" reason="note, shown to others" done=${done} disabled=${condition(q) !== "open"}
  ask=${html`Drain <b>${q.name}</b>? Enqueues are refused; what is there is worked off.`}
  run=${async (note) => { await change(q, { draining: true, note }); return "draining"; }} />`;

const Delete = ({ q, done }) => html`<${Act} needs=${["operate", q.name]} label="delete" kind="warn" done=${done} disabled=${["ready", "claimed", "waiting", "scheduled"].some((s) => num(q.count[s]) > 0)}
  ask=${html`Delete <b>${q.name}</b>, with its settings and its finished tasks? It is back with the next task.`}
  run=${async () => { await remove(`/api/v1/queues/${inPath(q.name)}`, { if_version: q.version }); return "deleted"; }} />`;

export function Queue({ name }) {
  const live = useLive((s) => get(`/api/v1/queues/${inPath(name)}`, {}, s), 2000, [name]);
  return html`<h1>Queue ${name}</h1><${Live} of=${live}>${(d) => (d.queues.length ? html`<${One} q=${d.queues[0]} done=${live.again} />`
    : html`<p class="quiet">There is no such queue: it has neither tasks nor settings.</p>`)}<//>`;
}

// quantile gives the upper end of the class in which a share of durations lies.
function quantile(d, share) {
  const all = (d?.counts || []).map(num), sum = all.reduce((a, b) => a + b, 0);
  if (!sum) return "";
  let n = 0, i = 0;
  while (i < all.length - 1 && (n += all[i]) < share * sum) i++;
  return i < d.up_to_seconds.length ? "≤ " + span(d.up_to_seconds[i]) : "> " + span(d.up_to_seconds.at(-1));
}

// Rates draws the last hour of a queue, with how long things took since the nodes started.
function Rates({ name }) {
  const live = useLive((s) => get("/api/v1/history", { queue: name, seconds: 3600 }, s), 5000, [name]);
  const took = (d) => quantile(d, 0.5) && html`half ${quantile(d, 0.5)}, 99 % ${quantile(d, 0.99)}`;
  return html`<${Live} of=${live}>${(h) => html`
    <div class="charts">
      <${Chart} title="tasks a second, last hour" names=${["enqueued", "claimed", "completed"]} data=${rates(h, ["enqueued", "claimed", "completed"])} />
      <${Chart} title="ends otherwise, a second" names=${["failed", "dead", "lease ran out", "cancelled"]} data=${rates(h, ["failed", "dead", "expired", "cancelled"])} />
    </div>
    <${Facts} of=${[["ready until claimed", took(h.wait)], ["run time", took(h.run)], ["enqueued until finished", took(h.finish)]]} />`}<//>`;
}

// Takers are the workers with a session that take a queue, and the newest of its tasks that died.
function Takers({ name }) {
  const live = useLive(async (s) => {
    const [workers, dead] = await Promise.all([get("/api/v1/workers", { queue: name, limit: 50 }, s), get("/api/v1/tasks", { queue: name, states: ["dead"], limit: 10 }, s)]);
    return { workers: workers.workers, dead: dead.tasks };
  }, 5000, [name]);
  return html`<${Live} of=${live}>${({ workers, dead }) => html`
    <h2>Workers</h2>
    <${Table} label="workers" empty=${html`no worker with a session takes it: <code>norn work -q ${name} -- CMD</code>`} head=${["worker", "", "machine", { n: "busy" }, { n: "slots" }]}
      rows=${workers.map((w) => html`<tr key=${w.instance}><th scope="row"><a href=${link("workers", w.name)}>${w.name}</a></th>
        <td><${State} is=${w.draining ? "draining" : w.state} /> ${w.trouble && html`<small class="bad">${w.trouble}</small>`}</td><td>${w.machine}</td>
        <td class="n">${w.running.length}</td><td class="n">${w.slots}</td></tr>`)} />
    <h2>Dead tasks</h2>
    <${Table} label="dead tasks" empty="none" head=${["task", "error"]}
      rows=${dead.map((t) => html`<tr key=${t.id}><th scope="row"><${TaskLink} id=${t.id} /></th><td class="brief bad">${t.error}</td></tr>`)} />`}<//>`;
}

const seconds = (s, none) => (num(s) ? span(num(s)) : none);
const own = (set, value) => html`${value}${set ? "" : html` <small>(default)</small>`}`;

function One({ q, done }) {
  const { settings: s, effective: e } = q;
  return html`
    <p class="acts"><${State} is=${condition(q)} /> ${e.note} <${Pause} q=${q} done=${done} /><${Drain} q=${q} done=${done} /><${Delete} q=${q} done=${done} />
      <a class="button" href=${link("tasks", "", { queue: q.name })}>tasks</a></p>
    <section class="figures">${columns.map((c) => html`<${Figure} label=${c} value=${count(q.count[c])} bad=${c === "dead" && num(q.count.dead) > 0} href=${link("tasks", "", { queue: q.name, states: c })} />`)}</section>
    <${Rates} name=${q.name} />
    <${Facts} of=${[
      ["oldest ready task", q.oldest_ready_seconds ? span(q.oldest_ready_seconds) : "none"],
      ["workers waiting", String(q.waiting_claims)],
      ["lease", own(s.lease_seconds, seconds(e.lease_seconds, ""))],
      ["attempts", own(s.retry, `${e.retry.max_attempts}, pauses from ${span(e.retry.initial_seconds)} to ${span(e.retry.max_seconds)}, × ${e.retry.multiplier}`)],
      ["finished tasks", own(s.retention !== "unspecified", e.retention)],
      ["kept for", own(s.retention_seconds, seconds(e.retention_seconds, "ever"))],
      ["dead ones for", own(s.dead_retention_seconds, seconds(e.dead_retention_seconds, "ever"))],
      ["most tasks", num(e.max_tasks) ? count(e.max_tasks) : "no limit"],
    ]} />
    <${Takers} name=${q.name} />
    <p class="quiet">Other settings: <code>norn queue set ${q.name} --help</code></p>`;
}
