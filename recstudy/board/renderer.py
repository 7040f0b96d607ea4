"""Makes the parts of the pages that somebody looks at, in one thread beside the server, which only hands them out.

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
from recstudy.board.markup import Address, Page, Part, Recipe
from recstudy.board.news import Notice
from recstudy.board.sources import Sources
from recstudy.errors import RecstudyError

LOOK_S = 1.0  # between two looks at the folder
REST, MOST_REST_S = 3.0, 10.0  # or this often as long as the last round took: the board leaves the cores to the runs
FORGET_S = 30.0  # after a page was last asked for
LEFT_S = 6.0  # or its reader has gone to another: an open page asks every two seconds
PENDING = '<p class="note pending">Being drawn &hellip;</p>'
log = logging.getLogger(__name__)


@dataclass
class Shown:
    """A page in the making: its recipes as of the last look, its parts by key, and what each was made from."""

    asked: float
    title: str = "recstudy board"
    recipes: Sequence[Recipe] | None = None
    parts: dict[str, Part] = field(default_factory=dict)
    needs: dict[str, object] = field(default_factory=dict)
    whole: threading.Event = field(default_factory=threading.Event)


class Desk:
    """Hands out pages.

    Args:
        sources: what pages are made from; only the desk's thread uses them.
        page: a page's recipes (ConfigError where there is no such page).
        ready: called with every part before it is handed out, to prepare what the server makes of it.
    """

    def __init__(
        self,
        sources: Sources,
        page: Callable[[Sources, Address], Page],
        ready: Callable[[Part], object] = lambda part: None,
    ) -> None:
        self._sources, self._page, self._ready = sources, page, ready
        self._shown: dict[Address, Shown] = {}
        self._lock = threading.Lock()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._looked, self._busy = 0.0, 0.0
        self._thread = threading.Thread(target=self._work, name="board", daemon=True)

    def start(self) -> "Desk":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._ended.set()
        self._wake.set()
        self._thread.join()

    def show(self, address: Address, wait: float = 0.0) -> tuple[str, list[Part]]:
        """A page's title and its parts, as far as they are made within `wait` seconds; the others say so."""
        with self._lock:
            shown = self._shown.get(address) or self._shown.setdefault(address, self._begun(address))
            shown.asked = time.monotonic()
        self._wake.set()
        shown.whole.wait(wait)
        with self._lock:
            return shown.title, list(shown.parts.values()) or [Part("head", "", self._reading())]

    def news(self, since: int | None) -> tuple[int, list[Notice]]:
        """The number of the last notice, and those after `since`; none to who has just come."""
        news = self._sources.news
        return news.last, [one for one in news.notices if since is not None and one.at > since]

    def _begun(self, address: Address) -> Shown:
        """With the parts that another query of the same page has: where they are the same, they are not made again."""
        like = [shown for other, shown in self._shown.items() if other.path == address.path and shown.recipes is not None]
        if not like:
            return Shown(0.0)
        last = max(like, key=lambda shown: shown.asked)
        return Shown(0.0, last.title, parts=dict(last.parts), needs=dict(last.needs))

    def _reading(self) -> str:
        watch = self._sources.watch
        of = f" of {watch.expected:,}" if watch.expected else ""
        return f'<h1>Reading the records</h1><p role="status">{len(watch.runs):,}{of} runs so far.</p>'

    def _work(self) -> None:
        self._look()
        gc.freeze()  # what was read stays: going through 10,000 runs for garbage would stop every answer for 0.2 s
        while not self._ended.is_set():
            if self._step():
                continue
            if time.monotonic() - self._looked > max(LOOK_S, min(REST * self._busy, MOST_REST_S)) and self.wanted():
                self._look()
            else:
                self._wake.wait(LOOK_S / 4)
                self._wake.clear()

    def _look(self) -> None:
        began = time.monotonic()
        try:
            self._sources.watch.look()
            self._sources.news.look(self._sources.watch)
        except Exception as error:  # the folder's file system may come back; what was read is still shown
            log.warning("cannot read %s: %s", self._sources.watch.root, error)
        self._looked = time.monotonic()
        self._busy = self._looked - began
        with self._lock:
            for shown in self._shown.values():
                shown.recipes = None

    def wanted(self) -> bool:
        """Whether anybody looks; a page that nobody asks for any more is forgotten."""
        since = time.monotonic() - FORGET_S
        with self._lock:
            self._shown = {address: shown for address, shown in self._shown.items() if shown.asked > since}
            return bool(self._shown)

    def _step(self) -> bool:
        """Make one part; False where every part is as it should be."""
        since = time.monotonic() - LEFT_S
        with self._lock:
            asked = [(address, shown) for address, shown in self._shown.items() if shown.asked > since]
        pages = sorted(asked, key=lambda item: (item[1].whole.is_set(), len(item[1].needs), -item[1].asked))
        for address, shown in pages:
            if shown.recipes is None:
                self._lay(address, shown)
            recipe = next((one for one in shown.recipes or () if shown.needs.get(one.key, self) != one.needs), None)
            if recipe is not None:
                with self._sources.plugins(address):
                    self._make(shown, recipe)
                return True
            shown.whole.set()
        return False

    def _lay(self, address: Address, shown: Shown) -> None:
        """The page's parts in their order: those that are known, and places for the others."""
        try:
            with self._sources.plugins(address) as code:
                page = self._page(self._sources, address)
                page = replace(page, recipes=[replace(one, needs=(one.needs, code)) for one in page.recipes])
        except Exception as error:
            words = f"<h1>Nothing to show</h1>{_problem(error)}"
            page = Page("Nothing to show", [Recipe("head", "", words, lambda: words)])
        with self._lock:
            shown.title, shown.recipes = page.title, page.recipes
            shown.parts = {one.key: shown.parts.get(one.key, Part(one.key, one.title, PENDING)) for one in page.recipes}

    def _make(self, shown: Shown, recipe: Recipe) -> None:
        began = time.monotonic()
        try:
            part = recipe.part()
            self._ready(part)
        except Exception as error:  # one damaged record must not cost the page
            part = Part(recipe.key, recipe.title, _problem(error))
        with self._lock:
            shown.parts[recipe.key] = part
            shown.needs[recipe.key] = recipe.needs
        self._busy += time.monotonic() - began


def _problem(error: Exception) -> str:
    """What is wrong, in words."""
    if isinstance(error, RecstudyError):
        return warning_lines([str(error)])
    log.error("cannot be shown", exc_info=error)
    return warning_lines([f"This cannot be shown: {type(error).__name__}: {error}"])
