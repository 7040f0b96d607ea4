"""The board in a real Chromium: pages render, new results come in by themselves, the keyboard and a narrow screen will do."""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

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
from recstudy.board.renderer import PENDING
from recstudy.records import Results
from recstudy.records.orders import given
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

    def rows(self, count: int) -> None:
        """Wait until the list has so many runs."""
        self.until(f"document.querySelectorAll('.runs tbody tr').length === {count}")

    def ticked(self, count: int) -> None:
        self.until(f"document.querySelectorAll('.tick:checked').length === {count}")

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


def test_an_order_is_given_on_a_run_s_page_and_stands_there(browser, results):
    """As somebody who holds the study's lock is there to obey; the token is asked for once."""
    token, run = "a-token-of-enough-characters", run_id(3, 2)
    holding = results.holding("made_up", "paper")
    with serving(results.root, token, control=True) as url, holding, opened(browser, url) as tab:
        page = tab.open(f"/run/{run}?token={token}")
        page.fill("form.orders input", "Ada")
        page.click("form.orders >> text=Pause")
        tab.has("Ordered at")
        tab.until(
            f"[...document.querySelectorAll('li')].some(li => li.innerText.endsWith('pause run {run}, by Ada (127.0.0.1)'))"
        )

    assert [(line.order, line.run) for line in given(results.study("made_up", "paper"))] == [("pause", run)]


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
    """What has the focus, what is typed and unfolded, and what is in sight; also where a part of the page comes or goes."""
    page = tab.open("/study/made_up/paper")
    page.evaluate("window.loaded = 'once'")
    page.locator("summary", has_text="Base settings").click()
    page.evaluate("document.querySelector('#settings').scrollIntoView()")
    above = page.evaluate("document.querySelector('#settings').getBoundingClientRect().top")
    page.fill("input[name=find]", "half a wo")
    page.evaluate("document.querySelector('#settings').scrollIntoView()")
    results.run(run_id(3, 2)).finish(as_result(result(97.77, "ViT-Small")))

    tab.until("!document.querySelector('#underway')")  # nothing runs now
    tab.has("97.8 [95.3, 99.3]")
    assert page.evaluate("document.querySelector('#settings').getBoundingClientRect().top") == pytest.approx(above, abs=2)
    assert page.evaluate("window.loaded") == "once"
    assert page.evaluate("document.activeElement.name") == "find"
    assert page.input_value("input[name=find]") == "half a wo"
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


def test_a_figure_is_drawn_when_a_reader_comes_near(tab):
    page = tab.open("/study/made_up/paper")
    last = page.locator(".figure").last
    tab.draw_what_runs()
    drawn = last.locator(".main-svg").count()
    last.scroll_into_view_if_needed()

    last.locator(".main-svg").first.wait_for(timeout=60_000)
    assert drawn == 0


def test_who_goes_back_is_where_they_were(tab):
    page = tab.open("/study/made_up/paper")
    place = "Math.round(document.querySelector('#runs')?.getBoundingClientRect().top)"
    page.evaluate("document.querySelector('#runs').scrollIntoView()")
    before = page.evaluate(place)
    page.click("#runs ~ * >> text=ViTRM, batch_size=64")
    tab.has("Against the baseline")
    top = page.evaluate("scrollY")
    page.go_back()
    tab.has("Does the batch size matter?")

    tab.until(f"Math.abs({place} - {before}) < 5")
    assert top == 0


def test_hostile_words_are_shown_as_text(browser, tmp_path):
    variants = [variant | {"label": f"{HOSTILE} {at}"} for at, variant in enumerate(plan()["variants"])]
    results = write_study(tmp_path / "results", variants=variants, question=HOSTILE)
    with serving(results.root) as url, opened(browser, url) as tab:
        for path in ("/", "/study/made_up/paper", f"/run/{run_id(0, 0)}", f"/compare?a={quote(HOSTILE)}&b=x"):
            page = tab.open(path)
            page.wait_for_timeout(500)
            assert page.locator("img[src=x], main b:has-text('bold')").count() == 0
            assert "<b>bold</b>" in page.inner_text("main")
            assert page.title() != "taken"


