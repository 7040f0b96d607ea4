import pytest
import torch
from torch import nn

from recstudy.recursive import TRM, RunConfig, Sudoku, TrainConfig
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.models.costs import cost

SHAPE = (1, 2, 2)


def tiny(shape=SHAPE, **fields):
    torch.manual_seed(0)
    config = TRM(**{"width": 8, "heads": 2, "layers": 1, "prefix": 1, "vocabulary": 16} | fields)
    return config.build(shape, 10)


class Halve(nn.Module):
    def forward(self, s):
        return s / 2


@pytest.mark.parametrize(
    ("fields", "z", "expected_y", "expected_z"),
    [
        # (1)-(2): z goes 0, 3, 4.5, 5.25 and y ends at (2 + 5.25)/2
        ({"latent_steps": 3}, [0.0], 3.625, [5.25]),
        ({"latent_steps": 2, "states": "single"}, [], 1.75, []),  # (4): y goes 2, 3, 3.5, 1.75
        # (5): z_1 = (0+4+2+4)/2 = 5, z_2 = (5+4+2+4)/2 = 7.5, and y = (2 + 12.5)/2
        ({"latent_steps": 2, "states": "multi-scale"}, [0.0, 4.0], 7.25, [5.0, 7.5]),
        ({"latent_steps": 1, "networks": 2}, [0.0], 5.0, [3.0]),  # y = 2 + 3 by a network of its own
    ],
    ids=str,
)
def test_a_cycle_by_hand(fields, z, expected_y, expected_z):
    """f(s) = s/2, x = 4, y = 2."""
    core = tiny(cycles=1, **fields).core
    core.f = Halve()
    if core.f_answer is not None:
        core.f_answer = nn.Identity()
    y, z = core(torch.tensor([4.0]), torch.tensor([2.0]), torch.tensor(z))

    assert (y.tolist(), z.tolist()) == ([expected_y], expected_z)


@pytest.mark.parametrize(("act", "bias"), [("halt only", -5.0), ("continue", 1.0)])
def test_the_halting_head_begins_with_its_bias_and_the_continue_head_is_hrms(act, bias):
    network, images = tiny(act=act, halt_bias=bias), torch.ones(2, *SHAPE)
    output, _ = network(images, network.start(images))

    assert output.halt.tolist() == [bias] * 2
    assert (output.proceed is not None) == (act == "continue")
    assert network.q_head.bias.tolist() == [bias, -5]


@pytest.mark.parametrize(
    ("curriculum", "depths"), [("thirds", [(1, 2), (1, 2), (2, 4), (2, 4), (2, 6)]), ("none", [(2, 6)] * 5)]
)
def test_recursion_deepens_in_thirds_in_training_and_is_whole_at_test(curriculum, depths):
    """Equation (6) with T = 2 and n = 6: (1, 2) in the first 30 % of the updates, (2, 4) to 60 %, then (2,
    6).
    """
    network, network_depths = tiny(cycles=2, latent_steps=6, curriculum=curriculum), []
    for share in (0.0, 0.29, 0.3, 0.59, 0.6):
        network.deepen(share)
        network_depths.append(network.core.depth)

    assert network_depths == depths
    network.deepen(0.0)
    assert network.eval().core.depth == (2, 6)


def test_a_curriculum_runs_through_while_a_run_trains_and_costs_what_its_stages_cost():
    """Three epochs of three updates, of which the depth is set before each: cycles 1, 1, 1, 2, 2, 2, then 3,
    3, 3. A training step costs 0.3 of that of T = 1, 0.3 of T = 2 and 0.4 of T = 3."""
    model = TRM(
        tokens="cell", width=8, heads=2, layers=1, prefix=1, cycles=3, latent_steps=1, curriculum="thirds"
    )
    train = {
        "epochs": 3,
        "batch_size": 8,
        "halting": "sample",
        "supervision_steps": 2,
        "selection": "last",
        "schedule": "update",
    }
    config = RunConfig(data=Sudoku(side=4, limit=24), model=model, train=TrainConfig(**train))
    run, depths = training_of(config), []
    run.state.network.register_forward_pre_hook(
        lambda network, _: depths.append(network.core.depth) if network.training else None
    )
    list(run.epochs())

    assert [cycles for cycles, _ in depths] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    fixed = [
        cost(config.with_changes({"model.curriculum": "none", "model.cycles": t})).train_gflops
        for t in (1, 2, 3)
    ]
    assert cost(config).train_gflops == pytest.approx(0.3 * fixed[0] + 0.3 * fixed[1] + 0.4 * fixed[2])
