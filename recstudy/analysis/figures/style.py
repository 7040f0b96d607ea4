"""The report page's style sheet and script, as text: the page stands alone, with nothing to load."""

import json

from recstudy.analysis.figures.theme import DARK, PALETTE, channels

CSS = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #57606a; --paper: #fff; --panel: #f6f8fa; --line: #d8dee4;
  --accent: #0a5ea8; --warn: #9a4a00; --warn-paper: #fff4e8; --tint: #dcebfa; --edge: #7d868f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa5b1; --paper: #12161b; --panel: #1a2027;
  --line: #313a44; --accent: #6cb6ff; --warn: #ffb26b; --warn-paper: #2b2017; --tint: #1e3a56;
  --edge: #74808c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 20px 80px; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 44px 0 10px; padding-top: 14px; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 24px 0 8px; overflow-wrap: anywhere; }
p { margin: 8px 0; overflow-wrap: anywhere; }
a { color: var(--accent); }
.question { font-size: 1.1rem; color: var(--soft); }
.findings { margin: 16px 0 8px; padding: 12px 18px 12px 34px; background: var(--panel); border: 1px solid var(--line);
  border-left: 4px solid var(--accent); border-radius: 8px; font-size: 1.05rem; }
.findings li { margin: 5px 0; overflow-wrap: anywhere; }
.about { white-space: pre-wrap; font: inherit; color: var(--soft); margin: 8px 0; overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 18px; list-style: none; padding: 0; margin: 16px 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 10px; margin: 18px 0; }
.facts div { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.facts dt { font-size: .8rem; color: var(--soft); }
.facts dd { margin: 2px 0 0; font-weight: 600; overflow-wrap: anywhere; }
.warning { background: var(--warn-paper); color: var(--warn);
  border-left: 4px solid currentColor; padding: 8px 14px; font-weight: 600; }
/* A box that scrolls within the page is for long tables only; a wide one keeps its first column in sight. */
.scroll { overflow: auto; border: 1px solid var(--line); border-radius: 8px; }
.scroll:has(tbody tr:nth-child(31)) { max-height: 85vh; }
.scroll th:first-child { position: sticky; left: 0; z-index: 1; background: var(--paper); }
.scroll thead th:first-child { z-index: 2; background: var(--panel); } tbody tr:hover th:first-child { background: var(--panel); }
.scroll:focus-visible, a:focus-visible, summary:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; }
tbody th { font-weight: 500; white-space: normal; min-width: 14em; max-width: 24em; overflow-wrap: anywhere; }
thead th { position: sticky; top: 0; background: var(--panel); font-weight: 600; white-space: normal; min-width: 4.5em; }
tbody tr:last-child > * { border-bottom: 0; }
tbody tr:hover { background: var(--panel); }
td[title] { cursor: help; }
td.prose, thead th.prose { text-align: left; white-space: normal; min-width: 8em; overflow-wrap: anywhere; }
td.setting, thead th.setting { text-align: left; }
table.words td { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 10em; }
table.words thead th { text-align: left; } table.words:has(th:nth-child(6)) td { min-width: 4.5em; }
.caption, .note { font-size: .88rem; color: var(--soft); }
.figure { width: 100%; min-height: 300px; overflow-x: auto; }
.cards { display: grid; gap: 16px; }
.card { display: flex; gap: 16px; border: 1px solid var(--line); border-radius: 8px; padding: 14px; }
.card > div { flex: 1; min-width: 0; }
.card > img { flex: none; width: 224px; height: auto; align-self: flex-start; border-radius: 4px; }
.card h3 { margin: 0; } .card ul { margin: 4px 0 12px; padding-left: 1.2em; }
.card p { margin: 8px 0 0; font-size: .85rem; color: var(--soft); }
.card li, .card dd { overflow-wrap: anywhere; }
.answers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(200px, 100%), 1fr)); gap: 10px; margin: 0; }
.answers > div { background: var(--panel); border-radius: 6px; padding: 8px 12px; }
.answers dt { font-weight: 600; font-size: .88rem; overflow-wrap: anywhere; } .answers dd { margin: 4px 0 0; }
.answers small { display: block; font-weight: 400; color: var(--soft); }
img.sharp { image-rendering: pixelated; }
mark { background: var(--tint); color: inherit; text-decoration: underline; text-decoration-thickness: 2px; }
details.long { margin: 0; } details.long > summary { list-style: none; }
details.long[open] > summary { display: inline; } details.long[open] .more { display: none; }
.more { color: var(--accent); text-decoration: underline; }
.pairs img { display: block; width: 96px; height: auto; margin-bottom: 2px; } .pairs tbody th { min-width: 0; }
@media (min-width: 641px) { .stack tbody th { min-width: 16em; } .stack.runs tbody th { min-width: 24em; } }
@media (max-width: 640px) {
  .card { flex-direction: column; } .card > img { width: 100%; max-width: 256px; }
  main { padding: 14px 12px 60px; }
  th, td { padding: 6px 8px; } tbody th { min-width: 10.5em; max-width: 11em; } thead th { min-width: 5em; }
  table.words td { min-width: 5em; }
  /* Tables of sentences become a list: a row's name, and under it each value with its heading. */
  .stack:not(.runs) thead { position: absolute; left: -999em; }
  .stack tr { display: block; padding: 6px 8px; }
  .stack tr:not(:last-child) { border-bottom: 1px solid var(--line); }
  .stack tbody th, .stack td { display: block; border: 0; padding: 2px 0; max-width: none; white-space: normal; }
  .stack td { display: inline-block; margin-right: 14px; min-width: 0; text-align: left; } .stack td:empty { display: none; }
  .stack td::before { content: attr(data-head) " "; color: var(--soft); font-size: .85rem; }
  .js .code pre { padding-top: 40px; } .js .copy { position: absolute; top: 6px; right: 6px; }
}
details { margin: 10px 0; } summary { cursor: pointer; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px 14px; overflow: auto; font-size: .85rem; }
.code { position: relative; margin: 1em 0; }
.copy { display: none; font: inherit; font-size: .8rem; color: var(--ink); cursor: pointer;
  background: var(--paper); border: 1px solid var(--edge); border-radius: 6px; padding: 1px 8px; }
