"""The board on a study with a module of its own, whose file changes and is gone."""

import html
import json

from made_up import write_study

from recstudy.board import server
from recstudy.board.server import make_app
from recstudy.plugins import user_files_of

PART = """
from recstudy.report import PARTS, FigurePart

@PARTS.add("mine")
class Mine(FigurePart):
    name: str = "mine"
    default_title = "{title}"

    def data(self, records):
        import pandas as pd
        return pd.DataFrame({{"x": [1, 2], "y": [1, 2]}})

    def draw(self, data):
        import plotly.express as px
        return px.line(data, x="x", y="y")
"""


def test_the_boards_import_modules_with_trust_alone_and_follow_their_file(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "POLL_S", 0.0)
    monkeypatch.setattr(server, "REST", 0.0)
    mark, file = tmp_path / "imported", tmp_path / "mine.py"
    file.write_text(
        PART.format(title="The figure") + f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    )
    results = write_study(tmp_path / "results")
    (plan_file,) = (results.root / "studies").glob("*/*/plan.json")
    plan = {"plugins": user_files_of(tmp_path, ["mine"]).record, "report": [{"kind": "mine", "name": "mine"}]}
    plan_file.write_text(json.dumps(json.loads(plan_file.read_text()) | plan))

    clients = {trust: make_app(results, trust=trust).test_client() for trust in (False, True)}

    def page_text(trust: bool) -> str:
        return html.unescape(clients[trust].get(f"/study/{plan_file.parts[-3]}/{plan_file.parts[-2]}").text)

    assert plan_file.parts[-3] in clients[False].get("/").text
    assert f"not imported: {file}; --trust imports it" in page_text(trust=False)
    assert not mark.exists()
    assert "The figure" in page_text(trust=True)
    file.write_text(PART.format(title="Another"))
    assert "Another" in page_text(trust=True)
    file.unlink()
    assert f"not imported: {file} does not exist" in page_text(trust=True)
