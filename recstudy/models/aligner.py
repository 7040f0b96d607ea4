"""FuseLIP trained to bring images and their captions together (ImageHRM/ImageTRM, section III): what can be set.

The network stands in `networks/aligner.py`, the encoder's own fields in `fuselip.py`, the image tokenizer's in `vq.py`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig, ModelConfig, Shape
from recstudy.models.fuselip import VQ, FuseLIP
from recstudy.plugins import named

if TYPE_CHECKING:
    from torch import nn


@FAMILIES.add("fuselip")
class Aligner(ModelConfig):
    """A FuseLIP encoder on the codes of a stand-in image tokenizer, which is trained on the same images first."""

    task: ClassVar[str] = "alignment"
    outputs: ClassVar[tuple[str, ...]] = ("pair",)
    network: ClassVar[str] = "recstudy.models.networks.aligner:AlignerNetwork"
    revision: ClassVar[int] = 2  # the scale of SigLIP is bounded

    family: Literal["fuselip"] = "fuselip"
    encoder: FuseLIP = Field(FuseLIP(), description="the one encoder of image and text")
    tokenizer: VQ = Field(VQ(), description="what makes codes of an image")
    tokenizer_epochs: int = Field(20, ge=1, description="passes over the training images that the image tokenizer is trained for")
    files: str = Field(
        "",
        description="a folder with public FuseLIP weights (config.json, model.safetensors or pytorch_model.bin): the encoder "
        "begins with them, and the image tokenizer is theirs. Empty: drawn ones, and a tokenizer trained here",
    )

    @property
    def title(self) -> str:
        return f"{self.encoder.title}, {self.tokenizer.name}"

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        return (self.tokenizer.codes,)

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        return named(self.network)(self)

    def check(self, data: DataConfig) -> None:
        fits(self.encoder, self.tokenizer, data)
        _check_files(self.files)


def _check_files(files: str) -> None:
    if not files:
        return
    if not Path(files).is_absolute():
        raise ValueError(f"model.files must be an absolute path, as workers have folders of their own, but got {files!r}")
    if not (Path(files) / "config.json").is_file():
        raise ValueError(
            f"model.files must be a folder with FuseLIP's config.json and weights, but {files} has none. Download them: "
            f"`hf download chs20/FuseLIP-S-CC3M-MM --local-dir {files}`"
        )


def fits(encoder: FuseLIP, tokenizer: VQ, data: DataConfig, beside: int = 0) -> None:
    """Refuse (ValueError) an encoder whose ids are not those of the image tokenizer and of the data set's texts, or one that
    cannot read a whole caption with as many tokens `beside` it."""
    if data.tokens + beside > encoder.context:
        codes = f" and {beside} codes of the image" if beside else ""
        raise ValueError(
            f"the encoder's context must hold the {data.tokens:,} tokens of data.length{codes}, but got {encoder.context:,}. "
            "A shorter data.length cuts captions and counts those it cut"
        )
    side = data.shape[1]
    if side != tokenizer.size:
        raise ValueError(f"the image tokenizer's size must be data.size, {side}, but got {tokenizer.size}")
    codebook = encoder.vocabulary - encoder.first_code
    for name, has, wanted in (
        ("text_vocabulary", encoder.text_vocabulary, data.classes),
        ("codes", encoder.codes, tokenizer.codes),
        ("codebook", codebook, tokenizer.codebook),
    ):
        if has != wanted:
            raise ValueError(
                f"the encoder's {name} must be {wanted:,}, as the data set and the image tokenizer have it, but got {has:,}"
            )
    special = encoder.pad, encoder.bos, encoder.eos
    if special != data.special_tokens:
        pad, bos, eos = data.special_tokens
        raise ValueError(
            f"the encoder's pad, bos and eos must be {pad}, {bos} and {eos}, as data.tokenizer has them, "
            f"but got {', '.join(map(str, special))}"
        )
