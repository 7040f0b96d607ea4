// Draws the figures of a page in the reader's light or dark colour scheme. The page defines `COLORS` before this script: pairs of a
// light colour and its dark counterpart.
const dark = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const draw = box => {
  const text = box.nextElementSibling.textContent;
  const darken = () => COLORS.reduce((json, [lightColor, darkColor]) => json.replaceAll(lightColor, darkColor), text);
  const figure = JSON.parse(dark.matches && !printing ? darken() : text);
  const layout = figure.layout;
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = {...layout.font, color: printing ? "#1c2126" : getComputedStyle(document.body).color};
  const paper = printing ? "rgb(255, 255, 255)" : getComputedStyle(document.body).backgroundColor;
  if (layout.meta?.min_width) layout.width = Math.max(box.clientWidth, layout.meta.min_width);  // a narrower box scrolls
  const form = layout.meta?.forms?.filter(choice => choice.width <= box.clientWidth).at(-1);  // line breaks for this width
  if (form?.height) layout.height = form.height;
  for (const name in form) if (layout[name]?.constructor === Object) Object.assign(layout[name], form[name]);
  if (layout.meta?.width) layout.height *= Math.min(1, box.clientWidth / layout.meta.width);  // images keep their proportions
  if (printing) layout.width = box.clientWidth;  // Plotly would keep the width of the window
  layout.hoverlabel = {bgcolor: paper, font: {color: layout.font.color}};
  const sharedRange = sharedRanges[layout.meta?.across];
  if (sharedRange) xAxesOf(layout).forEach(axis => { layout[axis].range = [...sharedRange]; });
  const isNew = !box.on;
  Plotly.react(box, figure.data, layout, {responsive: true, displaylogo: false});
  if (isNew) {
    box.on("plotly_relayout", change => zoomAll(box, change));
    box.on("plotly_afterplot", () => makeToolbar(box));
  }
  else if (!printing) Plotly.Plots.resize(box);
  makeToolbar(box);
};
// Figures with the same quantity along x, such as epochs, zoom together.
const sharedRanges = {};  // quantity along x -> range
const xAxesOf = layout => Object.keys(layout).filter(name => /^xaxis\d*$/.test(name) && layout[name].type !== "category");
const zoomAll = (box, change) => {
  const across = box.layout.meta?.across, key = Object.keys(change).find(name => /^xaxis\d*\.(range|autorange)/.test(name));
  if (!across || !key) return;
  const axis = box.layout[key.split(".")[0]], range = axis.autorange === true ? null : [...axis.range];
  // a relayout of this function ends here, so that figures do not trigger each other for ever
  if (String(sharedRanges[across] || "") === String(range || "")) return;
  if (range) sharedRanges[across] = range;
  else delete sharedRanges[across];
  document.querySelectorAll(".figure.js-plotly-plot").forEach(figure => {
    if (figure === box || figure.layout.meta?.across !== across) return;
    const settings = xAxesOf(figure.layout).map(name => range ? [`${name}.range`, [...range]] : [`${name}.autorange`, true]);
    Plotly.relayout(figure, Object.fromEntries(settings));
  });
};
// The Tab key reaches the buttons of a figure once; the arrow keys move between them.
const buttonsOf = bar => [...bar.querySelectorAll(".modebar-btn")];
const setTabStop = (buttons, index) => buttons.forEach((button, position) => { button.tabIndex = position === index ? 0 : -1; });
const makeToolbar = box => box.querySelectorAll(".modebar").forEach(bar => {
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "figure tools");
  setTabStop(buttonsOf(bar), Math.max(0, buttonsOf(bar).indexOf(document.activeElement)));
});
addEventListener("keydown", event => {
  const bar = event.target.closest?.(".modebar"), step = {ArrowLeft: -1, ArrowRight: 1, Home: -99, End: 99}[event.key];
  if (!bar || !step || event.ctrlKey || event.metaKey || event.altKey) return;
  const buttons = buttonsOf(bar), index = Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(event.target) + step));
  event.preventDefault();
  setTabStop(buttons, index);
  buttons[index].focus();
});
const drawAll = () => window.Plotly && document.querySelectorAll(".figure").forEach(draw);
let width = innerWidth;
dark.addEventListener("change", drawAll);
// a phone reports a new height whenever its address bar moves, so only the width counts
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
const setPrinting = isPrinting => {  // printed figures have the width of the paper, not of the window
  printing = isPrinting;
  document.documentElement.classList.toggle("printing", isPrinting);
  drawAll();
};
addEventListener("beforeprint", () => setPrinting(true));
addEventListener("afterprint", () => setPrinting(false));
drawAll();
