// Schedules: what is launched when, what became of it, how late it was.

import { useRef, useState } from "./vendor/hooks.js";
import { clock, count, num, span } from "./format.js";
import { get, inPath, may, post } from "./api.js";
import { newID } from "./ids.js";
import { useLive } from "./live.js";
import { Act, Ago, Data, Facts, Live, Pager, QueueLink, State, Table, TaskLink, Until, html, link, useOrder } from "./parts.js";

// change makes one change of a schedule, if nobody else did since it was shown.
async function change(s, action) {
  const { results } = await post("/api/v1/schedules", { changes: [{ name: s.name, if_version: s.version, ...action }] });
  if (results[0].error) throw new Error(results[0].error.message);
  return results[0];
}

const condition = (s) => (s.ended ? "ended" : s.spec.paused ? "paused" : "on");

function Acts({ s, done }) {
  const id = useRef(""); // kept until it is launched: a second try is no second launch
  return html`
  ${s.spec.paused
    ? html`<${Act} needs=${["schedule", s.spec.task.queue]} key="resume" label="resume" ask=${html`Launch <b>${s.name}</b> again? What came due meanwhile is skipped; <code>norn schedule backfill</code> launches it.`} done=${done}
        run=${async () => { await change(s, { pause: { paused: false } }); return "resumed"; }} />`
    : html`<${Act} needs=${["schedule", s.spec.task.queue]} key="pause" label="pause" kind="warn" ask=${html`Launch <b>${s.name}</b> no more? What runs goes on.`} reason="note, shown to others" done=${done}
        run=${async (note) => { await change(s, { pause: { paused: true, note } }); return "paused"; }} />`}
  <${Act} needs=${["schedule", s.spec.task.queue]} label="launch now" ask=${html`Launch <b>${s.name}</b> once now, beside its times?`} done=${done}
    run=${async () => {
      id.current ||= newID(Date.parse((await get("/api/v1/ping")).now)); // this machine's clock may be wrong
      const { task_ids: [task] } = await change(s, { trigger: { task_id: id.current } });
      id.current = "";
      return html`launched: <${TaskLink} id=${task} />`;
    }} />`;
}

export function Schedules() {
  const [cursors, set] = useState([]);
  const live = useLive((s) => get("/api/v1/schedules", { after: cursors.at(-1), limit: 100 }, s), 3000, [cursors.length]);
  const sort = useOrder({ name: (s) => s.name, queue: (s) => s.spec.task?.queue || "", next: (s) => Date.parse(s.next_launch || s.next) || Infinity, late: (s) => s.overdue_seconds || s.last?.late_seconds || 0, runs: (s) => s.running, launched: (s) => num(s.launches), failed: (s) => num(s.failed) });
  const all = (d) => !cursors.length && !d.more; // else the order of one page would be taken for that of all
  return html`<h1>Schedules</h1>
    ${may("schedule") && html`<p class="acts"><a class="button" href=${link("edit-schedule")}>new schedule</a></p>`}<${Live} of=${live}>${(d) => html`
    ${d.status && num(d.status.schedules) > 0 && html`<p class=${d.status.master ? "quiet" : "wrong"}>${count(d.status.schedules)} ${num(d.status.schedules) === 1 ? "schedule" : "schedules"}, launched by ${d.status.master || "nobody: there is no master now, so nothing is launched"}${d.status.zones && `; time zones of ${d.status.zones}`}</p>`}
    <${Table} label="schedules" sort=${all(d) && sort} empty=${html`no schedule yet: <a href=${link("edit-schedule")}>make one</a>, or <code>norn schedule set --help</code>`}
      head=${[{ text: "schedule", by: "name" }, "state", "times", { text: "queue", by: "queue" }, { text: "next", by: "next" }, "last", { n: "late by", by: "late" }, { n: "running", by: "runs" }, { n: "launched", by: "launched" }, { n: "failed", by: "failed" }, ""]}
      rows=${sort.order(d.schedules).map((s) => html`<tr key=${s.name}><th scope="row"><a href=${link("schedules", s.name)}>${s.name}</a></th>
        <td><${State} is=${condition(s)} />${s.problem && html` <small class="bad">${s.problem}</small>`}</td>
        <td><code>${s.spec.cron}</code> <small>${s.spec.time_zone}</small></td><td>${s.spec.task && html`<${QueueLink} name=${s.spec.task.queue} />`}</td>
        <td><${Until} at=${s.next_launch || s.next} /></td>
        <td>${s.last && html`<${State} is=${s.last.status} /> <${Ago} at=${s.last.begun || s.last.instant} />`}</td>
        <td class=${"n" + (s.overdue_seconds > 1 ? " bad" : "")}>${s.overdue_seconds ? "overdue " + span(s.overdue_seconds) : s.last ? span(s.last.late_seconds) : ""}</td>
        <td class="n">${s.running || ""}</td><td class="n">${count(s.launches)}</td><td class="n">${num(s.failed) ? count(s.failed) : ""}</td>
        <td><${Acts} s=${s} done=${live.again} /></td></tr>`)} />
    <${Pager} cursors=${cursors} next=${d.more && d.schedules.length ? d.schedules.at(-1).name : ""} set=${set} />`}<//>`;
}

