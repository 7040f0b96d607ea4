import pytest
import torch

from recstudy.models import ShowAttendTell
from recstudy.models.networks.lstm_captioners import ShowAttendTellNetwork

TOKENS = torch.tensor([[1, 4, 5, 2], [1, 7, 2, 0]])


def tiny(**fields) -> ShowAttendTellNetwork:
    torch.manual_seed(0)
    config = {"width": 4, "attention": 3, "backbone": "small", "weights": "random", "tuned": False} | fields
    return ShowAttendTell(**config).build((3, 64, 64), 9).eval()


def test_equations_word_by_word():
    """(1)-(5) place by place, with an LSTM cell by its textbook equations."""
    network, a = tiny(), torch.rand(2, 196, 64)
    h, c = network.first(a.mean(1)).chunk(2, dim=-1)
    output, _ = network(a, network.start(a, TOKENS))

    cell = network.cell
    for place in range(4):
        e = torch.stack([network.score(torch.relu(network.of_place(a[:, p]) + network.of_state(h)))[:, 0] for p in range(196)], 1)
        alpha = e.exp() / e.exp().sum(1, keepdim=True)
        z = torch.sigmoid(network.gate(h)) * sum(alpha[:, p, None] * a[:, p] for p in range(196))
        x = torch.cat([network.embed.weight[TOKENS[:, place]], z], dim=-1)
        gates = x @ cell.weight_ih.T + cell.bias_ih + h @ cell.weight_hh.T + cell.bias_hh
        i, f, g, o = gates.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        torch.testing.assert_close(output.logits[:, place], network.answer[1](h))


def test_attention_maps_sum_to_one():
    network, a = tiny(), 9 * torch.randn(2, 196, 64)

    trace = network.trace(a, TOKENS)

    assert trace.attention.shape == (2, 4, 196)
    torch.testing.assert_close(trace.attention.sum(-1), torch.ones(2, 4))
    assert trace.attention.std(-1).min() > 1e-4  # and are no constants


def test_the_penalty_by_hand():
    """Two places, alpha_c = 2. Caption 1: words follow its first three tokens, which look at the first place with 3/4, 1/2
    and 1/4 of their attention, 3/2 in all, and at the second as much: (1 - 3/2)^2 twice. Caption 2: words follow its first
    two, which look with 1 and 1/2, 3/2 in all, and with 0 and 1/2: (1 - 3/2)^2 and (1 - 1/2)^2; what EOS looks at, and PAD,
    counts for nothing. 2 x the mean of four quarters is 1/2."""
    first = torch.tensor([[0.75, 0.5, 0.25, 0.9], [1.0, 0.5, 0.7, 0.8]])
    alpha = torch.stack([first, 1 - first], dim=-1)

    assert tiny(alpha_c=2.0).penalty(alpha, TOKENS).item() == pytest.approx(0.5)


def test_the_penalty_is_off_at_zero_and_knows_no_padding():
    a, padded = torch.rand(2, 196, 64), torch.cat([TOKENS, torch.zeros(2, 3, dtype=torch.int64)], dim=1)
    network = tiny()

    short, long = (network(a, network.start(a, tokens))[0].extra for tokens in (TOKENS, padded))

    torch.testing.assert_close(short, long)
    assert short.shape == ()
    assert tiny(alpha_c=0.0)(a, (TOKENS,))[0].extra is None
