"""Errors in a study's file: one line that names the file, the line, the thing and the fix, before anything
starts.
"""

import re
import subprocess
import sys
from textwrap import dedent

import pytest

from recstudy import Claim, Deviation, Search, Study, Variant, factorial, grid
from recstudy.base.errors import ConfigError
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.report import Best, Curve, Importance, LearningCurves, Table
from recstudy.study.plan import make_plan

BASE = RunConfig(data=Digits(), model=ViTRM(patch=2, width=16, heads=2))
STUDY_FIELDS = {
    "name": "s",
    "presets": {"quick": BASE, "paper": BASE},
    "variants": [Variant("a", {})],
    "seeds": 3,
}
SEARCHED = {"name": "s", "presets": {"quick": [BASE]}, "vary": ["model.latent_steps"]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": 5}, "a study's name is that of a folder: .*, but got 5"),
        ({"presets": {}}, "s has no presets: give {NAME: RunConfig"),
        ({"presets": {"quick": 5}}, "the preset 'quick' of s must be a RunConfig, but got 5"),
        ({"seeds": "3"}, "the seeds of s must be a whole number of at least 1, but got '3'"),
        ({"seeds": {"quick": 1}}, "s has seeds for quick, but none for its preset 'paper'"),
        (
            {"seeds": {"quick": 1, "papr": 3}},
            r"s has seeds for 'papr': its presets are quick, paper\. Did you mean 'paper'\?",
        ),
        (
            {"variants": {"paper": [Variant("a", {})]}},
            "s has variants for paper, but none for its preset 'quick'",
        ),
        ({"variants": ["a"]}, "the variants of s must be of Variant, but got 'a'"),
        ({"report": Table("t")}, "the report of s must be a list of Part, but got "),
        (
            {"max_seeds": 2},
            "the max_seeds of s must be a whole number of at least its 3 seeds, but got 2",
        ),
        (
            {"max_seeds": {"quik": 5}},
            "s has max_seeds for 'quik': its presets are .* Did you mean 'quick'",
        ),
        ({"success_threshold": {"exact": 50}}, "no metric 'exact'"),
        (
            {"success_threshold": {"exact_accuracy": 500}},
            "exact_accuracy must be a number between 0 and 100, but got 500",
        ),
        ({"success_threshold": [50]}, r"must be {METRIC: VALUE}, but got \[50\]"),
        ({"alpha": 5}, "the alpha of s must be a number from 0.0001 to 0.5, such as 0.01, but got 5"),
        (
            {"claims": [Claim("c", of={}, at_most=1, alpha=0.1)]},
            "the claim 'c' has alpha=0.1, which must not exceed the 0.05 of s: state Study.alpha=0.1",
        ),
        (
            {"test_share": 0.2},
            "the test_share of s needs paired=True: variants with the same seed must share",
        ),
        (
            {"paired": True, "test_share": 20},
            "the test_share of s must be a number from 0 to 1, .*, but got 20",
        ),
        ({"claims": [5]}, "the claims of s must be of Claim, but got 5"),
    ],
)
def test_a_study_that_cannot_be_is_refused_where_it_is_stated(fields, message):
    with pytest.raises(ConfigError, match=message):
        Study(**STUDY_FIELDS | fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seeds": {"paper": 3}}, "s has seeds for 'paper': its presets are quick"),
        ({"budget": 5}, "a budget is a number of runs, hours or GPU hours, .*, but got 5"),
        ({"vary": "model.latent_steps"}, "the vary of s must be a list of str"),
        ({"presets": {"quick": 5}}, "the preset 'quick' of s must be a list of RunConfig, but got "),
        ({"objectives": 5}, "the objectives of s are {name: 'max' or 'min'}, but got 5"),
        ({"objectives": {"score": "most"}}, "the objectives of s are {name: 'max' or 'min'}, but got "),
        ({"ranges": {"model.latent_steps": 5}}, "s gives 'model.latent_steps' a range that is no Range: 5"),
    ],
)
def test_a_search_that_cannot_be_is_refused_where_it_is_stated(fields, message):
    with pytest.raises(ConfigError, match=message):
        Search(**SEARCHED | fields)


@pytest.mark.parametrize(
    ("make_object", "message"),
    [
        (
            lambda: Study(**STUDY_FIELDS, sedes=3),
            r"no argument 'sedes': Study has name, .*\. Did you mean 'seeds'\?",
        ),
        (lambda: Study("s"), "s has no presets: give {NAME: RunConfig"),
        (lambda: Variant(5, {}), "a variant is a label and {field: value}, but got 5 and {}"),
        (lambda: grid({"model.width": 5}), "the axis 'model.width' needs a list of levels, .*, but got 5"),
        (
            lambda: grid({"train.augment.more": [["a"], ["b"]]}),
            "name the levels of the axis 'train.augment.more'",
        ),
        (
            lambda: grid({"a": range(1000), "b": range(1000)}),
            "a, b have 1,000,000 combinations, but a study plans 100,000 runs",
        ),
        (
            lambda: factorial({f"model.{index}": [0, 1] for index in range(40)}),
            "1,099,511,627,776 combinations",
        ),
        (lambda: RunConfig(data=5), "'data' must be a dictionary or instance of DataConfig, but got 5"),
        (lambda: TrainConfig(epoch=5), r"Unknown field 'epoch'. Did you mean 'epochs'\? TrainConfig has "),
        (
            lambda: TrainConfig(augment={"flp": True}),
            r"Unknown field 'augment\.flp'. Did you mean 'flip'\? Augment has ",
        ),
        (lambda: Curve("c", x="a"), "Curve needs 'y'"),
    ],
)
def test_a_misspelt_word_names_the_nearest(make_object, message):
    with pytest.raises(ConfigError, match=message):
        make_object()


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

    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)

    assert (
        done.stderr == "ConfigError: mine.py, line 7: the axis 'model.width' lists a level twice: 8 and 8\n"
    )
    assert (done.returncode, done.stdout) == (2, "")


def test_error_outside_the_users_input_keeps_its_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import recstudy; 1 / 0"], capture_output=True, text=True, check=False
    )

    assert re.search("Traceback.*ZeroDivisionError", done.stderr, re.DOTALL)
    assert done.returncode == 1


def test_presets_of_studies_and_searches_are_a_config_or_a_list_of_one():
    assert (
        Study(**STUDY_FIELDS | {"presets": {"quick": [BASE], "paper": BASE}}).presets
        == STUDY_FIELDS["presets"]
    )
    assert Search(**SEARCHED | {"presets": {"quick": BASE}}).presets == SEARCHED["presets"]


def test_without_a_stated_report_results_and_the_best_settings_are_shown():
    study, search = (make_plan(definition) for definition in (Study(**STUDY_FIELDS), Search(**SEARCHED)))

    assert [type(part) for part in study.report] == [Table, LearningCurves]
    assert {Best, Importance} <= {type(part) for part in search.report}
