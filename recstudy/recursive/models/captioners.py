"""Settings of the captioners and of their vision encoders.

ImageHRM and ImageTRM are recursive; their networks are in `networks/image_hrm.py`. The other captioners are
baselines of these two and of MicarVLMoE; their networks are in `networks/lstm_captioners.py` and
`networks/transformer_captioners.py`.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from recstudy.plugins import import_object
from recstudy.programs.settings import Config, Range
from recstudy.recursive.config.parts import FAMILIES, DataConfig, ModelConfig, Shape
from recstudy.recursive.models.fuselip import Aligner, check_encoder

if TYPE_CHECKING:
    from torch import nn

LONGEST = 2048  # maximum number of tokens of a caption: positions with a rotary angle


class Backbone(NamedTuple):
    """A vision encoder: a network from pixels to features, without a classifier."""

    title: str
    timm: str  # name in timm; empty for recstudy's own
    features: int  # F: features of an image
    channels: int  # F: features of one position of the last feature map
    params: int
    side: int | None  # required height and width in pixels; None for any size


BackboneName = Literal["resnet18", "resnet101", "swin_t", "swin_b", "small", "fuselip"]
BACKBONES = {
    "resnet18": Backbone("ResNet-18", "resnet18", 512, 512, 11_176_512, None),
    # torchvision's IMAGENET1K_V2
    "resnet101": Backbone("ResNet-101", "resnet101.tv2_in1k", 2048, 2048, 42_500_160, None),
    "swin_t": Backbone("Swin-T", "swin_tiny_patch4_window7_224", 768, 768, 27_519_354, 224),
    "swin_b": Backbone("Swin-B", "swin_base_patch4_window7_224", 1024, 1024, 86_743_224, 224),
    "small": Backbone("small CNN", "", 256, 64, 93_472, None),
    "fuselip": Backbone("FuseLIP", "", 0, 0, 0, None),  # its sizes are fields of `FuseLIP`
}


class FuseLIPBackboneConfig(Config):
    """A FuseLIP encoder as the vision encoder of a captioner.

    It is first aligned on the captions of the training split. If the captioner is `tuned`, the encoder is
    then trained with it at its learning rate; otherwise it is frozen.
    """

    revision: ClassVar[int] = 2  # no weight decay of gains, biases and the scale

    aligner: Aligner = Field(
        Aligner(), description="the encoder, its image tokenizer, and the training of the tokenizer"
    )
    mode: Literal["prefix_causal", "image_only", "leaky"] = Field(
        "prefix_causal",
        description=(
            "feature at each token: of the image and the tokens up to it; of the image only; or of the whole"
            " caption, which contains the answer (the bug of the ImageHRM/ImageTRM paper, never compared)"
        ),
    )
    epochs: int = Field(20, ge=1, description="epochs of the alignment")
    batch_size: int = Field(64, ge=2, description="pairs per batch of the alignment")
    learning_rate: float = Field(1e-3, gt=0, description="learning rate of the alignment")


class CaptionModel(ModelConfig):
    """A captioner's vision encoder. Default: the frozen, pretrained ResNet-18 of ImageHRM/ImageTRM."""

    outputs: ClassVar[tuple[str, ...]] = ("caption",)

    backbone: BackboneName = Field(
        "resnet18",
        description="vision encoder: a network of timm, recstudy's small CNN for 64x64 pixels, or FuseLIP",
    )
    fuselip: FuseLIPBackboneConfig | None = Field(None, description="settings of the backbone 'fuselip'")
    weights: Literal["pretrained", "random"] = Field(
        "pretrained",
        description=(
            "initial weights of the backbone: timm's for ImageNet, from the Hugging Face hub, or random ones"
        ),
    )
    tuned: bool = Field(
        False,
        description="whether the backbone is trained too; features of a frozen backbone are computed once",
    )
    decode: Literal["beam", "greedy", "official_quirk"] = Field(
        "beam",
        description=(
            "decoding at test: beam search, the most likely token, or the beam search of MicarVLMoE's"
            " published code"
        ),
    )
    beam: int = Field(3, ge=1, le=32, description="number of beams per image")
    length_normalisation: float = Field(
        0.0, ge=0, le=2, description="exponent of the length that divides a beam's score"
    )

    @property
    def revised(self) -> int:
        """The revision of what this model computes, which is part of the run id."""
        # Revision 1 of MicarVLMoE's beam search wrote no PAD, no BOS and one token less.
        return self.revision + (self.decode == "official_quirk")

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

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        return import_object(self.network)(self, classes)

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
        if self.fuselip is not None and not self.recursive:
            raise ValueError("model.backbone 'fuselip' is for recursive captioners: image_hrm and image_trm")
        if self.fuselip is not None:
            aligner = self.fuselip.aligner
            aligner.check(data)
            # With 'image_only' the encoder reads the codes without the caption.
            codes = 0 if self.fuselip.mode == "image_only" else aligner.tokenizer.codes
            check_encoder(aligner.encoder, aligner.tokenizer, data, extra_tokens=codes)
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


