"""The board on studies with modules of their own: two that name theirs alike, one whose file changes, one that is gone."""

import html
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "board"))
sys.path.append(str(Path(__file__).parents[1] / "analysis"))

from boards import looked
from made_up import write_study
from shell import until

from recstudy.board.markup import Address
from recstudy.board.pages import page
from recstudy.board.renderer import Desk
from recstudy.plugins import bundle_of

PART = """
from recstudy.report import PARTS, FigurePart

@PARTS.add("mine")
class Mine(FigurePart):
    name: str = "mine"
    default_title = "{title}"

    def drawn(self, records):
        import pandas as pd
        import plotly.express as px
        from recstudy.analysis import Drawn
        data = pd.DataFrame({{"x": [1, 2], "y": [1, 2]}})
        return Drawn(lambda size: px.line(data, x="x", y="y"), data, "{title}")
"""


def study(root: Path, folder: Path, title: str, name: str) -> Path:
    """A made-up study with a figure that is drawn by a module of its own."""
    folder.mkdir()
    file = folder / "mine.py"
    file.write_text(PART.format(title=title))
    results = write_study(root)
    made = next((results.root / "studies").glob("*/*/plan.json"))
    plan = json.loads(made.read_text()) | {
        "plugins": bundle_of(folder, ["mine"]).record,
        "report": [{"kind": "mine", "name": "mine"}],
    }
    place = results.root / "studies" / name / made.parent.name / "plan.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(plan | {"study": name}))
    return file


def shown(desk: Desk, name: str) -> str:
    (preset,) = {key[1] for key in desk._sources.watch.studies if key[0] == name}
    _, parts = desk.show(Address(("study", name, preset)), wait=60)
    return html.unescape("".join(part.title + part.body for part in parts))


@pytest.fixture
def desk(tmp_path):
    study(tmp_path / "results", tmp_path / "a", "The first", "one")
    study(tmp_path / "results", tmp_path / "b", "The second", "two")
    desk = Desk(looked(tmp_path / "results"), page).start()
    yield desk
    desk.stop()


def test_each_study_is_drawn_by_its_own_modules(desk, tmp_path):
    assert "The first" in shown(desk, "one")
    assert "The second" in shown(desk, "two")

    (tmp_path / "a/mine.py").write_text(PART.format(title="Another"))
    (tmp_path / "b/mine.py").unlink()

    until(lambda: "Another" in shown(desk, "one"), "the figure of the changed file", seconds=60)
    gone = f"{tmp_path / 'b/mine.py'} is not there, nor is mine.py in the current folder"
    until(lambda: gone in shown(desk, "two"), "the reason why there is no figure", seconds=60)
