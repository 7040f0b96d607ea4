"""The board on studies with modules of their own: two that name theirs alike, one whose file changes, one that is gone."""

import html
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "board"))
sys.path.append(str(Path(__file__).parents[1] / "analysis"))

from boards import looked
from made_up import write_study
from shell import until

from recstudy.board.markup import Address
from recstudy.board.renderer import PageRenderer
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
    given = bundle_of(folder, ["mine"])
    results = write_study(root)
    made = next((results.root / "studies").glob("*/*/plan.json"))
    plan = json.loads(made.read_text()) | {
        "plugins": given.record,
        "report": [{"kind": "mine", "name": "mine"}],
    }
    place = results.root / "studies" / name / made.parent.name / "plan.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(plan | {"study": name}))
    return file


def shown(renderer: PageRenderer, name: str) -> str:
    (preset,) = {key[1] for key in renderer._sources.poller.studies if key[0] == name}
    _, parts, _ = renderer.show(Address(("study", name, preset)), wait=60)
    return html.unescape("".join(part.title + part.body for part in parts))


@pytest.fixture
def renderer(tmp_path):
    study(tmp_path / "results", tmp_path / "a", "The first", "one")
    study(tmp_path / "results", tmp_path / "b", "The second", "two")
    renderer = PageRenderer(replace(looked(tmp_path / "results"), trust=True)).start()
    yield renderer
    renderer.stop()


def test_each_study_is_drawn_by_its_own_modules(renderer, tmp_path):
    assert "The first" in shown(renderer, "one")
    assert "The second" in shown(renderer, "two")

    (tmp_path / "a/mine.py").write_text(PART.format(title="Another"))
    (tmp_path / "b/mine.py").unlink()

    until(lambda: "Another" in shown(renderer, "one"), "the figure of the changed file")
    gone = f"not imported: {tmp_path / 'b/mine.py'} is not there"
    until(lambda: gone in shown(renderer, "two"), "the reason why there is no figure")


def test_modules_are_not_imported_without_trust(tmp_path):
    mark = tmp_path / "imported"
    file = study(tmp_path / "results", tmp_path / "one", "The figure", "one")
    with file.open("a") as more:
        more.write(f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n")
    renderer = PageRenderer(looked(tmp_path / "results")).start()
    try:
        assert "What they found" in [part.title for part in renderer.show(Address(), wait=60)[1]]
        assert f"not imported: {file}; --trust imports it" in shown(renderer, "one")
        assert not mark.exists()
    finally:
        renderer.stop()
