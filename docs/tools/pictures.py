"""Take the pictures of README and docs in a headless Chromium (`make pictures`).

They show reports and the board on the results in `results/`, the table of `examples/`, which is judged, and a
published bundle. Animations of a report are copied.
"""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, sync_playwright

from recstudy.board.server import BoardServer
from recstudy.publishing.bundle import open_bundle

PICTURES = Path(__file__).parents[1] / "pictures"
RESULTS = Path("results")
TABLE = Path(__file__).parents[2] / "examples/runs.csv"
PUBLISHED = Path(__file__).parents[2] / "studies" / "evidence" / "hrm_small_images.zip"
CLAIMS = ".figure[aria-label^=Claims]"
# the first figure that is not the forest plot of the claims
FIRST = ".figure:not([aria-label^=Claims]) >> nth=0"
VIEW = {"width": 1000, "height": 6000}  # so high that nothing scrolls under the sticky bar


class Picture(NamedTuple):
    """A CSS selector in a quick study's report or board page, or a GIF of the report."""

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
    Picture(
        "my_function", "report.png", "body", corner=(1000, 690), preset="default"
    ),  # recstudy new my_function
    Picture("sudoku_depth", "segments.png", FIRST),
    Picture("sudoku_depth", "thinking.gif", "figures/thinking.gif"),
    Picture("puzzle_test_time", "effort.png", FIRST),
    Picture("field_claims", "claims.png", CLAIMS),
    Picture("trm_recursions", "depth.png", FIRST),
    Picture("vitrm_depth_sweep", "levels.png", FIRST),
    Picture("imagetrm_backbones", "captions.png", "article.card >> nth=1"),
    Picture("micar_hyperparameters", "curve.png", FIRST),
    # of PUBLISHED
    Picture(
        "hrm_small_images", "accuracies.png", ".scroll[aria-label*=accuracy] >> nth=0", corner=(928, 424)
    ),
    Picture("vitrm_depth_sweep", "board.png", "body", on_board=True, corner=(1000, 760)),
)


def main() -> int:
    """Take every picture whose page exists; exit with code 1 if one is missing."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("No Chromium found: install one (Debian: apt install chromium).", file=sys.stderr)
        return 2
    judge = "from recstudy.cli import main; main()", "judge", TABLE, "--results", RESULTS, "--replace"
    subprocess.run([sys.executable, "-c", *judge], check=True, stdout=subprocess.DEVNULL)
    missing_count = 0
    with sync_playwright() as playwright, board() as address, open_bundle(PUBLISHED) as bundle:
        page = playwright.chromium.launch(executable_path=browser).new_page(viewport=VIEW)
        for picture in SCREENSHOTS:
            own_report = RESULTS / f"studies/{picture.study}/{picture.preset}/report/report.html"
            report = bundle.root / "report/report.html" if picture.study == PUBLISHED.stem else own_report
            source = report.parent / picture.part if picture.part.endswith(".gif") else report
            if not source.exists():
                missing_count += 1
                print(
                    f"{picture.path.name}: no {source.name}. Run: python studies/{picture.study}.py",
                    file=sys.stderr,
                )
                continue
            if source != report:
                shutil.copy(source, picture.path)
            else:
                take(
                    page,
                    picture,
                    f"{address}/study/{picture.study}/quick"
                    if picture.on_board
                    else report.absolute().as_uri(),
                )
            print(f"docs/pictures/{picture.path.name}")
    return 1 if missing_count else 0


def take(page: Page, picture: Picture, address: str) -> None:
    page.goto(address, wait_until="load")
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
def board() -> Iterator[str]:
    """Serve a board on a free port and yield its address."""
    served = BoardServer(RESULTS, "127.0.0.1", 0, "")
    thread = threading.Thread(target=served.run)
    thread.start()
    try:
        yield served.url
    finally:
        served.stop()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
