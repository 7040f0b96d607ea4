"""Test images and captions as runs kept them, as HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from markupsafe import Markup, escape

from recstudy.records import Json
from recstudy.report.kept import IMAGES, Pixels, read_images, read_runs
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import SMALL, image_of, picture_uri

SIDE = 256  # pixels of an image in the page, at most
FOLD = 240  # characters of a caption that are shown; the rest opens on a click or a key
PICTURE = Markup('<img{} src="{}" width="{}" height="{}" alt="{}" loading="lazy">')
LONG = Markup('<details class="long"><summary>{}<span class="more">\N{HORIZONTAL ELLIPSIS} more</span></summary>{}</details>')


def test_images(records: StudyRecords, where: Json) -> tuple[dict[tuple[str, int], Pixels], list[str]]:
    """Return the images that runs kept, by data set and row in its test split, and notes on damaged files."""
    runs, notes = read_runs(records, where, IMAGES, read_images)
    images = {(records.variants[run.variant].data, row): image for run, kept in runs for row, image in kept.items()}
    return images, notes


def picture(pixels: Pixels | None, words: str) -> Markup:
    """Return the image, or a line that says there is none."""
    if pixels is None:
        return Markup('<p class="note">no image kept</p>')
    image = image_of(pixels)
    size, sharp = image.size, Markup(' class="sharp"' if max(image.size) <= SMALL else "")
    image.thumbnail((SIDE, SIDE))
    return PICTURE.format(sharp, picture_uri(image), *size, words)


def folded(text: str, shared: Mapping[str, int] | None = None) -> Markup:
    """Return a caption, a long one folded after its beginning, with words marked as often as they are `shared`."""
    rest, cut = Counter(shared), len(text)
    if cut > FOLD:
        cut = max(text.rfind(" ", FOLD // 2, FOLD), 0) or FOLD
    beginning, end = _marked(text[:cut], rest), _marked(text[cut:], rest)
    return LONG.format(beginning, end) if end else beginning if text.strip() else Markup("<em>(empty)</em>")


def _marked(text: str, rest: Counter[str]) -> Markup:
    """Return the text with those of its words marked that `rest` has, and take them from it."""
    parts = []
    for part in re.split(r"(\w+)", text):
        is_shared = rest[part.lower()] > 0
        rest[part.lower()] -= is_shared
        parts.append(Markup("<mark>{}</mark>").format(part) if is_shared else escape(part))
    return Markup().join(parts)
