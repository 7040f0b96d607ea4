import pytest
import torch
from torch import nn

from recstudy.config import RunConfig, TrainConfig
from recstudy.data import Sudoku
from recstudy.models import TRM
from recstudy.models.costs import cost
from recstudy.models.networks.sequence import MixLayer
from recstudy.testing import make_training

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


def test_a_single_state_is_updated_n_times_with_the_input_then_once_without():
    """Equation (4) with f(s) = s/2, n = 2, x = 4: y goes 2, 3, 3.5, 1.75."""
    core = tiny(latent_steps=2, states="single").core
    core.f = Halve()

    y, z = core.cycle(torch.tensor(4.0), torch.tensor(2.0), torch.empty(0), last=True)

    assert (y.item(), z.numel()) == (1.75, 0)


def test_twenty_updates_of_a_single_state_are_those_of_the_equations_written_out():
    """Equations (4), (L2), (7) and (8) by hand in float64: T = n = 2, two cells behind one empty position, gradients through
    the last cycle; both trained by twenty steps of gradient descent."""
    network = tiny((1, 1, 2), tokens="cell", states="single", mixing="mlp", cycles=2, latent_steps=2, multiple=8).double()
    weights = {name: value.detach().clone().requires_grad_() for name, value in network.named_parameters()}
    puzzles, answers = torch.tensor([[3, 7], [9, 1]]), torch.tensor([[5, 2], [6, 8]])

    def rms(s, axis):
        return s / (s.square().mean(axis, keepdim=True) + 1e-5).sqrt()

    def swiglu(s, name):
        up, gate = (s @ weights[f"core.f.0.{name}.up.weight"].T).chunk(2, -1)
        return (up * nn.functional.silu(gate)) @ weights[f"core.f.0.{name}.down.weight"].T

    def f(s):
        s = rms(s + swiglu(s.mT, "mix").mT, 1)
        return rms(s + swiglu(s, "ffn"), 2)

    def by_hand():
        cells = 8**0.5 * weights["embed.weight"][puzzles]
        x = torch.cat([torch.zeros(2, 1, 8), cells], 1)
        with torch.no_grad():
            y = f(f(f(network.core.z_high.expand(2, 3, 8) + x) + x))
        y = f(f(f(y + x) + x))
        return y[:, 1:] @ weights["answer.weight"].T

    def loss(logits):
        return nn.functional.cross_entropy(logits.flatten(0, 1), answers.flatten())

    losses = []
    for _ in range(20):
        output, _ = network(puzzles.view(2, 1, 1, 2), network.start(puzzles))
        torch.testing.assert_close(output.logits, by_hand(), rtol=1e-8, atol=1e-8)
        for told, parameters in ((output.logits, list(network.parameters())), (by_hand(), list(weights.values()))):
            gradients = torch.autograd.grad(loss(told), parameters, allow_unused=True)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if gradient is not None:
                        parameter -= 0.05 * gradient
        losses.append(loss(output.logits).item())

    assert losses[-1] < 0.5 * losses[0]


def test_each_update_of_the_multi_scale_form_has_a_latent_of_its_own():
    """Equation (5) with f(s) = s/2, n = 2, x = 4, y = 2, z = (0, 4): z_1 = (0+4+2+4)/2 = 5, z_2 = (5+4+2+4)/2 = 7.5, and
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
    """Equation (L2) where both SwiGLUs give 0: the columns (3, 4) and (1, 7) have rms sqrt(12.5) and 5, and after it the rows
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


def test_recursion_deepens_in_thirds_in_training_and_is_whole_at_test():
    """Equation (6) with T = 2 and n = 6: (1, 2) in the first 30 % of the updates, (2, 4) to 60 %, then (2, 6)."""
    network = tiny(cycles=2, latent_steps=6, curriculum="thirds")
    depths = {}
    for share in (0.0, 0.29, 0.3, 0.59, 0.6, 0.99):
        network.deepen(share)
        depths[share] = network.core.depth

    assert depths == {0.0: (1, 2), 0.29: (1, 2), 0.3: (2, 4), 0.59: (2, 4), 0.6: (2, 6), 0.99: (2, 6)}
    network.deepen(0.0)
    assert network.eval().core.depth == (2, 6)


def test_without_a_curriculum_recursion_is_whole_from_the_first_update_on():
    network = tiny(cycles=2, latent_steps=6)
    network.deepen(0.0)

    assert network.core.depth == (2, 6)


def test_a_curriculum_runs_through_while_a_run_trains_and_costs_what_its_stages_cost():
    """Three epochs of three updates, of which the depth is set before each: cycles 1, 1, 1, 2, 2, 2, then 3, 3, 3.
    A training step costs 0.3 of that of T = 1, 0.3 of T = 2 and 0.4 of T = 3."""
    model = TRM(tokens="cell", width=8, heads=2, layers=1, prefix=1, cycles=3, latent_steps=1, curriculum="thirds")
    train = {"epochs": 3, "batch_size": 8, "halting": "sample", "supervision_steps": 2, "selection": "last", "schedule": "update"}
    config = RunConfig(data=Sudoku(side=4, limit=24), model=model, train=TrainConfig(**train))
    run, seen = make_training(config), []
    run.state.network.register_forward_pre_hook(lambda network, _: seen.append(network.core.depth) if network.training else None)
    list(run.epochs())

    assert [cycles for cycles, _ in seen] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    fixed = [cost(config.with_changes({"model.curriculum": "none", "model.cycles": t})).train_gflops for t in (1, 2, 3)]
    assert cost(config).train_gflops == pytest.approx(0.3 * fixed[0] + 0.3 * fixed[1] + 0.4 * fixed[2])
