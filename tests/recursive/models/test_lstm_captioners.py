"""Captioners that read words with an LSTM, cell by cell."""

import pytest
import torch

from recstudy.recursive import ImageLSTM, ShowAttendTell, ShowTell

TOKENS = torch.tensor([[1, 4, 5, 2], [1, 7, 2, 0]])


def tiny(kind, **fields):
    torch.manual_seed(0)
    settings = {"width": 8, "backbone": "small", "weights": "random", "tuned": False} | fields
    return kind(**settings).build((3, 64, 64), 9).eval()


def cell(lstm, x, h, c, layer=""):
    """An LSTM's cell by its textbook equations."""
    w_x, w_h, b_x, b_h = (
        getattr(lstm, f"{name}{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    i, f, g, o = (x @ w_x.T + b_x + h @ w_h.T + b_h).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@pytest.mark.parametrize(
    ("kind", "fields"),
    [(ImageLSTM, {"image": "merge"}), (ImageLSTM, {"image": "inject"}), (ShowTell, {})],
    ids=str,
)
def test_an_image_is_added_to_every_token_or_is_the_first_state_or_the_first_word(kind, fields):
    """Equations (L1)-(L3) and (T1)-(T4), where the image's own state gives no logit."""
    network, images = tiny(kind, **fields), torch.randn(2, 256)
    features, added, h, c = network.eyes.project(images), *torch.zeros(3, 2, 8)
    if kind is ShowTell:
        h, c = cell(network.lstm, features, h, c, "_l0")
    elif fields["image"] == "merge":
        added = features
    else:
        h, c = features.chunk(2, dim=-1)
    output, carry = network(images, network.start(images, TOKENS))

    for place in range(4):
        h, c = cell(network.lstm, network.embed.weight[TOKENS[:, place]] + added, h, c, "_l0")
        torch.testing.assert_close(output.logits[:, place], network.answer(h))
    assert (output.logits.shape, output.halt, len(carry)) == ((2, 4, 9), None, 1)


def test_places_that_are_looked_at_word_by_word():
    """Equations (A1)-(A5), place by place."""
    network, a = tiny(ShowAttendTell, width=4, attention=3), torch.rand(2, 196, 64)
    h, c = network.first(a.mean(1)).chunk(2, dim=-1)
    output, _ = network(a, network.start(a, TOKENS))
    maps = network.trace(a, TOKENS)

    for place in range(4):
        e = torch.stack(
            [
                network.score(torch.relu(network.of_place(a[:, p]) + network.of_state(h)))[:, 0]
                for p in range(196)
            ],
            1,
        )
        alpha = e.exp() / e.exp().sum(1, keepdim=True)
        z = torch.sigmoid(network.gate(h)) * sum(alpha[:, p, None] * a[:, p] for p in range(196))
        h, c = cell(network.cell, torch.cat([network.embed.weight[TOKENS[:, place]], z], dim=-1), h, c)
        torch.testing.assert_close(output.logits[:, place], network.answer[1](h))
        torch.testing.assert_close(maps[:, place], alpha)


def test_the_penalty_by_hand():
    """Two places, alpha_c = 2. Caption 1: words follow its first three tokens, which look at the first place
    with 3/4, 1/2 and 1/4 of their attention, 3/2 in all, and at the second as much: (1 - 3/2)^2 twice.
    Caption 2: words follow its first two, which look with 1 and 1/2, 3/2 in all, and with 0 and 1/2: (1 -
        3/2)^2 and (1 - 1/2)^2; what EOS looks at, and PAD,
    counts for nothing. 2 x the mean of four quarters is 1/2."""
    first = torch.tensor([[0.75, 0.5, 0.25, 0.9], [1.0, 0.5, 0.7, 0.8]])
    alpha = torch.stack([first, 1 - first], dim=-1)

    assert tiny(ShowAttendTell, alpha_c=2.0).penalty(alpha, TOKENS).item() == pytest.approx(0.5)
    assert tiny(ShowAttendTell, alpha_c=0.0)(torch.rand(2, 196, 64), (TOKENS,))[0].extra is None
