"""Captions through the one loop: their loss and halting target by hand, decoding at the end, what is kept to
look at.
"""

import math

import pytest
import torch

from recstudy.recursive import FuseLIPBackboneConfig, ModelConfig, PhantomCaptions, RunConfig
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.tasks.captioning.retrieval import contrast, recalls
from recstudy.recursive.tasks.captioning.writing import caption_batch_size, captions
from recstudy.recursive.testing import tiny_model, tiny_run, trained
from recstudy.recursive.train.losses import token_hits, token_share

ALIGNER = tiny_model("fuselip")


def fused(mode: str) -> ModelConfig:
    eyes = FuseLIPBackboneConfig(aligner=ALIGNER, epochs=1, mode=mode)
    return tiny_model("image_trm", backbone="fuselip", fuselip=eyes, cycles=1, latent_steps=1)


MODELS = {
    "lstm": tiny_model("image_lstm", tuned=True),
    "hrm": tiny_model("image_hrm", tuned=True),
    "trm": tiny_model("image_trm", tuned=True, cycles=1, latent_steps=1),
    "frozen": tiny_model("image_trm", backbone="resnet18", cycles=1, latent_steps=1),
    "fused": fused("prefix_causal"),
    "image only": fused("image_only"),
    "aligner": ALIGNER,
}


def config(name: str, **train) -> RunConfig:
    return tiny_run(
        MODELS[name], PhantomCaptions(size=32, limit=24), **{"epochs": 1, "batch_size": 8} | train
    )


def test_a_caption_is_as_right_as_its_tokens():
    tokens = torch.tensor([[1, 3, 4, 2, 0], [1, 2, 0, 0, 0]])
    logits = torch.nn.functional.one_hot(torch.tensor([[3, 4, 0, 0], [2, 0, 0, 0]]), 5).float()

    hits, counts = token_hits(logits, tokens)

    assert (hits.tolist(), counts.tolist()) == ([2, 1], [3, 1])
    torch.testing.assert_close(token_share(logits, tokens, exact=False), torch.tensor([2 / 3, 1.0]))
    assert token_share(logits, tokens, exact=True).tolist() == [False, True]


@pytest.mark.whole
@pytest.mark.parametrize("name", ["lstm", "frozen", "fused", "aligner"])
def test_each_kind_of_captioner_takes_the_whole_way(name):
    training = trained(config(name))

    result = training.finish()

    if name == "aligner":
        assert {
            "recall_1",
            "recall_5",
            "recall_10",
            "cosine_before",
            "cosine_after",
            "contrast_before",
            "contrast_after",
        } == set(result["metrics"])
        assert len(training.files["alignment.json"]["pairs"]) == 24
    else:
        assert {"bleu_4", "rouge_l", "cider", "token_accuracy", "caption_loss"} <= set(result["metrics"])
        assert result["tokenizer"]["text"] == "word (64)"
        assert result["decode"] == "beam 3"
        assert result["answers"] == {"kept": 24, "of": 24}
        examples = training.files["captions.json"]["examples"]
        assert [example["references"] for example in examples] == [
            training.data.test.captions[row] for row in training.data.test.rows
        ]
    assert ("standin-vq" in str(result.get("tokenizer"))) == (name in ("fused", "aligner"))


def test_halting_by_sample_works_on_captions():
    training = trained(config("hrm", halting="sample", supervision_steps=2, epochs=2))

    assert training.state.slots is not None
    assert training.state.slots.batch.context.shape == (8, 31)


@pytest.mark.parametrize("tuned", [False, True])
def test_an_encoder_is_trained_with_its_captioner_where_it_is_tuned(tuned):
    """The head for hidden tokens and the contrastive scale are of the encoder's own training and stay as they
    are.
    """
    encoders = [
        trained(
            config("fused", learning_rate=rate).with_changes({"model.tuned": tuned})
        ).state.network.eyes.injection.encoder
        for rate in (1e-3, 1e-2)
    ]

    first, second = (encoder.state_dict() for encoder in encoders)

    changed = {name.partition(".")[0] for name in first if not torch.equal(first[name], second[name])}
    assert changed == ({"embed", "places", "layers", "norm"} if tuned else set())


IMAGES = torch.tensor([[1.0, 0.0], [0.8, 0.6], [1.0, 0.0]])
TEXTS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
TOKENS = torch.tensor([[1, 5], [1, 6], [1, 5]])


def test_recall_by_hand():
    """Three pairs: the first finds its own, the second is beaten by one, the third shares its caption with
    the first.
    """
    recall = recalls(IMAGES, TEXTS, TOKENS)

    # By image: 1 and 3 are found, 2 has two captions (one text) nearer. By text: 1 and 3 find their images, 2
    # finds its own.
    assert recall[1] == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert recall[5] == 100


def test_the_contrast_by_hand():
    """Cosines of the pairs 1, 0.6 and 1; of the others, but for equal captions, 0, 0.8, 0.8 and 0."""
    assert contrast(IMAGES, TEXTS, TOKENS) == pytest.approx((1 + 0.6 + 1) / 3 - (0 + 0.8 + 0.8 + 0) / 4)
    assert contrast(IMAGES[::2], TEXTS[::2], TOKENS[::2]) is None  # all captions are equal


def test_the_aligners_scale_stays_between_1_and_100():
    """After each update; one more would take log t by about the learning rate, from either end."""
    training = training_of(config("aligner", learning_rate=1e-2, schedule="update"))
    log_scale = training.state.network.encoder.log_scale

    for outside, clamped in ((5.0, math.log(100)), (-1.0, 0.0)):
        torch.nn.init.constant_(log_scale, outside)
        training.train_batch(next(training._train.epoch(0)))
        assert log_scale.item() == pytest.approx(clamped)


def write_captions(model: ModelConfig, **train) -> tuple[RunConfig, list[list[int]], list[int]]:
    """A run, what its drawn weights write of the test images, and how many images they looked at, batch by
    batch.
    """
    training, batch_sizes = (
        training_of(tiny_run(model, PhantomCaptions(size=32, limit=24), batch_size=8, **train)),
        [],
    )
    network = training.state.network
    network.eyes.register_forward_hook(lambda eyes, images, features: batch_sizes.append(len(features)))
    ids = captions(network, training._batches(training.data.test), training.config, training.data.tokenizer)
    return training.config, ids, batch_sizes


@pytest.mark.parametrize(
    ("method", "together", "expected_ratio"), [("beam", 2, 0), ("greedy", 4, 0), ("official_quirk", 2, 1)]
)
def test_writing_fits_where_training_does(method, together, expected_ratio):
    """Of 8 images a batch, 16 fit without a backward pass; 4 supervision steps and 2 beams of each are kept.

    The search of 003 writes one more token: as many behind BOS as a caption has.
    """
    run, ids, batch_sizes = write_captions(
        MODELS["trm"].model_copy(update={"decode": method, "beam": 2}), evaluation_steps=4
    )

    assert (caption_batch_size(run), max(batch_sizes), sum(batch_sizes), len(ids)) == (
        together,
        together,
        24,
        24,
    )
    assert {len(caption) for caption in ids} == {run.data.length + expected_ratio}
