// Tasks by filter, page by page, with actions for some or for all of them.

import { useEffect, useState } from "./vendor/hooks.js";
import { brief, clock, count, errorOf, num } from "./format.js";
import { get, may } from "./api.js";
import { Bulk, settle } from "./bulk.js";
import { useLive } from "./live.js";
import { Act, Ago, Live, Pager, QueueLink, State, Table, TaskLink, Until, html, link } from "./parts.js";

export const states = ["waiting", "scheduled", "ready", "claimed", "completed", "dead", "cancelled"];
const fields = ["kind", "error_contains", "payload_contains", "key", "worker", "min_attempts", "created_after", "created_before", "finished_after", "finished_before"];

const pageSize = 50;

// filterOf makes a request's filter of the parameters of the page's address. What it cannot
// read is told in `wrong`, and never left out: with less in the filter an action for all
// that is found would be for more than was meant.
export function filterOf(params) {
  const filter = {}, wrong = [];
  for (const f of fields) if (params.get(f)) filter[f] = params.get(f);
  for (const [name, field] of [["header", "headers"], ["value", "payload_paths"]]) {
    const all = Object.create(null);
    for (const one of params.getAll(name)) {
      const i = one.indexOf("=");
      if (i < 1) wrong.push(`${name} "${one}" is not name=value`);
      else if (one.slice(0, i) in all) wrong.push(`${name} "${one.slice(0, i)}" is there twice`);
      else all[one.slice(0, i)] = one.slice(i + 1);
    }
    if (Object.keys(all).length) filter[field] = all;
  }
  if (params.getAll("tag").length) filter.tags = params.getAll("tag");
  const picked = params.getAll("states");
  for (const s of picked) if (!states.includes(s)) wrong.push(`state "${s}" is none of ${states.join(", ")}`);
  const lists = ["states", "header", "value", "tag"], known = ["queue", ...lists, ...fields];
  for (const name of new Set(params.keys())) {
    if (!known.includes(name)) wrong.push(`"${name}" is no condition: there are ${known.join(", ")}`);
    else if (!lists.includes(name) && params.getAll(name).length > 1) wrong.push(`${name} is there twice`);
  }
  return { queue: params.get("queue") || "", states: picked, filter, wrong: wrong.join("; ") };
}

// headersOf cuts what is typed at the commas behind which another header begins: a value
// may have commas too.
export const headersOf = (text) => text.split(/,(?=[^,=]+=)/).map((s) => s.trim()).filter(Boolean);

// local writes a time of an address as a field of the browser has it, utc the other way.
const local = (t) => {
  if (!t || Number.isNaN(Date.parse(t))) return "";
  const d = new Date(t);
  return new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
};
const utc = (t) => (t ? new Date(t).toISOString() : "");

// Form is filled in from the address once: what is typed stays when the page is drawn again.
function Form({ params }) {
  const submit = (e) => {
    e.preventDefault();
    const f = new FormData(e.target), out = { queue: f.get("queue").trim(), states: f.getAll("states") };
    for (const name of fields) out[name] = /_(after|before)$/.test(name) ? utc(f.get(name)) : f.get(name).trim();
    out.header = headersOf(f.get("header"));
    out.value = headersOf(f.get("value"));
    out.tag = f.get("tag").split(",").map((s) => s.trim()).filter(Boolean);
    location.hash = link("tasks", "", out);
  };
  const more = ["header", "value", "tag", ...fields].some((f) => params.get(f));
  const time = (name, label) => html`<label>${label}<input type="datetime-local" name=${name} defaultValue=${local(params.get(name))} /></label>`;
  return html`<form class="filter" key=${params.toString()} onSubmit=${submit}>
    <label>queue<input name="queue" defaultValue=${params.get("queue") || ""} /></label>
    <fieldset><legend>states</legend>${states.map((s) => html`<label class="chip"><input type="checkbox" name="states" value=${s} defaultChecked=${params.getAll("states").includes(s)} />${s}</label>`)}</fieldset>
    <details open=${!!more}><summary>more</summary>
      <label>kind<input name="kind" defaultValue=${params.get("kind") || ""} /></label>
      <label>tags, all of them<input name="tag" defaultValue=${params.getAll("tag").join(", ")} /></label>
      <label>error contains<input name="error_contains" defaultValue=${params.get("error_contains") || ""} /></label>
      <label>key<input name="key" defaultValue=${params.get("key") || ""} /></label>
      <label>claimed by worker<input name="worker" defaultValue=${params.get("worker") || ""} /></label>
      <label>attempts, at least<input name="min_attempts" type="number" min="0" defaultValue=${params.get("min_attempts") || ""} /></label>
      <label>headers, name=value<input name="header" defaultValue=${params.getAll("header").join(", ")} /></label>
      <label>payload contains<input name="payload_contains" defaultValue=${params.get("payload_contains") || ""} /></label>
      <label>values in payloads, user.id=7<input name="value" defaultValue=${params.getAll("value").join(", ")} /></label>
      ${time("created_after", "created after")}${time("created_before", "created before")}${time("finished_after", "finished after")}${time("finished_before", "finished before")}
    </details>
    <button class="main">show</button> <a class="button" href=${link("tasks")}>all</a>
  </form>`;
}

