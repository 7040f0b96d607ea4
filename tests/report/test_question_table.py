"""Questions in words: in tables, CSV, LaTeX, `explain`, and as rows of a forest plot."""

import pytest
from asking import CLOSE, HURTS, LINEAR_METRIC, ablation, by, read, rows_of, study

from recstudy.base.errors import ConfigError
from recstudy.evidence import Verdict
from recstudy.report import Differences
from recstudy.report.explain import find_number
from recstudy.report.family import family
from recstudy.report.findings import findings
from recstudy.report.parts import parts_of
from recstudy.report.tables.question_table import needed_words, p_words, table_of, verdict_words

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
    part = parts_of(records := read(study(tmp_path / "r", [HURTS], losses=losses)))[0]
    page = table_of(records, part, family(records, part))
    line = {head: entry.text for head, entry in zip(page.heads, page.lines[0], strict=True)}

    assert (line["verdict"], line.get("seeds needed", "")) == (verdict, lacks)


def test_single_runs_need_a_second_seed(tmp_path):
    (row,) = family(
        records := read(study(tmp_path / "r", by(LINEAR_METRIC, HURTS), seeds=1)), parts_of(records)[0]
    ).rows

    assert needed_words(row) == "a second seed"


def test_p_values_are_table_of_with_their_limits():
    assert [p_words(p) for p in (None, 0.0004, 0.049)] == ["\N{EN DASH}", "<0.001", "0.049"]


def test_a_difference_is_explained_with_what_it_lacks(tmp_path):
    records = read(components(tmp_path))
    failed_fields = find_number(records, "components:a failed seed").fields
    none = find_number(records, "components:no seed").fields

    assert failed_fields["lost"] == "a failed seed, seed 1: failed: code"
    assert (none["verdict"], none["reasons"]) == ("not run", "runs are left to do")


def test_a_claim_whose_runs_all_diverged_is_undecided_with_their_number(tmp_path):
    losses = {(steps, seed): "diverged" for steps in (1, 16) for seed in (0, 1)}
    records = read(study(tmp_path / "r", [HURTS], seeds=2, losses=losses))
    (row,) = rows_of(records)

    assert verdict_words(row) == "undecided: 4 of 4 runs diverged"
    assert [str(sentence) for sentence in findings(records)] == [
        f"Undecided: {HURTS.text}; 4 of 4 runs diverged.",
        "Missing: 4 of 8 runs diverged.",
    ]
    assert find_number(records, "claims:1").fields["verdict"] == "undecided: 4 of 4 runs diverged"
    message = "claims has no columns: name a row as claims:ROW; no row '1:1': there are 1 'more supervision"
    with pytest.raises(ConfigError, match=message):
        find_number(records, "claims:1:1")


def test_lost_runs_are_counted_beside_the_verdict(tmp_path):
    losses = {(16, 0): "diverged", (1, 1): "failed"}
    records = read(study(tmp_path / "r", [HURTS], losses=losses))
    (row,) = rows_of(records)

    assert verdict_words(row) == (
        "undecided: 2 of 6 runs failed or diverged, and the rest may be the lucky ones"
    )
    assert needed_words(row) == "2 runs"


def test_an_open_verdict_has_the_adjusted_interval_if_the_table_of_one_contradicts_it(tmp_path):
    """The first look of at most 30 seeds has a small part of the 5 %."""
    means = {1: 93.0, 2: 92.6}
    records = read(study(tmp_path / "r", [CLOSE], means, max_seeds=30))
    (row,) = rows_of(records)
    low, high = row.answer.adjusted_interval
    words = f"adjusted for all questions and looks, the interval is {low:.2f} to {high:.2f}"

    assert row.verdict is Verdict.UNDECIDED
    assert row.interval[0] > 0 > low
    assert f"; {words}, n=3)" in str(findings(records)[0])
    assert (
        f"{CLOSE.text}: {words} (n=3)"
        in table_of(records, parts_of(records)[0], family(records, parts_of(records)[0])).notes
    )
    assert find_number(records, "claims:1").fields["reasons"] == words


def test_a_decided_verdict_has_no_adjusted_interval(tmp_path):
    records = read(study(tmp_path / "r", [CLOSE], {1: 93.0, 2: 92.6}))

    assert "adjusted" not in str(findings(records)[0])


def test_a_caption_leaves_out_the_number_of_seeds_that_the_cells_state(tmp_path):
    """Cells of levels have more runs than each of the differences, whose n would contradict them."""
    tables = []
    for records in (read(components(tmp_path)), read(study(tmp_path / "claims", [CLOSE]))):
        part = parts_of(records)[0]
        tables.append(table_of(records, part, family(records, part)))
    differences, claims = tables

    assert "n=" not in differences.caption
    assert any("(n=" in entry.text for entry in differences.entries(0))
    assert claims.caption.endswith("; n=3")
