"""Real studies through a real Ray, in processes of their own."""

import pytest

pytestmark = pytest.mark.whole


def test_a_study_from_one_command_to_the_page(shell):
    output = shell.run()

    results = shell.records()
    assert "[6/6]" in output
    assert "latent_steps=3, supervision_steps=2" in output
    assert "Report: results/studies/tiny/quick/report/report.html" in output
    assert len(results) == 6
    assert shell.attempts() == [1] * 6
    for result in results.values():
        assert result["status"] == "done"
        assert result["metrics"]["top1_accuracy"] > 15  # chance is 10
        assert set(result["provenance"]) >= {"commit", "versions", "hardware", "data_checksum"}
    page = (shell.results / "studies/tiny/quick/report/report.html").read_text()
    assert "Which of six tiny models learns the digits?" in page
    assert sorted(path.name for path in next(shell.results.glob("runs/*")).iterdir()) == [
        "answers.npz", "attempts.jsonl", "code.json", "config.json", "epochs.jsonl", "lock", "losses.jsonl", "mistakes.npz",
        "result.json", "weights.safetensors",
    ]  # fmt: skip

    before, drawn = shell.table(), (shell.results / "studies/tiny/quick/report/report.html").stat().st_mtime_ns
    again = shell.run()
    assert "6 runs: all finished before" in again
    assert "Ray dashboard" not in again
    assert again.endswith(output[output.index("Report: ") :])
    assert shell.table() == before
    assert (shell.results / "studies/tiny/quick/report/report.html").stat().st_mtime_ns == drawn
    assert shell.attempts() == [1] * 6

    more = shell.run("--seeds", "2", "--only", "latent_steps=1*")
    assert "4 runs: 2 finished before, 2 to run" in more
    assert shell.attempts() == [1] * 8
    assert shell.table().decode().count(" | 2 |\n") == 2  # the last column is n


def test_a_failed_run_is_named_and_retried_by_the_next_call(shell):
    broken = shell.plan()["latent_steps=2, supervision_steps=1, seed 0"]
    obstacle = shell.results / "runs" / broken / "losses.jsonl"
    shell.run("--only", "latent_steps=1, supervision_steps=1")
    obstacle.mkdir(parents=True)

    output = shell.run("--only", "latent_steps=[12], supervision_steps=1", code=8)

    assert "latent_steps=2, supervision_steps=1, seed 0: IsADirectoryError" in output
    assert shell.records("failure.json")[broken]["class"] == "code"
    assert "failed" in shell.table().decode()
    assert len(shell.records()) == 1

    obstacle.rmdir()
    shell.run("--only", "latent_steps=[12], supervision_steps=1")

    assert len(shell.records()) == 2
    assert shell.records("failure.json") == {}
    assert shell.records()[broken]["attempts"] == 2


def test_two_workers_take_the_steps_of_one(shell, tmp_path):
    """Ray Train on the CPU, gloo, the same global batch: equal losses to 1e-5."""
    alone = type(shell)(tmp_path / "alone")
    alone.folder.mkdir()
    chosen = ("--only", "latent_steps=3, supervision_steps=2", "--set", "train.augment.mixup=0.4", "--set", "train.epochs=3")
    alone.run(*chosen)

    shell.run(*chosen, "--workers-per-run", "2")

    (one,), (two,) = alone.records().values(), shell.records().values()
    assert (one["provenance"]["workers"], two["provenance"]["workers"]) == (1, 2)
    assert alone.records().keys() == shell.records().keys()
    (ours,), (theirs,) = (each.lines().values() for each in (shell, alone))
    for line, other in zip(ours, theirs, strict=True):
        for name in ("train_loss", "selection_loss"):
            assert line[name] == pytest.approx(other[name], rel=1e-5)
    assert one["metrics"]["nll"] == pytest.approx(two["metrics"]["nll"], rel=1e-4)
