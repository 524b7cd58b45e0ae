// One action for many tasks: those that a filter finds, counted before anybody says yes.

import { useRef, useState } from "./vendor/hooks.js";
import { count } from "./format.js";
import { get, may, post } from "./api.js";
import { Wrong, html } from "./parts.js";

const page = 1000; // IDs per request: what a page of a list can have

// actions are what can be done with many tasks: in which states it has an effect when the
// filter names none, and in which it can have one.
export const actions = {
  cancel: { path: "/api/v1/tasks/cancel", usual: ["waiting", "scheduled", "ready", "claimed"], can: ["waiting", "scheduled", "ready", "claimed", "dead"], did: "cancelled" },
  retry: { path: "/api/v1/tasks/retry", usual: ["dead"], can: ["dead", "cancelled", "scheduled"], did: "retried" },
};

// settle does the action for some tasks, and tells of how many it was done and what the
// first refusal of the rest says.
export async function settle(action, ids, states, reason, signal) {
  const body = { ids, only_states: states };
  if (action === "cancel" && reason) body.reason = reason;
  const { results } = await post(actions[action].path, body, signal);
  const refused = results.filter((r) => r.error);
  return { done: results.length - refused.length, refused: refused.length, why: refused[0]?.error.message || "" };
}

// each calls f with the IDs of every page of what a filter finds.
async function each(filter, signal, f) {
  let cursor = "";
  do {
    const d = await get("/api/v1/tasks", { ...filter, ids_only: true, limit: page, cursor }, signal);
    if (d.tasks.length) await f(d.tasks.map((t) => t.id));
    cursor = d.next_cursor;
  } while (cursor);
}

// Bulk does an action for all tasks of a filter (as of ListRequest).
export function Bulk({ action, filter, what, done, label, of, needs }) {
  const box = useRef(null), stop = useRef(null), reason = useRef(null);
  const [s, set] = useState({ phase: "" });
  const { usual, can, did } = actions[action];
  const states = (filter.states?.length ? filter.states : usual).filter((one) => can.includes(one));
  const found = { ...filter, states };

  const run = async (phase, work) => {
    stop.current = new AbortController();
    try {
      await work(stop.current.signal);
    } catch (error) {
      if (error.name !== "AbortError") set((old) => ({ ...old, phase: phase === "counting" ? "" : "ended", error }));
      else set((old) => ({ ...old, phase: "ended", stopped: true }));
    }
  };
  const open = () => {
    set({ phase: "counting", n: 0 });
    box.current.showModal();
    run("counting", async (signal) => {
      let n = 0;
      await each(found, signal, (ids) => { n += ids.length; set({ phase: "counting", n }); });
      set({ phase: "asking", n });
    });
  };
  const go = () => {
    const n = s.n, why = reason.current?.value || "";
    let sum = { done: 0, refused: 0, why: "" };
    set({ phase: "running", n, ...sum });
    run("running", async (signal) => {
      await each(found, signal, async (ids) => {
        const r = await settle(action, ids, states, why, signal);
        sum = { done: sum.done + r.done, refused: sum.refused + r.refused, why: sum.why || r.why };
        set({ phase: "running", n, ...sum });
      });
      set({ phase: "ended", n, ...sum });
      done?.();
    });
  };
  const close = () => { stop.current?.abort(); box.current.close(); done?.(); };
  if (!may("operate", needs)) return null;
  return html`<span class="act"><button type="button" class="warn" onClick=${open} disabled=${!states.length}>${label || `${action} all ${what}`}</button>
    <dialog ref=${box} aria-label=${label || `${action} all ${what}`} onCancel=${() => stop.current?.abort()}>
      ${s.phase === "counting" && html`<p aria-busy="true">counting … ${count(s.n)}</p>`}
      ${s.phase === "asking" && (s.n ? html`<p>${of && html`Purge <b>${of}</b>: `}${action === "cancel" ? (of ? "cancel" : "Cancel") : "Retry"} <b>${count(s.n)}</b> ${s.n === 1 ? "task" : "tasks"} (${states.join(", ")})?
        What changes its state before its turn is left alone; what comes meanwhile may be met, too.</p>
        ${action === "cancel" && html`<label>reason, shown as the tasks' error<input ref=${reason} maxlength="1000" /></label>`}` : html`<p>No task matches (${states.join(", ")}).</p>`)}
      ${(s.phase === "running" || s.phase === "ended") && html`<p role="status">${count(s.done)} ${did}${s.refused ? `, ${count(s.refused)} were not (${s.why})` : ""}${s.stopped ? ": stopped" : s.phase === "ended" && !s.error ? ": done" : ` of ${count(s.n)} …`}</p>
        <progress max=${s.n || 1} value=${(s.done || 0) + (s.refused || 0)}></progress>`}
      <${Wrong} error=${s.error} />
      <menu>
        <button type="button" onClick=${close}>${s.phase === "running" ? "stop" : "close"}</button>
        ${s.phase === "asking" && s.n > 0 && html`<button type="button" class="warn" onClick=${go}>${label && of ? label : action} ${count(s.n)}</button>`}
      </menu>
    </dialog></span>`;
}
