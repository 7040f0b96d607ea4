"""Settings that all captioners share: the vision encoder, decoding, and the baselines' titles in tables.

The network's part is in `networks/caption.py`.
"""

from typing import ClassVar, Literal, NamedTuple

from pydantic import Field, PositiveFloat

from recstudy.programs.settings import Config
from recstudy.recursive.config.parts import Count, DataConfig, ModelConfig, Shape
from recstudy.recursive.models.fuselip import Aligner, check_encoder

LONGEST = 2048  # maximum number of tokens of a caption: positions with a rotary angle


class Backbone(NamedTuple):
    """A vision encoder: a network from pixels to features, without a classifier."""

    title: str
    timm: str  # name in timm, with that of its weights; empty for recstudy's own
    features: int  # F: features of an image
    channels: int  # F: features of one position of the last feature map
    params: int
    side: int | None  # required height and width in pixels; None for any size


BackboneName = Literal["resnet18", "resnet101", "swin_t", "swin_b", "small", "fuselip"]
BACKBONES = {
    "resnet18": Backbone("ResNet-18", "resnet18.a1_in1k", 512, 512, 11_176_512, None),
    # torchvision's IMAGENET1K_V2
    "resnet101": Backbone("ResNet-101", "resnet101.tv2_in1k", 2048, 2048, 42_500_160, None),
    "swin_t": Backbone("Swin-T", "swin_tiny_patch4_window7_224.ms_in1k", 768, 768, 27_519_354, 224),
    # of ImageNet-22k, fine-tuned on ImageNet
    "swin_b": Backbone(
        "Swin-B", "swin_base_patch4_window7_224.ms_in22k_ft_in1k", 1024, 1024, 86_743_224, 224
    ),
    "small": Backbone("small CNN", "", 256, 64, 93_472, None),
    "fuselip": Backbone("FuseLIP", "", 0, 0, 0, None),  # its sizes are fields of `FuseLIP`
}


class FuseLIPBackboneConfig(Config):
    """A FuseLIP encoder as the vision encoder of a captioner.

    It is first aligned on the captions of the training split. If the captioner is `tuned`, the encoder is
    then trained with it at its learning rate; otherwise it is frozen.
    """

    revision: ClassVar = 2  # no weight decay of gains, biases and the scale

    aligner: Aligner = Aligner()
    """the encoder, its image tokenizer, and the training of the tokenizer"""
    mode: Literal["prefix_causal", "image_only", "leaky"] = "prefix_causal"
    """feature at each token: of the image and the tokens up to it; of the image only; or of the whole
    caption, which contains the answer (the bug of the ImageHRM/ImageTRM paper, never compared)"""
    epochs: Count = 20
    """epochs of the alignment"""
    batch_size: int = Field(64, ge=2)
    """pairs per batch of the alignment"""
    learning_rate: PositiveFloat = 1e-3
    """learning rate of the alignment"""


