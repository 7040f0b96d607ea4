"""Batches for the training loop: gathered, augmented and standardised by the chunk, on the device.

The images stay as they are decoded, uint8 or float32, on the device. On the CPU they are the cache's memory
map itself, which all trials of a node share; a GPU gets them once a process, or chunk by chunk where they
would fill it. Work is done on chunks of several batches, because one batch of small images is far too little
for a GPU, where augmentation costs about a hundred kernel launches whatever the number of images.

Shapes: B images of one worker's share of a batch, C channels, H height, W width, K classes.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from recstudy.config import Augment, DataConfig
from recstudy.data.augment import augment, mix, send
from recstudy.data.cache import Split
from recstudy.data.puzzles import Groups

CHUNK_IMAGES = 2048
CHUNK_BYTES = 2**26  # 256 MiB once they are float32: fewer than 2,048 images where they are large
SHARE = 0.5  # of the GPU's free memory that one split's images may take; the rest is for training
# of labels, groups and ids: see `Task.context`
Context = Callable[[Tensor, Tensor | None, Tensor | None], Tensor | None]
# train and test as the last run read them, for the next
_ON_GPU: dict[tuple[str, torch.device], tuple[Tensor, Tensor]] = {}


class Batch(NamedTuple):
    """One worker's share of a batch."""

    # (B, C, H, W) float32, standardised; (B, F) or (B, P, F) features of a frozen backbone; or (B, K) codes
    images: Tensor
    # (B,) int64, as they were before mixing; (B, K) of 1, 0 and -1 (unknown); (B, T) tokens, PAD behind; (B,
    # S) of a puzzle; or what else the task's labels are, whole numbers as int64.
    labels: Tensor
    targets: Tensor | None  # (B, K) float32 that sum to 1; None where nothing mixes
    total: int  # images of all workers' shares together
    # What a network is told beside the image: its patient or the puzzle's id (B,), or its caption without the
    # last token (B, T); None: nothing.
    context: Tensor | None = None
    smoothing: float = 0.0  # of the labels, in training


def by_group(labels: Tensor, groups: Tensor | None, ids: Tensor | None) -> Tensor | None:
    return groups


