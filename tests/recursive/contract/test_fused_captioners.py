"""Captioners that see by FuseLIP, in each way of injecting it: the promises of `test_captioners.py`, and the
leak that breaks one.
"""

import pytest
import torch
from test_captioners import DATA, some_tokens

from recstudy.recursive import VQ, Aligner, FuseLIP, FuseLIPBackboneConfig, PhantomCaptions, RunConfig
from recstudy.recursive.contract import Broken, promises
from recstudy.recursive.testing import tiny_model

ENCODER = FuseLIP(
    width=16, heads=2, layers=2, text_vocabulary=64, bos=1, eos=2, codes=4, codebook=16, context=24
)  # fmt: skip
ALIGNER = Aligner(encoder=ENCODER, tokenizer=VQ(size=16, codes=4, codebook=16, width=16, layers=1, heads=2))
LOOPS = {"dual": ("image_hrm", {"middle_cycles": 0}), "triple": ("image_hrm", {}), "trm": ("image_trm", {})}
MODES = ("prefix_causal", "image_only")


def fused(loop: str, mode: str) -> RunConfig:
    family, fields = LOOPS[loop]
    model = tiny_model(
        family, backbone="fuselip", fuselip=FuseLIPBackboneConfig(aligner=ALIGNER, mode=mode), **fields
    )
    return RunConfig(data=DATA, model=model)


@pytest.fixture
def codes(monkeypatch):
    """Images as their tokenizer gives them: four codes each."""
    monkeypatch.setattr(promises, "some_images", lambda config, count: torch.randint(0, 16, (count, 4)))
    return promises.some_images


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("check", promises.OF_CAPTIONERS, ids=lambda check: check.__name__)
def test_every_promise_is_kept(codes, loop, mode, check):
    check(fused(loop, mode))


@pytest.mark.parametrize("loop", LOOPS)
def test_the_leak_is_caught_by_the_same_test(codes, loop):
    with pytest.raises(Broken, match="a logit before token 1 depends on it, so the attention is not causal"):
        promises.no_later_token_is_seen(fused(loop, "leaky"))
    promises.padding_changes_nothing(fused(loop, "leaky"))
    promises.cached_decoding_is_exact(fused(loop, "leaky"))


@pytest.mark.parametrize(
    ("mode", "read"),
    [
        ("prefix_causal", 4 + 1 + 6),  # the codes and BOS, then every token once
        ("image_only", 4 + 2),  # the codes, BOS and EOT, once
        ("leaky", 7 * 4 + sum(range(1, 8))),  # everything, for each token
    ],
)
def test_decoding_reads_no_token_twice(codes, mode, read):
    network, images, tokens = promises.network_of(fused("trm", mode)), codes(None, 1), some_tokens(1, 7)
    token_counts: list[int] = []
    network.eyes.injection.encoder.embed.register_forward_hook(
        lambda layer, inputs, output: token_counts.append(inputs[0].numel())
    )
    cache = None
    for length in range(1, 8):
        _, cache = network.next(images, tokens[:, :length], 2, cache)

    assert sum(token_counts) == read


def test_ids_of_clip_belong_to_texts_of_clip():
    encoder = ENCODER.model_copy(update={"text_vocabulary": 49_408, "bos": 49_406, "eos": 49_407})
    RunConfig(
        data=PhantomCaptions(size=16, length=8, tokenizer="clip"),
        model=ALIGNER.model_copy(update={"encoder": encoder}),
    )
