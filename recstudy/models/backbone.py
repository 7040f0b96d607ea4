"""Models that write a caption: what they share in what can be set, and the backbones that see the image for them."""

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field

from recstudy.config import Config, DataConfig, ModelConfig, Shape
from recstudy.models.fuselip import Aligner, fits
from recstudy.plugins import named

if TYPE_CHECKING:
    from torch import nn

LONGEST = 2048  # tokens of a caption: places that have a rotary angle


class Backbone(NamedTuple):
    """A network from pixels to features, without its classifier."""

    title: str
    timm: str  # its name there; none for ours
    features: int  # F
    channels: int  # F of a place of its last map
    params: int
    side: int | None  # pixels a side that it needs; None takes any


BackboneName = Literal["resnet18", "resnet101", "swin_t", "swin_b", "small", "fuselip"]
BACKBONES = {
    "resnet18": Backbone("ResNet-18", "resnet18", 512, 512, 11_176_512, None),
    "resnet101": Backbone("ResNet-101", "resnet101.tv2_in1k", 2048, 2048, 42_500_160, None),  # torchvision's IMAGENET1K_V2
    "swin_t": Backbone("Swin-T", "swin_tiny_patch4_window7_224", 768, 768, 27_519_354, 224),
    "swin_b": Backbone("Swin-B", "swin_base_patch4_window7_224", 1024, 1024, 86_743_224, 224),
    "small": Backbone("small CNN", "", 256, 64, 93_472, None),
    "fuselip": Backbone("FuseLIP", "", 0, 0, 0, None),  # its sizes are fields
}


class FuseLIPBackboneConfig(Config):
    """A FuseLIP encoder in a backbone's place, aligned on the captions of the training split before the captioner is trained."""

    revision: ClassVar[int] = 2  # gains, biases and the scale do not decay

    aligner: Aligner = Field(Aligner(), description="the encoder, its image tokenizer, and how long that is trained")
    mode: Literal["prefix_causal", "image_only", "leaky"] = Field(
        "prefix_causal",
        description="what stands at a token: the feature of the image and the tokens before; of the image alone; or of the whole "
        "caption, which tells the answer (the bug of the ImageHRM/ImageTRM paper, to be shown and not compared)",
    )
    epochs: int = Field(20, ge=1, description="of the alignment")
    batch_size: int = Field(64, ge=2, description="pairs that are told apart at once")
    learning_rate: float = Field(1e-3, gt=0)


