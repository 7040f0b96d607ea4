// The viewer of puzzles (thinking.html.jinja). The script draws every box of the page, and `lookForThinking` draws the boxes that
// were added later. The data of a box follow it as JSON.
const lookForThinking = (() => {
  const add = (parent, tag, attributes = {}, words = "") => {
    const node = document.createElementNS(tag === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI, tag);
    Object.entries(attributes).forEach(([name, value]) => node.setAttribute(name, value));
    node.textContent = words;
    return parent.appendChild(node);
  };
  const draw = (svg, run, puzzle, segment) => {  // a cell is 10 by 10; marks are bits: 1 given, 2 wrong, 4 changed
    const {rows, columns} = puzzle, cells = puzzle.cells[segment], marks = [...puzzle.marks[segment]].map(Number);
    const cellsWhere = test => cells.map((_, cell) => cell).filter(test), marked = bit => cellsWhere(cell => marks[cell] & bit);
    const corner = cell => [cell % columns * 10, Math.floor(cell / columns) * 10];
    const boxes = (list, inset = 0) => list.map(cell => {
      const [x, y] = corner(cell), side = 10 - 2 * inset;
      return `M${x + inset} ${y + inset}h${side}v${side}h${-side}z`;
    }).join("");
    const strokes = marked(2).map(cell => `M${corner(cell)[0] + 1.4} ${corner(cell)[1] + 8.6}l7.2 -7.2`).join("");
    const steps = (length, step) => Array.from({length: length / step + 1}, (_, index) => 10 * index * step);
    const lines = (tall, wide) => steps(rows, tall).map(y => `M0 ${y}h${10 * columns}`).join("")
      + steps(columns, wide).map(x => `M${x} 0v${10 * rows}`).join("");
    const path = (name, d) => add(svg, "path", {class: name, d});
    svg.replaceChildren();
    if (run.colours.length)
      new Set(cells).forEach(token => { path("", boxes(cellsWhere(cell => cells[cell] === token))).style.fill = run.colours[token]; });
    else {
      path("paper", boxes(cellsWhere(() => true)));
      path("given", boxes(marked(1)));
      path("wrong", boxes(marked(2)));
    }
    path("lines", lines(1, 1));
    if (run.colours.length) path("halo", strokes + boxes(marked(4), 1));
    path("struck", strokes);
    path("changed", boxes(marked(4), 1));
    path("boxes", lines(run.box[0] || rows, run.box[1] || columns));
    if (!run.colours.length) cells.forEach((token, cell) => {
      const [x, y] = corner(cell), name = marks[cell] & 1 ? "given" : marks[cell] & 2 ? "wrong" : "";
      add(svg, "text", {x: x + 5, y: y + 5.2, class: name}, run.symbols[token]);
    });
  };
  const view = (parent, run, puzzle, when) => {  // a grid with its state in words below it
    const block = add(parent, "div", {class: when}), box = `-0.5 -0.5 ${10 * puzzle.columns + 1} ${10 * puzzle.rows + 1}`;
    const svg = add(block, "svg", {role: "img", viewBox: box, class: run.colours.length ? "coloured" : ""});
    const lines = add(block, "p");
    return shownSegment => {
      const segment = Math.min(shownSegment, puzzle.cells.length - 1);  // a puzzle with fewer segments stays at its last
      const after = segment ? `after segment ${segment}` : "";
      const words = puzzle.words[segment], name = `test puzzle ${puzzle.row}`;
      draw(svg, run, puzzle, segment);
      svg.setAttribute("aria-label", [name, after, ...words].filter(Boolean).join(", "));
      lines.replaceChildren();
      add(lines, "b", {}, when === "print" ? [name, after].filter(Boolean).join(", ") : name);
      words.forEach(word => { add(lines, "br"); lines.append(word); });
    };
  };
  const think = box => {
    const text = box.nextElementSibling.textContent;
    if (box.thought === text) return;
    box.thought = text;
    box.replaceChildren();
    const {segments, runs} = JSON.parse(text), views = [], bar = add(box, "div", {class: "thinking-bar"});
    const play = add(bar, "button", {type: "button"}, "Play"), range = {type: "range", min: 0, max: segments};
    const slider = add(bar, "input", {...range, "aria-label": "Segment"}), output = add(bar, "output");
    let timer = 0;
    const show = segment => {
      box.segment = slider.value = segment;
      output.textContent = segment ? `segment ${segment} of ${segments}` : "as given";
      slider.setAttribute("aria-valuetext", output.textContent);
      views.forEach(showView => showView(segment));
    };
    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
    const step = () => { if (box.isConnected && box.segment < segments) show(box.segment + 1); else stop(); };
    play.onclick = () => {
      if (timer) return stop();
      if (box.segment === segments) show(0);
      play.textContent = "Pause";
      timer = setInterval(step, 600);
    };
    slider.oninput = () => { stop(); show(+slider.value); };
    box.onkeydown = event => {
      const target = {ArrowLeft: box.segment - 1, ArrowRight: box.segment + 1, Home: 0, End: segments}[event.key];
      if (target === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      stop();
      show(Math.max(0, Math.min(segments, target)));
    };
    runs.forEach(run => {
      add(box, "h3", {}, run.title);
      const list = add(box, "div", {class: "thoughts"}), columns = Math.max(...run.puzzles.map(puzzle => puzzle.columns));
      list.style.setProperty("--least", `${Math.max(150, Math.min(18 * columns, 340))}px`);
      run.puzzles.forEach(puzzle => {
        const figure = add(list, "figure"), last = puzzle.cells.length - 1;
        views.push(view(figure, run, puzzle, "now"));
        [...new Set([Math.min(1, last), last])].forEach(segment => view(figure, run, puzzle, "print")(segment));
      });
    });
    show(Math.min(box.segment ?? segments, segments));
  };
  return () => document.querySelectorAll(".thinking").forEach(think);
})();
lookForThinking();