.js .copy { display: block; flex: none; } .js .code { display: flex; gap: 8px; align-items: start; }
.code pre { flex: 1; min-width: 0; margin: 0; }
.anchor { float: right; margin: -2.3em 0 0 8px; text-decoration: none; opacity: 0; } .anchor::after { content: "#"; }
section:hover > .anchor, .anchor:focus-visible { opacity: 1; } @media (hover: none) { .anchor { opacity: 1; } }
h2:has(+ .anchor) { padding-right: 1.4em; }
.copy:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
pre.about { background: none; border: 0; padding: 0; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.printing main { width: 680px; padding: 0; }  /* of paper between its margins: what is drawn for it is not cut */
@media print {
  :root { color-scheme: light; --ink: #1c2126; --soft: #57606a; --paper: #fff; --panel: #f6f8fa; --line: #d8dee4;
    --accent: #0a5ea8; --warn: #9a4a00; --warn-paper: #fff4e8; --tint: #dcebfa; --edge: #7d868f; }
  .scroll, .scroll:has(tbody tr:nth-child(31)) { max-height: none; overflow: visible; }
  nav, form, button, .js .copy, .anchor, .skip, .note:has(a), .pending { display: none; }
  table { font-size: .75rem; } th, td { padding: 3px 6px; white-space: normal; } tbody th, .stack tbody th { min-width: 9em; }
  .scroll th:first-child { position: static; } thead th, td.prose, thead th.prose, table.words td { min-width: 0; }
  th, td.prose, thead th.prose, table.words td { overflow-wrap: break-word; }  /* a column is as wide as its longest word */
  .figure, tr, .card, .facts div { break-inside: avoid; } h2, h3, .warning { break-after: avoid; break-inside: avoid; }
  .modebar { display: none !important; }
}
"""

ICON = (  # three dots that go round: in the page itself, so that no browser asks for one
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='5.5' fill='none' stroke='%230a5ea8' stroke-width='2'/%3E"
    "%3Ccircle cx='8' cy='2.5' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)

# Every block of code has a button that copies it.
COPY = """
document.documentElement.classList.add("js");
document.addEventListener("click", async event => {
  const button = event.target.closest && event.target.closest(".copy");
  if (!button) return;
  const code = button.previousElementSibling;
  try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; }
  catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }  // a browser that does not allow it
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});
"""

# Redoes theme.room, tiles.arrange and slices.arrange for the width at hand, which decides between a legend and names at the ends
# of lines, and follows the reader's choice of dark or light.
PAIRS = [(form(own), form(other)) for own, other in zip(PALETTE, DARK, strict=True) for form in (str, channels)]
SCRIPT = (
    f"const COLORS = {json.dumps(PAIRS)};"
    + """
