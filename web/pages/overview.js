// The first page: what needs somebody, what there is to do, and how fast it goes.

import { useState } from "./vendor/hooks.js";
import { clock, count, num, since, span } from "./format.js";
import { get } from "./api.js";
import { Chart } from "./chart.js";
import { useLive } from "./live.js";
import { Figure, Live, QueueLink, Table, html, link } from "./parts.js";

const every = 3000; // ms between two looks
const states = ["ready", "claimed", "waiting", "scheduled"];
const spans = { "10 minutes": 600, hour: 3600, "6 hours": 21600, day: 86400 };

// look asks for everything that the page shows.
async function look(seconds, signal) {
  const [ranked, attention, history, cluster] = await Promise.all([
    get("/api/v1/ranking", { by: "busy", descending: true, limit: 10 }, signal), get("/api/v1/attention", {}, signal),
    get("/api/v1/history", { seconds }, signal), get("/api/v1/cluster", {}, signal)]);
  return { total: ranked.total || {}, queues: ranked.queues, attention, history, cluster };
}

// rates gives what a chart draws of a history: times, and decisions a second. The step under
// way is left out, and what is before the nodes knew all is empty.
export function rates(history, names) {
  const step = history.step_seconds, from = Date.parse(history.start) / 1000, whole = Date.parse(history.since) / 1000;
  const lists = names.map((n) => (history.decisions?.[n] || []).slice(0, -1));
  const times = (lists[0] || []).map((_, i) => from + (i + 1) * step);
  return [times, ...lists.map((l) => l.map((n, i) => (times[i] <= whole ? null : num(n) / step)))];
}

export const Concerns = ({ of }) => html`<ul class="concerns">${of.map((c) => html`<li class=${c.severity} key=${c.kind + c.subject}>
  <b class="level">${c.severity}</b> <a href=${c.link}>${c.text}</a>${c.since && html` <time datetime=${c.since} title=${clock(c.since)}>${since(c.since)}</time>`}
  <p class="quiet">${c.action.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part))}</p></li>`)}</ul>`;

export function Overview() {
  const [seconds, set] = useState(600);
  const live = useLive((s) => look(seconds, s), every, [seconds]);
  return html`<h1>Overview</h1><${Live} of=${live}>${(seen) => html`<${Shown} ...${seen} seconds=${seconds} set=${set} />`}<//>`;
}

function Shown({ total, queues, attention, history, cluster, seconds, set }) {
  const oldest = (cluster.partitions || []).reduce((most, p) => Math.max(most, p.oldest_ready_seconds), 0);
  const up = (cluster.nodes || []).filter((n) => n.alive).length;
  const more = num(history.nodes) < (cluster.nodes || []).length ? `, of ${history.nodes} nodes that answer` : "";
  return html`
    <section aria-label="what needs somebody">${attention.concerns.length
      ? html`<${Concerns} of=${attention.concerns} />`
      : html`<p class="good">Nothing is wrong, as far as ${attention.node} knows.</p>`}
      ${attention.unseen.map((u) => html`<p class="wrong">not looked at: ${u}</p>`)}</section>
    <section class="figures" aria-label="tasks">
      ${[...states, "completed", "dead", "cancelled"].map((s) => html`<${Figure} label=${s} value=${count(total[s])} bad=${s === "dead" && num(total[s]) > 0} href=${link("tasks", "", { states: s })} />`)}
      <${Figure} label="oldest ready" value=${span(oldest)} bad=${oldest > 60} href=${link("tasks", "", { states: "ready" })} />
      <${Figure} label="nodes up" value=${`${up} of ${(cluster.nodes || []).length}`} bad=${up < (cluster.nodes || []).length} href=${link("cluster")} />
    </section>
    <p class="acts"><label>last<select value=${seconds} onChange=${(e) => set(Number(e.target.value))}>
      ${Object.entries(spans).map(([name, n]) => html`<option value=${n}>${name}</option>`)}</select></label></p>
    <div class="charts" key=${seconds}>
      <${Chart} title=${`tasks a second, in the cluster${more}`} names=${["enqueued", "claimed", "completed"]} data=${rates(history, ["enqueued", "claimed", "completed"])} />
      <${Chart} title=${`failures a second${more}`} names=${["failed", "dead", "lease ran out", "cancelled"]} data=${rates(history, ["failed", "dead", "expired", "cancelled"])} />
    </div>
    <h2>Busiest queues</h2>
    <${Table} label="busiest queues" empty=${html`no task yet: <code>norn task enqueue -q mail hello</code>`} head=${["queue", ...[...states, "dead"].map((n) => ({ n }))]}
      rows=${queues.map((q) => html`<tr key=${q.name}><th scope="row"><${QueueLink} name=${q.name} /></th>
        ${[...states, "dead"].map((s) => html`<td class="n"><a href=${link("tasks", "", { queue: q.name, states: s })}>${count(q.count[s])}</a></td>`)}</tr>`)} />
    <p class="quiet">Rates are of all nodes that answer, and are kept for a day; a node that starts again begins anew. <a href="metrics">/metrics</a> of each node counts what it decides itself.</p>`;
}
