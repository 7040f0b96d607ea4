import math

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recstudy.recursive import PAD, MicarVLMoE, TrainConfig
from recstudy.recursive.models.networks.layers import Past, Rotary
from recstudy.recursive.models.networks.micar import (
    MDLA,
    Bottleneck,
    Gate,
    MultiscaleEncoder,
    Pyramid,
    stages,
    upsample,
)
from recstudy.recursive.train.optim import make_optimizers

TOKENS = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 4, 2, PAD]])
SMALL = {
    "backbone": "small",
    "weights": "random",
    "tuned": False,
    "msve": "off",
    "width": 16,
    "heads": 2,
    "latent": 24,
}
SMALL |= {"rope_dims": 4, "ffn_width": 24, "experts": 4, "encoder_layers": 1}


def tiny(**fields):
    """In float64, in evaluation mode."""
    torch.manual_seed(0)
    return MicarVLMoE(**SMALL | fields).build((3, 64, 64), 9).double().eval()


def places(count=2):
    return torch.randn(count, 49, 64).double()


def test_padding_sees_the_words_alone_and_counts_in_the_balance():
    """As in the published code: the last place sees BOS and three words, and L_b is of the mean over all ten
    places.
    """
    network, images = tiny(decoder_layers=1), places()
    trace = network.trace(images, TOKENS)
    mean = trace.router[0].mean((0, 1))

    assert (trace.self_attention[0, 1, :, 4] > 0).tolist() == [[True] * 4 + [False]] * 2
    extra = network(images, network.start(images, TOKENS))[0].extra
    assert extra.item() == pytest.approx(0.01 * (mean * mean.log()).sum().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("fields", "extra"),
    [({}, -0.01 * math.log(4)), ({"balance": 0.0}, None), ({"experts": 1, "top_k": 1}, None)],
    ids=str,
)
def test_the_balance_is_added_to_the_loss(fields, extra):
    """A router that knows no preference: -log 4 in both layers."""
    network, images = tiny(**fields), places()
    for layer in network.decoder:
        if layer.moe.router is not None:
            nn.init.zeros_(layer.moe.router.weight)

    extra_output = network(images, network.start(images, TOKENS))[0].extra
    assert (extra_output if extra_output is None else extra_output.item()) == (extra and pytest.approx(extra))


def test_the_vision_encoder_ends_before_the_projection():
    """The published code trains W of (1) and its norm at the main rate, backbone and pyramid at the
    encoder's.
    """
    network = MicarVLMoE(**SMALL | {"tuned": True, "msve": "pyramid", "pyramid_width": 8}).build(
        (3, 64, 64), 9
    )
    rest, seeing = make_optimizers(network, TrainConfig(learning_rate=1e-4, backbone_learning_rate=5e-5))[
        0
    ].param_groups

    assert (rest["peak"], seeing["peak"]) == (1e-4, 5e-5)
    assert set(seeing["params"]) == set(network.eyes.parameters())
    assert set(network.project.parameters()) <= set(rest["params"])


# ------------------------------------------------------------------------------------- attention and gated
# fusion


def config(**fields):
    return MicarVLMoE(**{"width": 8, "heads": 1, "latent": 4, "rope_dims": 2, "ffn_width": 8} | fields)


def mdla(*fused, **fields):
    torch.manual_seed(0)
    chosen = config(**fields)
    return MDLA(chosen, Rotary(16, chosen.rope_dims), *(fused or (3,))).eval()


class Give(nn.Module):
    """These tensors, whatever comes."""

    def __init__(self, *outputs: torch.Tensor) -> None:
        super().__init__()
        self.given_outputs = outputs

    def forward(self, x):
        return self.given_outputs if len(self.given_outputs) > 1 else self.given_outputs[0]


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


class Sum(nn.Module):
    """Of the three parts that the fusion layer reads."""

    def forward(self, x):
        return sum(x.chunk(3, dim=-1))


@pytest.mark.parametrize(
    ("parts", "expected"), [(2, [3 / 12.5**0.5, 4 / 12.5**0.5]), (1, [1.0])], ids=["fused", "separate"]
)
def test_a_fused_bottleneck_is_normalised_as_one(parts, expected):
    """d/h = 1: down gives 3 and 4, of mean square 12.5; by itself 3 becomes 1."""
    bottleneck = Bottleneck(config(heads=8, latent=16), parts)
    x = torch.tensor([[[3.0, 4.0, 0, 0, 0, 0, 0, 0]]])
    with torch.no_grad():
        bottleneck.down.weight.copy_(torch.eye(8)[:parts])
        bottleneck.up.weight.copy_(torch.eye(parts).repeat_interleave(16, dim=0))

    parts_out = bottleneck(x)

    assert [tuple(part.shape) for part in parts_out] == [(1, 8, 1, 2)] * parts
    for part, value in zip(parts_out, expected, strict=True):
        torch.testing.assert_close(part, torch.full((1, 8, 1, 2), value))


