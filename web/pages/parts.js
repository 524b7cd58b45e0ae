// Parts that pages are made of.

import { h, Fragment } from "./vendor/preact.js";
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import { may } from "./api.js";
import { bytesOf, clock, count, show, since, span, until } from "./format.js";

export const html = htm.bind(h);
export { Fragment };

// link gives the address of a page of the dashboard; empty parameters are left out.
export function link(page, name, params) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params || {})) {
    if (Array.isArray(v)) v.forEach((one) => q.append(k, one));
    else if (v !== "" && v !== undefined && v !== null) q.append(k, v);
  }
  const tail = q.toString();
  return "#/" + page + (name ? "/" + encodeURIComponent(name) : "") + (tail ? "?" + tail : "");
}

export const TaskLink = ({ id }) => html`<a class="id" href=${link("tasks", id)}>${id}</a>`;
export const QueueLink = ({ name }) => html`<a href=${link("queues", name)}>${name}</a>`;

export const State = ({ is, children }) => html`<span class=${"state " + is}>${children || (is || "").replaceAll("_", " ")}</span>`;

export const Ago = ({ at }) => (at ? html`<time datetime=${at} title=${clock(at)}>${since(at)}</time>` : "");
export const Until = ({ at }) => (at ? html`<time datetime=${at} title=${clock(at)}>${until(at)}</time>` : "");

// Wrong says what failed, and that what is shown is old.
export const Wrong = ({ error, at }) =>
  error && html`<p class="wrong" role="alert">${error.message}${at ? html` <small>What is shown is of ${span((Date.now() - at) / 1000)} ago.</small>` : ""}</p>`;

// Live shows what useLive gives: that it is asked, that it failed, or the data.
export const Live = ({ of, children }) => html`
  <${Wrong} error=${of.error} at=${of.at} />
  ${of.data ? children(of.data) : !of.error && html`<p class="quiet" aria-busy="true">asking the node …</p>`}`;

export const Figure = ({ label, value, href, bad, note }) => html`
  <a class=${"figure" + (bad ? " bad" : "")} href=${href} title=${note}><b>${value}</b><span>${label}</span></a>`;

// Table is a table that says so when there is nothing in it. A head of { n: "…" } is of a
// column of numbers, one with `by` can be sorted by: `sort` has by what it is, whether
// downwards, and what to do when somebody wants another order. Of one with `stack` the cells of a
// row stand beneath each other on a phone, so that errors can be read.
export const Table = ({ label, head, rows, empty, sort, stack }) => html`
  <div class="wide" tabindex="0" role="group" aria-label=${label + ", scrolls sideways"}><table aria-label=${label} class=${stack && "stack"}>
    <thead><tr>${head.map((c) => html`<th scope="col" class=${c.n && "n"} aria-sort=${sort && c.by !== undefined && sort.by === c.by ? (sort.down ? "descending" : "ascending") : undefined}>
      ${sort && c.by !== undefined
        ? html`<button type="button" class="sort" onClick=${() => sort.set(c.by, sort.by === c.by ? !sort.down : !!c.n)}>${c.n || c.text}<span aria-hidden="true">${sort.by === c.by ? (sort.down ? " ▾" : " ▴") : ""}</span></button>`
        : c.n || c.text || (typeof c === "string" || c.type ? c : "")}</th>`)}</tr></thead>
    <tbody>${rows.length ? rows : html`<tr><td class="quiet" colspan=${head.length}>${empty || "none"}</td></tr>`}</tbody>
  </table></div>`;

