"""Metrics of finished runs, computed without training: from answers, from weights, by the command line in a
new process.
"""

import json
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import run_python

from recstudy.base.errors import EXIT_CODES, ConfigError
from recstudy.cli.execution import exit_code, reasons
from recstudy.plugins import gathering
from recstudy.programs.trial import run_trial
from recstudy.records import Measured, Results, read_record
from recstudy.recursive import METRICS, Answers, PhantomCaptions, RunConfig, measured, metric
from recstudy.recursive.metrics.kept import pack_answers, unpack_answers
from recstudy.recursive.reevaluate import evaluate
from recstudy.recursive.testing import make_trial, tiny_model, tiny_run
from recstudy.recursive.train import saved_weights
from recstudy.report import Table
from recstudy.report.study_records import load_study
from recstudy.report.summary import failed_metrics, missing_metrics, origins
from recstudy.study.design import grid
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan
from recstudy.study.testing import tiny_study

BRIER = """
import numpy as np
from recstudy.recursive import METRICS, metric


@METRICS.add("brier")
@metric("Brier score", better="lower", bounds=(0, 2), form=".3f")
def brier(answers):
    right = np.eye(answers.logits.shape[1])[answers.labels]
    return float(((answers.probabilities - right) ** 2).sum(1).mean())
"""
RUN = tiny_run(epochs=1)
CAPTIONER = tiny_run(tiny_model("image_trm", tuned=True), PhantomCaptions(limit=24), epochs=1)


def trained(root: Path, base: RunConfig, seeds: int = 1) -> Results:
    """The records of a study of one variant, made in this process."""
    table = [Table("table", metrics=("act_loss",))]
    study = tiny_study(grid({"train.epochs": [1]}), base, name="later", seeds=seeds, report=table)
    plan, results = make_plan(study, changes={"resources.gpus": 0}), Results(root).create()
    record_plan(plan, results)
    file = results.study("later", "quick") / "plan.json"
    file.write_text(file.read_text().replace("act_loss", "brier"))  # as of a study that defines it
    for run in plan.runs:
        run_trial(make_trial(results.root, run.config), lambda line: None)
    return results


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("finished") / "results", RUN, seeds=2).root


@pytest.fixture
def results(finished, tmp_path) -> Results:
    """Two finished runs, of a copy of their own."""
    shutil.copytree(finished, tmp_path / "results")
    return Results(tmp_path / "results")


@pytest.fixture
def brier():
    with gathering():
        exec(BRIER, {"__name__": "users"})
        yield


def folders(results: Results):
    return [results.run(path.name) for path in sorted((results.root / "runs").iterdir())]


def computed(results: Results, *names: str) -> tuple[bool, list[str]]:
    """Whether all was computed, and what was said of the runs."""
    with redirect_stdout(StringIO()) as printed:
        done = evaluate(results, "later", "quick", names, Path("data"))
    lines = printed.getvalue().splitlines()
    # what other tests have registered
    return done, [line for line in lines if not line.startswith("not imported")][1:]


def test_a_metric_that_is_new_is_computed_from_answers(results, brier):
    contents = [folder.result.read_bytes() for folder in folders(results)]
    (message,) = map(str, missing_metrics(load_study(results, "later", "quick")))
    assert message.startswith(
        "not computed yet: Brier score by 2 finished runs. Compute without training: recstudy evaluate "
    )
    assert message.endswith("results/studies/later/quick --metric brier")

    done, lines = computed(results)

    assert done
    assert all(": Brier score " in line and "from its answers" in line for line in lines)
    assert [folder.result.read_bytes() for folder in folders(results)] == contents
    records = load_study(results, "later", "quick")
    for row, folder in zip(sorted(records.rows, key=lambda row: row.id), folders(results), strict=True):
        (measurement,) = read_record(folder.measured, Measured).metrics.values()
        assert (
            row.value("brier")
            == measurement.value
            == METRICS["brier"](unpack_answers(folder.answers).answers)
        )
        assert (measurement.how, row.late_sources, "brier" in row.measured) == (
            "answers",
            {"brier": "answers"},
            True,
        )
    assert missing_metrics(records) == ()
    assert ("Computed later", "Brier score of 2 runs from answers") in origins(records)
    assert computed(results)[1] == [
        f"[{number}/2] 1 epoch, seed {number - 1}: nothing to compute" for number in (1, 2)
    ]


