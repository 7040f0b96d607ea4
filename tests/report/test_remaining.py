"""The time left, worked by hand."""

import pytest

from recstudy.report.remaining import Job, remaining_seconds, wall_time


def test_no_estimate_before_a_run_has_finished_or_has_a_pace():
    first_epochs = [Job("a", training=100.0, epochs=epochs, share=epochs / 12) for epochs in (0, 1, 2)]

    assert remaining_seconds([], [*first_epochs, Job("b")]) is None


def test_running_run_predicts_the_time_of_the_others():
    """Three of twelve epochs took 30 s: 120 in all, 90 of them to go; four times the FLOPs take 240."""
    under_way = Job("a", pflop=1.0, training=30.0, epochs=3, share=0.25)

    assert remaining_seconds([], [under_way, Job("a", 1.0), Job("b", 4.0), Job("c")]) == [
        90.0,
        120.0,
        240.0,
        120.0,
    ]


def test_a_pace_of_less_than_a_tenth_is_none():
    assert remaining_seconds([], [Job("a", training=30.0, epochs=5, share=0.05)]) is None


def test_a_run_takes_what_those_of_its_variant_took_with_their_evaluation():
    ended_jobs = [Job("a", 1.0, 10.0, 4.0), Job("a", 1.0, 20.0, 6.0), Job("b", 2.0, 50.0, 0.0)]

    assert remaining_seconds(ended_jobs, [Job("a"), Job("a", training=99.0, epochs=6, share=0.5)]) == [
        20.0,
        12.5,
    ]


def test_a_variant_of_which_none_has_ended_goes_by_the_root_of_its_flops():
    """On average 20 s at 2 PFLOP, so 40 at 8, and then the median of 2, 6 and 900 s of evaluation."""
    ended_jobs = [Job("a", 1.0, 10.0, 2.0), Job("b", 3.0, 30.0, 6.0), Job("c", 2.0, 20.0, 900.0)]

    assert remaining_seconds(ended_jobs, [Job("d", 8.0)]) == [pytest.approx(46.0)]


@pytest.mark.parametrize(("parallel_runs", "seconds"), [(1, 60.0), (2, 40.0), (9, 30.0)])
def test_parallel_runs_start_in_their_order(parallel_runs, seconds):
    assert wall_time([10.0, 20.0, 30.0], parallel_runs) == seconds
