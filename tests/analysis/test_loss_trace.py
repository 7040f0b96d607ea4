import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import as_result, base, result, run_id, write_losses, write_study

from recstudy.analysis import LossTrace
from recstudy.analysis.figures.learning import TRACE, cut_note, loss_caption, loss_data, loss_figure, moving_average, thin
from recstudy.analysis.frame import load_study
from recstudy.analysis.page import figure_box
from recstudy.records import RunFolder, append_line, write_json

SPEC = LossTrace(window=3)


def loaded(results):
    return load_study(results, "made_up", "paper")


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (1, [1, 2, 6, 4, 5]),
        (2, [1, 1.5, 4, 5, 4.5]),  # itself and the one before
        (3, [1.5, 3, 4, 5, 4.5]),  # one on either side; at the ends one is missing
        (99, [3.6] * 5),
    ],
)
def test_moving_average_by_hand(window, expected):
    assert moving_average([1, 2, 6, 4, 5], window).tolist() == pytest.approx(expected)


def test_thinning_keeps_the_lowest_and_the_highest_of_each_stretch():
    """Two stretches of three: 5 1 9 keeps 1 and 9, 2 8 3 keeps 2 and 8."""
    losses = np.array([5.0, 1.0, 9.0, 2.0, 8.0, 3.0])

    assert thin(losses, 4).tolist() == [1, 2, 3, 4]
    assert thin(losses, 6).tolist() == [0, 1, 2, 3, 4, 5]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.integers(2, 50))
def test_a_thinned_trace_is_short_in_order_and_as_wide_as_before(losses, most):
    values = np.array(losses)
    kept = thin(values, most)

    assert len(kept) <= most
    assert (np.diff(kept) > 0).all()
    assert (values[kept].min(), values[kept].max()) == (values.min(), values.max())


def test_loss_data_counts_updates_and_averages(results):
    write_losses(results, run_id(0, 0), [4.0, 2.0], [3.0, 1.0], every=5)

    data = loss_data(loaded(results), SPEC)

    assert data["update"].tolist() == [1, 6, 11, 16]
    assert data["loss"].tolist() == [4, 2, 3, 1]
    assert data["average"].tolist() == [3, 3, 2, 2]
    assert data.iloc[0][["variant", "label", "seed", "synthetic"]].tolist() == [0, "ViTRM, batch_size=64", 0, False]


def test_the_first_finished_or_running_seed_with_losses_is_shown(results):
    """Of variant 1, seed 1: seed 0 has no file. Of variant 0, which has others, not the one that diverged. Of variant 2
    that one, as no other has losses. Of variant 3 the running seed 2."""
    results.run(run_id(0, 0)).finish(as_result(result(None, status="diverged")))
    for variant, seed in ((0, 0), (0, 1), (1, 1), (1, 2), (2, 1), (3, 2)):
        write_losses(results, run_id(variant, seed), [1.0 + seed])

    data = loss_data(loaded(results), SPEC)

    assert list(zip(data["variant"], data["seed"], strict=True)) == [(0, 1), (1, 1), (2, 1), (3, 2)]


def test_a_torn_line_is_dropped_and_an_epoch_told_twice_counts_once(results):
    write_losses(results, run_id(0, 0), [4.0], [3.0])
    log = results.run(run_id(0, 0)).losses
    append_line(log, {"epoch": 1, "first": 2, "every": 1, "losses": [2.0]})
    with open(log, "a") as file:
        file.write('{"epoch": 2, "fir')

    data = loss_data(loaded(results), SPEC)

    assert data["loss"].tolist() == [4, 2]


def test_where_and_the_best_variants(results):
    for variant in range(3):
        write_losses(results, run_id(variant, 0), [1.0])
    records = loaded(results)

    assert set(loss_data(records, LossTrace(where={"batch_size": 64}))["variant"]) == {0, 2}
    assert set(loss_data(records, SPEC, most=2)["variant"]) == {0, 2}
    assert cut_note(records, len(records.variants), 2) == ("the 2 best of 4 variants by top-1 accuracy",)


def test_the_figure_has_a_light_and_a_dark_line_and_says_what_they_are(results):
    write_losses(results, run_id(0, 0), [4.0, 2.0], every=5)
    data = loss_data(loaded(results), SPEC)

    light, dark = loss_figure(data).data

    assert (light.line.width, dark.line.width) == (1, 2.5)
    assert light.line.color.startswith("rgba(0,114,178,0.3")
    assert (light.showlegend, dark.showlegend, light.legendgroup) == (False, True, dark.legendgroup)
    assert loss_caption(data, SPEC) == (
        "Light: the loss of one update in 5. Dark: its moving average, centred, over 3 points (15 updates). One seed a variant."
    )


def test_traces_recorded_differently_are_said_so(results):
    write_losses(results, run_id(0, 0), [4.0, 2.0])
    write_losses(results, run_id(1, 0), [4.0, 2.0], every=1000)

    assert "one update in 1 to 1,000" in loss_caption(loss_data(loaded(results), SPEC), SPEC)
    assert "(3 to 3,000 updates)" in loss_caption(loss_data(loaded(results), SPEC), SPEC)


def test_thirty_long_traces_stay_below_three_megabytes(tmp_path):
    """20,000 recorded updates each: about what 100 epochs leave."""
    named = [
        {"label": f"v{at}", "levels": {}, "changes": {"seed_like": at}, "model": "ViTRM", "data": "CIFAR-10"} for at in range(30)
    ]
    results = write_study(tmp_path / "r", variants=named, axes={})
    losses = np.random.default_rng(0).gamma(2, 1, 20_000).round(5).tolist()
    for at in range(30):
        if not results.run(run_id(at, 0)).finished:
            results.run(run_id(at, 0)).finish(as_result(result(80.0)))
        write_losses(results, run_id(at, 0), losses)

    data = loss_data(loaded(results), SPEC)
    figure = loss_figure(data)

    assert len(data) == 600_000
    assert max(len(trace.x) for trace in figure.data) <= min(TRACE, 40_000 // 30)
    assert len(figure_box(figure, "losses")) < 3e6
    assert "the CSV file has all" in loss_caption(data, SPEC)
    assert figure.data[0].line.color.endswith(",0.1)")  # so many light traces would hide the dark ones


def test_without_records_there_is_an_empty_figure(records):
    data = loss_data(records, SPEC)

    assert data.empty
    assert loss_caption(data, SPEC) == ""
    assert loss_figure(data).data == ()


def test_an_empty_file_is_no_trace(results):
    results.run(run_id(0, 0)).losses.touch()

    assert loss_data(loaded(results), SPEC).empty


def test_smoke_is_said(tmp_path):
    records = loaded(write_study(tmp_path / "r", base=base(epochs=2), smoke=True))

    assert SPEC.drawn(records).notes[0].startswith("smoke run")


def test_a_resumed_run_drops_the_losses_of_the_epochs_it_will_repeat(tmp_path):
    folder = RunFolder(tmp_path)
    for epoch in range(3):
        append_line(folder.losses, {"epoch": epoch, "losses": [1.0]})

    folder.keep_epochs(below=2)

    assert [json.loads(line)["epoch"] for line in folder.losses.read_text().splitlines()] == [0, 1]
    assert not folder.epochs.exists()
    write_json(tmp_path / "result.json", {"status": "done"})
    folder.sweep()
    assert folder.losses.exists()
