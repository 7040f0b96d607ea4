import errno
import json
import os
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from logs import read_lines
from processes import run_python
from ray import cloudpickle
from safetensors.torch import load_file

from recstudy.base.errors import FAILURES, DataError, StorageError
from recstudy.programs import watchdog
from recstudy.programs.attempt import CodeVersion, Trial
from recstudy.programs.trial import failure_class, run_trial
from recstudy.records import LossLine, RunFolder, read_log
from recstudy.records.locks import locked
from recstudy.recursive import measured
from recstudy.recursive.metrics.kept import unpack_answers
from recstudy.recursive.testing import make_trial, tiny_run

RUN = tiny_run()
PATIENT = 0.2  # minutes: on a busy machine an import alone takes seconds


def trial(tmp_path, **changes) -> Trial:
    return make_trial(
        tmp_path, RUN.with_changes({name.replace("__", "."): value for name, value in changes.items()})
    )


def result_of(work: Trial) -> dict[str, Any]:
    return json.loads(RunFolder(Path(work.folder)).result.read_text())


def test_a_run_leaves_config_epochs_result_weights_answers_and_cost_and_is_not_run_again(tmp_path):
    """29 training images, 2 batches, 2 supervision steps, 3 epochs."""
    work = trial(tmp_path, train__supervision_steps=2, train__halt_threshold=1)
    reported = []

    outcome = run_trial(work, reported.append)

    folder, result = RunFolder(Path(work.folder)), result_of(work)
    assert outcome["score"] == result["metrics"]["top1_accuracy"]
    assert (
        [line["epoch"] for line in reported]
        == [line["epoch"] for line in read_lines(folder.epochs)]
        == [0, 1, 2]
    )
    assert json.loads(folder.config.read_text())["train"]["selection"] == "validation"
    assert (result["provenance"]["commit"], result["attempts"]) == ("abc", 1)
    assert load_file(folder.weights).keys() >= {"classify.weight", "z_start"}

    answer_file = unpack_answers(folder.answers)
    assert result["answers"] == {"kept": 32, "of": 32}
    assert not answer_file.is_truncated
    assert measured(answer_file.answers).values["top1_accuracy"] == result["metrics"]["top1_accuracy"]
    assert measured(answer_file.answers).values["nll"] == pytest.approx(result["metrics"]["nll"], rel=1e-3)
    assert answer_file.answers.class_names == tuple("0123456789")

    cost = result["cost"]
    assert cost["supervision_steps_used"] == 2
    assert cost["train_pflop"] == 29 * 3 * cost["train_gflops"] / 1e6
    assert cost["evaluation_seconds"] > 0  # of the test set, which `seconds` leaves out

    assert run_trial(work, lambda line: 1 / 0) == {"status": "done"}
    assert result_of(work) == result


def test_a_run_that_selects_nothing_reports_its_score_and_leaves_its_weights(tmp_path):
    work = trial(tmp_path, train__selection="last", train__epochs=1)

    outcome = run_trial(work, lambda line: None)

    assert outcome["score"] == result_of(work)["metrics"]["top1_accuracy"]
    assert result_of(work)["selected"] == {"split": "last", "epoch": 0}
    assert load_file(RunFolder(Path(work.folder)).weights).keys() >= {"classify.weight", "z_start"}


def test_a_loss_that_is_not_finite_is_a_result_not_a_failure(tmp_path):
    """It says at which update, and what the losses were before; those that were finite are in its log."""
    work = trial(tmp_path, train__learning_rate=1e30)

    outcome = run_trial(work, lambda line: None)

    folder = RunFolder(tmp_path / "runs" / work.run_id)
    assert outcome["status"] == "diverged"
    outcome_record = result_of(work)
    assert outcome_record["metrics"] == {}
    assert re.search(r"in epoch 1, since update \d+; the last losses before it: \d", outcome_record["error"])
    (line,) = read_log(folder.losses, LossLine)
    assert len(line.losses) == int(re.search(r"update (\d+)", outcome_record["error"])[1]) - 1
    assert not folder.weights.exists()


