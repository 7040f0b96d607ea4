"""The peak memory of a training step, in bytes above what its process holds before: python
tests/step_memory.py CONFIG...

CONFIG is a run's, in JSON, whose batch size the step has; each gives a line. A fork of its own takes two
steps of forward, backward and AdamW: the first, on one image, loads code and makes the optimiser's state. The
peak, which a fork begins anew, is the highest resident memory (VmHWM of /proc/self/status: getrusage's
maximum begins at that of the process that started it), with one thread and with malloc told to return what is
freed: as it comes it keeps some, and the same step differs by up to a quarter from one process to the next
(0.5 % so).
"""

import ctypes
import json
import multiprocessing
import sys
from pathlib import Path

import torch
import torch._dynamo  # which the optimiser asks for: loaded here, each fork has it

from recstudy.programs.settings import configure
from recstudy.recursive import TASKS, RunConfig
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.models.networks.contract import build
from recstudy.recursive.train.losses import step_loss
from recstudy.recursive.train.optim import make_optimizers

# of malloc.h: blocks of so many bytes and more are mapped alone, and unmapped when they are freed
M_MMAP_THRESHOLD = -3


def step_peak(config: RunConfig) -> int:
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**16)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network, task = build(config.model, config.data).train(), TASKS[config.task](config)
    optimizers, base_memory = make_optimizers(network, config.train), 0
    for number in (1, config.train.batch_size):
        classes = config.data.classes
        size, classes = ((number, classes), 2) if config.task == "multilabel" else ((number,), classes)
        pixels, labels = torch.randn(number, *config.data.shape), torch.randint(classes, size)
        batch = Batch(
            torch.randint_like(pixels, 256) if config.model.reads_pixels else pixels, labels, None, number
        )
        network.zero_grad(set_to_none=True)
        base_memory = status("VmRSS")
        output, _ = network(batch.images, network.start(batch.images))
        (step_loss(output, batch, task).sum() / number).backward()
        for optimizer in optimizers:
            optimizer.step()
    return status("VmHWM") - base_memory


def status(field: str) -> int:
    """Bytes, from the kernel's book about this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for peak in pool.map(
            step_peak, [configure(RunConfig, json.loads(config)) for config in sys.argv[1:]], chunksize=1
        ):
            print(peak)
