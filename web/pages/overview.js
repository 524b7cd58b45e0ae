// The first page: what there is to do, how fast it goes, and what is wrong.

import { count, num, span } from "./format.js";
import { get, metrics } from "./api.js";
import { Chart } from "./chart.js";
import { useLive } from "./live.js";
import { Figure, Live, QueueLink, html, link } from "./parts.js";

const every = 2000; // ms between two looks
const most = 300; // looks that are kept: ten minutes
const counters = { enqueued: "norn_tasks_enqueued_total", claimed: "norn_claims_granted_total", completed: "norn_tasks_completed_total" };
const states = ["ready", "claimed", "waiting", "scheduled"];

// What was seen, kept while the tab is open, whatever page is shown: times, rates of the
// node, counts of all tasks.
const seen = { last: null, times: [], rates: [[], [], []], counts: [[], [], [], []] };

function note(now, m, total) {
  const { last } = seen;
  const pass = last ? now - last.now : 0;
  if (last && pass < 0.5) return;
  seen.times.push(now);
  Object.values(counters).forEach((name, i) => {
    const rose = last ? num(m[name]) - num(last.m[name]) : -1;
    seen.rates[i].push(rose < 0 ? null : rose / pass); // less than before: the node began again
  });
  states.forEach((s, i) => seen.counts[i].push(num(total[s])));
  seen.last = { now, m };
  for (const row of [seen.times, ...seen.rates, ...seen.counts]) if (row.length > most) row.shift();
}

// look asks for everything that the page shows.
async function look(signal) {
  const [queues, m, cluster] = await Promise.all([
    get("/api/v1/tasks/count", {}, signal), metrics(signal), get("/api/v1/cluster", {}, signal)]);
  note(Date.now() / 1000, m, queues.total || {});
  return { total: queues.total || {}, queues: queues.queues, cluster, m };
}

// troubles is what somebody should look at, worst first: [text, address].
export function troubles({ total, cluster }) {
  const out = [];
  const tell = (n, one, many, href) => { if (n > 0) out.push([`${count(n)} ${n === 1 ? one : many}`, href]); };
  const parts = cluster.partitions || [], nodes = cluster.nodes || [];
  if (cluster.register && !cluster.register.majority) out.push(["the register has no majority: nothing about the cluster can change", link("cluster")]);
  tell(parts.filter((p) => !p.enqueue_available).length, "partition takes no enqueues", "partitions take no enqueues", link("cluster"));
  tell(parts.filter((p) => !p.claim_available).length, "partition hands out no claims", "partitions hand out no claims", link("cluster"));
  for (const n of nodes.filter((one) => !one.alive)) out.push([`node ${n.name} does not answer`, link("cluster")]);
  for (const n of nodes.filter((one) => one.forgot)) out.push([`disk of ${n.name} has lost what it had acknowledged: ${n.forgot}`, link("cluster")]);
  for (const n of nodes.filter((one) => one.clock_fault)) out.push([`clock of ${n.name}: ${n.clock_fault}`, link("cluster")]);
  tell(num(cluster.movement?.stuck), "move is stuck", "moves are stuck", link("cluster"));
  tell(num(cluster.repair?.clashes), "fact differs between replicas", "facts differ between replicas", link("cluster"));
  tell(nodes.reduce((n, one) => n + num(one.quarantined_tasks), 0), "task is set aside", "tasks are set aside", link("cluster"));
  tell(num(total.dead), "task is dead", "tasks are dead", link("tasks", "", { states: "dead" }));
  return out;
}

export function Overview() {
  const live = useLive(look, every, []);
  return html`<h1>Overview</h1><${Live} of=${live}>${(seenNow) => html`<${Shown} ...${seenNow} />`}<//>`;
}

function Shown({ total, queues, cluster, m }) {
  const wrong = troubles({ total, cluster });
  const oldest = (cluster.partitions || []).reduce((most, p) => Math.max(most, p.oldest_ready_seconds), 0);
  const up = (cluster.nodes || []).filter((n) => n.alive).length;
  const busiest = [...queues].sort((a, b) => num(b.ready) + num(b.claimed) - num(a.ready) - num(a.claimed)).slice(0, 10);
  return html`
    <section class="figures" aria-label="tasks">
      ${[...states, "completed", "dead", "cancelled"].map((s) => html`<${Figure} label=${s} value=${count(total[s])} bad=${s === "dead" && num(total[s]) > 0} href=${link("tasks", "", { states: s })} />`)}
      <${Figure} label="oldest ready" value=${span(oldest)} bad=${oldest > 60} href=${link("tasks", "", { states: "ready" })} />
      <${Figure} label="nodes up" value=${`${up} of ${(cluster.nodes || []).length}`} bad=${up < (cluster.nodes || []).length} href=${link("cluster")} />
    </section>
    <section aria-label="what is wrong">${wrong.length
      ? html`<ul class="troubles">${wrong.map(([text, href]) => html`<li><a href=${href}>${text}</a></li>`)}</ul>`
      : html`<p class="good">Nothing is wrong, as far as ${cluster.node} knows.</p>`}</section>
    <div class="charts">
      <${Chart} title=${`tasks a second, at ${cluster.node}`} names=${Object.keys(counters)} data=${[seen.times, ...seen.rates]} />
      <${Chart} title="tasks, in all partitions" names=${states} data=${[seen.times, ...seen.counts]} />
    </div>
    <h2>Busiest queues</h2>
    <div class="wide"><table aria-label="busiest queues"><thead><tr><th>queue</th>${states.map((s) => html`<th class="n">${s}</th>`)}<th class="n">dead</th></tr></thead>
    <tbody>${busiest.map((q) => html`<tr><td><${QueueLink} name=${q.queue} /></td>
      ${[...states, "dead"].map((s) => html`<td class="n"><a href=${link("tasks", "", { queue: q.queue, states: s })}>${count(q[s])}</a></td>`)}</tr>`)}
      ${!busiest.length && html`<tr><td class="quiet" colspan="6">no task yet: <code>norn task enqueue -q mail hello</code></td></tr>`}</tbody></table></div>
    <p class="quiet">Rates count what came to this node; <a href="metrics">/metrics</a> of each node gives the whole. It has ${count(m.norn_connections)} connections, ${count(m.norn_requests_waiting)} requests waiting.</p>`;
}
