// Draws the table of runs from the JSON in the page, a sparkline in each row in sight, and the curves of the filtered runs.
import DataTable, {set_or_remove_dark_class} from "/static/dt_bundle.js";

const read = () => JSON.parse(document.getElementById("rows").textContent);
const {columns, rows} = read();
const heads = JSON.stringify(columns);
const place = document.getElementById("runs"), {maxRuns, maxCurves, run, compare} = place.dataset;
const indexOf = name => columns.findIndex(column => column.name === name);
const status = indexOf("status"), detail = indexOf("detail"), curve = indexOf("curve");
const STATUSES = ["running", "failed", "diverged", "unfinished", "stopped", "done", "not run"];  // the order of the rows
const text = DataTable.render.text().display;
const panel = document.getElementById("panel"), curves = panel.querySelector("details"), metric = panel.querySelector("select");
const COLORED = 8;  // at most so many curves have a colour
const sparks = new Map();  // run id -> the HTML of its sparkline
const views = {  // column -> the value of a cell for a purpose: display, sort, filter or export
  label: (cell, type, row) =>
    type === "display" ? `<a href="${run.replace("ID", encodeURIComponent(row[0]))}">${text(cell)}</a>` : cell,
  status: (cell, type, row) => {
    if (type === "sort") return STATUSES.indexOf(cell);
    if (type === "filter") return `${cell} ${row[detail]}`;
    const badge = `<span class="state ${cell.replace(" ", "-")}">${text(cell)}</span>`;
    return type === "display" ? `${badge}${row[detail] ? ` <small>${text(row[detail])}</small>` : ""}` : cell;
  },
  curve: (cell, type, row) => type === "display" ? sparks.get(row[0]) || "" : "",
};
const score = (cell, type, row) => {
  if (type !== "display") return cell;
  const isLive = cell && row[status] === "running";
  return isLive ? `<em class="live" title="live: the last logged value">${text(cell)}</em>` : text(cell);
};
const chosen = () => table.rows({selected: true}).ids().toArray();
const overlay = {
  text: "Compare",
  action: () => { location = `${compare}?${new URLSearchParams(chosen().map(id => ["run", id]))}`; },
};
place.innerHTML = `<thead><tr>${'<th scope="col"></th>'.repeat(columns.length + 1)}</tr></thead>`;
const longest = rows.reduce((length, row) => Math.max(length, row[1].length), 0);
place.style.setProperty("--label", `${Math.min(18, 2 + 0.6 * longest)}em`);  // long labels are wrapped
set_or_remove_dark_class();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", set_or_remove_dark_class);
const table = new DataTable(place, {
  data: rows,
  rowId: "0",
  columns: [
    {data: null, title: "", orderable: false, searchable: false, columnControl: [], render: DataTable.render.select()},
    ...columns.map((column, index) => ({
      ...column, data: index, render: column.live ? score : views[column.name] || DataTable.render.text(),
      className: column.live || ["seed", "curve"].includes(column.name) ? column.name : `setting ${column.name}`,
      createdCell: cell => { cell.dataset.head = column.title; },
      ...(column.name === "curve" ? {orderable: false, searchable: false, columnControl: []} : {}),
    })),
  ],
  columnControl: {target: 0, content: ["order", "searchDropdown"]},
  ordering: {indicators: false, handler: false},
  layout: {
    topStart: {buttons: [
      overlay, {extend: "colvis", text: "Columns", columns: ":gt(0)"}, "searchBuilder",
      {extend: "csv", exportOptions: {columns: ":gt(0)", orthogonal: "export"}},
    ]},
    bottomStart: ["pageLength", "info"],
  },
  language: {searchBuilder: {button: {0: "Filter", _: "Filter (%d)"}}},
  order: [[status + 1, "asc"]],
  pageLength: 50,
  autoWidth: false,
  select: {style: "multi", selector: "td:first-child", headerCheckbox: false},
  stateSave: true,
  stateDuration: 0,
});
const box = place.parentElement;  // it scrolls
Object.entries({class: `${box.className} scroll`, tabindex: 0, role: "region", "aria-label": "Table of runs"})
  .forEach(([name, value]) => box.setAttribute(name, value));
for (const [name, value] of new URLSearchParams(location.search)) {  // a link that leads to some of the runs
  const values = value.split(","), index = indexOf(name);
  table.column(`${name}:name`).search.fixed("address", (cell, row) => values.includes(row[index]));
}

