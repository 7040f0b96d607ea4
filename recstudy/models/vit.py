"""ViT, the transformer baseline of ViTRM: what can be set. The network stands in `networks/vit.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig, ModelConfig
from recstudy.models.checks import patches_and_heads

# size: width, layers, heads, hidden width. `small` is not timm's ViT-S; these sizes give ViTRM's counts to the digit.
SIZES = {"small": (512, 8, 8, 1024), "base": (768, 12, 12, 3072), "large": (1024, 24, 16, 4096)}


@FAMILIES.add("vit")
class ViT(ModelConfig):
    """Vision transformer in the layout that gives the parameter counts of ViTRM's Tables 1 and 2."""

    network: ClassVar[str] = "recstudy.models.networks.vit:ViTNetwork"

    family: Literal["vit"] = "vit"
    size: Literal["small", "base", "large"] = Field("small", description="16.9 M, 85.1 M or 302.4 M parameters on CIFAR-10")
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels")
    width: int | None = Field(None, ge=8, description="dimensions of a token; default by size")
    layers: int | None = Field(None, ge=1, le=48, description="default by size")
    heads: int | None = Field(None, ge=1, description="default by size")
    ffn_width: int | None = Field(None, ge=1, description="hidden width of the GELU feed-forward network; default by size")
    dropout: float = Field(0.1, ge=0, lt=1, description="on the embedding, the attention weights and in the feed-forward network")

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
