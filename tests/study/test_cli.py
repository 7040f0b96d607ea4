"""What a user types wrong: one line, exit code 2, nothing left half-written. And what a plan prints."""

import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest
import tiny
from processes import run_python
from refusals import read_refusals
from shipped import load

from recstudy.base.errors import EXIT_CODES
from recstudy.cli import study as study_command
from recstudy.cli.execution import exit_code
from recstudy.cli.study import main
from recstudy.programs.facts import RunPrice
from recstudy.records import Results, write_json
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.recursive.program import RECURSIVE_MODELS, optimizer_steps
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan
from recstudy.study.testing import make_result

ROOT = Path(__file__).parents[2]
REFUSED = read_refusals(Path(__file__).with_name("refused.txt").read_text())


@pytest.fixture
def typed(typed):
    """Type options of the tiny study, or of another one."""
    return partial(typed, study=tiny.study)


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[words for words, _ in REFUSED])
def test_bad_input_is_one_golden_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECSTUDY_DATA", raising=False)
    monkeypatch.setattr("sys.argv", ["PROGRAM"])

    with pytest.raises(SystemExit, match=r"^2$"):
        main(tiny.study, shlex.split(words))
    assert capsys.readouterr().err == f"{message}\n"
    assert [
        path
        for path in Path("results").rglob("*")
        if path.is_file() and path.name not in ("recstudy.json", "lock")
    ] in (
        [],
        [Path("results/studies/tiny/quick/plan.json")],
    )


def test_a_refused_command_leaves_the_plan_of_a_good_one(typed, tmp_path):
    plan = tmp_path / "results/studies/tiny/quick/plan.json"
    Results(tmp_path / "results").create()
    record_plan(make_plan(tiny.study), Results(tmp_path / "results"))
    plan_bytes = plan.read_bytes()

    typed(
        "--no-ray",
        "--set",
        "train.batch_size=16",
        "--gpus",
        "4",
        "--results",
        tmp_path / "results",
        code=2,
    )

    assert plan.read_bytes() == plan_bytes


def test_a_plan_as_json(typed, tmp_path):
    rows = json.loads(typed("--dry-run", "--json", "--seeds", "2", "--results", str(tmp_path / "r")))["runs"]

    assert [(row["label"], row["seed"]) for row in rows[:2]] == [
        ("latent_steps=1, supervision_steps=1", 0),
        ("latent_steps=1, supervision_steps=2", 0),
    ]
    assert [row["seed"] for row in rows] == [0] * 6 + [1] * 6
    assert set(rows[0]) == {
        "label",
        "seed",
        "id",
        "params",
        "gflops",
        "train_gflops",
        "memory_gb",
        "cached",
        "changed",
    }
    assert rows[1]["train_gflops"] == 2 * rows[0]["train_gflops"]
    assert not any(row["cached"] for row in rows)
    assert not (tmp_path / "r").exists()


def test_a_plan_is_a_row_for_each_variant_and_for_each_run_if_asked(typed, tmp_path):
    options = "--dry-run", "--only", "latent_steps=1,*", "--seeds", "3", "--results", str(tmp_path / "r")
    first, *_ = make_plan(tiny.study).runs
    Results(tmp_path / "r").create().run(first.id).finish(make_result())

    def cells(*words: str) -> list[tuple[str, str, str]]:
        heading, head, *lines = typed(*options, *words).splitlines()
        assert heading == "tiny, preset quick: 2 variants, 6 runs"
        names, *rows = [re.split(r"  +", line.strip()) for line in (head, *lines) if line[0] == " "]
        assert names[-1] == "state"
        return [(label, seed, cells[-1]) for label, seed, *cells in rows]

    one, two = (f"latent_steps=1, supervision_steps={steps}" for steps in (1, 2))
    assert cells() == [(one, "3", "1 finished, 2 to run"), (two, "3", "3 to run")]
    runs = [(label, seed, "to run") for seed in "012" for label in (one, two)]
    assert cells("--verbose") == [(one, "0", "finished"), *runs[1:]]


