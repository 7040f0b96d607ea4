"""The settings of captioned images, which `text.py` and the readers of captions share."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from recstudy.recursive.config.parts import PAD, DataConfig, Shape

SPECIALS = 4  # PAD, BOS, EOS and UNK are the first ids
BYTES = 256
CLIP_VOCABULARY = 49_408
CLIP_BOS, CLIP_EOS = CLIP_VOCABULARY - 2, CLIP_VOCABULARY - 1  # its last ids


class Captioned(DataConfig):
    """Colour images with captions. The labels are the tokens of an image's first caption.

    A row of labels is BOS, the words, EOS and PAD.
    """

    task: ClassVar = "caption"

    tokenizer: Literal["byte", "word", "bpe", "clip"] = "byte"
    """byte: one token per byte; word: words that occur 3 times in the training captions (MicarVLMoE); bpe:
    byte pairs learned from the training captions; clip: CLIP's tokenizer (FuseLIP), from its files"""
    vocabulary: int = Field(1000, ge=16, le=100_000)
    """V: maximum number of ids of 'word' and 'bpe', including 4 special ids"""
    length: int = Field(512, ge=4, le=4096)
    """tokens per caption, including BOS and EOS; longer captions are cut and counted"""
    size: int = Field(224, ge=16, le=1024)
    """images are resized and centre-cropped to this many pixels per side"""
    clean: Literal["none", "report"] = "none"
    """none: only white space is normalized; report: captions are cleaned like reports in MicarVLMoE (see
    `text.py`)"""
    clip_files: str = "clip"
    """folder of CLIP's vocab.json and merges.txt, relative to the data folder; if they are missing, the
    Hugging Face cache is used"""

    @property
    def shape(self) -> Shape:
        return (3, self.size, self.size)

    @property
    def classes(self) -> int:
        """Number of ids that a model can output. A tokenizer of few training captions may use fewer."""
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
            raise ValueError(
                f"vocabulary must be at least {BYTES + SPECIALS} with tokenizer 'bpe', but is"
                f" {self.vocabulary}"
            )
        return self
