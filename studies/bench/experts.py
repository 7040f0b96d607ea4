"""How fast the mixture of experts of 003 is when each expert runs on its own tokens only, beside every expert on all tokens.

The second is how the published code has it: each expert runs on the whole batch, in which the tokens of others are zeros. At
E = 8 and k = 2 that is four times the products. Both sides are shown to be one function first: with the same weights the same
answer and the same gradients, to 1e-5. Then they take turns, and the ratio is of neighbours. One layer of paper size, 512 wide
with 2,048 hidden, on COVCTR's batch of 16 reports of 80 words.

CPU: float32, forward + backward on every core by the clock, and on one core by processor time, which other work on the
machine hardly touches. GPU: torch.compile, on 8 batches at once; in bf16 autocast, in which the experts are torch's grouped
product, and in float32, in which they run one after the other.
"""

import os
import time
from collections.abc import Sequence

import throughput
import torch
from figure import Figure
from throughput import Clock, Step, in_turns, repeated
from torch import Tensor, nn

from recstudy.models import MicarVLMoE
from recstudy.models.networks.experts import MixtureOfExperts, balance

CONFIG = MicarVLMoE(dropout=0.0)
REPORTS, WORDS = 16, 80
TWICE = 2.0


def measure(options: object) -> list[Figure]:
    """On the GPU where there is one, else on the CPU."""
    same_function()
    if torch.cuda.is_available():
        return on_gpu()
    cores = os.cpu_count() or 1
    return on_cpu(cores, time.perf_counter, rounds=9) + on_cpu(1, time.process_time, rounds=5)


class DenseExperts(nn.Module):
    """Every expert on all tokens, those of others set to 0, with the weights of a mixture."""

    def __init__(self, mixture: MixtureOfExperts) -> None:
        super().__init__()
        self.mixture = mixture

    def forward(self, x_BTD: Tensor) -> tuple[Tensor, Tensor]:
        x_ND = x_BTD.flatten(0, 1)
        routing = self.mixture.route(x_ND)
        y_ND = torch.zeros_like(x_ND)
        experts = zip(self.mixture.up.unbind(), self.mixture.down.unbind(), strict=True)
        for expert, (up_DM, down_MD) in enumerate(experts):
            mine_Nk = routing.chosen == expert
            own_ND = x_ND * mine_Nk.any(-1, keepdim=True)
            share_N = (routing.weights * mine_Nk).sum(-1)
            y_ND = y_ND + share_N[:, None] * (self.mixture.gated(own_ND @ up_DM) @ down_MD)
        return y_ND.view_as(x_BTD), balance(routing.scores)


def pair(device: str = "cpu") -> dict[str, nn.Module]:
    """Ours and the dense one, with the same weights."""
    torch.manual_seed(0)
    mixture = MixtureOfExperts(CONFIG).to(device)
    return {"ours": mixture, "naive": DenseExperts(mixture)}


def words(reports: int, device: str = "cpu") -> Tensor:
    return torch.randn(reports, WORDS, CONFIG.width, device=device, requires_grad=True)


def same_function() -> None:
    x_BTD = words(2)
    found = []
    for side in pair().values():
        y_BTD, loss = side(x_BTD)
        gradients = torch.autograd.grad(y_BTD.square().mean() + loss, [x_BTD, *side.parameters()])
        found.append([y_BTD, loss, *gradients])
    for mine, plain in zip(*found, strict=True):
        torch.testing.assert_close(mine, plain, atol=1e-5, rtol=1e-5)


def on_cpu(threads: int, clock: Clock, rounds: int) -> list[Figure]:
    torch.set_num_threads(threads)
    x_BTD, sides = words(REPORTS), pair()
    how = f"float32, {threads} core{'s' * (threads > 1)}, {'by the clock' if clock is time.perf_counter else 'by processor time'}"
    ahead = in_turns({side: forward(layer, x_BTD) for side, layer in sides.items()}, rounds, clock=clock)
    both = in_turns({side: backward(layer, x_BTD) for side, layer in sides.items()}, rounds, clock=clock)
    return figures(ahead, "forward", how) + figures(both, "forward + backward", how)


def on_gpu(repeats: int = 20, rounds: int = 9) -> list[Figure]:
    x_BTD, found = words(8 * REPORTS, "cuda"), []
    for half, precision in ((True, "bf16"), (False, "float32")):
        torch.compiler.reset()
        sides = pair("cuda")
        for layer in sides.values():
            layer.compile(dynamic=False)
        steps = {side: repeated(backward(layer, x_BTD, half), repeats) for side, layer in sides.items()}
        seconds = in_turns(steps, rounds, torch.cuda.synchronize)
        how = f"{throughput.gpu()}, {precision}, compiled"
        found += figures(seconds, f"forward + backward, {precision}", how, repeats * 8)
    return found


def forward(layer: nn.Module, x_BTD: Tensor) -> Step:
    def step() -> None:
        with torch.no_grad():
            layer(x_BTD)

    return step


def backward(layer: nn.Module, x_BTD: Tensor, half: bool = False) -> Step:
    """In bf16 autocast with `half`."""

    def step() -> None:
        layer.zero_grad(set_to_none=True)
        with torch.autocast(x_BTD.device.type, torch.bfloat16, enabled=half):
            y_BTD, loss = layer(x_BTD)
        (y_BTD.float().square().mean() + loss).backward()

    return step


def figures(seconds: dict[str, list[float]], what: str, how: str, batches: int = 1) -> list[Figure]:
    """Tokens/s of both sides, and their ratio."""
    tokens = batches * REPORTS * WORDS
    rates: dict[str, Sequence[float]] = {side: [tokens / spent for spent in times] for side, times in seconds.items()}
    shown = [Figure(f"{what}: {side}", "tokens/s", rate, note=how) for side, rate in rates.items()]
    ratios = [ours / naive for ours, naive in zip(rates["ours"], rates["naive"], strict=True)]
    return [*shown, Figure(f"{what}: ours / naive", "x", ratios, least=TWICE)]