const firstOf = axis => axis === "epoch" ? 1 : 0;  // a log counts epochs from 0, and pages from 1
// A sparkline of a running run ends at its share of the planned epochs, but fills a quarter of the width at least.
const sparkline = ({curve: [epochs, values], planned, last}, {metric, metrics, axis}) => {
  const first = firstOf(axis), low = Math.min(...values), height = Math.max(...values) - low || 1, reached = epochs.at(-1) + first || 1;
  const span = Math.max(reached, Math.min(planned, 4 * reached));
  const points = values.map((value, index) =>
    [3 + 114 * (epochs[index] + first) / span, 25 - 22 * (value - low) / height].map(place => place.toFixed(1)));
  const title = text(`${metrics[metric]} to ${axis} ${reached}: ${last}`), [x, y] = points.at(-1);
  return `<span class="spark" title="${title}"><svg viewBox="0 0 120 28" role="img" aria-label="${title}">` +
    `<polyline points="${points.join(" ")}"/><circle cx="${x}" cy="${y}" r="2.5"/></svg> ${text(last)}</span>`;
};
// Selected runs are in colour; if none is selected, the first eight of the table.
const figure = (lines, {metric, metrics, axis}) => {
  const traces = lines.map(({label, curve: [epochs, values]}, index) => ({
    x: epochs.map(epoch => epoch + firstOf(axis)), y: values, name: text(label), mode: epochs.length > 1 ? "lines" : "markers",
    hovertemplate: `${text(label)}: %{y:.5~g}<extra></extra>`, showlegend: index < COLORED,
    ...(index < COLORED ? {line: {color: COLORS[2 * index % COLORS.length][0], dash: 2 * index < COLORS.length ? "solid" : "dash"}}
      : {line: {color: `rgba(128,128,128,${Math.max(0.1, 0.5 - lines.length / 400)})`, width: 1}}),
  })).reverse();  // grey lines are below
  const grid = {gridcolor: "rgba(128,128,128,0.25)", zeroline: false, automargin: true}, height = innerWidth < 900 ? 300 : 340;
  const last = Math.max(...lines.map(line => line.curve[0].at(-1)));
  return {data: traces, layout: {
    xaxis: {...grid, title: {text: axis}, ...(last <= 12 ? {dtick: 1} : {})}, yaxis: {...grid, title: {text: text(metrics[metric])}}, hovermode: "closest", height,
    margin: {l: 50, r: 15, t: 30, b: 45}, meta: {across: axis}, uirevision: metric, font: {size: 13},
    legend: {orientation: "h", traceorder: "reversed", yref: "container", y: 0, yanchor: "bottom"},
  }};
};
const library = () => window.Plotly ? null : new Promise((resolve, reject) => {
  document.head.append(Object.assign(document.createElement("script"), {src: place.dataset.plotly, onload: resolve, onerror: reject}));
});
const drawPanel = async (answer, ids) => {
  const seed = indexOf("seed"), labels = new Map(table.rows().data().toArray().map(row => [row[0], `${row[1]}, seed ${row[seed]}`]));
  const lines = ids.filter(id => answer.runs[id]).map(id => ({...answer.runs[id], label: labels.get(id)}));
  const box = document.getElementById("curve-figure");
  panel.hidden = !answer.metric;
  if (!curves.open || !lines.length) return;
  await library();
  box.nextElementSibling.textContent = JSON.stringify(figure(lines, answer));
  draw(box);
};
let requested = 0;
const refresh = async () => {
  const number = ++requested, page = table.rows({page: "current"}).ids().toArray();
  const filtered = table.rows({search: "applied", order: "applied"}).ids().toArray(), some = new Set(chosen());
  const ids = [...some, ...filtered.filter(id => !some.has(id))].slice(0, Number(maxCurves) - page.length);
  document.getElementById("curve-runs").textContent = ids.length < filtered.length
    ? `${ids.length} of ${filtered.length.toLocaleString("en")} runs` : `${ids.length} run${ids.length === 1 ? "" : "s"}`;
  const wanted = new Set([...page, ...(curves.open ? ids : [])]);
  const answer = await fetch(`${place.dataset.curves}?${new URLSearchParams([["metric", metric.value], ...[...wanted].map(id => ["run", id])])}`);
  if (!answer.ok || number !== requested) return;
  const values = await answer.json();
  const options = Object.entries(values.metrics).map(([name, words]) => new Option(words, name, false, name === values.metric));
  if (String(options.map(option => option.value)) !== String([...metric.options].map(option => option.value))) metric.replaceChildren(...options);
  page.forEach(id => {
    const html = values.runs[id] ? sparkline(values.runs[id], values) : "", cell = table.cell(`#${id}`, curve + 1).node();
    if (cell && sparks.get(id) !== html) cell.innerHTML = html;
    sparks.set(id, html);
  });
  await drawPanel(values, ids);
};
let timer;
const refreshSoon = () => {  // one request for all changes within a moment
  clearTimeout(timer);
  timer = setTimeout(() => refresh().catch(() => {}), 100);
};
const count = () => table.button(0).enable(chosen().length >= 2 && chosen().length <= maxRuns);
table.on("select deselect", count).draw();
count();
curves.open = innerWidth >= 900;
table.on("draw select deselect", refreshSoon);
curves.addEventListener("toggle", refreshSoon);
metric.addEventListener("change", refreshSoon);
refreshSoon();
let drawn = JSON.stringify(rows);
document.addEventListener("update", () => {
  const fresh = read(), selected = chosen().map(id => `#${id}`), source = JSON.stringify(fresh.rows);
  if (JSON.stringify(fresh.columns) !== heads) return location.reload();
  if (source === drawn) return;
  drawn = source;
  const focused = document.activeElement, row = focused.closest("#runs tbody tr");
  const stop = row && [...row.querySelectorAll(STOPS)].indexOf(focused);
  table.clear().rows.add(fresh.rows).draw(false);
  table.rows(selected).select();
  if (row) document.getElementById(row.id)?.querySelectorAll(STOPS)[stop]?.focus({preventScroll: true});
});
