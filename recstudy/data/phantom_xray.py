"""Drawn chest X-rays, for tests, demonstrations and quick presets."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import DATASETS, Shape
from recstudy.data.chest_xray14 import Findings
from recstudy.data.decoded import Decoded
from recstudy.data.reader import Reader


@DATASETS.add("phantom_xray")
class PhantomXray(Findings):
    """1,200 + 400 drawn chest-like images of 7 findings, several an image; synthetic: no result on them is a medical one.

    Body, lungs, ribs and heart are each patient's own; patients have one to three images and are in one split only. The
    11 findings that are not drawn are unknown. Which patient, image and label there is does not depend on `size`.
    """

    synthetic: ClassVar[bool] = True
    title: ClassVar[str] = "Phantom chest X-rays (synthetic)"

    name: Literal["phantom_xray"] = "phantom_xray"
    size: int = Field(32, ge=16, le=256, description="pixels a side")
    drawing_seed: int = Field(0, ge=0, description="draws the patients and their images")

    @property
    def shape(self) -> Shape:
        return (1, self.size, self.size)

    @property
    def train_size(self) -> int | None:
        if self.findings == "multilabel":
            return 1200
        return None if self.drawing_seed or self.redrawn else 437

    def reader(self) -> "PhantomXrayReader":
        return PhantomXrayReader(self)


class PhantomXrayReader(Reader):
    """Reads no file."""

    def sources(self, folder: Path) -> Sequence[str]:
        return ()

    def program(self) -> Sequence[str | int]:
        from recstudy.data import phantom_cases

        return "phantom", phantom_cases.DRAWING

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.phantom_cases import draw_set

        return draw_set(self.config)
