import pytest
import torch
from torch import nn

from recstudy.models import ImageTRM
from recstudy.models.networks.image_hrm import RecursiveCaptioner

TOKENS = torch.tensor([[1, 4, 5, 6], [1, 7, 4, 2]])
FEATURES = 256


def tiny(**fields) -> RecursiveCaptioner:
    torch.manual_seed(0)
    config = ImageTRM(**{"width": 8, "heads": 2, "layers": 1, "backbone": "small", "weights": "random"} | fields)
    network = config.build((3, 64, 64), 9)
    assert isinstance(network, RecursiveCaptioner)
    return network


class Halve(nn.Module):
    def forward(self, s, past=None):
        return s / 2


@pytest.mark.parametrize(("vocabulary", "params"), [(128, 7_209_986), (260, 7_345_154)], ids=["ASCII", "bytes"])
def test_counts_to_the_digit(vocabulary, params):
    """7.21 and 7.35 M with W_v of ResNet-18's 512 features and the halting head; the core is the 7 M of 000."""
    model = ImageTRM()
    with torch.device("meta"):
        network = model.build((3, 224, 224), vocabulary)

    assert sum(weight.numel() for weight in network.core.f.parameters()) == 6_815_744
    assert sum(weight.numel() for weight in network.parameters()) == params
    assert model.frozen_params == 11_176_512


def test_cycle_refines_z_steps_times_then_y_once():
    """f(s) = s/2, n = 3, T = 1, x = 4, y = 2, z = 0: z goes 3, 4.5, 5.25 and y ends at (2 + 5.25)/2."""
    core = tiny(cycles=1, latent_steps=3).core
    core.f = Halve()

    z, y = core(torch.tensor(4.0), (torch.tensor(0.0), torch.tensor(2.0)))

    assert (z.item(), y.item()) == (5.25, 3.625)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("full_bptt", [True] * 21), ("last_cycle", [False] * 14 + [True] * 7), ("one_step", [False] * 19 + [True] * 2)],
    ids=["full_bptt", "last_cycle", "one_step"],
)
def test_a_segment_calls_the_net_t_times_n_plus_one(mode, expected):
    calls = []

    class Count(nn.Module):
        def forward(self, s, past=None):
            calls.append(torch.is_grad_enabled())
            return s

    network = tiny(gradient=mode)
    network.core.f = Count()
    images = torch.zeros(2, FEATURES)
    network(images, network.start(images, TOKENS))

    assert calls == expected


def test_last_cycle_gradient_equals_a_graph_cut_by_hand():
    network = tiny(gradient="last_cycle", cycles=2, latent_steps=2)
    images = torch.randn(2, FEATURES)
    output, _ = network(images, network.start(images, TOKENS))
    ours = torch.autograd.grad(output.logits.square().sum(), list(network.core.f.parameters()))

    f, x = network.core.f, network.inputs(network.eyes(images), TOKENS)
    z, y = network.core.start(x)
    for _ in range(2):
        y, z = y.detach(), z.detach()  # what counts is the cut before the second cycle
        for _ in range(2):
            z = f(z + y + x)
        y = f(y + z)
    expected = torch.autograd.grad(network.answer(y).square().sum(), list(f.parameters()))

    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_halting_is_judged_by_one_number():
    network = tiny()
    images = torch.zeros(2, FEATURES)
    output, _ = network(images, network.start(images, TOKENS))

    assert output.proceed is None
    assert output.halt is not None
    assert output.halt.tolist() == [-5.0, -5.0]
