import math

import pytest
import torch
from torch import nn

from recstudy.models import CaptionTransformer
from recstudy.models.networks.layers import Past
from recstudy.models.networks.transformer_captioners import CaptionTransformerNetwork, sinusoids

WIDTH, HEADS, HIDDEN = 16, 2, 24


def tiny() -> CaptionTransformerNetwork:
    torch.manual_seed(0)
    config = CaptionTransformer(
        width=WIDTH, heads=HEADS, layers=1, ffn_width=HIDDEN, backbone="small", weights="random", tuned=False
    )
    network = config.build((3, 64, 64), 9).eval()
    for weight in network.parameters():
        nn.init.normal_(weight, std=0.3)  # biases and layer norms too
    return network


def copy_attention(theirs: nn.MultiheadAttention, q: list, kv: list, out: nn.Linear) -> None:
    """The weights and biases of queries, then of keys and values."""
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = (torch.cat(parts) for parts in zip(q, kv, strict=True))
    theirs.out_proj.load_state_dict(out.state_dict())


def copy_rest(theirs: nn.Module, ffn: nn.Sequential, norms: list) -> None:
    theirs.linear1.load_state_dict(ffn[0].state_dict())
    theirs.linear2.load_state_dict(ffn[3].state_dict())
    for at, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{at}").load_state_dict(norm.state_dict())


def both(linear: nn.Linear) -> list:
    return [linear.weight.data, linear.bias.data]


def halves(linear: nn.Linear) -> tuple[list, list]:
    """Queries, and keys with values, of a fused matrix."""
    return [part[:WIDTH] for part in both(linear)], [part[WIDTH:] for part in both(linear)]


def test_layers_are_those_of_torchs_transformer():
    """Equations (2)-(3) against torch.nn's encoder and decoder layers with the same weights."""
    network = tiny()
    ours, theirs = network.encoder[0], nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True).eval()
    copy_attention(theirs.self_attn, *halves(ours.attention.qkv), ours.attention.out)
    copy_rest(theirs, ours.ffn, [ours.norm1, ours.norm2])
    y = torch.randn(2, 49, WIDTH)
    torch.testing.assert_close(ours(y), theirs(y), atol=1e-5, rtol=1e-4)

    ours, theirs = network.decoder[0], nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True).eval()
    copy_attention(theirs.self_attn, *halves(ours.attention.qkv), ours.attention.out)
    copy_attention(theirs.multihead_attn, both(ours.see.q), both(ours.see.kv), ours.see.out)
    copy_rest(theirs, ours.ffn, [ours.norm1, ours.norm2, ours.norm3])
    x = torch.randn(2, 5, WIDTH)
    expected = theirs(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5), tgt_is_causal=True)
    torch.testing.assert_close(ours(x, ours.see.keys_values(y), Past()), expected, atol=1e-5, rtol=1e-4)


def test_sinusoids_by_hand():
    """D = 4: rates 1 and 1/100, so place 3 is sin 3, cos 3, sin 0.03, cos 0.03."""
    assert sinusoids(5, 4)[3].tolist() == pytest.approx([math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)], abs=1e-6)


def test_words_are_scaled_and_have_a_place():
    network = tiny()
    tokens = torch.tensor([[1, 5, 5]])

    words = network.words(tokens)

    torch.testing.assert_close(words[0, 2], 4 * network.words.embed.weight[5] + sinusoids(3, WIDTH)[2])
    torch.testing.assert_close(network.words(tokens[:, 2:], first=2)[0, 0], words[0, 2])


def test_places_of_the_image_are_told_apart():
    """The same features in another order are another image, which attention alone would not see."""
    network, images = tiny(), torch.randn(1, 49, 64)
    order = torch.arange(48, -1, -1)

    one, other = (network(seen, (torch.tensor([[1, 5]]),))[0].logits for seen in (images, images[:, order]))

    assert (one - other).abs().max() > 1e-3
