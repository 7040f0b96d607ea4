"""Batches for the training loop: gathered, augmented and standardized in chunks, on the device.

Images stay in their decoded type, uint8 or float32. On the CPU they are the cache's memory map, which all
trials of a node share. On a GPU they are copied once per process, or chunk by chunk if they would fill the
memory. A chunk has several batches, because augmentation costs about a hundred kernel launches whatever the
number of images, and one batch of small images does not fill a GPU.

Shapes: B images of one worker's share of a batch, C channels, H height, W width, K classes.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.tasks import TaskKind
from recstudy.recursive.config.train import Augment
from recstudy.recursive.data.augment import augment, mix, send
from recstudy.recursive.data.cache import Split
from recstudy.recursive.data.puzzles import Groups

CHUNK_IMAGES = 2048
CHUNK_BYTES = 2**26  # 64 MiB of uint8, 256 MiB as float32; so chunks of large images are below 2,048
SHARE = 0.5  # largest share of the GPU's free memory for the images of a split; the rest is for training
# A function of labels, groups and ids: see `Task.context`.
Context = Callable[[Tensor, Tensor | None, Tensor | None], Tensor | None]
# Images and labels of the last run's splits, which the next run in this process may reuse.
_ON_GPU: dict[tuple[str, torch.device], tuple[Tensor, Tensor]] = {}


class Batch(NamedTuple):
    """One worker's share of a batch."""

    # (B, C, H, W) float32, standardized; (B, F) or (B, P, F) features of a frozen backbone; or (B, K) codes
    images: Tensor
    # Before mixing: (B,) int64 classes; (B, K) of 1, 0 and -1 (unknown); (B, T) tokens with PAD at the end;
    # (B, S) cells of a puzzle; or the labels of another task. Integers are int64.
    labels: Tensor
    targets: Tensor | None  # (B, K) float32 that sum to 1; None without mixing
    total: int  # images in the shares of all workers
    # Second input of the network: (B,) the patient or the puzzle's id, or (B, T) the caption without its last
    # token; None if there is none.
    context: Tensor | None = None
    smoothing: float = 0.0  # label smoothing in training


