// Workers with a session: what they run, and whether they are heard of.

import { useState } from "./vendor/hooks.js";
import { span } from "./format.js";
import { get, inPath, post } from "./api.js";
import { useLive } from "./live.js";
import { Act, Ago, Live, Pager, QueueLink, State, Table, TaskLink, html, link } from "./parts.js";

const shown = 5; // running tasks that the list names

const told = (w, action) => async (reason) => {
  await post(`/api/v1/workers/${inPath(w.name)}`, { instance: w.instance, action, reason });
  return action === "drain" ? "it takes nothing new" : "it is told to stop";
};

const Acts = ({ w, done }) => html`
  <${Act} needs=${["control", w.name]} label="drain" kind="warn" disabled=${w.draining} ask=${html`Drain <b>${w.name}</b>? It finishes what it runs, takes nothing new, and leaves.`} reason="reason, shown to the worker" run=${told(w, "drain")} done=${done} />
  <${Act} needs=${["control", w.name]} label="kill" kind="warn" ask=${html`Kill <b>${w.name}</b>? It stops everything at once; its tasks are given to others.`} reason="reason, shown to the worker" run=${told(w, "kill")} done=${done} />`;

const Running = ({ w, all }) => html`${w.running.slice(0, all ? undefined : shown).map((c) => html`<${TaskLink} id=${c.id} /> `)}
  ${!all && w.running.length > shown && html`<a href=${link("workers", w.name)}>${w.running.length - shown} more</a>`}`;

const condition = (w) => (w.draining ? "draining" : w.state);

function List({ workers, done, all }) {
  return html`<${Table} label="workers" empty=${html`no worker has a session: <code>norn work -q mail -- cat</code>`}
    head=${["worker", "", "queues", { n: "runs" }, "tasks", "machine", "node", "since", { n: "last heard" }, ""]}
    rows=${workers.map((w) => html`<tr key=${w.name + w.instance}><th scope="row"><a href=${link("workers", w.name)}>${w.name}</a></th>
      <td><${State} is=${condition(w)} />${w.refused !== "unspecified" && html` <small class="bad">refused: ${w.refused}</small>`}${w.killed && html` <small class="bad">killed${w.state === "must_die" ? ", not gone" : ""}</small>`}${w.resting_seconds > 0 && html` <small class="bad">refuses tasks</small>`}${w.trouble && html` <small class="bad">cannot begin tasks: ${w.trouble}</small>`}</td>
      <td>${w.queues.map((q) => html`<${QueueLink} name=${q.queue} /> `)}</td><td class="n">${w.running.length} of ${w.slots}</td>
      <td><${Running} w=${w} all=${all} /></td><td>${w.machine}</td><td>${w.node}</td><td><${Ago} at=${w.started_at} /></td>
      <td class=${w.silent_seconds > 10 ? "n bad" : "n"}>${span(w.silent_seconds)} ago</td><td><${Acts} w=${w} done=${done} /></td></tr>`)} />`;
}

export function Workers() {
  const [cursors, set] = useState([]);
  const live = useLive((s) => get("/api/v1/workers", { cursor: cursors.at(-1), limit: 100 }, s), 2000, [cursors.length]);
  return html`<h1>Workers</h1><${Live} of=${live}>${(d) => html`<${List} workers=${d.workers} done=${live.again} />
    <${Pager} cursors=${cursors} next=${d.next_cursor} set=${set} />`}<//>
    <p class="quiet">Programs that only claim (<code>norn task claim</code>, the API) have no session and are not listed: their claims stand with the tasks.</p>`;
}

export function Worker({ name }) {
  const live = useLive((s) => get(`/api/v1/workers/${inPath(name)}`, {}, s), 2000, [name]);
  return html`<h1>Worker ${name}</h1><${Live} of=${live}>${(d) => html`<${List} workers=${d.workers} done=${live.again} all=${true} />`}<//>`;
}
