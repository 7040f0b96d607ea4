import math

import pytest
import torch
from torch import nn

from recstudy.models import R2Gen
from recstudy.models.networks.transformer_captioners import MemoryNorm, RelationalMemory

TINY = {"backbone": "small", "weights": "random", "tuned": False, "heads": 1}


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def plain_memory() -> RelationalMemory:
    """One slot of width 2. Attention is the mean of memory and word (W_q = 0; values and W_o are identities), the network
    of (3) changes nothing that is positive, I = [x_2, 0] and F = [3 tanh m_1, 0]."""
    memory = RelationalMemory(R2Gen(**TINY, width=2, slots=1)).eval()
    for weight in memory.parameters():
        nn.init.zeros_(weight)
    one = torch.eye(2)
    memory.see.kv.weight.data[2:] = one
    for layer in (memory.see.out, memory.mlp[0], memory.mlp[2]):
        layer.weight.data = one.clone()
    memory.of_word.weight.data[0, 1] = 1.0
    memory.of_memory.weight.data[2, 0] = 3.0
    return memory


def test_the_memory_update_by_hand():
    """m = [1, 0], x = [0, 2]: attention gives [1/2, 1], so A = [3/2, 1], and [3, 2] with the network of (3); I = [2, 0] and
    F = [3 tanh 1, 0]: m = [s(2) tanh 3 + s(3 tanh 1), tanh(2) / 2]. A second word x = 0 starts from there."""
    memory = plain_memory()
    words = torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])
    start = memory.start(words)

    after, last = memory(words, start)

    assert start.tolist() == [[[1.0, 0.0]]]
    m = [sigmoid(2) * math.tanh(3) + sigmoid(3 * math.tanh(1)), math.tanh(2) / 2]
    assert after[0, 0].tolist() == pytest.approx(m, rel=1e-5)
    a = [2 * 1.5 * value for value in m]
    m = [math.tanh(a[0]) / 2 + sigmoid(3 * math.tanh(m[0])) * m[0], math.tanh(a[1]) / 2 + m[1] / 2]
    assert after[0, 1].tolist() == pytest.approx(m, rel=1e-5)
    assert torch.equal(last.flatten(1), after[:, 1])


def test_the_memory_starts_with_identity_rows():
    """Three slots of width 5, zeros behind."""
    memory = RelationalMemory(R2Gen(**TINY, width=5, slots=3))

    assert memory.start(torch.zeros(2, 1, 5)).tolist() == [[[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]] * 2


def test_memory_driven_layer_norm_by_hand():
    """x = [1, 3] is normalised to [-1, 1]. G and B see m = [2, 0]: their first layer gives relu([2, 0] + 0.1) = [2.1, 0.1],
    their second, an identity, adds 0.1: [2.2, 0.2]. So (1 + 2.2)(-1) + 0 + 2.2 = -1 and (1 + 0.2)(1) + 0.2 = 1.4."""
    norm = MemoryNorm(R2Gen(**TINY, width=2, slots=1))
    for layer in (*norm.scale, *norm.shift):
        if isinstance(layer, nn.Linear):
            layer.weight.data = torch.eye(2)

    found = norm(torch.tensor([[[1.0, 3.0]]]), torch.tensor([[[2.0, 0.0]]]))

    assert found[0, 0].tolist() == pytest.approx([-1.0, 1.4], abs=1e-4)


def test_the_memory_reaches_the_words():
    """Without it (all of G's and B's weights 0) every decoder layer is a plain pre-norm one, and logits differ."""
    torch.manual_seed(0)
    network = R2Gen(**TINY | {"heads": 2}, width=16, layers=1, ffn_width=24).build((3, 64, 64), 9).eval()
    images, tokens = torch.randn(1, 49, 64), torch.tensor([[1, 5, 6]])
    with_memory = network(images, (tokens,))[0].logits
    for layer in network.decoder[0].children():
        if isinstance(layer, MemoryNorm):
            for weight in (*layer.scale.parameters(), *layer.shift.parameters()):
                nn.init.zeros_(weight)

    assert (network(images, (tokens,))[0].logits - with_memory).abs().max() > 1e-2
