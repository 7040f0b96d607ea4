"""The board in a real Chromium: pages render, new results come in by themselves, the keyboard and a narrow screen will do."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from boards import HOSTILE, serving, uploaded
from made_up import (
    as_result,
    plan,
    result,
    run_id,
    write_epochs,
    write_mistakes,
    write_study,
    write_thinking,
)

from recstudy.analysis import Thinking
from recstudy.analysis.report import write_report
from recstudy.records import Results
from recstudy.report import dump_report

pytestmark = pytest.mark.whole

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium here (Debian: apt-get install chromium)", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')")

UPDATES = "**/_dash-update-component?*"  # what the page asks the board
WIDE, NARROW = {"width": 1300, "height": 900}, {"width": 390, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


class Tab:
    """A page of the board, with what the browser complained of."""

    def __init__(self, browser: Any, url: str, size: dict[str, int]) -> None:
        self.page, self.url, self.complaints = browser.new_page(viewport=size), url, list[str]()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("request", lambda asked: None if asked.url.startswith((url, "data:")) else self.complaints.append(asked.url))
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))

    def open(self, path: str) -> Any:
        """The page once it is whole."""
        self.page.goto(self.url + path)
        self.page.wait_for_selector("h1")
        self.until("!/Being drawn|Reading the records/.test(document.body.innerText)")
        return self.page

    def has(self, words: str) -> None:
        self.until(f"document.body.innerText.includes({json.dumps(words)})")

    def draw_what_runs(self) -> None:
        self.page.locator("#underway").scroll_into_view_if_needed()
        self.page.wait_for_selector("#underway ~ .figure .main-svg", timeout=60_000)

    def until(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until an expression is true; by asking, because the page's own policy forbids `wait_for_function`."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"{condition} is never true of {self.page.inner_text('body')}"
            self.page.wait_for_timeout(50)


@contextmanager
def opened(browser: Any, url: str, size: dict[str, int] = WIDE) -> Iterator[Tab]:
    """A tab in which nothing may go wrong."""
    tab = Tab(browser, url, size)
    yield tab
    tab.page.close()
    assert tab.complaints == []


@pytest.fixture
def tab(browser: Any, results: Results) -> Iterator[Tab]:
    with serving(results.root) as url, opened(browser, url) as tab:
        yield tab


@pytest.fixture
def narrow(browser: Any, results: Results) -> Iterator[Tab]:
    with serving(results.root) as url, opened(browser, url, NARROW) as tab:
        yield tab


def test_the_way_from_the_studies_to_a_run(tab, results):
    write_mistakes(results, run_id(0, 0), np.zeros((3, 1, 8, 8)))
    page = tab.open("/")
    page.click("text=made_up (paper)")
    tab.has("Table 1: models by batch size")
    page.locator(".figure").first.scroll_into_view_if_needed()
    page.wait_for_selector(".figure .main-svg", timeout=60_000)
    title = page.title()
    page.click("#runs ~ * >> text=ViTRM, batch_size=64")
    tab.has("Misclassified test images")

    assert title == "made_up (paper)"
    assert page.url.endswith(f"/run/{run_id(0, 0)}")
    page.go_back()
    tab.has("Does the batch size matter?")


def test_a_new_result_on_an_object_store_appears_too(browser, object_store, tmp_path, monkeypatch):
    uri = object_store.uri(f"board-{time.time_ns()}")
    writer = uploaded(uri, tmp_path, monkeypatch)
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "reader"))
    with serving(uri) as url, opened(browser, url) as tab:
        tab.open("/")
        tab.has(uri)
        tab.open("/study/made_up/paper")
        with writer.changing(writer.run(run_id(3, 0)).result):
            writer.run(run_id(3, 0)).finish(as_result(result(97.77, "ViT-Small")))
        tab.has("97.8 [95.3, 99.3]")


def test_an_update_leaves_a_reader_where_they_were(tab, results):
    """What has the focus, what is unfolded, and what is in sight; also where a part of the page comes or goes."""
    page = tab.open("/study/made_up/paper")
    page.evaluate("window.loaded = 'once'")
    page.locator("summary", has_text="Base settings").click()
    page.evaluate("document.querySelector('#settings').scrollIntoView()")
    above = page.evaluate("document.querySelector('#settings').getBoundingClientRect().top")
    page.evaluate("document.querySelector('#settings').scrollIntoView()")
    page.evaluate("document.querySelector('#runs ~ nav a').focus({preventScroll: true})")
    focused = page.evaluate("document.activeElement.textContent")
    results.run(run_id(3, 2)).finish(as_result(result(97.77, "ViT-Small")))

    tab.until("!document.querySelector('#underway')")  # nothing runs now
    tab.has("97.8 [95.3, 99.3]")
    assert page.evaluate("document.querySelector('#settings').getBoundingClientRect().top") == pytest.approx(above, abs=2)
    assert page.evaluate("window.loaded") == "once"
    assert page.evaluate("document.activeElement.textContent").split()[0] == focused.split()[0]
    assert page.locator("details[open] >> text=train.batch_size").count() == 1


def test_a_figure_keeps_its_zoom_when_its_curve_grows(tab, results):
    page = tab.open("/study/made_up/paper")
    ends = "Math.max(...document.querySelector('#underway ~ .figure').data.flatMap(line => line.x))"
    tab.has("3 of 1000")
    tab.draw_what_runs()
    assert page.evaluate(ends) == 3
    reach = "document.querySelector('#underway ~ .figure').layout.xaxis.range.map(value => value.toFixed(3)).join()"
    whole = page.evaluate(reach)
    box = page.locator("#underway ~ .figure .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 20, steps=5)
    page.mouse.up()
    tab.until(f"{reach} !== '{whole}'")
    zoomed = page.evaluate(reach)
    results.run(run_id(3, 2)).epochs.unlink()
    write_epochs(results, run_id(3, 2), 70.0, epochs=8)

    tab.has("8 of 1000")
    tab.until(f"{ends} === 8")
    assert page.evaluate(reach) == zoomed


def test_hostile_words_are_shown_as_text(browser, tmp_path):
    variants = [variant | {"label": f"{HOSTILE} {at}"} for at, variant in enumerate(plan()["variants"])]
    results = write_study(tmp_path / "results", variants=variants, question=HOSTILE)
    with serving(results.root) as url, opened(browser, url) as tab:
        for path in ("/", "/study/made_up/paper", f"/run/{run_id(0, 0)}"):
            page = tab.open(path)
            page.wait_for_timeout(500)
            assert page.locator("img[src=x], main b:has-text('bold')").count() == 0
            assert "<b>bold</b>" in page.inner_text("main")
            assert page.title() != "taken"


def brushed(page: Any) -> list[int]:
    """How many lines are within the brushes, and how many rows the list has."""
    return [page.locator(".brush .line:not(.out)").count(), page.locator(".runs tbody tr").count()]


def test_a_narrow_screen_shows_all_of_a_study_and_of_what_runs(narrow):
    page = narrow.open("/")
    for words in ("about 7.5 min", "63.3"):
        box = page.locator(f".scroll td >> text={words}").bounding_box()
        assert box["x"] + box["width"] <= NARROW["width"], words


def test_puzzles_are_stepped_through_by_the_keyboard(tab, results):
    """What is in the cells, and what a screen reader hears, segment by segment; a new result leaves the segment where it is."""
    write_thinking(results, run_id(0, 0), symbols=np.array([" ", HOSTILE, "1", "2"]))
    page = tab.open(f"/run/{run_id(0, 0)}")
    box = page.locator(".thinking")
    first = box.locator(".now svg").first
    slider, seen = box.locator("input"), []
    heard = [first.get_attribute("aria-label")]
    slider.focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "End"):
        page.keyboard.press(key)
        seen.append((slider.get_attribute("aria-valuetext"), first.locator("text.wrong").count(), first.text_content()))
        heard.append(first.get_attribute("aria-label"))
    page.keyboard.press("ArrowLeft")

    assert seen == [
        ("as given", 0, f"1{HOSTILE}{HOSTILE}1"),
        ("segment 1 of 3", 2, "1111"),
        ("segment 2 of 3", 1, "1211"),
        ("segment 3 of 3", 0, "1221"),
    ]
    assert heard[0] == heard[-1] == "test puzzle 0, after segment 3, solved, halting 0.95, halts at 2"
    assert heard[3] == "test puzzle 0, after segment 2, 1 wrong, halting 0.73, halts here"
    assert page.evaluate("document.activeElement.value") == "2"
    assert first.locator(".changed").get_attribute("d") == "M11 1h8v8h-8z"
    assert first.locator(".struck").get_attribute("d") == "M1.4 18.6l7.2 -7.2"
    write_thinking(results, run_id(0, 0), rows=np.array([7, 9]))
    results.run(run_id(0, 0)).finish(as_result(result(93.5)))
    tab.has("test puzzle 7")
    assert (box.locator("output").inner_text(), box.locator(".now svg").count()) == ("segment 2 of 3", 2)


def test_a_report_page_steps_through_puzzles_alone(browser, tmp_path):
    """It asks for nothing but itself."""
    results = write_study(tmp_path / "results", report=dump_report([Thinking()]))
    write_thinking(results, run_id(0, 0))
    asked: list[str] = []
    with opened(browser, write_report(results, "made_up", "paper").as_uri()) as tab:
        tab.page.on("request", lambda request: asked.append(request.url))
        page = tab.open("")
        page.locator(".thinking input").focus()
        page.keyboard.press("Home")
        given = page.locator(".thinking .now").first.inner_text()

    assert given.split("\n")[-2:] == ["test puzzle 0", "as given"]
    assert [url for url in asked if not url.startswith("data:")] == [tab.url]


def test_a_board_that_is_gone_says_so_and_goes_on_when_it_is_back(browser, results):
    with serving(results.root) as url:
        tab = Tab(browser, url, WIDE)
        tab.open("/study/made_up/paper")
    tab.has("The board does not answer. This is as of")
    kept = tab.page.inner_text("main")
    results.run(run_id(3, 0)).finish(as_result(result(97.77, "ViT-Small")))
    with serving(results.root, port=int(url.rpartition(":")[2])):
        tab.has("97.8 [95.3, 99.3]")
        tab.until("!document.body.innerText.includes('does not answer')")
    tab.page.close()

    assert "Table 1" in kept


def test_runs_are_sorted_by_the_keyboard_and_the_address_has_the_order(tab):
    page = tab.open("/runs/made_up/paper")
    page.get_by_role("link", name="seed", exact=True).focus()
    page.keyboard.press("Enter")
    tab.until("location.search === '?sort=seed' && document.activeElement.textContent === 'seed ▲'")
    page.keyboard.press("Enter")
    tab.until("location.search === '?sort=-seed'")


def test_pages_fit_a_narrow_screen(narrow):
    for path in ("/", "/study/made_up/paper", "/runs/made_up/paper", f"/run/{run_id(0, 0)}"):
        narrow.open(path)
        narrow.until("document.documentElement.scrollWidth <= innerWidth")
