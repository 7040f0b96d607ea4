"""What a training step needs beside the weights when the recursion grows: N = T = 2 against N = T = 8.

A process of its own takes two steps of forward, backward and AdamW. The first, on one image, loads code and makes the
optimiser's state; of the second the peak is measured above what the process holds before it. On a CPU that is the highest
resident memory (VmHWM of /proc/self/status: getrusage's maximum begins at that of the process that started it), with one
thread and with malloc told to return what is freed: as it comes it keeps some, and the same step differs by up to a quarter
from one process to the next (0.5 % so). On a GPU it is the allocator's own maximum, in bf16 and not compiled.

The activations that are kept are the last L- and H-update's (HRM) or those of the last cycle (TRM). So TRM's memory grows with
n, by design: its cycle of n + 1 calls carries the gradient. Only T varies here.

    python studies/bench/memory.py CONFIG IMAGES      bytes of one step; CONFIG as `recstudy` writes it, in JSON
"""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import torch
from figure import Figure
from throughput import loss_of, synthetic

from recstudy import RunConfig
from recstudy.config import configure
from recstudy.data import Cifar10, ImageFolder
from recstudy.models import HRM, TRM, HRMImage
from recstudy.models.networks.contract import build
from recstudy.train.optim import make_optimizers

FEW, MANY = 2, 8
APART = 5  # percent that the two peaks may differ
GRID = ImageFolder(path="grids", class_count=10, size=30, channels=1)
M_MMAP_THRESHOLD = -3  # of malloc.h: blocks of so many bytes and more are mapped alone, and unmapped when they are freed


def measure() -> list[Figure]:
    """Peaks of the three recursions at both depths, and of HRM with the gradient through everything."""
    narrow, layers = ({}, {}) if torch.cuda.is_available() else ({"width": 128, "heads": 4}, {"low_layers": 1, "high_layers": 1})
    images = 4 if torch.cuda.is_available() else 2  # the gradient through everything takes 32 GB at 4 of paper size, computed
    hrm = RunConfig(data=GRID, model=HRM(vocabulary=12, **narrow, **layers))
    trm = RunConfig(data=GRID, model=TRM(vocabulary=12, latent_steps=2, **narrow))
    image = RunConfig(data=Cifar10(), model=HRMImage(**layers))
    both = ("high_cycles", "low_cycles")
    figures = [
        *compared("HRM 30x30, N=T", hrm, both, images),
        *compared("TRM 30x30, n=2, T", trm, ("cycles",), images),
        *compared("HRM of 004, N=T", image, both, 16 * images),
    ]
    everything = deeper(hrm.with_changes({"model.gradient": "full_bptt"}), both, MANY)
    unlike = Figure(f"HRM 30x30, N=T={MANY}, gradient through every update", "MB", [peak(everything, images) / 1e6])
    return [*figures, unlike]


def compared(what: str, config: RunConfig, cycles: tuple[str, ...], images: int) -> list[Figure]:
    """The peak at few and at many cycles, and by how many percent they differ."""
    few, many = (peak(deeper(config, cycles, number), images) / 1e6 for number in (FEW, MANY))
    note = f"{images} images, {config.model.model_dump()['gradient']}"
    return [
        Figure(f"{what}={FEW}", "MB", [few], note=note),
        Figure(f"{what}={MANY}", "MB", [many], note=note),
        Figure(f"{what}: {FEW} and {MANY} apart", "%", [100 * abs(many / few - 1)], most=APART),
    ]


def deeper(config: RunConfig, cycles: tuple[str, ...], number: int) -> RunConfig:
    return config.with_changes({f"model.{name}": number for name in cycles})


def peak(config: RunConfig, images: int) -> int:
    """Bytes that a step on `images` images needs at its most, from a process that does nothing else."""
    command = [sys.executable, str(Path(__file__)), json.dumps(config.values), str(images)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


# ------------------------------------------------------------------------------------------------- the process of a step


def step_peak(config: RunConfig, images: int) -> int:
    """`peak`, in this process."""
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**16)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = build(config.model, config.data).to(device).train()
    optimizers = make_optimizers(network, config.train)
    held = 0
    for number in (1, images):
        batch = synthetic(number, device, config)
        network.zero_grad(set_to_none=True)
        held = resident(device)
        loss_of(network, network, batch, device).backward()
        for optimizer in optimizers:
            optimizer.step()
    return highest(device) - held


def resident(device: str) -> int:
    if device == "cpu":
        return status("VmRSS")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def highest(device: str) -> int:
    return status("VmHWM") if device == "cpu" else torch.cuda.max_memory_allocated()


def status(field: str) -> int:
    """Bytes, from the kernel's book about this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    print(step_peak(configure(RunConfig, json.loads(sys.argv[1])), int(sys.argv[2])))
