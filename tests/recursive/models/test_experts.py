import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from recstudy.recursive.models.micar import MicarVLMoE
from recstudy.recursive.models.networks import experts
from recstudy.recursive.models.networks.experts import MixtureOfExperts, balance


def moe(**fields):
    torch.manual_seed(0)
    return MixtureOfExperts(
        MicarVLMoE(**{"width": 16, "ffn_width": 24, "experts": 8, "dropout": 0.0} | fields)
    )


def dense(mixture, x_BTD):
    """Every expert on every token, as the published code has it; what is not chosen is multiplied by 0."""
    scores = torch.softmax(mixture.router(x_BTD), dim=-1)
    weights, chosen = scores.topk(mixture.top_k, dim=-1)
    if not mixture.weighted:
        weights = torch.ones_like(weights)
    share = torch.zeros_like(scores).scatter(-1, chosen, weights)
    gate, values = torch.einsum("btd,edm->betm", x_BTD, mixture.up).chunk(2, dim=-1)
    return torch.einsum("betm,emd,bte->btd", torch.nn.functional.silu(gate) * values, mixture.down, share)


@pytest.mark.parametrize("combine", ["weighted", "unweighted"])
@pytest.mark.parametrize(("count", "top_k"), [(8, 2), (3, 3)])
@pytest.mark.parametrize("way", ["run_in_turn", "run_grouped"])
def test_each_expert_on_its_own_tokens_equals_all_on_all(way, count, top_k, combine, monkeypatch):
    """Forward and gradients to 1e-5; `run_grouped` is what a GPU runs. One expert of eight gets no token, and
    none is dropped.
    """
    mixture = moe(experts=count, top_k=top_k, combine=combine)
    monkeypatch.setattr(mixture, "run_in_turn", getattr(mixture, way))
    x = torch.rand(2, 5, 16, requires_grad=True)
    if count == 8:
        mixture.router.weight.data[3] = -1
    weights, direction = [x, *mixture.parameters()], torch.randn(2, 5, 16)
    outputs = mixture(x)[0], dense(mixture, x)
    gradients = [torch.autograd.grad((y * direction).sum(), weights, allow_unused=True) for y in outputs]

    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)
    for mine, reference in zip(*gradients, strict=True):
        assert (mine is None) == (reference is None)
        if mine is not None:
            torch.testing.assert_close(mine, reference, atol=1e-5, rtol=1e-5)


def test_the_balance_loss_by_hand():
    """Tokens (1, 0, 0) and (0, 0.5, 0.5): the mean (0.5, 0.25, 0.25) gives 0.5 ln 0.5 + 0.5 ln 0.25. An
    expert that nobody wants leaves the gradient finite."""
    assert balance(torch.tensor([[1.0, 0, 0], [0, 0.5, 0.5]])).item() == pytest.approx(-1.039721, abs=1e-6)
    scores = torch.tensor([[1.0, 0.0]], requires_grad=True)
    assert torch.autograd.grad(balance(scores), scores)[0].isfinite().all()
    assert moe()(torch.zeros(0, 5, 16))[1].item() == 0  # of a worker without tokens


@pytest.mark.parametrize("combine", ["weighted", "unweighted"])
def test_the_router_learns_from_the_task_where_experts_are_weighted(combine):
    """Contradiction 003-1: as the published code adds experts, balance alone trains the router."""
    mixture = moe(combine=combine)
    x = torch.randn(2, 5, 16)
    y, loss = mixture(x)
    task = torch.autograd.grad(
        y.square().sum(), [mixture.router.weight, mixture.up], allow_unused=True, retain_graph=True
    )
    balanced = torch.autograd.grad(loss, mixture.router.weight)[0]

    share = 0.0 if task[0] is None else (task[0].norm() / task[1].norm()).item()
    assert share > 1e-2 if combine == "weighted" else share < 1e-6
    assert balanced.norm() > 1e-6


def test_the_router_is_not_rounded_under_autocast():
    """bfloat16 has 8 bits: of 4,096 tokens some would have other experts, and many two of equal weight."""
    mixture, x = moe(), torch.randn(4096, 16)
    with torch.autocast("cpu", torch.bfloat16):
        half = mixture.scores(x)

    assert torch.equal(half, mixture.scores(x))
    assert half.dtype == mixture.scores(x.bfloat16()).dtype == torch.float32


def test_experts_start_xavier_uniform_each_by_itself():
    """Bound sqrt(6 / (512 + 2048)) = 0.0484 for every matrix of every expert, W_1 and W_3 apart."""
    mixture = moe(width=512, ffn_width=2048, experts=2)

    for matrix in (*mixture.up.chunk(2, dim=-1), mixture.down):
        assert matrix.abs().max().item() == pytest.approx((6 / 2560) ** 0.5, rel=1e-4)


@pytest.mark.parametrize(("dtype", "grouped"), [(torch.float32, False), (torch.bfloat16, True)])
def test_a_gpu_runs_the_grouped_product_in_16_bits_alone(dtype, grouped, monkeypatch):
    """On fake tensors, for which no GPU is needed: in float32 torch would read the sizes back, expert by
    expert.
    """
    calls = []
    monkeypatch.setattr(
        MixtureOfExperts,
        "run_grouped",
        lambda self, *arguments: calls.append(1) or self.run_in_turn(*arguments),
    )
    monkeypatch.setattr(experts, "product_dtype", lambda rows: dtype)
    with FakeTensorMode(), torch.device("cuda"):
        moe()(torch.empty(2, 5, 16))

    assert bool(calls) == grouped


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("half", "near"), [(False, 1e-4), (True, 3e-2)], ids=["float32", "bfloat16"])
def test_a_gpu_gives_what_a_cpu_gives(half, near):
    mixture, x = moe(width=64, ffn_width=64), torch.randn(2, 5, 64)
    expected = mixture(x)[0]

    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        output = mixture.cuda()(x.cuda())[0]

    torch.testing.assert_close(output.float().cpu(), expected, atol=near, rtol=near)
