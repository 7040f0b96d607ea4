"""The page of a study as one file, in a real Chromium: from a disk and without a network; and its words, which are golden."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from golden_pages import CHROMIUM, FOLDER, STUDIES, page_of, structure

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)")
SANDBOX = ["--no-sandbox"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=SANDBOX)
        yield browser
        browser.close()


@pytest.mark.whole
@needs_browser
def test_it_draws_its_figures_before_it_has_loaded_and_without_a_network(tmp_path, browser):
    page = page_of("scores", tmp_path / "r")
    tab, complaints = browser.new_context(offline=True).new_page(), list[str]()
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    own = (page.as_uri(), "data:", "about:")
    tab.on("request", lambda request: None if request.url.startswith(own) else complaints.append(request.url))

    tab.goto(page.as_uri())

    assert complaints == []
    assert tab.locator(".figure").count() == tab.locator(".figure > .plot-container").count() == 2


def test_papers_are_called_by_their_names_in_all_that_is_golden():
    files = [path for path in FOLDER.parent.rglob("*") if path.is_file()]

    assert len(files) > 10
    assert [path.name for path in files if re.search(r"(?<![\w.,])00[0-4][ -]", path.read_text())] == []


@pytest.mark.parametrize("name", STUDIES)
def test_golden_pages(name, tmp_path):
    """`python tests/analysis/golden_pages.py` writes them anew."""
    assert structure(page_of(name, tmp_path / "r")) == (FOLDER / f"{name}.txt").read_text()
