import math

import pytest
import torch
from torch import nn

from recstudy.models.networks.layers import (
    GEGLU,
    Attention,
    GeluMLP,
    Past,
    PostNorm,
    Rotary,
    Stack,
    SwiGLU,
    TransformerLayer,
    truncated_normal,
)


def test_attention_equals_torchs_own():
    torch.manual_seed(0)
    ours, theirs = Attention(8, 2, dropout=0.0), nn.MultiheadAttention(8, 2, batch_first=True)
    ours.qkv.weight.data, ours.qkv.bias.data = theirs.in_proj_weight.data, torch.randn(24)
    theirs.in_proj_bias.data = ours.qkv.bias.data
    ours.out.weight.data, ours.out.bias.data = theirs.out_proj.weight.data, theirs.out_proj.bias.data
    x = torch.randn(3, 5, 8)

    torch.testing.assert_close(ours(x), theirs(x, x, x, need_weights=False)[0])
    torch.testing.assert_close(ours(x, read=slice(-2, None)), ours(x)[:, -2:])


def test_swiglu_by_hand():
    """Width 1, hidden 1: u = 2x, g = 3x, down = 5; at x = 1: 5 * 2 * 3 * sigmoid(3) = 28.5772."""
    ffn = SwiGLU(1, 1)
    ffn.up.weight.data, ffn.up.bias.data = torch.tensor([[2.0], [3.0]]), torch.zeros(2)
    ffn.down.weight.data, ffn.down.bias.data = torch.tensor([[5.0]]), torch.zeros(1)

    assert ffn(torch.ones(1, 1, 1)).item() == pytest.approx(28.57722, rel=1e-5)


def test_gelu_by_hand():
    """At x = 1 with unit weights: 1 * Phi(1) = 0.841345."""
    ffn = GeluMLP(1, 1)
    for weight in ffn.parameters():
        nn.init.constant_(weight, 1.0 if weight.dim() == 2 else 0.0)

    assert ffn(torch.ones(1, 1, 1)).item() == pytest.approx(0.841345, rel=1e-5)


@pytest.mark.parametrize(("norm", "expected"), [("pre", [2.0, 4.0]), ("post", [-1.0, 1.0])])
def test_norm_stands_before_the_branches_or_after_the_sums(norm, expected):
    """Both branches give 0: pre-norm leaves (2, 4) as it is, post-norm standardises it to (-1, 1)."""

    class Zero(nn.Module):
        def forward(self, x, read=None):
            return torch.zeros_like(x)

    layer = TransformerLayer(Zero(), Zero(), 2, norm, dropout=0.0)  # type: ignore[arg-type]

    torch.testing.assert_close(layer(torch.tensor([[[2.0, 4.0]]]))[0, 0], torch.tensor(expected), atol=1e-4, rtol=0)


def test_dropout_is_off_in_evaluation():
    layer = TransformerLayer(Attention(4, 2, 0.5), SwiGLU(4, 8), 4, "pre", 0.5)
    x = torch.randn(2, 3, 4)

    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


def test_causal_attention_sees_what_is_before():
    """The last token sees all, as it does without `causal`; the first sees itself: its value alone."""
    torch.manual_seed(0)
    free, causal = (Attention(8, 2, rotary=Rotary(5, 4), causal=causal) for causal in (False, True))
    causal.load_state_dict(free.state_dict())
    x = torch.randn(3, 5, 8)

    torch.testing.assert_close(causal(x)[:, -1], free(x)[:, -1])
    torch.testing.assert_close(causal(x)[:, 0], free(x[:, :1])[:, 0])
    assert not torch.allclose(causal(x)[:, 1], free(x)[:, 1])


def test_kept_keys_and_values_give_the_next_token():
    """Two layers of attention, a pass of three tokens and then two of one, against one pass of five."""
    torch.manual_seed(0)
    rotary = Rotary(5, 4)
    stack = Stack(PostNorm(Attention(8, 2, rotary=rotary, causal=True), SwiGLU(8, 8), 8, 1e-5, scale=False) for _ in range(2))
    x, past = torch.randn(3, 5, 8), Past()
    parts = [stack(x[:, :3], past)]
    for place in (3, 4):
        past = Past(tuple(past.now))
        assert past.length == place
        parts.append(stack(x[:, place : place + 1], past))

    torch.testing.assert_close(torch.cat(parts, dim=1), stack(x))
    assert len(past.now) == 4  # keys and values of two calls


def test_layer_is_post_norm_without_parameters_of_its_own():
    """rms(s + mix(s)) with mix = ffn = 0 is s / sqrt(mean s^2 + 1e-5): (3, 4) has mean square 12.5."""

    class Zero(torch.nn.Module):
        def forward(self, s):
            return torch.zeros_like(s)

    layer = PostNorm(Zero(), Zero(), 2, eps=1e-5, scale=False)
    once = torch.tensor([3.0, 4.0]) / (12.5 + 1e-5) ** 0.5

    assert list(layer.parameters()) == []
    torch.testing.assert_close(layer(torch.tensor([[[3.0, 4.0]]])), once[None, None] / (1 + 1e-5) ** 0.5)


def test_rotary_turns_pairs_by_position():
    """Head width 2: position p turns (1, 0) by p radians."""
    turned = Rotary(4, 2)(torch.tensor([1.0, 0.0]).expand(1, 1, 4, 2))

    for position in range(4):
        torch.testing.assert_close(turned[0, 0, position], torch.tensor([math.cos(position), math.sin(position)]))


def test_rotary_scores_depend_on_the_distance_alone():
    torch.manual_seed(0)
    rotary, q, k = Rotary(8, 6), torch.randn(6), torch.randn(6)
    turned_q, turned_k = (rotary(vector.expand(1, 1, 8, 6))[0, 0] for vector in (q, k))
    scores = turned_q @ turned_k.T

    torch.testing.assert_close(scores[0, 3], scores[4, 7])


def test_geglu_by_hand():
    """u = 2x, g = x, down = 3 at x = 1: 3 * 2 * gelu_tanh(1) = 6 * 0.841192."""
    ffn = GEGLU(1, 1, bias=False)
    ffn.up.weight.data, ffn.down.weight.data = torch.tensor([[2.0], [1.0]]), torch.tensor([[3.0]])

    assert ffn(torch.ones(1, 1, 1)).item() == pytest.approx(6 * 0.841192, rel=1e-5)


def test_truncated_normal_keeps_its_deviation():
    torch.manual_seed(0)
    drawn = truncated_normal(torch.empty(200_000), 0.5)

    assert drawn.std().item() == pytest.approx(0.5, rel=0.01)
    assert drawn.abs().max().item() <= 2 * 0.5 / 0.8796
