import math

import pytest
import torch
from scipy.special import expit
from torch import nn

from recstudy.recursive import CaptionTransformer, R2Gen
from recstudy.recursive.models.networks.layers import Past
from recstudy.recursive.models.networks.transformer_captioners import MemoryNorm, RelationalMemory, sinusoids

WIDTH, HEADS, HIDDEN = 16, 2, 24
TINY = {"backbone": "small", "weights": "random", "tuned": False, "heads": 1}


def tiny():
    torch.manual_seed(0)
    config = CaptionTransformer(
        width=WIDTH, heads=HEADS, layers=1, ffn_width=HIDDEN, backbone="small", weights="random", tuned=False
    )
    network = config.build((3, 64, 64), 9).eval()
    for weight in network.parameters():
        nn.init.normal_(weight, std=0.3)  # biases and layer norms too
    return network


def parameters_of(linear):
    return [linear.weight.data, linear.bias.data]


def halves(linear):
    """Queries, and keys with values, of a fused matrix."""
    return [part[:WIDTH] for part in parameters_of(linear)], [part[WIDTH:] for part in parameters_of(linear)]


def copy_attention(theirs, q, kv, projection):
    """The weights and biases of queries, then of keys and values."""
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = (
        torch.cat(parts) for parts in zip(q, kv, strict=True)
    )
    theirs.out_proj.load_state_dict(projection.state_dict())


def copy_rest(theirs, ffn, norms):
    theirs.linear1.load_state_dict(ffn[0].state_dict())
    theirs.linear2.load_state_dict(ffn[3].state_dict())
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


def test_layers_are_those_of_torchs_transformer():
    """Equations (2)-(3) against torch.nn's encoder and decoder layers with the same weights."""
    network = tiny()
    ours, theirs = (
        network.encoder[0],
        nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True).eval(),
    )
    copy_attention(theirs.self_attn, *halves(ours.attention.qkv), ours.attention.out)
    copy_rest(theirs, ours.ffn, [ours.norm1, ours.norm2])
    y = torch.randn(2, 49, WIDTH)
    torch.testing.assert_close(ours(y), theirs(y), atol=1e-5, rtol=1e-4)

    ours, theirs = (
        network.decoder[0],
        nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True).eval(),
    )
    copy_attention(theirs.self_attn, *halves(ours.attention.qkv), ours.attention.out)
    copy_attention(theirs.multihead_attn, parameters_of(ours.see.q), parameters_of(ours.see.kv), ours.see.out)
    copy_rest(theirs, ours.ffn, [ours.norm1, ours.norm2, ours.norm3])
    x = torch.randn(2, 5, WIDTH)
    expected = theirs(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5), tgt_is_causal=True)
    torch.testing.assert_close(ours(x, ours.see.keys_values(y), Past()), expected, atol=1e-5, rtol=1e-4)


def test_words_are_scaled_and_have_a_place():
    """D = 4: rates 1 and 1/100, so place 3 is sin 3, cos 3, sin 0.03, cos 0.03."""
    network, tokens = tiny(), torch.tensor([[1, 5, 5]])
    words = network.words(tokens)

    assert sinusoids(5, 4)[3].tolist() == pytest.approx(
        [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)], abs=1e-6
    )
    torch.testing.assert_close(words[0, 2], 4 * network.words.embed.weight[5] + sinusoids(3, WIDTH)[2])
    torch.testing.assert_close(network.words(tokens[:, 2:], first=2)[0, 0], words[0, 2])


def plain_memory():
    """One slot of width 2. Attention is the mean of memory and word (W_q = 0; values and W_o are identities),
    the network of (3) changes nothing that is positive, I = [x_2, 0] and F = [3 tanh m_1, 0]."""
    memory = RelationalMemory(R2Gen(**TINY, width=2, slots=1)).eval()
    for weight in memory.parameters():
        nn.init.zeros_(weight)
    memory.see.kv.weight.data[2:] = torch.eye(2)
    for layer in (memory.see.out, memory.mlp[0], memory.mlp[2]):
        nn.init.eye_(layer.weight)
    memory.of_word.weight.data[0, 1] = 1.0
    memory.of_memory.weight.data[2, 0] = 3.0
    return memory


def test_the_memory_update_by_hand():
    """m = [1, 0], x = [0, 2]: attention gives [1/2, 1], so A = [3/2, 1], and [3, 2] with the network of (3);
    I = [2, 0] and F = [3 tanh 1, 0]: m = [s(2) tanh 3 + s(3 tanh 1), tanh(2) / 2]. A second word x = 0 starts
    from there."""
    memory, words = plain_memory(), torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])
    start = memory.start(words)
    output, last = memory(words, start)

    assert start.tolist() == [[[1.0, 0.0]]]
    m = [expit(2) * math.tanh(3) + expit(3 * math.tanh(1)), math.tanh(2) / 2]
    assert output[0, 0].tolist() == pytest.approx(m, rel=1e-5)
    m = [math.tanh(3 * m[0]) / 2 + expit(3 * math.tanh(m[0])) * m[0], math.tanh(3 * m[1]) / 2 + m[1] / 2]
    assert output[0, 1].tolist() == pytest.approx(m, rel=1e-5)
    assert torch.equal(last.flatten(1), output[:, 1])
    rows = RelationalMemory(R2Gen(**TINY, width=5, slots=3)).start(torch.zeros(2, 1, 5))
    assert rows.tolist() == [[[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]] * 2


def test_memory_driven_layer_norm_by_hand():
    """x = [1, 3] is normalised to [-1, 1]. G and B see m = [2, 0]: their first layer gives relu([2, 0] + 0.1)
    = [2.1, 0.1], their second, an identity, adds 0.1: [2.2, 0.2]. So (1 + 2.2)(-1) + 0 + 2.2 = -1 and (1 +
    0.2)(1) + 0.2 = 1.4."""
    norm = MemoryNorm(R2Gen(**TINY, width=2, slots=1))
    for layer in (*norm.scale, *norm.shift):
        if isinstance(layer, nn.Linear):
            nn.init.eye_(layer.weight)

    assert norm(torch.tensor([[[1.0, 3.0]]]), torch.tensor([[[2.0, 0.0]]]))[0, 0].tolist() == pytest.approx(
        [-1.0, 1.4], abs=1e-4
    )