export function Schedule({ name }) {
  const live = useLive((s) => get(`/api/v1/schedules/${inPath(name)}`, { history: true, upcoming: 10 }, s), 3000, [name]);
  return html`<h1>Schedule ${name}</h1><${Live} of=${live}>${(d) => (d.schedules.length ? html`<${One} s=${d.schedules[0]} done=${live.again} />`
    : html`<p class="quiet">There is no such schedule.</p>`)}<//>`;
}

function One({ s, done }) {
  const { spec } = s, history = [...s.history].sort((a, b) => Date.parse(b.instant) - Date.parse(a.instant));
  const latest = Math.max(1, ...history.map((l) => l.late_seconds));
  return html`
    <p class="acts"><${State} is=${condition(s)} /> ${spec.note} <${Acts} s=${s} done=${done} /> ${may("schedule", spec.task?.queue) && html`<a class="button" href=${link("edit-schedule", "", { name: s.name })}>edit</a>`}</p>
    ${s.problem && html`<p class="wrong">${s.problem}</p>`}
    ${s.warnings.map((w) => html`<p class="quiet">${w}</p>`)}
    <${Facts} of=${[
      ["times", html`<code>${spec.cron}</code> ${spec.time_zone}`],
      ["? is here", s.resolved && html`<code>${s.resolved}</code>`],
      ["next", s.next && html`${clock(s.next)} <small><${Until} at=${s.next} /></small>`],
      ["launched then at", s.next_launch && s.next_launch !== s.next && clock(s.next_launch)],
      ["waits for its turn", s.queued && clock(s.queued)],
      ["overdue by", s.overdue_seconds > 0 && span(s.overdue_seconds)],
      ["when one still runs", spec.overlap.replace("_", " ")],
      ["after a break", `${spec.catch_up}${spec.catch_up_window_seconds ? `, of the last ${span(spec.catch_up_window_seconds)}` : ""}${spec.catch_up_count ? `, at most ${spec.catch_up_count}` : ""}`],
      ["spread over", spec.jitter_seconds > 0 && span(spec.jitter_seconds)],
      ["from", clock(spec.start)], ["to", clock(spec.end)],
      ["not later than", spec.deadline_seconds > 0 && span(spec.deadline_seconds)],
      ["launches", `${count(s.launches)}${num(spec.max_launches) ? " of at most " + count(spec.max_launches) : ""}, ${count(s.skipped)} skipped, ${count(s.failed)} failed, ${s.running} running`],
      ["owner", spec.owner],
      ["queue", spec.task && html`<${QueueLink} name=${spec.task.queue} />`],
      ["changed", html`${clock(s.changed)} <small>version ${s.version}</small>`],
    ]} />
    ${spec.task && html`<h2>Payload</h2><${Data} of=${spec.task.payload} name=${s.name + ".payload"} />`}
    <h2>Its next times</h2>
    ${spec.paused && html`<p class="quiet">It is paused: nothing is launched until it is resumed.</p>`}
    ${s.ended && html`<p class="quiet">It has ended: nothing of this is launched.</p>`}
    <${Table} label="next times" empty="none" head=${["at", "", "there", "note"]} rows=${s.upcoming.map((o) => html`<tr key=${o.at}>
      <td>${clock(o.at)}</td><td><${Until} at=${o.at} /></td><td>${o.local.replace("T", " ")} <small>${o.offset}</small></td><td>${o.note}</td></tr>`)} />
    <h2>What became of its launches</h2>
    <${Table} label="launches" empty="none yet" head=${["time", "outcome", "task", { n: "late by" }, "", { n: "took" }, "why"]} rows=${history.map((l) => html`<tr>
      <td>${clock(l.instant)}${l.to && html` to ${clock(l.to)} <small>${count(l.count)} times</small>`}</td>
      <td><${State} is=${l.kind === "skip" ? "skipped" : l.status} />${!["launch", "skip"].includes(l.kind) && html` <small>${l.kind}</small>`}</td>
      <td>${l.task_id && html`<${TaskLink} id=${l.task_id} />`}</td><td class="n">${l.kind === "skip" ? "" : span(l.late_seconds)}</td>
      <td>${l.kind !== "skip" && html`<meter max=${latest} value=${l.late_seconds} aria-label="lateness"></meter>`}</td>
      <td class="n">${l.finished && l.enqueued && span((Date.parse(l.finished) - Date.parse(l.enqueued)) / 1000)}</td>
      <td>${l.kind === "skip" && l.reason.replaceAll("_", " ")} ${l.note}</td></tr>`)} />`;
}
