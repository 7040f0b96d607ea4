import copy
import math

import pytest
import torch
from torch import nn

from recstudy.base.errors import ConfigError
from recstudy.recursive import CNN, TRM, ShowTell, TrainConfig
from recstudy.recursive.models.networks.layers import PuzzleTable
from recstudy.recursive.train.optim import (
    AdamAtan2,
    MovingAverage,
    SignSGD,
    learning_rate,
    make_optimizers,
    set_learning_rate,
)


@pytest.mark.parametrize(
    ("settings", "length", "rates"),
    [
        # 0, lr/30, ..., lr at 30; half way down at 515; the last epoch is one step before the floor
        (
            {"warmup": 0.03},
            1000,
            {
                0: 0,
                1: 1e-5,
                30: 3e-4,
                515: 3.01e-4 / 2,
                999: 1e-6 + 2.99e-4 * (1 - math.cos(math.pi / 970)) / 2,
            },
        ),
        ({"warmup": 1 / 30}, 300, {9: 2.7e-4, 10: 3e-4}),  # the baselines: ten of three hundred epochs
        ({"warmup": 0.03}, 1, {0: 3e-4}),  # one epoch trains at the full rate
        # HRM and TRM count from one: the first of 100 updates has a tenth of the rate, the tenth all of it
        (
            {"schedule": "update", "warmup": 0.1, "learning_rate": 1e-3, "final_learning_rate": 1e-4},
            100,
            {0: 1e-4, 8: 9e-4, 9: 1e-3, 54: 1.1e-3 / 2, 99: 1e-4},
        ),
        # 004: the cosine's 100 steps begin at 10, so that update 60 is half way, and 100 ends above the floor
        (
            {"schedule": "batch", "warmup": 0.1, "learning_rate": 1e-3, "final_learning_rate": 2e-4},
            100,
            {
                0: 0,
                10: 1e-3,
                60: 6e-4,
                100: 2e-4 + 8e-4 * (1 + math.cos(0.9 * math.pi)) / 2,
                110: 2e-4,
                150: 2e-4,
            },
        ),
        # 004's author counts updates against a length in batches: past it the rate stays at its end
        ({"warmup": 0.04, "final_learning_rate": 6e-5}, 100, {100: 6e-5, 150: 6e-5}),
        # torch's StepLR with a step of epochs // 2, as in 003: an odd number of epochs ends with a second
        # step
        ({"schedule": "step", "learning_rate": 1e-4}, 4, {0: 1e-4, 1: 1e-4, 2: 1e-5, 3: 1e-5}),
        ({"schedule": "step", "learning_rate": 1e-4}, 5, {0: 1e-4, 1: 1e-4, 2: 1e-5, 3: 1e-5, 4: 1e-6}),
        ({"schedule": "step", "learning_rate": 1e-4}, 1, {0: 1e-4}),
    ],
)
def test_rates_by_hand(settings, length, rates):
    config = TrainConfig(epochs=length, **settings)

    assert {update: learning_rate(config, update, length) for update in rates} == pytest.approx(rates)


@pytest.mark.parametrize(("decayed", "gain"), [("all", 0.9), ("matrices", 1.0)])
def test_weight_decay_applies_only_to_decayed_weights(decayed, gain):
    """Gradients 0: a step multiplies what decays by 1 - lr w = 0.9."""
    block = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    for weight in block.parameters():
        nn.init.ones_(weight)
        weight.grad = torch.zeros_like(weight)
    (optimizer,) = make_optimizers(block, TrainConfig(learning_rate=0.1, weight_decay=1.0, decayed=decayed))

    optimizer.step()

    matrix, *flat = block.parameters()
    assert matrix.flatten().tolist() == pytest.approx([0.9] * 4)
    assert [value for weight in flat for value in weight.tolist()] == pytest.approx([gain] * 6)
    assert all(group["peak"] == 0.1 for group in optimizer.param_groups)


EQUAL = (1.0, 1.0)


