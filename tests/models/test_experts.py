import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from recstudy.models.micar import MicarVLMoE
from recstudy.models.networks.experts import GatedFFN, MixtureOfExperts, balance


def moe(**fields) -> MixtureOfExperts:
    torch.manual_seed(0)
    return MixtureOfExperts(MicarVLMoE(**{"width": 16, "ffn_width": 24, "experts": 8, "dropout": 0.0} | fields))


def dense(mixture: MixtureOfExperts, x_BTD: Tensor) -> Tensor:
    """Every expert on every token, as the published code has it; what is not chosen is multiplied by 0."""
    scores = torch.softmax(mixture.router(x_BTD), dim=-1)
    weights, chosen = scores.topk(mixture.top_k, dim=-1)
    if not mixture.weighted:
        weights = torch.ones_like(weights)
    share = torch.zeros_like(scores).scatter(-1, chosen, weights)
    gate, plain = torch.einsum("btd,edm->betm", x_BTD, mixture.up).chunk(2, dim=-1)
    return torch.einsum("betm,emd,bte->btd", torch.nn.functional.silu(gate) * plain, mixture.down, share)


@pytest.mark.parametrize("combine", ["weighted", "unweighted"])
@pytest.mark.parametrize(("experts", "top_k"), [(8, 2), (2, 1), (3, 3)])
@pytest.mark.parametrize("way", ["looped", "grouped"])
def test_each_expert_on_its_own_tokens_equals_all_on_all(way, experts, top_k, combine, monkeypatch):
    """Forward and gradients to 1e-5; `grouped` is what a GPU runs."""
    mixture = moe(experts=experts, top_k=top_k, combine=combine)
    monkeypatch.setattr(mixture, "looped", getattr(mixture, way))
    x = torch.randn(2, 5, 16, requires_grad=True)
    weights = [x, *mixture.parameters()]

    ours, theirs = mixture(x)[0], dense(mixture, x)

    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    direction = torch.randn(2, 5, 16)
    gradients = [torch.autograd.grad((y * direction).sum(), weights, allow_unused=True) for y in (ours, theirs)]
    for mine, other in zip(*gradients, strict=True):
        if other is None:
            assert mine is None
        else:
            torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("combine", "expected"), [("weighted", 1.1), ("unweighted", 3.0)])
def test_the_combination_by_hand(combine, expected):
    """S = (0.5, 0.3, 0.2), k = 2, f_e(x) = (e + 1) x: 0.5 x 1 + 0.3 x 2 = 1.1, or 1 + 2 = 3. Not divided by 0.5 + 0.3."""
    mixture = moe(experts=3, ffn_width=16, combine=combine)
    mixture.gated = lambda hidden: hidden.chunk(2, dim=-1)[1]  # x W_3
    with torch.no_grad():
        mixture.up.zero_()
        for expert, times in enumerate((1.0, 2.0, 3.0)):
            mixture.up[expert, :, 16:] = times * torch.eye(16)
            mixture.down[expert] = torch.eye(16)
        mixture.router.weight.zero_()
        mixture.router.weight[:, 0] = torch.tensor([0.5, 0.3, 0.2]).log()
    x = torch.eye(16)[:1][None]

    torch.testing.assert_close(mixture(x)[0], expected * x)


def test_the_balance_loss_by_hand():
    """Tokens (1, 0, 0) and (0, 0.5, 0.5): the mean (0.5, 0.25, 0.25) gives 0.5 ln 0.5 + 0.5 ln 0.25."""
    assert balance(torch.tensor([[1.0, 0, 0], [0, 0.5, 0.5]])).item() == pytest.approx(-1.039721, abs=1e-6)


def test_the_balance_loss_is_least_at_uniform_load():
    """-log E, whether each token is undecided or the tokens share the experts out; 0 where one expert has all."""
    for even in (torch.full((8, 8), 1 / 8), torch.eye(8)):
        assert balance(even).item() == pytest.approx(-math.log(8))
    assert balance(torch.eye(8)[:1].expand(8, 8)).item() == 0
    for _ in range(20):
        assert balance(torch.randn(8, 8).softmax(-1)) > -math.log(8)


def test_an_expert_that_nobody_wants_leaves_the_gradient_finite():
    scores = torch.tensor([[1.0, 0.0]], requires_grad=True)

    assert torch.autograd.grad(balance(scores), scores)[0].isfinite().all()


