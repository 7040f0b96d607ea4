"""A real study through a real Ray, in processes of its own."""

import pytest


@pytest.mark.whole
def test_a_study_from_one_command_to_the_page(shell):
    chosen = ("--only", "latent_steps=3*")
    output = shell.run(*chosen)

    results = shell.records()
    assert "[2/2]" in output
    assert "latent_steps=3, supervision_steps=2" in output
    assert "Report: results/studies/tiny/quick/report/report.html" in output
    assert len(results) == 2
    for result in results.values():
        assert result["status"] == "done"
        assert result["metrics"]["top1_accuracy"] > 15  # chance is 10
        assert set(result["provenance"]) >= {"commit", "versions", "hardware", "data_checksum"}
    assert "Which of six tiny models learns the digits?" in shell.page()
    assert sorted(path.name for path in next(shell.results.glob("runs/*")).iterdir()) == [
        "answers.npz", "attempts.jsonl", "config.json", "epochs.jsonl", "files.json", "lock", "losses.jsonl", "mistakes.npz",
        "result.json", "weights.safetensors",
    ]  # fmt: skip

    old_table = shell.table()
    second_output = shell.run(*chosen)
    assert "2 runs: all finished before" in second_output
    assert "Ray dashboard" not in second_output
    assert second_output.endswith(output[output.index("Report: ") :])
    assert shell.table() == old_table
    assert shell.attempts() == [1, 1]
