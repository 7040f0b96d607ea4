import math

import pytest
import torch
from torch import nn

from recstudy.config import RunConfig
from recstudy.data import Cifar10, Cifar100, Mnist
from recstudy.models import CNN, HRMImage
from recstudy.models.costs import cost
from recstudy.models.networks.classifiers import CNNNetwork
from recstudy.models.networks.hrm import HRMImageNetwork
from recstudy.models.networks.layers import GEGLU, Rotary, truncated_normal
from recstudy.models.networks.recursion import hierarchy

SHAPE = (1, 4, 4)  # one CLS and four patches of 2x2
MNIST = HRMImage(width=128, heads=4, low_layers=2, high_layers=2)


def tiny(**fields) -> HRMImageNetwork:
    torch.manual_seed(0)
    return HRMImageNetwork(HRMImage(**{"width": 8, "heads": 2, "low_layers": 1, "high_layers": 1, "patch": 2} | fields), SHAPE, 5)


class Affine(nn.Module):
    def __init__(self, scale, shift):
        super().__init__()
        self.scale, self.shift = scale, shift

    def forward(self, s):
        return self.scale * s + self.shift


def test_low_and_high_updates_by_hand():
    """Equations (2)-(3) with f_L(s) = s/2 and f_H(s) = s + 10, T = 2, x = 4, z_L = 0, z_H = 2.

    z_L: (0 + 2 + 4)/2 = 3, (3 + 2 + 4)/2 = 4.5; z_H: 2 + 4.5 + 10 = 16.5.
    """
    x, z_high, z_low = (torch.full((1, 5, 8), value) for value in (4.0, 2.0, 0.0))

    z_high, z_low = hierarchy(Affine(0.5, 0.0), Affine(1.0, 10.0), x, z_high, z_low, cycles=1, steps=2, mode="one_step")

    assert (z_low[0, 0, 0].item(), z_high[0, 0, 0].item()) == (4.5, 16.5)


