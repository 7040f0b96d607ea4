"""Captioned images: what can be set about them, and any folder of them with a table.

An official set is a module of its own, as `roco.py` is. Which images are read stands in `caption_choosing.py`, what a token
is in `text.py`.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from recstudy.config import DATASETS, PAD, DataConfig, Shape
from recstudy.data.decoded import Decoded
from recstudy.data.reader import Reader
from recstudy.data.tables import Rows

SPECIALS = 4  # PAD, BOS, EOS and UNK are the first ids
BYTES = 256
CLIP_VOCABULARY = 49_408
CLIP_BOS, CLIP_EOS = CLIP_VOCABULARY - 2, CLIP_VOCABULARY - 1  # its last ids
GROUPS = ("group", "case_id", "patient_id")  # columns of captions.csv; the first that is there


class Captioned(DataConfig):
    """Colour images with a text each. The labels are the tokens of an image's first caption: BOS, words, EOS, PAD."""

    task: ClassVar[str] = "caption"

    tokenizer: Literal["byte", "word", "bpe", "clip"] = Field(
        "byte",
        description="a token a byte; a word of the training captions, where it is there 3 times (MicarVLMoE); a piece of a word, "
        "by byte pairs of the training captions; or by CLIP's (FuseLIP), from its files",
    )
    vocabulary: int = Field(1000, ge=16, le=100_000, description="V of 'word' and 'bpe': most ids, with the 4 special ones")
    length: int = Field(512, ge=4, le=4096, description="tokens of a caption with BOS and EOS; a longer one is cut, and counted")
    size: int = Field(224, ge=16, le=1024, description="images are resized and centre-cropped to this many pixels a side")
    clean: Literal["none", "report"] = Field(
        "none", description="captions as they are, but for white space; or as MicarVLMoE cleans reports: see `cleaning.py`"
    )
    clip_files: str = Field(
        "clip", description="below the data folder: CLIP's vocab.json and merges.txt; else the Hugging Face cache is asked"
    )

    @property
    def shape(self) -> Shape:
        return (3, self.size, self.size)

    @property
    def classes(self) -> int:
        """Ids that a model can give; a tokenizer of few training captions may use fewer."""
        fixed = {"byte": BYTES + SPECIALS, "clip": CLIP_VOCABULARY}
        return fixed.get(self.tokenizer, self.vocabulary)

    @property
    def tokens(self) -> int:
        return self.length

    @property
    def special_tokens(self) -> tuple[int, int, int]:
        return (PAD, CLIP_BOS, CLIP_EOS) if self.tokenizer == "clip" else (PAD, 1, 2)

    @model_validator(mode="after")
    def _bytes_have_ids(self) -> Self:
        if self.tokenizer == "bpe" and self.vocabulary < BYTES + SPECIALS:
            raise ValueError(f"vocabulary must be at least {BYTES + SPECIALS} with tokenizer 'bpe', but got {self.vocabulary}")
        return self


class CaptionFiles(Captioned):
    """A set in files, in the official layout that its reader states or in that of `CaptionFolder`, which comes first.

    Given splits are used, and then a validation split is the one that is given, whatever `validation` and `split_seed`
    say. Without them they are drawn by group, the same for every seed: 80 % of the images for training, 10 % for
    validation, 10 % for test. A group (patient, case) in two splits is refused.
    """

    path: str = Field(description="below the data folder")
    allow_missing: bool = Field(
        False, description="leave out what the table names and the folder lacks, what is no image, and rows without a caption"
    )


class Row(NamedTuple):
    """One caption of one image."""

    file: Path
    where: str  # in the file, for messages
    images: tuple[str, ...]  # paths below PATH where the image may be, the likeliest first, with or without an ending
    caption: str
    split: str | None = None  # train, val or test; None where none is given
    group: str | None = None  # patient or case; None where it is unknown


class CaptionReader(Reader):
    """Reads captioned images in files. A layout is the tables it has, and how their rows are read."""

    config: CaptionFiles
    tables: ClassVar[tuple[str, ...]]  # all of them below PATH
    several: ClassVar[bool] = False  # an image named again has several captions; elsewhere that is a mistake
    shares: ClassVar[tuple[float, float]] = (0.1, 0.1)  # of validation and test, where the split is drawn

    def __init__(self, config: CaptionFiles) -> None:
        from recstudy.data import caption_choosing

        super().__init__(config)
        self._choose = lru_cache(maxsize=1)(partial(caption_choosing.choose, self))

    @abstractmethod
    def rows(self, place: Path) -> Iterator[Row]:
        """All rows of the tables below `place`; a DataError names the file and line of what is wrong."""

    def sources(self, folder: Path) -> Sequence[str]:
        return self._choose(folder).sources

    def check(self, folder: Path) -> None:
        self._choose(folder)

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.caption_decoding import decode_chosen

        return decode_chosen(self.config, folder, self._choose(folder))


@DATASETS.add("captions")
class CaptionFolder(CaptionFiles):
    """Any images with a table.

    PATH/captions.csv      columns `image` and `caption`; `split` (train, val, test), else it is drawn; and the group:
                           `group`, `case_id` or `patient_id`, else each image is its own
    PATH/images/IMAGE      or PATH/IMAGE; the ending may be left out in the table
    """

    name: Literal["captions"] = "captions"

    @property
    def title(self) -> str:
        return self.path

    def reader(self) -> "CaptionFolderReader":
        return CaptionFolderReader(self)


class CaptionFolderReader(CaptionReader):
    """Of one table."""

    tables = ("captions.csv",)

    def rows(self, place: Path) -> Iterator[Row]:
        rows = Rows(place / "captions.csv")
        images, captions = rows.keys("image"), rows.column("caption")
        group = next((name for name in GROUPS if name in rows.header), None)
        groups = (cell for _, cell in rows.column(group)) if group else iter([""] * len(rows.rows))
        splits: Sequence[str | None] = rows.splits() or [None] * len(rows.rows)
        for (line, image), (_, caption), split, patient in zip(images, captions, splits, groups, strict=True):
            yield Row(rows.file, f"line {line}", (f"images/{image}", image), caption, split, patient or None)
