"""`--until decided` as a user types it: two claims, one of which no seeds decide."""

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

sys.path.append(str(Path(__file__).parents[1] / "board"))

pytestmark = pytest.mark.whole

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
