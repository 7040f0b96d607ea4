"""Captioners that see by FuseLIP, in each way of injecting it: the promises of `test_captioners.py`, and the leak that breaks one."""

import re

import pytest
import torch
from test_captioners import DATA, network_of, some_tokens

from recstudy.config import PAD, RunConfig
from recstudy.contract.captioners import after
from recstudy.data import PhantomCaptions
from recstudy.errors import ConfigError
from recstudy.models import VQ, Aligner, FuseLIP, FuseLIPBackboneConfig
from recstudy.models.networks.caption import Captioner, reorder
from recstudy.testing import tiny_model

ENCODER = FuseLIP(
    width=16, heads=2, layers=2, text_vocabulary=64, bos=1, eos=2, codes=4, codebook=16, context=24
)  # fmt: skip
ALIGNER = Aligner(encoder=ENCODER, tokenizer=VQ(size=16, codes=4, codebook=16, width=16, layers=1, heads=2))
LOOPS = {"dual": ("image_hrm", {"middle_cycles": 0}), "triple": ("image_hrm", {}), "trm": ("image_trm", {})}
MODES = ("prefix_causal", "image_only")


def fused(loop: str, mode: str) -> Captioner:
    family, fields = LOOPS[loop]
    model = tiny_model(family, backbone="fuselip", fuselip=FuseLIPBackboneConfig(aligner=ALIGNER, mode=mode), **fields)
    return network_of(RunConfig(data=DATA, model=model).model)


def codes(count: int) -> torch.Tensor:
    return torch.randint(0, 16, (count, 4))


def earliest_change(network: Captioner, place: int) -> int:
    """The first logit that another token at `place` changes."""
    images, tokens = codes(2), some_tokens(2, 6)
    changed = tokens.clone()
    changed[:, place] = torch.where(changed[:, place] == 3, 4, 3)
    difference = (after(network, images, changed).logits - after(network, images, tokens).logits).abs().amax((0, 2))
    return int((difference > 1e-12).nonzero()[0])


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("mode", MODES)
def test_no_logit_depends_on_a_later_token(loop, mode):
    network = fused(loop, mode)

    assert [earliest_change(network, place) for place in range(1, 6)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("loop", LOOPS)
def test_the_leak_is_caught_by_the_same_test(loop):
    network = fused(loop, "leaky")

    assert [earliest_change(network, place) for place in range(1, 6)] == [0] * 5


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("mode", [*MODES, "leaky"])
def test_padding_changes_nothing(loop, mode):
    network, images, tokens = fused(loop, mode), codes(2), some_tokens(2, 5)
    padded = torch.cat([tokens, torch.full((2, 2), PAD)], dim=1)

    short, long = after(network, images, tokens), after(network, images, padded)

    torch.testing.assert_close(long.logits[:, :5], short.logits, rtol=0, atol=1e-12)
    torch.testing.assert_close(long.halt, short.halt, rtol=0, atol=1e-6)  # a float32 mean


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("mode", MODES)
def test_every_logit_depends_on_the_image(loop, mode):
    network, tokens = fused(loop, mode), some_tokens(2, 6)

    one, other = (after(network, torch.full((2, 4), code), tokens).logits for code in (3, 7))

    assert (one - other).abs().amax(-1).min() > 1e-6


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("mode", [*MODES, "leaky"])
def test_cached_decoding_is_exact(loop, mode):
    """Token by token, with the captions' order changed on the way, as a beam search does."""
    network, images, tokens = fused(loop, mode), codes(3), some_tokens(3, 6)
    logits, cache = network.next(images, tokens[:, :2], 2)

    for length in range(2, 7):
        torch.testing.assert_close(logits, after(network, images, tokens[:, :length]).logits[:, -1], rtol=0, atol=1e-12)
        rows = torch.tensor([2, 0, 0] if length == 3 else [0, 1, 2])
        images, tokens, cache = images[rows], tokens[rows], reorder(cache, rows)
        if length < 6:
            logits, cache = network.next(images, tokens[:, : length + 1], 2, cache)


@pytest.mark.parametrize(
    ("mode", "read"),
    [
        ("prefix_causal", 4 + 1 + 6),  # the codes and BOS, then every token once
        ("image_only", 4 + 2),  # the codes, BOS and EOT, once
        ("leaky", 7 * 4 + sum(range(1, 8))),  # everything, for each token
    ],
)
def test_decoding_reads_no_token_twice(mode, read):
    network, images, tokens = fused("trm", mode), codes(1), some_tokens(1, 7)
    asked: list[int] = []
    network.eyes.injection.encoder.embed.register_forward_hook(lambda layer, given, made: asked.append(given[0].numel()))
    cache = None
    for length in range(1, 8):
        _, cache = network.next(images, tokens[:, :length], 2, cache)

    assert sum(asked) == read


RUN = RunConfig(
    data=DATA,
    model=tiny_model("image_trm", backbone="fuselip", fuselip=FuseLIPBackboneConfig(aligner=ALIGNER)),
)
WHOLE = "model.fuselip.aligner.encoder"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {f"{WHOLE}.bos": 2, f"{WHOLE}.eos": 1},
            "pad, bos and eos must be 0, 1 and 2, as data.tokenizer has them, but got 0, 2, 1",
        ),
        ({f"{WHOLE}.pad": 3}, "pad, bos and eos must be 0, 1 and 2, as data.tokenizer has them, but got 3, 1, 2"),
        ({f"{WHOLE}.eos": 63}, "pad, bos and eos must be 0, 1 and 2, as data.tokenizer has them, but got 0, 1, 63"),
        (
            {"data.length": 4096, f"{WHOLE}.context": 4200},
            "data.length must be at most 2,048 tokens for ImageTRM (FuseLIP on standin-vq), but got 4,096",
        ),
        ({"model.image_norm": True}, "model.image_norm must be false with model.backbone 'fuselip'"),
    ],
    ids=["swapped", "pad", "eos", "length", "image_norm"],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        RUN.with_changes(changes)


def test_ids_of_clip_belong_to_texts_of_clip():
    """A vocabulary of byte pairs is large enough for the default ids, but its captions do not end with them."""
    encoder = ENCODER.model_copy(update={"text_vocabulary": 60_000, "bos": 49_406, "eos": 49_407})
    aligner = ALIGNER.model_copy(update={"encoder": encoder})

    RunConfig(data=PhantomCaptions(size=16, length=8, tokenizer="clip"), model=_with_vocabulary(aligner, 49_408))
    with pytest.raises(ConfigError, match=r"must be 0, 1 and 2, .* but got 0, 49406, 49407"):
        RunConfig(data=PhantomCaptions(size=16, length=8, tokenizer="bpe", vocabulary=60_000), model=aligner)


def _with_vocabulary(aligner: Aligner, vocabulary: int) -> Aligner:
    return aligner.model_copy(update={"encoder": aligner.encoder.model_copy(update={"text_vocabulary": vocabulary})})
