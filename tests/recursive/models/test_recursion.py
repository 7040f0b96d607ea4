"""Which updates a recursion makes, what they compute, and which of them carry gradient: by hand, and family
by family.
"""

import pytest
import torch
from torch import nn

from recstudy.recursive import HRM, TRM, HRMImage, ImageHRM, ImageTRM, ViTRM
from recstudy.recursive.models.networks.recursion import nested, schedule

GRIDS, IMAGES = torch.zeros(2, 1, 2, 2), torch.zeros(2, 1, 4, 4)
FEATURES, TOKENS = torch.zeros(2, 256), torch.tensor([[1, 4, 5, 6], [1, 7, 4, 2]])
NET = {"width": 8, "heads": 2}
SEQUENCE = NET | {"vocabulary": 16}
CAPTION = NET | {"backbone": "small", "weights": "random"}


@pytest.mark.parametrize(
    ("top_down", "expected"),
    [
        ("literal", (3.0, 5.5, 10.75)),  # z_L (2+0+4)/2 = 3; z_M (8+0+3)/2 = 5.5; z_H (16+5.5)/2 = 10.75
        ("chain", (7.0, 15.5, 15.75)),  # z_L (2+8+4)/2 = 7; z_M (8+16+7)/2 = 15.5; z_H (16+15.5)/2 = 15.75
        # z_L (2+8+16+4)/2 = 15; z_M (8+16+15)/2 = 19.5; z_H (16+19.5)/2 = 17.75
        ("full", (15.0, 19.5, 17.75)),
    ],
)
def test_one_cycle_of_three_levels_by_hand(top_down, expected):
    """f(s) = s / 2, x = 4, z_L = 2, z_M = 8, z_H = 16; one cycle of each."""
    states = [torch.tensor(value) for value in (2.0, 8.0, 16.0)]
    states_out = nested(
        [lambda s: s / 2] * 3, list(schedule((1, 1, 1))), torch.tensor(4.0), states, top_down, "full_bptt"
    )

    assert tuple(state.item() for state in states_out) == expected


def cut_by_hand(f_low, f_high, x, high, low, mode):
    """Two cycles of two low updates and a high one, cut where the mode ends its gradient."""
    for cycle in range(2):
        if cycle and mode == "last_cycle":
            high, low = high.detach(), low.detach()
        for step in range(2):
            if cycle and step and mode == "one_step":
                high, low = high.detach(), low.detach()
            low = f_low(low + high + x)
        high = f_high(high + low)
    return high


@pytest.mark.parametrize("mode", ["one_step", "last_cycle", "full_bptt"])
def test_the_gradient_is_that_of_a_graph_cut_by_hand(mode):
    torch.manual_seed(0)
    f_low, f_high = nn.Linear(4, 4), nn.Linear(4, 4)
    x, high, low = (torch.randn(2, 4, requires_grad=True) for _ in range(3))
    weights = [*f_low.parameters(), *f_high.parameters(), x, high, low]
    states = (
        nested([f_low, f_high], list(schedule((2, 2))), x, [low, high], "chain", mode)[1],
        cut_by_hand(f_low, f_high, x, high, low, mode),
    )
    gradients = [torch.autograd.grad(z.square().sum(), weights, allow_unused=True) for z in states]

    torch.testing.assert_close(*states)
    for mine, expected in zip(*gradients, strict=True):
        assert (mine is None) == (expected is None)
        if expected is not None:
            torch.testing.assert_close(mine, expected)
    assert (gradients[0][-1] is None) == (mode != "full_bptt")


class Recorder(nn.Module):
    """Writes its letter where it is called: a capital with gradient."""

    def __init__(self, letter, calls):
        super().__init__()
        self.letter, self.calls = letter, calls

    def forward(self, s, past=None, read=slice(None)):
        self.calls.append(self.letter.upper() if torch.is_grad_enabled() else self.letter)
        return s[:, read] if s.dim() == 3 else s


def updates(model):
    """The updates of one segment."""
    caption = model.family in ("image_hrm", "image_trm")
    inputs = (FEATURES, TOKENS) if caption else (IMAGES if model.family in ("hrm_image", "vitrm") else GRIDS,)
    network = model.build((3, 64, 64) if caption else inputs[0].shape[1:], 9)
    place, calls = getattr(network, "core", network), []
    for name, letter in (("f_low", "l"), ("f_high", "h")):
        if hasattr(place, name):
            setattr(place, name, Recorder(letter, calls))
    if isinstance(getattr(place, "f", None), nn.ModuleDict):
        place.f = nn.ModuleDict({name: Recorder(name[0], calls) for name in place.f})
    elif model.family == "vitrm":
        place.f = nn.ModuleList([Recorder("z", calls), Recorder("y", calls)])
    elif hasattr(place, "f"):
        place.f = Recorder("f", calls)
    network(inputs[0], network.start(*inputs))
    return "".join(calls)


@pytest.mark.parametrize(
    ("model", "default", "one_step", "last_cycle", "full_bptt"),
    [
        (HRM(**SEQUENCE, high_cycles=2, low_cycles=2), "one_step", "llhlLH", "llhLLH", "LLHLLH"),
        (
            HRMImage(**NET, patch=2, high_cycles=2, low_cycles=3),
            "one_step",
            "lllhllLH",
            "lllhLLLH",
            "LLLHLLLH",
        ),
        (TRM(**SEQUENCE, cycles=3, latent_steps=2), "last_cycle", "fffffffFF", "ffffffFFF", "FFFFFFFFF"),
        (
            ImageHRM(**CAPTION, high_cycles=2, middle_cycles=1, low_cycles=2),
            "one_step",
            "llmhlLMH",
            "llmhLLMH",
            "LLMHLLMH",
        ),
        (
            ImageHRM(**CAPTION, high_cycles=2, middle_cycles=0, low_cycles=2),
            "one_step",
            "llhlLH",
            "llhLLH",
            "LLHLLH",
        ),
        (ImageTRM(**CAPTION, cycles=3, latent_steps=2), "full_bptt", "fffffffFF", "ffffffFFF", "FFFFFFFFF"),
        (
            ViTRM(**NET, patch=2, cycles=2, latent_steps=2, latent_tokens=3, blocks=2),
            "full_bptt",
            "zzyzZY",
            "zzyZZY",
            "ZZYZZY",
        ),
    ],
    ids=["HRM", "HRM-Small-Images", "TRM", "ImageHRM, triple", "ImageHRM, dual", "ImageTRM", "ViTRM"],
)
def test_the_updates_of_a_segment_and_which_carry_gradient(model, default, one_step, last_cycle, full_bptt):
    """The paper's mode is the default."""
    gradients = [
        updates(model.model_copy(update={"gradient": mode}))
        for mode in ("one_step", "last_cycle", "full_bptt")
    ]

    assert (model.gradient, *gradients) == (default, one_step, last_cycle, full_bptt)