def test_a_plan_says_when_to_expect_the_first_result_and_the_last(typed, tmp_path, monkeypatch):
    """By hand: runs of 9 and 90 PFLOP are 50 and 500 core hours at 50 GFLOP/s, and here 36 s and 6 min on a
    GPU; 20 s to start. Each run has a GPU, so eight take as long as the longest. 101 GB need two GPUs. With two
    workers each run takes half of its time.
    """
    prices = {1: RunPrice(8.0, 1.0, 30.0, 6.0), 2: RunPrice(80.0, 10.0, 300.0, 60.0)}
    monkeypatch.setattr(
        "recstudy.recursive.program.price", lambda config: prices[config.train.supervision_steps]
    )
    memory = {1: 400_000, 2: 101e9}
    monkeypatch.setattr(
        "recstudy.recursive.program.training_memory", lambda config: memory[config.train.supervision_steps]
    )
    monkeypatch.setattr("os.process_cpu_count", lambda: 2, raising=False)
    options = "--dry-run", "--only", "latent_steps=1,*", "--seeds", "1", "--results", str(tmp_path / "r")
    output = typed(*options)
    halved = typed(*options, "--workers", "2")

    assert "latent_steps=1, supervision_steps=2" in output
    assert "on a core, 38 s on 2 GPUs." in halved
    assert "on a GPU 6.6 min (training 5.5 min, evaluation 66 s), on 8 3.0 min." in halved
    assert output.splitlines()[-3:] == [
        "First result in about 2.1 days on a core, 56 s on a GPU.",
        "Memory: latent_steps=1, supervision_steps=2 needs 101 GB, but a GPU has 80 GB (assumed, as no GPU is visible). Set "
        "resources.workers=2 to split a batch between 2 GPUs, or lower train.batch_size.",
        "Price: 2 runs, at most 99 PFLOP (training 88 PFLOP, evaluation 11 PFLOP; halting saves some), 1e+02 GB of memory each; "
        "about 11.5 days on the 2 cores of this machine; on a GPU 6.6 min (training 5.5 min, evaluation 66 s), on 8 6.0 min. "
        "Assumed, as no run has finished: 50 GFLOP/s a core, and TFLOP/s of a GPU: vitrm 250.",
    ]


def test_the_hint_on_memory_counts_the_weights_of_every_worker(typed, tmp_path):
    """By hand: ViT-Large has five copies of its 302 million float32 weights, 6.0 GB, on every worker. Of its 165 GB
    two workers have 85.6 GB each, three do not divide 1,024 images, and four have 45.8 GB.
    """
    row = "data=CIFAR-100, model=ViT-Large, batch_size=1024"
    options = [
        "--preset",
        "paper",
        "--dry-run",
        "--seeds",
        "1",
        "--results",
        str(tmp_path / "r"),
        "--only",
        row,
    ]
    output = typed(*options, study=load("vitrm_batch_size"))

    assert output.splitlines()[-3:][0] == (
        f"Memory: {row} needs 165 GB, but a GPU has 80 GB (assumed, as no GPU is visible). Set resources.workers=4 to split a"
        " batch between 4 GPUs, or lower train.batch_size."
    )


def test_the_price_goes_by_what_finished_runs_took(typed, tmp_path, monkeypatch):
    """By hand: 9 PFLOP took 100 s, so 90 take 1,000."""
    prices = {1: RunPrice(9.0, 0.0, 1.0, 0.0), 2: RunPrice(85.0, 5.0, 1.0, 0.0)}
    monkeypatch.setattr(
        "recstudy.recursive.program.price", lambda config: prices[config.train.supervision_steps]
    )
    first, *_ = make_plan(tiny.study).runs
    Results(tmp_path / "r").create().run(first.id).finish(
        make_result(cost={"seconds": 90.0, "evaluation_seconds": 10.0})
    )

    output = typed("--dry-run", "--only", "latent_steps=1,*", "--results", tmp_path / "r")

    assert output.splitlines()[-1].endswith(
        "about 16.7 min of runs, one after another, based on 1 finished run."
    )