def test_the_keyboard_reaches_everything(tab):
    page = tab.open("/")
    page.keyboard.press("Tab")
    skip = page.evaluate("document.activeElement.innerText")
    page.keyboard.press("Enter")
    at_page = page.evaluate("document.activeElement.id")
    reached = []
    while "made_up (paper)" not in reached:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.innerText"))
        assert len(reached) < 30, reached
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")
    tab.has("Does the batch size matter?")
    tab.until("document.activeElement.tagName === 'H1'")  # where a reader goes on reading

    assert (skip, at_page, outline) == ("To the page", "page", "solid")


def test_forms_work_by_the_keyboard(tab):
    page = tab.open("/study/made_up/paper")
    page.fill("input[name=find]", "vit-small")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/made_up/paper?find=vit-small")
    tab.rows(6)


def test_runs_are_sorted_filtered_and_compared_by_the_keyboard_and_the_address_says_how(tab):
    page = tab.open("/runs/made_up/paper")
    first = "document.querySelector('.runs tbody th').innerText.trim()"
    page.locator(".runs thead a", has_text="Top-1 accuracy").focus()
    page.keyboard.press("Enter")
    tab.until(f"{first} === 'ViT-Small, batch_size=64'")
    stays = page.evaluate("document.activeElement.innerText")
    page.locator("summary", has_text="Filters").focus()
    page.keyboard.press("Enter")
    page.locator("select[name=batch_size]").focus()
    page.keyboard.type("64")
    page.keyboard.press("Tab")
    page.locator("button", has_text="Show").first.press("Enter")
    tab.rows(6)
    for row in (0, 1):
        page.locator(".tick").nth(row).press("Space")
    tab.until("document.querySelector('.ticked').innerText.includes('2 ticked')")
    shared = page.url
    page.locator(".tick").nth(1).press("Enter")
    tab.has("b minus a")

    assert "Top-1 accuracy" in stays
    assert shared.endswith(f"?sort=-top1_accuracy&batch_size=64&ticked={run_id(2, 0)},{run_id(0, 2)}")
    assert page.url.endswith(f"/compare?runs={run_id(2, 0)},{run_id(0, 2)}")
    page.go_back()
    tab.ticked(2)
    page.goto(shared)
    tab.ticked(2)
    assert page.locator(".runs tbody tr").count() == 6


def test_a_tick_that_the_board_has_not_heard_of_yet_goes_with_a_click(tab):
    """The link that sorts was made before the tick, and the board has not answered it when the link is clicked."""
    page, held = tab.open("/runs/made_up/paper"), []
    page.route(UPDATES, lambda asked: held.append(asked))
    page.locator(".tick").first.check()
    while not held:
        page.wait_for_timeout(20)
    page.locator(".runs thead a", has_text="Top-1 accuracy").click()
    page.unroute(UPDATES)  # which lets them go on
    tab.until("document.querySelector('.runs tbody th').innerText.trim() === 'ViT-Small, batch_size=64'")
    tab.ticked(1)
    assert page.locator(".tick:checked").get_attribute("value") == run_id(0, 0)  # it goes with its run, not with its row
    page.locator("a", has_text="untick all").click()

    tab.ticked(0)
    assert page.url.endswith("?sort=-top1_accuracy")


def test_the_log_of_a_run_under_way_grows_and_its_curves_are_drawn_as_asked(tab, results):
    page = tab.open(f"/run/{run_id(3, 2)}")
    tab.has("epoch 3: training loss 0.767 nats")
    page.locator("#curves ~ nav a", has_text="log").press("Enter")
    page.wait_for_url("**?axis=log")
    page.locator("#curves ~ .figure").scroll_into_view_if_needed()
    tab.until("document.querySelector('#curves ~ .figure').layout?.yaxis?.type === 'log'")
    results.run(run_id(3, 2)).epochs.unlink()
    write_epochs(results, run_id(3, 2), 70.0, epochs=4)

    tab.has("epoch 4: training loss 0.575 nats")
    assert page.evaluate("document.activeElement.closest('nav')?.getAttribute('aria-label')") == "How curves are drawn"


def brushed(page: Any) -> list[int]:
    """How many lines are within the brushes, and how many rows the list has."""
    return [page.locator(".brush .line:not(.out)").count(), page.locator(".runs tbody tr").count()]