export function Tasks({ params }) {
  const [cursors, setCursors] = useState([]), [picked, pick] = useState(new Set());
  const { wrong, ...filter } = filterOf(params), at = params.toString();
  useEffect(() => { setCursors([]); pick(new Set()); }, [at]);
  // A page that was turned to stays as it is: only the first one is asked for again.
  const ask = async (s) => {
    if (wrong) throw new Error("This filter cannot be read: " + wrong);
    return get("/api/v1/tasks", { ...filter, limit: pageSize, cursor: cursors.at(-1) }, s);
  };
  const live = useLive(ask, cursors.length ? 0 : 3000, [at, cursors.length]);
  const turn = (c) => { pick(new Set()); setCursors(c); };
  return html`<h1>Tasks</h1>${may("enqueue") && html`<p class="acts"><a class="button" href=${link("enqueue", "", { queue: params.get("queue") })}>enqueue a task</a></p>`}<${Form} params=${params} />
    <${Live} of=${live}>${(d) => html`
      <${Chosen} picked=${picked} pick=${pick} filter=${filter} again=${live.again} />
      ${d.next_cursor && d.reached && d.tasks.length < pageSize && html`<p class="quiet" role="status">${count(num(d.looked_at))} tasks were looked at for this page, all that are of before ${clock(d.reached)}: the next page goes on.</p>`}
      <${List} tasks=${d.tasks} picked=${picked} pick=${pick} />
      <${Pager} cursors=${cursors} next=${d.next_cursor} set=${turn} />`}<//>`;
}

// Chosen has the actions for what is picked, or for all that the filter finds.
function Chosen({ picked, pick, filter, again }) {
  const ids = [...picked], n = ids.length;
  const act = (action, label, question) => html`<${Act} needs=${["operate"]} label=${label} kind=${action === "cancel" ? "warn" : ""} disabled=${!n} ask=${question}
    reason=${action === "cancel" && "reason, shown as the tasks' error"} done=${() => { pick(new Set()); again(); }}
    run=${async (reason) => {
      const r = await settle(action, ids, [], reason);
      return `${r.done} done${r.refused ? `, ${r.refused} not: ${r.why}` : ""}`;
    }} />`;
  return html`<p class="acts">
    ${act("retry", `retry ${n || ""} picked`, `Give the ${n} picked tasks a new run of attempts at once?`)}
    ${act("cancel", `cancel ${n || ""} picked`, `Cancel the ${n} picked tasks? Those that run are told to stop.`)}
    <${Bulk} action="retry" filter=${filter} what="found" done=${again} />
    <${Bulk} action="cancel" filter=${filter} what="found" done=${again} /></p>`;
}

function List({ tasks, picked, pick }) {
  const flip = (id, on) => {
    const next = new Set(picked);
    if (on) next.add(id);
    else next.delete(id);
    pick(next);
  };
  const all = tasks.length > 0 && tasks.every((t) => picked.has(t.id));
  const every = html`<input type="checkbox" aria-label="pick all of this page" checked=${all} onChange=${(e) => pick(e.target.checked ? new Set(tasks.map((t) => t.id)) : new Set())} />`;
  return html`<${Table} stack label="tasks" empty="no task matches" head=${[every, "ID", "queue", "kind", "state", { n: "priority" }, { n: "attempts" }, "created", "starts", "payload", "error"]}
    rows=${tasks.map((t) => html`<tr key=${t.id}>
      <td><input type="checkbox" aria-label=${"pick " + t.id} checked=${picked.has(t.id)} onChange=${(e) => flip(t.id, e.target.checked)} /></td>
      <td><${TaskLink} id=${t.id} /></td><td><${QueueLink} name=${t.queue} /></td><td class="brief" title=${t.tags.length > 0 ? "tags: " + t.tags.join(", ") : undefined}>${t.kind}</td><td><${State} is=${t.state} /></td>
      <td class="n">${t.priority}</td><td class="n">${t.attempts}/${t.max_attempts}</td><td><${Ago} at=${t.created_at} /></td>
      <td>${t.state === "scheduled" && html`<${Until} at=${t.not_before} />`}</td><td class="brief">${brief(t.payload)}</td><td class="reads">${errorOf(t.error).message}</td></tr>`)} />`;
}
