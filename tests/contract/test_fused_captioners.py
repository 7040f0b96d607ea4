"""Captioners that see by FuseLIP, in each way of injecting it: the promises of `test_captioners.py`, and the leak that breaks one."""

import pytest
import torch
from test_captioners import DATA, PAD, SMALL, after, network_of, some_tokens

from recstudy.config import FAMILIES, RunConfig
from recstudy.models import VQ, Aligner, FuseEyes, FuseLIP
from recstudy.models.networks.caption import Captioner

ENCODER = FuseLIP(
    width=16, heads=2, layers=2, text_vocabulary=64, bos=1, eos=2, codes=4, codebook=16, context=24
)  # fmt: skip
ALIGNER = Aligner(encoder=ENCODER, tokenizer=VQ(size=16, codes=4, codebook=16, width=16, layers=1, heads=2))
LOOPS = {"dual": ("image_hrm", {"middle_cycles": 0}), "triple": ("image_hrm", {}), "trm": ("image_trm", {})}
MODES = ("prefix_causal", "image_only")


def fused(loop: str, mode: str) -> Captioner:
    family, fields = LOOPS[loop]
    model = FAMILIES[family](**SMALL[family] | fields, backbone="fuselip", fuselip=FuseEyes(aligner=ALIGNER, mode=mode))
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
@pytest.mark.parametrize("mode", MODES)
def test_cached_decoding_is_exact(loop, mode):
    network, images, tokens = fused(loop, mode), codes(3), some_tokens(3, 6)
    logits, cache = network.next(images, tokens[:, :2], 2)

    for length in range(2, 7):
        torch.testing.assert_close(logits, after(network, images, tokens[:, :length]).logits[:, -1], rtol=0, atol=1e-12)
        if length < 6:
            logits, cache = network.next(images, tokens[:, : length + 1], 2, cache)
