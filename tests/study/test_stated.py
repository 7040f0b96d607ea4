"""Errors in a study's file: one line that names the file, the line, the thing and the fix, before anything
starts.
"""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from processes import run_python
from refusals import pattern_of, read_refusals

import recstudy
from recstudy import Deviation, Search, Study, Variant, grid, recursive, report
from recstudy.base.errors import ConfigError
from recstudy.recursive import TRM, Digits, ImageHRM, PhantomCaptions, RunConfig, ViTRM
from recstudy.report import Best, FigurePart, Importance, LearningCurves, Table
from recstudy.study.plan import make_plan

BASE = RunConfig(data=Digits(), model=ViTRM(patch=2, width=16, heads=2))
TRM_BASE = RunConfig(data=Digits(), model=TRM(width=16, heads=2, tokens="patch", positions="learned"))
CAPTIONER = RunConfig(
    data=PhantomCaptions(), model=ImageHRM(backbone="small", weights="random", width=16, heads=2)
)


class Forgotten(FigurePart):
    """Of a kind that nobody registered."""

    name: str = "forgotten"


def study(**fields):
    """A study of two presets with three seeds of one variant."""
    values = {"presets": {"quick": BASE, "paper": BASE}, "variants": [Variant("a", {})], "seeds": 3}
    return Study(**{"name": "s"} | values | fields)


def search(**fields):
    """A search of two fields by two families."""
    values = {"presets": {"quick": [BASE, TRM_BASE]}, "vary": ["model.latent_steps", "train.batch_size"]}
    return Search("s", **values | fields)


def planned(part):
    """The plan of a study with this part in its report."""
    return make_plan(study(variants=grid({"model.latent_steps": [1, 2]}), report=[part]))


LAYERS = grid({"layers": {str(n): {"model.layers": n, "model.latent_tokens": n} for n in (1, 2)}})
SUPERVISED = grid({"train.supervision_steps": [1, 2, 4]})
ROWS = read_refusals(Path(__file__).with_name("stated.txt").read_text(), ">>>")
NAMES = {name: getattr(module, name) for module in (recstudy, recursive, report) for name in module.__all__}


@pytest.mark.parametrize(("expression", "message"), ROWS, ids=[row[0] for row in ROWS])
def test_what_cannot_be_is_refused_in_one_line_where_it_is_stated(expression, message):
    with pytest.raises(ConfigError, match=f"^{pattern_of(message)}$"):
        eval(expression, NAMES | globals())


def test_the_second_one_of_a_kind_is_explained_as_the_first_is():
    """Its checks are built with the first one, when pydantic sets an `__init__` of its own."""
    Deviation(field="train.epochs", paper=1, ours=2, why="a reason")

    for _ in range(2):
        with pytest.raises(ConfigError, match="Deviation needs 'why'"):
            Deviation(field="train.epochs", paper=1, ours=2)


def test_error_in_a_study_file_is_one_line_with_its_position(tmp_path):
    """Python would end with a traceback and 1."""
    file = tmp_path / "mine.py"
    file.write_text(
        dedent("""
        from recstudy import Study, grid

        study = Study(
            "mine",
            presets={},
            variants=grid({"model.width": [8, 8]}),
        )
    """)
    )

    done = run_python(file, code=2)

    assert (
        done.stderr == "ConfigError: mine.py, line 7: the axis 'model.width' lists a level twice: 8 and 8\n"
    )
    assert done.stdout == ""


def test_error_outside_the_users_input_keeps_its_traceback(tmp_path):
    done = run_python("-c", "import recstudy; 1 / 0", code=1)

    assert re.search("Traceback.*ZeroDivisionError", done.stderr, re.DOTALL)


def test_presets_of_studies_and_searches_are_a_config_or_a_list_of_one():
    assert study(presets={"quick": [BASE], "paper": BASE}).presets == study().presets
    assert search(presets={"quick": BASE}).presets == {"quick": [BASE]}


def test_without_a_stated_report_results_and_the_best_settings_are_shown():
    assert [type(part) for part in make_plan(study()).report] == [Table, LearningCurves]
    assert {Best, Importance} <= {type(part) for part in make_plan(search()).report}
