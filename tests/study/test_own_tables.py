"""Published tables of one's own: a CSV beside the study, read where the study's file lies, kept in the
plan.
"""

import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from recstudy.base.errors import ConfigError
from recstudy.papers import settings
from recstudy.plugins import loaded, user_files_of
from recstudy.programs.metric import METRICS
from recstudy.records import Results
from recstudy.records.plans import read_plan
from recstudy.records.study_schema import Deviation
from recstudy.report.audit import audit
from recstudy.report.parts import parts_of
from recstudy.report.registration import statements
from recstudy.report.study_records import StudyRecords, records_of
from recstudy.report.targets import match_targets
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan

STUDY = '''"""Does ours do as theirs does?"""

from recstudy.recursive import RunConfig, TrainConfig
from recstudy import Study, grid, main, published
from recstudy.report import Table
from recstudy.recursive import Digits
from recstudy.recursive import METRICS, metric
from recstudy.recursive import ViTRM
from recstudy.report.parts import parts_of


@METRICS.add("wrong_digits")
@metric("Digits that are wrong")
def wrong_digits(answers):
    return float((answers.predicted != answers.labels).mean())


TABLE = published("my_paper.csv", margin=0.5, why="a third of the 1.5 points between one step and two")
study = Study(
    name="own",
    presets={"quick": RunConfig(data=Digits(), model=ViTRM(width=32, heads=2, patch=2), train=TrainConfig(epochs=2))},
    variants=grid({"model.latent_steps": [1, 2]}),
    seeds=1,
    report=[Table("scores", targets=TABLE)],
)

if __name__ == "__main__":
    main(study)
'''
PAGE = (Path(__file__).parents[2] / "docs/how-to/published.md").read_text()
(TABLE,) = re.findall(r"^```\n(model.*?)```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "my_study.py").write_text(STUDY.replace("@METRICS", "# "))
    (tmp_path / "study" / "my_paper.csv").write_text(TABLE)
    return tmp_path / "study"


def planned(folder: Path, results: Path, deviations=()) -> StudyRecords:
    """The study's records as a reader has them, from the plan on disk."""
    study = runpy.run_path(str(folder / "my_study.py"))["study"]
    plan = make_plan(study)
    record_plan(replace(plan, study=replace(study, deviations=deviations)), Results(results).create())
    saved_plan = read_plan(Results(results).study("own", "quick"))
    assert saved_plan is not None
    return records_of(Results(results), saved_plan)


def test_numbers_stand_beside_the_variants_of_their_settings(folder, tmp_path, monkeypatch):
    """The file lies beside the study's, wherever that is run from; the plan has all of it."""
    monkeypatch.chdir("/")
    records = planned(folder, tmp_path / "r")
    (folder / "my_paper.csv").unlink()
    part = parts_of(records)[0]
    two = part.targets[1]

    assert two.cited == "my_paper Table 2 (my_paper#2)"
    assert two.table == "my_paper Table 2"
    assert (two.value, two.unit, two.decimals, two.margin) == (0.93, "fraction", 2, 0.005)
    assert two.where == {"model.latent_steps": 2, "train.epochs": 2, "train.learning_rate": 3e-4}
    assert settings(two) == {"train.optimizer": "adamw", "train.batch_size": 256}
    matches = match_targets(records, part.targets, [0, 1], ["top1_accuracy", "params"])
    (match,) = matches.matches[1, "top1_accuracy"]
    assert (match.value, match.margin, match.text) == (93.0, 0.5, "93.0")
    assert match.reasons == ("batch_size 128, not 256",)
    blank, count = matches.unmatched_targets
    assert (blank[0].value, blank[1]) == (91.5, "learning_rate left blank in the source")
    assert (count[0].unit, count[0].model) == ("", "ViTRM")


def test_a_reference_setting_may_be_stated_as_a_deviation(folder, tmp_path):
    smaller = Deviation(field="train.batch_size", paper=256, ours=128, why="to fit")
    records = planned(folder, tmp_path / "r", (smaller,))
    (match,) = match_targets(records, parts_of(records)[0].targets, [0, 1], ["top1_accuracy"]).matches[
        1, "top1_accuracy"
    ]

    assert match.reasons == ()
    assert match.deviations == (smaller,)
    # registered like any other margin
    assert sum(getattr(statement, "margin", 0) > 0 for statement in statements(records.plan)) == 3
    assert audit(records).contradictions == {}


@pytest.mark.parametrize(
    ("heads", "row", "message"),
    [
        ("metric,value,train.epoch", "nll,1,3", "my_paper.csv, line 1, column 'train.epoch': no config has this field. Did you mean "
         "'train.epochs'?"),
        ("metric,value,notes", "nll,1,", "line 1, column 'notes': unknown column. The columns are metric, value, .*'note'?"),
        ("metric,unit", "", "line 1, column 'value': the column is missing. The file has metric, unit"),
        ("metric,value", "top1_accuracy,9O.1", "line 2, column 'value': must be a number, but got '9O.1'"),
        ("metric,value", "top1_acuracy,90.1", "line 2, column 'metric': unknown metric 'top1_acuracy'. Did you mean "
         "'top1_accuracy'?"),
        ("metric,value,unit", "top1_accuracy,90.1,permille", "column 'unit': must be one of percent, %, fraction, but got 'permille'"),
        ("metric,value,train.epochs", "top1_accuracy,90.1,many", "column 'train.epochs': must be a valid integer, .* but got 'many'"),
        ("metric,value", "top1_accuracy,90.1,3", "line 2, column 'value': the line has 3 cells, but there are 2 columns"),
        ("metric,value,id", "nll,1,a\nnll,1,a", "line 3, column 'id': 'my_paper .a.' is already in line 2"),
    ],
)  # fmt: skip
def test_unreadable_cell_is_named_by_file_line_and_column(folder, heads, row, message):
    (folder / "my_paper.csv").write_text(f"{heads}\n{row}\n")

    with pytest.raises(ConfigError, match=message) as error_info:
        make_plan(runpy.run_path(str(folder / "my_study.py"))["study"])
    assert "\n" not in str(error_info.value)


def test_of_some_metrics_only(folder):
    script = folder / "my_study.py"
    script.write_text(script.read_text().replace('csv", margin', 'csv", only=("params",), margin'))
    assert [target.metric for target in runpy.run_path(str(script))["TABLE"]] == ["params"]

    script.write_text(script.read_text().replace('("params",)', '("parms",)'))
    with pytest.raises(
        ConfigError,
        match=r"no metric 'parms' in my_paper\.csv: the metrics are top1_accuracy, params\. Did you mean",
    ):
        runpy.run_path(str(script))


def test_worker_that_imports_a_study_needs_no_table(folder):
    """A worker on another machine has the study's modules, and the plan's numbers."""
    (folder / "my_study.py").write_text(STUDY)
    (folder / "my_paper.csv").unlink()
    with loaded(user_files_of(folder, ["my_study"])):
        assert "wrong_digits" in METRICS