@pytest.mark.parametrize(
    ("settings", "gradients", "weights"),
    [
        # v = 1, then 0.5 + 1: p = 1 - 0.1, then - 0.15
        ({"optimizer": "sgd", "optimizer_options": {"momentum": 0.5}}, EQUAL, [0.9, 0.75]),
        # looking ahead, g + 0.5 v: 1.5, then 1.75
        (
            {"optimizer": "sgd", "optimizer_options": {"momentum": 0.5, "nesterov": True}},
            EQUAL,
            [0.85, 0.675],
        ),
        # decay is a part of the gradient: g = 1 + 1, so p = 0.8; g = 1.8, v = 0.9 x 2 + 1.8
        ({"optimizer": "sgd", "weight_decay": 1.0}, EQUAL, [0.8, 0.44]),
        # betas 0: a step is lr g / |g|, with amsgrad lr g / max |g|
        ({"beta1": 0, "beta2": 0}, (10.0, 0.1), [0.9, 0.8]),
        ({"beta1": 0, "beta2": 0, "amsgrad": True}, (10.0, 0.1), [0.9, 0.899]),
    ],
)
def test_steps_by_hand(settings, gradients, weights):
    """A weight of 1 with a rate of 0.1."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    (optimizer,) = make_optimizers(
        layer, TrainConfig(**{"learning_rate": 0.1, "weight_decay": 0.0, **settings})
    )
    norms = []
    for gradient in gradients:
        layer.weight.grad = torch.full((1, 1), gradient)
        optimizer.step()
        norms.append(layer.weight.item())

    assert norms == pytest.approx(weights, abs=1e-6)


def test_a_tuned_backbone_has_a_rate_of_its_own():
    """003: 5e-5 against 1e-4, both at half of it half way; without the field one group, as ever."""
    network = ShowTell(width=8, backbone="small", weights="random").build((3, 32, 32), 9)
    backbone, weights = list(network.eyes.backbone.parameters()), list(network.parameters())
    (optimizer,) = make_optimizers(network, TrainConfig(learning_rate=1e-4, backbone_learning_rate=5e-5))
    rest, seeing = optimizer.param_groups
    set_learning_rate([optimizer], 5e-5)

    assert (rest["lr"], seeing["lr"]) == (pytest.approx(5e-5), pytest.approx(2.5e-5))
    assert list(map(id, seeing["params"])) == list(map(id, backbone))
    assert len(rest["params"]) + len(backbone) == len(weights)
    assert [len(group["params"]) for group in make_optimizers(network, TrainConfig())[0].param_groups] == [
        len(weights)
    ]


def test_moving_average_by_hand():
    """d = 0.9 from 1: after weights 2 and 3 it is 0.9 * (0.9 + 0.2) + 0.3 = 1.29; a running mean from 0,
    after 4 and 7, is 0.9 * 0.4 + 0.7 = 1.06, because that of today's weights would not fit their average.
    Other buffers are taken over."""
    network = nn.BatchNorm1d(1)
    network.register_buffer("other", torch.zeros(1))
    average = MovingAverage(network, 0.9)  # type: ignore[arg-type]
    for weight, mean in ((2.0, 4.0), (3.0, 7.0)):
        network.weight.data.fill_(weight)
        network.running_mean.fill_(mean)
        network.other.fill_(mean)
        average.update()
    average.copy_buffers()

    assert average.network.weight.item() == pytest.approx(1.29)
    assert average.network.running_mean.item() == pytest.approx(1.06)
    assert average.network.other.item() == 7.0
    assert not average.network.weight.requires_grad


def test_adam_atan2_by_hand():
    """Equation (4), two steps: lr 0.1, w 0.5, betas (0.9, 0.95), p = 1, gradients 2 and -1.

    t=1: p 0.95; m 0.2, v 0.2; bias-corrected: atan2(0.2, 2) / (1 - 0.9)
    t=2: decay; m 0.9 * 0.2 - 0.1 = 0.08, v 0.95 * 0.2 + 0.05 = 0.24
    """
    weight = nn.Parameter(torch.tensor([1.0]))
    optimizer = AdamAtan2([weight], lr=0.1, betas=(0.9, 0.95), weight_decay=0.5)
    expected = 1.0
    for t, (gradient, m, v) in enumerate([(2.0, 0.2, 0.2), (-1.0, 0.08, 0.24)], 1):
        weight.grad = torch.tensor([gradient])
        optimizer.step()
        expected *= 1 - 0.1 * 0.5
        expected -= 0.1 / (1 - 0.9**t) * math.atan2(m, math.sqrt(v / (1 - 0.95**t)))

        assert weight.item() == pytest.approx(expected, rel=1e-5)


def test_adam_atan2_does_not_move_without_a_gradient():
    weight = nn.Parameter(torch.tensor([1.0]))
    AdamAtan2([weight], lr=0.1, betas=(0.9, 0.95), weight_decay=0.5).step()

    assert weight.item() == 1.0


def test_sign_sgd_moves_the_rows_of_the_batch_alone():
    """Rows 1 (twice: 3 - 1 = 2) and 2 of four: row * (1 - 0.1 * 0.5) - 0.1 sign(sum); rows 0 and 3 stay."""
    table = PuzzleTable(4, 2, sparse=True)
    nn.init.ones_(table.weight)
    ids = torch.tensor([1, 2, 1])
    gradients = torch.tensor([[3.0, -3.0], [-1.0, 0.0], [-1.0, 1.0]])
    (table(ids) * gradients).sum().backward()

    SignSGD([table.weight], lr=0.1, weight_decay=0.5).step()

    expected = torch.tensor([[1.0, 1.0], [0.95 - 0.1, 0.95 + 0.1], [0.95 + 0.1, 0.95], [1.0, 1.0]])
    torch.testing.assert_close(table.weight.data, expected)


def test_the_puzzle_embeddings_have_an_optimiser_and_a_rate_of_their_own():
    """At half the schedule both stand at half of their peaks, 1e-3 and 1e-2."""
    network = nn.ModuleList([nn.Linear(2, 2), PuzzleTable(3, 2, sparse=True)])
    optimizers = make_optimizers(
        network, TrainConfig(learning_rate=1e-3, weight_decay=0.2, puzzle_weight_decay=0.3)
    )
    set_learning_rate(optimizers, 5e-4)

    assert [type(optimizer) for optimizer in optimizers] == [torch.optim.AdamW, SignSGD]
    assert [optimizer.param_groups[0]["weight_decay"] for optimizer in optimizers] == [0.2, 0.3]
    assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == [
        pytest.approx(5e-4),
        pytest.approx(5e-3),
    ]
    assert sum(len(optimizer.param_groups[0]["params"]) for optimizer in optimizers) == 3


MUON = {"optimizer": "muon", "learning_rate": 0.01, "optimizer_options": {"matrix_learning_rate": 0.03}}


def make_trm() -> nn.Module:
    torch.manual_seed(0)
    size = {"width": 16, "heads": 2, "expansion": 2, "multiple": 8, "prefix": 1}
    return TRM(tokens="cell", mixing="mlp", cycles=1, latent_steps=1, layers=1, **size).build((1, 2, 2), 5)


def test_muon_orthogonalizes_hidden_matrices_alone():
    """In the first step every weight of AdamW moves by its rate. A hidden matrix moves by 0.2 sqrt(max(A, B))
    times its rate along an orthogonal matrix, whose singular values Newton and Schulz leave between 0.5 and
    1.3."""
    network = make_trm()
    old_weights = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    (optimizer,) = make_optimizers(network, TrainConfig(**MUON, weight_decay=0.0))
    gradients = torch.Generator().manual_seed(0)
    for weight in network.parameters():
        weight.grad = torch.randn(weight.shape, generator=gradients)

    optimizer.step()

    orthogonalized = set()
    for name, weight in network.named_parameters():
        step = old_weights[name] - weight.detach()
        if torch.allclose(step.abs(), torch.tensor(0.01), rtol=1e-3):
            continue
        orthogonalized.add(name)
        values = torch.linalg.svdvals(step / (0.03 * 0.2 * math.sqrt(max(step.shape))))
        assert 0.5 < values.min() <= values.max() < 1.3, name
    assert {
        "embed.weight",
        "answer.weight",
        "q_head.weight",
        "q_head.bias",
    } <= old_weights.keys() - orthogonalized
    in_core = {name for name, weight in old_weights.items() if name.startswith("core.") and weight.dim() == 2}
    assert orthogonalized == in_core != set()


def test_muon_and_adamw_follow_one_schedule():
    """At half of the schedule each has half of its peak. The first group is AdamW's even if it is empty."""
    network = nn.Sequential(nn.Linear(3, 3, bias=False))
    optimizers = make_optimizers(network, TrainConfig(**MUON))
    set_learning_rate(optimizers, 0.005)

    other_group, matrices = optimizers[0].param_groups
    assert (other_group["params"], other_group["lr"]) == ([], pytest.approx(0.005))
    assert (matrices["params"], matrices["lr"]) == ([network[0].weight], pytest.approx(0.015))


