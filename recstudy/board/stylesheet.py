"""The board's style sheet: the report's own, and what only a live page has; and the page that everything is shown in."""

from recstudy.analysis.figures import viewer
from recstudy.analysis.figures.style import CSS

BOARD = """
.skip { position: absolute; left: -999em; background: var(--paper); padding: 8px; z-index: 9; }
.skip:focus { left: 8px; top: 8px; }
.top { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 10px 20px; background: var(--panel);
  border-bottom: 1px solid var(--line); position: sticky; top: 0; z-index: 5; }
.top a { font-weight: 600; }
.lost { background: var(--warn-paper); color: var(--warn); padding: 8px 20px; margin: 0; font-weight: 600;
  position: sticky; top: 44px; z-index: 4; }
.lost:empty, section:empty, body:not(:has(#contents)) .top [href="#contents"] { display: none; }
main { padding-top: 20px; } main:focus, h1:focus, h2:focus, nav:focus { outline: none; }
html { scroll-padding-top: 52px; }  /* what is sought, or has the focus, is not under the bar */
.pages { display: flex; flex-wrap: wrap; gap: 4px 12px; margin: 10px 0; align-items: baseline; }
.pages a, .pages b { min-width: 1.6em; text-align: center; }
.bar { display: inline-flex; gap: 8px; align-items: center; white-space: nowrap; }
progress { width: 7em; height: .6em; accent-color: var(--accent); }
.state { border: 1px solid var(--line); border-radius: 99px; padding: 0 8px; font-size: .85em; white-space: nowrap; }
.state.failed, .state.diverged, .state.smoke { color: var(--warn); border-color: currentColor; }
.state.running { color: var(--accent); border-color: currentColor; font-weight: 600; }
form { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: end; margin: 10px 0; }
label { display: grid; gap: 2px; font-size: .85rem; color: var(--soft); flex: 1 1 14em; max-width: 26em; }
input, button { font: inherit; font-size: 1rem; line-height: 1.5; color: var(--ink); background: var(--paper);
  border: 1px solid var(--line); border-radius: 6px; padding: 6px 10px; }
input { width: 100%; } button { cursor: pointer; background: var(--panel); font-weight: 600; }
input:focus-visible, button:focus-visible, pre:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
tbody th small { color: var(--soft); font-weight: 400; }
/* A box that scrolls within the page is for long tables only; a wide one keeps its first column in sight. */
.scroll { max-height: none; } .scroll:has(tbody tr:nth-child(31)) { max-height: 85vh; }
.cards { max-height: 85vh; overflow: auto; } .thinking-bar { top: 44px; }
table { border-collapse: separate; border-spacing: 0; }
.scroll th:first-child { position: sticky; left: 0; z-index: 1; background: var(--paper); }
.scroll thead th:first-child { z-index: 2; background: var(--panel); } tbody tr:hover th:first-child { background: var(--panel); }
@media (min-width: 641px) { .stack tbody th { min-width: 20em; } }
@media (max-width: 640px) {
  main { padding: 14px 12px 60px; } .top { padding: 8px 12px; gap: 4px 14px; font-size: .92rem; }
  .lost, .thinking-bar { top: 39px; }
  label { flex-basis: 100%; max-width: none; } label:only-of-type { flex-basis: 12em; }
  th, td { padding: 6px 8px; } tbody th { min-width: 10.5em; max-width: 11em; } thead th { min-width: 5em; }
  table.words td { min-width: 5em; }
  .cards { display: flex; overflow-x: auto; max-height: none; scroll-snap-type: x proximity; }
  .card { flex: 0 0 88%; scroll-snap-align: start; }
  /* Tables of the board itself become a list: a row's name, and under it each value with its heading. */
  .stack thead { position: absolute; left: -999em; } .stack tr { display: block; padding: 6px 8px; }
  .stack tr:not(:last-child) { border-bottom: 1px solid var(--line); }
  .stack tbody th, .stack td { display: block; border: 0; padding: 2px 0; max-width: none; white-space: normal; }
  .stack td { display: inline-block; margin-right: 14px; min-width: 0; text-align: left; } .stack td:empty { display: none; }
  .stack td::before { content: attr(data-head) " "; color: var(--soft); font-size: .85rem; }
}
"""
STYLE = CSS + viewer.CSS + BOARD
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
<nav class="top" aria-label="Board">
<a href="/">Studies and runs</a> <a href="/compare">Compare</a> <a href="#contents">On this page</a>
</nav>
<p class="lost" id="lost" role="status"></p>
<main id="page" tabindex="-1"></main>
{%app_entry%}
<footer>
{%config%}
{%scripts%}
{%renderer%}
<script src="/_board/board.js"></script>
</footer>
</body>
</html>"""