def test_answers_that_are_torn_or_cut_do_not_suffice(results, brier):
    """The weights answer again: torn answers are replaced, cut ones stay as they are."""
    first, second = folders(results)
    expected = METRICS["brier"](unpack_answers(first.answers).answers)
    content, count = pack_answers(unpack_answers(second.answers).answers, limit=1500)
    first.answers.write_bytes(b"torn")
    second.answers.write_bytes(content)

    done, lines = computed(results)

    assert 0 < count < 32
    assert second.answers.read_bytes() == content
    assert done
    assert all("from its weights" in line for line in lines)
    assert read_record(first.measured, Measured).metrics["brier"].value == pytest.approx(expected, rel=1e-3)
    assert (
        measured(unpack_answers(first.answers).answers).values["top1_accuracy"]
        == told_by(first)["top1_accuracy"]
    )


def test_items_flipped_by_rounding_by_hand(monkeypatch):
    """Of four images bfloat16 loses one and gains one, half a batch changes none, and the compiled network
    gains one.
    """
    right = {("float32", 8, False): [1, 1, 0, 0], ("bfloat16", 8, False): [1, 0, 1, 0]}
    right |= {("float32", 4, False): [1, 1, 0, 0], ("float32", 8, True): [1, 1, 0, 1]}

    def answered(config, result, weights, folder, compiled=False):
        predictions = right[config.train.precision, config.train.batch_size, compiled]
        return Answers("multiclass", np.eye(2)[predictions], np.ones(4, int))

    monkeypatch.setattr(saved_weights, "answers_again", answered)

    half = {"precision": "bfloat16", "state_precision": "bfloat16"}
    run = tiny_run(tiny_model("hrm", tokens="patch", patch=4), batch_size=8, **half)
    flipped = saved_weights.flips(run, None, Path(), Path())

    assert flipped == {"bfloat16": 50, "two_workers": 0, "compiled": 25}


def test_items_flipped_by_rounding_are_computed_from_weights_on_request(results, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda network, **options: compiled.append(options))

    done, lines = computed(results, "numerical_floor")

    assert done
    assert all("Items that rounding flips" in line and "from its weights" in line for line in lines)
    for folder in folders(results):
        floor = read_record(folder.measured, Measured).metrics["numerical_floor"]
        assert floor.value == max(floor.by_class.values()) < 20
        assert list(floor.by_class) == ["bfloat16", "two_workers", "compiled"]
    assert compiled == [{"dynamic": False, "mode": None}] * 2


def told_by(folder) -> dict:
    return json.loads(folder.result.read_text())["metrics"]


def test_a_run_that_cannot_be_evaluated_is_one_line(results, brier):
    first, second = folders(results)
    first.answers.unlink()
    first.weights.unlink()
    result = json.loads(second.result.read_text())
    result["provenance"]["data_checksum"] = "other"
    second.result.write_text(json.dumps(result))
    second.answers.unlink()

    done, lines = computed(results)

    assert not done
    assert len(lines) == 2
    assert any(line.endswith("cannot be evaluated: it kept neither answers nor weights") for line in lines)
    assert any(
        "cannot be evaluated: the data here is not that of the run: its checksum is" in line for line in lines
    )


def test_a_result_keeps_its_own_value(results, monkeypatch):
    monkeypatch.setitem(METRICS, "nll", metric("NLL", tasks=("multiclass",))(lambda answers: 7.0))

    done, lines = computed(results, "nll")

    assert (done, all(line.endswith("nothing to compute") for line in lines)) == (True, True)
    assert not folders(results)[0].measured.exists()


