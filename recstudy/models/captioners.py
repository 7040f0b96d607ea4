"""Models that write a caption, and the backbones that see the image for them: what can be set.

ImageHRM and ImageTRM are recursive: their networks stand in `networks/image_hrm.py`. Captioners without a
recursion are the baseline of these two, and those that MicarVLMoE compares with:
`networks/lstm_captioners.py` and `networks/transformer_captioners.py`.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig, ModelConfig, Shape
from recstudy.models.fuselip import Aligner, fits
from recstudy.plugins import named
from recstudy.programs.settings import Config, Range

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
    # torchvision's IMAGENET1K_V2
    "resnet101": Backbone("ResNet-101", "resnet101.tv2_in1k", 2048, 2048, 42_500_160, None),
    "swin_t": Backbone("Swin-T", "swin_tiny_patch4_window7_224", 768, 768, 27_519_354, 224),
    "swin_b": Backbone("Swin-B", "swin_base_patch4_window7_224", 1024, 1024, 86_743_224, 224),
    "small": Backbone("small CNN", "", 256, 64, 93_472, None),
    "fuselip": Backbone("FuseLIP", "", 0, 0, 0, None),  # its sizes are fields
}


class FuseLIPBackboneConfig(Config):
    """A FuseLIP encoder as the backbone. It is aligned on the captions of the training split before the
    captioner is trained.

    With `tuned` of the captioner the encoder is then trained with the captioner, at its learning rate.
    Otherwise it is frozen.
    """

    revision: ClassVar[int] = 2  # gains, biases and the scale do not decay

    aligner: Aligner = Field(
        Aligner(), description="the encoder, its image tokenizer, and how long that is trained"
    )
    mode: Literal["prefix_causal", "image_only", "leaky"] = Field(
        "prefix_causal",
        description=(
            "what stands at a token: the feature of the image and the tokens before; of the image alone; or"
            " of the whole caption, which tells the answer (the bug of the ImageHRM/ImageTRM paper, to be"
            " shown and not compared)"
        ),
    )
    epochs: int = Field(20, ge=1, description="of the alignment")
    batch_size: int = Field(64, ge=2, description="pairs that are told apart at once")
    learning_rate: float = Field(1e-3, gt=0)


class CaptionModel(ModelConfig):
    """A captioner's eyes. Defaults: the frozen ResNet-18 of ImageHRM/ImageTRM, pretrained on ImageNet."""

    outputs: ClassVar[tuple[str, ...]] = ("caption",)

    backbone: BackboneName = Field(
        "resnet18",
        description="what sees the image: timm's networks; a small CNN of ours for 64x64 pixels; or FuseLIP",
    )
    fuselip: FuseLIPBackboneConfig | None = Field(None, description="of the backbone 'fuselip'")
    weights: Literal["pretrained", "random"] = Field(
        "pretrained",
        description="the backbone's, at the start: timm's of ImageNet, from the Hugging Face hub; or drawn",
    )
    tuned: bool = Field(
        False, description="train the backbone too; else it is frozen, and its features are computed once"
    )
    decode: Literal["beam", "greedy", "official_quirk"] = Field(
        "beam",
        description=(
            "how captions are written at test: beam search, the likeliest token, or MicarVLMoE's published"
            " search"
        ),
    )
    beam: int = Field(3, ge=1, le=32, description="beams an image")
    length_normalisation: float = Field(
        0.0, ge=0, le=2, description="power of the length that a beam's score is divided by"
    )

    @property
    def revised(self) -> int:
        """One more for the search of MicarVLMoE, which wrote no PAD and no BOS and a token less."""
        return self.revision + (self.decode == "official_quirk")

    @property
    def reads_features(self) -> bool:
        """Return whether the network wants the frozen backbone's features, (B, F) or (B, places, F), in place
        of pixels.
        """
        return not self.tuned and self.fuselip is None

    @property
    def reads_pixels(self) -> bool:
        return self.tuned and self.fuselip is None

    @property
    def leaks(self) -> bool:
        """Return whether it is told what it is to say."""
        return self.fuselip is not None and self.fuselip.mode == "leaky"

    @property
    def batch_norm(self) -> bool:
        # Swin has layer norm, the small net group norm
        return self.tuned and self.backbone.startswith("resnet")

    @property
    def grid(self) -> int | None:
        """Places a side at which the image's features stand, (B, grid x grid, F); None: the whole image's,
        (B, F).
        """
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
        """Return what sees, such as `ResNet-18` for the paper's (pretrained and frozen) or `Swin-T, random,
        tuned`.
        """
        if self.fuselip is not None:
            return (
                f"FuseLIP on {self.fuselip.aligner.tokenizer.name}"
                + ", tuned" * self.tuned
                + ", LEAKY" * self.leaks
            )
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
            raise ValueError(
                f"data.length must be at most {LONGEST:,} tokens for {self.title}, but got {data.tokens:,}"
            )
        if (self.backbone == "fuselip") != (self.fuselip is not None):
            raise ValueError("model.fuselip goes with model.backbone 'fuselip', and that with it")
        if self.fuselip is not None and not self.recursive:
            raise ValueError("model.backbone 'fuselip' is for recursive captioners: image_hrm and image_trm")
        if self.fuselip is not None:
            aligner, whole = self.fuselip.aligner, self.fuselip.mode != "image_only"
            aligner.check(data)
            fits(aligner.encoder, aligner.tokenizer, data, beside=aligner.tokenizer.codes if whole else 0)
            return
        if self.backbone == "small" and self.weights == "pretrained":
            raise ValueError(
                "model.weights must be 'random' with model.backbone 'small', which nobody has trained"
            )
        if data.shape[0] != 3:
            raise ValueError(
                f"model.backbone {self.backbone!r} needs images of 3 channels, but {data.title} has"
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
        4, ge=1, description="the SwiGLU's hidden width is 2/3 of so many widths, rounded up to 256s"
    )
    image_norm: bool = Field(
        False, description="RMS-normalise E_v, so that image and token enter with the same scale"
    )
    halt_read: Literal["mean", "last"] = Field(
        "mean",
        description=(
            "what the halting head reads: the mean over a caption's tokens, or its last one; HRM's first one"
            " has seen no token but BOS"
        ),
    )

    halt_target: Literal["soft", "exact"] = Field(
        "soft",
        description=(
            "halting is learned from the share of a caption's tokens that are right, or from all of them"
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
                "model.image_norm must be false with model.backbone 'fuselip', whose features have a scale of"
                " their own"
            )


@FAMILIES.add("image_hrm")
class ImageHRM(RecursiveCaptionModel):
    """ImageHRM. Defaults: the paper's triple loop (a core of 20,447,232); `middle_cycles=0` is the dual one
    (13,631,488).
    """

    network: ClassVar[str] = "recstudy.models.networks.image_hrm:image_hrm"
    bootstraps: ClassVar[bool] = True

    family: Literal["image_hrm"] = "image_hrm"
    high_layers: Annotated[int, Range(1, 6)] = Field(2, ge=1, le=48, description="layers of f_H")
    middle_layers: Annotated[int, Range(1, 6)] = Field(2, ge=1, le=48, description="layers of f_M")
    low_layers: Annotated[int, Range(1, 6)] = Field(2, ge=1, le=48, description="layers of f_L")
    high_cycles: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=64, description="C_H: H-updates a segment")
    middle_cycles: Annotated[int, Range(1, 4)] = Field(
        2,
        ge=0,
        le=64,
        description="C_M: M-updates before each H-update; 0 has no middle level: the dual loop",
    )
    low_cycles: Annotated[int, Range(1, 4)] = Field(
        2, ge=1, le=64, description="C_L: L-updates before each update of the level above"
    )
    top_down: Literal["literal", "chain", "full"] = Field(
        "chain",
        description=(
            "what a level hears from above: nothing (the paper's Algorithm 1 as printed); the next level (its"
            " text: H to M to L); or the sum of all levels"
        ),
    )
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "one_step",
        description="through the last update of each level (the paper); the last high cycle; every update",
    )

    @property
    def title(self) -> str:
        return f"ImageHRM ({'Triple' if self.middle_cycles else 'Dual'}, {self.vision})"

    @property
    def levels(self) -> dict[str, tuple[int, int]]:
        """Cycles and layers of the levels there are, by name, the lowest first."""
        every = {
            "low": (self.low_cycles, self.low_layers),
            "middle": (self.middle_cycles, self.middle_layers),
            "high": (self.high_cycles, self.high_layers),
        }
        return {name: (cycles, layers) for name, (cycles, layers) in every.items() if cycles}


