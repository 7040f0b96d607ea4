"""The board's style sheet and script: the report's own, and what only a live page has."""

from recstudy.analysis.figures.style import CSS, SCRIPT

BOARD = """
.skip { position: absolute; left: -999em; background: var(--paper); padding: 8px; z-index: 9; }
.skip:focus { left: 8px; top: 8px; }
.top { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 10px 20px; background: var(--panel);
  border-bottom: 1px solid var(--line); }
.top a { font-weight: 600; }
main { padding-top: 20px; } main:focus, h1:focus, h2:focus { outline: none; }
.pages { display: flex; flex-wrap: wrap; gap: 4px 12px; margin: 10px 0; align-items: baseline; }
.pages a, .pages b { min-width: 1.6em; text-align: center; }
.bar { display: inline-flex; gap: 8px; align-items: center; white-space: nowrap; }
progress { width: 7em; height: .6em; accent-color: var(--accent); }
.state { border: 1px solid var(--line); border-radius: 99px; padding: 0 8px; font-size: .85em; white-space: nowrap; }
.state.failed, .state.diverged, .state.smoke { color: var(--warn); border-color: currentColor; }
.state.running { color: var(--accent); border-color: currentColor; font-weight: 600; }
form { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: end; margin: 10px 0; }
label { display: grid; gap: 2px; font-size: .85rem; color: var(--soft); flex: 1 1 14em; max-width: 26em; }
input[type=text], button { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--line);
  border-radius: 6px; padding: 6px 10px; width: 100%; height: auto; }
button { width: auto; cursor: pointer; background: var(--panel); font-weight: 600; }
input:focus-visible, button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
tbody th small { color: var(--soft); font-weight: 400; }
.lost { background: var(--warn-paper); color: var(--warn); padding: 8px 20px; font-weight: 600; }
@media (max-width: 640px) { main { padding: 14px 12px 60px; } .top { padding: 8px 12px; } tbody th { min-width: 12em; }
  progress { display: none; } }
"""
STYLE = CSS + BOARD
# Draws the figures that come in or change, as the report's script does those that are there when it opens. The drawing library
# is loaded with the first of them: a page of tables is there in half the time without it.
FIGURES = (
    SCRIPT
    + """
let library = null;
const drawNew = () => document.querySelectorAll(".figure").forEach(box => {
  const text = box.nextElementSibling.textContent;
  if (box.drawn === text) return;
  if (window.Plotly) { box.drawn = text; draw(box); return; }
  if (library) return;
  library = Object.assign(document.createElement("script"), {src: "/_board/plotly.js", onload: drawNew});
  document.head.append(library);
});
new MutationObserver(drawNew).observe(document.body, {childList: true, subtree: true, characterData: true});
"""
)
# After another page is shown: its title, and the keyboard's focus where a click on a link would have left it without one.
ARRIVE = """
page => {
  document.title = page.title;
  if (window.arrivedAt !== undefined && window.arrivedAt !== page.at) {
    const part = location.hash && document.getElementById(location.hash.slice(1));
    const target = part || document.querySelector("h1");
    if (part) part.scrollIntoView();
    if (target) { target.tabIndex = -1; target.focus({preventScroll: true}); }
  }
  window.arrivedAt = page.at;
  return window.dash_clientside.no_update;
}
"""
INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<title>{%title%}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/_board/style.css">
{%css%}
</head>
<body>
<a class="skip" href="#page">To the page</a>
<noscript><p class="warning">The board needs JavaScript; the tables of `recstudy report FOLDER` do without.</p></noscript>
{%app_entry%}
<footer>
{%config%}
{%scripts%}
{%renderer%}
<script src="/_board/figures.js"></script>
</footer>
</body>
</html>"""