def test_missing_metric_or_one_for_other_data_is_reported(results):
    with pytest.raises(
        ConfigError, match=r"no metric 'birer': .* One of your own is found once the study knows its module"
    ):
        computed(results, "birer")

    done, lines = computed(results, "cider")

    assert not done
    assert lines[0].endswith("cannot be evaluated: CIDEr is for caption data, not for multiclass")


def test_a_damaged_file_of_later_metrics_spoils_nothing_else(results, brier):
    computed(results)
    folders(results)[0].measured.write_text("{")

    states = {row.status for row in load_study(results, "later", "quick").rows}

    assert states == {"done", "failed"}  # said as any damaged record is


def test_captions_are_answered_again_as_they_were(tmp_path):
    results = trained(tmp_path / "results", CAPTIONER)
    (folder,) = folders(results)
    old_answers = unpack_answers(folder.answers).answers
    folder.answers.unlink()
    with gathering():
        METRICS.add("count")(metric("Images", tasks=("caption",))(lambda answers: float(len(answers))))
        done, lines = computed(results)

    assert done, lines
    new_answers = unpack_answers(folder.answers).answers
    assert (list(new_answers.written), list(new_answers.references)) == (
        list(old_answers.written),
        list(old_answers.references),
    )
    assert read_record(folder.measured, Measured).metrics["count"].value == len(old_answers)


def test_the_command_line_in_a_new_process_needs_no_torch_where_answers_suffice(results, tmp_path):
    """The metric lies in a file of the user's that the study's plan names."""
    (tmp_path / "mine.py").write_text(BRIER)
    plan = results.study("later", "quick") / "plan.json"
    content = json.loads(plan.read_text())
    content["plugins"] = [{"module": "mine", "file": str(tmp_path / "mine.py"), "digest": ""}]
    plan.write_text(json.dumps(content))
    code = (
        "import sys; from recstudy.cli import main\ntry: main(sys.argv[1:])\nfinally: print('torch' in sys.modules)",
        "evaluate", "results/studies/later/quick", "--metric", "brier", "--trust",
    )  # fmt: skip

    done = run_python("-c", *code, folder=tmp_path)

    assert "[2/2] 1 epoch, seed 1: Brier score " in done.stdout
    assert done.stdout.endswith("False\n")
    assert load_study(results, "later", "quick").rows[0].value("brier") is not None


def test_runs_on_an_object_store_are_evaluated_there(results, brier, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "scratch"))
    folders(results)[0].answers.unlink()
    stored = Results(f"local://{results.root}").pull()

    done, lines = computed(stored)

    assert done, lines
    assert sum("from its weights" in line for line in lines) == 1
    assert all(read_record(folder.measured, Measured).metrics["brier"].value for folder in folders(results))
    assert all(folder.answers.exists() for folder in folders(results))


def test_raising_metric_fails_the_command_until_it_is_fixed(tmp_path):
    with gathering():
        METRICS.add("brier")(metric("Brier score")(lambda answers: 1 / 0))
        results = trained(tmp_path / "results", RUN)
        (run,) = load_study(results, "later", "quick").plan.runs

        records = load_study(results, "later", "quick")
        (message,) = failed_metrics(records)
        assert message.startswith(
            "the metric Brier score failed in 1 run: ZeroDivisionError: division by zero (test_later.py, line "
        )
        assert message.endswith("results/studies/later/quick --metric brier")
        assert records.rows[0].value("top1_accuracy") is not None

        done, lines = computed(results)
        assert (done, "ZeroDivisionError" in lines[0]) == (False, True)
        assert exit_code(reasons([run], results)) == EXIT_CODES["code"]

    with gathering():
        exec(BRIER, {"__name__": "users"})
        assert computed(results)[0]
        assert failed_metrics(load_study(results, "later", "quick")) == ()
        assert exit_code(reasons([run], results)) == 0
