"""Take the pictures of README and docs in a headless Chromium (`make pictures`).

`make pictures P="board.png judge.png"` takes these two.

A report is written again before its picture is taken, so that it has today's design. The first three pictures
are of studies that take seconds and run here. The others are of the bundles in `studies/evidence`. Animations
of a report are copied.
"""

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from playwright.sync_api import Page, sync_playwright

from recstudy.base.errors import choices, nearest
from recstudy.board.server import BoardServer
from recstudy.publishing.bundle import open_bundle

PICTURES = Path(__file__).parents[1] / "pictures"
TABLE = Path(__file__).parents[2] / "examples/runs.csv"
EVIDENCE = Path(__file__).parents[2] / "studies" / "evidence"
CLAIMS = ".figure[aria-label^=Claims]"
# the first figure that is not the forest plot of the claims
FIRST = ".figure:not([aria-label^=Claims]) >> nth=0"
VIEW = {"width": 1000, "height": 6000}  # so high that nothing scrolls under the sticky bar


class Picture(NamedTuple):
    """A CSS selector in a study's report or on the board's page of its runs, or a GIF of the report."""

    study: str
    name: str
    part: str
    on_board: bool = False
    # width and height in pixels of the upper left corner, if the whole part is too large
    corner: tuple[int, int] | None = None
    preset: str = "quick"

    @property
    def path(self) -> Path:
        is_general = self.on_board or self.study == TABLE.stem
        return PICTURES / (self.name if is_general else f"{self.study}.{self.name}")


SCREENSHOTS = (
    Picture(TABLE.stem, "judge.png", "body", corner=(1000, 540), preset="imported"),
    Picture("my_function", "report.png", "body", corner=(1000, 690), preset="default"),
    Picture("my_function", "board.png", "body", on_board=True, corner=(1000, 940), preset="default"),
    Picture(
        "hrm_small_images",
        "accuracies.png",
        ".scroll[aria-label*=accuracy] >> nth=0",
        corner=(928, 424),
        preset="paper",
    ),
    Picture("sudoku_depth", "segments.png", FIRST),
    Picture("sudoku_depth", "thinking.gif", "figures/thinking.gif"),
    Picture("puzzle_test_time", "effort.png", ".figure[aria-label^='Puzzles solved against']"),
    Picture("field_claims", "claims.png", CLAIMS),
    Picture("trm_recursions", "depth.png", ".figure[aria-label^='Exact accuracy against']"),
    Picture("vitrm_depth_sweep", "levels.png", ".figure[aria-label^='Accuracy by difficulty']"),
    Picture("vitrm_depth_sweep", "cifar10.png", FIRST, preset="cpu"),
    Picture("imagetrm_backbones", "captions.png", "article.card >> nth=1"),
    Picture("micar_hyperparameters", "curve.png", FIRST),
)
WATCHED = {  # changes of the study on the board: runs that last long enough to be seen, one of which fails
    "import numpy as np": "import time\n\nimport numpy as np",
    "        run.report(": "        time.sleep(0.1)\n"
    "        if epoch == 7 and run.settings['examples'] == 20 and run.seed == 1:\n"
    "            raise ValueError('the learning rate is too high')\n        run.report(",
}


def main() -> int:
    """Take the named pictures, or all; exit with code 1 if the results of one are missing."""
    names = [picture.path.name for picture in SCREENSHOTS]
    if unknown := [name for name in sys.argv[1:] if name not in names]:
        print(
            f"No picture {unknown[0]!r}.{nearest(unknown[0], names)} Pictures: {choices(names)}",
            file=sys.stderr,
        )
        return 2
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("No Chromium found: install one (Debian: apt install chromium).", file=sys.stderr)
        return 2
    missing_count = 0
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        chromium = playwright.chromium.launch(executable_path=browser)
        for picture in SCREENSHOTS:
            if len(sys.argv) > 1 and picture.path.name not in sys.argv:
                continue
            page = chromium.new_page(viewport=VIEW)
            try:
                take_picture(page, picture, Path(folder))
                print(f"docs/pictures/{picture.path.name}")
            except FileNotFoundError as error:
                missing_count += 1
                print(f"{picture.path.name} stays: {error}", file=sys.stderr)
            page.close()
    return 1 if missing_count else 0


