// The cluster: nodes and their clocks, the ring of partitions, who leads them, what moves,
// what is repaired.

import { useState } from "./vendor/hooks.js";
import { count, num, size, span } from "./format.js";
import { get, may } from "./api.js";
import { useLive } from "./live.js";
import { Facts, Live, Pager, State, Table, Wrong, html } from "./parts.js";

const page = 64; // partitions in the table at once

// hue gives each node a colour of its own, far from those of its neighbours in the list.
const hue = (i) => (210 + i * 137.5) % 360;
const colour = (names, name) => (name ? `hsl(${hue(names.indexOf(name))} 55% 52%)` : "var(--bad)");

const ill = (p) => !p.enqueue_available || !p.claim_available || !p.leader;

export function Cluster() {
  const live = useLive((s) => get("/api/v1/cluster", {}, s), 2000, []);
  return html`<h1>Cluster</h1><${Live} of=${live}>${(d) => html`<${Shown} d=${d} />`}<//>`;
}

function Shown({ d }) {
  const names = d.nodes.map((n) => n.name);
  const [at, pick] = useState(null);
  return html`
    <${Facts} of=${[
      ["cluster", html`<span class="id">${d.cluster_id}</span>`], ["as seen by", d.node], ["replicas", String(d.replicas)],
      ["voters", d.voters.join(", ")],
      ["register", d.register && html`<${State} is=${d.register.majority ? "majority" : "no_majority"} /> revision ${d.register.revision}${num(d.register.generation) ? `, generation ${d.register.generation}` : ""}`],
    ]} />
    <h2>Nodes</h2><${Nodes} nodes=${d.nodes} names=${names} />
    <div class="beside"><div><h2>Ring</h2><${Ring} parts=${d.partitions} names=${names} at=${at} pick=${pick} /></div>
      <div><h2>Movement and repair</h2><${Work} d=${d} /><${Verify} ids=${d.partitions.map((p) => p.id)} /></div></div>
    <h2>Partitions</h2><${Partitions} parts=${d.partitions} names=${names} at=${at} pick=${pick} />
    <p class="quiet">Joining, leaving, replacing: <code>norn cluster --help</code></p>`;
}

const Nodes = ({ nodes, names }) => html`<${Table} label="nodes" head=${["node", "", "zone", ...["weight", "leads", "has", "to copy", "to hand over", "clock off by", "set aside"].map((n) => ({ n })), "address"]}
  rows=${nodes.map((n) => html`<tr key=${n.name}><th scope="row"><i class="dot" style=${{ background: colour(names, n.name) }}></i> ${n.name}</th>
    <td><${State} is=${n.alive ? n.state : "down"} /></td><td>${n.zone}</td><td class="n">${n.weight}</td><td class="n">${n.led}</td><td class="n">${n.vnodes}</td>
    <td class="n">${n.copies_left || ""}</td><td class="n">${n.handovers_left || ""}</td>
    <td class=${"n" + (n.clock_fault ? " bad" : "")} title=${n.clock_fault}>${n.clock_offset_ms.toFixed(1)} ± ${n.clock_error_ms.toFixed(1)} ms${n.clock_fault && html` <small>${n.clock_fault}</small>`}</td>
    <td class="n">${n.quarantined_tasks ? `${count(n.quarantined_tasks)}, ${size(n.quarantined_bytes)}` : ""}</td><td>${n.address}</td></tr>`)} />`;

// Ring draws the partitions as a circle, each in the colour of its leader; those that
// serve less than they should stick out, those that move have a mark within.
function Ring({ parts, names, at, pick }) {
  const n = parts.length || 1, step = (2 * Math.PI) / n, gap = Math.min(0.01, step / 6);
  const point = (r, a) => `${(150 + r * Math.sin(a)).toFixed(2)} ${(150 - r * Math.cos(a)).toFixed(2)}`;
  const arc = (i, inner, outer) => {
    const a = i * step + gap, b = (i + 1) * step - gap, long = b - a > Math.PI ? 1 : 0;
    return `M${point(inner, a)}L${point(outer, a)}A${outer} ${outer} 0 ${long} 1 ${point(outer, b)}L${point(inner, b)}A${inner} ${inner} 0 ${long} 0 ${point(inner, a)}Z`;
  };
  const led = (name) => parts.filter((p) => p.leader === name).length;
  return html`<svg class="ring" viewBox="0 0 300 300" role="img" aria-label=${`${n} partitions: ${names.map((s) => `${s} leads ${led(s)}`).join(", ")}; ${parts.filter(ill).length} do not serve everything`}>
    ${parts.map((p, i) => html`<path d=${arc(i, 95, ill(p) ? 148 : 135)} fill=${colour(names, p.leader)} class=${p.id === at ? "picked" : ""} onClick=${() => pick(p.id)}>
      <title>partition ${p.id}: led by ${p.leader || "nobody"}, epoch ${p.epoch}, held by ${p.cohort.join(", ")}${p.moving ? ", moves" : ""}</title></path>
      ${p.moving && html`<path d=${arc(i, 86, 91)} class="moves" />`}`)}
    <text x="150" y="146" text-anchor="middle">${n}</text><text x="150" y="164" text-anchor="middle" class="small">partitions</text>
  </svg>`;
}

