import pytest
import torch
from test_hrm import SHAPE, Grid
from torch import nn

from recstudy.config import RunConfig
from recstudy.models import TRM
from recstudy.models.costs import cost
from recstudy.models.networks.sequence import MixLayer


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


def test_a_single_state_is_updated_n_plus_one_times_with_the_input():
    """Equation (5) with f(s) = s/2, n = 2, x = 4: y goes 2, 3, 3.5, 3.75."""
    core = tiny(latent_steps=2, states="single").core
    core.f = Halve()

    y, z = core.cycle(torch.tensor(4.0), torch.tensor(2.0), torch.empty(0), last=True)

    assert (y.item(), z.numel()) == (3.75, 0)


def test_each_update_of_the_multi_scale_form_has_a_latent_of_its_own():
    """Equation (6) with f(s) = s/2, n = 2, x = 4, y = 2, z = (0, 4): z_1 = (0+4+2+4)/2 = 5, z_2 = (5+4+2+4)/2 = 7.5, and
    y = (2 + 12.5)/2."""
    core = tiny(latent_steps=2, states="multi-scale").core
    core.f = Halve()

    y, z = core.cycle(torch.tensor([4.0]), torch.tensor([2.0]), torch.tensor([0.0, 4.0]), last=True)

    assert (y.tolist(), z.tolist()) == ([7.25], [5.0, 7.5])


def test_with_two_networks_the_answer_has_one_of_its_own():
    one, two = (TRM(vocabulary=11, mixing="mlp", networks=count) for count in (1, 2))
    counts = [cost(RunConfig(data=Grid(side=9), model=model)).params for model in (one, two)]
    core = tiny(latent_steps=1, networks=2).core
    core.f, core.f_answer = Halve(), nn.Identity()

    y, z = core.cycle(torch.tensor(4.0), torch.tensor(2.0), torch.tensor(0.0), last=True)

    assert counts == [5_028_866, 2 * 5_028_866 - 2 * 11 * 512 - 1026]
    assert (y.item(), z.item()) == (5.0, 3.0)


def test_the_continue_head_is_hrms():
    network, images = tiny(act="continue"), torch.zeros(2, *SHAPE)

    output, _ = network(images, network.start(images))

    assert output.proceed is not None
    assert tiny()(images, network.start(images))[0].proceed is None


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


def mixing(length: int, width: int, weight: float) -> MixLayer:
    """A layer of TRM-MLP whose token mixing has this number in every weight, and whose SwiGLU over the width gives 0."""
    layer = MixLayer(TRM(mixing="mlp", width=width, heads=1), length)
    nn.init.constant_(layer.mix.up.weight, weight)
    nn.init.constant_(layer.mix.down.weight, weight)
    nn.init.zeros_(layer.ffn.down.weight)
    return layer


def test_after_token_mixing_the_norm_runs_over_the_tokens():
    """Equation (4) where both SwiGLUs give 0: the columns (3, 4) and (1, 7) have rms sqrt(12.5) and 5, and after it the rows
    have sqrt(0.38) and sqrt(1.62). A norm over the width would leave (1.342, 0.447) and (0.702, 1.228)."""
    s = torch.tensor([[3.0, 1.0], [4.0, 7.0]])

    expected = torch.tensor([[0.72**0.5 / 0.38**0.5, 0.2 / 0.38**0.5], [1.28**0.5 / 1.62**0.5, 1.4 / 1.62**0.5]])
    torch.testing.assert_close(mixing(2, 2, 0.0)(s[None])[0], expected, rtol=1e-5, atol=1e-5)


def test_token_mixing_acts_on_the_sequence():
    """Weights 1/16 and M = 256: up gives u = g = (a + b)/16, down gives 256/16 u silu(u) at both tokens of each dimension."""
    s = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    u = s.sum(0) / 16
    mixed = s + 16 * u * nn.functional.silu(u)
    over_tokens = mixed / mixed.square().mean(0).sqrt()

    expected = over_tokens / over_tokens.square().mean(1, keepdim=True).sqrt()
    torch.testing.assert_close(mixing(2, 2, 1 / 16)(s[None])[0], expected, rtol=1e-4, atol=1e-4)


def test_halting_is_judged_by_one_number():
    images = torch.zeros(2, *SHAPE)
    network = tiny()
    output, _ = network(images, network.start(images))

    assert output.proceed is None
    assert output.halt is not None
    assert output.halt.tolist() == [-5.0, -5.0]  # weights 0, bias -5: nothing halts at the start
