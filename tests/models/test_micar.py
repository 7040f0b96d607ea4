import math

import pytest
import torch
from torch import nn

from recstudy.config import PAD, RunConfig, TrainConfig
from recstudy.data import PhantomCaptions
from recstudy.errors import ConfigError
from recstudy.models import MicarVLMoE
from recstudy.models.networks.micar import MicarNetwork, earlier
from recstudy.train.optim import make_optimizers

TOKENS = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 4, 2, PAD]])
SMALL = {"backbone": "small", "weights": "random", "tuned": False, "msve": "off", "width": 16, "heads": 2, "latent": 24}
SMALL |= {"rope_dims": 4, "ffn_width": 24, "experts": 4, "encoder_layers": 1}


def tiny(**fields) -> MicarNetwork:
    """In float64, in evaluation mode."""
    torch.manual_seed(0)
    network = MicarVLMoE(**SMALL | fields).build((3, 64, 64), 9).double().eval()
    assert isinstance(network, MicarNetwork)
    return network


def places(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 49, 64).double()


def logits(network: MicarNetwork, images: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return network(images, network.start(images, tokens))[0].logits


@pytest.mark.parametrize(("layers", "params"), [(2, 156_793_024), (3, 190_079_744)])
def test_counts_to_the_digit(layers, params):
    """models.md 8.10: the published code's layout with 1,000 words."""
    network = unfilled(encoder_layers=layers, decoder_layers=layers)

    assert size(network) == params
    assert size(network.eyes.backbone) == 42_500_160
    assert size(network.eyes) - size(network.eyes.backbone) == 7_888_896 + 37_754_880
    assert size(network.project) == 1_051_136
    assert (size(network.encoder), size(network.decoder)) == (layers * 4_080_832, layers * 29_205_888)
    assert size(network.embed) + size(network.answer) + size(network.norm) == 1_024_000 + 512


def unfilled(**fields) -> MicarNetwork:
    """The network of 1,000 words, without memory for its weights."""
    with torch.device("meta"):
        return MicarVLMoE(**fields).build((3, 224, 224), 1000)


def size(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


PYRAMID = 7_888_896 + 37_754_880  # of the four stages, and the convolution over them


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({"experts": 1, "top_k": 1}, -2 * (25_169_920 - 3_145_728)),
        ({"fusion": "attention"}, -2 * (9 * 512**2 + 6 * 512)),
        ({"encoder_layers": 0}, -2 * 4_080_832),
        ({"msve": "one_scale"}, -(256 + 512 + 1024 + 3 * 3) * 2048),
        ({"msve": "off"}, -PYRAMID),
        ({"msve": "off", "tuned": False}, -PYRAMID - 42_500_160),
    ],
    ids=str,
)
def test_rows_of_table_3_have_so_many_weights_more_than_the_full_model(fields, more):
    assert size(unfilled(**fields)) - 156_793_024 == more


def test_without_experts_a_decoder_layer_has_the_encoders_network():
    """25,169,920 parameters fewer, 3,145,728 more; the router is gone."""
    full, dense = (unfilled(**fields).decoder for fields in ({}, {"experts": 1, "top_k": 1}))

    assert size(full) - size(dense) == 2 * (25_169_920 - 3_145_728)


def test_no_logit_depends_on_a_later_token():
    network, images, tokens = tiny(), places(1), torch.tensor([[1, 4, 5, 6, 7, 8]])
    before = logits(network, images, tokens)

    for place in range(1, 6):
        changed = tokens.clone()
        changed[:, place] = 3
        after = logits(network, images, changed)
        torch.testing.assert_close(after[:, :place], before[:, :place], rtol=0, atol=1e-12)
        assert (after[:, place:] - before[:, place:]).abs().amax(-1).min() > 1e-6


def test_padding_changes_no_logit():
    network, images = tiny(), places()
    padded = torch.cat([TOKENS, torch.full((2, 4), PAD)], dim=1)

    torch.testing.assert_close(logits(network, images, padded)[:, :5], logits(network, images, TOKENS), rtol=0, atol=1e-12)


def test_padding_sees_the_words_alone_and_counts_in_the_balance():
    """As in the published code: the last place sees BOS and three words, and L_b is of the mean over all ten places."""
    network, images = tiny(decoder_layers=1), places()
    balance = network(images, network.start(images, TOKENS))[0].extra

    trace = network.trace(images, TOKENS)
    mean = trace.router[0].mean((0, 1))

    assert ((trace.self_attention[0, 1, :, 4] > 0) == torch.tensor([True] * 4 + [False])).all()
    assert balance.item() == pytest.approx(0.01 * (mean * mean.log()).sum().item(), rel=1e-12)


@pytest.mark.parametrize("fields", [{}, {"fusion": "attention"}, {"projections": "separate"}], ids=str)
def test_cached_decoding_equals_the_full_forward(fields):
    """Token by token; the images are not looked at again."""
    network, images = tiny(**fields), places()
    tokens = torch.tensor([[1, 4, 5, 6, 7], [1, 7, 4, 8, 3]])
    full = logits(network, images, tokens)
    one, cache = network.next(images, tokens[:, :2], 1)

    for length in range(2, 6):
        torch.testing.assert_close(one, full[:, length - 1], rtol=0, atol=1e-12)
        assert all(len(part) == 2 for part in cache)
        if length < 5:
            one, cache = network.next(torch.full_like(images, torch.nan), tokens[:, : length + 1], 1, cache)


