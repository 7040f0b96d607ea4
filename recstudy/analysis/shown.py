"""A part of a report, made from the records: what a page, a folder of files, the terminal and a notebook take from it.

Of a figure an HTML page that opens without a network, the numbers behind it, and PDF, SVG or PNG on request.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rich.console import RenderableType

from recstudy.analysis.caveats import warnings
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Section, warning_lines
from recstudy.errors import ConfigError, RecstudyError, StorageError
from recstudy.report import FigurePart, Part
from recstudy.report.venues import ARTICLE, Paper

if TYPE_CHECKING:
    from recstudy.analysis.tables.entries import Printed
    from recstudy.analysis.tables.explain import Behind
import io
from dataclasses import dataclass, replace

import plotly.graph_objects as go
from PIL import Image

from recstudy.analysis.figures.layout import Drawn
from recstudy.analysis.page import LIBRARY, escape, figure_box, links
from recstudy.analysis.tables.latex import label, notes_under, sentence, tex
from recstudy.errors import choices, nearest
from recstudy.records import write_whole

Explained = Callable[[StudyRecords], "Behind"]
NOTHING = '<p class="note">Nothing to draw yet.</p>'
log = logging.getLogger(__name__)


class Places(NamedTuple):
    """The columns of a table behind its labels, and each row's label with what is behind its numbers."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Explained]]]


class Shown(ABC):
    """A part that was made: a table, a figure, a table under its figure, or what a page alone shows."""

    @property
    @abstractmethod
    def html(self) -> str:
        """Its place in a page."""

    @property
    def finding(self) -> str:
        """What it shows in a few words, which its heading says; empty where nothing can be told."""
        return ""

    @property
    def table(self) -> Any:
        """What a notebook shows of it; None of a figure."""
        return self

    @property
    def figure(self) -> Any:
        """Its figure, as Plotly's own; None where it has none."""
        return None

    @property
    def printed(self) -> "Printed | None":
        """The words of a table, which a long one shows a page at a time under what stands `above` it."""
        return None

    @property
    def above(self) -> str:
        return ""

    @abstractmethod
    def write(self, folder: Path, file: str, export: Sequence[str], paper: Paper) -> str:
        """Write its files below the report's folder; return HTML that links to them."""

    def without(self, said: Collection[str]) -> Self:
        """Leave out warnings that the page has said at its head."""
        return self

    def in_terminal(self) -> RenderableType | None:
        """Return what `rich.print` takes of a table."""
        return None

    def places(self) -> Places:
        """Return where each number of a table stands."""
        return Places((), ())

    def _repr_html_(self) -> str:
        return self.html


def section(records: StudyRecords, part: Part, folder: Path, file: str, export: Sequence[str], paper: Paper = ARTICLE) -> Section:
    """Make one part of a page and write its files. Where it cannot be made it says why, and the other parts are drawn.

    Raises:
        StorageError: the report's folder cannot be written, which is no part's own fault.
    """
    title, made = heading(part), False
    try:
        shown = part.shown(records)
        content, finding = shown.without(warnings(records)).html, shown.finding
        made = True
        return Section(title, content + shown.write(folder, file, export, paper), finding)
    except Exception as error:
        if made and isinstance(error, StorageError):
            raise
        return Section(title, warning_lines([problem(part, error)]))


def heading(part: Part) -> str:
    """Return its title, whatever a user's own class makes of it."""
    try:
        return str(part.heading)
    except Exception as error:
        problem(part, error)
        return part.title or part.name


def no_figure(records: StudyRecords, part: Part) -> Shown | None:
    """Make a part that is no figure; None where it is one or cannot be made, which the page and the log say."""
    try:
        return None if isinstance(part, FigurePart) else part.shown(records)
    except Exception:
        return None


def check_made(made: object, kind: type, method: str) -> None:
    """Refuse what a user's own class gives in place of this kind (ConfigError)."""
    if not isinstance(made, kind):
        raise ConfigError(f"its method `{method}` must return {kind.__name__}, but gave {type(made).__name__}")


def problem(part: Part, error: Exception) -> str:
    """Say in one line why a part cannot be drawn; what is no clear line by itself is in the log with its traceback."""
    if isinstance(error, RecstudyError):
        log.warning("%s: %s", part.name, error)
        return str(error)
    said = f"{part.name!r} cannot be drawn: {type(error).__name__}: {error}".partition("\n")[0]
    log.error(said, exc_info=error)
    return said


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


def figure_shown(records: StudyRecords, name: str, drawn: Drawn) -> "FigureShown":
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
