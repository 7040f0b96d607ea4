"""Settings of the image classifiers, recursive or not.

The networks of the baselines are in `networks/classifiers.py`, ViTRM is in `networks/vitrm.py`, and HRM for
small images (HRM-Small-Images) is in `networks/hrm_image.py`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.programs.settings import Range
from recstudy.recursive.config.parts import FAMILIES, DataConfig, ModelConfig, Shape

# Size -> width, layers, heads, hidden width. These sizes give exactly the parameter counts in ViTRM's tables;
# `small` is not timm's ViT-S.
SIZES = {"small": (512, 8, 8, 1024), "base": (768, 12, 12, 3072), "large": (1024, 24, 16, 4096)}


@FAMILIES.add("cnn")
class CNN(ModelConfig):
    """Two stages of two convolutions each (261,824 parameters on CIFAR-10)."""

    title: ClassVar[str] = "CNN two-stage"
    network: ClassVar[str] = "recstudy.recursive.models.networks.classifiers:CNNNetwork"
    batch_norm: ClassVar[bool] = True
    revision: ClassVar[int] = 2  # LeCun-normal initial weights; revision 1 had torch's

    family: Literal["cnn"] = "cnn"
    width: int = Field(64, ge=1, description="channels of the first stage; the second has twice as many")

    def check(self, data: DataConfig) -> None:
        height, width = data.shape[1:]
        if min(height, width) < 4:
            raise ValueError(
                f"the two-stage CNN needs images of 4x4 pixels or more, but got {height}x{width}"
            )


@FAMILIES.add("resnet")
class ResNet(ModelConfig):
    """torchvision's ResNet with one of two stems. ViTRM uses the ImageNet stem on 32x32 images (ViTRM-9)."""

    network: ClassVar[str] = "recstudy.recursive.models.networks.classifiers:ResNetNetwork"
    batch_norm: ClassVar[bool] = True

    family: Literal["resnet"] = "resnet"
    depth: Literal[18, 34, 50] = Field(18, description="number of layers")
    stem: Literal["imagenet", "cifar"] = Field(
        "imagenet",
        description=(
            "imagenet: a 7x7 convolution with stride 2, then max-pooling; cifar: a 3x3 convolution with"
            " stride 1, with 15 times the FLOPs on 32x32 images"
        ),
    )

    @property
    def title(self) -> str:
        return f"ResNet-{self.depth}" + ("" if self.stem == "imagenet" else " (CIFAR stem)")


@FAMILIES.add("densenet")
class DenseNet(ModelConfig):
    """torchvision's DenseNet-121 with a choice of growth rate and random initial weights."""

    network: ClassVar[str] = "recstudy.recursive.models.networks.classifiers:DenseNetNetwork"
    batch_norm: ClassVar[bool] = True

    family: Literal["densenet"] = "densenet"
    growth: int = Field(32, ge=2, description="channels that each layer adds; the published network has 32")

    @property
    def title(self) -> str:
        return "DenseNet-121" + ("" if self.growth == 32 else f" (growth {self.growth})")

    def check(self, data: DataConfig) -> None:
        height, width = data.shape[1:]
        if min(height, width) < 32:
            raise ValueError(
                "DenseNet-121 halves an image five times, so images must have 32x32 pixels or more, but got"
                f" {height}x{width}"
            )


@FAMILIES.add("vit")
class ViT(ModelConfig):
    """Vision transformer with the parameter counts of ViTRM's Tables 1 and 2."""

    network: ClassVar[str] = "recstudy.recursive.models.networks.classifiers:ViTNetwork"

    family: Literal["vit"] = "vit"
    size: Literal["small", "base", "large"] = Field(
        "small", description="16.9 M, 85.1 M or 302.4 M parameters on CIFAR-10"
    )
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels")
    width: int | None = Field(None, ge=8, description="dimensions of a token; default by size")
    layers: int | None = Field(None, ge=1, le=48, description="number of layers; default by size")
    heads: int | None = Field(None, ge=1, description="number of attention heads; default by size")
    ffn_width: int | None = Field(
        None, ge=1, description="hidden width of the GELU feed-forward network; default by size"
    )
    dropout: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="dropout rate of the embedding, the attention weights and the feed-forward network",
    )

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


def patches_and_heads(shape: Shape, patch: int, width: int, heads: int) -> None:
    """Raise a ValueError if the patches do not tile the image or the heads do not divide the width."""
    if width % heads:
        raise ValueError(f"model.width must be a multiple of model.heads, but got {width} and {heads}")
    if shape[1] % patch or shape[2] % patch:
        raise ValueError(f"model.patch must divide the image's {shape[1]}x{shape[2]} pixels, but got {patch}")


