"""The page of a study as one file, in a real Chromium: from a disk, without a network, on a phone and on paper."""

import base64
import gzip
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_pages import CHROMIUM, FOLDER, STUDIES, page_of, structure
from made_up import SCORES, run_id, specs, write_epochs, write_study
from plotly.offline import get_plotlyjs

from recstudy import Claim
from recstudy.analysis import Claims, Differences
from recstudy.analysis.report import write_report
from recstudy.report import dump_report

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)")
SANDBOX = ["--no-sandbox"] if os.geteuid() == 0 else []
HELPS = Claim("a ViT helps", less={"model": "ViTRM"}, than={"model": "ViT-Small"}, metric="top1_accuracy")
BATCH = Claim("the batch does not matter", less={"model": "ViTRM", "batch_size": 64}, than={"model": "ViTRM", "batch_size": 128},
              within=0.5, metric="top1_accuracy")  # fmt: skip
FONT = shutil.which("fc-match") and subprocess.run(["fc-match", "system-ui", "family"], capture_output=True, text=True).stdout
NARROW = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """Of claims, tables, figures and a forest plot, twenty epochs a run, as a quick study has."""
    parts = [Claims(claims=(BATCH, HELPS)), Differences(base="ViTRM, batch_size=64"), *specs()]
    results = write_study(tmp_path_factory.mktemp("page") / "r", report=dump_report(parts))
    for (variant, seed), score in SCORES.items():
        write_epochs(results, run_id(variant, seed), score, epochs=20)
    return write_report(results, "made_up", "paper")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=SANDBOX)
        yield browser
        browser.close()


def opened(browser: Any, page: Path, **how: Any) -> tuple[Any, list[str]]:
    """The page once it has loaded, without a network, and what it complained of or asked for beside itself."""
    tab, said = browser.new_context(offline=True, **how).new_page(), list[str]()
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("console", lambda told: said.append(told.text) if told.type == "error" else None)
    own = (page.as_uri(), "data:", "about:")
    tab.on("request", lambda asked: None if asked.url.startswith(own) else said.append(asked.url))
    tab.goto(page.as_uri())
    return tab, said


def test_a_page_is_one_file_under_three_megabytes_with_the_library_as_it_is(page):
    text = page.read_text()

    (library,) = re.findall(r'id="plotly">([A-Za-z0-9+/=]+)</script>', text)
    assert page.stat().st_size < 3e6
    assert gzip.decompress(base64.b64decode(library)).decode() == get_plotlyjs()


@pytest.mark.whole
@needs_browser
def test_it_draws_its_figures_before_it_has_loaded_and_without_a_network(page, browser):
    tab, said = opened(browser, page)

    assert said == []
    assert tab.locator(".figure").count() == tab.locator(".figure > .plot-container").count() >= 3
    assert tab.locator("iframe").count() == 0


@pytest.mark.whole
@needs_browser
def test_it_is_read_on_a_phone(page, browser):
    """Nothing scrolls sideways but boxes of numbers; sentences and commands are whole."""
    tab, _ = opened(browser, page, viewport=NARROW)

    assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    tables = tab.evaluate(
        "[...document.querySelectorAll('.scroll')].map(box => [box.ariaLabel, box.scrollWidth - box.clientWidth])"
    )
    assert [label for label, over in tables if over > 0 and label in ("Claims", "What failed", "Settings", "Provenance")] == []


COVERED = """() => [...document.querySelectorAll('.code')].filter(box => {
  box.querySelector('code').textContent = 'a long line '.repeat(40);
  const [button, frame, line] = ['.copy', 'pre', 'code'].map(part => box.querySelector(part).getBoundingClientRect());
  return button.left < frame.right && button.bottom > line.top;
}).length"""


def rgb(color: str) -> str:
    return f"rgb({', '.join(str(int(color[at : at + 2], 16)) for at in (1, 3, 5))})"


@pytest.fixture(scope="module", params=STUDIES)
def golden(request, tmp_path_factory) -> tuple[str, Path]:
    return request.param, page_of(request.param, tmp_path_factory.mktemp("golden") / "r")


def test_papers_are_called_by_their_names_in_all_that_is_golden():
    files = [path for path in FOLDER.parent.rglob("*") if path.is_file()]

    assert len(files) > 10
    assert [path.name for path in files if re.search(r"(?<![\w.,])00[0-4][ -]", path.read_text())] == []


def test_golden_pages(golden):
    """`python tests/analysis/golden_pages.py` writes them anew."""
    name, page = golden

    assert structure(page) == (FOLDER / f"{name}.txt").read_text()
