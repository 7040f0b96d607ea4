import pytest
import torch
from torch import nn

from recstudy.recursive.models.networks.layers import (
    GEGLU,
    Attention,
    GeluMLP,
    Rotary,
    SwiGLU,
    TransformerLayer,
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


@pytest.mark.parametrize(
    ("ffn", "expected_up", "expected_down", "expected"),
    [
        (SwiGLU(1, 1, bias=False), [2.0, 3.0], 5.0, 5 * 2 * 3 * 0.952574),  # u = 2x, g = 3x, sigmoid(3)
        (GEGLU(1, 1, bias=False), [2.0, 1.0], 3.0, 3 * 2 * 0.841192),  # u = 2x, gelu_tanh(1)
        (GeluMLP(1, 1), [1.0], 1.0, 0.841345),  # Phi(1)
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_feed_forward_by_hand(ffn, expected_up, expected_down, expected):
    """Width 1, hidden 1, at x = 1."""
    zeros = {name: torch.zeros_like(value) for name, value in ffn.state_dict().items()}
    ffn.load_state_dict(
        zeros
        | {"up.weight": torch.tensor(expected_up)[:, None], "down.weight": torch.tensor([[expected_down]])}
    )

    assert ffn(torch.ones(1, 1, 1)).item() == pytest.approx(expected, rel=1e-5)


def test_tokens_in_bfloat16_are_rotated_in_float32():
    rotary, x = Rotary(9, 8), torch.randn(2, 1, 9, 8).bfloat16()

    assert torch.equal(rotary(x), rotary(x.float()).bfloat16())


@pytest.mark.parametrize(("norm", "expected"), [("pre", [2.0, 4.0]), ("post", [-1.0, 1.0])])
def test_norm_is_before_the_branches_or_after_the_sums(norm, expected):
    """Both branches give 0: pre-norm leaves (2, 4) as it is, post-norm standardises it to (-1, 1)."""
    branches = Attention(2, 1, 0.0), SwiGLU(2, 2)
    for weight in (*branches[0].parameters(), *branches[1].parameters()):
        nn.init.zeros_(weight)
    layer = TransformerLayer(*branches, 2, norm, dropout=0.0)

    torch.testing.assert_close(
        layer(torch.tensor([[[2.0, 4.0]]]))[0, 0], torch.tensor(expected), atol=1e-4, rtol=0
    )
