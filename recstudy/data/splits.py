"""Which images train, which are held out and which are left out: by class in proportion, or by patient.

Images of one patient look alike, so a split that divides a patient flatters the model. Where images have patients, every
split takes whole ones. Rows are positions in one official split.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from recstudy.config import DataConfig
from recstudy.data.images import Labels, Mask, Tokens
from recstudy.data.lazy import np
from recstudy.data.tables import SPLITS
from recstudy.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    Texts: TypeAlias = npt.NDArray[np.str_]
else:
    Texts = Any


def hold_out(
    labels: Labels | Tokens, groups: Labels | None, given: Mask | None, config: DataConfig, hold_out: bool = True
) -> tuple[Labels, Labels]:
    """Return rows of the validation and of the training split, each in file order; no validation rows without `hold_out`.

    Args:
        labels: (N,), (N, K) or (N, T), of the official training split.
        groups: (N,) the patient of each image, if there are patients.
        given: (N,) what the set itself holds out, if it does.
        config: its `limit`, `validation` and `split_seed`.
        hold_out: false leaves nothing out for validation, not even what is given.
    """
    count = min(config.limit or len(labels), len(labels))
    share = config.validation if given is None else float(given.mean())
    held = min(max(1, round(share * count)), count - 1) if hold_out else 0
    if groups is None and given is None and _are_classes(labels):
        return _by_class(labels, count, held, config.split_seed)
    groups = np.arange(len(labels)) if groups is None else groups
    return _by_group(groups, given, count, held, config)


def limit(labels: Labels | Tokens, groups: Labels | None, config: DataConfig) -> Labels:
    """Return rows of the test split, in file order: all, or `config.limit` of them."""
    count = min(config.limit or len(labels), len(labels))
    if groups is None and _are_classes(labels):
        return np.sort(stratified_order(labels, config.split_seed, count)) if config.limit else np.arange(len(labels))
    groups = np.arange(len(labels)) if groups is None else groups
    return _at_most(np.arange(len(labels)), groups, count, config.split_seed)


def _are_classes(labels: Labels | Tokens) -> bool:
    """Return whether each image has one whole number, in whose proportions a split can be."""
    return labels.ndim == 1 and labels.dtype.kind in "iu"


def _by_class(labels: Labels | Tokens, count: int, held: int, seed: int) -> tuple[Labels, Labels]:
    if count == len(labels):
        prefix = stratified_order(labels, seed, held)
        return np.sort(prefix), np.setdiff1d(np.arange(count), prefix, assume_unique=True)
    order = stratified_order(labels, seed, count)
    return np.sort(order[:held]), np.sort(order[held:])


def _by_group(groups: Labels, given: Mask | None, count: int, held: int, config: DataConfig) -> tuple[Labels, Labels]:
    """Return held-out patients first, `held` images or nearly; then from the others up to `count` in all."""
    seed = config.split_seed
    if not held:
        out = np.zeros(len(groups), bool)
    elif given is not None:
        out = given
    else:
        out = whole_groups(groups, held, seed)
        if out.all():
            raise DataError(f"{config.title} has training images of one patient only: none can be held out for validation.")
    rows = np.flatnonzero(out), np.flatnonzero(~out)
    if count == len(groups):
        return rows
    return _at_most(rows[0], groups, held, seed), _at_most(rows[1], groups, count - held, seed)


def _at_most(rows: Labels, groups: Labels, most: int, seed: int) -> Labels:
    """Return `rows`, or those of whole patients that are no more than `most`; a part of one patient where none has so few."""
    return rows if len(rows) <= most else rows[whole_groups(groups[rows], most, seed)][:most]


def draw(groups: Labels, validation: float, test: float, seed: int = 0) -> Texts:
    """Draw `train`, `val` or `test` for each image (N,): whole groups, and the two shares of the images or nearly.

    The test images are drawn first, so that they do not depend on the other share.
    """
    splits = np.full(len(groups), "train")
    for name, share in (("test", test), ("val", validation)):
        rest = np.flatnonzero(splits == "train")
        splits[rest[whole_groups(groups[rest], max(1, round(share * len(groups))), seed)]] = name
    return splits


def numbered(names: Iterable[str]) -> Labels:
    """Number groups (N,) in the order in which they come."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def whole_groups(groups: Labels, most: int, seed: int) -> Mask:
    """Draw the images (N,) of whole patients, one by one, who are taken while there is room for all of their images.

    A patient who does not fit is passed over. Where nobody fits, the one with the fewest images is taken nevertheless.
    """
    _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    taken = np.zeros(len(sizes), bool)
    room = most
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if size <= room:
            taken[group] = True
            room -= size
    if not taken.any():
        taken[order[sizes[order].argmin()]] = True
    return np.asarray(taken[member])


