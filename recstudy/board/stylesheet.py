"""The board's style sheet: the report's own, and what only a live page has; and the page that everything is shown in."""

from recstudy.analysis.page import CSS, ICON, VIEWER_CSS
from recstudy.board import brush_script

BOARD = """
.skip { position: absolute; left: -999em; background: var(--paper); padding: 8px; z-index: 9; }
.skip:focus { left: 8px; top: 8px; }
.top { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 10px 20px; background: var(--panel);
  border-bottom: 1px solid var(--line); position: sticky; top: 0; z-index: 5; }
.top a { font-weight: 600; } .top button { margin-left: auto; font-size: .88rem; padding: 0 10px; }
.lost { background: var(--warn-paper); color: var(--warn); padding: 8px 20px; margin: 0; font-weight: 600;
  position: sticky; top: 44px; z-index: 4; }
.lost:empty, section:empty, body:not(:has(#contents)) .top [href="#contents"] { display: none; }
main { padding-top: 20px; } main:focus, h1:focus, h2:focus, nav:focus { outline: none; }
html { scroll-padding-top: 52px; }  /* what is sought, or has the focus, is not under the bar */
.pages { display: flex; flex-wrap: wrap; gap: 4px 12px; margin: 10px 0; align-items: baseline; }
.pages [aria-current] { color: inherit; font-weight: 700; text-decoration: none; }
.pages .next { margin-left: 14px; } .pages a, .pages b { min-width: 1.6em; text-align: center; }
.bar { display: inline-flex; gap: 8px; align-items: center; white-space: nowrap; }
progress { width: 7em; height: .6em; accent-color: var(--accent); }
.state { border: 1px solid var(--line); border-radius: 99px; padding: 0 8px; font-size: .85em; white-space: nowrap; }
.state.failed, .state.diverged, .state.smoke { color: var(--warn); border-color: currentColor; }
.state.running { color: var(--accent); border-color: currentColor; font-weight: 600; }
form { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: end; margin: 10px 0; }
label { display: grid; gap: 2px; font-size: .85rem; color: var(--soft); flex: 1 1 14em; max-width: 26em; }
label.choice { display: flex; flex: 0 1 14em; align-items: center; gap: 6px; color: var(--ink); overflow-wrap: anywhere; }
input[type=checkbox] { width: 1.15em; height: 1.15em; flex: none; margin: 0 4px 0 0; vertical-align: -2px;
  accent-color: var(--accent); }
form.whole { display: block; } form > details { flex: 1 1 100%; margin: 0; }
.fields { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: end; flex: 1 1 100%; margin-top: 8px; }
.chip { border: 1px solid currentColor; border-radius: 99px; padding: 1px 10px; text-decoration: none; overflow-wrap: anywhere; }
.ticked { display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: center; padding: 6px 0; position: sticky;
  top: 44px; z-index: 3; background: var(--paper); }
.runs thead a { color: inherit; text-decoration-style: dotted; }
button:disabled { color: var(--soft); cursor: default; font-weight: 400; }
input, select, button { font: inherit; font-size: 1rem; line-height: 1.5; color: var(--ink); background: var(--paper);
  border: 1px solid var(--edge); border-radius: 6px; padding: 6px 10px; }
input, select { width: 100%; } button { cursor: pointer; background: var(--panel); font-weight: 600; }
input:focus-visible, select:focus-visible, button:focus-visible,
pre:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
tbody th small { color: var(--soft); font-weight: 400; }
.cards { max-height: 85vh; overflow: auto; } .thinking-bar { top: 44px; }
@media (max-width: 640px) {
  .top { padding: 8px 12px; gap: 4px 14px; font-size: .92rem; }
  .lost, .thinking-bar { top: 39px; }
  label { flex-basis: 100%; max-width: none; } label:only-of-type { flex-basis: 12em; } label.choice { flex: 0 1 47%; }
  .cards { display: flex; overflow-x: auto; max-height: none; scroll-snap-type: x proximity; }
  .card { flex: 0 0 88%; scroll-snap-align: start; }
  .runs thead tr { display: flex; flex-wrap: wrap; gap: 0 6px; } .runs thead, .runs thead th { display: block; position: static; }
  .runs thead th { padding: 2px 4px; min-width: 0; border: 0; }
}
"""
STYLE = CSS + VIEWER_CSS + brush_script.CSS + BOARD
INDEX = f"""<!DOCTYPE html>
<html lang="en">
<head>
{{%metas%}}
<title>{{%title%}}</title>
<link rel="icon" href="{ICON}">
<link rel="stylesheet" href="/_board/style.css">
{{%css%}}
</head>
<body>
<a class="skip" href="#page">To the page</a>
<noscript><p class="warning">The board needs JavaScript; the tables of `recstudy report FOLDER` do without.</p></noscript>
<nav class="top" aria-label="Board">
<a href="/">Studies and runs</a> <a href="/compare">Compare</a> <a href="#contents">On this page</a>
<button type="button" id="notify" hidden>Notify me</button>
</nav>
<p class="lost" id="lost" role="status"></p>
<main id="page" tabindex="-1"></main>
{{%app_entry%}}
<footer>
{{%config%}}
{{%scripts%}}
{{%renderer%}}
<script src="/_board/board.js"></script>
</footer>
</body>
</html>"""
