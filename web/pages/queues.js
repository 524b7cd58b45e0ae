// Queues: those that a part of a name finds, in an order, and one with its rates, workers and
// settings.

import { count, num, span } from "./format.js";
import { get, inPath, may, patch, remove } from "./api.js";
import { Bulk } from "./bulk.js";
import { Chart } from "./chart.js";
import { useLive } from "./live.js";
import { rates } from "./overview.js";
import { Act, Facts, Figure, Live, QueueLink, Search, State, Table, TaskLink, html, link } from "./parts.js";
import { Settings } from "./settings.js";

const unfinished = ["ready", "claimed", "waiting", "scheduled"];
const finished = ["completed", "dead", "cancelled"];
const columns = [...unfinished, ...finished];
const page = 100; // queues of one page

const condition = (q) => (q.effective.paused ? "paused" : q.effective.draining ? "draining" : "open");

// some names the counts that are not 0: "12 ready, 3 dead".
const some = (q, states) => states.filter((s) => num(q.count[s]) > 0).map((s) => `${count(q.count[s])} ${s}`).join(", ");

export function Queues({ params }) {
  const contains = params.get("contains") || "", by = params.get("by") || "", down = params.get("down") === "true", at = Number(params.get("from")) || 0;
  const go = (more) => { location.hash = link("queues", "", { contains, by, down: down || "", from: "", ...more }); };
  const live = useLive((s) => get("/api/v1/ranking", { contains, by, descending: down, limit: page, offset: at }, s), 3000, [contains, by, down, at]);
  const sort = { by, down, set: (b, d) => go({ by: b, down: d || "" }) };
  return html`<h1>Queues</h1>
    <${Search} label="part of a name" value=${contains} set=${(c) => go({ contains: c })} />
    <${Live} of=${live}>${(d) => html`
      <p class="quiet" role="status">${count(d.found)} ${num(d.found) === 1 ? "queue" : "queues"}${contains && ` with “${contains}”`}${d.cut ? ", of the first 100,000" : ""}</p>
      <${Table} label="queues" sort=${sort} empty=${contains ? "no queue has that in its name" : html`no queue yet: <code>norn task enqueue -q mail hello</code>`}
        head=${[{ text: "queue", by: "" }, "", ...columns.map((n) => ({ n, by: n })), { n: "oldest ready", by: "oldest_ready" }, { n: "claims waiting", by: "waiting_claims" }, ""]}
        rows=${d.queues.map((q) => html`<tr key=${q.name}><th scope="row"><${QueueLink} name=${q.name} /></th>
          <td><${State} is=${condition(q)} />${q.effective.note && html` <small>${q.effective.note}</small>`}</td>
          ${columns.map((s) => html`<td class="n"><a href=${link("tasks", "", { queue: q.name, states: s })}>${count(q.count[s])}</a></td>`)}
          <td class="n">${q.oldest_ready_seconds ? span(q.oldest_ready_seconds) : ""}</td><td class="n">${q.waiting_claims || ""}</td>
          <td><${Pause} q=${q} done=${live.again} /></td></tr>`)} />
      ${(at > 0 || num(d.found) > at + page) && html`<nav class="pager" aria-label="pages of queues">
        <button type="button" disabled=${at === 0} onClick=${() => go({ from: Math.max(0, at - page) || "" })}>back</button>
        <span>${count(at + 1)} to ${count(Math.min(num(d.found), at + page))} of ${count(d.found)}</span>
        <button type="button" disabled=${num(d.found) <= at + page} onClick=${() => go({ from: at + page })}>next</button></nav>`}`}<//>`;
}

// change sets fields of a queue, if nobody else did since it was shown.
const change = (q, settings) => patch(`/api/v1/queues/${inPath(q.name)}`, { settings, fields: Object.keys(settings), if_version: q.version });

// Pause has another key than resume, so that a question that is open goes away, and does not
// become the other one, when somebody else pauses the queue.
function Pause({ q, done }) {
  const has = some(q, unfinished);
  if (condition(q) !== "open") {
    return html`<${Act} needs=${["operate", q.name]} key="resume" label="resume" ask=${html`Resume <b>${q.name}</b>${has && ` with ${has}`}? It takes enqueues and hands out tasks again.`} done=${done}
      run=${async () => { await change(q, { paused: false, draining: false, note: "" }); return "resumed"; }} />`;
  }
  return html`<${Act} needs=${["operate", q.name]} key="pause" label="pause" kind="warn" reason="note, shown to others" done=${done}
    ask=${html`Pause <b>${q.name}</b>${has && ` with ${has}`}? Workers finish what they have and get nothing more; enqueues go on.`}
    run=${async (note) => { await change(q, { paused: true, note }); return "paused"; }} />`;
}

const Drain = ({ q, done }) => html`<${Act} needs=${["operate", q.name]} label="drain" kind="warn" reason="note, shown to others" done=${done} disabled=${condition(q) !== "open"}
  ask=${html`Drain <b>${q.name}</b>? Enqueues are refused; what is there (${some(q, unfinished) || "nothing"}) is worked off.`}
  run=${async (note) => { await change(q, { draining: true, note }); return "draining"; }} />`;