def test_a_brush_on_an_axis_filters_the_list(tab):
    page = tab.open("/runs/made_up/paper")
    page.locator(".brush svg").wait_for()
    axis = page.locator(".brush .reach").nth(2).bounding_box()
    middle, top = axis["x"] + axis["width"] / 2, axis["y"] + 8

    def drag(begin: float, end: float) -> None:
        page.mouse.move(middle, begin)
        page.mouse.down()
        page.mouse.move(middle, end, steps=4)
        page.mouse.up()

    drag(top + 5, top + 0.77 * 300)  # from 94.1 down to 93.2
    tab.rows(3)
    few = brushed(page)

    assert page.url.endswith("?top1_accuracy=93.2..94.1")
    assert few == [3, 3]
    order = page.locator(".brush .line").evaluate_all("lines => lines.map(line => line.classList.contains('out'))")
    assert order == sorted(order, reverse=True)  # those that were chosen lie above the others
    drag(top - 10, top + 0.6 * 300)  # by its upper mark: down to 93.3
    tab.rows(2)
    assert page.url.endswith("?top1_accuracy=93.2..93.3")
    page.mouse.click(middle, axis["y"] + 40)
    tab.rows(12)
    assert brushed(page) == [6, 12]
    assert page.url.endswith("/runs/made_up/paper")


def test_axes_are_brushed_by_the_keyboard_and_follow_the_filters_of_the_list(tab):
    page = tab.open("/runs/made_up/paper")
    mark = page.locator(".brush .mark[aria-label='batch size, lowest']")
    mark.press("ArrowUp")
    tab.rows(6)
    above = [page.url.rpartition("?")[2], mark.get_attribute("aria-valuetext"), *brushed(page)]
    kept = page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Delete")
    tab.rows(12)
    page.locator(".brush .mark[aria-label='model, highest']").press("ArrowDown")
    tab.rows(6)
    words = page.url.rpartition("?")[2]
    page.goto(page.url.replace(words, "batch_size=64%7C5&model=vitrm"))
    tab.rows(3)

    assert above == ["batch_size=128", "128", 2, 6]
    assert kept == "batch size, lowest"
    assert words == "model=ViT-Small"
    assert brushed(page) == [3, 3]


def test_code_is_copied_and_a_heading_links_to_itself(tab):
    page = tab.open("/study/made_up/paper")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.bring_to_front()  # a browser lets only the tab in front write to the clipboard
    button = page.locator("#again ~ .code .copy").first
    button.evaluate("one => new MutationObserver(() => window.said ??= one.innerText).observe(one, {childList: true})")
    button.press("Enter")
    tab.until("window.said")  # it says so for 2 s, which a busy machine may not look at
    said = page.evaluate("window.said")
    copied = page.evaluate("navigator.clipboard.readText()")
    page.locator("#settings + .anchor").press("Enter")

    assert said == "Copied"
    assert copied == page.locator("#again ~ .code pre").first.inner_text()
    assert copied
    assert page.url.endswith("/study/made_up/paper#settings")
    assert page.locator("link[rel=icon]").get_attribute("href").startswith("data:image/svg+xml,")


def test_words_and_marks_stand_out_from_the_paper(tab):
    """By WCAG's contrast: 4.5 for words, 3 for the borders of what can be filled in."""
    ratio = """([one, other]) => {
      const style = getComputedStyle(document.documentElement);
      const light = name => {
        const colour = style.getPropertyValue("--" + name).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
        const parts = [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16) / 255);
        const linear = parts.map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
      };
      const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
      return (bright + 0.05) / (dark + 0.05);
    }"""
    pairs = [(word, paper, 4.5) for word in ("ink", "soft", "accent") for paper in ("paper", "panel")]
    pairs += [
        ("warn", "warn-paper", 4.5),
        ("warn", "paper", 4.5),
        ("edge", "paper", 3),
        ("edge", "panel", 3),
        ("ink", "tint", 4.5),
    ]
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        page = tab.open("/")
        assert [(pair, scheme) for *pair, least in pairs if page.evaluate(ratio, pair) < least] == []
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", background))) < 60  # a dark screen gets a dark page


def test_columns_are_chosen_by_a_click(tab):
    page = tab.open("/runs/made_up/paper")
    page.locator("summary", has_text="Columns").click()
    page.locator("label.choice", has_text="Macro F1").locator("input").check()
    page.locator("label.choice", has_text="attempts").locator("input").uncheck()
    page.locator("button", has_text="Show these columns").click()

    tab.until("[...document.querySelectorAll('.runs thead th')].some(head => head.innerText === 'Macro F1 (%)')")
    assert page.url.endswith("?columns=status,top1_accuracy,model,batch_size,seed,seconds,macro_f1")
    assert "attempts" not in page.inner_text(".runs thead")


