// The dashboard: which page is shown, the way between them, and the token.

import { render } from "./vendor/preact.js";
import { useEffect, useErrorBoundary, useState } from "./vendor/hooks.js";
import { get, hasToken, learnRights, onUnauthenticated, setToken } from "./api.js";
import { Cluster } from "./cluster.js";
import { EditSchedule, Enqueue } from "./enqueue.js";
import { useNow } from "./live.js";
import { Overview } from "./overview.js";
import { html, link } from "./parts.js";
import { Queue, Queues } from "./queues.js";
import { Schedule, Schedules } from "./schedules.js";
import { Task } from "./task.js";
import { Tasks } from "./tasks.js";
import { Worker, Workers } from "./workers.js";

const pages = {
  "": { title: "Overview", list: Overview },
  queues: { title: "Queues", list: Queues, one: Queue },
  tasks: { title: "Tasks", list: Tasks, one: Task },
  schedules: { title: "Schedules", list: Schedules, one: Schedule },
  workers: { title: "Workers", list: Workers, one: Worker },
  cluster: { title: "Cluster", list: Cluster },
  enqueue: { title: "Enqueue a task", list: Enqueue, within: "tasks" },
  "edit-schedule": { title: "Edit a schedule", list: EditSchedule, within: "schedules" },
};

// keys go to a page, after a g.
const keys = { o: "", q: "queues", t: "tasks", s: "schedules", w: "workers", c: "cluster" };

// useKeys listens for keys outside of fields: / to search, g and a letter to go to a page.
function useKeys() {
  useEffect(() => {
    let armed = 0;
    const press = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea, select, dialog")) return;
      if (e.key === "/") {
        e.preventDefault();
        (document.querySelector("main input[type=search]") || document.querySelector("header input[type=search]"))?.focus();
      } else if (e.key === "g") armed = Date.now();
      else if (Date.now() - armed < 1500 && e.key in keys) {
        armed = 0;
        location.hash = link(keys[e.key]);
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

// place reads the address: #/page/name?parameters.
function place() {
  const [path, ...q] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  let name = rest.join("/");
  try {
    name = decodeURIComponent(name);
  } catch { /* a % by hand */ }
  return { page, name, params: new URLSearchParams(q.join("?")) };
}

function Page({ at }) {
  const [error, reset] = useErrorBoundary();
  useEffect(reset, [at]);
  useNow();
  const p = pages[at.page];
  if (error) return html`<h1>Something is wrong with this page</h1><p class="wrong" role="alert">${String(error)}</p><button onClick=${reset}>try again</button>`;
  if (!p || (at.name && !p.one)) return html`<h1>There is no such page</h1><p><a href="#/">overview</a></p>`;
  if (!at.name && !p.list) return html`<h1>There is no such page</h1>`;
  return at.name ? html`<${p.one} key=${at.page + at.name} name=${at.name} id=${at.name} />` : html`<${p.list} key=${at.page} params=${at.params} />`;
}

// SignIn asks for the token of the server and tries it.
function SignIn({ done }) {
  const [error, set] = useState("");
  const submit = async (e) => {
    e.preventDefault();
    setToken(new FormData(e.target).get("token").trim());
    try {
      await get("/api/v1/ping");
      done();
    } catch (wrong) {
      setToken("");
      set(wrong.message);
    }
  };
  return html`<main><form class="sign" onSubmit=${submit}><h1>Norn</h1>
    <label>token of this server<input name="token" type="password" autocomplete="current-password" autofocus required /></label>
    ${error && html`<p class="wrong" role="alert">${error}</p>`}<button class="main">go on</button>
    <p class="quiet">A token of <code>norn access token create</code>, or of the file of <code>auth-token-file</code>. It is kept in this tab only.</p></form></main>`;
}

function App() {
  useKeys();
  const [at, go] = useState(place), [locked, lock] = useState(false), [who, am] = useState(null);
  useEffect(() => {
    const moved = () => go(place());
    addEventListener("hashchange", moved);
    const quit = onUnauthenticated(() => lock(true));
    return () => { removeEventListener("hashchange", moved); quit(); };
  }, []);
  useEffect(() => {
    if (locked) return undefined;
    const ended = new AbortController();
    learnRights(ended.signal).then((r) => ended.signal.aborted || am(r));
    return () => ended.abort();
  }, [locked]);
  useEffect(() => { document.title = `${at.name || pages[at.page]?.title || "Norn"} – Norn`; }, [at]);
  if (locked) return html`<${SignIn} done=${() => lock(false)} />`;
  const find = (e) => {
    e.preventDefault();
    const id = new FormData(e.target).get("id").trim();
    if (id) location.hash = link("tasks", id);
    e.target.reset();
  };
  const within = pages[at.page]?.within || at.page;
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>to the content</a><header><a class="brand" href="#/"><img src="pages/icon.svg" alt="" width="22" height="22" /> Norn</a>
      <nav aria-label="pages">${Object.entries(pages).filter(([, p]) => !p.within).map(([name, p]) => html`<a href=${"#/" + name} aria-current=${name === within ? "page" : undefined}>${p.title}</a>`)}</nav>
      <form role="search" onSubmit=${find}><input name="id" type="search" placeholder="ID of a task" aria-label="ID of a task" maxlength="40" /></form>
      ${hasToken() && who && html`<span class="quiet" title=${who.roles.join(", ")}>${who.name}${who.tenant && ` (${who.tenant})`}</span>`}
      ${hasToken() && html`<button type="button" class="plain" onClick=${() => { setToken(""); lock(true); }}>sign out</button>`}
      ${!hasToken() && who && who.name === "anonymous" && who.roles.join() !== "admin" && html`<button type="button" class="plain" onClick=${() => lock(true)}>sign in</button>`}</header>
    <main id="main" tabindex="-1"><${Page} at=${at} /></main>`;
}

render(html`<${App} />`, document.getElementById("app"));