@FAMILIES.add("image_trm")
class ImageTRM(RecursiveCaptionModel):
    """ImageTRM. Defaults: its paper's (a core of 6,815,744 parameters), with TRM's cycles, which it does not
    print.
    """

    network: ClassVar[str] = "recstudy.models.networks.image_hrm:image_trm"

    family: Literal["image_trm"] = "image_trm"
    layers: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=48, description="layers of the one net")
    cycles: Annotated[int, Range(1, 4)] = Field(3, ge=1, le=64, description="T: cycles a segment")
    latent_steps: Annotated[int, Range(1, 8)] = Field(6, ge=1, le=64, description="n: z-updates a cycle")
    gradient: Literal["full_bptt", "last_cycle", "one_step"] = Field(
        "full_bptt",
        description=(
            "through every update (paper); the last cycle (TRM's code); the last z- and the last y-update"
        ),
    )

    @property
    def title(self) -> str:
        return f"ImageTRM ({self.vision})"


@FAMILIES.add("image_lstm")
class ImageLSTM(CaptionModel):
    """ResNet-18 + LSTM. Defaults: 2,630,404 trained parameters with the byte vocabulary of 260."""

    network: ClassVar[str] = "recstudy.models.networks.lstm_captioners:ImageLSTMNetwork"

    family: Literal["image_lstm"] = "image_lstm"
    width: int = Field(512, ge=1, description="dimensions of a token and of the LSTM's state")
    image: Literal["merge", "inject"] = Field(
        "merge",
        description="the image is added to every token (merge), or is the LSTM's first state (inject)",
    )

    @property
    def title(self) -> str:
        return f"LSTM ({self.vision})"