def test_words_and_places_make_a_tokens_input():
    """sqrt(16) E[word] + (sin t, cos t, ...): at t = 1 the first pair is sin 1, cos 1, and the last turns by 10,000^(-14/16)."""
    network = tiny()
    x = network.inputs(TOKENS)

    slow = 10_000 ** (-14 / 16)
    added = x[0, 1] - 4 * network.embed.weight[4]
    torch.testing.assert_close(added[:2], torch.tensor([math.sin(1), math.cos(1)]).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(added[-2:], torch.tensor([math.sin(slow), math.cos(slow)]).double(), atol=1e-6, rtol=0)


def test_a_layer_adds_the_text_twice():
    """Where attention, fusion and experts give 0, gated fusion gives X, and X + X = 2 X (models.md 8.4)."""
    network = tiny()
    layer = network.decoder[0]
    with torch.no_grad():
        last = layer.fusion.gate.fuse[-2]
        for weight in (layer.attention.out.weight, layer.fusion.attention.out.weight, last.weight, last.bias, layer.moe.down):
            weight.zero_()
    x = torch.randn(2, 5, 16).double()

    y, _ = layer(x, network.see(places())[0], TOKENS != PAD)

    torch.testing.assert_close(y, 2 * x)


@pytest.mark.parametrize(
    ("fields", "weight"), [({}, 0.01), ({"balance": 0.0}, None), ({"experts": 1, "top_k": 1}, None)], ids=str
)
def test_the_balance_is_added_to_the_loss(fields, weight):
    """A router that knows no preference: -log 4 in both layers."""
    network, images = tiny(**fields), places()
    for layer in network.decoder:
        if layer.moe.router is not None:
            torch.nn.init.zeros_(layer.moe.router.weight)

    extra = network(images, network.start(images, TOKENS))[0].extra

    if weight is None:
        assert extra is None
    else:
        assert extra is not None
        assert extra.item() == pytest.approx(-weight * math.log(4))


def test_matrices_start_xavier_uniform_but_for_the_vision_encoders():
    """E: sqrt(6 / (9 + 16)) = 0.49, W of (1): sqrt(6 / (64 + 16)) = 0.27, where torch's own would be 64^-0.5 = 0.125."""
    network = tiny()

    assert 0.9 * (6 / 25) ** 0.5 < network.embed.weight.abs().max().item() <= (6 / 25) ** 0.5
    assert 0.9 * (6 / 80) ** 0.5 < network.project[1].weight.abs().max().item() <= (6 / 80) ** 0.5


def test_the_vision_encoder_ends_before_the_projection():
    """The published code trains W of (1) and its norm at the main rate, backbone and pyramid at the encoder's."""
    network = MicarVLMoE(**SMALL | {"tuned": True, "msve": "pyramid", "pyramid_width": 8}).build((3, 64, 64), 9)

    rest, seeing = make_optimizers(network, TrainConfig(learning_rate=1e-4, backbone_learning_rate=5e-5))[0].param_groups

    assert (rest["peak"], seeing["peak"]) == (1e-4, 5e-5)
    assert set(map(id, seeing["params"])) == set(map(id, network.eyes.parameters()))
    assert set(map(id, network.project.parameters())) <= set(map(id, rest["params"]))


def test_what_happens_inside_is_shown():
    network, images = tiny(), places()
    with torch.no_grad():
        trace = network.trace(images, TOKENS)
        own = network.decoder[0].attend(network.inputs(TOKENS), earlier(TOKENS))

    assert [tuple(part.shape) for part in trace] == [
        (2, 2, 2, 5, 5), (2, 2, 2, 5, 49), (2, 2, 5, 4), (2, 2, 5, 2), (2, 4), (2, 2, 5), (2,),
    ]  # fmt: skip
    for maps in (trace.self_attention, trace.cross_attention, trace.router):
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]).double())
    assert not trace.self_attention.masked_fill(earlier(TOKENS)[:, None], 0).any()
    attention = network.decoder[0].attention
    *_, v = attention.whole(network.decoder[0].norm1(network.inputs(TOKENS)))
    torch.testing.assert_close(attention.out((trace.self_attention[0] @ v).transpose(1, 2).flatten(2)), own)

    valid = TOKENS != PAD
    assert trace.load.sum(-1).tolist() == [2 * 9] * 2
    assert trace.dropped.tolist() == [0, 0]
    assert (trace.chosen[:, ~valid] == 4).all()
    assert torch.equal(trace.chosen[:, valid], trace.router.topk(2).indices[:, valid])
    torch.testing.assert_close(trace.entropy, -(trace.router * trace.router.log()).sum(-1))
    for layer in range(2):
        assert torch.equal(trace.chosen[layer][valid].flatten().bincount(minlength=4), trace.load[layer])


DATA = PhantomCaptions(size=64, length=8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"top_k": 5}, "model.top_k must be at most model.experts, but got 5 of 4"),
        ({"experts": 1}, "model.top_k must be at most model.experts, but got 2 of 1"),
        ({"heads": 3}, "model.width must be a multiple of model.heads, but got 16 and 3"),
        ({"latent": 22}, "model.latent must be a multiple of twice model.heads, .*, but got 22 and 2"),
        ({"rope_dims": 3}, "model.rope_dims must be even and at most 6, half of a head .*, but got 3"),
        ({"rope_dims": 8}, "model.rope_dims must be even and at most 6, half of a head .*, but got 8"),
        ({"width": 20}, "model.width and model.ffn_width must be multiples of 8, .*, but got 20 and 24"),
        ({"msve": "pyramid"}, "model.tuned must be true with model.msve 'pyramid', .* Set model.msve 'off' for a frozen one"),
        ({"weights": "pretrained"}, "model.weights must be 'random' with model.backbone 'small'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(data=DATA, model=MicarVLMoE(**SMALL | fields))
    assert RunConfig(data=DATA, model=MicarVLMoE(**SMALL)).model.title == "MicarVLMoE (small CNN, random)"
