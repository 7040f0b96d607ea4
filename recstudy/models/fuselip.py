"""FuseLIP, one encoder for image and text; the 1-D image tokenizer that it reads; and their training on
pairs: what can be set.

FuseLIP's tokens are one vocabulary: the text tokenizer's ids, then [MASK], then the codes of an image
tokenizer. `standin-vq` has TiTok's shape and none of its training: it is small, trained here on the images of
one data set, and named as a stand-in wherever a number depends on it. The networks stand in
`networks/fuselip.py` and `networks/vq.py`, the tokenizer's training in `tasks/captioning/tokenizer.py`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from recstudy.config import FAMILIES, DataConfig, ModelConfig, Shape
from recstudy.plugins import named
from recstudy.programs.settings import Config

if TYPE_CHECKING:
    from torch import nn

# size: width, heads, layers, and the codebook of the TiTok that its public weights read.
SIZES = {"small": (384, 6, 12, 4096), "base": (512, 8, 12, 8192), "large": (768, 12, 12, 8192)}


class FuseLIP(Config):
    """FuseLIP. Defaults: FuseLIP-S on TiTok-S-128's codes and CLIP's text (41,909,376 parameters)."""

    size: Literal["small", "base", "large"] = Field(
        "small", description="41.9 M, 67.4 M or 129.4 M parameters"
    )
    width: int | None = Field(None, ge=2, description="D: dimensions of a token; default by size")
    heads: int | None = Field(None, ge=1, description="default by size")
    layers: int | None = Field(None, ge=1, le=48, description="default by size")
    text_vocabulary: int = Field(
        49_408, ge=4, description="ids of the text tokenizer; CLIP's byte-pair encoding"
    )
    pad: int = Field(0, ge=0, description="its id that fills up")
    bos: int = Field(49_406, ge=0, description="its id that begins a text")
    eos: int = Field(49_407, ge=0, description="its id that ends one, at which the feature is read")
    codes: int = Field(128, ge=1, description="K: ids an image")
    codebook: int | None = Field(None, ge=2, description="codes there are; default by size")
    context: int = Field(180, ge=4, description="most tokens of a sequence; longer texts are cut")
    mask_rate: float = Field(
        0.1, ge=0, lt=1, description="how often a token is hidden in masked multimodal modelling; 0 is off"
    )
    mask_weight: float = Field(0.25, ge=0, description="weight of that loss beside the contrastive one")

    @property
    def title(self) -> str:
        """Return what the paper calls it, such as `FuseLIP-S`."""
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
        """The id of an image's code 0."""
        return self.text_vocabulary + 1

    @property
    def vocabulary(self) -> int:
        """All ids."""
        return self.first_code + (self.codebook or SIZES[self.size][3])

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        width, heads, _ = self.dimensions
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, but got {width} and {heads}")
        if max(self.pad, self.bos, self.eos) >= self.text_vocabulary:
            raise ValueError(f"pad, bos and eos must be below text_vocabulary {self.text_vocabulary:,}")
        if self.context < self.codes + 2:
            raise ValueError(
                f"context must hold {self.codes} codes of an image and two tokens, but got {self.context}"
            )
        return self


