"""Questions in words: in tables, CSV, LaTeX, `explain`, and as rows of a forest plot."""

import pytest
from asking import HURTS, LINEAR_METRIC, ablation, by, read, study

from recstudy.report import Differences
from recstudy.report.explain import find_number
from recstudy.report.family import family
from recstudy.report.tables.question_table import needed_words, p_words, printed

COMPONENTS = Differences("components", metric=LINEAR_METRIC, title="Components")


def components(root, **changes):
    return ablation(root / "r", report=[COMPONENTS], **changes)


@pytest.mark.parametrize(
    ("losses", "lacks", "verdict"),
    [
        ({(16, 0): 10.0}, "", "undecided: some seeds learned and others did not"),
        ({(16, seed): "not run" for seed in range(3)}, "3 runs", "not run"),
    ],
)
def test_an_open_claim_says_what_it_lacks(tmp_path, losses, lacks, verdict):
    part = (records := read(study(tmp_path / "r", [HURTS], losses=losses))).parts[0]
    page = printed(records, part, family(records, part))
    line = {head: entry.text for head, entry in zip(page.heads, page.lines[0], strict=True)}

    assert (line["verdict"], line.get("seeds needed", "")) == (verdict, lacks)


def test_single_runs_need_a_second_seed(tmp_path):
    (row,) = family(
        records := read(study(tmp_path / "r", by(LINEAR_METRIC, HURTS), seeds=1)), records.parts[0]
    ).rows

    assert needed_words(row) == "a second seed"


def test_p_values_are_printed_with_their_limits():
    assert [p_words(p) for p in (None, 0.0004, 0.049)] == ["\N{EN DASH}", "<0.001", "0.049"]


def test_a_difference_is_explained_with_what_it_lacks(tmp_path):
    records = read(components(tmp_path))
    failed_fields = find_number(records, "components:a failed seed").fields
    none = find_number(records, "components:no seed").fields

    assert failed_fields["lost"] == "a failed seed, seed 1: failed: code"
    assert (none["verdict"], none["reasons"]) == ("not run", "runs are left to do")