def test_a_choice_that_does_not_compare_is_mended_where_it_is(tab):
    page = tab.open(f"/compare?a={run_id(0, 0)}&b=made_up/paper")
    tab.has("is a run and 'made_up/paper' a study")
    page.fill("input[name=b]", run_id(1, 0))
    page.keyboard.press("Enter")

    tab.has("b minus a")
    assert page.input_value("input[name=a]") == run_id(0, 0)
    page.go_back()
    tab.has("is a run and 'made_up/paper' a study")
    assert page.input_value("input[name=b]") == "made_up/paper"  # and not what was typed over it


def test_pages_fit_a_narrow_screen(narrow):
    many = f"/compare?runs={run_id(0, 0)},{run_id(1, 0)},{run_id(2, 0)},{run_id(3, 2)}"
    for path in ("/", "/study/made_up/paper", "/runs/made_up/paper?columns=macro_f1,model.width", f"/run/{run_id(0, 0)}", many):
        page = narrow.open(path)
        page.wait_for_timeout(300)
        wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room, path
        boxes = page.evaluate("[...document.querySelectorAll('.figure')].map(box => box.getBoundingClientRect().width)")
        assert all(width <= room for width in boxes)


def test_a_narrow_screen_shows_all_of_a_study_and_of_what_runs(narrow):
    page = narrow.open("/")
    for words in ("about 7.5 min", "63.3"):
        box = page.locator(f".scroll td >> text={words}").bounding_box()
        assert box["x"] + box["width"] <= NARROW["width"], words


def test_a_wide_table_keeps_its_first_column_in_sight(narrow):
    page = narrow.open("/study/made_up/paper")
    box = page.locator("#part1 ~ .scroll")
    scrolled = box.evaluate("box => { box.scrollLeft = 1000; return box.scrollLeft; }")

    assert scrolled > 0
    assert page.locator("#part1 ~ .scroll tbody th").first.bounding_box()["x"] >= box.bounding_box()["x"]


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


def test_puzzles_play_from_the_beginning(tab, results):
    write_thinking(results, run_id(0, 0))
    page = tab.open(f"/run/{run_id(0, 0)}")
    page.locator(".thinking button").focus()
    page.keyboard.press("Enter")
    playing = page.locator(".thinking button").inner_text()

    tab.until("document.querySelector('.thinking button').innerText === 'Play'")
    assert playing == "Pause"
    assert page.locator(".thinking output").inner_text() == "segment 3 of 3"


def test_puzzles_fit_a_phone_and_paper(narrow, results):
    """At 390 pixels two grids side by side; on paper the first and the last segment of each, and nothing to press."""
    write_thinking(results, run_id(0, 0))
    large = {name: np.zeros((2, 900), np.uint8) + 2 for name in ("given", "answers")}
    write_thinking(
        results, run_id(1, 0), **large, cells=np.zeros((2, 3, 900), np.uint8) + 2, shape=np.array([30, 30]),
        boxes=np.array([0, 0]), colours=np.array(["#000000", "#111111", "#222222", "#333333"]),
    )  # fmt: skip
    for variant, across in ((0, 2), (1, 1)):
        page = narrow.open(f"/run/{run_id(variant, 0)}")
        grids = page.locator(".thinking .now svg")
        grids.nth(1).wait_for()
        places = grids.evaluate_all("all => all.slice(0, 2).map(one => one.getBoundingClientRect())")  # at one moment
        assert len({place["y"] for place in places}) == 3 - across
        assert all(place["x"] + place["width"] <= 390 for place in places)
        narrow.until("document.documentElement.scrollWidth <= 390")
    page = narrow.open(f"/run/{run_id(0, 0)}")
    page.locator(".thinking .now svg").nth(1).wait_for()  # the box is filled after the page is there
    page.emulate_media(media="print")
    shown = page.locator(".thinking :is(button, svg) >> visible=true").evaluate_all(
        "all => all.map(one => one.getAttribute('aria-label').split(', ')[1])"
    )

    assert shown == ["after segment 1", "after segment 3"] * 2


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


