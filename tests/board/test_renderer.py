import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from made_up import as_result, result, run_id

from recstudy.board.markup import Page, PagePart, Recipe, address_of
from recstudy.board.renderer import PageRenderer
from recstudy.errors import StorageError

STUDY = address_of("/study/made_up/paper")


@contextmanager
def rendering(*arguments: Any) -> Iterator[PageRenderer]:
    renderer = PageRenderer(*arguments).start()
    try:
        yield renderer
    finally:
        renderer.stop()


@pytest.fixture
def renderer(sources):
    with rendering(sources) as renderer:
        yield renderer


def until(renderer: PageRenderer, words: str) -> list[PagePart]:
    """Return the parts as soon as one of them has these words."""
    for _ in range(2400):
        parts = renderer.show(STUDY)[1]
        if any(words in part.body for part in parts):
            return parts
        time.sleep(0.05)
    raise AssertionError(f"no {words!r} in {parts}")


def test_a_page_is_whole_for_those_who_wait(renderer):
    title, parts, whole = renderer.show(STUDY, wait=600)

    assert whole
    assert title == "made_up (paper)"
    assert [part.key for part in parts[:5]] == ["head", "findings", "facts", "now", "part1"]
    assert not any("Being drawn" in part.body for part in parts)


def test_a_new_result_changes_the_parts_that_show_it_and_no_other(renderer, results):
    before = {part.key: part for part in renderer.show(STUDY, wait=600)[1]}
    results.run(run_id(3, 0)).finish(as_result(result(71.23, "ViT-Small")))

    after = {part.key: part for part in until(renderer, "71.2")}

    assert before["settings"] is after["settings"]
    assert before["part1"] != after["part1"]


def test_a_part_that_fails_costs_itself(sources, caplog):
    def broken() -> str:
        raise KeyError("what")

    def missing() -> str:
        raise StorageError("the disk is full")

    makers = (broken, missing, sys.exit, lambda: "fine")
    recipes = [Recipe(f"part{at}", "", 1, make) for at, make in enumerate(makers)]
    with rendering(sources, lambda sources, address: Page("x", recipes)) as renderer:
        bodies = [part.body for part in renderer.show(STUDY, wait=600)[1]]

    assert "This cannot be shown: KeyError" in bodies[0]
    assert "the disk is full" in bodies[1]
    assert "This cannot be shown: SystemExit" in bodies[2]
    assert bodies[3] == "fine"
    assert "cannot be shown" in caplog.text


def test_a_folder_that_cannot_be_read_leaves_what_was_read(renderer, results, monkeypatch):
    renderer.show(STUDY, wait=600)
    failed, poller = Event(), renderer._sources.poller

    def fail() -> None:
        failed.set()
        raise OSError("stale file handle")

    with monkeypatch.context() as patched:
        patched.setattr(poller, "poll", fail)
        while not failed.is_set():
            assert any("93.1" in part.body for part in renderer.show(STUDY, wait=0.1)[1])
    results.run(run_id(3, 0)).finish(as_result(result(97.77, "ViT-Small")))

    until(renderer, "97.8")


def test_a_new_page_comes_before_the_rest_of_one_that_takes_long(sources):
    """The first part of the slow page ends once the quick page was asked for, and its second part after the quick page."""
    asked, done = Event(), Event()
    slow = [Recipe("a", "", 1, lambda: str(asked.wait())), Recipe("b", "", 1, lambda: str(done.wait()))]
    quick = [Recipe("quick", "", 1, lambda: "quick")]
    first, second = address_of("/"), address_of("/quick")
    with rendering(sources, lambda sources, address: Page("", quick if address.path else slow)) as renderer:
        renderer.show(first)
        renderer.show(second)
        asked.set()
        assert renderer.show(second, wait=600)[1][0].body == "quick"
        assert not renderer.show(first)[2]
        done.set()
