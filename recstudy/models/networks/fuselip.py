"""FuseLIP: image and text as one sequence of discrete tokens, read by one encoder, and what that learns from
pairs of them.

    [image ids; BOT text EOT pad]    both    [image ids; BOT EOT]    an image    [BOT text EOT pad]    a text    (1)
    s = E[ids] + P                   learned positions, from the first token on                            (2)
    h = layers(s)                    every token sees every token but the padding                          (3)
    f = LN(h)_EOT / |LN(h)_EOT|      the feature of a sequence                                             (4)
    p = softmax(E LN(gelu(W h + b)) + b')    of a hidden token; E is that of (2)                           (5)

For a captioner, features of an image and of a caption so far, by mode:

    prefix_causal    [image; text] with the image's tokens seeing each other and a text token the image, itself and
                     the tokens before it; its feature stands in for the token's embedding
    image_only       the feature of [image; BOT; EOT], the same at every token, as a backbone's is
    leaky            [image; text] as FuseLIP was trained, every token seeing every token: what a captioner is then given
                     at token t knows the caption's end. This is the bug of 000 (contradiction 000-7), here to
                     be shown; the config's `leaks` says so and comparisons refuse it

An image comes first where there is one, so that a text alone begins at position 0 and a text after K codes at
K.

Training on pairs of an image and its caption:

    f = FuseLIP([image codes; BOT EOT]),    g = FuseLIP([BOT text EOT])                                (A1)
    SigLIP = -1/B sum_ij log sigmoid(l_ij (t f_i . g_j + b))    l_ij = 1 where i = j, else -1          (A2)
    MMM    = CE of the hidden tokens over the joint vocabulary, left + right                           (A3)
    L      = SigLIP + w MMM                                     one pass over the hidden gives both    (A4)

f and g are the features of the two sides of a pair, such as an image and its caption. The number of hidden
tokens differs from step to step. For a step that is compiled once and waits for no device, (A3) is computed
of a fixed number X of tokens, the hidden ones and some that are ignored.

Shapes: B sequences or pairs, K codes an image, T tokens of a text, S of a sequence, N = B S, W width, X
tokens of (A3), V vocabulary.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.models.fuselip import Aligner, FuseLIP
from recstudy.models.networks.contract import Carry, Network, Output, VisionEncoder, on_paper
from recstudy.models.networks.layers import ClipLayer, Past, init_as_clip, own_precision

Mode = Literal["prefix_causal", "image_only", "leaky"]
SCALE, BIAS = 10.0, -10.0  # t and b of the contrastive loss, at the start
IGNORED_TARGET = -100  # the target of a token that is not hidden
MARGIN = 8  # standard deviations above the mean for which there is room among the hidden tokens


class MaskHead(nn.Module):
    """Equation (5)."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, h_XW: Tensor, embedding_VW: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.dense(h_XW))), embedding_VW, self.bias)


