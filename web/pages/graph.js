// What a task waits for and what waits for it: a picture of the tasks, each with its state.

import { useEffect, useMemo, useState } from "./vendor/hooks.js";
import { Graph as Layout, layout } from "./vendor/dagre.js";
import { get, inPath } from "./api.js";
import { html, link } from "./parts.js";

const most = 60, mostAfter = 24; // tasks in the picture, and of those what waits for the one that is looked at
const box = { width: 190, height: 36 };

// dependents reads what is not finished and waits for a task, and for that, nearest first, until there are `mostAfter`.
async function dependents(task, signal) {
  const nodes = new Map([[task.id, task]]);
  let front = [task], cut = false;
  while (front.length) {
    const pages = await Promise.all(front.slice(0, mostAfter).map((t) => get("/api/v1/tasks", { filter: { depends_on: t.id }, states: ["waiting", "scheduled", "ready", "claimed"], limit: mostAfter + 1 }, signal)));
    front = [];
    for (const t of pages.flatMap((d) => d.tasks)) {
      if (nodes.has(t.id)) continue;
      cut ||= nodes.size > mostAfter;
      if (nodes.size > mostAfter) break;
      nodes.set(t.id, t);
      front.push(t);
    }
  }
  return { nodes, cut };
}

// collect reads dependents, and dependencies, nearest first, until there are `most`.
async function collect(task, signal) {
  const { nodes, cut: more } = await dependents(task, signal);
  let front = [task], cut = more;
  while (front.length) {
    const ids = [...new Set(front.flatMap((t) => t.dependencies))].filter((id) => !nodes.has(id));
    const take = ids.slice(0, most - nodes.size);
    cut ||= take.length < ids.length;
    front = await Promise.all(take.map((id) => get(`/api/v1/tasks/${inPath(id)}`, {}, signal).then((d) => d.task)
      .catch((e) => { if (e.status === 404) return { id, state: "unknown", queue: "", kind: "", dependencies: [] }; throw e; })));
    front.forEach((t) => nodes.set(t.id, t));
  }
  return { nodes, cut };
}

// place gives each task its place, and each dependency its way: what others wait for stands to
// their left, however many ways lead there, and no line runs through a task.
export function place(nodes) {
  const g = new Layout();
  g.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 56, marginx: 4, marginy: 4 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const t of nodes.values()) g.setNode(t.id, { ...box });
  for (const t of nodes.values()) for (const id of t.dependencies) if (nodes.has(id)) g.setEdge(id, t.id);
  layout(g);
  const size = g.graph(), bends = g.edges().flatMap((e) => g.edge(e).points), low = (k) => Math.floor(Math.min(0, ...bends.map((p) => p[k]))) - 2; // lines may pass beyond the tasks
  return {
    x: low("x"), y: low("y"), width: Math.ceil(Math.max(size.width, ...bends.map((p) => p.x))) - low("x") + 4, height: Math.ceil(Math.max(size.height, ...bends.map((p) => p.y))) - low("y") + 4,
    at: new Map(g.nodes().map((id) => [id, g.node(id)])),
    edges: g.edges().map((e) => ({ from: e.v, to: e.w, points: g.edge(e).points })),
  };
}

const way = (points) => points.map((p, i) => `${i ? "L" : "M"}${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join("");

export function Graph({ task }) {
  const [s, set] = useState(null);
  useEffect(() => {
    const stop = new AbortController();
    collect(task, stop.signal).then(set).catch((error) => { if (error.name !== "AbortError") set({ error }); });
    return () => stop.abort();
  }, [task.id, task.state]);
  const drawn = useMemo(() => s?.nodes && place(s.nodes), [s]);
  if (!s && !task.dependencies.length) return null; // there may be nothing to draw
  const head = html`<h2>Dependencies</h2>${task.dependencies.length > 0 && html`<p class="quiet">if one of them fails: ${task.on_dependency_failure}</p>`}`;
  if (!s) return html`${head}<p class="quiet" aria-busy="true">asking for them …</p>`;
  if (s.nodes?.size === 1 && !task.dependencies.length) return null;
  if (s.error) return html`${head}<p class="wrong" role="alert">${s.error.message}</p>`;
  return html`${head}<div class="wide" tabindex="0" role="group" aria-label="dependencies, scrolls sideways"><svg class="graph" width=${drawn.width} height=${drawn.height} viewBox=${`${drawn.x} ${drawn.y} ${drawn.width} ${drawn.height}`} role="group" aria-label=${`dependencies: ${s.nodes.size} tasks`}>
    <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
    ${drawn.edges.map((e) => html`<path class="edge" data-from=${e.from} data-to=${e.to} d=${way(e.points)} marker-end="url(#tip)" />`)}
    ${[...s.nodes.values()].map((t) => html`<a href=${link("tasks", t.id)} aria-label=${`${t.id}, ${t.state}`}><g class=${"node " + t.state + (t.id === task.id ? " self" : "")} data-id=${t.id} transform=${`translate(${drawn.at.get(t.id).x - box.width / 2} ${drawn.at.get(t.id).y - box.height / 2})`}>
      <title>${t.id} ${t.state}</title><rect width=${box.width} height=${box.height} rx="5" /><text x="8" y="15">…${t.id.slice(-10)} ${t.state}</text><text x="8" y="29" class="small">${(t.kind ? `${t.queue} · ${t.kind}` : t.queue).slice(0, 28)}</text></g></a>`)}
  </svg></div>${s.cut && html`<p class="quiet">There are more than ${most}: follow the links.</p>`}`;
}
