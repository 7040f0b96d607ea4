"""MicarVLMoE, which writes reports by a mixture of experts: what can be set.

The equations stand in `networks/micar.py` and `networks/experts.py` (the mixture). Defaults are the published
code's, apart from `combine`, which is the paper's.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.config import FAMILIES, DataConfig
from recstudy.models.captioners import ReportModel
from recstudy.programs.settings import Range

EPS = 1e-6  # of every RMS norm
# channels of C2 to C5
STAGES = {"resnet18": (64, 128, 256, 512), "resnet101": (256, 512, 1024, 2048), "small": (32, 64, 64, 64)}
ALIGNED = 8  # half-precision numbers in the 16 bytes that a GPU's grouped product reads at once


@FAMILIES.add("micar")
class MicarVLMoE(ReportModel):
    """MicarVLMoE. Defaults: COVCTR's (156,793,024 parameters with 1,000 words); the other data sets have 3
    layers of each.
    """

    named: ClassVar[str] = "MicarVLMoE"
    network: ClassVar[str] = "recstudy.models.networks.micar:MicarNetwork"
    grid: ClassVar[int] = 7  # places a side that the decoder attends to: s_i = 49
    revision: ClassVar[int] = 2  # the fusion's last dropout, W of (III-C) Xavier-uniform, PAD in the balance

    family: Literal["micar"] = "micar"
    backbone: Literal["resnet101", "resnet18", "small"] = Field(
        "resnet101",
        description="what sees the image: timm's networks, or a small CNN of ours for 64x64 pixels",
    )
    msve: Literal["pyramid", "one_scale", "off"] = Field(
        "pyramid",
        description=(
            "the image's features: of the stages C2 to C5, added up and convolved at C2's resolution; of C5"
            " alone, enlarged and convolved there too (as many FLOPs to 3 %, and no scales); or C5 itself"
        ),
    )
    pyramid_width: int = Field(2048, ge=1, description="d_v: channels of the pyramid")
    width: int = Field(512, ge=8, description="d_model: dimensions of a token and of a place of the image")
    heads: int = Field(8, ge=1, description="h: attention heads")
    latent: int = Field(
        768, ge=4, description="d_latent: width of the queries, and of keys and values, of all heads"
    )
    projections: Literal["fused", "separate"] = Field(
        "fused",
        description="queries, keys and values share a bottleneck (published code) or have one each (paper)",
    )
    scale: Literal["head", "latent"] = Field(
        "head",
        description=(
            "scores are divided by the root of a head's width (published code: 96) or of d_latent (paper:"
            " 768)"
        ),
    )
    rope_dims: int = Field(
        24,
        ge=2,
        description=(
            "dimensions of a head that rotary positions turn, of its second half: 24 (published code) or 48"
            " (paper)"
        ),
    )
    encoder_layers: Annotated[int, Range(1, 4)] = Field(
        2, ge=0, le=48, description="layers of the latent encoder; 0: none"
    )
    decoder_layers: Annotated[int, Range(1, 4)] = Field(2, ge=1, le=48, description="layers of the decoder")
    fusion: Literal["gated", "attention"] = Field(
        "gated", description="how the image enters: gated fusion, or cross-attention alone"
    )
    fusion_reads: Literal["normed", "plain"] = Field(
        "normed",
        description="gated fusion's last layer reads I_att normalised (published code) or as it is (paper)",
    )
    ffn_width: int = Field(
        2048, ge=8, description="d_ff: hidden width of a gated feed-forward network, and of each expert"
    )
    activation: Literal["silu", "gelu"] = Field("silu", description="the paper has gelu on MMR")
    experts: Annotated[int, Range([2, 4, 8, 16])] = Field(
        8,
        ge=1,
        le=256,
        description="E: experts a decoder layer; 1 is a feed-forward network without a router",
    )
    top_k: Annotated[int, Range(1, 2)] = Field(2, ge=1, description="k: experts a token")
    combine: Literal["weighted", "unweighted"] = Field(
        "weighted", description="experts are added by their scores (paper), or as they are: the router then learns from the "
        "balance alone (published code, contradiction MicarVLMoE-1)",
    )  # fmt: skip
    balance: float = Field(0.01, ge=0, description="alpha: weight of the load balancing; 0 is off")
    attention_dropout: float = Field(0.12, ge=0, lt=1, description="on attention weights")
    dropout: float = Field(0.1, ge=0, lt=1, description="everywhere else")

    @property
    def narrow(self) -> int:
        """d_model / h: width of the bottleneck before queries, keys or values."""
        return self.width // self.heads

    @property
    def seen_width(self) -> int:
        """Channels of a place of the image before it is projected to d_model."""
        return self.features if self.msve == "off" else self.pyramid_width

    @property
    def batch_norm(self) -> bool:
        return super().batch_norm or self.msve != "off"  # of the pyramid's convolutions

    @property
    def scales(self) -> tuple[int, ...]:
        """Channels of the stages that the pyramid reads."""
        stages = STAGES[self.backbone]
        return {"pyramid": stages, "one_scale": stages[-1:], "off": ()}[self.msve]

    def check(self, data: DataConfig) -> None:
        super().check(data)
        if self.msve != "off" and not self.tuned:
            raise ValueError(
                f"model.tuned must be true with model.msve {self.msve!r}, which reads the backbone's stages"
                " at every step: of a frozen backbone only the pooled last map is kept. Set model.msve 'off'"
                " for a frozen one"
            )
        if self.top_k > self.experts:
            raise ValueError(
                f"model.top_k must be at most model.experts, but got {self.top_k} of {self.experts}"
            )
        if self.width % self.heads:
            raise ValueError(
                f"model.width must be a multiple of model.heads, but got {self.width} and {self.heads}"
            )
        if self.latent % (2 * self.heads):
            raise ValueError(
                "model.latent must be a multiple of twice model.heads, because a head has two branches, but"
                f" got {self.latent} and {self.heads}"
            )
        branch = self.latent // self.heads // 2
        if self.rope_dims % 2 or self.rope_dims > branch:
            raise ValueError(
                f"model.rope_dims must be even and at most {branch}, half of a head (model.latent /"
                f" model.heads / 2), but got {self.rope_dims}"
            )
        if self.width % ALIGNED or self.ffn_width % ALIGNED:
            raise ValueError(
                f"model.width and model.ffn_width must be multiples of {ALIGNED}, which a GPU's grouped"
                f" product needs, but got {self.width} and {self.ffn_width}"
            )
