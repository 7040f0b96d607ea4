"""Real studies through a real Ray, in processes of their own."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from shell import Shell

from recstudy.analysis.frame import load_study
from recstudy.analysis.status import status
from recstudy.board.markup import address_of
from recstudy.board.renderer import page_at
from recstudy.records import Results

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
        "answers.npz", "attempts.jsonl", "config.json", "epochs.jsonl", "files.json", "lock", "losses.jsonl", "mistakes.npz",
        "result.json", "weights.safetensors",
    ]  # fmt: skip

    before = shell.table()
    again = shell.run()
    assert "6 runs: all finished before" in again
    assert "Ray dashboard" not in again
    assert again.endswith(output[output.index("Report: ") :])
    assert shell.table() == before
    assert shell.attempts() == [1] * 6

    more = shell.run("--seeds", "2", "--only", "latent_steps=1*")
    assert "4 runs: 2 finished before, 2 to run" in more
    assert shell.attempts() == [1] * 8
    assert shell.table().decode().count(" | 2 |\n") == 2  # the last column is n


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


sys.path.append(str(Path(__file__).parents[1] / "board"))

UNTIL = ("--until", "decided")


def test_a_study_ends_with_each_question_decided_or_out_of_reach(tmp_path):
    from boards import looked

    shell = Shell(tmp_path, Path(__file__).with_name("tiny_until.py"))

    priced = shell.run(*UNTIL, "--dry-run")
    first = shell.run(*UNTIL)

    assert "--until decided, 2 questions: at most 9 further runs, up to 4 seeds of 3 variants" in priced
    assert "2 questions: 1 decided, 1 out of reach." in first
    assert re.search(r"- decided: one epoch teaches less: supported at \d seeds", first)
    assert re.search(r"- out of reach: a hair more decay helps: undecided at \d( to \d)? seeds, would take", first)
    made = len(shell.records())
    assert re.search(rf"Used: {made} runs, .* of device time; 4 seeds of every variant would be 16 runs, about ", first)

    records = load_study(Results(shell.results), "tiny_until", "quick")
    seeds = Counter(row.variant for row in records.rows)
    assert seeds[1] == 1  # no claim is about it
    assert 2 <= seeds[0] <= 4
    assert records.plan.looks[:2] == (1, 2)
    assert records.plan.seeds_at_most == 4
    assert {row.id for row in records.rows} == shell.records().keys()
    counted = re.findall(r'<tr><th scope="row">(epochs=[^<]*)</th>.*<td>(\d+)</td></tr>', shell.page())  # the column n
    assert counted == [(variant.label, str(seeds[at])) for at, variant in enumerate(records.variants)]
    assert f"4 variants, 1 to {max(seeds.values())} seeds" in shell.page()
    (standing,) = status(Results(shell.results))
    assert (standing.done, standing.planned) == (made, made)
    assert "--until decided" in standing.command
    shown = page_at(looked(shell.results), address_of("/study/tiny_until/quick", "")).recipes
    assert all(recipe.part().body for recipe in shown)

    again = shell.run(*UNTIL)

    assert f"{made} runs: all finished before" in again
    assert "Ray dashboard" not in again
    assert again.splitlines()[-1] == first.splitlines()[-1]
    assert "2 questions: 1 decided, 1 out of reach." in again
    assert set(shell.attempts()) == {1}