class FuseLIPNetwork(VisionEncoder):
    """Equations (2)-(5)."""

    def __init__(self, config: FuseLIP) -> None:
        super().__init__()
        width, heads, layers = config.dimensions
        self.config = config
        self.embed = nn.Embedding(config.vocabulary, width)
        self.places = nn.Parameter(0.01 * torch.randn(config.context, width))
        self.layers = nn.ModuleList([ClipLayer(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.mask_head = MaskHead(width, config.vocabulary) if config.mask_rate else None
        self.log_scale = nn.Parameter(torch.tensor(math.log(SCALE)))
        self.bias = nn.Parameter(torch.tensor(BIAS))
        nn.init.normal_(self.embed.weight, std=0.02)
        init_as_clip(self.layers)

    def forward(self, ids_BS: Tensor) -> Tensor:
        """Return features (B, W) of length 1."""
        return self.pool(self.states(ids_BS, self.seen(ids_BS)), ids_BS)

    def states(self, ids_BS: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """Equations (2)-(3), (B, S, W). With a past, the ids are those after it."""
        start = 0 if past is None else past.length
        s_BSW = self.embed(ids_BS) + self.places[start : start + ids_BS.shape[1]]
        for layer in self.layers:
            s_BSW = layer(s_BSW, mask, past)
        return s_BSW

    def seen(self, ids_BS: Tensor) -> Tensor:
        """Return which tokens the others see, (B, 1, 1, S): all but the padding."""
        return (ids_BS != self.config.pad)[:, None, None]

    def pool(self, h_BSW: Tensor, ids_BS: Tensor) -> Tensor:
        """Equation (4)."""
        ends_B = (ids_BS == self.config.eos).int().argmax(1)
        end_BW = h_BSW[torch.arange(len(h_BSW), device=h_BSW.device), ends_B]
        return F.normalize(self.norm(end_BW), dim=-1)


def image_only(config: FuseLIP, codes_BK: Tensor) -> Tensor:
    """Equation (1) of an image."""
    empty_2 = torch.tensor([config.bos, config.eos], device=codes_BK.device)
    return torch.cat([image_ids(config, codes_BK), empty_2.expand(len(codes_BK), -1)], dim=1)


def image_ids(config: FuseLIP, codes_BK: Tensor) -> Tensor:
    """Return codes as ids of the joint vocabulary."""
    return codes_BK.long() + config.first_code


class Injection(nn.Module):
    """Features of each token from a FuseLIP encoder, of about unit size a dimension, but of length 1 with
    'image_only'.
    """

    def __init__(self, encoder: FuseLIPNetwork, mode: Mode = "prefix_causal") -> None:
        super().__init__()
        self.encoder, self.mode = encoder, mode

    @property
    def kept(self) -> int:
        """Keys and values that a past holds of the tokens before: none where they change with every token
        that follows.
        """
        return 2 * len(self.encoder.layers) if self.mode == "prefix_causal" else 0

    def see(self, codes_BK: Tensor) -> Tensor:
        """Return what an image gives, however many tokens follow: its feature (B, W) with 'image_only', else
        its codes.
        """
        return (
            self.encoder(image_only(self.encoder.config, codes_BK)) if self.mode == "image_only" else codes_BK
        )

    def forward(self, seen: Tensor, tokens_BT: Tensor, past: Past | None = None) -> Tensor:
        """Return (B, T, W) of what `see` gave; K + T must be within the encoder's context.

        With 'prefix_causal' a `past` keeps keys and values: with those of the tokens before, only the last
        token is computed and the answer is (B, 1, W). The other modes have no use for it.
        """
        if self.mode == "image_only":
            return seen[:, None].expand(-1, tokens_BT.shape[1], -1)
        if past is not None and past.cache:
            return self.encoder.norm(self.encoder.states(tokens_BT[:, -1:], past=past))
        ids_BS = torch.cat([image_ids(self.encoder.config, seen), tokens_BT.long()], dim=1)
        mask = self.encoder.seen(ids_BS) if self.mode == "leaky" else prefix_causal(seen.shape[1], tokens_BT)
        return self.encoder.norm(self.encoder.states(ids_BS, mask, past)[:, seen.shape[1] :])


def prefix_causal(codes: int, tokens_BT: Tensor) -> Tensor:
    """Return which token (row) sees which (column), (S, S): images whole, texts backwards."""
    length = codes + tokens_BT.shape[1]
    causal_SS = torch.ones(length, length, dtype=torch.bool, device=tokens_BT.device).tril()
    return causal_SS | F.pad(causal_SS.new_ones(codes, codes), (0, length - codes, 0, length - codes))


class Losses(NamedTuple):
    """The losses (A2), (A3) and (A4), in nats."""

    contrastive: Tensor
    masked: Tensor
    total: Tensor


class Hidden(NamedTuple):
    """Sequences with some of their tokens replaced by [MASK]."""

    shown: Tensor  # (B, S) ids
    targets: Tensor  # (B, S) what was there; `SHOWN` at the others


class AlignerNetwork(Network):
    """Equations (A1)-(A4); `images` are codes (B, K). The scale t of SigLIP stays between 1 and 100, as in
    the published code.
    """

    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"encoder.log_scale": (0.0, math.log(100))}

    def __init__(self, config: Aligner) -> None:
        super().__init__()
        self.encoder = FuseLIPNetwork(config.encoder)

    def start(self, images: Tensor, context: Tensor | None = None) -> Carry:
        assert context is not None, "an aligner is told the caption"
        return (context,)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        (tokens,) = carry
        left, right = self.sequences(images, tokens)
        if not self.training or on_paper(images):  # on paper nothing can be drawn
            return Output(torch.cat([self.encoder(left), self.encoder(right)], dim=1)), carry
        loss = fuselip_loss(self.encoder, *hidden(self.encoder.config, left, right)).total
        return Output(loss.expand(len(images), 1), loss=loss.expand(len(images))), carry

    def sequences(self, images: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return ids of the image side and of the text side of each pair."""
        config = self.encoder.config
        ids_BT = tokens[:, : config.context].clone()
        cut_B = ~(ids_BT == config.eos).any(1)
        # a feature is read at EOT; padding stays, unseen
        ids_BT[:, -1] = torch.where(cut_B, config.eos, ids_BT[:, -1])
        return image_only(config, images.long()), ids_BT

    def features(self, images: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Equation (A1), (B, W) each, of length 1."""
        left, right = self.sequences(images, tokens)
        return self.encoder(left), self.encoder(right)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # a graph would hold its seed, and be compiled anew every step
def hidden(config: FuseLIP, left: Tensor, right: Tensor) -> tuple[Hidden, Hidden]:
    """Hide tokens on both sides, which torch's generator of the CPU decides."""
    generator = torch.Generator(left.device).manual_seed(int(torch.randint(2**62, (), device="cpu")))
    return hide(config, left, generator), hide(config, right, generator)


def fuselip_loss(network: FuseLIPNetwork, left: Hidden, right: Hidden) -> Losses:
    """Equation (A4) of B pairs of sequences."""
    left_BW, left_masked = _side(network, left)
    right_BW, right_masked = _side(network, right)
    contrastive = siglip_loss(left_BW, right_BW, network.log_scale.exp(), network.bias)
    masked = left_masked + right_masked
    return Losses(contrastive, masked, contrastive + network.config.mask_weight * masked)


def siglip_loss(left_BW: Tensor, right_BW: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Equation (A2) of features of length 1, in float32 under autocast too: a bfloat16 near -b has steps of
    1/16.
    """
    with own_precision(left_BW):
        logits_BB = scale * left_BW.float() @ right_BW.float().T + bias
    labels_BB = 2 * torch.eye(len(left_BW), device=logits_BB.device) - 1
    return -F.logsigmoid(labels_BB * logits_BB).sum() / len(left_BW)


def hide(config: FuseLIP, ids_BS: Tensor, generator: torch.Generator) -> Hidden:
    """Replace tokens at the rate `mask_rate`; `generator`, on their device, draws which.

    Padding, EOT and [MASK] are never hidden and neither, as in the published code, is an image's code 0.
    """
    drawn_BS = torch.rand(ids_BS.shape, generator=generator, device=ids_BS.device) < config.mask_rate
    spared = torch.tensor([config.pad, config.eos, config.mask, config.first_code], device=ids_BS.device)
    hidden_BS = drawn_BS & ~torch.isin(ids_BS, spared)
    return Hidden(torch.where(hidden_BS, config.mask, ids_BS), torch.where(hidden_BS, ids_BS, IGNORED_TARGET))


def room(rate: float, tokens: int) -> int:
    """Return X, of how many of so many tokens the loss is computed, however many are hidden: more than ever
    will be.

    Were there more, the last ones would be left out of the loss; that happens in less than one of 10^9 steps.
    """
    mean = rate * tokens
    return min(tokens, math.ceil(mean + MARGIN * math.sqrt(mean * (1 - rate)) + MARGIN))


def masked_loss(logits_XV: Tensor, targets_X: Tensor) -> Tensor:
    """Return one side of equation (A3), of the targets that are not `SHOWN`; 0 where nothing is hidden."""
    hidden = (targets_X != IGNORED_TARGET).sum().clamp(min=1)
    return (
        F.cross_entropy(logits_XV.float(), targets_X, reduction="sum", ignore_index=IGNORED_TARGET) / hidden
    )


def _side(network: FuseLIPNetwork, side: Hidden) -> tuple[Tensor, Tensor]:
    """Return features (B, W), and one side of equation (A3), from the states before the last norm."""
    if network.mask_head is None:
        return network(side.shown), side.shown.new_zeros((), dtype=torch.float32)
    h_BSW = network.states(side.shown, network.seen(side.shown))
    targets_N = side.targets.flatten()
    first_X = (
        (targets_N == IGNORED_TARGET)
        .to(torch.int8)
        .argsort(stable=True)[: room(network.config.mask_rate, len(targets_N))]
    )
    logits_XV = network.mask_head(h_BSW.flatten(0, 1)[first_X], network.embed.weight)
    return network.pool(h_BSW, side.shown), masked_loss(logits_XV, targets_N[first_X])
