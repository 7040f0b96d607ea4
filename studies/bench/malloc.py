"""What a training step gains where glibc keeps what the step before has freed, as studies tell it to (`SETTINGS`, by MALLOC_...).

As it comes, glibc gives every larger block back to the system, which zeroes it page by page for the next step. A process of its
own takes some steps of a family, with the settings and without; they take turns, and the clock is processor time of one core.

    python studies/bench/malloc.py NAME      images per processor second, and the peak of resident memory in MB
"""

import os
import subprocess
import sys
import time
from itertools import pairwise

import torch
from figure import Figure
from memory import highest
from recursion import FAMILIES, drawn
from throughput import synthetic, training_step

from recstudy.cluster.connection import SETTINGS

BATCH, STEPS, ROUNDS = 128, 4, 3
NAMES = ("CNN of 004, CIFAR-10", "HRM of 004, MNIST")


def measure(options: object) -> list[Figure]:
    """Of each family the rate with and without, and the peak of memory."""
    return [figure for name in NAMES for figure in compared(name)]


def compared(name: str) -> list[Figure]:
    turns = [in_a_process(name, kept) for _ in range(ROUNDS) for kept in (False, True)]
    without, kept = turns[::2], turns[1::2]
    return [
        Figure(name, "images/s", [rate for rate, _ in kept], note="of one core's processor time"),
        Figure(f"{name}: kept / given back", "x", [mine / its for (mine, _), (its, _) in zip(kept, without, strict=True)]),
        Figure(f"{name}: peak, kept / given back", "x", [mine / its for (_, mine), (_, its) in zip(kept, without, strict=True)]),
    ]


def in_a_process(name: str, kept: bool) -> tuple[float, float]:
    told = {key: value for key, value in SETTINGS.items() if kept and key.startswith("MALLOC_")}
    command = [sys.executable, __file__, name]
    rate, peak = subprocess.run(command, env={**os.environ, **told}, capture_output=True, check=True, text=True).stdout.split()
    return float(rate), float(peak)


def main(name: str) -> None:
    family = next(one for one in FAMILIES if one.name == name)
    torch.set_num_threads(1)
    network = drawn(family.config).train()
    step = training_step(network, network, synthetic(BATCH, "cpu", family.config), "cpu")
    clock = [time.process_time()]
    for _ in range(1 + STEPS):  # the first makes the optimiser's state
        step()
        clock.append(time.process_time())
    seconds = sorted(after - before for before, after in pairwise(clock[1:]))
    print(BATCH / seconds[STEPS // 2], highest("cpu") / 1e6)


if __name__ == "__main__":
    main(sys.argv[1])
