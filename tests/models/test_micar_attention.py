import math

import pytest
import torch
from torch import nn

from recstudy.models.micar import MicarVLMoE
from recstudy.models.networks.layers import Rotary
from recstudy.models.networks.micar import MDLA, Bottleneck, Fusion, Gate


def config(**fields) -> MicarVLMoE:
    return MicarVLMoE(**{"width": 8, "heads": 1, "latent": 4, "rope_dims": 2, "ffn_width": 8} | fields)


def mdla(*fused: int, **fields) -> MDLA:
    torch.manual_seed(0)
    chosen = config(**fields)
    return MDLA(chosen, Rotary(16, chosen.rope_dims), *(fused or (3,))).eval()


class Give(nn.Module):
    """These tensors, whatever comes."""

    def __init__(self, *given: torch.Tensor) -> None:
        super().__init__()
        self.given = given

    def forward(self, x):
        return self.given if len(self.given) > 1 else self.given[0]


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


class Sum(nn.Module):
    """Of the three parts that the fusion layer reads."""

    def forward(self, x):
        return sum(x.chunk(3, dim=-1))


# ------------------------------------------------------------------------------------------------------------- MDLA


@pytest.mark.parametrize(("parts", "expected"), [(2, [3 / 12.5**0.5, 4 / 12.5**0.5]), (1, [1.0])], ids=["fused", "separate"])
def test_a_fused_bottleneck_is_normalised_as_one(parts, expected):
    """d/h = 1: down gives 3 and 4, of mean square 12.5; by itself 3 becomes 1."""
    bottleneck = Bottleneck(config(heads=8, latent=16), parts)
    x = torch.tensor([[[3.0, 4.0, 0, 0, 0, 0, 0, 0]]])
    with torch.no_grad():
        bottleneck.down.weight.copy_(torch.eye(8)[:parts])
        bottleneck.up.weight.copy_(torch.eye(parts).repeat_interleave(16, dim=0))

    given = bottleneck(x)

    assert [tuple(part.shape) for part in given] == [(1, 8, 1, 2)] * parts
    for part, value in zip(given, expected, strict=True):
        torch.testing.assert_close(part, torch.full((1, 8, 1, 2), value))


def test_positions_turn_a_part_of_the_second_branch():
    """A head of 8: 4 without positions, 2 that turn by one radian at place 1, 2 that do not (rope_dims 24 of 48)."""
    attention = mdla(latent=8)

    turned = attention.turned(torch.ones(1, 1, 1, 8), start=1)[0, 0, 0]

    turn = [math.cos(1) - math.sin(1), math.cos(1) + math.sin(1)]
    torch.testing.assert_close(turned, torch.tensor([1, 1, 1, 1, *turn, 1, 1]))


def test_attention_by_hand():
    """q = k = (1, 0 | 1, 0) at places 0 and 1, E = 4. Place 1 scores itself (1 + 1)/2 and place 0 (1 + cos 1)/2 = 0.7702; the
    softmax of these is 0.5572 and 0.4428. Place 0 sees itself alone."""
    attention = mdla()
    q = torch.tensor([1.0, 0, 1, 0]).expand(1, 1, 2, 4)
    v = torch.eye(2, 4).expand(1, 1, 2, 4)
    attention.bottlenecks = nn.ModuleList([Give(q, q, v)])
    attention.out = nn.Identity()

    q, k, v = attention.whole(torch.zeros(1, 2, 8))
    before = torch.ones(1, 2, 2, dtype=torch.bool).tril()
    mixed = attention(q, k, v, before)

    expected = torch.tensor([[[1.0, 0, 0, 0], [0.4428, 0.5572, 0, 0]]])
    torch.testing.assert_close(mixed, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(attention.maps(q, k, before)[0], expected[..., :2], atol=1e-4, rtol=0)


@pytest.mark.parametrize(("scale", "width"), [("head", 96), ("latent", 768)])
def test_scores_are_divided_by_the_published_codes_root_or_the_papers(scale, width):
    model = MicarVLMoE(scale=scale)

    assert MDLA(model, Rotary(4, 24), 3).scale == pytest.approx(width**-0.5)


@pytest.mark.parametrize("scale", ["head", "latent"])
@pytest.mark.parametrize("projections", ["fused", "separate"])
def test_maps_are_what_forward_mixes_by(scale, projections):
    attention = mdla(1, 2, heads=2, latent=16, scale=scale, projections=projections).double()
    text, image = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 8).double()
    q, (k, v) = attention.asked(text), attention.seen(image)

    maps = attention.maps(q, k)

    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 2, 3).double())
    torch.testing.assert_close(attention.out((maps @ v).transpose(1, 2).flatten(2)), attention(q, k, v))


# ----------------------------------------------------------------------------------------------------- gated fusion


def gate(reads: str) -> Gate:
    """G = 1, g = sigmoid(log 3) = 0.75, rms(A) replaced by 2 A."""
    made = Gate(config(fusion_reads=reads))
    made.norm, made.opening, made.fuse = Double(), Give(torch.tensor(math.log(3))), Sum()
    return made


@pytest.mark.parametrize(("reads", "expected"), [("normed", 19.5), ("plain", 15.5)])
def test_the_gate_by_hand(reads, expected):
    """A = 4, rms(A) := 8, X_n = 2: F = 0.75 x 8 + 0.25 x 2 = 6.5; Z = F + A' + G + A with A' = 8 (code) or 4 (paper)."""
    a, x_n, context = torch.full((1, 2, 8), 4.0), torch.full((1, 2, 8), 2.0), torch.ones(1, 8)

    z = gate(reads)(a, x_n, context)

    torch.testing.assert_close(z, torch.full((1, 2, 8), expected))


def test_what_fusion_adds_to_a_is_dropped_as_in_the_published_code():
    """Z - A is 0 in 90 % of 80,000 places, and elsewhere ten times what it is at evaluation, one bias."""
    made = Gate(config(dropout=0.9))
    nn.init.zeros_(made.fuse[-2].weight)
    nn.init.constant_(made.fuse[-2].bias, 0.5)
    a, context = torch.zeros(100, 100, 8), torch.zeros(100, 8)

    added = made(a, a, context)

    assert added.unique().tolist() == [0.0, 5.0]
    assert (added == 0).float().mean().item() == pytest.approx(0.9, abs=0.01)
    torch.testing.assert_close(made.eval()(a, a, context), torch.full_like(a, 0.5))


def test_the_context_is_the_mean_and_the_largest_over_places():
    """Places 1, 3 and 8: mean 4, largest 8."""
    made = gate("normed")
    made.summary = nn.Identity()

    context = made.context(torch.tensor([1.0, 3, 8])[None, :, None].expand(1, 3, 8))

    assert context.tolist() == [[4.0] * 8 + [8.0] * 8]


@pytest.mark.parametrize(("kind", "expected"), [("gated", 1.0), ("attention", 0.0)])
def test_the_text_is_inside_gated_fusion_and_not_inside_attention(kind, expected):
    """With an attention and a fusion layer that give 0, Z = A = X; the decoder then adds X a second time."""
    fusion = Fusion(config(fusion=kind), Rotary(16, 2)).eval()
    x = torch.randn(1, 3, 8)
    with torch.no_grad():
        fusion.attention.out.weight.zero_()
        if fusion.gate is not None:
            fusion.gate.fuse[-2].weight.zero_()
            fusion.gate.fuse[-2].bias.zero_()

    torch.testing.assert_close(fusion(x, fusion.see(torch.randn(1, 5, 8))), expected * x)
