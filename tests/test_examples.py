"""The files of `examples/`, as a reader uses them."""

from pathlib import Path

import nbformat
import pytest
from notebooks import executed

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.whole
def test_the_notebook_runs(tmp_path):
    book = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    install, *cells = [cell.source for cell in book.cells if cell.cell_type == "code"]

    study, answers, more_seeds, judged = executed(cells, tmp_path)

    assert install == "%pip install --quiet ..  # the clone that this notebook is in"
    assert "text/html" in study.outputs[-1].data
    assert "supported" in answers.outputs[-1].data["text/plain"]
    assert more_seeds.outputs[-1].data["text/plain"] == "24"
    assert "supported" in judged.outputs[-1].data["text/plain"]
