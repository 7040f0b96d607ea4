"""Which updates a recursion makes, what they compute, and which of them carry gradient: by hand, and family by family."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from recstudy.config import RunConfig, TrainConfig
from recstudy.data import ImageFolder
from recstudy.models import HRM, TRM, HRMImage, ImageHRM, ImageTRM, ViTRM
from recstudy.models.networks.recursion import hierarchy, nested, schedule

STEP = Path(__file__).parents[1] / "step_memory.py"
DATA = ImageFolder(path="grids", class_count=10, size=16, channels=1)
GRIDS, IMAGES = torch.zeros(2, 1, 2, 2), torch.zeros(2, 1, 4, 4)
FEATURES, TOKENS = torch.zeros(2, 256), torch.tensor([[1, 4, 5, 6], [1, 7, 4, 2]])
NET = {"width": 8, "heads": 2}
SEQUENCE = NET | {"vocabulary": 16}
CAPTION = NET | {"backbone": "small", "weights": "random"}


def test_low_and_high_updates_by_hand():
    """f_L(s) = s/2, f_H(s) = s + 10; N = 2, T = 2, x = 4, z_L = 0, z_H = 2.

    First cycle: z_L (0+2+4)/2 = 3, (3+2+4)/2 = 4.5; z_H 2+4.5+10 = 16.5.
    Second: z_L (4.5+16.5+4)/2 = 12.5, (12.5+16.5+4)/2 = 16.5; z_H 16.5+16.5+10 = 43.
    """
    z_high, z_low = hierarchy(
        lambda s: s / 2, lambda s: s + 10, torch.tensor(4.0), torch.tensor(2.0), torch.tensor(0.0),
        cycles=2, steps=2, mode="one_step",
    )  # fmt: skip

    assert (z_low.item(), z_high.item()) == (16.5, 43.0)


def test_a_level_runs_all_its_cycles_before_each_update_above():
    """C_L, C_M, C_H = 2, 1, 2; the second high cycle is the last, and the last update of each level is in it."""
    turns = list(schedule((2, 1, 2)))

    assert "".join("LMH"[turn.level] for turn in turns) == "LLMHLLMH"
    assert [turn.last_cycle for turn in turns] == [False] * 4 + [True] * 4
    assert [turn.last_step for turn in turns] == [False] * 5 + [True] * 3


@pytest.mark.parametrize(
    ("top_down", "expected"),
    [
        # z_L (2+0+4)/2 = 3; z_M (8+0+3)/2 = 5.5; z_H (16+5.5)/2 = 10.75
        ("literal", (3.0, 5.5, 10.75)),
        # z_L (2+8+4)/2 = 7; z_M (8+16+7)/2 = 15.5; z_H (16+15.5)/2 = 15.75
        ("chain", (7.0, 15.5, 15.75)),
        # z_L (2+8+16+4)/2 = 15; z_M (8+16+15)/2 = 19.5; z_H (16+19.5)/2 = 17.75
        ("full", (15.0, 19.5, 17.75)),
    ],
)
def test_one_cycle_of_three_levels_by_hand(top_down, expected):
    """f(s) = s / 2, x = 4, z_L = 2, z_M = 8, z_H = 16; one cycle of each."""
    halve = [lambda s: s / 2] * 3
    states = [torch.tensor(value) for value in (2.0, 8.0, 16.0)]

    found = nested(halve, list(schedule((1, 1, 1))), torch.tensor(4.0), states, top_down, "full_bptt")

    assert tuple(state.item() for state in found) == expected


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
def test_the_gradient_is_that_of_a_graph_cut_by_hand_and_two_levels_are_one_hierarchy(mode):
    torch.manual_seed(0)
    f_low, f_high = nn.Linear(4, 4), nn.Linear(4, 4)
    x, high, low = (torch.randn(2, 4, requires_grad=True) for _ in range(3))
    weights = [*f_low.parameters(), *f_high.parameters(), x, high, low]

    ours = hierarchy(f_low, f_high, x, high, low, cycles=2, steps=2, mode=mode)[0]
    two = nested([f_low, f_high], list(schedule((2, 2))), x, [low, high], "chain", mode)[1]
    by_hand = cut_by_hand(f_low, f_high, x, high, low, mode)

    assert torch.equal(ours, two)
    gradients = [torch.autograd.grad(z.square().sum(), weights, allow_unused=True) for z in (ours, two, by_hand)]
    for mine, other, expected in zip(*gradients, strict=True):
        assert (mine is None) == (other is None) == (expected is None)
        if expected is not None:
            assert torch.equal(mine, other)
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
    given = (FEATURES, TOKENS) if caption else (IMAGES if model.family in ("hrm_image", "vitrm") else GRIDS,)
    network = model.build((3, 64, 64) if caption else given[0].shape[1:], 9)
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
    network(given[0], network.start(*given))
    return "".join(calls)


@pytest.mark.parametrize(
    ("model", "one_step", "last_cycle", "full_bptt"),
    [
        (HRM(**SEQUENCE, high_cycles=2, low_cycles=2), "llhlLH", "llhLLH", "LLHLLH"),
        (HRMImage(**NET, patch=2, high_cycles=2, low_cycles=3), "lllhllLH", "lllhLLLH", "LLLHLLLH"),
        (TRM(**SEQUENCE, cycles=3, latent_steps=2), "fffffffFF", "ffffffFFF", "FFFFFFFFF"),
        (ImageHRM(**CAPTION, high_cycles=2, middle_cycles=1, low_cycles=2), "llmhlLMH", "llmhLLMH", "LLMHLLMH"),
        (ImageHRM(**CAPTION, high_cycles=2, middle_cycles=0, low_cycles=2), "llhlLH", "llhLLH", "LLHLLH"),
        (ImageTRM(**CAPTION, cycles=3, latent_steps=2), "fffffffFF", "ffffffFFF", "FFFFFFFFF"),
        (ViTRM(**NET, patch=2, cycles=2, latent_steps=2, latent_tokens=3, blocks=2), "zzyzZY", "zzyZZY", "ZZYZZY"),
    ],
    ids=["HRM", "HRM-Small-Images", "TRM", "ImageHRM, triple", "ImageHRM, dual", "ImageTRM", "ViTRM"],
)
def test_the_updates_of_a_segment_and_which_carry_gradient(model, one_step, last_cycle, full_bptt):
    found = [updates(model.model_copy(update={"gradient": mode})) for mode in ("one_step", "last_cycle", "full_bptt")]

    assert found == [one_step, last_cycle, full_bptt]


def test_the_papers_modes_are_the_defaults():
    modes = {kind.__name__: kind.model_fields["gradient"].default for kind in (HRM, HRMImage, ImageHRM, TRM, ImageTRM, ViTRM)}

    assert modes == dict.fromkeys(("HRM", "HRMImage", "ImageHRM"), "one_step") | {"TRM": "last_cycle"} | dict.fromkeys(
        ("ImageTRM", "ViTRM"), "full_bptt"
    )


def peaks_of_a_step(*models: HRM) -> list[int]:
    """Bytes: the peak of a process that trains one step of 8 images, above what it holds before."""
    configs = [RunConfig(data=DATA, model=model, train=TrainConfig(batch_size=8)).values for model in models]
    command = [sys.executable, str(STEP), *map(json.dumps, configs)]
    done = subprocess.run(command, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, stdout=subprocess.PIPE, check=True)
    return [int(line) for line in done.stdout.split()]


@pytest.mark.whole
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel keeps no book of a process's peak")
def test_peak_memory_of_a_step_is_the_same_at_any_depth():
    """N = T = 2 and N = T = 8 within 5 %. With the gradient through all 72 updates it is many times that, so the peak tells."""
    model = HRM(vocabulary=12, width=64, heads=2, high_layers=1, low_layers=1, high_cycles=2, low_cycles=2)  # 0.13 M parameters
    deeper = model.model_copy(update={"high_cycles": 8, "low_cycles": 8})

    shallow, deep, everything = peaks_of_a_step(model, deeper, deeper.model_copy(update={"gradient": "full_bptt"}))

    assert deep == pytest.approx(shallow, rel=0.05)
    assert everything > 5 * deep