def test_a_run_that_hangs_is_ended_and_the_next_attempt_says_where(tmp_path):
    """The reader of a fifo that nobody writes hangs, as a file server that does not answer makes it hang."""
    work = trial(tmp_path, resources__hang_timeout_minutes=PATIENT)
    folder = RunFolder(Path(work.folder))
    os.mkfifo(folder.path / "checkpoint-000001.pt")

    run_in_process(work, code=1)

    outcome = run_trial(work, lambda line: 1 / 0)
    assert outcome == {
        "status": "failed", "class": "hung",
        "error": "no sign of life for 0.2 minutes (resources.hang_timeout_minutes); it was stopped",
    }  # fmt: skip
    failure = json.loads(folder.failure.read_text())
    assert failure["class"] == "hung"
    assert "in load_checkpoint" in failure["traceback"]
    assert failure["attempts"] == 1

    (folder.path / "checkpoint-000001.pt").unlink()
    assert run_trial(work, lambda line: None)["status"] == "done"  # the next command tries again
    assert not list(folder.path.glob("hang-*"))
    assert not folder.failure.exists()


def run_in_process(work: Trial, code: int = 0) -> None:
    program = (
        "import json, pickle, sys\nimport recstudy.recursive.data, recstudy.recursive.models\nfrom recstudy.programs.trial import run_trial\n"
        "print(json.dumps(run_trial(pickle.loads(bytes.fromhex(sys.argv[1])), lambda line: None)))"
    )
    run_python("-c", program, cloudpickle.dumps(work).hex(), code=code)


def test_a_driver_that_is_stopped_for_long_makes_no_run_hang(tmp_path, monkeypatch):
    """Nothing is watched while a report is sent, or while workers wait for the first one's evaluation."""
    silences = []
    monkeypatch.setattr(
        "recstudy.recursive.train.trial.wait_for_all", lambda: silences.append(watchdog._silence)
    )

    run_trial(trial(tmp_path, train__epochs=1), lambda line: silences.append(watchdog._silence))

    assert silences == [0, 0]


def test_a_run_that_another_process_works_on_is_left_to_it(tmp_path):
    work = trial(tmp_path)
    with locked(RunFolder(Path(work.folder)).lock):
        assert run_trial(work, lambda line: None) == {
            "status": "held",
            "by": f"process {os.getpid()} on {socket.gethostname()}",
        }
        assert not RunFolder(Path(work.folder)).has_begun
    assert run_trial(work, lambda line: None)["status"] == "done"


def test_group_that_loses_a_worker_is_restarted_even_if_already_dissolved(tmp_path, monkeypatch):
    """Train ends the process group while its first worker still writes down why it failed: no outcome of the
    run.
    """
    sizes = [2]
    monkeypatch.setattr("recstudy.recursive.train.parallel.rank_and_world", lambda: (0, sizes[0]))

    def reset_by_peer(*arguments: object, **keywords: object) -> None:
        sizes[0] = 1
        raise RuntimeError("Connection reset by peer")

    monkeypatch.setattr("recstudy.programs.trial._execute", reset_by_peer)

    with pytest.raises(RuntimeError, match="reset by peer"):
        run_trial(trial(tmp_path), print)


def test_drained_run_resumes_elsewhere_as_if_uninterrupted(tmp_path):
    undisturbed, interrupted = trial(tmp_path / "undisturbed"), trial(tmp_path / "asked")
    run_trial(undisturbed, lambda line: None)
    reported = []

    outcome = run_trial(interrupted, reported.append, leave=lambda: len(reported) == 1)

    folder = RunFolder(Path(interrupted.folder))
    assert outcome["status"] == "drained"
    assert [line["epochs_done"] for line in reported] == [1, 2]
    assert [path.name for path in folder.path.glob("checkpoint-*")] == ["checkpoint-000002.pt"]
    assert not folder.finished
    assert run_trial(interrupted, lambda line: None)["status"] == "done"
    result, expected = result_of(interrupted), result_of(undisturbed)
    assert result["metrics"] == expected["metrics"]
    assert result["attempts"] == 1  # a node that is wanted back is no failure
    assert len(read_lines(folder.attempts)) == 3


def test_run_resumed_without_its_early_epochs_is_marked(tmp_path, caplog):
    """As a crash may leave a file: as long as it was, and of zeros."""
    work = trial(tmp_path, resources__checkpoint_seconds=0)
    folder, reported = RunFolder(Path(work.folder)), []
    run_trial(work, reported.append, leave=lambda: len(reported) == 1)
    folder.epochs.write_bytes(b"\0" * folder.epochs.stat().st_size)

    assert run_trial(work, lambda line: None)["status"] == "done"

    assert "epochs.jsonl is damaged: 2 of 2 epochs are lost. The run continues" in caplog.text
    assert [line["epoch"] for line in read_lines(folder.epochs)] == [2]
    assert result_of(work)["provenance"]["lost_epochs"] == 2


