"""Settings of ViTRM, whose network is in `networks/vitrm.py`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.programs.settings import Range
from recstudy.recursive.config.parts import (
    FAMILIES,
    Count,
    DataConfig,
    GradientMode,
    Layers,
    ModelConfig,
    Rate,
    Repeats,
    patches_and_heads,
)


@FAMILIES.add("vitrm")
class ViTRM(ModelConfig):
    """Vision tiny recursion model. Defaults: the authors' code (3,624,971 parameters on CIFAR-10).

    If the paper's text differs from the code, the field names both (contradictions ViTRM-1 to ViTRM-6).
    """

    recursive: ClassVar = True
    halts: ClassVar = True
    network: ClassVar = "recstudy.recursive.models.networks.vitrm:ViTRMNetwork"

    family: Literal["vitrm"] = "vitrm"
    patch: Count = 4
    """side of a square patch, in pixels"""
    width: Annotated[Count, Range([64, 128, 192, 256, 384, 512])] = 384
    """d: dimensions of a token"""
    heads: Count = 6
    """attention heads"""
    layers: Layers = 3
    """k: transformer layers of a block"""
    latent_tokens: Annotated[int, Range([16, 32, 64, 128])] = Field(64, ge=1, le=4096)
    """K (M in the text): tokens of the latent state z"""
    latent_steps: Annotated[Repeats, Range(1, 6)] = 3
    """n: z-updates per cycle"""
    cycles: Annotated[Repeats, Range(1, 3)] = 1
    """T in training; the code runs one cycle per supervision step for any T"""
    test_cycles: Repeats = 1
    """T at test: number of cycles before the logits are read"""
    blocks: Literal[1, 2] = 1
    """one block f for z and y (section 3.3, code), or one for each (section 3)"""
    ffn: Literal["swiglu", "gelu"] = "swiglu"
    """feed-forward network: SwiGLU (code) or GELU (text)"""
    ffn_width: int | None = Field(None, ge=1)
    """m: hidden width; by default 4d/3 (swiglu) or 2d (gelu), with equal parameter counts"""
    norm: Literal["pre", "post"] = "pre"
    """layer norm before each branch (code) or after each sum"""
    dropout: Annotated[Rate, Range([0.0, 0.1, 0.2, 0.3])] = 0.1
    """dropout rate of the attention weights and of both residual branches"""
    latent_init: Literal["learned", "fixed"] = "learned"
    """initial z: trained, or one fixed random tensor"""
    image_in_answer: bool = False
    """whether the y-update also attends to the image tokens x"""
    gradient: GradientMode = "full_bptt"
    """updates with gradient: all; those of the last cycle (TRM); or the last z- and the last y-update
    (HRM)"""

    @property
    def hidden_width(self) -> int:
        if self.ffn_width is not None:
            return self.ffn_width
        return round(4 * self.width / 3) if self.ffn == "swiglu" else 2 * self.width

    def check(self, data: DataConfig) -> None:
        patches_and_heads(data.shape, self.patch, self.width, self.heads)