@pytest.mark.parametrize("combine", ["weighted", "unweighted"])
def test_the_router_learns_from_the_task_where_experts_are_weighted(combine):
    """Contradiction 003-1: as the published code adds experts, balance alone trains the router."""
    mixture = moe(combine=combine)
    x = torch.randn(2, 5, 16)
    y, loss = mixture(x)
    task = torch.autograd.grad(y.square().sum(), [mixture.router.weight, mixture.up], allow_unused=True, retain_graph=True)
    balanced = torch.autograd.grad(loss, mixture.router.weight)[0]

    share = 0.0 if task[0] is None else (task[0].norm() / task[1].norm()).item()
    assert share > 1e-2 if combine == "weighted" else share < 1e-6
    assert balanced.norm() > 1e-6


def test_the_router_is_not_rounded_under_autocast():
    """bfloat16 has 8 bits: of 4,096 tokens some would have other experts, and many two of equal weight."""
    mixture, x = moe(), torch.randn(4096, 16)
    exact = mixture.scores(x)

    with torch.autocast("cpu", torch.bfloat16):
        half, of_half = mixture.scores(x), mixture.scores(x.bfloat16())

    assert torch.equal(half, exact)
    assert (half.dtype, of_half.dtype) == (torch.float32, torch.float32)


def test_no_token_is_dropped_when_one_expert_has_all():
    mixture = moe(top_k=1)
    with torch.no_grad():
        mixture.router.weight.zero_()
        mixture.router.weight[3] = 1
    x = torch.rand(2, 5, 16)

    assert mixture.route(x.flatten(0, 1)).sizes.tolist() == [0, 0, 0, 10, 0, 0, 0, 0]
    torch.testing.assert_close(mixture(x)[0], dense(mixture, x), atol=1e-5, rtol=1e-5)


def test_a_worker_without_tokens_has_a_balance_of_zero():
    y, loss = moe()(torch.zeros(0, 5, 16))

    assert y.shape == (0, 5, 16)
    assert loss.item() == 0


def test_one_expert_is_a_feed_forward_network_without_a_router():
    mixture, ffn = moe(experts=1, top_k=1), GatedFFN(MicarVLMoE(width=16, ffn_width=24, dropout=0.0))
    with torch.no_grad():
        ffn.gate.weight.copy_(mixture.up[0, :, :24].T)
        ffn.up.weight.copy_(mixture.up[0, :, 24:].T)
        ffn.down.weight.copy_(mixture.down[0].T)
    x = torch.randn(2, 5, 16)

    y, loss = mixture(x)

    torch.testing.assert_close(y, ffn(x))
    assert mixture.router is None
    assert loss.item() == 0


def test_experts_start_xavier_uniform_each_by_itself():
    """Bound sqrt(6 / (512 + 2048)) = 0.0484 for every matrix of every expert, W_1 and W_3 apart."""
    mixture = moe(width=512, ffn_width=2048, experts=2)

    for matrix in (*mixture.up.chunk(2, dim=-1), mixture.down):
        assert matrix.abs().max().item() == pytest.approx((6 / 2560) ** 0.5, rel=1e-4)


def test_the_grouped_way_is_one_graph(monkeypatch):
    """What a GPU runs reads nothing back in its middle: it can be compiled whole, and gives the same."""
    mixture, x = moe(), torch.randn(2, 5, 16)
    monkeypatch.setattr(mixture, "looped", mixture.grouped)
    torch.compiler.reset()
    compiled = torch.compile(mixture, backend="aot_eager", fullgraph=True, dynamic=False)

    with torch.autocast("cpu", torch.bfloat16):
        given, expected = compiled(x), mixture(x)

    for mine, other in zip(given, expected, strict=True):
        torch.testing.assert_close(mine, other)


class Products(TorchDispatchMode):
    """The matrix products of what runs inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "mm" in (name := function.overloadpacket.__name__):
            self.names.add(name)
        return function(*args, **kwargs or {})


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize(("dtype", "grouped"), [(torch.float32, False), (torch.bfloat16, True)])
def test_a_gpu_runs_the_grouped_product_in_16_bits_alone(dtype, grouped):
    """On fake tensors, for which no GPU is needed: in float32 torch would read the sizes back, expert by expert."""
    with FakeTensorMode(), torch.device("cuda"), default_dtype(dtype), Products() as products:
        moe()(torch.empty(2, 5, 16))

    assert any("grouped" in name for name in products.names) == grouped


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("half", "near"), [(False, 1e-4), (True, 3e-2)], ids=["float32", "bfloat16"])
def test_a_gpu_gives_what_a_cpu_gives(half, near):
    mixture, x = moe(width=64, ffn_width=64), torch.randn(2, 5, 64)
    expected = mixture(x)[0]

    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        given = mixture.cuda()(x.cuda())[0]

    torch.testing.assert_close(given.float().cpu(), expected, atol=near, rtol=near)
