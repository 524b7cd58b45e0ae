// The search of the site: what search.js has, in the browser alone.
(function () {
  const root = document.body.dataset.root, input = document.getElementById("search"), found = document.getElementById("found");
  let index;
  const load = () => {
    index = index || (() => {
      const m = new MiniSearch({ fields: ["heading", "title", "text"], storeFields: ["title", "heading", "url"], searchOptions: { prefix: true, fuzzy: 0.15, combineWith: "AND", boost: { heading: 4, title: 3 } } });
      m.addAll(window.nornPages);
      return m;
    })();
    return index;
  };
  input.addEventListener("focus", load, { once: true });
  input.addEventListener("input", () => {
    const hits = input.value.trim() ? load().search(input.value).slice(0, 20) : [];
    found.replaceChildren(...hits.map((h) => {
      const li = document.createElement("li"), a = document.createElement("a"), small = document.createElement("small");
      a.href = root + h.url;
      a.textContent = h.heading || h.title;
      small.textContent = h.title;
      a.append(small);
      li.append(a);
      return li;
    }));
    found.hidden = !input.value.trim();
    if (!hits.length && input.value.trim()) found.textContent = "Nothing found";
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") found.hidden = true;
    if (e.key === "/" && document.activeElement !== input) { e.preventDefault(); input.focus(); }
  });
})();