const tiles = (figure, width) => {
  const layout = figure.layout, {panels, columns, ratio} = layout.meta;
  const across = Math.min(panels, Math.max(1, Math.floor(width / 320))), down = Math.ceil(panels / across);
  const inner = width - 24, side = (inner - 24 * (across - 1)) / across, wide = Math.min(side, 640), line = 46 + wide * ratio;
  for (let at = 0; at < panels; at++) {
    const left = at % across * (side + 24), above = Math.floor(at / across) * line, axis = at ? at + 1 : "";
    layout["xaxis" + axis].domain = [left / inner, (left + wide) / inner];
    layout["yaxis" + axis].domain = [Math.max(0, 1 - (above + line) / (line * down)), 1 - (above + 46) / (line * down)];
  }
  figure.data.filter(trace => trace.mode === "text").forEach(trace => {
    trace.textfont.size = Math.max(9, Math.min(12, wide / columns / 7.5));
  });
  figure.data.filter(trace => trace.mode === "markers").forEach(trace => { trace.marker.size = 0.9 * wide / columns; });
  layout.margin = {l: 12, r: 12, t: 0, b: 12};
  layout.height = line * down + 12;
};
const slices = (figure, width) => {
  const layout = figure.layout, inner = width - 24;
  const heads = (layout.annotations || []).filter(one => one.name === "head"), head = heads.length ? 66 : 0;
  const groups = Math.max(1, heads.length), panels = layout.meta.panels / groups;
  const across = Math.min(panels, Math.max(1, Math.floor(inner / 280))), side = inner / across, down = Math.ceil(panels / across);
  const group = head + 240 * down, high = group * groups;
  for (let at = 0; at < layout.meta.panels; at++) {
    const own = at % panels, left = own % across * side, axis = at ? at + 1 : "";
    const above = Math.floor(at / panels) * group + head + Math.floor(own / across) * 240;
    layout["xaxis" + axis].domain = [(left + 48) / inner, (left + side - 12) / inner];
    layout["yaxis" + axis].domain = [Math.max(0, 1 - (above + 176) / high), 1 - (above + 12) / high];
  }
  heads.forEach((one, at) => { one.y = 1 - at * group / high; });
  layout.margin = {l: 12, r: 12, t: 24, b: 64};  // above, the buttons
  layout.height = high + 88;
};
const dark = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const draw = box => {
  const text = box.nextElementSibling.textContent;
  const light = () => COLORS.reduce((found, [own, other]) => found.replaceAll(own, other), text);
  const figure = JSON.parse(dark.matches && !printing ? light() : text);
  const layout = figure.layout, width = box.clientWidth;
  const names = figure.data.filter(trace => trace.name && trace.showlegend !== false).map(trace => trace.name.length);
  const across = Math.max(1, Math.floor((width - 80) / (Math.max(0, ...names) * 8 + 60)));
  layout.margin.b = 70 + 22 * (names.length > 1 ? Math.ceil(names.length / across) : 0);
  layout.height = 300 * layout.meta.panels + layout.margin.t + layout.margin.b;
  layout.width = width;
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font.color = printing ? "#1c2126" : getComputedStyle(document.body).color;
  layout.title.text = undefined;
  layout.margin.t = 20;
  if (layout.meta.ends) {  // names at the ends of lines, or a legend
    const direct = width >= 640 && !printing;
    layout.annotations.filter(one => one.name === "end").forEach(one => { one.visible = direct; });
    layout.showlegend = layout.showlegend && !direct;
    layout.margin.r = direct ? layout.meta.ends : 20;
    if (direct) { layout.height += 70 - layout.margin.b; layout.margin.b = 70; }
  }
  if (layout.meta.columns) tiles(figure, width);
  if (layout.meta.slices) slices(figure, width);
  const paper = printing ? "rgb(255, 255, 255)" : getComputedStyle(document.body).backgroundColor;
  if (layout.meta.axes) {  // parallel ones: the page scrolls to those that have no room
    layout.width = Math.max(width, 50 + 100 * layout.meta.axes);
    Object.assign(layout.margin, {t: 90, b: 16});
    layout.height = 300 * layout.meta.panels + 106;
    layout.annotations.forEach(tick => { tick.bgcolor = paper.replace("rgb(", "rgba(").replace(")", ", 0.75)"); });
  }
  layout.hoverlabel = {bgcolor: paper, font: {color: layout.font.color}};
  Plotly.react(box, figure.data, layout, {responsive: true, displaylogo: false});
};
const all = () => window.Plotly && document.querySelectorAll(".figure").forEach(draw);
let width = innerWidth;
dark.addEventListener("change", all);
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; all(); } });
const print = on => {  // figures are as wide as the paper, whatever the window is
  printing = on;
  document.documentElement.classList.toggle("printing", on);
  all();
};
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
all();
"""
)
