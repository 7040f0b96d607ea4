"""How fast ViTRM trains at its paper size (3.6 M parameters, 3x32x32), beside the same model from torch.nn.MultiheadAttention.

Both sides are shown to be one function first: as many parameters and, with the same weights, the same logits. Then they take
turns, so that whatever else the machine does slows both; the ratio is of neighbours. One step is what the training loop does
with a batch: `forward + backward` of one supervision step, and the `training step` that adds the optimiser and the moving
average. TFLOP/s count the model as its paper writes it (`recstudy.models.costs`: every token of every layer), which is what
518 PFLOP for 1,000 epochs means; ours computes fewer, and that count stands beside it.

CPU: float32, batch 32, on every core by the clock, and on one core by processor time, which other work on the machine hardly
touches. GPU: bf16 autocast and torch.compile, batch 128 and 1024.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import torch
from figure import Figure
from naive import NaiveViTRM, copy_weights
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from recstudy import RunConfig, TrainConfig
from recstudy.data import Cifar10
from recstudy.data.batches import Batch
from recstudy.metrics import TASKS
from recstudy.models import ViTRM
from recstudy.models.costs import cost
from recstudy.models.networks.contract import Network, build
from recstudy.train.losses import step_loss
from recstudy.train.optim import MovingAverage, make_optimizers

CONFIG = RunConfig(data=Cifar10(), model=ViTRM(), train=TrainConfig(precision="bfloat16"))
EPOCHS, IMAGES = 1000, 50_000  # the full run of 002 on CIFAR-10
SPEC_TFLOPS = {"NVIDIA H100": 989, "NVIDIA H200": 989}  # dense bf16 of the SXM parts, as their data sheets have it
A_THIRD = 100 / 3  # of that peak: 518 PFLOP in 26 minutes
Step = Callable[[], object]
Clock = Callable[[], float]


def measure(options: object) -> list[Figure]:
    """On the GPU where there is one, else on the CPU."""
    same_function()
    if not torch.cuda.is_available():
        return on_cpu(os.cpu_count() or 1, time.perf_counter) + on_cpu(1, time.process_time, rounds=5)
    torch.set_float32_matmul_precision("high")
    peak = matrix_peak()
    named = Figure("matrix product", "TFLOP/s", [peak], note="8192 x 8192 x 8192, bf16, random values")
    return [named, *on_gpu(128, steps=20, peak=peak), *on_gpu(1024, steps=5, peak=peak)]


def pair(device: str = "cpu") -> dict[str, Network]:
    """Ours and the naive one, with the same weights."""
    torch.manual_seed(0)
    network = build(CONFIG.model, CONFIG.data)
    naive = NaiveViTRM(ViTRM(), CONFIG.data.shape, CONFIG.data.classes)
    copy_weights(network, naive)
    return {"ours": network.to(device), "naive": naive.to(device)}


def same_function() -> None:
    """Equal parameters, and equal logits to 1e-4."""
    ours, naive = (network.eval() for network in pair().values())
    images = torch.randn(4, *CONFIG.data.shape)
    with torch.no_grad():
        logits = [network(images, network.start(images))[0].logits for network in (ours, naive)]
    counts = [sum(weight.numel() for weight in network.parameters()) for network in (ours, naive)]
    assert counts[0] == counts[1] == cost(CONFIG).params, counts
    torch.testing.assert_close(*logits, atol=1e-4, rtol=0)


# --------------------------------------------------------------------------------------------------------------- on a CPU


def on_cpu(threads: int, clock: Clock, batch: int = 32, rounds: int = 9) -> list[Figure]:
    """Images/s of both and their ratio, in float32."""
    torch.set_num_threads(threads)
    images = synthetic(batch, "cpu")
    steps = {side: backward_step(network.train(), network, images, "cpu") for side, network in pair("cpu").items()}
    how = "by the clock" if clock is time.perf_counter else "by processor time"
    name = f"{threads} core{'s' * (threads > 1)}, forward + backward"
    return compared(name, in_turns(steps, rounds, clock=clock), batch, f"float32, batch {batch}, {how}")


# --------------------------------------------------------------------------------------------------------------- on a GPU


def on_gpu(batch: int, steps: int, peak: float, rounds: int = 9) -> list[Figure]:
    """Images/s of both, their ratio, TFLOP/s, shares of the peak and what 1,000 epochs would take."""
    torch.compiler.reset()
    images = synthetic(batch, "cuda")
    backward: dict[str, Step] = {}
    training: dict[str, Step] = {}
    for side, network in pair("cuda").items():
        compiled = torch.compile(network.train(), dynamic=False)
        backward[side] = repeated(backward_step(network, compiled, images, "cuda"), steps)
        training[side] = repeated(training_step(network, compiled, images, "cuda"), steps)
    how, images_a_turn = f"{torch.cuda.get_device_name()}, bf16, compiled", steps * batch
    seconds = in_turns(backward, rounds, torch.cuda.synchronize)
    figures = compared(f"batch {batch}, forward + backward", seconds, images_a_turn, how)
    seconds = in_turns(training, rounds, torch.cuda.synchronize)
    figures += compared(f"batch {batch}, training step", seconds, images_a_turn, how)
    return figures + at_full_size(f"batch {batch}, training step", seconds["ours"], images_a_turn, peak)


def at_full_size(what: str, seconds: list[float], images: int, peak: float) -> list[Figure]:
    """What our images/s mean in TFLOP/s, of the card's peak, and for the paper's whole run."""
    gflops = cost(CONFIG).train_gflops
    rates = [images / spent for spent in seconds]
    teraflops = [rate * gflops / 1e3 for rate in rates]
    done = computed_gflops() / gflops
    return [
        Figure(f"{what}: ours", "TFLOP/s", teraflops, note=f"of the model; {done:.0%} of them are computed"),
        *of_peak(what, teraflops, peak, least=A_THIRD),
        Figure(f"{what}: {EPOCHS:,} epochs of CIFAR-10", "h", [EPOCHS * IMAGES / rate / 3600 for rate in rates], most=1.0),
    ]


def of_peak(what: str, teraflops: Sequence[float], peak: float, least: float | None = None) -> list[Figure]:
    """TFLOP/s as a share of the data sheet's, where that is known, and of what a matrix product reached."""
    spec = next((value for name, value in SPEC_TFLOPS.items() if name in torch.cuda.get_device_name()), None)
    known = [(f"{spec} TFLOP/s (data sheet)", spec, least)] if spec else []
    return [
        Figure(f"{what}: of {name}", "%", [100 * value / whole for value in teraflops], least=mark)
        for name, whole, mark in [*known, ("the matrix product above", peak, None)]
    ]


