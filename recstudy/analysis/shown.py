"""A part of a report, made from the records: what a page, a folder of files, the terminal and a notebook take from it."""

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
