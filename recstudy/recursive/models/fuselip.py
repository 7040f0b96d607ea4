"""Settings of FuseLIP, one encoder for image and text, of its 1-D image tokenizer, and of their alignment.

FuseLIP's tokens are one vocabulary: the ids of the text tokenizer, then [MASK], then the codes of the image
tokenizer. `standin-vq` has TiTok's architecture, but it is small and trained on the images of one data set.
Every number that depends on it names it as a stand-in. The networks are in `networks/fuselip.py` and
`networks/vq.py`, and the tokenizer's training is in `tasks/captioning/tokenizer.py`.
"""

from typing import ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from recstudy.programs.settings import Config
from recstudy.recursive.config.parts import (
    FAMILIES,
    Count,
    DataConfig,
    Depth,
    ModelConfig,
    Rate,
    Shape,
    Weight,
    check_heads,
)

# Size -> width, heads, layers, and the codebook size of the TiTok in its public weights.
SIZES = {"small": (384, 6, 12, 4096), "base": (512, 8, 12, 8192), "large": (768, 12, 12, 8192)}


class FuseLIP(Config):
    """FuseLIP. Defaults: FuseLIP-S on TiTok-S-128 codes and CLIP's text tokens (41,909,376 parameters)."""

    size: Literal["small", "base", "large"] = "small"
    """41.9 M, 67.4 M or 129.4 M parameters"""
    width: int | None = Field(None, ge=2)
    """D: dimensions of a token; default by size"""
    heads: int | None = Field(None, ge=1)
    """attention heads; default by size"""
    layers: int | None = Field(None, ge=1, le=48)
    """number of layers; default by size"""
    text_vocabulary: int = Field(49_408, ge=4)
    """number of ids of the text tokenizer; default: CLIP's byte-pair encoding"""
    pad: NonNegativeInt = 0
    """id of the padding"""
    bos: NonNegativeInt = 49_406
    """id at the beginning of a text"""
    eos: NonNegativeInt = 49_407
    """id at the end of a text, at which the feature is read"""
    codes: Count = 128
    """K: number of codes of an image"""
    codebook: int | None = Field(None, ge=2)
    """size of the codebook; default by size"""
    context: int = Field(180, ge=4)
    """maximum number of tokens of a sequence; longer texts are cut"""
    mask_rate: Rate = 0.1
    """share of tokens that masked multimodal modelling hides; 0 turns it off"""
    mask_weight: Weight = 0.25
    """weight of masked modelling, which is added to the contrastive loss"""

    @property
    def title(self) -> str:
        """The paper's name of the encoder, such as `FuseLIP-S`."""
        custom = any(value is not None for value in (self.width, self.heads, self.layers))
        return f"FuseLIP-{self.size[0].upper()}" + (" (resized)" if custom else "")

    @property
    def dimensions(self) -> tuple[int, int, int]:
        """Width, heads and layers."""
        width, heads, layers, _ = SIZES[self.size]
        return self.width or width, self.heads or heads, self.layers or layers

    @property
    def mask(self) -> int:
        """The id of [MASK]."""
        return self.text_vocabulary

    @property
    def first_code(self) -> int:
        """The id of code 0 of an image."""
        return self.text_vocabulary + 1

    @property
    def vocabulary(self) -> int:
        """The number of ids of the joint vocabulary."""
        return self.first_code + (self.codebook or SIZES[self.size][3])

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        width, heads, _ = self.dimensions
        check_heads(width, heads, part="")
        if max(self.pad, self.bos, self.eos) >= self.text_vocabulary:
            raise ValueError(f"pad, bos and eos must be below text_vocabulary {self.text_vocabulary:,}")
        if self.context < self.codes + 2:  # Eq. 1 of networks/fuselip.py: an image is its codes, BOT and EOT
            raise ValueError(
                f"context must be at least {self.codes + 2}, for the {self.codes} codes of an image and two"
                f" tokens, but got {self.context}"
            )
        return self


