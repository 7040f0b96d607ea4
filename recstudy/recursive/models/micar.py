"""Settings of MicarVLMoE, which writes reports with a mixture of experts.

The equations are in `networks/micar.py` and `networks/experts.py` (the mixture). The defaults are those of
the published code, except `combine`, which follows the paper.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from recstudy.programs.settings import Range
from recstudy.recursive.config.parts import FAMILIES, Count, DataConfig, Layers, Rate, Weight, check_heads
from recstudy.recursive.models.caption import ReportModel

# Channels of the backbones' stages C2 to C5.
STAGES = {"resnet18": (64, 128, 256, 512), "resnet101": (256, 512, 1024, 2048), "small": (32, 64, 64, 64)}
ALIGNED = 8  # half-precision numbers in the 16 bytes that a GPU's grouped product reads at once


@FAMILIES.add("micar")
class MicarVLMoE(ReportModel):
    """MicarVLMoE. Defaults: the settings for COVCTR (156,793,024 parameters for 1,000 words).

    The paper uses 3 encoder and 3 decoder layers on the other data sets.
    """

    paper_name: ClassVar = "MicarVLMoE"
    rotates: ClassVar = True
    network: ClassVar = "recstudy.recursive.models.networks.micar:MicarNetwork"
    grid: ClassVar = 7  # side of the grid that the decoder attends to: s_i = 49 positions
    # Revision 2: the fusion's last dropout, W of (III-C) Xavier-uniform, PAD in the balance loss.
    revision: ClassVar = 2

    family: Literal["micar"] = "micar"
    backbone: Literal["resnet101", "resnet18", "small"] = "resnet101"
    """vision encoder: a network of timm, or recstudy's small CNN for 64x64 pixels"""
    msve: Literal["pyramid", "one_scale", "off"] = "pyramid"
    """image features: the stages C2 to C5, added and convolved at the resolution of C2; C5 alone, upsampled
    and convolved at that resolution (without scales, at the same FLOPs to 3 %); or C5"""
    pyramid_width: Count = 2048
    """d_v: channels of the pyramid"""
    width: int = Field(512, ge=8)
    """d_model: dimensions of a token and of an image position"""
    heads: Count = 8
    """h: attention heads"""
    latent: int = Field(768, ge=4)
    """d_latent: width of the queries, keys and values of all heads"""
    projections: Literal["fused", "separate"] = "fused"
    """queries, keys and values share a bottleneck (published code) or have one each (paper)"""
    scale: Literal["head", "latent"] = "head"
    """divisor of the attention scores: the square root of a head's width (published code: 96) or of d_latent
    (paper: 768)"""
    rope_dims: int = Field(24, ge=2)
    """dimensions with rotary positions in the second half of a head: 24 (published code) or 48 (paper)"""
    encoder_layers: Annotated[int, Range(1, 4)] = Field(2, ge=0, le=48)
    """layers of the latent encoder; 0 removes it"""
    decoder_layers: Layers = 2
    """layers of the decoder"""
    fusion: Literal["gated", "attention"] = "gated"
    """how the image enters: gated fusion, or cross-attention alone"""
    fusion_reads: Literal["normed", "plain"] = "normed"
    """I_att that the last layer of gated fusion reads: normalised (code) or plain (paper)"""
    ffn_width: int = Field(2048, ge=8)
    """d_ff: hidden width of a gated feed-forward network, and of each expert"""
    activation: Literal["silu", "gelu"] = "silu"
    """activation of the feed-forward networks; the paper uses gelu on MMR"""
    experts: Annotated[int, Range([2, 4, 8, 16])] = Field(8, ge=1, le=256)
    """E: experts per decoder layer; 1 is a feed-forward network without a router"""
    top_k: Annotated[Count, Range(1, 2)] = 2
    """k: experts per token"""
    combine: Literal["weighted", "unweighted"] = "weighted"
    """sum of the experts' outputs: weighted by their scores (paper); or unweighted, so that the router learns
    only from the balance loss (published code, contradiction MicarVLMoE-1)"""
    balance: Weight = 0.01
    """alpha: weight of the balance loss; 0 turns it off"""
    attention_dropout: Rate = 0.12
    """dropout rate of the attention weights"""
    dropout: Rate = 0.1
    """dropout rate of all other layers"""

    @property
    def narrow(self) -> int:
        """d_model / h: width of the bottleneck before queries, keys or values."""
        return self.width // self.heads

    @property
    def seen_width(self) -> int:
        """Channels of an image position before its projection to d_model."""
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
                f"model.tuned must be true with model.msve {self.msve!r}, which reads the backbone's stages,"
                " because only the pooled last map of a frozen backbone is stored. Set model.msve 'off' for a"
                " frozen backbone"
            )
        if self.top_k > self.experts:
            raise ValueError(
                f"model.top_k must be at most model.experts, but got {self.top_k} of {self.experts}"
            )
        check_heads(self.width, self.heads)
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