def test_a_preset_is_written_and_read_again(typed, tmp_path):
    """With fields that are swept: what is as the preset has it is no change."""
    file, results_option = str(tmp_path / "preset.yaml"), ("--results", str(tmp_path / "r"))

    assert f"{file}: tiny, preset quick. Read it with" in typed("--write-config", file, "train.epochs=3")
    assert "is there already" in typed("--write-config", file, code=2)

    def ids(*words: str) -> list[str]:
        return [
            row["id"] for row in json.loads(typed("--dry-run", "--json", *results_option, *words))["runs"]
        ]

    assert ids("--config", file) == ids("train.epochs=3")
    assert ids("--config", file, "train.epochs=4") == ids("train.epochs=4")
    ids_by_set = ids("--set", "train.epochs=5", "--set", "model.width=32")
    assert ids_by_set == ids("train.epochs=5", "--seeds", "1", "model.width=32")
    assert ids_by_set == ids("--set", "model.width=16", "--set", "train.epochs=5", "model.width=32")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: {lr: 0.1}", "Unknown field 'train.lr'. Did you mean 'learning_rate'. TrainConfig has "),
        (
            "train.epochs: 5\nmodel:\n  widht: 8",
            "Unknown field 'model.widht'. Did you mean 'width'. ViTRM has ",
        ),
        ("width: 8", "Unknown field 'width'. Did you mean 'model.width'. Fields: model.width, "),
        (
            "train: {width: 8}",
            "Unknown field 'train.width'. Did you mean 'model.width'. Fields: model.width, ",
        ),
        (
            "lr: 8",
            r"Unknown field 'lr'. Did you mean 'train.learning_rate'. Fields: train.learning_rate, (\S+, ){7}\.\.\. ",
        ),
        ("train.epochs: many", "'train.epochs' must be an integer, but got 'many'"),
        (None, "No such file or directory"),
        (
            "train:\n  epochs: 7\nmodel:\n  width: 64\ntrain:\n  batch_size: 8",
            "line 5: 'train' is given twice, first in line 1",
        ),
        ("train.epochs: 7\ntrain:\n  epochs: 9", "line 3: 'train.epochs' is given twice, first in line 1"),
    ],
    ids=str,
)
def test_a_file_of_fields_is_refused_by_its_name_and_the_field(text, message, typed, tmp_path):
    if text is not None:
        (tmp_path / "mine.yaml").write_text(text)

    (line,) = typed("--dry-run", "--config", str(tmp_path / "mine.yaml"), code=2).splitlines()

    assert re.match(rf"ConfigError: --config {tmp_path}/mine.yaml: {message}", line)


@pytest.mark.parametrize(
    ("words", "labels", "count"),
    [
        (
            "--only 'latent_steps=1, *' --only '*supervision_steps=2'",
            ["latent_steps=1, supervision_steps=1"],
            4,
        ),
        (
            "--only latent_steps=1,supervision_steps=*",
            [f"latent_steps=1, supervision_steps={steps}" for steps in (1, 2)],
            2,
        ),
        (
            "--vary model.latent_steps=1,4 --vary model.norm=pre,post",
            [
                f"supervision_steps=1, latent_steps={levels_text}"
                for levels_text in ("1, norm=pre", "1, norm=post", "4, norm=pre")
            ],
            8,
        ),
    ],
)
def test_variants_are_chosen_and_swept_from_the_command_line(words, labels, count, typed, tmp_path):
    rows = json.loads(typed("--dry-run", "--json", "--results", tmp_path / "r", *shlex.split(words)))["runs"]

    assert [row["label"] for row in rows[: len(labels)]] == labels
    assert len(rows) == count