def check_whole(kind: str, names: Iterable[str | None], splits: Texts, where: str) -> None:
    """Refuse (DataError) a patient or group, which `kind` says, whose images (N,) are in more than one split."""
    seen: dict[str, set[str]] = {}
    for name, split in zip(names, splits.tolist(), strict=True):
        if name is not None:
            seen.setdefault(name, set()).add(split)
    divided = [name for name, parts in seen.items() if len(parts) > 1]
    if divided:
        parts = " and ".join(split for split in SPLITS if split in seen[divided[0]])
        count = f"1 {kind} is" if len(divided) == 1 else f"{len(divided):,} {kind}s are"
        raise DataError(
            f"{where}{kind} {divided[0]} is in {parts}; {count} in more than one split. "
            f"Give all images of a {kind} the same split, or give no splits to have them drawn."
        )


def check_filled(named: Texts, kept: Texts, place: Path, none: str) -> None:
    """Refuse (DataError) a split without images: of those that are named, and always of train and test."""
    for split in dict.fromkeys(["train", "test", *named.tolist()]):
        if split not in kept:
            count = np.count_nonzero(named == split)
            why = f"none of its {count:,} images can be used" if count else none
            raise DataError(f"{place} has no images for the split {split!r}: {why}. Give it some.")


def stratified_order(labels: Labels | Tokens, seed: int, most: int | None = None) -> Labels:
    """Return a seeded permutation of the rows, any prefix of which holds the classes in proportion; only its first `most` rows.

    In a prefix of k of N rows, a class of n rows has k n / N of them, give or take less than one. A merge by position
    cannot promise that for unequal classes; Tijdeman's chairman assignment does (Discrete Mathematics 32, 1980): the j-th
    row of a class may come from step (j + 1/m) N / n on and has to by step (j + 1 - 1/m) N / n, m = 2 (classes - 1);
    of those that may come, the most urgent does.
    """
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    rows = shuffled[np.argsort(labels[shuffled], kind="stable")]
    sizes = np.bincount(labels)
    n = np.repeat(sizes, sizes)
    j = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    m = max(2 * int(np.count_nonzero(sizes)) - 2, 1)
    first = -(-(j * m + 1) * len(labels) // (m * n))
    last = ((j + 1) * m - 1) * len(labels) // (m * n)
    return rows[_most_urgent_first(first, last, len(labels) if most is None else min(most, len(labels)))]


def _most_urgent_first(first: Labels, last: Labels, count: int) -> list[int]:
    """Order items by step: at each step, of those whose first step has come, the one whose last step is nearest."""
    arrivals = np.argsort(first, kind="stable")
    items, steps, urgency = arrivals.tolist(), first[arrivals].tolist(), last.tolist()
    waiting: list[tuple[int, int]] = []
    order: list[int] = []
    arrived = 0
    for step in range(1, count + 1):
        while arrived < len(items) and steps[arrived] <= step:
            heappush(waiting, (urgency[items[arrived]], items[arrived]))
            arrived += 1
        order.append(heappop(waiting)[1])
    return order
