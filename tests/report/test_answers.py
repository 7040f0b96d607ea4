"""Answers that runs kept, as figures read them."""

import numpy as np
import pytest
from made_up import run_id, write_answers

from recstudy.recursive.figures.examples import answers_of


def row(records, variant: int, seed: int):
    return next(row for row in records.rows if row.id == run_id(variant, seed))


def test_a_run_has_its_answers_or_a_reason(results, records):
    write_answers(results, run_id(0, 0), np.log([[3, 1], [1, 3]]), [0, 0])
    results.run(run_id(0, 1)).answers.write_bytes(b"torn")

    run_answers, why = answers_of(records, row(records, 0, 0))

    assert why == ""
    assert run_answers.probabilities[:, 0].tolist() == pytest.approx([0.75, 0.25], rel=1e-3)
    assert run_answers.class_names == ("cat", "dog")
    reasons = [answers_of(records, row(records, variant, seed)) for variant, seed in ((0, 2), (1, 2))]
    assert reasons == [
        (None, "it saved no answers (runs of earlier versions did not)"),
        (None, "it has not finished"),
    ]
    assert "answers.npz is damaged" in answers_of(records, row(records, 0, 1))[1]


def test_answers_that_were_cut_say_so(results, records):
    draw = np.random.default_rng(0)
    write_answers(results, run_id(0, 0), draw.normal(size=(3000, 2)), draw.integers(2, size=3000), limit=6000)

    run_answers, why = answers_of(records, row(records, 0, 0))

    assert why == f"of the first {len(run_answers):,} of 3,000 test images"
