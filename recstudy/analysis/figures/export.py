"""A figure's files: an HTML page that opens without a network, the numbers behind it, and PDF, SVG or PNG on request."""

import io
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import plotly.graph_objects as go
from PIL import Image

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.layout import Drawn
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import LIBRARY, escape, figure_box, links, warning_lines
from recstudy.analysis.shown import NOTHING, Shown, check_made
from recstudy.analysis.tables.latex import label, notes_under, sentence, tex
from recstudy.errors import ConfigError, choices, nearest
from recstudy.records import write_whole
from recstudy.report.venues import ARTICLE, Paper

FORMATS = ("pdf", "svg", "png")
SCALE = 0.8  # of a figure's pixels to Chrome's, of which there are 96 an inch: 0.6 points each, `theme.INCH` an inch
HIGHEST = 1.25  # times its width: a figure that a column would make higher goes across the text
DENSITY = 300  # pixels an inch of a PNG
# A PDF without the margins of 0.1 inches that Kaleido asks Chrome for, which then shrinks the figure by 5 %.
FLUSH = "<style>@page { margin: 0 } body { margin: 0 } img { display: block }</style>"
NO_BROWSER = (
    "figures were not exported as {formats}: no Chrome or Chromium answers ({reason}). Install one (on Debian: "
    "apt-get install chromium) or set BROWSER_PATH to it. The HTML and CSV files are there."
)
log = logging.getLogger(__name__)


def shown(records: StudyRecords, name: str, drawn: Drawn) -> "FigureShown":
    """The figure, with what must be known before any number of the study, whoever draws it."""
    check_made(drawn, Drawn, "drawn")
    return FigureShown(name, replace(drawn, notes=tuple(dict.fromkeys([*warnings(records), *drawn.notes]))))


@dataclass(frozen=True)
class FigureShown(Shown):
    """A figure of this name in a report."""

    name: str
    drawn: Drawn

    @property
    def html(self) -> str:
        drawn = self.drawn
        if drawn.data.empty:
            return warning_lines(drawn.notes) + NOTHING + drawn.below
        return figure_box(drawn.figure, drawn.alternative, drawn.notes, drawn.caption) + drawn.below

    @property
    def finding(self) -> str:
        return self.drawn.finding

    def without(self, said: Collection[str]) -> Self:
        left = tuple(note for note in self.drawn.notes if note not in said)
        same = len(left) == len(self.drawn.notes)  # then its file and its place in the page share one figure
        return self if same else replace(self, drawn=replace(self.drawn, notes=left))

    def write(self, folder: Path, file: str, export: Sequence[str], paper: Paper) -> str:
        problem = write_figure(self.drawn, folder / "figures", file, export, paper)
        if problem:
            log.warning("%s: %s", self.name, problem)
        return "" if self.drawn.data.empty else links("figures", file, ("html", "csv", *(() if problem else export)))

    @property
    def table(self) -> None:
        return None

    @property
    def figure(self) -> go.Figure:
        return self.drawn.figure


def write_figure(drawn: Drawn, folder: Path, name: str, formats: Sequence[str] = (), paper: Paper = ARTICLE) -> str | None:
    """Write `NAME.html`, `NAME.csv` and `NAME.FORMAT`, as wide as a column of the paper or its text; about 2 seconds a format.

    Beside a PDF stands `NAME.tex`, the float with its caption.

    Returns:
        None, or the message that says why the formats are missing (no browser) and what to do about it.

    Raises:
        ConfigError: an unknown format.
    """
    check_export(formats)
    library = folder / LIBRARY.name
    if not library.exists() or library.stat().st_size != LIBRARY.stat().st_size:
        write_whole(library, LIBRARY.read_bytes())
    page = drawn.figure.to_html(include_plotlyjs="directory", div_id=name, config={"responsive": True, "displaylogo": False})
    write_whole(folder / f"{name}.html", page)
    write_whole(folder / f"{name}.csv", drawn.data.to_csv(index=False))
    for kind in (*FORMATS, "tex"):
        (folder / f"{name}.{kind}").unlink(missing_ok=True)  # rather none than one that shows older numbers
    if not formats or drawn.data.empty:
        return None
    figure, wide = printed(drawn, paper)
    try:
        images = {kind: _image(figure, kind, drawn.label) for kind in formats}
    except (RuntimeError, OSError) as error:  # no browser, one that dies at once, one that never answers
        reason = str(error.args[0] if error.args else type(error).__name__).strip().partition("\n")[0]
        return NO_BROWSER.format(formats=", ".join(formats), reason=reason.rstrip("."))
    for kind, image in images.items():
        write_whole(folder / f"{name}.{kind}", image)
    if "pdf" in images:  # beside it the figure in LaTeX: what it shows in one sentence, and under it how to read it
        kind, said = "figure*" if wide else "figure", sentence(drawn.label.partition(". ")[0], drawn.finding)
        lines = [rf"\begin{{{kind}}}", r"\centering", rf"\includegraphics{{{name}.pdf}}"]
        lines += [rf"\caption{{{tex(said)}}}", rf"\label{{fig:{label(name)}}}"]
        lines += [*notes_under([drawn.caption] if drawn.caption else []), rf"\end{{{kind}}}"]
        write_whole(folder / f"{name}.tex", "\n".join(lines) + "\n")
    return None


def check_export(formats: Sequence[str]) -> None:
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(f"no figure format {kind!r}: there are {choices(FORMATS)}.{nearest(kind, FORMATS)}")


def printed(drawn: Drawn, paper: Paper) -> tuple[go.Figure, bool]:
    """The figure at its size on paper, and whether it goes across both columns."""
    figure = drawn.printed(paper.column)
    if paper.columns == 1 or figure.layout.height <= HIGHEST * figure.layout.width:
        return figure, False
    return drawn.printed(paper.text), True


def _image(figure: go.Figure, kind: str, title: str) -> bytes:
    """At the size that it has on paper; a PNG says how dense it is, a PDF what its title is."""
    from kaleido import PageGenerator, calc_fig_sync  # here, because it takes a while to load

    page = PageGenerator(mathjax=False)  # which it would fetch from a network
    page.header = page.header.replace("Kaleido-fier", escape(title)) + FLUSH
    size = {"width": figure.layout.width, "height": figure.layout.height, "scale": SCALE * (DENSITY / 96 if kind == "png" else 1)}
    made = calc_fig_sync(figure.to_dict(), opts={"format": kind, **size}, kopts={"page_generator": page})
    if kind != "png":
        return bytes(made)
    file = io.BytesIO()
    Image.open(io.BytesIO(made)).save(file, format="PNG", dpi=(DENSITY, DENSITY))
    return file.getvalue()
