// Does again what layout.py does (dress, arrange, name_ends), for the width at hand, and follows the reader's choice of dark or
// light. `COLORS` stands before it: each colour with its form on a dark page.
const arrange = (figure, width) => {
  const layout = figure.layout, grid = layout.meta.grid, inner = width - 24;
  const heads = (layout.annotations || []).filter(one => one.name === "head");
  const each = Math.max(1, layout.meta.panels / grid.groups), across = Math.min(each, Math.max(1, Math.floor(inner / grid.narrow)));
  const side = inner / across, wide = Math.min(side - grid.left - grid.right, grid.widest);
  const high = grid.high || grid.ratio * wide, row = grid.above + high + grid.below;
  const group = grid.head + row * Math.ceil(each / across), whole = group * grid.groups;
  for (let at = 0; at < layout.meta.panels; at++) {
    const own = at % each, x = own % across * side + grid.left, axis = at ? at + 1 : "";
    const y = Math.floor(at / each) * group + grid.head + Math.floor(own / across) * row + grid.above;
    layout["xaxis" + axis].domain = [x / inner, (x + wide) / inner];
    layout["yaxis" + axis].domain = [Math.max(0, 1 - (y + high) / whole), 1 - y / whole];
  }
  heads.forEach((one, at) => { one.y = 1 - at * group / whole; });
  if (grid.columns) figure.data.forEach(trace => {
    if (trace.mode === "text") trace.textfont.size = Math.max(9, Math.min(12, wide / grid.columns / 7.5));
    if (trace.mode === "markers") trace.marker.size = 0.9 * wide / grid.columns;
  });
  layout.margin = {l: 12, r: 12, t: grid.columns ? 0 : 24, b: grid.bottom};  // above, the buttons
  layout.height = whole + layout.margin.t + grid.bottom;
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
    const direct = layout.meta.ends <= 0.36 * width;
    layout.annotations.filter(one => one.name === "end").forEach(one => { one.visible = direct; });
    layout.showlegend = !direct;
    layout.margin.r = direct ? layout.meta.ends : 20;
    if (direct) { layout.height += 70 - layout.margin.b; layout.margin.b = 70; }
  }
  if (layout.meta.grid) arrange(figure, width);
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
