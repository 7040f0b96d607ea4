"""The 1-D image tokenizer: what can be set. The network stands in `networks/vq.py`, its training in `train/tokenizer.py`.

`standin-vq` has TiTok's shape and none of its training: it is small, trained here on the images of one data set, and named
as a stand-in wherever a number depends on it.
"""

from typing import Self

from pydantic import Field, model_validator

from recstudy.config import Config


class VQ(Config):
    """An image as `codes` ids of a codebook. Defaults: standin-vq on images of 64x64 (3.7 million parameters)."""

    name: str = Field("standin-vq", description="what tables call it; TiTok's are the names of their public weights")
    size: int = Field(64, ge=8, description="side of the images, in pixels")
    patch: int = Field(8, ge=1, description="side of a square patch, in pixels")
    codes: int = Field(32, ge=1, description="K: latent queries, the ids an image becomes")
    width: int = Field(192, ge=2, description="D: dimensions of a token")
    layers: int = Field(4, ge=1, le=48, description="of the encoder, and as many of the decoder")
    heads: int = Field(3, ge=1, description="attention heads")
    codebook: int = Field(1024, ge=2, description="V: codes there are")
    token_size: int = Field(12, ge=1, description="E: dimensions of a code")
    normalised: bool = Field(True, description="codes and latents have length 1, so that the nearest code is so by cosine")
    legacy: bool = Field(False, description="latents are folded from (K, D) to (D, K) without a transpose, as TiTok-S-128's were")
    commitment: float = Field(0.25, ge=0, description="weight of the latents' pull towards their codes")
    gradient_weight: float = Field(0.1, ge=0, description="weight of the loss on differences of neighbouring pixels")
    usage_decay: float = Field(0.99, ge=0, lt=1, description="of the average by which an unused code is found")

    @property
    def patches(self) -> int:
        """N: patches an image."""
        return (self.size // self.patch) ** 2

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if self.size % self.patch:
            raise ValueError(f"patch must divide the image's {self.size}x{self.size} pixels, but got {self.patch}")
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
