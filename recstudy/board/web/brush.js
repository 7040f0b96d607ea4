// Parallel coordinates: draws the lines of runs through their settings to their scores, and lets a reader brush the axes, by the
// pointer and by the keyboard. What is brushed stands in the address, where the list under them finds it as any other filter.
const SVG = "http://www.w3.org/2000/svg", TALL = 300, ABOVE = 44, BELOW = 22, LEAST = 96;
const svg = (parent, tag, attributes = {}, words = "") => {
  const node = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
  if (words) node.textContent = words;
  parent.append(node);
  return node;
};
const fits = (asked, value, isNumber) => asked.split("|").some(one => {  // as columns.condition
  const [low, high] = one.split(".."), range = one.includes("..") && isNumber;
  if (range) return (!low.trim() || +value >= +low) && (!high.trim() || +value <= +high);
  return one.trim().toLowerCase() === value.toLowerCase() || (isNumber && one.trim() !== "" && +one === +value);
});
const brush = box => {
  const text = box.nextElementSibling.textContent, width = Math.max(box.clientWidth, 1);
  const query = new URLSearchParams(location.search);
  if (box.made !== text || box.wide !== width) build(box, JSON.parse(text), width);
  Object.assign(box, {made: text, wide: width});
  box.show(query);
};
const build = (box, {axes, lines}, room) => {
  const width = Math.max(room, LEAST * axes.length), left = 70, right = 60;
  const x = at => left + (width - left - right) * (axes.length > 1 ? at / (axes.length - 1) : 0.5);
  const y = height => ABOVE + TALL * (1 - height), focused = document.activeElement.dataset?.mark;
  box.replaceChildren();
  const root = svg(box, "svg", {width, height: TALL + ABOVE + BELOW});
  const outside = svg(root, "g"), chosenLines = svg(root, "g");  // those lie above
  const paths = lines.map(({at, color, words}) => {
    const points = at.map((place, axis) => place < 0 ? null : `${x(axis)},${y(axes[axis].heights[place])}`).filter(Boolean);
    const path = svg(chosenLines, "polyline", {class: "line", points: points.join(" "), stroke: color});
    svg(path, "title", {}, words);
    return path;
  });
  const parts = axes.map((axis, at) => {
    const group = svg(root, "g", {transform: `translate(${x(at)} 0)`}), last = at === axes.length - 1;
    svg(group, "line", {class: "axis", y1: y(1), y2: y(0)});
    const name = axis.title.length > 17 ? axis.title.slice(0, 16) + "…" : axis.title;
    svg(svg(group, "text", {class: "title", y: 18, "text-anchor": "middle"}, name), "title", {}, axis.title);
    const apart = (tick, at, all) => !at || Math.abs(axis.heights[tick] - axis.heights[all[at - 1]]) * TALL > 14;
    axis.ticks.filter(apart).forEach(tick => svg(group, "text", {
      x: last ? 12 : -12, y: y(axis.heights[tick]) + 4, "text-anchor": last ? "start" : "end"}, axis.words[tick].slice(0, 12)));
    const chosen = svg(group, "rect", {class: "chosen", x: -7, width: 14});
    const reach = svg(group, "rect", {class: "reach", x: -20, width: 40, y: y(1) - 8, height: TALL + 16});
    const marks = ["lowest", "highest"].map((end, high) => svg(group, "polygon", {
      class: "mark", tabindex: 0, role: "slider", "aria-orientation": "vertical", "aria-valuemin": 0, "data-mark": `${at} ${end}`,
      "aria-valuemax": axis.values.length - 1, "aria-label": `${axis.title}, ${end}`,
      points: high ? "-9,-13 9,-13 0,-1" : "-9,13 9,13 0,1"}));
    const part = {axis, chosen, marks, low: 0, high: axis.values.length - 1};
    const ask = (low, high) => {  // what is asked of this axis: nothing, a range, or these words
      const all = low > high || (low === 0 && high === axis.values.length - 1), some = axis.values.slice(low, high + 1);
      const words = axis.numbers ? (low === high ? some[0] : `${some[0]}..${some[some.length - 1]}`) : some.join("|");
      askFor({[axis.name]: all ? "" : words, runs: ""});
    };
    const height = event => 1 - (event.clientY - root.getBoundingClientRect().top - ABOVE) / TALL;
    const within = (one, other) => {
      const [low, high] = [Math.min(one, other) - 0.025, Math.max(one, other) + 0.025];
      return axis.heights.map((value, place) => value >= low && value <= high ? place : -1).filter(place => place >= 0);
    };
    const drag = (held, event, from) => {  // from here on, or from the other end of what is chosen
      const begun = height(event);
      held.setPointerCapture(event.pointerId);
      const move = moved => place(chosen, y(Math.max(from, height(moved))), y(Math.min(from, height(moved))));
      held.addEventListener("pointermove", move);
      held.addEventListener("pointerup", ended => {
        held.removeEventListener("pointermove", move);
        const found = within(from, height(ended)), still = Math.abs(begun - height(ended)) < 0.015;
        if (still && held !== reach) return;
        if (still || !found.length) ask(0, axis.values.length - 1);
        else ask(found[0], found[found.length - 1]);
        box.show(new URLSearchParams(location.search));
      }, {once: true});
    };
    reach.addEventListener("pointerdown", event => drag(reach, event, height(event)));
    marks.forEach((mark, high) => mark.addEventListener("pointerdown", event =>
      drag(mark, event, axis.heights[high ? part.low : part.high])));
    marks.forEach((mark, high) => mark.addEventListener("keydown", event => {
      const step = {ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity}[event.key];
      const clear = event.key === "Delete" || event.key === "Escape";
      if ((!step && !clear) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const top = axis.values.length - 1, to = (high ? part.high : part.low) + step;
      if (clear) ask(0, top);
      else if (high) ask(part.low, Math.max(part.low, Math.min(top, to)));
      else ask(Math.max(0, Math.min(part.high, to)), part.high);
      box.show(new URLSearchParams(location.search));
    }));
    return part;
  });
  const place = (rect, top, bottom) => { rect.setAttribute("y", top); rect.setAttribute("height", Math.max(0, bottom - top)); };
  box.show = query => {
    const inside = parts.map(({axis}) => {
      const asked = query.get(axis.name);
      return asked ? axis.values.map(value => fits(asked, value, axis.numbers)) : null;
    });
    parts.forEach((part, at) => {
      const {axis, chosen, marks} = part, found = inside[at] ? inside[at].flatMap((own, place) => own ? [place] : []) : null;
      part.low = found && found.length ? found[0] : 0;
      part.high = found && found.length ? found[found.length - 1] : axis.values.length - 1;
      const ends = [axis.heights[part.low], axis.heights[part.high]];
      place(chosen, y(ends[1]) - 4, found ? y(ends[0]) + 4 : y(ends[1]) - 4);
      marks.forEach((mark, high) => {
        const value = high ? part.high : part.low;
        mark.setAttribute("transform", `translate(0 ${y(ends[high]) + (high ? -4 : 4)})`);
        mark.setAttribute("aria-valuenow", value);
        mark.setAttribute("aria-valuetext", axis.words[value]);
      });
    });
    paths.forEach((path, line) => {
      const out = lines[line].at.some((value, axis) => inside[axis] && (value < 0 || !inside[axis][value]));
      path.classList.toggle("out", out);
      (out ? outside : chosenLines).append(path);
    });
  };
  if (focused) root.querySelector(`[data-mark="${focused}"]`)?.focus({preventScroll: true});
};
const lookForBrushes = () => page.querySelectorAll(".brush").forEach(brush);
addEventListener("resize", lookForBrushes);
