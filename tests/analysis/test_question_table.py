"""Questions in words: in tables, CSV, LaTeX, `explain`, and as rows of a forest plot."""

import csv
import io

import pytest
from asking import HURTS, PLAIN, ablation, by, crossed, read, study

from recstudy import factorial
from recstudy.analysis.explain import find
from recstudy.analysis.questions import family
from recstudy.analysis.tables.question_table import csv_text, needed_words, p_words, printed, signed
from recstudy.report import Differences, Effects

COMPONENTS = Differences("components", metric=PLAIN, title="Components")


def components(root, **changes):
    return ablation(root / "r", report=[COMPONENTS], **changes)


@pytest.mark.parametrize(
    ("losses", "needed", "verdict"),
    [
        ({(16, 1): "not run"}, "1 run", "interim"),
        ({(16, 1): "failed"}, "1 run failed", "undecided: runs failed or diverged, and the rest may be the lucky ones"),
        ({(16, 0): 10.0}, "", "undecided: some seeds learned and others did not"),
        ({(16, seed): "not run" for seed in range(3)}, "3 runs", "not run"),
    ],
)
def test_an_open_claim_says_what_it_lacks(tmp_path, losses, needed, verdict):
    part = (records := read(study(tmp_path / "r", [HURTS], losses=losses))).parts[0]
    page = printed(records, part, family(records, part))
    line = {head: entry.text for head, entry in zip(page.heads, page.lines[0], strict=True)}

    assert (line["verdict"], line.get("seeds needed", "")) == (verdict, needed)


def test_single_runs_need_a_second_seed(tmp_path):
    (row,) = family(records := read(study(tmp_path / "r", by(PLAIN, HURTS), seeds=1)), records.parts[0]).rows

    assert needed_words(row) == "a second seed"


def test_csv_has_a_line_a_question_in_full_precision(tmp_path):
    records = read(components(tmp_path))
    found = family(records, COMPONENTS)
    lines = {line["question"]: line for line in csv.DictReader(io.StringIO(csv_text(found)))}
    moe, failed = lines["without MoE"], lines["a failed seed"]

    assert len(lines) == 6
    assert [float(moe[name]) for name in ("estimate", "low", "high", "level", "p", "detectable")] == pytest.approx(
        [found.rows[0].estimate.value, *found.rows[0].estimate.interval, found.rows[0].estimate.level, found.rows[0].answer.p,
         found.rows[0].detectable], rel=1e-12,
    )  # fmt: skip
    assert (moe["base"], moe["contrast"], moe["verdict"], moe["seeds_needed"]) == ("full", "without MoE minus full", "lower", "")
    assert (failed["lost"], failed["p"], lines["no seed"]["runs_left"]) == ("a failed seed, seed 1: failed: code", "", "2")
    assert len(moe["run_ids"].split()) == 10


def test_how_numbers_are_printed():
    assert [signed("top1_accuracy", value) for value in (0.25, -1.0, None)] == ["+0.25", "-1.00", "\N{EN DASH}"]
    assert [p_words(p) for p in (None, 0.0004, 0.049)] == ["\N{EN DASH}", "<0.001", "0.049"]


# -------------------------------------------------------------------------------------------------------------- explain


def test_a_difference_and_an_effect_are_explained_with_what_they_lack(tmp_path):
    records = read(components(tmp_path))
    lost = find(records, "components:a failed seed:verdict").behind(records)
    none = find(records, "components:no seed:difference").behind(records)
    made = crossed(tmp_path / "e", factorial({"model.a": [0, 1], "model.b": [0, 1]}), lambda on, seed: 80.0 + 4 * on["a"] + seed,
                   report=[Effects()])  # fmt: skip
    effect = find(records := read(made), "effects:a:difference").behind(records)

    assert lost.lines[-1] == "Not in it: a failed seed, seed 1: failed: code"
    assert none.lines[-2:] == ("Verdict: not run", "    runs are left to do")
    assert effect.lines[1] == "    -0.5 * the mean of a=0, b=0"
    assert len(effect.runs) == 12
