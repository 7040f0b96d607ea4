import pytest
import torch
from torch import nn

from recstudy.models import TRM
from recstudy.models.networks.sequence import MixLayer

SHAPE = (1, 2, 2)


def tiny(shape=SHAPE, **fields):
    torch.manual_seed(0)
    config = TRM(**{"width": 8, "heads": 2, "layers": 1, "prefix": 1, "vocabulary": 16} | fields)
    return config.build(shape, 10)


class Halve(nn.Module):
    def forward(self, s):
        return s / 2


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
    core = tiny(latent_steps=1, networks=2).core
    core.f, core.f_answer = Halve(), nn.Identity()

    y, z = core.cycle(torch.tensor(4.0), torch.tensor(2.0), torch.tensor(0.0), last=True)

    assert (y.item(), z.item()) == (5.0, 3.0)


@pytest.mark.parametrize("act", ["halt only", "continue"])
def test_nothing_halts_at_the_start_and_the_continue_head_is_hrms(act):
    """Weights 0, bias -5."""
    network, images = tiny(act=act), torch.zeros(2, *SHAPE)

    output, _ = network(images, network.start(images))

    assert output.halt.tolist() == [-5.0, -5.0]
    assert (output.proceed is not None) == (act == "continue")


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