class VQ(Config):
    """A tokenizer that turns an image into `codes` ids of a codebook.

    Defaults: standin-vq on images of 64x64 pixels (3.7 million parameters).
    """

    name: str = "standin-vq"
    """name in tables; a TiTok tokenizer has the name of its public weights"""
    size: int = Field(64, ge=8)
    """side of the images, in pixels"""
    patch: Count = 8
    """side of a square patch, in pixels"""
    codes: Count = 32
    """K: number of latent queries, and of ids of an image"""
    width: int = Field(192, ge=2)
    """D: dimensions of a token"""
    layers: Depth = 4
    """layers of the encoder, and of the decoder"""
    heads: Count = 3
    """attention heads"""
    codebook: int = Field(1024, ge=2)
    """V: number of codes"""
    token_size: Count = 12
    """E: dimensions of a code"""
    normalised: bool = True
    """whether codes and latents have length 1, so that cosine finds the nearest code"""
    legacy: bool = False
    """whether latents are reshaped from (K, D) to (D, K) without a transpose (TiTok-S-128)"""
    commitment: Weight = 0.25
    """weight of the commitment loss, which moves latents to their codes"""
    gradient_weight: Weight = 0.1
    """weight of the loss on differences of neighbouring pixels"""
    usage_decay: Rate = 0.99
    """decay of the moving average that finds unused codes"""

    @property
    def patches(self) -> int:
        """N: number of patches of an image."""
        return (self.size // self.patch) ** 2

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if self.size % self.patch:
            raise ValueError(
                f"patch must divide the image's {self.size}x{self.size} pixels, but got {self.patch}"
            )
        check_heads(self.width, self.heads, part="")
        return self


# For tests and quick presets: trains on a CPU in under a minute.
SMOKE = VQ(codes=16, codebook=256, width=64, layers=2, heads=2)

# The encoders in the public FuseLIP weights (1d-tokenizer's configs titok_s128 and titok_bl128_vq8k).
TITOK_S128 = VQ(
    name="tokenizer_titok_s128_imagenet",
    size=256,
    patch=16,
    codes=128,
    width=512,
    layers=8,
    heads=8,
    codebook=4096,
    legacy=True,
)
TITOK_BL128 = VQ(
    name="tokenizer_titok_bl128_vq8k_imagenet",
    size=256,
    patch=16,
    codes=128,
    width=768,
    layers=12,
    heads=12,
    codebook=8192,
    token_size=64,
    normalised=False,
)
PUBLIC_TOKENIZERS = {vq.name: vq for vq in (TITOK_S128, TITOK_BL128)}


@FAMILIES.add("fuselip")
class Aligner(ModelConfig):
    """A FuseLIP encoder on the codes of an image tokenizer, which is first trained on the same images."""

    task: ClassVar = "alignment"
    outputs: ClassVar = ("pair",)
    network: ClassVar = "recstudy.recursive.models.networks.fuselip:AlignerNetwork"
    revision: ClassVar = 2  # the scale of SigLIP is bounded

    family: Literal["fuselip"] = "fuselip"
    encoder: FuseLIP = FuseLIP()
    """the encoder of image and text"""
    tokenizer: VQ = VQ()
    """the image tokenizer"""
    tokenizer_epochs: Count = 20
    """training of the image tokenizer, in passes over the training images"""
    files: str = ""
    """folder with public FuseLIP weights (config.json, model.safetensors or pytorch_model.bin), relative to
    the data folder or absolute; they initialise the encoder and contain the image tokenizer; if empty, random
    initial weights and a tokenizer that is trained first"""

    @property
    def title(self) -> str:
        return f"{self.encoder.title}, {self.tokenizer.name}"

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        return (self.tokenizer.codes,)

    def check(self, data: DataConfig) -> None:
        check_encoder(data, self, "model.", 0)


# For captions of up to 512 bytes and images of 224 x 224 pixels, as in the ImageHRM/ImageTRM paper. The
# initial weights are random.
FUSELIP_ON_BYTES = Aligner(
    encoder=FuseLIP(text_vocabulary=260, bos=1, eos=2, codes=128, codebook=4096, context=640),
    tokenizer=VQ(size=224, patch=16, codes=128, codebook=4096, width=384, heads=6),
)
# FuseLIP-S from its public CC3M weights in the data folder, for CLIP's tokens and 256 x 256 pixels.
FUSELIP_CC3M = Aligner(tokenizer=TITOK_S128, files="FuseLIP-S-CC3M-MM")


def check_encoder(data: DataConfig, aligner: Aligner, prefix: str, extra_tokens: int) -> None:
    """Check that an encoder fits its image tokenizer and a data set.

    Args:
        data: The data set with captions.
        aligner: The encoder and the image tokenizer.
        prefix: The path of the aligner's settings, for messages.
        extra_tokens: Number of tokens that the encoder reads in addition to a whole caption.

    Raises:
        ValueError: The context is too short, or the ids differ.
    """
    encoder, tokenizer = aligner.encoder, aligner.tokenizer
    codebook = encoder.vocabulary - encoder.first_code
    pad, bos, eos = data.special_tokens
    for name, value, source, expected in (
        ("tokenizer.size", tokenizer.size, "data.size", data.shape[1]),
        ("encoder.text_vocabulary", encoder.text_vocabulary, "the size of data.tokenizer", data.classes),
        ("encoder.codes", encoder.codes, "tokenizer.codes", tokenizer.codes),
        ("encoder.codebook", codebook, "tokenizer.codebook", tokenizer.codebook),
        ("encoder.pad", encoder.pad, "the id in data.tokenizer", pad),
        ("encoder.bos", encoder.bos, "the id in data.tokenizer", bos),
        ("encoder.eos", encoder.eos, "the id in data.tokenizer", eos),
    ):
        if value != expected:
            raise ValueError(f"{prefix}{name} must be {source}, {expected:,}, but got {value:,}")
    length = data.tokens + extra_tokens
    if length > encoder.context:
        codes = f" and {extra_tokens} codes of the image" if extra_tokens else ""
        raise ValueError(
            f"{prefix}encoder.context must be at least {length:,}, for the {data.tokens:,} tokens of"
            f" data.length{codes}, but got {encoder.context:,}. A shorter data.length cuts longer captions"
            " and counts them"
        )
