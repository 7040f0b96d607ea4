import pytest
import torch

from recstudy.config import DataConfig, RunConfig, Shape
from recstudy.models import HRM
from recstudy.models.costs import cost
from recstudy.models.networks.hrm import HRMCore
from recstudy.models.networks.layers import PostNorm, SwiGLU
from recstudy.models.networks.recursion import hierarchy
from recstudy.models.networks.sequence import SequenceNetwork
from recstudy.models.sequence import hidden_width

SHAPE = (1, 2, 2)


class Grid(DataConfig):
    """A square of grey levels, as large as the published layouts want it."""

    name: str = "grid"
    side: int = 30

    @property
    def shape(self) -> Shape:
        return (1, self.side, self.side)

    @property
    def classes(self) -> int:
        return 10


def tiny(shape=SHAPE, classes=10, **fields) -> SequenceNetwork:
    torch.manual_seed(0)
    config = HRM(**{"width": 8, "heads": 2, "low_layers": 1, "high_layers": 1, "vocabulary": 16} | fields)
    network = config.build(shape, classes)
    assert isinstance(network, SequenceNetwork)
    return network


@pytest.mark.parametrize(
    ("vocabulary", "side", "params"), [(12, 30, 27_276_290), (11, 9, 27_275_266), (256, 30, 27_526_146)], ids=str
)
def test_counts_to_the_digit(vocabulary, side, params):
    """ARC, Sudoku, and 8-bit pixels; the core of each is 27,262,976."""
    model, data = HRM(vocabulary=vocabulary), Grid(side=side)

    assert cost(RunConfig(data=data, model=model)).params == params == sum(model.counts(data.shape, 10).values())
    assert model.counts(data.shape, 10)["core"] == 27_262_976


def test_counts_where_an_mlp_mixes_the_tokens():
    """Of 37 positions and 64 dimensions: SwiGLUs 37 -> 64 -> 37 (hidden 49, rounded up by 32) and 64 -> 96 -> 64 (hidden 85)."""
    model = HRM(tokens="cell", mixing="mlp", width=64, heads=4, expansion=2, multiple=32, high_layers=1, low_layers=1)

    core = model.counts((1, 6, 6), 7)["core"]

    assert core == 2 * (3 * 37 * 64 + 3 * 64 * 96)
    assert core == sum(weight.numel() for weight in HRMCore(model, 37).parameters())


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


def test_one_step_gradient_equals_a_graph_cut_by_hand():
    network = tiny(high_cycles=2, low_cycles=2)
    images = torch.randint(0, 256, (3, *SHAPE)).float()
    output, _ = network(images, network.start(images))
    ours = torch.autograd.grad(output.logits.square().sum(), list(network.parameters()), allow_unused=True)

    core, x = network.core, network.sequence(images, torch.zeros(3, dtype=torch.int64))[:, 0]
    z_high, z_low = (z.expand(3, 5, -1) for z in (core.z_high, core.z_low))
    for cycle in range(2):
        for step in range(2):
            if (cycle, step) == (1, 1):
                z_high, z_low = z_high.detach(), z_low.detach()  # the last z_L and the last z_H carry gradient
            z_low = core.f_low(z_low + z_high + x)
        z_high = core.f_high(z_high + z_low)
    expected = torch.autograd.grad(network.answer(z_high[:, 1]).square().sum(), list(network.parameters()), allow_unused=True)

    for mine, theirs in zip(ours, expected, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            torch.testing.assert_close(mine, theirs)


def test_full_bptt_is_plain_autograd():
    network = tiny(gradient="full_bptt", high_cycles=2, low_cycles=2)
    images = torch.randint(0, 256, (3, *SHAPE)).float()
    output, _ = network(images, network.start(images))
    ours = torch.autograd.grad(output.logits.square().sum(), network.embed.weight)[0]

    core, x = network.core, network.sequence(images, torch.zeros(3, dtype=torch.int64))[:, 0]
    z_high, z_low = (z.expand(3, 5, -1) for z in (core.z_high, core.z_low))
    for _ in range(2):
        for _ in range(2):
            z_low = core.f_low(z_low + z_high + x)
        z_high = core.f_high(z_high + z_low)
    expected = torch.autograd.grad(network.answer(z_high[:, 1]).square().sum(), network.embed.weight)[0]

    torch.testing.assert_close(ours, expected)


def test_gradient_modes_differ():
    images = torch.randint(0, 256, (3, *SHAPE)).float()
    norms = []
    for mode in ("one_step", "last_cycle", "full_bptt"):
        network = tiny(gradient=mode, high_cycles=2, low_cycles=2)
        output, _ = network(images, network.start(images))
        norms.append(torch.autograd.grad(output.logits.square().sum(), network.embed.weight)[0].norm().item())

    assert len(set(norms)) == 3


def test_layer_is_post_norm_without_parameters_of_its_own():
    """rms(s + mix(s)) with mix = ffn = 0 is s / sqrt(mean s^2 + 1e-5): (3, 4) has mean square 12.5."""

    class Zero(torch.nn.Module):
        def forward(self, s):
            return torch.zeros_like(s)

    layer = PostNorm(Zero(), Zero(), 2, eps=1e-5, scale=False)
    once = torch.tensor([3.0, 4.0]) / (12.5 + 1e-5) ** 0.5

    assert list(layer.parameters()) == []
    torch.testing.assert_close(layer(torch.tensor([[[3.0, 4.0]]])), once[None, None] / (1 + 1e-5) ** 0.5)


def test_swiglu_width_is_rounded_up_to_256s():
    """ceil_256(round(4 x 512 x 2/3)) = ceil_256(1365) = 1536; 64 gives 171, so 256."""
    assert (hidden_width(512, 4), hidden_width(64, 4)) == (1536, 256)
    assert sum(weight.numel() for weight in SwiGLU(512, 1536, bias=False).parameters()) == 3 * 512 * 1536


def test_states_start_as_one_fixed_vector_at_every_position():
    network = tiny()
    images = torch.zeros(2, *SHAPE)
    z_high, z_low, steps, _ = network.start(images)

    assert z_high.shape == z_low.shape == (2, 1, 5, 8)
    assert torch.equal(z_high, network.core.z_high.expand(2, 1, 5, 8))
    assert steps.tolist() == [0, 0]
    assert not isinstance(network.core.z_high, torch.nn.Parameter)
    assert "core.z_high" in network.state_dict()


def test_initial_states_have_deviation_one_after_the_cut():
    torch.manual_seed(0)
    core = HRMCore(HRM(width=1024, heads=8, low_layers=1, high_layers=1), 2)

    assert core.z_high.std().item() == pytest.approx(1.0, abs=0.05)
    assert core.z_high.abs().max().item() <= 2 / 0.8796


def test_memory_of_a_step_does_not_grow_with_the_recursion():
    """What autograd keeps for the backward pass, counted tensor by tensor: N = T = 2 and N = T = 8 keep the same."""

    def kept(cycles: int) -> int:
        network = tiny(high_cycles=cycles, low_cycles=cycles)
        images = torch.randint(0, 256, (3, *SHAPE)).float()
        total = 0

        def count(tensor):
            nonlocal total
            total += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            network(images, network.start(images))
        return total

    assert kept(2) == kept(8) > 0