function Work({ d }) {
  const m = d.movement || {}, r = d.repair || {};
  const left = num(m.copies_left) + num(m.handovers_left);
  return html`<${Facts} of=${[
    ["to be copied", html`${m.copies_left} <small>${count(m.copied)} done since the node began</small>`],
    ["to be handed over", html`${m.handovers_left} <small>${count(m.handed_over)} done</small>`],
    ["stuck", num(m.stuck) > 0 && html`<b class="bad">${m.stuck}</b>`],
    ["comparisons", html`${count(r.compared)} <small>${r.left} of this round left${num(r.failed) ? `, ${count(r.failed)} failed` : ""}</small>`],
    ["facts repaired", count(r.facts_moved)],
    ["clashes", num(r.clashes) > 0 && html`<b class="bad">${count(r.clashes)}</b>`],
  ]} />${left > 0 && html`<p role="status">Data move: ${left} steps are left.</p>`}`;
}

const together = 32; // partitions that are compared in one request

// Verify asks all replicas of all partitions what they hold, when somebody wants to know.
function Verify({ ids }) {
  const [s, set] = useState({});
  const run = async () => {
    const begun = Date.now();
    let bad = [];
    try {
      for (let n = 0; n < ids.length; n += together) {
        set({ busy: true, n });
        const { partitions } = await get("/api/v1/cluster/verify", { partitions: ids.slice(n, n + together) });
        bad = [...bad, ...partitions.filter((p) => p.differs || p.unreachable)];
      }
      set({ took: (Date.now() - begun) / 1000, n: ids.length, bad });
    } catch (error) {
      set({ error });
    }
  };
  if (!may("cluster")) return null;
  return html`<p><button type="button" disabled=${s.busy} onClick=${run}>compare all replicas now</button></p>
    ${s.busy && html`<p class="quiet" aria-busy="true">every node reads what it has … ${s.n} of ${ids.length}</p>`}<${Wrong} error=${s.error} />
    ${s.bad && (s.bad.length ? html`<ul class="troubles">${s.bad.map((p) => html`<li>partition ${p.id}: ${p.unreachable ? "not all replicas answer" : "replicas differ"}
      ${p.replicas.filter((r) => r.problem).map((r) => ` (${r.node}: ${r.problem})`)}</li>`)}</ul>`
      : html`<p class="good" role="status">All replicas of ${s.n} partitions hold the same (${span(s.took)}).</p>`)}`;
}

function Partitions({ parts, names, at, pick }) {
  const [only, set] = useState("all"), [begins, turn] = useState([]); // each page by where it begins
  const kinds = { all: () => true, "not served": ill, moving: (p) => p.moving, "too few copies": (p) => p.copies < Math.min(p.planned.length, p.cohort.length) || p.cohort.length < p.planned.length };
  const of = names.includes(only) ? (p) => p.leader === only : kinds[only];
  let rows = parts.filter(of);
  if (at !== null) rows = [...rows.filter((p) => p.id === at), ...rows.filter((p) => p.id !== at)];
  const from = begins.at(-1) < rows.length ? begins.at(-1) : 0;
  const choose = (e) => { set(e.target.value); turn([]); pick(null); };
  return html`<form class="filter"><label>show<select value=${only} onChange=${choose}>
      ${Object.keys(kinds).map((k) => html`<option value=${k}>${k} (${parts.filter(kinds[k]).length})</option>`)}
      ${names.map((s) => html`<option value=${s}>led by ${s} (${parts.filter((p) => p.leader === s).length})</option>`)}</select></label></form>
    <${Table} label="partitions" head=${["partition", "leader", { n: "epoch" }, "held by", "planned", { n: "copies" }, "enqueue", "claim", { n: "oldest ready" }, ""]}
      rows=${rows.slice(from, from + page).map((p) => html`<tr key=${p.id} class=${p.id === at ? "picked" : ""}><th scope="row">${p.id}</th>
        <td>${p.leader ? html`<i class="dot" style=${{ background: colour(names, p.leader) }}></i> ${p.leader}` : html`<span class="bad">nobody</span>`}</td>
        <td class="n">${p.epoch}</td><td>${p.cohort.join(", ")}</td><td>${p.planned.join(", ")}</td><td class="n">${p.copies}</td>
        <td><${State} is=${p.enqueue_available ? "yes" : "no"} /></td><td><${State} is=${p.claim_available ? "yes" : "no"} /></td>
        <td class="n">${p.oldest_ready_seconds ? span(p.oldest_ready_seconds) : ""}</td><td>${p.moving && "moves"}</td></tr>`)} />
    <${Pager} cursors=${begins} next=${from + page < rows.length && from + page} set=${turn} />`;
}