def test_a_segment_makes_n_times_t_low_and_n_high_updates():
    """f_L and f_H count their calls: z_H = sum of its inputs is not needed, only how often each ran."""
    calls = []

    class Watch(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def forward(self, s):
            calls.append(self.name)
            return s

    network = tiny(high_cycles=2, low_cycles=3)
    network.f_low, network.f_high = Watch("L"), Watch("H")
    images = torch.zeros(1, *SHAPE)

    network(images, network.start(images))

    assert "".join(calls) == "LLLHLLLH"


def test_one_step_gradient_equals_autograd_through_the_last_two_updates():
    network = tiny(high_cycles=2, low_cycles=2)
    images = torch.randn(3, *SHAPE)
    output, _ = network(images, network.start(images))
    ours = torch.autograd.grad(output.logits.square().sum(), list(network.parameters()))

    z_high, z_low = network.start(images)
    patches = network.embed(network.patches(images).flatten(2).mT)
    x = torch.cat([network.class_token.expand(3, -1, -1), patches], 1)
    for _ in range(2):
        for _ in range(2):
            before_low, before_high = z_low, z_high
            z_low = network.f_low(z_low + z_high + x)
        z_high = network.f_high(z_high + z_low)
    z_low = network.f_low(before_low.detach() + before_high.detach() + x)
    z_high = network.f_high(before_high.detach() + z_low)
    expected = torch.autograd.grad(network.classify(z_high[:, 0]).square().sum(), list(network.parameters()))

    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_full_bptt_is_plain_autograd():
    one, full = tiny(gradient="one_step", high_cycles=1, low_cycles=1), tiny(gradient="full_bptt", high_cycles=1, low_cycles=1)
    images = torch.randn(2, *SHAPE)
    grads = []
    for network in (one, full):
        output, _ = network(images, network.start(images))
        grads.append(torch.autograd.grad(output.logits.sum(), network.embed.weight)[0])

    torch.testing.assert_close(*grads)  # with a single update of each there is nothing to cut


def test_states_start_fixed_and_are_not_trained():
    network = tiny()
    assert {"z_low", "z_high"} <= set(network.state_dict())
    assert {"z_low", "z_high"}.isdisjoint(dict(network.named_parameters()))
    assert network.z_low.abs().max() <= 2
    assert torch.equal(tiny().z_low, network.z_low)


def test_rotary_turns_pairs_by_position():
    """Head width 2: position p turns (1, 0) by p radians."""
    turned = Rotary(4, 2)(torch.tensor([1.0, 0.0]).expand(1, 1, 4, 2))

    for position in range(4):
        torch.testing.assert_close(turned[0, 0, position], torch.tensor([math.cos(position), math.sin(position)]))


def test_rotary_scores_depend_on_the_distance_alone():
    torch.manual_seed(0)
    rotary, q, k = Rotary(8, 6), torch.randn(6), torch.randn(6)
    turned_q, turned_k = (rotary(vector.expand(1, 1, 8, 6))[0, 0] for vector in (q, k))
    scores = turned_q @ turned_k.T

    torch.testing.assert_close(scores[0, 3], scores[4, 7])


def test_geglu_by_hand():
    """u = 2x, g = x, down = 3 at x = 1: 3 * 2 * gelu_tanh(1) = 6 * 0.841192."""
    ffn = GEGLU(1, 1, bias=False)
    ffn.up.weight.data, ffn.down.weight.data = torch.tensor([[2.0], [1.0]]), torch.tensor([[3.0]])

    assert ffn(torch.ones(1, 1, 1)).item() == pytest.approx(6 * 0.841192, rel=1e-5)


def test_truncated_normal_keeps_its_deviation():
    torch.manual_seed(0)
    drawn = truncated_normal(torch.empty(200_000), 0.5)

    assert drawn.std().item() == pytest.approx(0.5, rel=0.01)
    assert drawn.abs().max().item() <= 2 * 0.5 / 0.8796


def test_the_cnn_starts_lecun_normal():
    """Flax's default: deviation fan_in^-1/2, which is 128^-1/2 = 0.0884 of the head, and (9 x 64)^-1/2 of a convolution."""
    torch.manual_seed(0)
    network = CNNNetwork(CNN(), (3, 32, 32), 100)

    assert network.classify.weight.std().item() == pytest.approx(128**-0.5, rel=0.03)
    assert network.stages[0][3].weight.std().item() == pytest.approx((9 * 64) ** -0.5, rel=0.03)


@pytest.mark.parametrize(
    ("data", "model", "params"),
    [
        (Cifar10(), HRMImage(), 3_552_576),
        (Cifar100(), HRMImage(), 3_569_856),
        (Mnist(), MNIST, 1_053_056),
        (Cifar10(), CNN(), 261_824),
        (Cifar100(), CNN(), 273_344),
    ],
    ids=lambda value: getattr(value, "title", value),
)
def test_counts_to_the_digit(data, model, params):
    assert cost(RunConfig(data=data, model=model)).params == params


def test_flops_equal_the_published_arithmetic():
    """004: 1.918 GFLOP a segment, 2.877 to train it (one-step gradient); CNN 0.192 and 0.577."""
    hrm, cnn = (cost(RunConfig(data=Cifar10(), model=model)) for model in (HRMImage(), CNN()))

    assert (hrm.gflops, hrm.train_gflops) == (pytest.approx(1.918, rel=1e-3), pytest.approx(2.877, rel=2e-3))
    assert (cnn.gflops, cnn.train_gflops) == (pytest.approx(0.192, rel=5e-3), pytest.approx(0.577, rel=2e-2))


def test_evaluation_segments_are_paid_for():
    base = RunConfig(data=Cifar10(), model=HRMImage())

    assert cost(base.with_changes({"train.evaluation_steps": 3})).gflops == pytest.approx(3 * cost(base).gflops)
