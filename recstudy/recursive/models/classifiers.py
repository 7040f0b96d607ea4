"""Settings of the image classifiers without a recursion, whose networks are in `networks/classifiers.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.recursive.config.parts import FAMILIES, Count, DataConfig, ModelConfig, Rate, patches_and_heads

# Size -> width, layers, heads, hidden width. These sizes give exactly the parameter counts in ViTRM's tables;
# `small` is not timm's ViT-S.
SIZES = {"small": (512, 8, 8, 1024), "base": (768, 12, 12, 3072), "large": (1024, 24, 16, 4096)}


@FAMILIES.add("cnn")
class CNN(ModelConfig):
    """Two stages of two convolutions each (261,824 parameters on CIFAR-10)."""

    title: ClassVar = "CNN two-stage"
    network: ClassVar = "recstudy.recursive.models.networks.classifiers:CNNNetwork"
    batch_norm: ClassVar = True
    revision: ClassVar = 2  # LeCun-normal initial weights; revision 1 had torch's

    family: Literal["cnn"] = "cnn"
    width: Count = 64
    """channels of the first stage; the second has twice as many"""

    def check(self, data: DataConfig) -> None:
        height, width = data.shape[1:]
        if min(height, width) < 4:
            raise ValueError(
                f"the two-stage CNN needs images of 4x4 pixels or more, but got {height}x{width}"
            )


@FAMILIES.add("vit")
class ViT(ModelConfig):
    """Vision transformer with the parameter counts of ViTRM's Tables 1 and 2."""

    network: ClassVar = "recstudy.recursive.models.networks.classifiers:ViTNetwork"

    family: Literal["vit"] = "vit"
    size: Literal["small", "base", "large"] = "small"
    """16.9 M, 85.1 M or 302.4 M parameters on CIFAR-10"""
    patch: Count = 4
    """side of a square patch, in pixels"""
    width: int | None = Field(None, ge=8)
    """dimensions of a token; default by size"""
    layers: int | None = Field(None, ge=1, le=48)
    """number of layers; default by size"""
    heads: int | None = Field(None, ge=1)
    """number of attention heads; default by size"""
    ffn_width: int | None = Field(None, ge=1)
    """hidden width of the GELU feed-forward network; default by size"""
    dropout: Rate = 0.1
    """dropout rate of the embedding, the attention weights and the feed-forward network"""

    @property
    def title(self) -> str:
        custom = any(value is not None for value in (self.width, self.layers, self.heads, self.ffn_width))
        return f"ViT-{self.size.title()}" + (" (resized)" if custom else "")

    @property
    def dimensions(self) -> tuple[int, int, int, int]:
        """Width, layers, heads and hidden width."""
        width, layers, heads, hidden = SIZES[self.size]
        return self.width or width, self.layers or layers, self.heads or heads, self.ffn_width or hidden

    def check(self, data: DataConfig) -> None:
        width, _, heads, _ = self.dimensions
        patches_and_heads(data.shape, self.patch, width, heads)
