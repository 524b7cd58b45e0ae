// One task: what it is, why it waits, who had it, what it said, what it waits for.

import { useEffect, useRef, useState } from "./vendor/hooks.js";
import { bytesOf, clock, count, errorOf, num, span, textOf, until } from "./format.js";
import { follow, get, inPath } from "./api.js";
import { actions, settle } from "./bulk.js";
import { Graph } from "./graph.js";
import { useLive } from "./live.js";
import { Act, Ago, Data, Facts, Live, QueueLink, State, Table, TaskLink, Until, Wrong, html, link } from "./parts.js";

const finished = (t) => ["completed", "dead", "cancelled"].includes(t.state);

async function look(id, signal) {
  const at = `/api/v1/tasks/${inPath(id)}`;
  const [{ task }, why] = await Promise.all([get(at, {}, signal), get(at + "/explain", {}, signal)]);
  return { task, why };
}

// pace asks seldom for what changes no more, or is long.
const pace = ({ task }) => (finished(task) ? 10_000 : 2000) + (task.payload.length + task.result.length) / 100;

export function Task({ id }) {
  const live = useLive((s) => look(id, s), pace, [id]);
  return html`<h1>Task <span class="id">${id}</span></h1><${Live} of=${live}>${({ task, why }) => html`<${One} t=${task} why=${why} again=${live.again} />`}<//>`;
}

function One({ t, why, again }) {
  const one = (action, reason) => async (text) => {
    const r = await settle(action, [t.id], [], text);
    if (r.refused) throw new Error(r.why);
    return reason;
  };
  return html`
    <p class="acts"><${State} is=${t.state} />
      <${Act} needs=${["operate", t.queue]} label="retry" disabled=${!actions.retry.can.includes(t.state)} ask="Give it a new run of attempts at once?" run=${one("retry", "it is tried again")} done=${again} />
      <${Act} needs=${["operate", t.queue]} label="cancel" kind="warn" disabled=${!actions.cancel.can.includes(t.state)} ask="Cancel it? If it runs, its worker is told to stop." reason="reason, shown as its error" run=${one("cancel", "cancelled")} done=${again} /></p>
    ${!finished(t) && html`<section class="why"><h2>Why it is not done</h2><ul>${why.reasons.map((r) => html`<li>${r.text}
      ${r.tasks.map((id) => html` <${TaskLink} id=${id} />`)}${r.until && html` <small><${Until} at=${r.until} /></small>`}</li>`)}</ul></section>`}
    ${t.error && html`<p class="wrong lines">${errorOf(t.error).message}</p>`}
    ${errorOf(t.error).stack && html`<details class="data"><summary>stack</summary><pre>${errorOf(t.error).stack}</pre></details>`}
    <${Facts} of=${[
      ["queue", html`<${QueueLink} name=${t.queue} />`],
      ["kind", t.kind && html`<a href=${link("tasks", "", { queue: t.queue, kind: t.kind })}>${t.kind}</a>`],
      ["tags", t.tags.length > 0 && t.tags.map((tag, i) => html`${i > 0 && " "}<a class="chip" href=${link("tasks", "", { queue: t.queue, tag: [tag] })}>${tag}</a>`)],
      ["priority", String(t.priority)],
      ["attempts", `${t.attempts} of ${t.max_attempts}${num(t.retries) ? `, retried by hand ${t.retries} times` : ""}`],
      ["created", html`${clock(t.created_at)} <small><${Ago} at=${t.created_at} /></small>`],
      ["not before", t.not_before && html`${clock(t.not_before)} <small><${Until} at=${t.not_before} /></small>`],
      ["finished", t.finished_at && html`${clock(t.finished_at)} <small><${Ago} at=${t.finished_at} /></small>`],
      ["key", t.key && `${t.key}${t.key_window_seconds ? `, once in ${span(t.key_window_seconds)}` : ""}`],
      ["headers", Object.keys(t.headers).length > 0 && html`<${Facts} of=${Object.entries(t.headers)} />`],
    ]} />
    <h2>Payload</h2><${Data} of=${t.payload} name=${t.id + ".payload"} />
    ${t.result && html`<h2>Result</h2><${Data} of=${t.result} name=${t.id + ".result"} />`}
    <${Graph} task=${t} key=${t.id} />
    <h2>Attempts</h2><${Attempts} t=${t} />
    <h2>Updates</h2><${Updates} t=${t} key=${t.id} />`;
}