def matrix_peak(size: int = 8192, products: int = 20) -> float:
    """TFLOP/s of a large bf16 matrix product: what this card gives today."""
    a, b = torch.randn(2, size, size, device="cuda", dtype=torch.bfloat16)
    times = in_turns({"product": repeated(lambda: a @ b, products)}, 5, torch.cuda.synchronize)["product"]
    return 2 * size**3 * products / median(times) / 1e12


def computed_gflops() -> float:
    """GFLOP an image that ours computes in a step, forward and backward, leaving out outputs that nobody reads."""
    with torch.device("meta"):
        network, images = build(CONFIG.model, CONFIG.data), torch.empty(1, *CONFIG.data.shape)
    with FlopCounterMode(display=False) as counter:
        output, _ = network(images, network.start(images))
        (output.logits.sum() + output.halt.sum()).backward()
    return counter.get_total_flops() / 1e9


# ------------------------------------------------------------------------------------------------------------- both


def synthetic(batch: int, device: str, config: RunConfig = CONFIG) -> Batch:
    """Random images and labels of the kind that `config` trains on."""
    images = torch.randn(batch, *config.data.shape, device=device)
    if config.model.reads_pixels:
        images = torch.randint_like(images, 256)
    kind = TASKS[config.task].labels
    labels = torch.randint(int(kind.bound(config.data)), (batch, *kind.sides(config.data)))
    return Batch(images, labels.to(device), None, batch)


def loss_of(network: Network, forward: Callable[..., tuple], batch: Batch, device: str) -> Tensor:
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        output, _ = forward(batch.images, network.start(batch.images))
    return step_loss(output, batch, TASKS[CONFIG.task](CONFIG)).sum() / batch.total


def backward_step(network: Network, forward: Callable[..., tuple], batch: Batch, device: str) -> Step:
    def step() -> None:
        network.zero_grad(set_to_none=True)
        loss_of(network, forward, batch, device).backward()

    return step


def training_step(network: Network, forward: Callable[..., tuple], batch: Batch, device: str) -> Step:
    (optimizer,), average = make_optimizers(network, CONFIG.train), MovingAverage(network, CONFIG.train.ema_decay)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss_of(network, forward, batch, device).backward()
        optimizer.step()
        average.update()

    return step


def repeated(step: Step, times: int) -> Step:
    def steps() -> None:
        for _ in range(times):
            step()

    return steps


def in_turns(
    steps: Mapping[str, Step], rounds: int, wait: Step = lambda: None, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each step, one after the other in each of `rounds` rounds; two rounds before them warm up."""
    seconds: dict[str, list[float]] = {side: [] for side in steps}
    for counted in range(-2, rounds):
        for side, step in steps.items():
            wait()
            began = clock()
            step()
            wait()
            if counted >= 0:
                seconds[side].append(clock() - began)
    return seconds


def compared(what: str, seconds: Mapping[str, list[float]], images: int, how: str) -> list[Figure]:
    rates = {side: [images / spent for spent in times] for side, times in seconds.items()}
    ratios = [ours / naive for ours, naive in zip(rates["ours"], rates["naive"], strict=True)]
    shown = [Figure(f"{what}: {side}", "images/s", rate, note=how) for side, rate in rates.items()]
    return [*shown, Figure(f"{what}: ours / naive", "x", ratios, least=1.0)]
