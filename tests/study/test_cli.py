"""What a user types wrong: one line, exit code 2, nothing left half-written. And what a plan prints."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from recstudy import Place, RunConfig, Study, TrainConfig, cli, grid
from recstudy.cli import exit_code, main
from recstudy.cluster import connection as addresses
from recstudy.data import Cifar10, Digits, Mnist
from recstudy.errors import EXIT_CODES, FAILURES
from recstudy.models import ViTRM
from recstudy.records import Results, write_json
from recstudy.study.plan import record_plan
from recstudy.study.study import make_plan

GOLDEN = {
    ("--preset", "papr"): "ConfigError: no preset 'papr': tiny has quick, long.",
    ("--preset", "quik"): "ConfigError: no preset 'quik': tiny has quick, long. Did you mean 'quick'?",
    (
        "--set",
        "model.latent_stpes=4",
    ): "ConfigError: no field 'model.latent_stpes': ViTRM has blocks, cycles, dropout, family, ffn, "
    "ffn_width, gradient, heads, image_in_answer, latent_init, latent_steps, latent_tokens, layers, norm, patch, test_cycles, width. "
    "Did you mean 'latent_steps'?",
    ("--set", "train.epochs=0"): "ConfigError: 'train.epochs' must be greater than or equal to 1, but got 0",
    ("--set", "train.epochs"): "ConfigError: a field is set by FIELD=VALUE, such as train.epochs=5, but got 'train.epochs'",
    ("--set", "model.latent_steps=4"): "ConfigError: 'model.latent_steps' is swept by this study. Choose its levels with --only, "
    "such as --only 'latent_steps=1, supervision_steps=1'",
    ("--only", "latent_steps=9*"): "ConfigError: no variant matches --only 'latent_steps=9*': there are "
    "'latent_steps=1, supervision_steps=1', 'latent_steps=1, supervision_steps=2', 'latent_steps=2, supervision_steps=1', "
    "'latent_steps=2, supervision_steps=2', 'latent_steps=3, supervision_steps=1', 'latent_steps=3, supervision_steps=2'.",
    ("--only", "latnt*"): "ConfigError: no variant matches --only 'latnt*': there are "
    "'latent_steps=1, supervision_steps=1', 'latent_steps=1, supervision_steps=2', 'latent_steps=2, supervision_steps=1', "
    "'latent_steps=2, supervision_steps=2', 'latent_steps=3, supervision_steps=1', 'latent_steps=3, supervision_steps=2'. Did you mean 'latent_steps'?",
    ("--only", "*supervison_steps=2"): "ConfigError: no variant matches --only '*supervison_steps=2': there are "
    "'latent_steps=1, supervision_steps=1', 'latent_steps=1, supervision_steps=2', 'latent_steps=2, supervision_steps=1', "
    "'latent_steps=2, supervision_steps=2', 'latent_steps=3, supervision_steps=1', 'latent_steps=3, supervision_steps=2'. Did you mean 'supervision_steps'?",
    (
        "--trainer",
        "inline",
        "--workers-per-run",
        "2",
    ): "ConfigError: place: trainer 'inline' runs one worker; use 'train' or 'auto' for several",
    (
        "--dry-run",
        "--set",
        "train.batch_size=99999999999999999999999",
    ): "ConfigError: ViTRM, or a batch of it, is larger than any computer: lower its sizes",
    (
        "--dry-run",
        "--set",
        "model.width=1000000000",
    ): "ConfigError: ViTRM, or a batch of it, is larger than any computer: lower its sizes",
    ("--seeds", "3000000"): "ConfigError: tiny would have 6 variants x 3,000,000 seeds, but a study plans 100,000 runs at most: "
    "lower --seeds, or split the study",
    ("--seeds", "0"): "ConfigError: --seeds must be at least 1, but got 0",
    ("--seeds", "3", "--seeds-at-most", "2"): "ConfigError: 3 seeds are more than the 2 that tiny may have: raise its "
    "seeds_at_most, or --seeds-at-most 3. Tests are stricter where that is stated after the first run has finished",
    ("--until", "decided"): "ConfigError: --until decided asks how many seeds a variant of tiny may get at most: add "
    "--seeds-at-most N, such as 10, or state seeds_at_most in the study",
    (
        "--until",
        "decided",
        "--only",
        "latent_steps=1*",
    ): "ConfigError: --until decided chooses the variants itself, by what is open: leave --only out",
    (
        "--until",
        "decided",
        "--seeds-at-most",
        "10",
        "--budget",
        "5",
    ): "ConfigError: 1 seed of each variant of tiny are 6 runs, but the budget is 5 runs: give more, or lower --seeds",
    ("--budget", "2h"): "ConfigError: --budget goes with --until decided: without it a study makes all runs that --dry-run names",
    ("--vary", "model.latent_steps"): "ConfigError: --vary takes FIELD=VALUE,VALUE, such as model.latent_steps=1,2,4, but got "
    "'model.latent_steps'",
    (
        "--vary",
        "model.width=8",
        "--vary",
        "model.width=16",
    ): "ConfigError: --vary model.width stands twice: give all its levels in one, such as model.width=16,...",
    ("model.dropout=None",): "ConfigError: model.dropout=None: values are typed as in JSON, here model.dropout=null",
    (
        "train.augment.more=[crop, my-own]",
    ): 'ConfigError: train.augment.more=[crop, my-own]: values are typed as in JSON, here \'train.augment.more=["crop", "my-own"]\'',
    ("--vary", "train.augment.more=[crop],[flip]"): "ConfigError: train.augment.more=[crop],[flip]: values are typed as in JSON, "
    'here \'train.augment.more=["crop"],["flip"]\'',
    (
        "--set",
        "data=digits",
    ): "ConfigError: data=digits: data has fields. data.name=digits chooses a data set, data.limit=300 sets a field of it",
    ("--set", "place=2"): "ConfigError: place=2: place has fields. place.gpus_per_run=1 sets a field of it",
    ("--set", "seed=7"): "ConfigError: seed is not a field to set: --seeds N runs seeds 0 to N-1",
    ("--address", "nonsense"): "ConfigError: --address must be auto or HOST:PORT, but got 'nonsense'",
    ("--address", "[::1"): "ConfigError: --address must be auto or HOST:PORT, but got '[::1'",
    ("--seeds", "x"): "ConfigError: Error parsing --seeds: no type matching INT could be instantiated from ['x']. "
    "For full helptext, see PROGRAM --help.",
    ("--export", "gif"): "ConfigError: invalid choice 'gif' for argument '--export'. Expected one of ('pdf', 'svg', 'png'). "
    "For full helptext, run PROGRAM --help.",
    ("--sedes", "3"): "ConfigError: Unrecognized options: --sedes, 3. Perhaps you meant: --seeds N. "
    "For full helptext, run PROGRAM --help.",
    ("--trainer", "tune"): "ConfigError: 'place.trainer' must be 'auto', 'inline' or 'train', but got 'tune'",
    ("--address", "ray://head:10001"): "ConfigError: --address ray://head:10001: a study is driven from within its cluster. From "
    "outside, submit it as a job: ssh -fNL 8265:127.0.0.1:8265 head && ray job submit --address http://127.0.0.1:8265 --working-dir . "
    "-- python STUDY.py --address auto",
}


def ends_with(capsys, code: int, *arguments: str, study: Study = tiny.study) -> str:
    """The one line on standard error."""
    with pytest.raises(SystemExit, match=rf"^{code}$"):
        main(study, arguments)
    output = capsys.readouterr()
    return output.err.strip() if code else output.out


def test_what_runs_nothing_is_refused_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (line,) = ends_with(capsys, 2, "--results", "results", study=replace(tiny.study, variants=[])).splitlines()

    assert line == "ConfigError: tiny, preset quick: there are no variants to run"
    assert not list(tmp_path.iterdir())


def test_the_question_is_the_docstring_of_the_file_that_is_run(tmp_path):
    shown = subprocess.run([sys.executable, tiny.__file__, "--help"], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert "Which of six tiny models learns the digits?" in shown.stdout


def test_another_files_docstring_is_no_question(capsys):
    """Such as that of the program that runs these tests."""
    silent = replace(tiny.study, name="silent")

    assert "\nsilent\n" in re.sub("[│ ]", "", ends_with(capsys, 0, "--help", study=silent))


@pytest.mark.parametrize("arguments", GOLDEN, ids=" ".join)
def test_bad_input_is_one_golden_line(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    monkeypatch.setattr("sys.argv", ["PROGRAM"])

    assert ends_with(capsys, 2, *arguments) == GOLDEN[arguments]
    assert [path for path in Path("results").rglob("*") if path.is_file() and path.name not in ("recstudy.json", "lock")] in (
        [],
        [Path("results/studies/tiny/quick/plan.json")],
    )


def one_run(data) -> Study:
    return Study(
        name="one",
        presets={"quick": RunConfig(data=data, model=ViTRM(patch=4), train=TrainConfig(), place=Place(gpus_per_run=0))},
        variants=grid({"model.latent_steps": [1]}),
    )


def test_missing_data_is_named_before_anything_starts(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECSTUDY_DATA", raising=False)

    line = ends_with(capsys, 2, study=one_run(Cifar10()))

    assert line == (
        "DataError: CIFAR-10 not found under data (cifar-10-batches-py is missing). Pass --data DIR, set RECSTUDY_DATA, or add --download."
    )
    assert not list(Path("results").rglob("config.json"))


def test_damaged_data_is_named_before_anything_starts(capsys, tmp_path, real_data):
    shutil.copytree(real_data / "MNIST", tmp_path / "data/MNIST")
    labels = tmp_path / "data/MNIST/raw/train-labels-idx1-ubyte"
    content = bytearray(labels.read_bytes())
    content[1000] ^= 1
    labels.write_bytes(content)

    line = ends_with(capsys, 2, "--data", str(tmp_path / "data"), "--results", str(tmp_path / "r"), study=one_run(Mnist()))

    assert line.startswith("DataError: ")
    assert "train-labels-idx1-ubyte" in line
    assert "\n" not in line


def test_results_of_another_program_are_left_alone(capsys, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    line = ends_with(capsys, 2, "--results", str(tmp_path))

    assert line == (
        f"StorageError: {tmp_path} holds files of another program (recstudy.json is missing). "
        "Give an empty or new folder with --results."
    )
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_results_that_cannot_be_written_are_refused(capsys):
    line = ends_with(capsys, 2, "--results", "/proc/recstudy")

    assert (
        line
        == "StorageError: cannot write results to /proc/recstudy: No such file or directory. Give another folder with --results."
    )


def refused(tmp_path: Path, *arguments: str, inside: Sequence[str] = ()) -> str:
    """As a user sees it, in a process of its own, which the command `inside` may start."""
    command = [*inside, sys.executable, tiny.__file__, "--results", str(tmp_path / "results"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_an_address_where_nothing_listens(tmp_path):
    assert refused(tmp_path, "--address", "127.0.0.1:1") == (
        "ClusterError: no Ray cluster answers at 127.0.0.1:1 (TCP connection to 127.0.0.1:1: [Errno 111] Connection refused). "
        "Start one with `ray start --head`, give it the token of `ray get-auth-token` if it asks for one, "
        "or leave --address out to run on this machine."
    )
    assert not (tmp_path / "results").exists()


def test_an_address_where_something_else_listens(capsys, tmp_path, monkeypatch):
    """It takes the connection, and says nothing; so do we, after a while."""
    monkeypatch.setattr(addresses, "QUIET_S", 0.5)
    monkeypatch.setattr(addresses, "ANSWER_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(SystemExit, match=r"^2$"):
            main(tiny.study, ("--results", str(tmp_path / "results"), "--address", address))

    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == f"{address} has not answered yet; trying for up to 2 s"
    assert (
        said.err.strip()
        .splitlines()[-1]
        .startswith(f"ClusterError: no Ray cluster answers at {address} (tried to join for 2 s). Start one with")
    )
    assert not (tmp_path / "results").exists()


ALONE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")  # a command that sees no other process


def test_auto_without_a_cluster(tmp_path, monkeypatch):
    """Ray looks for one among the processes, and in the note that its last start has left."""
    if not shutil.which("unshare") or subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets us hide no other Ray from it (unshare --pid)")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))

    line = refused(tmp_path, "--address", "auto", inside=ALONE)

    assert line.startswith("ClusterError: no Ray cluster answers at auto (ConnectionError: Could not find any running Ray")


@pytest.mark.whole
def test_a_refused_command_leaves_the_plan_of_a_good_one(tmp_path):
    plan = tmp_path / "results/studies/tiny/quick/plan.json"
    Results(tmp_path / "results").create()
    record_plan(make_plan(tiny.study), Results(tmp_path / "results"))
    before = plan.read_bytes()

    refused(tmp_path, "--set", "train.batch_size=16", "--gpus-per-run", "4")

    assert plan.read_bytes() == before


@pytest.mark.whole
def test_more_gpus_than_there_are(tmp_path):
    line = refused(tmp_path, "--gpus-per-run", "8")

    assert line.startswith("ClusterError: a run needs 1 x (1 CPU, 8 GPU) but the cluster has 1 node: ")
    assert line.endswith("Lower --gpus-per-run, --cpus-per-run or --workers-per-run.")


def test_a_plan_as_json(capsys, tmp_path):
    rows = json.loads(ends_with(capsys, 0, "--dry-run", "--json", "--seeds", "2", "--results", str(tmp_path / "r")))

    assert [(row["label"], row["seed"]) for row in rows[:2]] == [
        ("latent_steps=1, supervision_steps=1", 0),
        ("latent_steps=1, supervision_steps=2", 0),
    ]
    assert [row["seed"] for row in rows] == [0] * 6 + [1] * 6
    assert set(rows[0]) == {"label", "seed", "id", "params", "gflops", "train_gflops", "memory_gb", "cached", "changed"}
    assert rows[1]["train_gflops"] == 2 * rows[0]["train_gflops"]
    assert not any(row["cached"] for row in rows)
    assert not (tmp_path / "r").exists()


def test_a_plan_says_when_to_expect_the_first_result_and_the_last(capsys, tmp_path, monkeypatch):
    """By hand: runs of 9 and 90 PFLOP are 50 and 500 core hours at 50 GFLOP/s, 36 s and 6 min at 250 TFLOP/s; 20 s to start."""
    pflop = {1: 9.0, 2: 90.0}
    monkeypatch.setattr("recstudy.study.dry_run.total_pflop", lambda config: pflop[config.train.supervision_steps])
    told = ends_with(capsys, 0, "--dry-run", "--only", "latent_steps=1,*", "--seeds", "1", "--results", str(tmp_path / "r"))

    assert told.splitlines()[-3:] == [
        "To run: 99 PFLOP of training at most; halting saves some.",
        "A rough guess of the time: 550 core hours at 50 GFLOP/s, or 0.11 GPU hours at 250 TFLOP/s.",
        "The first result, as roughly: after 2.1 days where a run has a core, 56 s where it has a GPU.",
    ]


def test_only_may_be_given_more_than_once(capsys, tmp_path):
    chosen = ("--only", "latent_steps=1, *", "--only", "*supervision_steps=2")
    rows = json.loads(ends_with(capsys, 0, "--dry-run", "--json", "--results", str(tmp_path / "r"), *chosen))

    assert len(rows) == 4


@pytest.mark.parametrize(
    "typed",
    [
        ("train.epochs=5", "--seeds", "1", "model.width=32"),
        ("--export", "pdf", "train.epochs=5", "--set", "model.width=32"),
        ("--set", "model.width=32", "train.epochs=5"),
        ("--set", "model.width=16", "--set", "train.epochs=5", "model.width=32"),
    ],
    ids=" ".join,
)
def test_fields_stand_anywhere_with_a_flag_or_without(typed, capsys, tmp_path):
    def ids(*words: str) -> list[str]:
        rows = json.loads(ends_with(capsys, 0, "--dry-run", "--json", "--results", str(tmp_path / "r"), *words))
        return [row["id"] for row in rows]

    assert ids(*typed) == ids("--set", "train.epochs=5", "--set", "model.width=32")


def test_spaces_in_a_glob_do_not_count(capsys, tmp_path):
    rows = json.loads(ends_with(capsys, 0, "--dry-run", "--json", "--only", "latent_steps=1,supervision_steps=*"))

    assert [row["label"] for row in rows] == [f"latent_steps=1, supervision_steps={steps}" for steps in (1, 2)]


def test_a_field_is_swept_from_the_command_line(capsys):
    rows = json.loads(
        ends_with(capsys, 0, "--dry-run", "--json", "--vary", "model.latent_steps=1,4", "--vary", "model.norm=pre,post")
    )

    assert [row["label"] for row in rows[:3]] == [
        "supervision_steps=1, latent_steps=1, norm=pre",
        "supervision_steps=1, latent_steps=1, norm=post",
        "supervision_steps=1, latent_steps=4, norm=pre",
    ]
    assert len(rows) == 8


def test_a_plan_for_people_names_the_price(capsys, tmp_path):
    text = ends_with(capsys, 0, "--dry-run", "--results", str(tmp_path / "r"))

    assert "latent_steps=3, supervision_steps=2" in text
    assert "PFLOP of training at most" in text


def test_help_teaches_without_loading_torch_or_ray():
    code = (
        "import runpy, sys\nsys.argv = ['tiny.py', '--help']\n"
        f"try:\n    runpy.run_path({tiny.__file__!r}, run_name='__main__')\n"
        "except SystemExit as end:\n    print(end.code, [m for m in ('torch', 'ray', 'pandas') if m in sys.modules])"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert "Which of six tiny models learns the digits?" in text
    assert text.splitlines()[-1] == "0 []"


def test_digits_need_no_data_folder():
    assert one_run(Digits()).presets["quick"].data.name == "digits"


def test_each_reason_has_the_exit_code_that_the_documentation_names():
    """By its name, not by its place in a table: scripts go by these."""
    assert EXIT_CODES == {
        "diverged": 3, "out of memory": 4, "hung": 5, "data": 6, "storage": 7, "code": 8, "lost node": 9,
    }  # fmt: skip
    assert EXIT_CODES.keys() == FAILURES.keys()


@pytest.mark.parametrize(("reasons", "code"), [(["code", "code"], 8), (["code", "data"], 1), ([], 1)])
def test_runs_that_were_not_tried_are_no_reason_of_their_own(reasons, code, tmp_path):
    results = Results(tmp_path).create()
    runs = make_plan(tiny.study).runs[:3]
    for run, reason in zip(runs, reasons, strict=False):
        write_json(results.run(run.id).failure, {"class": reason})
    assert exit_code(cli.reasons(runs, results)) == code
