"""A report that could never be drawn is refused before any run starts."""

import re

import pytest

from recstudy import Function, Metric, Search, Study, grid
from recstudy.base.errors import ConfigError
from recstudy.plugins import gathering
from recstudy.recursive import Digits, RunConfig, ViTRM
from recstudy.report import (
    PARTS,
    Curve,
    Differences,
    History,
    LearningCurves,
    Table,
    TablePart,
)
from recstudy.report.kinds import report_problem
from recstudy.report.writing import check_drawable
from recstudy.study.plan import make_plan
from recstudy.study.record import plan_record

BASE = RunConfig(data=Digits(), model=ViTRM(width=32, heads=2))


def study(*report) -> Study:
    return Study("s", {"quick": BASE}, grid({"model.latent_steps": [1, 2]}), report=report, question="?")


def test_part_with_names_of_the_study_is_planned():
    """Axes, fields by their path, costs, and what follows from registered metrics."""
    parts = [
        Curve(
            "a",
            x="latent_steps",
            y="train_top1_accuracy",
            by="train.batch_size",
            where={"model": "ViTRM", "data": "digits"},
        ),
        Curve("b", x="eval.depth", y="nll"),
        Curve("c", x="gflops", y="auroc.Effusion"),
        Table(
            "t",
            metrics=("auroc.*", "nll_delta"),
            improvement={"latent_steps": 2},
            settings=("model.width", "model.heads"),
        ),
        Table("g", group="params"),
        LearningCurves(metrics=("supervision_steps_used",)),
    ]

    assert len(make_plan(study(*parts)).runs) == 2


def test_a_search_has_what_it_searches():
    def search(*report) -> Search:
        return Search("s", {"quick": [BASE]}, vary=("model.width",), report=report, question="?")

    make_plan(search(Curve("c", x="width", y="nll", by="model.width")))
    with pytest.raises(ConfigError, match="the curve 'c' names 'depth', but the study has family, width, "):
        make_plan(search(Curve("c", x="depth", y="nll")))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Differences(), "'differences' of the report can never be drawn: .* no variant has a base"),
        (Differences(base="full"), "'differences' of the report can never be drawn: no variant 'full'"),
        (
            Table("t", where={"latent_steps": 7}),
            r"'t' of the report can never be drawn: no variant matches \{'latent_steps': 7\}",
        ),
        (History(), "'history' of the report can never be drawn: 'history' shows a search"),
    ],
)
def test_part_that_cannot_be_drawn_is_refused_before_training(part, message, typed, tmp_path):
    """On a dry run and on a real one."""
    for flags in (["--dry-run"], []):
        options = (*flags, "--results", tmp_path / "r", "--set", "data.limit=32")
        output = typed(*options, code=2, study=study(part))

        assert re.search(f"^ConfigError: the part {message}", output)


def test_a_pattern_that_no_run_matches_yet_is_no_reason_to_refuse():
    check_drawable(
        plan_record(make_plan(study(Table("t", rows="model", columns="latent_steps", metrics=("auroc.*",)))))
    )


def test_a_fault_of_our_own_part_is_known_before_the_training(monkeypatch):
    monkeypatch.setattr(Table, "cells", lambda part, records: 1 / 0)

    with pytest.raises(ZeroDivisionError, match="division by zero") as fault:
        check_drawable(plan_record(make_plan(study(Table("t")))))

    assert fault.value.__notes__ == ["in the part 't' of the report, which was drawn without runs"]


class Mine(TablePart):
    def cells(self, records):
        raise ValueError("no best\nof none")


def test_exception_of_a_users_part_without_runs_is_one_line():
    with gathering():
        PARTS.add("mine")(Mine)
        problems = check_drawable(plan_record(make_plan(study(Mine("m"), Table("t")))))

    assert problems == [
        "The part 'm' of the report cannot be drawn without a run: ValueError: no best. It is tried again when runs have finished."
    ]


def test_a_part_that_raises_an_error_is_never_exit_code_0(tmp_path, typed):
    metrics, variants = {"accuracy": Metric("%")}, grid({"depth": [1, 2]})
    program = Function(lambda run: {"accuracy": 80}, name="undrawn")
    with gathering():
        PARTS.add("mine")(Mine)
        own_study = Study(
            "undrawn", program=program, settings={"depth": 1}, metrics=metrics, variants=variants, report=[Mine("m"), Table("t")]
        )  # fmt: skip
        for _ in range(2):  # with runs, and with finished ones
            output = typed("--no-ray", "--results", tmp_path, code=8, study=own_study)

            assert output.splitlines()[-1] == (
                "The report is incomplete. PartError: The report of undrawn (default) lacks what cannot be drawn: 'm': ValueError: no best"
            )
            assert "80.0" in output
            page = (tmp_path / "studies/undrawn/default/report/report.html").read_text(encoding="utf-8")
            assert "&#39;m&#39; cannot be drawn: ValueError: no best" in page


def test_a_problem_that_utf_8_cannot_encode_is_escaped():
    assert report_problem(Table("t"), ConfigError("no caf\udce9")) == "no caf\\udce9"