class ReportModel(CaptionModel):
    """A captioner of MicarVLMoE's tables. Its eyes by default: ResNet-101, pretrained on ImageNet, and
    trained with the rest.
    """

    named: ClassVar[str]  # as the paper's tables do

    backbone: BackboneName = Field(
        "resnet101", description="what sees the image: timm's networks, or a small CNN of ours"
    )
    tuned: bool = Field(
        True, description="train the backbone too; else it is frozen, and its features are computed once"
    )

    @property
    def title(self) -> str:
        """The paper's name, with what sees where that is not the paper's."""
        usual = (self.backbone, self.weights, self.tuned) == ("resnet101", "pretrained", True)
        return self.named if usual else f"{self.named} ({self.vision})"


@FAMILIES.add("show_tell")
class ShowTell(ReportModel):
    """Show and Tell. Defaults: MicarVLMoE's, a decoder of 4,175,336 parameters at 1,000 words."""

    named: ClassVar[str] = "ST"
    network: ClassVar[str] = "recstudy.models.networks.lstm_captioners:ShowTellNetwork"

    family: Literal["show_tell"] = "show_tell"
    width: int = Field(512, ge=1, description="dimensions of a word and of the LSTM's state")


@FAMILIES.add("show_attend_tell")
class ShowAttendTell(ReportModel):
    """Show, Attend and Tell with soft attention. Defaults: MicarVLMoE's, a decoder of 11,781,608 parameters
    at 1,000 words.
    """

    named: ClassVar[str] = "SAT"
    network: ClassVar[str] = "recstudy.models.networks.lstm_captioners:ShowAttendTellNetwork"
    grid: ClassVar[int] = 14

    family: Literal["show_attend_tell"] = "show_attend_tell"
    width: int = Field(512, ge=1, description="dimensions of a word and of the LSTM's state")
    attention: int = Field(512, ge=1, description="dimensions in which a state and a place are compared")
    dropout: float = Field(0.5, ge=0, lt=1, description="on the state that the words are read from")
    alpha_c: float = Field(
        1.0,
        ge=0,
        description=(
            "weight of the doubly stochastic penalty: over a caption each place is looked at once; 0 is off"
        ),
    )


class EncoderDecoderModel(ReportModel):
    """An encoder over the places of an image and a decoder over the words."""

    grid: ClassVar[int] = 7

    width: int = Field(512, ge=2, description="dimensions of a word and of a place")
    heads: int = Field(8, ge=1, description="attention heads")
    layers: int = Field(3, ge=1, le=48, description="of the encoder, and of the decoder")
    ffn_width: int = Field(2048, ge=1, description="hidden width of the feed-forward networks")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="on the embeddings, the attention weights, and in the layers"
    )

    def check(self, data: DataConfig) -> None:
        super().check(data)
        if self.width % self.heads:
            raise ValueError(
                f"model.width must be a multiple of model.heads, but got {self.width} and {self.heads}"
            )


@FAMILIES.add("caption_transformer")
class CaptionTransformer(EncoderDecoderModel):
    """The transformer of Vaswani et al. Defaults: MicarVLMoE's, 24,143,336 parameters at 1,000 words without
    the backbone.
    """

    named: ClassVar[str] = "Transformer"
    network: ClassVar[str] = "recstudy.models.networks.transformer_captioners:CaptionTransformerNetwork"

    family: Literal["caption_transformer"] = "caption_transformer"


@FAMILIES.add("r2gen")
class R2Gen(EncoderDecoderModel):
    """R2Gen. Defaults: its published code, 36,218,344 parameters at 1,000 words without the backbone."""

    named: ClassVar[str] = "R2Gen"
    network: ClassVar[str] = "recstudy.models.networks.transformer_captioners:R2GenNetwork"

    family: Literal["r2gen"] = "r2gen"
    ffn_width: int = Field(512, ge=1, description="hidden width of the feed-forward networks")
    image_dropout: float = Field(0.5, ge=0, lt=1, description="on the projected features of the places")
    slots: int = Field(3, ge=1, le=64, description="rows of the relational memory")