def take_picture(page: Page, picture: Picture, folder: Path) -> None:
    """Take a picture.

    Args:
        page: The browser's page.
        picture: The picture.
        folder: A temporary folder for studies that run here.

    Raises:
        FileNotFoundError: The bundle of the study is missing.
    """
    if picture.on_board:
        with watched(folder / "watched", picture.study) as results, board(results) as address:
            page.set_viewport_size({"width": VIEW["width"], "height": picture.corner[1]})
            take(
                page,
                picture,
                f"{address}/runs/{picture.study}/{picture.preset}",
                "body:has(#curve-figure .main-svg) #runs tr:nth-child(3) .spark",
            )
        return
    if picture.study in (TABLE.stem, "my_function"):
        results = folder / "results"
        if picture.study == TABLE.stem:
            recstudy("judge", TABLE, "--results", results, folder=folder)
        else:
            recstudy("new", picture.study, folder=folder)
            call(f"{picture.study}.py", "--no-ray", folder=folder)
        take_from(page, picture, results)
        return
    file = EVIDENCE / f"{picture.study}.{picture.preset}.zip"
    if not file.exists():
        raise FileNotFoundError(f"no {file.relative_to(EVIDENCE.parents[1])}")
    with open_bundle(file) as bundle:
        recstudy("report", bundle.root / "results", folder=Path.cwd())
        take_from(page, picture, bundle.root / "results")


def take_from(page: Page, picture: Picture, results: Path) -> None:
    """Take a picture from the report of a study, or copy its animation."""
    report = results / "studies" / picture.study / picture.preset / "report"
    if picture.part.endswith(".gif"):
        shutil.copy(report / picture.part, picture.path)
    else:
        take(page, picture, (report / "report.html").absolute().as_uri())


def call(*words: str | Path, folder: Path) -> None:
    """Run Python in a folder. Exits with its message if it fails."""
    run = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {run.stderr}")


def recstudy(*words: str | Path, folder: Path) -> None:
    call("-c", "from recstudy.cli import main; main()", *words, folder=folder)


@contextmanager
def watched(folder: Path, study: str) -> Iterator[Path]:
    """Run the starter study by three processes during the block, and yield its results folder."""
    folder.mkdir()
    recstudy("new", study, folder=folder)
    file = folder / f"{study}.py"
    text = file.read_text()
    for words, new_words in WATCHED.items():
        assert words in text
        text = text.replace(words, new_words)
    file.write_text(text)
    drivers = []
    try:
        for _ in range(3):
            command = [sys.executable, file.name, "--no-ray"]
            drivers.append(
                subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            time.sleep(3)  # so that the first one has written the plan, and their runs differ in progress
        while len(list(folder.glob("results/runs/*/result.json"))) < 7:
            time.sleep(0.5)
        yield folder / "results"
    finally:
        for driver in drivers:
            driver.terminate()
        for driver in drivers:
            driver.wait()


def take(page: Page, picture: Picture, address: str, last_part: str = "body") -> None:
    page.goto(address, wait_until="load")
    page.locator(last_part).first.wait_for()  # it is drawn last
    part = page.locator(picture.part)
    part.scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")  # its pictures are loaded when they are in view
    if picture.corner is None:
        part.screenshot(path=picture.path)
    else:
        place = part.bounding_box()
        assert place is not None
        width, height = picture.corner
        page.screenshot(
            path=picture.path, clip={"x": place["x"], "y": place["y"], "width": width, "height": height}
        )


@contextmanager
def board(results: Path) -> Iterator[str]:
    """Serve a board on a free port and yield its address."""
    served = BoardServer(results, "127.0.0.1", 0, "")
    thread = threading.Thread(target=served.run)
    thread.start()
    try:
        yield served.url
    finally:
        served.stop()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
