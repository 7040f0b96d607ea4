// Draws the figures of a page, and follows the reader's choice of dark or light. `COLORS` stands before it: each colour with its
// form on a dark page.
const dark = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const draw = box => {
  const text = box.nextElementSibling.textContent;
  const light = () => COLORS.reduce((found, [own, other]) => found.replaceAll(own, other), text);
  const figure = JSON.parse(dark.matches && !printing ? light() : text);
  const layout = figure.layout;
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = {...layout.font, color: printing ? "#1c2126" : getComputedStyle(document.body).color};
  const paper = printing ? "rgb(255, 255, 255)" : getComputedStyle(document.body).backgroundColor;
  if (layout.meta?.min_width) layout.width = Math.max(box.clientWidth, layout.meta.min_width);  // the page scrolls to the rest
  if (layout.meta?.width) layout.height *= Math.min(1, box.clientWidth / layout.meta.width);  // images keep their proportions
  if (printing) layout.width = box.clientWidth;  // Plotly keeps the width of the window otherwise
  layout.hoverlabel = {bgcolor: paper, font: {color: layout.font.color}};
  const kept = zoomed[layout.meta?.across];
  if (kept) axesAcross(layout).forEach(axis => { layout[axis].range = [...kept]; });
  const first = !box.on;
  Plotly.react(box, figure.data, layout, {responsive: true, displaylogo: false});
  if (first) {
    box.on("plotly_relayout", change => zoomAll(box, change));
    box.on("plotly_afterplot", () => oneStop(box));
  }
  else if (!printing) Plotly.Plots.resize(box);
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