class RecursiveCaptionModel(CaptionModel):
    """A causal recursion over the tokens of a caption. Defaults: the widths of HRM and TRM."""

    recursive: ClassVar[bool] = True
    halts: ClassVar[bool] = True

    width: int = Field(512, ge=2, description="d: dimensions of a token")
    heads: int = Field(8, ge=1, description="attention heads")
    expansion: int = Field(
        4,
        ge=1,
        description="the SwiGLU's hidden width is 2/3 x expansion x width, rounded up to a multiple of 256",
    )
    image_norm: bool = Field(
        False, description="whether E_v is RMS-normalised, so that image and token have the same scale"
    )
    halt_read: Literal["mean", "last"] = Field(
        "mean",
        description=(
            "input of the halting head: the mean over a caption's tokens, or the last token; the first token,"
            " which HRM reads, has seen only BOS"
        ),
    )

    halt_target: Literal["soft", "exact"] = Field(
        "soft",
        description=(
            "target of halting: the share of a caption's correct tokens, or whether all of them are correct"
        ),
    )

    @property
    def exact_halt(self) -> bool:
        return self.halt_target == "exact"

    def check(self, data: DataConfig) -> None:
        super().check(data)
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(
                f"model.width must be an even multiple of model.heads, but got {self.width} and {self.heads}"
            )
        if self.image_norm and self.fuselip is not None:
            raise ValueError(
                "model.image_norm must be false with model.backbone 'fuselip', whose features are already"
                " scaled"
            )


@FAMILIES.add("image_hrm")
class ImageHRM(RecursiveCaptionModel):
    """ImageHRM. Defaults: the paper's triple loop, whose core has 20,447,232 parameters.

    `middle_cycles=0` is the dual loop with 13,631,488 parameters.
    """

    network: ClassVar[str] = "recstudy.recursive.models.networks.image_hrm:image_hrm"
    bootstraps: ClassVar[bool] = True

    family: Literal["image_hrm"] = "image_hrm"
    high_layers: Annotated[int, Range(1, 6)] = Field(2, ge=1, le=48, description="layers of f_H")
    middle_layers: Annotated[int, Range(1, 6)] = Field(2, ge=1, le=48, description="layers of f_M")
    low_layers: Annotated[int, Range(1, 6)] = Field(2, ge=1, le=48, description="layers of f_L")
    high_cycles: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=64, description="C_H: H-updates per segment")
    middle_cycles: Annotated[int, Range(1, 4)] = Field(
        2,
        ge=0,
        le=64,
        description="C_M: M-updates before each H-update; 0 removes the middle level (the dual loop)",
    )
    low_cycles: Annotated[int, Range(1, 4)] = Field(
        2, ge=1, le=64, description="C_L: L-updates before each update of the level above"
    )
    top_down: Literal["literal", "chain", "full"] = Field(
        "chain",
        description=(
            "input of a level from above: nothing (the paper's Algorithm 1 as printed); the next higher level"
            " (its text: H to M to L); or the sum of all higher levels"
        ),
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step",
        description=(
            "updates with gradient: the last one of each level (paper); those of the last high cycle; or all"
        ),
    )

    @property
    def title(self) -> str:
        return f"ImageHRM ({'Triple' if self.middle_cycles else 'Dual'}, {self.vision})"

    @property
    def levels(self) -> dict[str, tuple[int, int]]:
        """Cycles and layers of each level, by name, the lowest level first."""
        levels = {
            "low": (self.low_cycles, self.low_layers),
            "middle": (self.middle_cycles, self.middle_layers),
            "high": (self.high_cycles, self.high_layers),
        }
        return {name: (cycles, layers) for name, (cycles, layers) in levels.items() if cycles}


@FAMILIES.add("image_trm")
class ImageTRM(RecursiveCaptionModel):
    """ImageTRM. Defaults: the paper's settings (a core of 6,815,744 parameters), and TRM's cycles.

    The paper does not state the numbers of cycles and latent steps.
    """

    network: ClassVar[str] = "recstudy.recursive.models.networks.image_hrm:image_trm"

    family: Literal["image_trm"] = "image_trm"
    layers: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=48, description="layers of the network")
    cycles: Annotated[int, Range(1, 4)] = Field(3, ge=1, le=64, description="T: cycles per segment")
    latent_steps: Annotated[int, Range(1, 8)] = Field(6, ge=1, le=64, description="n: z-updates per cycle")
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "full_bptt",
        description=(
            "updates with gradient: all (paper); those of the last cycle (TRM's code); or the last z- and the"
            " last y-update"
        ),
    )

    @property
    def title(self) -> str:
        return f"ImageTRM ({self.vision})"