def test_help_teaches_without_loading_torch_or_ray():
    code = (
        "import runpy, sys\nsys.argv = ['tiny.py', '--help']\n"
        f"try:\n    runpy.run_path({tiny.__file__!r}, run_name='__main__')\n"
        "except SystemExit as end:\n    print(end.code, [m for m in ('torch', 'ray', 'pandas') if m in sys.modules])"
    )
    text = run_python("-c", code).stdout

    assert "Which of six tiny models learns the digits?" in text
    assert text.splitlines()[-1] == "0 []"


SHOWN_OPTIONS = {
    "--smoke",
    "--dry-run",
    "--seeds",
    "--address",
    "--export",
    "--check-setup",
    "--vary",
    "--rerun",
}


@pytest.mark.parametrize("name", ["vitrm_depth_sweep", "recursion_search"])
def test_help_has_the_options_in_groups_on_one_line_each(name):
    def help_lines(option):
        study = f"studies/{name}.py"
        return run_python(study, option, folder=ROOT, COLUMNS="100").stdout.splitlines()

    lines, whole_lines = help_lines("--help"), help_lines("--help-all")
    options = [line.split()[0] for line in lines if line.startswith(("  -", "  FIELD"))]
    whole_options = {line.split()[0] for line in whole_lines if line.startswith("  -")}

    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if line.endswith(":") and line[0] != " "] == [
        "What to run:", "How many runs:", "Where:", "Report:", "Look before anything runs:", "Examples:",
    ]  # fmt: skip
    has_until = name == "vitrm_depth_sweep"
    assert {*options} >= SHOWN_OPTIONS
    assert has_until == ({"--until", "--only"} <= {*options})
    assert {"--allow-missing", "--width", "--set", *options} <= whole_options | {"FIELD=VALUE"}
    texts = [line for line in lines if line.startswith(" ") and not line.startswith("  -")]
    assert len(texts) == 4, "FIELD=VALUE and three examples: each option is one line"
    assert "--help-all" in lines[-1]
    assert not [line for line in whole_lines if "--no-no" in line or "None" in line]


def test_the_exit_code_of_a_reason_stays():
    """By its name, not by its place in a table: scripts go by these."""
    assert EXIT_CODES == {
        "diverged": 3, "out of memory": 4, "hung": 5, "data": 6, "storage": 7, "code": 8, "lost node": 9,
    }  # fmt: skip


@pytest.mark.parametrize(("reasons", "code"), [(["code", "code"], 8), (["code", "data"], 1), ([], 1)])
def test_runs_that_were_not_tried_are_no_reason_of_their_own(reasons, code, tmp_path):
    results = Results(tmp_path).create()
    runs = make_plan(tiny.study).runs[:3]
    for run, reason in zip(runs, reasons, strict=False):
        write_json(results.run(run.id).failure, {"class": reason})
    assert exit_code(study_command.reasons(runs, results)) == code


RUN = RunConfig(
    data=Digits(), model=ViTRM(patch=2), train=TrainConfig(epochs=2, batch_size=64, ema_decay=0.999)
)


def test_optimiser_steps_by_hand():
    """1,437 - 144 = 1,293 images: 21 batches of 64 an epoch."""
    assert optimizer_steps(RUN) == 42
    assert optimizer_steps(RUN.with_changes({"train.supervision_steps": 3})) == 126
    assert (
        optimizer_steps(RUN.with_changes({"train.supervision_steps": 3, "train.detach_carry": False})) == 42
    )
    assert optimizer_steps(RUN.with_changes({"train.selection": "last", "data.limit": 100})) == 4


def test_a_moving_average_over_more_than_a_tenth_of_the_updates_is_noted_once():
    (line,) = RECURSIVE_MODELS.hints([RUN, RUN])

    assert line.startswith(
        "Note: train.ema_decay=0.999 averages the weights over 1,000 of the run's 42 updates."
    )
    longer = RUN.with_changes({"train.epochs": 500})  # 10,500 updates
    assert list(RECURSIVE_MODELS.hints([longer, RUN.with_changes({"train.ema_decay": 0.0})])) == []
