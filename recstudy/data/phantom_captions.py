"""Drawn images with captions, for tests, demonstrations and quick presets."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import DATASETS
from recstudy.data.captions import Captioned
from recstudy.data.decoded import Decoded
from recstudy.data.reader import Reader


@DATASETS.add("phantom_captions")
class PhantomCaptions(Captioned):
    """1,000 + 200 drawn images of shapes, with findings and an impression; synthetic: no result on them is a medical one.

    An image shows none to three discs, rings or squares: large or small, bright or faint, left or right. Two or three
    captions say so, each in words of its own. Cases have one to three images and are in one split only.
    """

    synthetic: ClassVar[bool] = True
    title: ClassVar[str] = "Phantom captions (synthetic)"
    train_size: ClassVar[int | None] = 1000

    name: Literal["phantom_captions"] = "phantom_captions"
    tokenizer: Literal["byte", "word", "bpe", "clip"] = "word"
    vocabulary: int = Field(64, ge=16, le=100_000)
    length: int = Field(32, ge=4, le=4096)
    size: int = Field(64, ge=16, le=256)
    drawing_seed: int = Field(0, ge=0, description="draws the images and their captions")

    def reader(self) -> "PhantomCaptionsReader":
        return PhantomCaptionsReader(self)


class PhantomCaptionsReader(Reader):
    """Reads no file but CLIP's, where its tokenizer is asked for."""

    def sources(self, folder: Path) -> Sequence[str]:
        return ()

    def program(self) -> Sequence[str | int]:
        from recstudy.data import phantom_shapes

        return "phantom captions", phantom_shapes.DRAWING

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.phantom_shapes import draw_set

        return draw_set(self.config, folder)
