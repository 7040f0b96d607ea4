"""Decodes the captioned sets: clean captions, pixels, tokens.

Shapes: N images, S pixels a side.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from recstudy.data import text
from recstudy.data.caption_readers import Chosen, all_written, check_captions, check_empty, choose, images_are, without
from recstudy.data.captions import Captioned, CaptionFiles
from recstudy.data.cleaning import CLEANERS
from recstudy.data.images import Decoded, Labels, Mask, Pixels, decode
from recstudy.errors import DataError

PIECE = 1024  # images that wait to be decoded at a time


def decode_set(config: CaptionFiles, folder: Path) -> Decoded:
    """Decode what `choose` chose. Memory: the uint8 images, and what the threads have open."""
    chosen = choose(config, folder)
    named = chosen.splits
    chosen = _cleaned(config, chosen)
    images, bad = _decode_all(config, folder / config.path, chosen)
    notes = chosen.notes
    if bad.any():
        chosen, images = without(chosen, bad), images[~bad]
        notes = (*notes, f"{images_are(int(bad.sum()))} not readable: left out")
    check_empty(config, folder, named, chosen.splits)
    train = int(np.count_nonzero(chosen.splits != "test"))
    held = chosen.splits[:train] == "val"
    return with_tokens(config, folder, images, chosen.captions, train, chosen.groups, held if held.any() else None, notes)


def with_tokens(
    config: Captioned,
    folder: Path,
    images: Pixels,
    captions: Sequence[list[str]],
    train: int,
    groups: Labels | None,
    held: Mask | None = None,
    notes: tuple[str, ...] = (),
) -> Decoded:
    """A decoded set of N images and their captions, of which the first `train` images are for training.

    The tokenizer learns from the first captions of the training images that are not `held` out for validation.
    """
    firsts = [texts[0] for texts in captions]
    learn = firsts[:train] if held is None else [first for first, out in zip(firsts, held, strict=False) if not out]
    tokenizer = text.tokenizer_of(config, learn, folder)
    labels, cut = text.tokens(firsts, tokenizer, config.length)
    return Decoded(
        train_images=images[:train],
        train_labels=labels[:train],
        test_images=images[train:],
        test_labels=labels[train:],
        train_groups=None if groups is None else groups[:train],
        test_groups=None if groups is None else groups[train:],
        train_held=held,
        notes=(*notes, *_token_notes(config, tokenizer, firsts, cut)),
        train_captions=list(captions[:train]),
        test_captions=list(captions[train:]),
        tokenizer=tokenizer.stored(),
    )


def _cleaned(config: CaptionFiles, chosen: Chosen) -> Chosen:
    """As `data.clean` wants them, without the images of whose captions nothing is left, if that is allowed."""
    clean = CLEANERS[config.clean]
    captions = [[clean(caption) for caption in texts] for texts in chosen.captions]
    check_captions(config, chosen.rows, captions, f"nothing is left of the caption with data.clean {config.clean!r}")
    bare = np.array([not all_written(texts) for texts in captions])
    note = f"{images_are(int(bare.sum()))} without a caption once it is cleaned: left out"
    return without(chosen._replace(captions=captions, notes=(*chosen.notes, *[note] * bool(bare.any()))), bare)


def _decode_all(config: CaptionFiles, place: Path, chosen: Chosen) -> tuple[Pixels, Mask]:
    """(N, 3, S, S), and which could not be decoded (N,), if that is allowed. Pillow lets other threads run meanwhile."""
    images = np.empty((len(chosen.files), *config.shape), np.uint8)

    def one(at: int) -> bool:
        try:
            images[at] = decode(place / chosen.files[at], config.size, "RGB")
        except DataError as error:
            if config.allow_missing:
                return True
            row = chosen.rows[at]
            where = f"{row.file.name}, {row.where}"
            raise DataError(f"{error} {where} names it; --allow-missing leaves it out.") from None
        return False

    bad = np.zeros(len(images), bool)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(images), PIECE):
            part = range(start, min(start + PIECE, len(images)))
            bad[start : part.stop] = list(pool.map(one, part))
    return images, bad


def _token_notes(config: Captioned, tokenizer: text.Tokenizer, captions: Iterable[str], cut: int) -> Iterator[str]:
    if cut:
        captions_are = "1 caption is" if cut == 1 else f"{cut:,} captions are"
        yield f"{captions_are} longer than data.length ({config.length} tokens): cut"
    if config.tokenizer == "word":
        ids = [one for caption in captions for one in tokenizer.encode(caption)]
        share = 100 * ids.count(tokenizer.unk) / max(len(ids), 1)
        yield f"{tokenizer.size:,} of {config.classes:,} ids are used; {share:.1f} % of the words have none of their own"