@pytest.mark.parametrize(("wide", "high"), [(390, 844), (1280, 800), (1920, 1080)])
def test_the_first_screen_of_a_report_has_question_answer_and_picture(browser, tmp_path, wide, high):
    """All of the question and the answer, and of the picture 250 pixels at least; the page is no wider than the screen."""
    page = write_report(write_study(tmp_path / "results"), "made_up", "paper").as_uri()
    with opened(browser, page, {"width": wide, "height": high}) as tab:
        tab.page.goto(page)
        tab.page.locator(".first .figure .main-svg").first.wait_for(timeout=60_000)
        question, answer, plot = (
            tab.page.locator(name).first.bounding_box() for name in (".question", ".findings", ".first .figure .nsewdrag")
        )
        across = tab.page.evaluate("document.documentElement.scrollWidth")

    assert all(box["y"] + box["height"] < high for box in (question, answer))
    assert min(plot["y"] + plot["height"], high) - plot["y"] > 250
    assert across <= wide


def test_the_buttons_of_a_figure_are_one_stop(browser, tmp_path):
    """The Tab key passes them in one step, the arrow keys lead from one to the next."""
    page = write_report(write_study(tmp_path / "results"), "made_up", "paper").as_uri()
    with opened(browser, page) as tab:
        tab.page.goto(page)
        tab.page.locator(".figure .modebar-btn").first.wait_for(timeout=60_000)
        stops = tab.page.evaluate(
            "[...document.querySelectorAll('.modebar')].map(bar => bar.querySelectorAll('button:not([tabindex=\"-1\"])').length)"
        )
        now = "document.activeElement.getAttribute('aria-label')"
        first = tab.page.locator(".first .modebar-btn").first
        first.focus()
        begun = tab.page.evaluate(now)
        tab.page.keyboard.press("ArrowRight")
        second = tab.page.evaluate(now)
        tab.page.keyboard.press("Tab")
        left = tab.page.evaluate("document.activeElement.closest('.modebar') !== null")
        tab.page.keyboard.press("Shift+Tab")
        back = tab.page.evaluate(now)

    assert stops
    assert set(stops) == {1}
    assert begun != second == back
    assert not left


def test_figures_along_the_same_axis_zoom_together(tab, results):
    """What one learning curve shows of the epochs, the one of what runs now shows, and one that is drawn later."""
    for variant, seed in ((0, 0), (1, 0)):
        write_epochs(results, run_id(variant, seed), 90.0, epochs=20)
    page = tab.open("/study/made_up/paper")
    tab.draw_what_runs()
    learned = page.locator(".figure").last
    learned.scroll_into_view_if_needed()
    learned.locator(".main-svg").first.wait_for(timeout=60_000)
    reach = "[...document.querySelectorAll('.figure')].filter(box => box.layout?.meta?.across === 'epoch')"
    reach += ".map(box => box.layout.xaxis.range.map(value => value.toFixed(2)).join())"
    before = page.evaluate(reach)
    box = learned.locator(".nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 20, steps=5)
    page.mouse.up()
    tab.until(f"{reach}.length === {len(before)} && new Set({reach}).size === 1 && {reach}[0] !== {json.dumps(before[-1])}")
    page.evaluate("all()")  # as when the window gets another size
    kept = page.evaluate(reach)
    learned.locator(".nsewdrag").first.dblclick()

    assert len(before) == 2
    assert len(set(before)) == 2
    assert len(set(kept)) == 1
    tab.until(f"new Set({reach}).size === 2")


def test_runs_are_grouped_by_the_form_and_the_address_says_how(browser, results):
    """On a phone, too: the figure is no wider than the screen, and a filter of the list changes it."""
    with serving(results.root) as url, opened(browser, url, NARROW) as tab:
        page = tab.open("/runs/made_up/paper")
        page.locator("select[name='group.x']").select_option("batch_size")
        page.locator("select[name='group.facet']").select_option("model")
        page.locator("button", has_text="Draw").press("Enter")
        page.wait_for_url("**/runs/made_up/paper?group.x=batch_size&group.facet=model")
        page.locator("#group ~ .figure").scroll_into_view_if_needed()
        page.locator("#group ~ .figure .main-svg").first.wait_for(timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.goto(f"{page.url}&model=ViTRM")
        tab.has("Of the 6 runs of the list below")
        tab.rows(6)


def test_what_is_yet_to_be_drawn_is_not_printed(tab):
    page = tab.open("/study/made_up/paper")
    page.evaluate(f"document.getElementById('page').insertAdjacentHTML('beforeend', {json.dumps(PENDING)})")
    seen = page.locator(".pending").last

    assert seen.is_visible()
    page.emulate_media(media="print")
    assert not seen.is_visible()


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
