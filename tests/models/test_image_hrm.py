import pytest
import torch

from recstudy.config import Shape
from recstudy.models import ImageHRM
from recstudy.models.networks.image_hrm import RecursiveCaptioner
from recstudy.models.networks.recursion import hierarchy, nested, schedule

PIXELS: Shape = (3, 224, 224)
TOKENS = torch.tensor([[1, 4, 5, 6], [1, 7, 4, 2]])
FEATURES = 256  # of the small backbone


def tiny(**fields) -> RecursiveCaptioner:
    torch.manual_seed(0)
    shape = {"width": 8, "heads": 2, "high_layers": 1, "middle_layers": 1, "low_layers": 1}
    network = ImageHRM(**shape | {"backbone": "small", "weights": "random"} | fields).build(PIXELS, 9)
    assert isinstance(network, RecursiveCaptioner)
    return network


def gradients(network: RecursiveCaptioner, z: torch.Tensor, keep: bool = False) -> list[torch.Tensor | None]:
    loss = network.answer(z).square().sum()
    return list(torch.autograd.grad(loss, list(network.parameters()), retain_graph=keep, allow_unused=True))


@pytest.mark.parametrize(
    ("middle_cycles", "core", "params"), [(2, 20_447_232, 27_001_858), (0, 13_631_488, 20_186_114)], ids=["triple", "dual"]
)
def test_counts_to_the_digit(middle_cycles, core, params):
    """Untied embeddings of a vocabulary of 6,144 give the triple model 27.0 M (000 says 27 M of HRM)."""
    model = ImageHRM(middle_cycles=middle_cycles)
    with torch.device("meta"):
        network = model.build(PIXELS, 6144)

    assert sum(weight.numel() for weight in network.core.parameters()) == core
    assert sum(weight.numel() for weight in network.parameters()) == params


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


@pytest.mark.parametrize("mode", ["one_step", "last_cycle", "full_bptt"])
def test_the_triple_loop_without_its_middle_level_is_the_dual_one(mode):
    """Bit for bit HRM's own loop with the same weights, and its gradient."""
    network = tiny(middle_cycles=0, gradient=mode)
    f, x = network.core.f, network.inputs(network.eyes(torch.randn(2, FEATURES)), TOKENS)
    z_low, z_high = network.core.start(x)

    _, high = network.core(x, (z_low, z_high))
    theirs, _ = hierarchy(f["low"], f["high"], x, z_high, z_low, cycles=2, steps=2, mode=mode)

    assert list(f) == ["low", "high"]
    assert torch.equal(high, theirs)
    pairs = zip(gradients(network, high, keep=True), gradients(network, theirs), strict=True)
    for mine, expected in pairs:
        assert mine is expected is None or torch.equal(mine, expected)


def test_one_step_gradient_equals_a_graph_cut_by_hand():
    """The last update of each level carries gradient: z_L, z_M, z_H, three calls of eight (C = 2, 1, 2) low ones to high."""
    network = tiny(high_cycles=2, middle_cycles=1, low_cycles=2)
    images = torch.randn(2, FEATURES)
    output, _ = network(images, network.start(images, TOKENS))
    ours = torch.autograd.grad(output.logits.square().sum(), list(network.parameters()), allow_unused=True)

    f, x = network.core.f, network.inputs(network.eyes(images), TOKENS)
    low, middle, high = network.core.start(x)
    for turn in range(2):
        low = f["low"](low + middle + x)
        if turn == 1:
            low, middle, high = low.detach(), middle.detach(), high.detach()
        low = f["low"](low + middle + x)
        middle = f["middle"](middle + high + low)
        high = f["high"](high + middle)

    for mine, theirs in zip(ours, gradients(network, high), strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            torch.testing.assert_close(mine, theirs)


def test_gradient_modes_differ():
    images, norms = torch.randn(2, FEATURES), []
    for mode in ("one_step", "last_cycle", "full_bptt"):
        network = tiny(gradient=mode)
        output, _ = network(images, network.start(images, TOKENS))
        norms.append(torch.autograd.grad(output.logits.square().sum(), network.embed.weight)[0].norm().item())

    assert len(set(norms)) == 3


def test_memory_of_a_step_does_not_grow_with_the_recursion():
    def kept(cycles: int) -> int:
        network = tiny(high_cycles=cycles, middle_cycles=cycles, low_cycles=cycles)
        images = torch.randn(2, FEATURES)
        total = 0

        def count(tensor):
            nonlocal total
            total += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            network(images, network.start(images, TOKENS))
        return total

    assert kept(1) == kept(3) > 0


@pytest.mark.parametrize(("read", "expected"), [("mean", 4.0), ("last", 6.0)])
def test_halting_reads_the_tokens_that_are_there(read, expected):
    """z is 2 and 6 at the two tokens of one caption and 1, 2, 9 at those of the other, of which the last is PAD: not read."""
    network = tiny(halt_read=read)
    torch.nn.init.constant_(network.q_head.weight, 1 / 8)
    z = torch.tensor([[2.0, 6.0, 9.0], [1.0, 2.0, 9.0]])[..., None].expand(2, 3, 8)

    output = network.read(z, torch.tensor([[1, 5, 0], [1, 5, 6]]))

    assert output.halt is not None
    torch.testing.assert_close(output.halt + 5, torch.tensor([expected, {"mean": 4.0, "last": 9.0}[read]]))


def test_nothing_halts_at_the_start():
    network = tiny()
    images = torch.randn(2, FEATURES)
    output, _ = network(images, network.start(images, TOKENS))

    assert output.halt is not None
    assert output.proceed is not None
    assert output.halt.tolist() == output.proceed.tolist() == [-5.0, -5.0]


def test_the_image_enters_at_every_token():
    """x_t = sqrt(D) E[token t] + W_v V, by hand; with `image_norm` the image has an RMS of 1."""
    network, normed = tiny(), tiny(image_norm=True)
    images = 7 * torch.randn(2, FEATURES)

    x = network.inputs(network.eyes(images), TOKENS)

    torch.testing.assert_close(x, 8**0.5 * network.embed.weight[TOKENS] + (images @ network.eyes.project.weight.T)[:, None])
    torch.testing.assert_close(normed.eyes(images).square().mean(-1), torch.ones(2))
