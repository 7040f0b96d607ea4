"""What a run keeps of its inside: experts' loads by hand and of a real run, and the attention of its first
captions.
"""

import io
import math

import numpy as np
import pytest
import torch

from recstudy.recursive import PAD, PhantomCaptions
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.data.text import WordTokenizer
from recstudy.recursive.figures.examples import read_trace
from recstudy.recursive.metrics.kept import archived
from recstudy.recursive.tasks.captioning.routing import (
    CAPTIONS,
    display_token,
    expert_use,
    summarize_routing,
    trace_captions,
    truncate_at_eos,
)
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.recursive.train.loop import Training

WORDS = WordTokenizer(["a", "mass"])  # ids 4 and 5


def start_training(model) -> Training:
    return training_of(tiny_run(model, PhantomCaptions(limit=24), epochs=1, batch_size=8))


MICAR = tiny_model("micar", tuned=True, experts=4, encoder_layers=1, msve="pyramid", pyramid_width=8)


@pytest.fixture(scope="module")
def micar():
    """A whole run of one epoch on 24 captions: what its result states, what it keeps, and the run."""
    training = start_training(MICAR)
    list(training.epochs())
    return training.finish(), training.files, training


@pytest.fixture
def trace(micar):
    """As it is read from its file."""
    with np.load(io.BytesIO(archived(micar[1]["trace.npz"])), allow_pickle=False) as archive:
        return dict(archive)


def test_metrics_of_a_load_by_hand():
    """Ten tokens, two experts each, two layers: the busiest has 9 of 20 rows, and one of 40 choices was
    dropped.
    """
    load_LE = torch.tensor([[5, 5, 5, 5], [9, 6, 3, 1]])

    metrics, facts = summarize_routing(
        load_LE, torch.tensor([1.0, 0.5]), torch.tensor([0, 1]), tokens=10, top_k=2
    )

    assert metrics == pytest.approx(
        {"router_entropy": 0.75, "expert_load_peak": 100 * 9 / 19, "dropped_tokens": 2.5}
    )
    assert facts == {"load": load_LE.tolist(), "entropy": [1.0, 0.5], "dropped": [0, 1], "tokens": 10}


def test_a_caption_ends_at_its_first_eos():
    assert truncate_at_eos([1, 4, 5, 2, 2, 0, 0], WORDS) == [1, 4, 5, 2]
    assert truncate_at_eos([1, 4, 5], WORDS) == [1, 4, 5]  # cut at its length
    assert [display_token(word_id, WORDS) for word_id in (1, 4, 3, 6, 2)] == [
        "[start]",
        "a",
        "[unknown]",
        "[token 6]",
        "[end]",
    ]


def test_every_choice_of_the_test_set_is_counted_and_none_is_dropped(micar):
    result, _, training = micar
    test = training.data.test
    tokens = int((test.labels[test.rows][:, :-1] != PAD).sum())

    assert result["routing"]["tokens"] == tokens
    assert [sum(layer) for layer in result["routing"]["load"]] == [2 * tokens] * 2
    assert result["routing"]["dropped"] == [0, 0]
    assert all(0 < entropy <= math.log(4) + 1e-6 for entropy in result["routing"]["entropy"])
    metrics = result["metrics"]
    assert metrics["router_entropy"] == pytest.approx(sum(result["routing"]["entropy"]) / 2)
    assert metrics["expert_load_peak"] == pytest.approx(
        100 * max(map(max, result["routing"]["load"])) / (2 * tokens)
    )
    assert metrics["dropped_tokens"] == 0


def test_the_first_captions_are_the_models_own(micar, trace):
    examples = micar[1]["captions.json"]["examples"][:CAPTIONS]

    assert trace["rows"].tolist() == [example["row"] for example in examples]
    for length, words, example in zip(trace["lengths"], trace["words"], examples, strict=True):
        caption = words[1 : length + 1].tolist()
        assert words[0] == "[start]"
        assert " ".join(token for token in caption if token[0] != "[") == example["hypothesis"]
        assert "[end]" not in caption[:-1]


@torch.no_grad()
def test_entropy_of_the_attention_is_that_of_the_test_set(micar):
    """Of all test captions in one batch: mean over heads and tokens, layer by layer."""
    result, _, training = micar
    network, test = training.state.evaluated.eval(), training._batches(training.data.test, shared=False)
    batch = next(test.evaluation_batches(len(test.rows)))
    read = batch.labels[:, :-1]
    attention = network.trace(batch.images, read).cross_attention
    entropy = -(attention * attention.clamp(min=1e-30).log()).sum(-1).mean(2)
    expected = (entropy * (read != PAD)).sum((1, 2)) / (read != PAD).sum()

    assert [result["metrics"][f"attention_entropy.{layer}"] for layer in (1, 2)] == pytest.approx(
        expected.tolist(), rel=1e-4
    )


def test_attention_sums_to_one_within_half_precision(trace):
    # halves round to 2^-12 of a part, and of 2^-24 at the least
    for name in ("cross_attention", "self_attention", "router"):
        np.testing.assert_allclose(trace[name].astype(float).sum(-1), 1, atol=2**-11)
    for index, length in enumerate(trace["lengths"]):
        router, chosen = trace["router"][index, :, :length], trace["chosen"][index, :, :length]
        assert (np.take_along_axis(router, chosen, -1) == -np.sort(-router, axis=-1)[..., :2]).all()


def test_the_reading_half_takes_the_file_as_it_is(micar, trace, tmp_path):
    (tmp_path / "trace.npz").write_bytes(archived(micar[1]["trace.npz"]))

    assert trace["features"].shape[:2] == (len(trace["rows"]), 5)  # P2 to P5 and F
    np.testing.assert_array_equal(read_trace(tmp_path / "trace.npz", 1).features, trace["features"][1])
    assert (
        read_trace(tmp_path / "trace.npz", 1).words == trace["words"][1][: trace["lengths"][1] + 1].tolist()
    )
    assert read_trace(tmp_path / "trace.npz", CAPTIONS) is None


@pytest.mark.parametrize(
    ("model", "maps"),
    [
        (tiny_model("show_attend_tell", tuned=True), {"cross_attention"}),  # where it looked
        (tiny_model("image_lstm", tuned=True), set()),
    ],
    ids=lambda parameter: getattr(parameter, "family", ""),
)
def test_a_captioner_without_experts_keeps_its_maps_and_no_routing(model, maps):
    """Before any training; the ids of the true captions stand for the model's own."""
    training = start_training(model)
    network, test = training.state.network.eval(), training._batches(training.data.test)
    ids = training.data.test.labels[training.data.test.rows].tolist()

    files = trace_captions(network, test, ids, training.config, training.data.tokenizer)

    assert expert_use(network, test, training.config) == ({}, {})
    assert {"cross_attention", "self_attention", "router", "chosen"} & set(files.get("trace.npz", ())) == maps
    assert bool(files) == bool(maps)