def test_positions_turn_a_part_of_the_second_branch():
    """A head of 8: 4 without positions, 2 that turn by one radian at place 1, 2 that do not (rope_dims 24 of
    48).
    """
    attention = mdla(latent=8)

    turned = attention.rotate(torch.ones(1, 1, 1, 8), start=1)[0, 0, 0]

    turn = [math.cos(1) - math.sin(1), math.cos(1) + math.sin(1)]
    torch.testing.assert_close(turned, torch.tensor([1, 1, 1, 1, *turn, 1, 1]))


def test_attention_by_hand():
    """q = k = (1, 0 | 1, 0) at places 0 and 1, E = 4. Resources 1 scores itself (1 + 1)/2 and place 0 (1 + cos
    1)/2 = 0.7702; the softmax of these is 0.5572 and 0.4428. Resources 0 sees itself alone."""
    attention = mdla()
    q, v = torch.tensor([1.0, 0, 1, 0]).expand(1, 1, 2, 4), torch.eye(2, 4).expand(1, 1, 2, 4)
    attention.bottlenecks, attention.out = nn.ModuleList([Give(q, q, v)]), nn.Identity()
    q, k, v = attention.project(torch.zeros(1, 2, 8))
    causal_mask = torch.ones(1, 2, 2, dtype=torch.bool).tril()

    expected = torch.tensor([[[1.0, 0, 0, 0], [0.4428, 0.5572, 0, 0]]])
    torch.testing.assert_close(attention(q, k, v, causal_mask), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(attention.maps(q, k, causal_mask)[0], expected[..., :2], atol=1e-4, rtol=0)


@pytest.mark.parametrize(("scale", "width"), [("head", 96), ("latent", 768)])
def test_scores_are_divided_by_the_published_codes_root_or_the_papers(scale, width):
    assert MDLA(MicarVLMoE(scale=scale), Rotary(4, 24), 3).scale == pytest.approx(width**-0.5)


def gate(reads):
    """G = 1, g = sigmoid(log 3) = 0.75, rms(A) replaced by 2 A."""
    fusion_gate = Gate(config(fusion_reads=reads))
    fusion_gate.norm, fusion_gate.opening, fusion_gate.fuse = Double(), Give(torch.tensor(math.log(3))), Sum()
    return fusion_gate


@pytest.mark.parametrize(("reads", "expected"), [("normed", 19.5), ("plain", 15.5)])
def test_the_gate_by_hand(reads, expected):
    """A = 4, rms(A) := 8, X_n = 2: F = 0.75 x 8 + 0.25 x 2 = 6.5; Z = F + A' + G + A with A' = 8 (code) or 4
    (paper). G is of the mean and the largest over places: of 1, 3 and 8 they are 4 and 8."""
    fusion_gate, a = gate(reads), torch.full((1, 2, 8), 4.0)

    torch.testing.assert_close(fusion_gate(a, a / 2, torch.ones(1, 8)), torch.full((1, 2, 8), expected))
    fusion_gate.summary = nn.Identity()
    features = torch.tensor([1.0, 3, 8])[None, :, None].expand(1, 3, 8)
    assert fusion_gate.context(features).tolist() == [[4.0] * 8 + [8.0] * 8]


def test_fusion_residual_has_dropout_as_in_the_published_code():
    """Z - A is 0 in 90 % of 80,000 places, and elsewhere ten times what it is at evaluation, one bias."""
    fusion_gate, a, context = Gate(config(dropout=0.9)), torch.zeros(100, 100, 8), torch.zeros(100, 8)
    nn.init.zeros_(fusion_gate.fuse[-2].weight)
    nn.init.constant_(fusion_gate.fuse[-2].bias, 0.5)
    added = fusion_gate(a, a, context)

    assert added.unique().tolist() == [0.0, 5.0]
    assert (added == 0).float().mean().item() == pytest.approx(0.9, abs=0.01)
    assert fusion_gate.eval()(a, a, context).unique().tolist() == [0.5]


@pytest.mark.parametrize(("kind", "times"), [("gated", 2.0), ("attention", 1.0)])
def test_a_layer_adds_the_text_twice_where_fusion_is_gated(kind, times):
    """Where attention, fusion and experts give 0, gated fusion gives X, and X + X = 2 X (models.md 8.4)."""
    network = tiny(fusion=kind)
    layer = network.decoder[0]
    zeros = [
        layer.attention.out,
        layer.fusion.attention.out,
        *([layer.fusion.gate.fuse[-2]] if kind == "gated" else []),
    ]
    for weight in (layer.moe.down, *(weight for part in zeros for weight in part.parameters())):
        nn.init.zeros_(weight)
    x = torch.randn(2, 5, 16).double()

    torch.testing.assert_close(layer(x, network.see(places())[0], TOKENS != PAD, Past())[0], times * x)


# ------------------------------------------------------------------------------------- the multiscale vision
# encoder


SIZES = [(8, 8), (4, 4), (2, 2), (1, 1)]


def plain_pyramid(channels):
    """Without batch norm; phi adds up the channels, Psi passes them on."""
    pyramid = Pyramid(channels, 1)
    for phi in [*pyramid.lateral, pyramid.fuse]:
        phi[1] = nn.Identity()
        nn.init.zeros_(phi[0].bias)
        nn.init.ones_(phi[0].weight)
    nn.init.dirac_(pyramid.fuse[0].weight)
    return pyramid


def test_the_pyramid_by_hand():
    """C_2 to C_5 constant at 1, 2, 3, 4: P_5 = 4, P_4 = 3 + 4 = 7, P_3 = 2 + 7 = 9, P_2 = 1 + 9 = 10, F = 10
    + 9 + 7 + 4 = 30. One scale alone is the last map, enlarged bilinearly."""
    maps = [torch.full((1, 1, *size), float(value)) for value, size in enumerate(SIZES, 1)]
    torch.testing.assert_close(plain_pyramid([1] * 4)(maps), torch.full((1, 1, 8, 8), 30.0))

    assert [level.unique().item() for level in plain_pyramid([1] * 4).levels(maps)] == [4, 7, 9, 10]

    maps[-1] = torch.rand(1, 3, 2, 2)
    enlarged_map = plain_pyramid([3])(maps)
    torch.testing.assert_close(enlarged_map, upsample(maps[-1].sum(1, keepdim=True), maps[0]))
    assert enlarged_map.unique().numel() > 4


def test_the_stages_of_a_trained_backbone_end_in_its_own_answer():
    """C_5 pooled is what the backbone gives by itself."""
    eyes = MultiscaleEncoder(MicarVLMoE(backbone="resnet18", weights="random", msve="off", width=16)).eval()
    images = torch.randint(0, 256, (2, 3, 64, 64)).float()
    last = nn.functional.adaptive_avg_pool2d(stages(eyes.backbone, images)[-1], 7).flatten(2).mT

    torch.testing.assert_close(eyes(images), last)


def test_feature_maps_are_the_levels_and_their_fusion():
    """With Psi the identity F is the sum of the levels. One scale has P_5 and F; F pooled is what the decoder
    reads.
    """
    images = torch.randint(0, 256, (2, 3, 64, 64)).float()
    for msve, count in {"pyramid": 5, "one_scale": 2}.items():
        eyes = MultiscaleEncoder(
            MicarVLMoE(backbone="small", weights="random", msve=msve, pyramid_width=4)
        ).eval()
        eyes.pyramid.fuse = nn.Identity()

        maps = eyes.feature_maps(images)

        assert maps.shape[:2] == (2, count)
        torch.testing.assert_close(maps[:, :-1].sum(1), maps[:, -1])
        pooled = nn.functional.adaptive_avg_pool2d(maps[:, -1:], 7).flatten(1)
        torch.testing.assert_close(eyes(images).mean(-1), pooled)


def gflops(msve):
    """Of one image and its report of 80 of 1,000 words."""
    with torch.device("meta"):
        network = MicarVLMoE(msve=msve).build((3, 224, 224), 1000).eval()
        images, tokens = torch.zeros(1, 3, 224, 224), torch.ones(1, 80, dtype=torch.int64)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network.requires_grad_(False)(images, network.start(images, tokens))
    return counter.get_total_flops() / 1e9


def test_the_control_costs_what_the_pyramid_costs():
    """models.md 11: ResNet-101 15.6, laterals 6.2 and Psi 236.8 GFLOP; encoder 0.41 a layer, decoder 1.58 at
    80 tokens.
    """
    full, control, without_msve = (gflops(msve) for msve in ("pyramid", "one_scale", "off"))

    assert full == pytest.approx(15.6 + 6.2 + 236.8 + 2 * 0.41 + 2 * 1.58, rel=0.005)
    assert full - control == pytest.approx(5.76, rel=0.01)  # three of the four phi
    assert full - without_msve == pytest.approx(236.8 + 6.2, rel=0.01)
