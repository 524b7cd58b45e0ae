// What a task waits for, and what that waits for: a picture of the tasks, each with its state.

import { useEffect, useState } from "./vendor/hooks.js";
import { get, inPath } from "./api.js";
import { html, link } from "./parts.js";

const most = 60; // tasks in the picture
const box = { w: 190, h: 34, dx: 240, dy: 46 };

// collect reads dependencies, nearest first, until there are `most`.
async function collect(task, signal) {
  const nodes = new Map([[task.id, { ...task, depth: 0 }]]);
  let front = [task], cut = false;
  for (let depth = 1; front.length; depth++) {
    const ids = [...new Set(front.flatMap((t) => t.dependencies))].filter((id) => !nodes.has(id));
    const take = ids.slice(0, most - nodes.size);
    cut ||= take.length < ids.length;
    front = await Promise.all(take.map((id) => get(`/api/v1/tasks/${inPath(id)}`, {}, signal).then((d) => d.task)
      .catch((e) => { if (e.status === 404) return { id, state: "unknown", queue: "", dependencies: [] }; throw e; })));
    front.forEach((t) => nodes.set(t.id, { ...t, depth }));
  }
  return { nodes, cut };
}

// place gives each task its place: a column for each step away, in the order found.
function place(nodes) {
  const rows = [];
  for (const n of nodes.values()) {
    rows[n.depth] = (rows[n.depth] || 0) + 1;
    n.y = (rows[n.depth] - 1) * box.dy + 4;
  }
  const deep = rows.length - 1;
  for (const n of nodes.values()) n.x = (deep - n.depth) * box.dx + 4;
  return { w: deep * box.dx + box.w + 8, h: Math.max(...rows) * box.dy };
}

export function Graph({ task }) {
  const [s, set] = useState(null);
  useEffect(() => {
    const stop = new AbortController();
    collect(task, stop.signal).then(set).catch((error) => { if (error.name !== "AbortError") set({ error }); });
    return () => stop.abort();
  }, [task.id, task.state]);
  if (!s) return html`<p class="quiet" aria-busy="true">asking for them …</p>`;
  if (s.error) return html`<p class="wrong">${s.error.message}</p>`;
  const { w, h } = place(s.nodes), all = [...s.nodes.values()];
  const edges = all.flatMap((t) => t.dependencies.filter((id) => s.nodes.has(id)).map((id) => [s.nodes.get(id), t]));
  return html`<div class="wide"><svg class="graph" width=${w} height=${h} role="img" aria-label="dependencies">
    ${edges.map(([from, to]) => html`<path d=${`M${from.x + box.w} ${from.y + box.h / 2}C${from.x + box.w + 25} ${from.y + box.h / 2} ${to.x - 25} ${to.y + box.h / 2} ${to.x} ${to.y + box.h / 2}`} />`)}
    ${all.map((t) => html`<a href=${link("tasks", t.id)}><g class=${"node " + t.state} transform=${`translate(${t.x} ${t.y})`}>
      <title>${t.id} ${t.state}</title><rect width=${box.w} height=${box.h} rx="5" /><text x="8" y="14">…${t.id.slice(-10)} ${t.state}</text><text x="8" y="28" class="small">${t.queue.slice(0, 28)}</text></g></a>`)}
  </svg></div>${s.cut && html`<p class="quiet">There are more than ${most}: follow the links.</p>`}`;
}
