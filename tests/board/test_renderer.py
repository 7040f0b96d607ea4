import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from made_up import as_result, result, run_id

from recstudy.board.markup import Page, PagePart, Recipe, address_of
from recstudy.board.renderer import PageRenderer
from recstudy.errors import StorageError

STUDY = address_of("/study/made_up/paper")


@contextmanager
def rendering(*given: Any) -> Iterator[PageRenderer]:
    renderer = PageRenderer(*given).start()
    try:
        yield renderer
    finally:
        renderer.stop()


@pytest.fixture
def renderer(sources):
    with rendering(sources) as renderer:
        yield renderer


def until(renderer: PageRenderer, words: str, seconds: float = 30.0) -> list[PagePart]:
    """The parts as soon as one of them has these words."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        parts = renderer.show(STUDY)[1]
        if any(words in part.body for part in parts):
            return parts
        time.sleep(0.05)
    raise AssertionError(f"no {words!r} in {parts}")


def test_a_page_is_whole_for_those_who_wait(renderer):
    title, parts, whole = renderer.show(STUDY, wait=30)

    assert whole
    assert title == "made_up (paper)"
    assert [part.key for part in parts[:5]] == ["head", "findings", "facts", "now", "part1"]
    assert not any("Being drawn" in part.body for part in parts)


def test_who_does_not_wait_gets_what_there_is(renderer):
    began = time.monotonic()
    _, parts, whole = renderer.show(STUDY)

    assert time.monotonic() - began < 2  # whole, the page takes longer
    assert parts[0].key == "head"
    assert not whole


def test_a_new_result_changes_the_parts_that_show_it_and_no_other(renderer, results):
    before = {part.key: part for part in renderer.show(STUDY, wait=30)[1]}
    results.run(run_id(3, 0)).finish(as_result(result(71.23, "ViT-Small")))

    after = {part.key: part for part in until(renderer, "71.2")}

    assert before["settings"] is after["settings"]
    assert before["part1"] != after["part1"]


def test_a_part_that_fails_costs_itself(sources, caplog):
    def broken() -> str:
        raise KeyError("what")

    def missing() -> str:
        raise StorageError("the disk is full")

    recipes = [Recipe("a", "A", 1, broken), Recipe("b", "B", 1, missing)]
    recipes += [Recipe("c", "C", 1, sys.exit), Recipe("d", "D", 1, lambda: "fine")]
    with rendering(sources, lambda sources, address: Page("x", recipes)) as renderer:
        said = [part.body for part in renderer.show(STUDY, wait=30)[1]]

    assert "This cannot be shown: KeyError" in said[0]
    assert "the disk is full" in said[1]
    assert "This cannot be shown: SystemExit" in said[2]
    assert said[3] == "fine"
    assert "cannot be shown" in caplog.text


def test_what_is_not_there_is_a_page_too(renderer):
    title, (part,), _ = renderer.show(address_of("/run/none"), wait=30)

    assert title == "Nothing to show"
    assert "no run &#x27;none&#x27; in this folder" in part.body


def test_a_folder_that_cannot_be_read_leaves_what_was_read(renderer, results, tmp_path):
    renderer.show(STUDY, wait=30)
    results.root.rename(tmp_path / "away")
    time.sleep(2.5)
    (tmp_path / "away").rename(results.root)
    results.run(run_id(3, 0)).finish(as_result(result(97.77, "ViT-Small")))

    until(renderer, "97.8")


def test_a_new_page_comes_before_the_rest_of_one_that_takes_long(sources):
    slow = Page("slow", [Recipe(f"slow{at}", "", 1, lambda: time.sleep(1) or "slow") for at in range(15)])
    quick = Page("quick", [Recipe("quick", "", 1, lambda: "quick")])
    first, second = address_of("/"), address_of("/runs/made_up/paper")
    with rendering(sources, lambda sources, asked: {first: slow, second: quick}[asked]) as renderer:
        renderer.show(first, wait=0.5)
        began = time.monotonic()
        assert renderer.show(second, wait=30)[1][0].body == "quick"
        seconds = time.monotonic() - began

    assert seconds < 8  # of the fifteen that the first page takes
