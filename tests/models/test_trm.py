import pytest
import torch
from test_hrm import SHAPE, Grid
from torch import nn

from recstudy.config import RunConfig
from recstudy.models import TRM
from recstudy.models.cost import cost
from recstudy.models.networks.layers import TokenMix


def tiny(shape=SHAPE, **fields):
    torch.manual_seed(0)
    config = TRM(**{"width": 8, "heads": 2, "layers": 1, "prefix": 1, "vocabulary": 16} | fields)
    return config.build(shape, 10)


class Halve(nn.Module):
    def forward(self, s):
        return s / 2


@pytest.mark.parametrize(
    ("model", "side", "params"),
    [
        (TRM(vocabulary=12, latent_steps=4), 30, 6_829_058),
        (TRM(vocabulary=11, mixing="mlp"), 9, 5_028_866),
        (TRM(vocabulary=11, mixing="mlp"), 30, 18_800_642),
    ],
    ids=["attention, ARC", "mlp, Sudoku", "mlp, 30x30"],
)
def test_counts_to_the_digit(model, side, params):
    data = Grid(side=side)

    assert cost(RunConfig(data=data, model=model)).params == params


def test_cycle_refines_z_steps_times_then_y_once():
    """Equations (1)-(2) with f(s) = s/2, n = 3, x = 4, y = 2: z goes 0, 3, 4.5, 5.25 and y ends at (2 + 5.25)/2."""
    core = tiny(latent_steps=3).core
    core.f = Halve()

    y, z = core.cycle(torch.tensor(4.0), torch.tensor(2.0), torch.tensor(0.0), last=True)

    assert (y.item(), z.item()) == (3.625, 5.25)


def test_a_segment_calls_the_net_t_times_n_plus_one():
    calls = []

    class Count(nn.Module):
        def forward(self, s):
            calls.append(torch.is_grad_enabled())
            return s

    network = tiny(cycles=3, latent_steps=6)
    network.core.f = Count()
    images = torch.zeros(1, *SHAPE)
    network(images, network.start(images))

    assert calls == [False] * 14 + [True] * 7


def test_last_cycle_gradient_equals_a_graph_cut_by_hand():
    network = tiny(cycles=2, latent_steps=2)
    images = torch.randint(0, 256, (3, *SHAPE)).float()
    output, _ = network(images, network.start(images))
    ours = torch.autograd.grad(output.logits.square().sum(), list(network.core.f.parameters()))

    f, x = network.core.f, network.sequence(images, torch.zeros(3, dtype=torch.int64))[:, 0]
    y, z = (state.expand(3, 5, -1) for state in (network.core.z_high, network.core.z_low))
    for _ in range(2):
        y, z = y.detach(), z.detach()  # what counts is the cut before the second cycle
        for _ in range(2):
            z = f(z + y + x)
        y = f(y + z)
    expected = torch.autograd.grad(network.answer(y[:, 1]).square().sum(), list(f.parameters()))

    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_token_mixing_acts_on_the_sequence():
    """A SwiGLU over S = 2 positions with weights 1: up gives u = g = a + b, down gives u silu(u) at both positions."""
    mix = TokenMix(2, 1)
    for weight in mix.parameters():
        nn.init.ones_(weight)
    a, b = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])
    u = a + b

    torch.testing.assert_close(mix(torch.stack([a, b])[None])[0], (u * nn.functional.silu(u)).expand(2, 2))


def test_halting_is_judged_by_one_number():
    images = torch.zeros(2, *SHAPE)
    network = tiny()
    output, _ = network(images, network.start(images))

    assert output.proceed is None
    assert output.halt is not None
    assert output.halt.tolist() == [-5.0, -5.0]  # weights 0, bias -5: nothing halts at the start
