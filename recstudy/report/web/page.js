// Does again what layout.py does (dress, arrange), for the width at hand, and follows the reader's choice of dark or
// light. `COLORS` stands before it: each colour with its form on a dark page.
const arrange = (figure, width) => {
  const layout = figure.layout, grid = layout.meta.grid, inner = width - 24;
  const across = Math.min(layout.meta.panels, Math.max(1, Math.floor(inner / grid.narrow)));
  const side = inner / across, wide = Math.min(side - grid.left - grid.right, grid.widest);
  const high = grid.high || grid.ratio * wide, row = grid.above + high + grid.below;
  const whole = row * Math.ceil(layout.meta.panels / across);
  for (let at = 0; at < layout.meta.panels; at++) {
    const x = at % across * side + grid.left, axis = at ? at + 1 : "";
    const y = Math.floor(at / across) * row + grid.above;
    layout["xaxis" + axis].domain = [x / inner, (x + wide) / inner];
    layout["yaxis" + axis].domain = [Math.max(0, 1 - (y + high) / whole), 1 - y / whole];
  }
  if (grid.columns) figure.data.forEach(trace => {
    if (trace.mode === "text") trace.textfont.size = Math.max(9, Math.min(12, wide / grid.columns / 7.5));
    if (trace.mode === "markers") trace.marker.size = 0.9 * wide / grid.columns;
  });
  layout.margin = {l: 12, r: 12, t: grid.columns ? 0 : 24, b: grid.bottom};  // above, the buttons
  layout.height = whole + layout.margin.t + grid.bottom;
};
const older = (figure, width) => {
  const layout = figure.layout;
  const names = figure.data.filter(trace => trace.name && trace.showlegend !== false).map(trace => trace.name.length);
  const across = Math.max(1, Math.floor((width - 80) / (Math.max(0, ...names) * 8 + 60)));
  layout.margin.b = 70 + 22 * (names.length > 1 ? Math.ceil(names.length / across) : 0);
  layout.height = 300 * layout.meta.panels + layout.margin.t + layout.margin.b;
  layout.width = width;
  layout.title.text = undefined;
  layout.margin.t = 20;
  if (layout.meta.grid) arrange(figure, width);
};
const dark = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const draw = box => {
  const text = box.nextElementSibling.textContent;
  const light = () => COLORS.reduce((found, [own, other]) => found.replaceAll(own, other), text);
  const figure = JSON.parse(dark.matches && !printing ? light() : text);
  const layout = figure.layout;
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = {...layout.font, color: printing ? "#1c2126" : getComputedStyle(document.body).color};
  if (layout.meta?.panels) older(figure, box.clientWidth);
  const paper = printing ? "rgb(255, 255, 255)" : getComputedStyle(document.body).backgroundColor;
  if (layout.meta?.axes) layout.width = Math.max(box.clientWidth, 50 + 100 * layout.meta.axes);  // the page scrolls to the rest
  layout.hoverlabel = {bgcolor: paper, font: {color: layout.font.color}};
  const kept = zoomed[layout.meta?.across];
  if (kept) axesAcross(layout).forEach(axis => { layout[axis].range = [...kept]; });
  const first = !box.on;
  Plotly.react(box, figure.data, layout, {responsive: true, displaylogo: false});
  if (first) {
    box.on("plotly_relayout", change => zoomAll(box, change));
    box.on("plotly_afterplot", () => oneStop(box));
  }
  oneStop(box);
};
// Figures along the same axis, such as epochs, are zoomed together: what one shows of it, all show.
const zoomed = {};  // by what stands along the axis
const axesAcross = layout => Object.keys(layout).filter(name => /^xaxis\d*$/.test(name) && layout[name].type !== "category");
const zoomAll = (box, change) => {
  const across = box.layout.meta?.across, name = Object.keys(change).find(one => /^xaxis\d*\.(range|autorange)/.test(one));
  if (!across || !name) return;
  const axis = box.layout[name.split(".")[0]], range = axis.autorange === true ? null : [...axis.range];
  if (String(zoomed[across] || "") === String(range || "")) return;  // this is what the others were told
  if (range) zoomed[across] = range;
  else delete zoomed[across];
  document.querySelectorAll(".figure.js-plotly-plot").forEach(other => {
    if (other === box || other.layout.meta?.across !== across) return;
    const told = axesAcross(other.layout).map(one => range ? [`${one}.range`, [...range]] : [`${one}.autorange`, true]);
    Plotly.relayout(other, Object.fromEntries(told));
  });
};
// The buttons of a figure are one stop of the Tab key; the arrow keys lead from one to the next.
const buttonsOf = bar => [...bar.querySelectorAll(".modebar-btn")];
const stopAt = (buttons, at) => buttons.forEach((one, place) => { one.tabIndex = place === at ? 0 : -1; });
const oneStop = box => box.querySelectorAll(".modebar").forEach(bar => {
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "of the figure");
  stopAt(buttonsOf(bar), Math.max(0, buttonsOf(bar).indexOf(document.activeElement)));
});
addEventListener("keydown", event => {
  const bar = event.target.closest?.(".modebar"), step = {ArrowLeft: -1, ArrowRight: 1, Home: -99, End: 99}[event.key];
  if (!bar || !step || event.ctrlKey || event.metaKey || event.altKey) return;
  const buttons = buttonsOf(bar), to = Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(event.target) + step));
  event.preventDefault();
  stopAt(buttons, to);
  buttons[to].focus();
});
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