const Delete = ({ q, done }) => html`<${Act} needs=${["operate", q.name]} label="delete" kind="warn" done=${done} disabled=${unfinished.some((s) => num(q.count[s]) > 0)}
  title="only a queue without unfinished tasks is deleted: purge it first"
  ask=${html`Delete <b>${q.name}</b>, with its settings and its finished tasks (${some(q, finished) || "none"})? Nothing brings them back; the name is there again with its next task.`}
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
  const took = (d) => (quantile(d, 0.5) ? html`half ${quantile(d, 0.5)}, 99 % ${quantile(d, 0.99)}` : "none yet");
  return html`<div class="charts-room"><${Live} of=${live}>${(h) => html`
    <div class="charts">
      <${Chart} title="tasks a second, last hour" names=${["enqueued", "claimed", "completed"]} data=${rates(h, ["enqueued", "claimed", "completed"])} />
      <${Chart} title="failures a second" names=${["failed", "dead", "lease ran out", "cancelled"]} data=${rates(h, ["failed", "dead", "expired", "cancelled"])} />
    </div>
    <${Facts} of=${[["ready until claimed", took(h.wait)], ["run time", took(h.run)], ["enqueued until finished", took(h.finish)]]} />`}<//></div>`;
}

// Takers are the workers with a session that take a queue, and below them its dead tasks.
function Takers({ name, dead }) {
  const live = useLive((s) => get("/api/v1/workers", { queue: name, limit: 50 }, s), 5000, [name]);
  return html`<${Live} of=${live}>${({ workers }) => html`
    <h2>Workers</h2>
    <${Table} label="workers" empty=${html`no worker with a session takes it: <code>norn work -q ${name} -- CMD</code>`} head=${["worker", "state", "machine", { n: "busy" }, { n: "slots" }]}
      rows=${workers.map((w) => html`<tr key=${w.instance}><th scope="row"><a href=${link("workers", w.name)}>${w.name}</a></th>
        <td><${State} is=${w.draining ? "draining" : w.state} /> ${w.trouble && html`<small class="bad">${w.trouble}</small>`}</td><td>${w.machine}</td>
        <td class="n">${w.running.length}</td><td class="n">${w.slots}</td></tr>`)} />
    <${Dead} name=${name} any=${dead} />`}<//>`;
}

// Dead are the oldest dead tasks of a queue, which are asked for where it has some.
function Dead({ name, any }) {
  const live = useLive((s) => (any ? get("/api/v1/tasks", { queue: name, states: ["dead"], limit: 10 }, s) : Promise.resolve({ tasks: [] })), 5000, [name, any]);
  return html`<h2>Dead tasks</h2><${Live} of=${live}>${({ tasks, next_cursor: more, looked_at: looked }) => html`
    ${more && tasks.length < 10 && html`<p class="quiet">among the oldest ${count(looked)} tasks; <a href=${link("tasks", "", { queue: name, states: ["dead"] })}>among all</a></p>`}
    <${Table} stack label="dead tasks" empty="none" head=${["task", "error"]}
      rows=${tasks.map((t) => html`<tr key=${t.id}><th scope="row"><${TaskLink} id=${t.id} /></th><td class="reads bad">${t.error}</td></tr>`)} />`}<//>`;
}

const seconds = (s, none) => (num(s) ? span(num(s)) : none);
const own = (set, value) => html`${value}${set ? "" : html` <small>(default)</small>`}`;

function One({ q, done }) {
  const { settings: s, effective: e } = q;
  return html`
    <p class="acts"><${State} is=${condition(q)} /> ${e.note} ${e.paused && e.paused_by && html`<small>paused by ${e.paused_by}</small>`}
      <${Pause} q=${q} done=${done} /><${Drain} q=${q} done=${done} />
      <${Bulk} action="cancel" label="purge" of=${q.name} needs=${q.name} filter=${{ queue: q.name, states: ["waiting", "scheduled", "ready"] }} done=${done} /><${Delete} q=${q} done=${done} />
      <a class="button" href=${link("tasks", "", { queue: q.name })}>tasks</a> ${may("enqueue", q.name) && html`<a class="button" href=${link("enqueue", "", { queue: q.name })}>enqueue</a>`}</p>
    <section class="figures" aria-label="tasks by state">${columns.map((c) => html`<${Figure} label=${c} value=${count(q.count[c])} bad=${c === "dead" && num(q.count.dead) > 0} href=${link("tasks", "", { queue: q.name, states: c })} />`)}</section>
    <${Rates} name=${q.name} />
    <h2>Settings</h2>
    <${Facts} of=${[
      ["oldest ready task", q.oldest_ready_seconds ? span(q.oldest_ready_seconds) : "none"],
      ["claim requests that wait", String(q.waiting_claims)],
      ["lease", own(s.lease_seconds, seconds(e.lease_seconds, ""))],
      ["attempts", own(s.retry, `${e.retry.max_attempts}, backoff from ${span(e.retry.initial_seconds)} to ${span(e.retry.max_seconds)}, × ${e.retry.multiplier}`)],
      ["finished tasks", own(s.retention !== "unspecified", e.retention)],
      ["kept for", own(s.retention_seconds, seconds(e.retention_seconds, "ever"))],
      ["dead ones for", own(s.dead_retention_seconds, seconds(e.dead_retention_seconds, "ever"))],
      ["most tasks", num(e.max_tasks) ? count(e.max_tasks) : "no limit"],
    ]} />
    ${may("operate", q.name) && html`<${Settings} q=${q} done=${done} />`}
    <${Takers} name=${q.name} dead=${num(q.count.dead) > 0} />`;
}
