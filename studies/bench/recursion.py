"""How fast each family trains at its paper's size, HRM beside its published loop, and what depth costs in memory.

One step is `forward + backward` of one supervision step, as in `throughput.py`. TFLOP/s count the model as its paper writes
it (`recstudy.models.cost`). HRM is shown to be the same function as `naive_hrm.py` first, with the same weights: logits,
halting and the state to 1e-4. Then the two take turns, and the ratio is of neighbours. Memory stands in `memory.py`.

CPU: float32 and every core by the clock; the comparison also on one core by processor time, which other work on the machine
hardly touches. GPU: bf16 autocast and torch.compile, in larger batches.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import memory
import throughput
import torch
from figure import Figure, number
from naive_hrm import NaiveHRM, copy_weights
from throughput import Clock, Step, backward_step, in_turns, of_peak, repeated, synthetic

from recstudy import RunConfig
from recstudy.data import ChestXray14, Cifar10, ImageFolder, Mnist
from recstudy.models import CNN, HRM, TRM, HRMImage
from recstudy.models.cost import cost
from recstudy.models.networks.contract import Network, build
from recstudy.models.networks.sequence import SequenceNetwork


def grid(side: int) -> ImageFolder:
    """Tokens laid out as a square, each a grey level, as Sudoku (9) and ARC (30) have them."""
    return ImageFolder(path="grids", class_count=10, size=side, channels=1)


@dataclass(frozen=True)
class Family:
    """A family at its paper's size, and how many images a step takes on a CPU and on a GPU."""

    name: str
    config: RunConfig
    cpu: int
    gpu: int


XRAY = HRM(tokens="patch", head="multilabel")  # patches of 4x4: 256 of them
SUDOKU = RunConfig(data=grid(9), model=HRM(vocabulary=11))
FAMILIES = [
    Family("ViTRM, CIFAR-10", throughput.CONFIG, 32, 1024),
    Family("HRM of 004, CIFAR-10", RunConfig(data=Cifar10(), model=HRMImage()), 32, 1024),
    Family(
        "HRM of 004, MNIST", RunConfig(data=Mnist(), model=HRMImage(width=128, heads=4, low_layers=2, high_layers=2)), 64, 2048
    ),
    Family("CNN of 004, CIFAR-10", RunConfig(data=Cifar10(), model=CNN()), 64, 4096),
    Family("HRM, ARC 30x30", RunConfig(data=grid(30), model=HRM(vocabulary=12)), 1, 64),
    Family("HRM, X-ray 64x64", RunConfig(data=ChestXray14(), model=XRAY), 4, 256),
    Family("TRM, ARC 30x30", RunConfig(data=grid(30), model=TRM(vocabulary=12, latent_steps=4)), 1, 64),
    Family("TRM-MLP, Sudoku 9x9", RunConfig(data=grid(9), model=TRM(vocabulary=11, mixing="mlp")), 8, 512),
]


def measure(options: object) -> list[Figure]:
    """On the GPU where there is one, else on the CPU."""
    same_function()
    if not torch.cuda.is_available():
        cores = os.cpu_count() or 1
        figures = [figure for family in FAMILIES for figure in on_cpu(family, cores)]
        figures += beside_naive(cores, time.perf_counter, rounds=9) + beside_naive(1, time.process_time, rounds=5)
        return figures + memory.measure()
    torch.set_float32_matmul_precision("high")
    peak = throughput.matrix_peak()
    named = Figure("matrix product", "TFLOP/s", [peak], note="8192 x 8192 x 8192, bf16, random values")
    figures = [figure for family in FAMILIES for figure in on_gpu(family, peak)]
    return [named, *figures, *beside_naive_on_gpu(), *memory.measure()]


# ------------------------------------------------------------------------------------------------------- each family


def on_cpu(family: Family, threads: int, rounds: int = 5) -> list[Figure]:
    torch.set_num_threads(threads)
    network = drawn(family.config).train()
    step = backward_step(network, network, synthetic(family.cpu, "cpu", family.config), "cpu")
    how = f"float32, {threads} core{'s' * (threads > 1)}, batch {family.cpu}"
    return speed(family, [family.cpu / spent for spent in in_turns({"": step}, rounds)[""]], how)


