"""Which page an address asks for, and the thread beside the server that makes the parts of the pages that somebody looks at.

So a page takes as long as its slowest part only where it asks to wait, and an update never does. A part at a time, those of
the newest page first; while nobody looks, nothing is read.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from recstudy.analysis.page import warning_lines
from recstudy.board.markup import Address, Page, PagePart, Recipe
from recstudy.board.overview import overview
from recstudy.board.run import run_page
from recstudy.board.runlist import runs_page
from recstudy.board.sources import Sources
from recstudy.board.study import study_page
from recstudy.errors import ConfigError, RecstudyError

POLL_S = 1.0  # between two polls of the folder
REST, MOST_REST_S = 3.0, 10.0  # or this often as long as the last round took: the board leaves the cores to the runs
FORGET_S = 30.0  # after a page was last asked for
STOP_S = 2.0  # that a part which is being made may still take once the board is stopped
LEFT_S = 6.0  # or its reader has gone to another: an open page asks every two seconds
PENDING = '<p class="note pending">Being drawn &hellip;</p>'
log = logging.getLogger(__name__)


def page_at(sources: Sources, address: Address) -> Page:
    """Return the page at this address.

    Raises:
        ConfigError: there is none. The message names the thing that is missing.
    """
    match address.path:
        case ():
            return overview(sources, address)
        case ("study", _, _):
            return study_page(sources, address)
        case ("runs", _, _):
            return runs_page(sources, address)
        case ("run", _):
            return run_page(sources, address)
    raise ConfigError(f"no page at /{'/'.join(address.path)}: there are /, /study/NAME/PRESET, /runs/NAME/PRESET and /run/ID")


@dataclass
class OpenPage:
    """A page that somebody looks at: its recipes as of the last poll, its parts by key, and what each was made from."""

    asked: float
    title: str = "recstudy board"
    recipes: Sequence[Recipe] | None = None
    parts: dict[str, PagePart] = field(default_factory=dict)
    needs: dict[str, object] = field(default_factory=dict)
    whole: threading.Event = field(default_factory=threading.Event)


class PageRenderer:
    """Hands out pages.

    Args:
        sources: what pages are made from; only the renderer's thread uses them.
        page: a page's recipes (ConfigError where there is no such page).
    """

    def __init__(self, sources: Sources, page: Callable[[Sources, Address], Page] = page_at) -> None:
        self._sources, self._page = sources, page
        self._open: dict[Address, OpenPage] = {}
        self._lock = threading.Lock()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._polled, self._busy = 0.0, 0.0
        self._thread = threading.Thread(target=self._work, name="board", daemon=True)

    def start(self) -> "PageRenderer":
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread; one that hangs, in a study's own module or on a file server that is gone, ends with the process."""
        self._ended.set()
        self._wake.set()
        self._thread.join(STOP_S)

    @property
    def hangs(self) -> bool:
        """Whether its thread did not end when it was stopped."""
        return self._ended.is_set() and self._thread.is_alive()

    def show(self, address: Address, wait: float = 0.0) -> tuple[str, list[PagePart], bool]:
        """Return a page's title, its parts as far as they are made within `wait` seconds, and whether those are all.

        A page that was whole before is not waited for: what has changed of it since comes with the next time that it is asked.
        """
        with self._lock:
            shown = self._open.get(address) or self._open.setdefault(address, self._begun(address))
            shown.asked = time.monotonic()
        self._wake.set()
        whole = shown.whole.wait(wait)
        with self._lock:
            if shown.parts:
                return shown.title, list(shown.parts.values()), whole
        poller = self._sources.poller
        of = f" of {poller.expected:,}" if poller.expected else ""
        reading = f'<h1>Reading the records</h1><p role="status">{len(poller.runs):,}{of} runs so far.</p>'
        return shown.title, [PagePart("head", "", reading)], False

    def wanted(self) -> bool:
        """Tell whether anybody looks; a page that nobody asks for any more is forgotten."""
        since = time.monotonic() - FORGET_S
        with self._lock:
            self._open = {address: shown for address, shown in self._open.items() if shown.asked > since}
            return bool(self._open)

    def _begun(self, address: Address) -> OpenPage:
        """Begin with the parts that another query of the same page has: where they are the same, they are not made again."""
        like = [shown for other, shown in self._open.items() if other.path == address.path and shown.recipes is not None]
        if not like:
            return OpenPage(0.0)
        last = max(like, key=lambda shown: shown.asked)
        return OpenPage(0.0, last.title, parts=dict(last.parts), needs=dict(last.needs))

    def _work(self) -> None:
        self._poll()
        gc.freeze()  # what was read stays: going through 10,000 runs for garbage would stop every answer for 0.2 s
        while not self._ended.is_set():
            if self._step():
                continue
            if time.monotonic() - self._polled > max(POLL_S, min(REST * self._busy, MOST_REST_S)) and self.wanted():
                self._poll()
            else:
                self._wake.wait(POLL_S / 4)
                self._wake.clear()

    def _poll(self) -> None:
        began = time.monotonic()
        try:
            self._sources.poller.poll()
        except Exception as error:  # the folder's file system may come back; what was read is still shown
            log.warning("cannot read %s: %s", self._sources.poller.root, error)
        self._polled = time.monotonic()
        self._busy = self._polled - began
        with self._lock:
            for shown in self._open.values():
                shown.recipes = None

    def _step(self) -> bool:
        """Make one part; False where every part is as it should be."""
        since = time.monotonic() - LEFT_S
        with self._lock:
            asked = [(address, shown) for address, shown in self._open.items() if shown.asked > since]
        pages = sorted(asked, key=lambda item: (item[1].whole.is_set(), len(item[1].needs), -item[1].asked))
        for address, shown in pages:
            if shown.recipes is None:
                self._lay_out(address, shown)
            recipe = next((one for one in shown.recipes or () if shown.needs.get(one.key, self) != one.needs), None)
            if recipe is not None:
                self._make(address, shown, recipe)
                return True
            shown.whole.set()
        return False

    def _lay_out(self, address: Address, shown: OpenPage) -> None:
        """Have the page's parts in their order: those that are known, and places for the others."""
        try:
            with self._sources.plugins(address) as code:
                page = self._page(self._sources, address)
                page = replace(page, recipes=[replace(one, needs=(one.needs, code)) for one in page.recipes])
                parts = {one.key: shown.parts.get(one.key, PagePart(one.key, one.title, PENDING)) for one in page.recipes}
        except (Exception, SystemExit) as error:
            page, shown.needs = Page("Nothing to show", []), {}
            parts = {"head": PagePart("head", "", f"<h1>Nothing to show</h1>{_problem(error)}")}
        with self._lock:
            shown.title, shown.recipes, shown.parts = page.title, page.recipes, parts

    def _make(self, address: Address, shown: OpenPage, recipe: Recipe) -> None:
        """Make a part; what a damaged record or a study's own module does wrong costs that part, and not the thread."""
        began = time.monotonic()
        try:
            with self._sources.plugins(address):
                part = recipe.part()
        except (Exception, SystemExit) as error:
            part = PagePart(recipe.key, recipe.title, _problem(error))
        with self._lock:
            shown.parts[recipe.key] = part
            shown.needs[recipe.key] = recipe.needs
        self._busy += time.monotonic() - began


def _problem(error: BaseException) -> str:
    """Say what is wrong, in words."""
    if isinstance(error, RecstudyError):
        return warning_lines([str(error)])
    log.error("cannot be shown", exc_info=error)
    return warning_lines([f"This cannot be shown: {type(error).__name__}: {error}"])