@dataclass(eq=False)
class Batches:
    """The batches of one split, for one of `world` workers.

    Random numbers depend on the seed, the epoch and the chunk, but not on the worker. Each worker augments
    the whole batch and keeps its contiguous share. So several workers together see the images of a single
    one, and any epoch can be repeated after a crash.

    The last batch of an epoch may be short. It is dropped if it has fewer images than there are workers,
    because a worker without images could not take part in the step.

    Args:
        split: Images and labels.
        mean: Mean per channel, for standardization.
        std: Standard deviation per channel.
        classes: K.
        batch_size: Images of all workers' shares together.
        augment: The run's `train.augment`.
        seed: The run's random seed.
        device: Where batches are built.
        data: Config of the data set, for its own symmetries.
        rank: Number of this worker, from 0.
        world: Number of workers.
        context: Computes the second input of the network from labels, groups and ids.
    """

    split: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    classes: int
    batch_size: int
    augment: Augment
    seed: int
    device: torch.device
    data: DataConfig
    rank: int = 0
    world: int = 1
    context: Context = TaskKind.context

    def __post_init__(self) -> None:
        split, device = self.split, self.device
        self.showings = self.data.showings
        self.rows = torch.from_numpy(split.rows)
        self.images, self.labels = _resident(split, device)
        self.groups, self.ids = (
            None if numbers is None else torch.from_numpy(numbers) for numbers in (split.groups, split.ids)
        )
        deviation = torch.tensor(self.std).view(-1, 1, 1)
        deviation = torch.where(deviation > 0, deviation, 1.0)  # a constant channel becomes 0
        self._scale = send(1 / ((255 if self.images.dtype == torch.uint8 else 1) * deviation), device)
        self._shift = send(-torch.tensor(self.mean).view(-1, 1, 1) / deviation, device)

    @property
    def size(self) -> int:
        """Number of images per epoch."""
        return (self._groups.examples if self._groups else len(self.rows)) * self.showings

    @cached_property
    def _groups(self) -> Groups | None:
        """Return the groups of puzzles with several examples; None if every image is its own group."""
        split, rows = self.split, self.split.rows
        if split.puzzles is None or split.groups is None:
            return None
        return Groups(split.groups[rows], split.puzzles[rows])

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        full_batches, rest = divmod(self.size, self.batch_size)
        return full_batches + (rest >= self.world)

    def epoch(self, number: int) -> Iterator[Batch]:
        """Yield the augmented training batches of epoch `number`, in a random order of its own."""
        order = self._order(number)[: len(self) * self.batch_size]
        for chunk, rows in enumerate(_pieces(order, self._chunk(self.batch_size))):
            generator = self._generator(number, chunk + 1)
            images, labels, context = self._gather(rows)
            if self._groups is None:  # groups contain their symmetries
                turns = np.arange(len(rows)) + number * self.size + chunk * self._chunk(self.batch_size)
                images, labels = self.data.transform(self.seed, images, labels, rows.numpy(), turns)
            images = self._standardise(augment(images, self.augment, generator, labels))
            for start in range(0, len(rows), self.batch_size):
                part = slice(start, start + self.batch_size)
                mixed, targets = mix(images[part], labels[part], self.classes, self.augment, generator)
                count = len(mixed)
                batch = Batch(mixed, labels[part], targets, count, None if context is None else context[part])
                share = self._share(count)
                yield Batch._make(value[share] if isinstance(value, Tensor) else value for value in batch)

    def evaluation_batches(self, batch_size: int) -> Iterator[Batch]:
        """Yield all images once for evaluation, in the split's order and without augmentation.

        No batch is dropped, so this worker's share of the last batch may be empty.
        """
        for rows in _pieces(self.rows, batch_size):
            images, labels, context = self._gather(rows[self._share(len(rows))])
            yield Batch(self._standardise(images), labels, None, len(rows), context)

    def evaluation_rows(self, batch_size: int) -> Tensor:
        """Return the rows of the images that `evaluation_batches` yields, in the same order."""
        return torch.cat([rows[self._share(len(rows))] for rows in _pieces(self.rows, batch_size)])

    def _order(self, epoch: int) -> Tensor:
        """Return the rows of an epoch: all rows, or one puzzle per group, each `showings` times."""
        generator, rounds = self._generator(epoch, 0), range(self.showings)
        if self._groups is None:
            return torch.cat([self.rows[torch.randperm(len(self.rows), generator=generator)] for _ in rounds])
        draws = np.random.default_rng([self.seed, epoch])
        parts = [self.split.rows[self._groups.one_of_each(draws)] for _ in rounds]
        # Puzzles differ in their number of examples, but every epoch must have the same number of steps.
        return torch.from_numpy(np.resize(np.concatenate(parts), self.size))

    def _gather(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        groups, ids = (
            None if part is None else send(part[rows], self.device) for part in (self.groups, self.ids)
        )
        images, labels = self._rows_of(self.images, rows), self._rows_of(self.labels, rows)
        labels = labels if labels.is_floating_point() else labels.long()
        return images, labels, self.context(labels, groups, ids)

    def _rows_of(self, values: Tensor, rows: Tensor) -> Tensor:
        """Return the rows of `values` on the device, wherever `values` are."""
        if values.device.type == self.device.type:
            return values.index_select(0, send(rows, self.device))
        return send(values.index_select(0, rows), self.device)

    def _standardise(self, images: Tensor) -> Tensor:
        if images.dim() < 4:  # features, or codes
            return images
        return images.float().mul_(self._scale).add_(self._shift)

    def _chunk(self, batch_size: int) -> int:
        """Return the number of images per chunk: a multiple of the batch size, at least one batch."""
        max_images = min(CHUNK_IMAGES, CHUNK_BYTES // self.images[0].numel())
        return max(max_images // batch_size, 1) * batch_size

    def _share(self, count: int) -> slice:
        return slice(count * self.rank // self.world, count * (self.rank + 1) // self.world)

    def _generator(self, epoch: int, stream: int) -> Generator:
        """Return an independent generator for each (seed, epoch, stream). Stream 0 draws the order."""
        state = np.random.SeedSequence([self.seed, epoch, stream]).generate_state(1, np.uint64)
        return Generator().manual_seed(int(state[0]))


def _pieces(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Split like torch.split, but return no piece for an empty tensor instead of an empty piece."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _resident(split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return images and labels on the device, reusing the copy of an earlier run in this process.

    Images stay on the CPU if they need more than `SHARE` of the free memory.
    """
    cpu_tensors = torch.from_numpy(split.images), torch.from_numpy(split.labels)
    if device.type == "cpu":
        return cpu_tensors
    key = (split.source, device)
    if key not in _ON_GPU:
        # The source is CHECKSUM/SPLIT or CHECKSUM/SPLIT/READING.
        reading = split.source.split("/", 2)[::2]
        for cached_key in list(_ON_GPU):
            # Other data, or other features of the same data, would only take memory from this run.
            if cached_key[0].split("/", 2)[::2] != reading:
                del _ON_GPU[cached_key]
        free_bytes = sys.maxsize  # no limit on other devices than CUDA's
        if device.type == "cuda":
            # Memory that torch has reserved but does not use counts as free.
            reserved_bytes = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            free_bytes = torch.cuda.mem_get_info(device)[0] + reserved_bytes
        images = cpu_tensors[0].to(device) if cpu_tensors[0].nbytes <= SHARE * free_bytes else cpu_tensors[0]
        _ON_GPU[key] = images, cpu_tensors[1].to(device)
    return _ON_GPU[key]