def test_muon_leaves_a_head_inside_a_numbered_list_to_adamw():
    network = nn.ModuleDict(
        {"inner": nn.Linear(3, 3), "answer": nn.Sequential(nn.Dropout(), nn.Linear(3, 5))}
    )
    (optimizer,) = make_optimizers(network, TrainConfig(**MUON))

    matrices = optimizer.param_groups[1]["params"]
    assert [id(weight) for weight in matrices] == [id(network["inner"].weight)]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (
            CNN(width=8),
            {},
            "'muon' needs linear layers between the embedding and the head, .* none. Choose 'adamw'",
        ),
        (TRM(tokens="cell", width=16, heads=2), {"momentum": 1.0}, "momentum from 0 to below 1"),
    ],
)
def test_model_that_muon_cannot_train_is_refused(model, options, message):
    with pytest.raises(ConfigError, match=message):
        make_optimizers(model.build((1, 8, 8), 5), TrainConfig(optimizer="muon", optimizer_options=options))


def test_steps_of_many_weights_equal_steps_of_each():
    """Weights with different numbers of steps are updated together, to the bits of one optimizer for each."""
    generator = torch.Generator().manual_seed(0)
    together = [nn.Parameter(torch.randn(size, generator=generator)) for size in ((3, 5), (17,), ())]
    copies = copy.deepcopy(together)
    options = {"lr": 0.1, "betas": (0.9, 0.95), "weight_decay": 0.5}
    optimizers = [AdamAtan2(together, **options), *(AdamAtan2([weight], **options) for weight in copies)]
    for step in range(6):
        for index, (weight, duplicate) in enumerate(zip(together, copies, strict=True)):
            has_gradient = index != 1 or step % 2
            weight.grad = torch.randn(weight.shape, generator=generator) if has_gradient else None
            duplicate.grad = weight.grad
        for optimizer in optimizers:
            optimizer.step()

    assert all(map(torch.equal, together, copies))