@pytest.fixture
def disk(small_disk, monkeypatch):
    """A small disk, in which writers lose their patience within a tenth of a second."""
    monkeypatch.setattr("recstudy.records.files.PAUSES", (0.05, 0.05))
    return small_disk


def test_a_disk_that_takes_no_more_fails_the_run_clean_and_it_works_again_afterwards(disk):
    work = trial(disk.path)
    folder = RunFolder(Path(work.folder))

    outcome = run_trial(work, lambda line: disk.fill())

    assert (outcome["status"], outcome["class"]) == ("failed", "storage")
    assert "No space left on device" in outcome["error"]
    assert [line["epoch"] for line in read_lines(folder.epochs)][:1] == [0]
    disk.free_space()
    assert run_trial(work, lambda line: None)["status"] == "done"
    assert [line["epoch"] for line in read_lines(folder.epochs)] == [0, 1, 2]
    assert not folder.failure.exists()


def test_a_checkpoint_without_room_costs_the_run_nothing(disk, caplog):
    """A model of which one checkpoint fits on the disk, and no second beside it."""
    work = trial(disk.path, resources__checkpoint_seconds=0, model__width=64)

    assert run_trial(work, lambda line: None)["status"] == "done"

    assert [f"without a checkpoint of epoch {epoch}" in caplog.text for epoch in (1, 2, 3)] == [
        False,
        True,
        True,
    ]


def test_no_file_is_written_in_place_of_an_unmounted_disk(disk):
    # gone in the middle, before the result, before it begins
    for epochs, is_unmounted in ((3, False), (1, False), (1, True)):
        disk.mount()
        work = trial(disk.path, train__epochs=epochs)
        if is_unmounted:
            disk.unmount()

        outcome = run_trial(work, lambda line: disk.unmount())

        assert (outcome["status"], outcome["class"]) == ("failed", "storage")
        assert "Mount its file system again" in outcome["error"]
        assert list(disk.path.iterdir()) == []


def interrupt(line: dict) -> None:
    raise KeyboardInterrupt


def test_a_result_names_the_commits_and_user_files_of_the_attempts_that_computed_it(tmp_path):
    """Both versions of a file count if the run resumed after the file changed; an attempt without a
    checkpoint does not.
    """
    work = replace(trial(tmp_path), files={"net.py": "2", "set.py": "1"})
    older = replace(work, version=CodeVersion("older", True, "def"), files={"net.py": "1", "set.py": "1"})

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        run_trial(replace(older, files={"net.py": "of an attempt without a checkpoint"}), interrupt)
    assert run_trial(older, lambda line: None, leave=lambda: True) == {"status": "drained", "score": None}
    run_trial(work, lambda line: None)

    provenance = result_of(work)["provenance"]
    assert provenance["files"] == {"net.py": "1 2", "set.py": "1"}
    assert (provenance["commit"], provenance["commits"], provenance["recstudy"]) == (
        "abc",
        ["older", "abc"],
        "def",
    )
    attempts = read_lines(RunFolder(Path(work.folder)).attempts)
    assert [line["dirty"] for line in attempts if "commit" in line] == [True, True, False]


TOO_MANY_BYTES = 2**60  # bytes


def of_torch() -> Exception:
    with pytest.raises(RuntimeError, match="alloc") as raised:
        torch.empty(TOO_MANY_BYTES, dtype=torch.uint8)
    return raised.value


def of_python() -> Exception:
    with pytest.raises(MemoryError, match=r"^$") as raised:
        bytearray(TOO_MANY_BYTES)
    return raised.value


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (of_torch, "out of memory"),
        (of_python, "out of memory"),
        (lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), "out of memory"),
        (lambda: RuntimeError("CUDA error: out of memory"), "out of memory"),
        (lambda: DataError("x.png is damaged"), "data"),
        (lambda: StorageError("cannot write"), "storage"),
        (lambda: OSError(errno.ENOSPC, "No space left on device"), "storage"),
        (lambda: FileNotFoundError(errno.ENOENT, "No such file"), "code"),
        (lambda: RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "code"),
    ],
)
def test_exception_decides_the_class_of_a_failure(error, kind):
    assert failure_class(error()) == kind
    assert kind in FAILURES