class Batches:
    """The batches of one split, for one of `world` workers.

    What is drawn depends on the seed, the epoch and the chunk, and not on the worker: each worker augments
    the whole batch and keeps its contiguous share, so that k workers see together what one would see, and any
    epoch can be made again after a crash. The last batch of an epoch may be short; it is dropped where it has
    fewer images than there are workers, because a worker without images could not take part in the step.
    """

    def __init__(
        self,
        split: Split,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        classes: int,
        batch_size: int,
        augment: Augment,
        seed: int,
        device: torch.device,
        rank: int = 0,
        world: int = 1,
        data: DataConfig | None = None,
        context: Context = by_group,
    ) -> None:
        self.split, self.data, self.context = split, data, context
        self.showings = 1 if data is None else data.showings
        self.rows = torch.from_numpy(split.rows)
        self.images, self.labels = _resident(split, device)
        self.groups, self.ids = (
            None if numbers is None else torch.from_numpy(numbers) for numbers in (split.groups, split.ids)
        )
        self.classes, self.batch_size, self.augment, self.seed = classes, batch_size, augment, seed
        self.device, self.rank, self.world = device, rank, world
        deviation = torch.tensor(std).view(-1, 1, 1)
        deviation = torch.where(deviation > 0, deviation, 1.0)  # a channel that never changes becomes 0
        self._scale = send(1 / ((255 if self.images.dtype == torch.uint8 else 1) * deviation), device)
        self._shift = send(-torch.tensor(mean).view(-1, 1, 1) / deviation, device)

    @property
    def size(self) -> int:
        """Images of an epoch."""
        return (self._groups.examples if self._groups else len(self.rows)) * self.showings

    @cached_property
    def _groups(self) -> Groups | None:
        """Return the groups of puzzles, of which each may have several examples; None where each is in a
        group of its own.
        """
        split, rows = self.split, self.split.rows
        return (
            None
            if split.puzzles is None or split.groups is None
            else Groups(split.groups[rows], split.puzzles[rows])
        )

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        full_batches, rest = divmod(self.size, self.batch_size)
        return full_batches + (rest >= self.world)

    def epoch(self, number: int) -> Iterator[Batch]:
        """Yield all images once, in an order of this epoch's own, augmented."""
        order = self._order(number)[: len(self) * self.batch_size]
        for chunk, rows in enumerate(_pieces(order, self._chunk(self.batch_size))):
            generator = self._generator(number, chunk + 1)
            images, labels, context = self._gather(rows)
            if self.data is not None and self._groups is None:  # groups have their symmetries in them
                turns = np.arange(len(rows)) + number * self.size + chunk * self._chunk(self.batch_size)
                images, labels = self.data.transform(self.seed, images, labels, rows.numpy(), turns)
            images = self._standardise(augment(images, self.augment, generator, labels))
            for start in range(0, len(rows), self.batch_size):
                part_images, part_labels = (
                    images[start : start + self.batch_size],
                    labels[start : start + self.batch_size],
                )
                mixed, targets = mix(part_images, part_labels, self.classes, self.augment, generator)
                part_context = None if context is None else context[start : start + self.batch_size]
                batch, share = (
                    Batch(mixed, part_labels, targets, len(part_labels), part_context),
                    self._share(len(part_labels)),
                )
                yield Batch._make(value[share] if isinstance(value, Tensor) else value for value in batch)

    def evaluation_batches(self, batch_size: int | None = None) -> Iterator[Batch]:
        """Yield all images once, in their order and as they are, for evaluation. A share may be empty; none
        is dropped.
        """
        for rows in _pieces(self.rows, batch_size or self._chunk(1)):
            images, labels, context = self._gather(rows[self._share(len(rows))])
            yield Batch(self._standardise(images), labels, None, len(rows), context)

    def evaluation_rows(self, batch_size: int) -> Tensor:
        """Return the rows whose images `plain` gives, in its order."""
        return torch.cat([rows[self._share(len(rows))] for rows in _pieces(self.rows, batch_size)])

    def _order(self, epoch: int) -> Tensor:
        """Return the rows of an epoch: all of them, or one puzzle of each group, as often as the data are
        shown.
        """
        generator, rounds = self._generator(epoch, 0), range(self.showings)
        if self._groups is None:
            return torch.cat([self.rows[torch.randperm(len(self.rows), generator=generator)] for _ in rounds])
        draws = np.random.default_rng([self.seed, epoch])
        parts = [self.split.rows[self._groups.one_of_each(draws)] for _ in rounds]
        # a puzzle may have more examples than another
        return torch.from_numpy(np.resize(np.concatenate(parts), self.size))

    def _gather(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        groups, ids = (
            None if part is None else send(part[rows], self.device) for part in (self.groups, self.ids)
        )
        images, labels = self._rows_of(self.images, rows), self._rows_of(self.labels, rows)
        labels = labels if labels.is_floating_point() else labels.long()
        return images, labels, self.context(labels, groups, ids)

    def _rows_of(self, values: Tensor, rows: Tensor) -> Tensor:
        """Return rows on the device, wherever `values` are."""
        if values.device.type == self.device.type:
            return values.index_select(0, send(rows, self.device))
        return send(values.index_select(0, rows), self.device)

    def _standardise(self, images: Tensor) -> Tensor:
        if images.dim() < 4:  # features, or codes
            return images
        return images.float().mul_(self._scale).add_(self._shift)

    def _chunk(self, batch_size: int) -> int:
        """Return how many images a chunk has: whole batches, at least one."""
        max_images = min(CHUNK_IMAGES, CHUNK_BYTES // self.images[0].numel())
        return max(max_images // batch_size, 1) * batch_size

    def _share(self, count: int) -> slice:
        return slice(count * self.rank // self.world, count * (self.rank + 1) // self.world)

    def _generator(self, epoch: int, stream: int) -> Generator:
        """Return independent numbers for each (seed, epoch, stream); stream 0 draws the order."""
        state = np.random.SeedSequence([self.seed, epoch, stream]).generate_state(1, np.uint64)
        return Generator().manual_seed(int(state[0]))


def _pieces(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Split as torch.split does, which makes one empty piece of nothing; here nothing has no pieces."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _resident(split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return images and labels on the device, the copy of an earlier run where there is one; images that
    would fill it stay.
    """
    cpu_tensors = torch.from_numpy(split.images), torch.from_numpy(split.labels)
    if device.type == "cpu":
        return cpu_tensors
    key = (split.source, device)
    if key not in _ON_GPU:
        reading = split.source.split("/", 2)[::2]  # of CHECKSUM/SPLIT or CHECKSUM/SPLIT/READING
        for cached_key in [
            cached_key for cached_key in _ON_GPU if cached_key[0].split("/", 2)[::2] != reading
        ]:
            # other data, or other features of the same, would only take memory from this run
            del _ON_GPU[cached_key]
        free_bytes = sys.maxsize  # bytes of the GPU that nobody uses, what torch keeps for later among them
        if device.type == "cuda":
            reserved_bytes = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            free_bytes = torch.cuda.mem_get_info(device)[0] + reserved_bytes
        images = cpu_tensors[0].to(device) if cpu_tensors[0].nbytes <= SHARE * free_bytes else cpu_tensors[0]
        _ON_GPU[key] = images, cpu_tensors[1].to(device)
    return _ON_GPU[key]