class VQ(Config):
    """An image as `codes` ids of a codebook. Defaults: standin-vq on images of 64x64 (3.7 million
    parameters).
    """

    name: str = Field(
        "standin-vq", description="what tables call it; TiTok's are the names of their public weights"
    )
    size: int = Field(64, ge=8, description="side of the images, in pixels")
    patch: int = Field(8, ge=1, description="side of a square patch, in pixels")
    codes: int = Field(32, ge=1, description="K: latent queries, the ids an image becomes")
    width: int = Field(192, ge=2, description="D: dimensions of a token")
    layers: int = Field(4, ge=1, le=48, description="of the encoder, and as many of the decoder")
    heads: int = Field(3, ge=1, description="attention heads")
    codebook: int = Field(1024, ge=2, description="V: codes there are")
    token_size: int = Field(12, ge=1, description="E: dimensions of a code")
    normalised: bool = Field(
        True, description="codes and latents have length 1, so that the nearest code is so by cosine"
    )
    legacy: bool = Field(
        False,
        description="latents are folded from (K, D) to (D, K) without a transpose, as TiTok-S-128's were",
    )
    commitment: float = Field(0.25, ge=0, description="weight of the latents' pull towards their codes")
    gradient_weight: float = Field(
        0.1, ge=0, description="weight of the loss on differences of neighbouring pixels"
    )
    usage_decay: float = Field(
        0.99, ge=0, lt=1, description="of the average by which an unused code is found"
    )

    @property
    def patches(self) -> int:
        """N: patches an image."""
        return (self.size // self.patch) ** 2

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if self.size % self.patch:
            raise ValueError(
                f"patch must divide the image's {self.size}x{self.size} pixels, but got {self.patch}"
            )
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, but got {self.width} and {self.heads}")
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


@FAMILIES.add("fuselip")
class Aligner(ModelConfig):
    """A FuseLIP encoder on the codes of a stand-in image tokenizer, which is trained on the same images
    first.
    """

    task: ClassVar[str] = "alignment"
    outputs: ClassVar[tuple[str, ...]] = ("pair",)
    network: ClassVar[str] = "recstudy.models.networks.fuselip:AlignerNetwork"
    revision: ClassVar[int] = 2  # the scale of SigLIP is bounded

    family: Literal["fuselip"] = "fuselip"
    encoder: FuseLIP = Field(FuseLIP(), description="the one encoder of image and text")
    tokenizer: VQ = Field(VQ(), description="what makes codes of an image")
    tokenizer_epochs: int = Field(
        20, ge=1, description="passes over the training images that the image tokenizer is trained for"
    )
    files: str = Field(
        "",
        description=(
            "a folder with public FuseLIP weights (config.json, model.safetensors or pytorch_model.bin): the"
            " encoder begins with them, and the image tokenizer is theirs. Empty: drawn ones, and a tokenizer"
            " trained here"
        ),
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
        if self.files and not Path(self.files).is_absolute():
            raise ValueError(
                "model.files must be an absolute path, as workers have folders of their own, but got"
                f" {self.files!r}"
            )
        if self.files and not (Path(self.files) / "config.json").is_file():
            raise ValueError(
                f"model.files must be a folder with FuseLIP's config.json and weights, but {self.files} has"
                f" none. Download them: `hf download chs20/FuseLIP-S-CC3M-MM --local-dir {self.files}`"
            )


# For captions of up to 512 bytes and images of 224 x 224 pixels, as those of 000. It starts from random
# weights.
FUSELIP_ON_BYTES = Aligner(
    encoder=FuseLIP(text_vocabulary=260, bos=1, eos=2, codes=128, codebook=4096, context=640),
    tokenizer=VQ(size=224, patch=16, codes=128, codebook=4096, width=384, heads=6),
)


def fits(encoder: FuseLIP, tokenizer: VQ, data: DataConfig, beside: int = 0) -> None:
    """Refuse (ValueError) an encoder whose ids are not those of the image tokenizer and of the data set's
    texts, or one that cannot read a whole caption with as many tokens `beside` it."""
    if data.tokens + beside > encoder.context:
        codes = f" and {beside} codes of the image" if beside else ""
        raise ValueError(
            f"the encoder's context must hold the {data.tokens:,} tokens of data.length{codes}, but got"
            f" {encoder.context:,}. A shorter data.length cuts captions and counts those it cut"
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
                f"the encoder's {name} must be {wanted:,}, as the data set and the image tokenizer have it,"
                f" but got {has:,}"
            )
    special = encoder.pad, encoder.bos, encoder.eos
    if special != data.special_tokens:
        pad, bos, eos = data.special_tokens
        raise ValueError(
            f"the encoder's pad, bos and eos must be {pad}, {bos} and {eos}, as data.tokenizer has them, "
            f"but got {', '.join(map(str, special))}"
        )
