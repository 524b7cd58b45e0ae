// Lines over the last minutes, drawn by uPlot, which is a script of its own.

import { useEffect, useRef } from "./vendor/hooks.js";
import { html } from "./parts.js";

const colours = ["#3a7bd5", "#2f9e5b", "#c9762b", "#b23b4f"];

// Chart draws times (seconds) and one row of values for each name.
export function Chart({ title, names, data }) {
  const at = useRef(null), plot = useRef(null);
  useEffect(() => {
    const css = getComputedStyle(document.documentElement);
    const axis = { stroke: css.getPropertyValue("--quiet"), grid: { stroke: css.getPropertyValue("--line"), width: 1 }, ticks: { show: false } };
    const within = at.current;
    const width = () => Math.max(200, within.clientWidth);
    plot.current = new window.uPlot({
      width: width(), height: 170, legend: { live: true }, cursor: { drag: { x: false, y: false } },
      scales: { x: { range: (_, first, last) => (last ? [Math.min(first, last - 120), last] : [Date.now() / 1000 - 120, Date.now() / 1000]) }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [{ ...axis, space: 90, values: (_, all) => all.map((v) => new Date(v * 1000).toLocaleTimeString()) }, { ...axis, size: 60, values: (_, all) => all.map((v) => (v === null ? "" : v.toLocaleString("en"))) }],
      series: [{}, ...names.map((label, i) => ({ label, stroke: colours[i], width: 2, points: { show: false }, value: (_, v) => (v === null || v === undefined ? "–" : Math.round(v * 10) / 10) }))],
    }, data, within);
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: width(), height: 170 }));
    sized.observe(within);
    return () => {
      sized.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => { plot.current?.setData(data); });
  return html`<figure class="chart"><figcaption>${title}</figcaption><div ref=${at}></div></figure>`;
}