// Facts are names with values; what has no value is left out.
export const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, v]) => v !== "" && v !== null && v !== undefined && v !== false)
  .map(([k, v]) => html`<dt>${k}</dt><dd>${v}</dd>`)}</dl>`;

// Data shows bytes, and lets them be saved as they are.
export function Data({ of, name }) {
  const seen = useMemo(() => show(of), [of]);
  if (!seen.size) return html`<p class="quiet">empty</p>`;
  return html`<figure class="data"><figcaption>${seen.kind}, ${count(seen.size)} bytes
    <button type="button" class="plain" onClick=${() => save(of, name)}>save</button></figcaption><pre>${seen.text}</pre></figure>`;
}

function save(base64, name) {
  const at = URL.createObjectURL(new Blob([bytesOf(base64)], { type: "application/octet-stream" }));
  const a = document.createElement("a");
  a.href = at;
  a.download = name;
  a.click();
  URL.revokeObjectURL(at);
}

// Act is a button that asks first what is to happen, then shows how it went. `run(reason)`
// does it and gives a line for the user; `ask` is the question, `reason` the label of a
// field to fill in. It is there for those who may: `needs` is a verb, and the name it is about.
export function Act({ label, ask, reason, run, kind, disabled, done, needs, title }) {
  const box = useRef(null), field = useRef(null);
  const [went, set] = useState({});
  useEffect(() => { if (went.open) box.current.showModal(); }, [went.open]);
  useEffect(() => {
    if (!went.says) return undefined;
    const t = setTimeout(() => set({}), 6000);
    return () => clearTimeout(t);
  }, [went.says]);
  const act = async (e) => {
    e.preventDefault();
    set({ open: true, busy: true });
    try {
      set({ says: await run(field.current ? field.current.value.trim() : "") });
      done?.();
    } catch (error) {
      set({ open: true, error });
    }
  };
  if (needs && !may(...needs)) return null;
  return html`<span class="act">
    <button type="button" class=${kind || ""} disabled=${disabled} title=${title} onClick=${() => set({ open: true })}>${label}</button>
    ${went.says && html`<small role="status">${went.says}</small>`}
    ${went.open && html`<dialog ref=${box} aria-label=${label} onCancel=${(e) => e.preventDefault() || went.busy || set({})}>
      <form onSubmit=${act}>
        <p>${ask}</p>
        ${reason && html`<label>${reason}<input ref=${field} maxlength="1000" /></label>`}
        <${Wrong} error=${went.error} />
        <menu><button type="button" disabled=${went.busy} onClick=${() => set({})}>no</button>
        <button type="submit" class=${kind || "main"} disabled=${went.busy}>${went.busy ? "…" : label}</button></menu>
      </form>
    </dialog>`}</span>`;
}

// Pager goes through pages that are known by cursors.
export const Pager = ({ cursors, next, set }) =>
  (cursors.length > 0 || next) && html`<nav class="pager" aria-label="pages">
    <button type="button" disabled=${!cursors.length} onClick=${() => set(cursors.slice(0, -1))}>back</button>
    <span>page ${cursors.length + 1}</span>
    <button type="button" disabled=${!next} onClick=${() => set([...cursors, next])}>next</button></nav>`;

// useOrder sorts rows that are all here: values has a function for each column that can be
// sorted by.
export function useOrder(values, first = "", down = false) {
  const [sort, set] = useState({ by: first, down });
  const of = values[sort.by];
  const order = (rows) => (!of ? rows : [...rows].sort((a, b) => {
    const x = of(a), y = of(b), c = typeof x === "number" ? x - y : String(x).localeCompare(String(y));
    return sort.down ? -c : c;
  }));
  return { ...sort, set: (by, d) => set({ by, down: d }), order };
}

// Search is a field for a part of a name, which is asked for once nobody types.
export function Search({ label, value, set }) {
  const wait = useRef(0);
  useEffect(() => () => clearTimeout(wait.current), []);
  return html`<form class="filter" role="search" onSubmit=${(e) => e.preventDefault()}><label>${label}<input type="search" name="part" maxlength="128" defaultValue=${value}
    onInput=${(e) => { const v = e.target.value.trim(); clearTimeout(wait.current); wait.current = setTimeout(() => set(v), 250); }} /></label></form>`;
}
