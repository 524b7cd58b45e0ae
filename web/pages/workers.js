// Workers with a session: what they run, and whether they are heard of.

import { useState } from "./vendor/hooks.js";
import { span } from "./format.js";
import { get, inPath, post } from "./api.js";
import { useLive } from "./live.js";
import { Act, Ago, Facts, Live, Pager, QueueLink, State, Table, TaskLink, html, link, useOrder } from "./parts.js";

const shown = 5; // running tasks that the list names
const most = 100; // of one worker

const told = (w, action) => async (reason) => {
  await post(`/api/v1/workers/${inPath(w.name)}`, { instance: w.instance, action, reason });
  return action === "drain" ? "it takes nothing new" : "it is told to stop";
};

const runs = (w) => (w.running.length === 1 ? "the task that it runs" : `the ${w.running.length} tasks that it runs`);

const Acts = ({ w, done }) => html`
  <${Act} needs=${["control", w.name]} label="drain" kind="warn" disabled=${w.draining} ask=${html`Drain <b>${w.name}</b>? It finishes ${runs(w)}, takes nothing new, and leaves.`} reason="reason, shown to the worker" run=${told(w, "drain")} done=${done} />
  <${Act} needs=${["control", w.name]} label="kill" kind="warn" ask=${html`Kill <b>${w.name}</b>? It stops everything at once; ${runs(w)} go to others.`} reason="reason, shown to the worker" run=${told(w, "kill")} done=${done} />`;

const Running = ({ w }) => html`${w.running.slice(0, shown).map((c) => html`<${TaskLink} id=${c.id} /> `)}
  ${w.running.length > shown && html`<a href=${link("workers", w.name)}>${w.running.length - shown} more</a>`}`;

const condition = (w) => (w.draining ? "draining" : w.state);

const Condition = ({ w }) => html`<${State} is=${condition(w)} />${w.refused !== "unspecified" && html` <small class="bad">refused: ${w.refused}</small>`}${w.killed && html` <small class="bad">killed${w.state === "must_die" ? ", not gone" : ""}</small>`}${w.resting_seconds > 0 && html` <small class="bad">refuses tasks</small>`}${w.trouble && html` <small class="bad">cannot begin tasks: ${w.trouble}</small>`}`;

const orders = { name: (w) => w.name, busy: (w) => w.running.length, machine: (w) => w.machine, node: (w) => w.node, since: (w) => Date.parse(w.started_at) || 0, heard: (w) => w.silent_seconds };

export function Workers() {
  const [cursors, set] = useState([]), sort = useOrder(orders);
  const live = useLive((s) => get("/api/v1/workers", { cursor: cursors.at(-1), limit: 100 }, s), 2000, [cursors.length]);
  const all = (d) => !cursors.length && !d.next_cursor;
  return html`<h1>Workers</h1><${Live} of=${live}>${(d) => html`
    <${Table} label="workers" sort=${all(d) && sort} empty=${html`no worker has a session: <code>norn work -q mail -- cat</code>`}
      head=${[{ text: "worker", by: "name" }, "state", "queues", { n: "slots in use", by: "busy" }, "tasks", { text: "machine", by: "machine" }, { text: "node", by: "node" }, { text: "since", by: "since" }, { n: "last heard", by: "heard" }, ""]}
      rows=${sort.order(d.workers).map((w) => html`<tr key=${w.name + w.instance}><th scope="row"><a href=${link("workers", w.name)}>${w.name}</a></th>
        <td><${Condition} w=${w} /></td>
        <td>${w.queues.map((q) => html`<${QueueLink} name=${q.queue} /> `)}</td><td class="n">${w.running.length} of ${w.slots}</td>
        <td><${Running} w=${w} /></td><td>${w.machine}</td><td>${w.node}</td><td><${Ago} at=${w.started_at} /></td>
        <td class=${w.silent_seconds > 10 ? "n bad" : "n"}>${span(w.silent_seconds)} ago</td><td><${Acts} w=${w} done=${live.again} /></td></tr>`)} />
    <${Pager} cursors=${cursors} next=${d.next_cursor} set=${set} />`}<//>
    <p class="quiet">Programs that only claim (<code>norn task claim</code>, the API) have no session and are not listed: their claims stand with the tasks.</p>`;
}

export function Worker({ name }) {
  const live = useLive((s) => get(`/api/v1/workers/${inPath(name)}`, {}, s), 2000, [name]);
  return html`<h1>Worker ${name}</h1><${Live} of=${live}>${(d) => d.workers.map((w) => html`<${One} key=${w.instance} w=${w} done=${live.again} />`)}<//>`;
}

const One = ({ w, done }) => html`
  <p class="acts"><${Condition} w=${w} /> <${Acts} w=${w} done=${done} /></p>
  <${Facts} of=${[
    ["queues", w.queues.map((q) => html`<${QueueLink} name=${q.queue} />${q.slots ? ` (${q.slots} slots)` : ""} `)],
    ["slots in use", `${w.running.length} of ${w.slots}`], ["machine", w.machine], ["node", w.node], ["since", html`<${Ago} at=${w.started_at} />`],
    ["last heard", span(w.silent_seconds) + " ago"], ["given back or refused", Number(w.declined) > 0 && `${w.declined} tasks${w.declines !== "unspecified" ? `, the last because: ${w.declines}` : ""}`],
  ]} />
  <h2>Tasks that it runs</h2><${Tasks} w=${w} />`;

// Tasks of a worker are read by their IDs, a page of them.
function Tasks({ w }) {
  const ids = w.running.slice(0, most).map((c) => c.id);
  const live = useLive((s) => Promise.all(ids.map((id) => get(`/api/v1/tasks/${inPath(id)}`, {}, s).then((d) => d.task, (e) => (e.status === 404 ? null : Promise.reject(e))))), 0, [ids.join()]);
  if (!ids.length) return html`<p class="quiet">none now</p>`;
  const began = (t) => t.claims.find((c) => c.outcome === "active")?.start;
  return html`<${Live} of=${live}>${(tasks) => html`
    <${Table} stack label="tasks of the worker" head=${["task", "queue", "kind", "state", { n: "attempt" }, "claimed", "last error"]}
      rows=${tasks.filter(Boolean).map((t) => html`<tr key=${t.id}><th scope="row"><${TaskLink} id=${t.id} /></th><td><${QueueLink} name=${t.queue} /></td><td class="brief">${t.kind}</td>
        <td><${State} is=${t.state} /></td><td class="n">${t.attempts + 1} of ${t.max_attempts}</td><td><${Ago} at=${began(t)} /></td><td class="reads">${t.error}</td></tr>`)} />
    ${w.running.length > most && html`<p class="quiet">${w.running.length - most} more are not shown.</p>`}`}<//>`;
}