@FAMILIES.add("image_lstm")
class ImageLSTM(CaptionModel):
    """ResNet-18 + LSTM. Defaults: 2,630,404 trained parameters with the byte vocabulary of 260."""

    network: ClassVar[str] = "recstudy.recursive.models.networks.lstm_captioners:ImageLSTMNetwork"

    family: Literal["image_lstm"] = "image_lstm"
    width: int = Field(512, ge=1, description="dimensions of a token and of the LSTM's state")
    image: Literal["merge", "inject"] = Field(
        "merge",
        description="input of the image: added to every token (merge), or the LSTM's initial state (inject)",
    )

    @property
    def title(self) -> str:
        return f"LSTM ({self.vision})"


class ReportModel(CaptionModel):
    """A captioner of MicarVLMoE's tables. Default encoder: a ResNet-101 pretrained on ImageNet and tuned."""

    paper_name: ClassVar[str]  # name in the paper's tables

    backbone: BackboneName = Field(
        "resnet101", description="vision encoder: a network of timm, or recstudy's small CNN"
    )
    tuned: bool = Field(
        True,
        description="whether the backbone is trained too; features of a frozen backbone are computed once",
    )

    @property
    def title(self) -> str:
        """The paper's name, with the vision encoder if that is not the paper's."""
        is_published = (self.backbone, self.weights, self.tuned) == ("resnet101", "pretrained", True)
        return self.paper_name if is_published else f"{self.paper_name} ({self.vision})"


@FAMILIES.add("show_tell")
class ShowTell(ReportModel):
    """Show and Tell. Defaults: MicarVLMoE's, with 4,175,336 decoder parameters for 1,000 words."""

    paper_name: ClassVar[str] = "ST"
    network: ClassVar[str] = "recstudy.recursive.models.networks.lstm_captioners:ShowTellNetwork"

    family: Literal["show_tell"] = "show_tell"
    width: int = Field(512, ge=1, description="dimensions of a word and of the LSTM's state")


@FAMILIES.add("show_attend_tell")
class ShowAttendTell(ReportModel):
    """Show, Attend and Tell with soft attention. Defaults: MicarVLMoE's, with 11,781,608 decoder parameters.

    The count is for 1,000 words.
    """

    paper_name: ClassVar[str] = "SAT"
    network: ClassVar[str] = "recstudy.recursive.models.networks.lstm_captioners:ShowAttendTellNetwork"
    grid: ClassVar[int] = 14

    family: Literal["show_attend_tell"] = "show_attend_tell"
    width: int = Field(512, ge=1, description="dimensions of a word and of the LSTM's state")
    attention: int = Field(512, ge=1, description="hidden width of the additive attention")
    dropout: float = Field(0.5, ge=0, lt=1, description="dropout rate of the state that predicts the word")
    alpha_c: float = Field(
        1.0,
        ge=0,
        description=(
            "weight of the doubly stochastic penalty, with which the attention to each position sums to 1"
            " over a caption; 0 turns it off"
        ),
    )


class EncoderDecoderModel(ReportModel):
    """An encoder over the positions of an image and a decoder over the words."""

    grid: ClassVar[int] = 7

    width: int = Field(512, ge=2, description="dimensions of a word and of a position")
    heads: int = Field(8, ge=1, description="attention heads")
    layers: int = Field(3, ge=1, le=48, description="layers of the encoder, and of the decoder")
    ffn_width: int = Field(2048, ge=1, description="hidden width of the feed-forward networks")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="dropout rate of the embeddings, the attention weights and the layers"
    )

    def check(self, data: DataConfig) -> None:
        super().check(data)
        if self.width % self.heads:
            raise ValueError(
                f"model.width must be a multiple of model.heads, but got {self.width} and {self.heads}"
            )


@FAMILIES.add("caption_transformer")
class CaptionTransformer(EncoderDecoderModel):
    """The transformer of Vaswani et al. Defaults: MicarVLMoE's, with 24,143,336 parameters.

    The count is for 1,000 words, without the backbone.
    """

    paper_name: ClassVar[str] = "Transformer"
    network: ClassVar[str] = (
        "recstudy.recursive.models.networks.transformer_captioners:CaptionTransformerNetwork"
    )

    family: Literal["caption_transformer"] = "caption_transformer"


@FAMILIES.add("r2gen")
class R2Gen(EncoderDecoderModel):
    """R2Gen. Defaults: its published code (36,218,344 parameters for 1,000 words, without the backbone)."""

    paper_name: ClassVar[str] = "R2Gen"
    network: ClassVar[str] = "recstudy.recursive.models.networks.transformer_captioners:R2GenNetwork"

    family: Literal["r2gen"] = "r2gen"
    ffn_width: int = Field(512, ge=1, description="hidden width of the feed-forward networks")
    image_dropout: float = Field(0.5, ge=0, lt=1, description="dropout rate of the projected image features")

    slots: int = Field(3, ge=1, le=64, description="rows of the relational memory")
