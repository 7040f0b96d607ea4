"""Test images and captions as runs kept them, as HTML."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from recstudy.records import Json
from recstudy.report.kept import IMAGES, Pixels, read_images, read_runs
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import SMALL, image_of, picture_uri

SIDE = 256  # pixels of an image in the page, at most
PICTURE = Markup('<img{} src="{}" width="{}" height="{}" alt="{}" loading="lazy">')


def test_images(records: StudyRecords, where: Json, notes: list[str]) -> dict[tuple[str, int], Pixels]:
    """Return the images that runs kept, by data set and row in its test split; add to `notes` which files are damaged."""
    runs, damage = read_runs(records, where, IMAGES, read_images)
    notes += [note for note in damage if note not in notes]
    return {(records.variants[run.variant].data, row): image for run, kept in runs for row, image in kept.items()}


def picture(pixels: Pixels | None, words: str) -> Markup:
    """Return the image, or a line that says there is none."""
    if pixels is None:
        return Markup('<p class="note">no image kept</p>')
    image = image_of(pixels)
    size, sharp = image.size, Markup(' class="sharp"' if max(image.size) <= SMALL else "")
    image.thumbnail((SIDE, SIDE))
    return PICTURE.format(sharp, picture_uri(image), *size, words)


def marked(text: str, rest: dict[str, int]) -> Markup:
    """Return the text with those of its words marked that `rest` counts, and take them from it."""
    parts = []
    for part in re.split(r"(\w+)", text):
        word = part.lower()
        if is_shared := rest.get(word, 0) > 0:
            rest[word] -= 1
        parts.append(Markup("<mark>{}</mark>").format(part) if is_shared else escape(part))
    return Markup().join(parts)


FUNCTIONS = {"picture": picture, "marked": marked}  # of the templates that show examples
