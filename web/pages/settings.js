// The settings of a queue as a form: what is left empty follows the configuration of the servers.

import { useState } from "./vendor/hooks.js";
import { inPath, patch } from "./api.js";
import { Wrong, html } from "./parts.js";

const retentions = ["", "delete", "archive", "keep"];

// fields are those that can be set here: a path as the API has it, a label, the step of a number.
const fields = [
  { path: "lease_seconds", label: "lease, seconds", min: 1, step: "any" },
  { path: "retry.max_attempts", label: "attempts, at most", min: 1, step: 1 },
  { path: "retry.initial_seconds", label: "first backoff, seconds", min: 0, step: "any" },
  { path: "retry.max_seconds", label: "longest backoff, seconds", min: 0, step: "any" },
  { path: "retry.multiplier", label: "backoff grows ×", min: 1, step: "any" },
  { path: "retry.jitter", label: "backoff varies by a share of", min: 0, max: 1, step: "any" },
  { path: "retention_seconds", label: "finished tasks stay, seconds", min: 0, step: "any" },
  { path: "dead_retention_seconds", label: "dead tasks stay, seconds", min: 0, step: "any" },
  { path: "max_tasks", label: "unfinished tasks, at most", min: 0, step: 1 },
];

const at = (o, path) => path.split(".").reduce((v, k) => v?.[k], o);
const shown = (v) => (v === undefined || v === null || Number(v) === 0 ? "" : String(Number(v)));

// changes gives the paths whose values are others than before, and the settings with these.
export function changes(before, typed) {
  const settings = {}, paths = [];
  for (const [path, value] of Object.entries(typed)) {
    const was = path === "note" ? before.note || "" : path === "retention" ? (before.retention === "unspecified" ? "" : before.retention || "") : shown(at(before, path));
    if (value === was) continue;
    paths.push(path);
    const [head, tail] = path.split(".");
    const v = path === "note" ? value : path === "retention" ? value || "unspecified" : Number(value || 0);
    if (tail) (settings[head] ||= {})[tail] = v;
    else settings[head] = v;
  }
  return { settings, fields: paths };
}

export function Settings({ q, done }) {
  const [went, set] = useState({});
  const submit = async (e) => {
    e.preventDefault();
    const f = new FormData(e.target);
    const { settings, fields: paths } = changes(q.settings, Object.fromEntries([...f.entries()].map(([k, v]) => [k, v.trim()])));
    if (!paths.length) return set({ says: "nothing is changed" });
    set({ busy: true });
    try {
      await patch(`/api/v1/queues/${inPath(q.name)}`, { settings, fields: paths, if_version: q.version });
      set({ says: `${paths.length === 1 ? "one setting is" : paths.length + " settings are"} changed` });
      done();
    } catch (error) {
      set({ error });
    }
    return undefined;
  };
  return html`<details class="form"><summary>edit settings</summary>
    <form class="filter" key=${q.version} onSubmit=${submit} aria-label=${"settings of " + q.name}>
      ${fields.map((f) => html`<label>${f.label}<input name=${f.path} type="number" min=${f.min} max=${f.max} step=${f.step} defaultValue=${shown(at(q.settings, f.path))} placeholder=${shown(at(q.effective, f.path)) || "none"} /></label>`)}
      <label>finished tasks<select name="retention">${retentions.map((r) => html`<option value=${r} selected=${r === (q.settings.retention === "unspecified" ? "" : q.settings.retention)}>${r || `default (${q.effective.retention})`}</option>`)}</select></label>
      <label>note<input name="note" maxlength="1000" defaultValue=${q.settings.note} /></label>
      <button class="main" disabled=${went.busy}>save</button>
      ${went.says && html`<small role="status">${went.says}</small>`}
    </form><${Wrong} error=${went.error} />
    <p class="quiet">Empty: as the servers are configured, which is shown in grey. Not saved when somebody else has changed it meanwhile.</p></details>`;
}
