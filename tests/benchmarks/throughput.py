"""How fast ViTRM trains at its paper size (3.6 M parameters, 3x32x32), beside the same model from
torch.nn.MultiheadAttention.

Both sides are shown to be one function first: as many parameters and, with the same weights, the same logits.
Then they take turns, so that whatever else the machine does slows both; the ratio is of neighbours. One step
is the forward and backward pass of one supervision step, in float32, batch 32: on every core by the clock,
and on one core by processor time, which other work on the machine hardly touches. What a GPU does is in
`gpu.py`.
"""

import os
import time
from collections.abc import Callable, Mapping

import torch
from figure import Figure
from naive import NaiveViTRM, copy_weights

from recstudy.recursive import TASKS, Cifar10, RunConfig, TrainConfig, ViTRM
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.networks.contract import Network, build
from recstudy.recursive.train.losses import step_loss

CONFIG = RunConfig(data=Cifar10(), model=ViTRM(), train=TrainConfig())
Step = Callable[[], object]
Clock = Callable[[], float]


def measure(options: object) -> list[Figure]:
    """On every core, then on one."""
    same_function()
    return on_cpu(os.cpu_count() or 1, time.perf_counter) + on_cpu(1, time.process_time, rounds=5)


def pair() -> dict[str, Network]:
    """Ours and the naive one, with the same weights."""
    torch.manual_seed(0)
    network = build(CONFIG.model, CONFIG.data)
    naive = NaiveViTRM(ViTRM(), CONFIG.data.shape, CONFIG.data.classes)
    copy_weights(network, naive)
    return {"ours": network, "naive": naive}


def same_function() -> None:
    """Equal parameters, and equal logits to 1e-4."""
    ours, naive = (network.eval() for network in pair().values())
    images = torch.randn(4, *CONFIG.data.shape)
    with torch.no_grad():
        logits = [network(images, network.start(images))[0].logits for network in (ours, naive)]
    counts = [sum(weight.numel() for weight in network.parameters()) for network in (ours, naive)]
    assert counts[0] == counts[1] == cost(CONFIG).params, counts
    torch.testing.assert_close(*logits, atol=1e-4, rtol=0)


def on_cpu(threads: int, clock: Clock, batch: int = 32, rounds: int = 9) -> list[Figure]:
    """Images/s of both and their ratio, in float32."""
    torch.set_num_threads(threads)
    images = Batch(
        torch.randn(batch, *CONFIG.data.shape), torch.randint(CONFIG.data.classes, (batch,)), None, batch
    )
    steps = {side: backward_step(network.train(), images) for side, network in pair().items()}
    clock_name = "by the clock" if clock is time.perf_counter else "by processor time"
    name = f"{threads} core{'s' * (threads > 1)}, forward + backward"
    return compared(
        name, in_turns(steps, rounds, clock=clock), batch, f"float32, batch {batch}, {clock_name}"
    )


def backward_step(network: Network, batch: Batch) -> Step:
    def step() -> None:
        network.zero_grad(set_to_none=True)
        output, _ = network(batch.images, network.start(batch.images))
        (step_loss(output, batch, TASKS[CONFIG.task](CONFIG)).sum() / batch.total).backward()

    return step


def in_turns(
    steps: Mapping[str, Step], rounds: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each step, one after the other in each of `rounds` rounds; two rounds before them warm
    up.
    """
    seconds: dict[str, list[float]] = {side: [] for side in steps}
    for counted in range(-2, rounds):
        for side, step in steps.items():
            start_time = clock()
            step()
            if counted >= 0:
                seconds[side].append(clock() - start_time)
    return seconds


def compared(title: str, seconds: Mapping[str, list[float]], images: int, note: str) -> list[Figure]:
    rates = {side: [images / duration for duration in times] for side, times in seconds.items()}
    ratios = [ours / naive for ours, naive in zip(rates["ours"], rates["naive"], strict=True)]
    figures = [Figure(f"{title}: {side}", "images/s", rate, note=note) for side, rate in rates.items()]
    return [*figures, Figure(f"{title}: ours / naive", "x", ratios, minimum=1.0)]