def on_gpu(family: Family, peak: float, steps: int = 5, rounds: int = 7) -> list[Figure]:
    torch.compiler.reset()
    network = drawn(family.config).to("cuda").train()
    compiled = torch.compile(network, dynamic=False)
    step = repeated(backward_step(network, compiled, synthetic(family.gpu, "cuda", family.config), "cuda"), steps)
    seconds = in_turns({"": step}, rounds, torch.cuda.synchronize)[""]
    figures = speed(family, [steps * family.gpu / spent for spent in seconds], f"bf16, compiled, batch {family.gpu}")
    return figures + of_peak(family.name, figures[-1].samples, peak)


def speed(family: Family, rates: Sequence[float], how: str) -> list[Figure]:
    """Images/s, and the TFLOP/s of the model that they mean."""
    counted = cost(family.config)
    size = f"{counted.params:,} parameters, {number(counted.train_gflops)} GFLOP an image"
    return [
        Figure(family.name, "images/s", rates, note=how),
        Figure(family.name, "TFLOP/s", [rate * counted.train_gflops / 1e3 for rate in rates], note=size),
    ]


def drawn(config: RunConfig) -> Network:
    torch.manual_seed(0)
    return build(config.model, config.data)


# ------------------------------------------------------------------------------------------- HRM beside its published loop


def pair(device: str = "cpu") -> dict[str, Network]:
    """Ours and the naive one, with the same weights; the halting head's are drawn, because it starts at 0."""
    ours, model = drawn(SUDOKU), SUDOKU.model
    assert isinstance(ours, SequenceNetwork)
    assert isinstance(model, HRM)
    torch.nn.init.normal_(ours.q_head.weight, std=model.width**-0.5)
    naive = NaiveHRM(model, SUDOKU.data.shape, SUDOKU.data.classes)
    copy_weights(ours, naive)
    return {"ours": ours.to(device).train(), "naive": naive.to(device).train()}


def same_function() -> None:
    """As many parameters; equal answers, halting and z_H to 1e-4; gradients as close where they end, at the embedding."""
    images = synthetic(2, "cpu", SUDOKU).images
    found = []
    for network in pair().values():
        output, (z_high, *_) = network(images, network.start(images))
        embedding = next(weight for name, weight in network.named_parameters() if name.startswith("embed"))
        gradient = torch.autograd.grad(output.logits.square().sum(), embedding)[0]
        found.append([sum(weight.numel() for weight in network.parameters()), *output, z_high.flatten(0, -3), gradient])
    (count, *ours), (naive_count, *naive) = found
    assert count == naive_count == cost(SUDOKU).params, (count, naive_count)
    for mine, plain in zip(ours, naive, strict=True):
        torch.testing.assert_close(mine, plain, atol=1e-4, rtol=1e-4)


def beside_naive(threads: int, clock: Clock, rounds: int, batch: int = 8) -> list[Figure]:
    """Images/s of both on a CPU, and their ratio."""
    torch.set_num_threads(threads)
    images = synthetic(batch, "cpu", SUDOKU)
    steps = {side: backward_step(network, network, images, "cpu") for side, network in pair().items()}
    how = "by the clock" if clock is time.perf_counter else "by processor time"
    name = f"HRM, Sudoku 9x9, {threads} core{'s' * (threads > 1)}"
    return throughput.compared(name, in_turns(steps, rounds, clock=clock), batch, f"float32, batch {batch}, {how}")


def beside_naive_on_gpu(batch: int = 512, repeats: int = 5, rounds: int = 9) -> list[Figure]:
    torch.compiler.reset()
    images = synthetic(batch, "cuda", SUDOKU)
    steps: dict[str, Step] = {}
    for side, network in pair("cuda").items():
        compiled = torch.compile(network, dynamic=False)
        steps[side] = repeated(backward_step(network, compiled, images, "cuda"), repeats)
    seconds = in_turns(steps, rounds, torch.cuda.synchronize)
    return throughput.compared(f"HRM, Sudoku 9x9, batch {batch}", seconds, repeats * batch, "bf16, compiled")