// Attempts are shown over the life of the task, each as a bar from its start to its end as it
// was; that of a claim that is held goes on until now. What was given back has no bar: it
// used no attempt.
function Attempts({ t }) {
  const held = t.claims.filter((c) => c.outcome === "active");
  const back = t.claims.filter((c) => c.outcome === "released").length;
  if (!t.attempt_log.length && !held.length) return html`<p class="quiet">nobody has tried it yet${back > 0 && `; ${back === 1 ? "one claim was" : back + " claims were"} given back without an attempt`}</p>`;
  const bars = [...t.attempt_log.filter((a) => a.start && a.end).map((a) => ({ from: Date.parse(a.start), to: Date.parse(a.end), is: a.outcome, who: a.worker })),
    ...held.map((c) => ({ from: Date.parse(c.start), to: Date.now(), is: "active", who: c.worker }))];
  const begin = Math.min(Date.parse(t.created_at), ...bars.map((b) => b.from));
  const end = Math.max(begin + 1, finished(t) && t.finished_at ? Date.parse(t.finished_at) : Date.now(), ...bars.map((b) => b.to));
  const x = (at) => ((at - begin) / (end - begin)) * 1000;
  return html`<svg class="times" viewBox=${`0 0 1000 ${bars.length * 14}`} preserveAspectRatio="none" role="img" aria-label="attempts over time">
      ${bars.map((b, i) => html`<rect class=${"claim " + b.is} x=${Math.min(x(b.from), 996)} y=${i * 14 + 2} width=${Math.max(4, x(b.to) - x(b.from))} height="10"><title>${b.who || "a worker"}: ${b.is}</title></rect>`)}
    </svg>
    <${Table} stack label="attempts" head=${[{ n: "number" }, "worker", "start", { n: "waited" }, { n: "ran for" }, "outcome", "error"]} rows=${[
      ...t.attempt_log.map((a, i) => html`${i > 0 && num(a.number) > num(t.attempt_log[i - 1].number) + 1 && html`<tr><td class="n">…</td><td colspan="6">${count(num(a.number) - num(t.attempt_log[i - 1].number) - 1)} attempts in between are not kept</td></tr>`}<tr>
      <td class="n" title=${"token " + a.token}>${a.number}</td><td>${a.worker}</td><td>${clock(a.start)}</td><td class="n">${a.start && span(a.wait_seconds)}</td>
      <td class="n">${a.start && span(a.duration_seconds)}</td><td><${State} is=${a.outcome} />${!a.counted && html` <small>not counted</small>`}</td>
      <td class="reads lines">${a.error}${a.stack && html`<details class="data"><summary>stack</summary><pre>${a.stack}</pre></details>`}</td></tr>`),
      ...held.map((c) => html`<tr><td class="n" title=${"token " + c.token}></td><td>${c.worker}</td><td>${clock(c.start)}</td><td></td>
      <td class="n">${span((Date.now() - Date.parse(c.start)) / 1000)}</td><td><${State} is="active" /></td><td><small>lease ends ${until(c.end)}</small></td></tr>`)]} />
    ${back > 0 && html`<p class="quiet">${back === 1 ? "one claim was" : count(back) + " claims were"} given back without an attempt</p>`}`;
}

const most = 2000; // updates that are shown: the newest

// Updates are read as they come, as long as the task is not finished, and from the begin
// once it has a new run of attempts.
function Updates({ t }) {
  const [s, set] = useState({ updates: [], dropped: 0, error: null });
  const end = useRef(null);
  useEffect(() => {
    const stop = new AbortController();
    let all = [], dropped = 0, drawn = false;
    const draw = () => {
      drawn = false;
      if (all.length > most) {
        dropped += all.length - most;
        all = all.slice(-most);
      }
      set({ updates: all.slice(), dropped, error: null });
    };
    follow(t.id, (u) => {
      all.push(u);
      if (!drawn) {
        drawn = true;
        requestAnimationFrame(draw);
      }
    }, stop.signal).catch((error) => { if (error.name !== "AbortError") set((old) => ({ ...old, error })); });
    return () => stop.abort();
  }, [t.id, t.retries]);
  useEffect(() => { if (!finished(t)) end.current?.scrollTo(0, end.current.scrollHeight); }, [s.updates.length]);
  if (!s.updates.length) return html`<${Wrong} error=${s.error} /><p class="quiet">none${finished(t) ? "" : " yet"}</p>`;
  return html`<${Wrong} error=${s.error} />${s.dropped > 0 && html`<p class="quiet">${s.dropped} older ones are not shown: <code>norn task log ${t.id}</code></p>`}
    <ol class="log" ref=${end}>${s.updates.map((u) => html`<li key=${u.token + ":" + u.seq}><small title=${clock(u.at)}>${u.token}:${u.seq}</small> <span>${textOf(bytesOf(u.data), true) ?? u.data + " (base64)"}</span></li>`)}</ol>`;
}