class CaptionModel(ModelConfig):
    """A captioner's vision encoder. Default: the frozen, pretrained ResNet-18 of ImageHRM/ImageTRM."""

    outputs: ClassVar = ("caption",)

    backbone: BackboneName = "resnet18"
    """vision encoder: a network of timm, recstudy's small CNN for 64x64 pixels, or FuseLIP"""
    fuselip: FuseLIPBackboneConfig | None = None
    """settings of the backbone 'fuselip'"""
    weights: Literal["pretrained", "random"] = "pretrained"
    """initial weights of the backbone: timm's for ImageNet, from the Hugging Face hub, or random ones"""
    tuned: bool = False
    """whether the backbone is trained too; features of a frozen backbone are computed once"""
    decode: Literal["beam", "greedy", "official_quirk"] = "beam"
    """decoding at test: beam search, the most likely token, or the beam search of MicarVLMoE's published
    code"""
    beam: int = Field(3, ge=1, le=32)
    """number of beams per image"""
    length_normalisation: float = Field(0.0, ge=0, le=2)
    """exponent of the length that divides a beam's score"""

    @property
    def revised(self) -> int:
        """The revision of what this model computes, which is part of the run id."""
        # Revision 1 of MicarVLMoE's beam search wrote no PAD, no BOS and one token less.
        return self.revision + (self.decode == "official_quirk")

    @property
    def beams(self) -> int:
        """The number of captions of an image that are written at a time."""
        return 1 if self.decode == "greedy" else self.beam

    @property
    def reads_features(self) -> bool:
        """Whether the network reads features (B, F) or (B, positions, F) of a frozen backbone, not pixels."""
        return not self.tuned and self.fuselip is None

    @property
    def reads_pixels(self) -> bool:
        return self.tuned and self.fuselip is None

    @property
    def leaks(self) -> bool:
        """Whether the input contains the caption that the model must write."""
        return self.fuselip is not None and self.fuselip.mode == "leaky"

    @property
    def batch_norm(self) -> bool:
        # Swin has layer norm, and the small CNN has group norm.
        return self.tuned and self.backbone.startswith("resnet")

    @property
    def grid(self) -> int | None:
        """Side of the grid of image features (B, grid x grid, F); None for one feature per image (B, F)."""
        return None

    @property
    def features(self) -> int:
        """F: number of features of an image, or of one position of the grid."""
        if self.fuselip is not None:
            return self.fuselip.aligner.encoder.dimensions[0]
        backbone = BACKBONES[self.backbone]
        return backbone.features if self.grid is None else backbone.channels

    @property
    def frozen_params(self) -> int:
        """The number of parameters of a frozen backbone, which the network does not have."""
        return 0 if self.tuned else BACKBONES[self.backbone].params

    @property
    def vision(self) -> str:
        """The title of the vision encoder: `ResNet-18` (pretrained and frozen), `Swin-T, random, tuned`."""
        if self.fuselip is not None:
            title = f"FuseLIP on {self.fuselip.aligner.tokenizer.name}"
            return title + ", tuned" * self.tuned + ", LEAKY" * self.leaks
        marks = [BACKBONES[self.backbone].title, "random" * (self.weights == "random"), "tuned" * self.tuned]
        return ", ".join(filter(None, marks))

    def input_shape(self, shape: Shape) -> tuple[int, ...]:
        """Return the shape of one image as the network reads it: features, or pixels."""
        if self.fuselip is not None:
            return (self.fuselip.aligner.tokenizer.codes,)
        if not self.reads_features:
            return shape
        return (self.features,) if self.grid is None else (self.grid**2, self.features)

    def check(self, data: DataConfig) -> None:
        backbone = BACKBONES[self.backbone]
        if data.tokens > LONGEST:
            raise ValueError(
                f"data.length must be at most {LONGEST:,} tokens for {self.title}, but got {data.tokens:,}"
            )
        if (self.backbone == "fuselip") != (self.fuselip is not None):
            raise ValueError(
                "model.fuselip must be set with model.backbone 'fuselip', and left out with any other"
                " backbone"
            )
        if self.fuselip is not None:
            if not self.recursive:
                raise ValueError(
                    "model.backbone 'fuselip' is for recursive captioners: image_hrm and image_trm"
                )
            check_encoder(data, self.fuselip.aligner, *aligner_of(self)[1:])
            return
        if self.backbone == "small" and self.weights == "pretrained":
            raise ValueError(
                "model.weights must be 'random' with model.backbone 'small', which has no pretrained weights"
            )
        if data.shape[0] != 3:
            raise ValueError(
                f"model.backbone {self.backbone!r} needs images with 3 channels, but {data.title} has"
                f" {data.shape[0]}"
            )
        if backbone.side is not None and data.shape[1:] != (backbone.side, backbone.side):
            raise ValueError(
                f"data.size must be {backbone.side} for model.backbone {self.backbone!r}, but got"
                f" {data.shape[1]}x{data.shape[2]}"
            )


def aligner_of(model: ModelConfig) -> tuple[Aligner | None, str, int]:
    """Return a model's FuseLIP, the path of its settings, and its number of tokens besides a caption's."""
    if not isinstance(model, CaptionModel) or model.fuselip is None:
        return (model if isinstance(model, Aligner) else None), "model.", 0
    aligner = model.fuselip.aligner
    # With 'image_only' the encoder reads the codes without the caption.
    codes = 0 if model.fuselip.mode == "image_only" else aligner.tokenizer.codes
    return aligner, "model.fuselip.aligner.", codes


class ReportModel(CaptionModel):
    """A captioner of MicarVLMoE's tables. Default encoder: a ResNet-101 pretrained on ImageNet and tuned."""

    paper_name: ClassVar[str]  # name in the paper's tables

    backbone: BackboneName = "resnet101"
    """vision encoder: a network of timm, or recstudy's small CNN"""
    tuned: bool = True
    """whether the backbone is trained too; features of a frozen backbone are computed once"""

    @property
    def title(self) -> str:
        """The paper's name, with the vision encoder if that is not the paper's."""
        is_published = (self.backbone, self.weights, self.tuned) == ("resnet101", "pretrained", True)
        return self.paper_name if is_published else f"{self.paper_name} ({self.vision})"
