"""Decodes the captioned sets: clean captions, pixels, tokens.

Shapes: N images, S pixels a side.
"""

from pathlib import Path

import numpy as np

from recstudy.data.caption_choosing import NONE, Chosen, all_written, check_captions, without
from recstudy.data.captions import CaptionFiles
from recstudy.data.cleaning import CLEANERS
from recstudy.data.decoded import Decoded
from recstudy.data.images import Mask, Pixels, decode, images_are, in_threads
from recstudy.data.splits import check_filled
from recstudy.data.text import with_tokens
from recstudy.errors import DataError


def decode_chosen(config: CaptionFiles, folder: Path, chosen: Chosen) -> Decoded:
    """Decode what `choose` chose. Memory: the uint8 images, and what the threads have open."""
    named = chosen.splits
    chosen = _cleaned(config, chosen)
    images, bad = _decode_all(config, folder / config.path, chosen)
    notes = chosen.notes
    if bad.any():
        chosen, images = without(chosen, bad), images[~bad]
        notes = (*notes, f"{images_are(int(bad.sum()))} not readable: left out")
    check_filled(named, chosen.splits, folder / config.path, NONE)
    train = int(np.count_nonzero(chosen.splits != "test"))
    held = chosen.splits[:train] == "val"
    return with_tokens(config, folder, images, chosen.captions, train, chosen.groups, held if held.any() else None, notes)


def _cleaned(config: CaptionFiles, chosen: Chosen) -> Chosen:
    """As `data.clean` wants them, without the images of whose captions nothing is left, if that is allowed."""
    clean = CLEANERS[config.clean]
    captions = [[clean(caption) for caption in texts] for texts in chosen.captions]
    check_captions(config, chosen.rows, captions, f"nothing is left of the caption with data.clean {config.clean!r}")
    bare = np.array([not all_written(texts) for texts in captions])
    note = f"{images_are(int(bare.sum()))} without a caption once it is cleaned: left out"
    return without(chosen._replace(captions=captions, notes=(*chosen.notes, *[note] * bool(bare.any()))), bare)


def _decode_all(config: CaptionFiles, place: Path, chosen: Chosen) -> tuple[Pixels, Mask]:
    """(N, 3, S, S), and which could not be decoded (N,), if that is allowed."""

    def one(at: int) -> Pixels | None:
        try:
            return decode(place / chosen.files[at], config.size, "RGB")
        except DataError as error:
            if config.allow_missing:
                return None
            row = chosen.rows[at]
            where = f"{row.file.name}, {row.where}"
            raise DataError(f"{error} {where} names it; --allow-missing leaves it out.") from None

    images, bad = np.empty((len(chosen.files), *config.shape), np.uint8), np.zeros(len(chosen.files), bool)
    for at, pixels in enumerate(in_threads(one, range(len(images)))):
        bad[at] = pixels is None
        images[at] = 0 if pixels is None else pixels
    return images, bad