@FAMILIES.add("vitrm")
class ViTRM(ModelConfig):
    """Vision tiny recursion model. Defaults: the authors' code (3,624,971 parameters on CIFAR-10).

    If the paper's text differs from the code, the field names both (contradictions ViTRM-1 to ViTRM-6).
    """

    recursive: ClassVar[bool] = True
    halts: ClassVar[bool] = True
    network: ClassVar[str] = "recstudy.recursive.models.networks.vitrm:ViTRMNetwork"

    family: Literal["vitrm"] = "vitrm"
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels")
    width: Annotated[int, Range([64, 128, 192, 256, 384, 512])] = Field(
        384, ge=1, description="d: dimensions of a token"
    )
    heads: int = Field(6, ge=1, description="attention heads")
    layers: Annotated[int, Range(1, 4)] = Field(
        3, ge=1, le=48, description="k: transformer layers of a block"
    )
    latent_tokens: Annotated[int, Range([16, 32, 64, 128])] = Field(
        64, ge=1, le=4096, description="K (M in the text): tokens of the latent state z"
    )
    latent_steps: Annotated[int, Range(1, 6)] = Field(3, ge=1, le=64, description="n: z-updates per cycle")
    cycles: Annotated[int, Range(1, 3)] = Field(
        1, ge=1, le=64, description="T in training; the code runs one cycle per supervision step for any T"
    )
    test_cycles: int = Field(
        1, ge=1, le=64, description="T at test: number of cycles before the logits are read"
    )
    blocks: Literal[1, 2] = Field(
        1, description="one block f for z and y (section 3.3, code), or one for each (section 3)"
    )
    ffn: Literal["swiglu", "gelu"] = Field(
        "swiglu", description="feed-forward network: SwiGLU (code) or GELU (text)"
    )
    ffn_width: int | None = Field(
        None,
        ge=1,
        description="m: hidden width; by default 4d/3 (swiglu) or 2d (gelu), with equal parameter counts",
    )
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer norm before each branch (code) or after each sum"
    )
    dropout: Annotated[float, Range([0.0, 0.1, 0.2, 0.3])] = Field(
        0.1, ge=0, lt=1, description="dropout rate of the attention weights and of both residual branches"
    )
    latent_init: Literal["learned", "fixed"] = Field(
        "learned", description="initial z: trained, or one fixed random tensor"
    )
    image_in_answer: bool = Field(
        False, description="whether the y-update also attends to the image tokens x"
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "full_bptt",
        description=(
            "updates with gradient: all; those of the last cycle (TRM); or the last z- and the last y-update"
            " (HRM)"
        ),
    )

    @property
    def hidden_width(self) -> int:
        if self.ffn_width is not None:
            return self.ffn_width
        return round(4 * self.width / 3) if self.ffn == "swiglu" else 2 * self.width

    def check(self, data: DataConfig) -> None:
        patches_and_heads(data.shape, self.patch, self.width, self.heads)


@FAMILIES.add("hrm_image")
class HRMImage(ModelConfig):
    """HRM for small images. Defaults: the author's network for CIFAR-10 (3,552,576 parameters)."""

    recursive: ClassVar[bool] = True
    title: ClassVar[str] = "HRM"
    network: ClassVar[str] = "recstudy.recursive.models.networks.hrm_image:HRMImageNetwork"

    family: Literal["hrm_image"] = "hrm_image"
    patch: int = Field(4, ge=1, description="side of a square patch, in pixels")
    width: Annotated[int, Range([64, 128, 192, 256, 384])] = Field(
        192, ge=2, description="D: dimensions of a token"
    )
    heads: int = Field(6, ge=1, description="attention heads")
    low_layers: Annotated[int, Range(1, 6)] = Field(3, ge=1, le=48, description="layers of f_L")
    high_layers: Annotated[int, Range(1, 6)] = Field(3, ge=1, le=48, description="layers of f_H")
    high_cycles: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=64, description="N: H-updates per segment")
    low_cycles: Annotated[int, Range(1, 4)] = Field(
        3, ge=1, le=64, description="T: L-updates before each H-update"
    )
    expansion: int = Field(4, ge=1, description="hidden width of the GEGLU divided by the width")
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step",
        description=(
            "updates with gradient: the last L- and the last H-update (paper); those of the last high cycle;"
            " or all"
        ),
    )

    def check(self, data: DataConfig) -> None:
        patches_and_heads(data.shape, self.patch, self.width, self.heads)
        if self.width // self.heads % 2:
            raise ValueError(
                "model.width / model.heads must be even for rotary positions, but got"
                f" {self.width // self.heads}"
            )