class CaptionModel(ModelConfig):
    """A captioner's eyes. Defaults: the frozen ResNet-18 of ImageHRM/ImageTRM, pretrained on ImageNet."""

    outputs: ClassVar[tuple[str, ...]] = ("caption",)

    backbone: BackboneName = Field(
        "resnet18", description="what sees the image: timm's networks; a small CNN of ours for 64x64 pixels; or FuseLIP"
    )
    fuselip: FuseLIPBackboneConfig | None = Field(None, description="of the backbone 'fuselip'")
    weights: Literal["pretrained", "random"] = Field(
        "pretrained", description="the backbone's, at the start: timm's of ImageNet, from the Hugging Face hub; or drawn"
    )
    tuned: bool = Field(False, description="train the backbone too; else it is frozen, and its features are computed once")
    decode: Literal["beam", "greedy", "official_quirk"] = Field(
        "beam", description="how captions are written at test: beam search, the likeliest token, or MicarVLMoE's published search"
    )
    beam: int = Field(3, ge=1, le=32, description="beams an image")
    length_normalisation: float = Field(0.0, ge=0, le=2, description="power of the length that a beam's score is divided by")

    @property
    def revised(self) -> int:
        """One more for the search of MicarVLMoE, which wrote no PAD and no BOS and a token less."""
        return self.revision + (self.decode == "official_quirk")

    @property
    def reads_features(self) -> bool:
        """Return whether the network wants the frozen backbone's features, (B, F) or (B, places, F), in place of pixels."""
        return not self.tuned and self.fuselip is None

    @property
    def reads_pixels(self) -> bool:
        return self.tuned

    @property
    def leaks(self) -> bool:
        """Return whether it is told what it is to say."""
        return self.fuselip is not None and self.fuselip.mode == "leaky"

    @property
    def batch_norm(self) -> bool:
        return self.tuned and self.backbone.startswith("resnet")  # Swin has layer norm, the small net group norm

    @property
    def grid(self) -> int | None:
        """Places a side at which the image's features stand, (B, grid x grid, F); None: the whole image's, (B, F)."""
        return None

    @property
    def features(self) -> int:
        """F: features of an image, or of one of its places."""
        if self.fuselip is not None:
            return self.fuselip.aligner.encoder.dimensions[0]
        backbone = BACKBONES[self.backbone]
        return backbone.features if self.grid is None else backbone.channels

    @property
    def frozen_params(self) -> int:
        """Parameters that take part and are not trained, beside those of the network."""
        return 0 if self.tuned else BACKBONES[self.backbone].params

    @property
    def vision(self) -> str:
        """Return what sees, such as `ResNet-18` for the paper's (pretrained and frozen) or `Swin-T, random, tuned`."""
        if self.fuselip is not None:
            return f"FuseLIP on {self.fuselip.aligner.tokenizer.name}" + ", LEAKY" * self.leaks
        marks = [BACKBONES[self.backbone].title, "random" * (self.weights == "random"), "tuned" * self.tuned]
        return ", ".join(filter(None, marks))

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """Return the shape of one image as the network reads it: features, or pixels."""
        if self.fuselip is not None:
            return (self.fuselip.aligner.tokenizer.codes,)
        if not self.reads_features:
            return shape
        return (self.features,) if self.grid is None else (self.grid**2, self.features)

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        return named(self.network)(self, classes)

    def check(self, data: DataConfig) -> None:
        backbone = BACKBONES[self.backbone]
        if data.tokens > LONGEST:
            raise ValueError(f"data.length must be at most {LONGEST:,} tokens for {self.title}, but got {data.tokens:,}")
        if (self.backbone == "fuselip") != (self.fuselip is not None):
            raise ValueError("model.fuselip goes with model.backbone 'fuselip', and that with it")
        if self.fuselip is not None and (self.tuned or not self.recursive):
            raise ValueError("model.backbone 'fuselip' is for recursive captioners, and frozen: tuned must be false")
        if self.fuselip is not None:
            aligner, whole = self.fuselip.aligner, self.fuselip.mode != "image_only"
            aligner.check(data)
            fits(aligner.encoder, aligner.tokenizer, data, beside=aligner.tokenizer.codes if whole else 0)
            return
        if self.backbone == "small" and self.weights == "pretrained":
            raise ValueError("model.weights must be 'random' with model.backbone 'small', which nobody has trained")
        if data.shape[0] != 3:
            raise ValueError(f"model.backbone {self.backbone!r} needs images of 3 channels, but {data.title} has {data.shape[0]}")
        if backbone.side is not None and data.shape[1:] != (backbone.side, backbone.side):
            raise ValueError(
                f"data.size must be {backbone.side} for model.backbone {self.backbone!r}, but got {data.shape[1]}x{data.shape[2]}"
            )


class ReportModel(CaptionModel):
    """A captioner of MicarVLMoE's tables. Its eyes by default: ResNet-101, pretrained on ImageNet, and trained with the rest."""

    named: ClassVar[str]  # as the paper's tables do

    backbone: BackboneName = Field("resnet101", description="what sees the image: timm's networks, or a small CNN of ours")
    tuned: bool = Field(True, description="train the backbone too; else it is frozen, and its features are computed once")

    @property
    def title(self) -> str:
        """The paper's name, with what sees where that is not the paper's."""
        usual = (self.backbone, self.weights, self.tuned) == ("resnet101", "pretrained", True)
        return self.named if usual else f"{self.named} ({self.vision})"
