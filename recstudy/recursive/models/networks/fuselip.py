"""FuseLIP: one encoder for image and text as one sequence of discrete tokens, trained on pairs of them.

    ids = [image ids; BOT text EOT pad],  [image ids; BOT EOT] or [BOT text EOT pad]                      (1)
    s = E[ids] + P                           learned positions, from the first token on                   (2)
    h = layers(s)                            every token attends to every token but the padding           (3)
    f = LN(h)_EOT / |LN(h)_EOT|              the feature of a sequence                                    (4)
    p = softmax(E LN(gelu(W h + b)) + b')    of a masked token; E is that of (2)                          (5)

The sequences of (1) are an image with its text, an image, and a text. A captioner gets features of an image
and of the caption so far, by mode:

    prefix_causal    [image; text]: image tokens attend to each other, and a text token attends to the image,
    to
                     itself and to earlier tokens. Its feature replaces the token's embedding.
    image_only       the feature of [image; BOT; EOT], the same at every token, as for other backbones.
    leaky            [image; text] as FuseLIP was trained: every token attends to every token, so the feature
    at
                     token t contains the rest of the caption. This is the bug of the ImageHRM/ImageTRM paper
                     (contradiction ImageHRM/ImageTRM-7). The config's `leaks` marks it, and comparisons
                     refuse it.

An image comes before its text: a text alone begins at position 0, and a text after K codes at position K.

Training on pairs of an image and its caption:

    f = FuseLIP([image codes; BOT EOT]),    g = FuseLIP([BOT text EOT])                                   (A1)
    SigLIP = -1/B sum_ij log sigmoid(l_ij (t f_i . g_j + b))    l_ij = 1 if i = j, else -1                (A2)
    MMM    = CE of the masked tokens over the joint vocabulary, left + right                              (A3)
    L      = SigLIP + w MMM                                     one pass over masked tokens gives both    (A4)

f and g are the features of the two sides of a pair. The number of masked tokens differs from step to step. A
step that is compiled once and does not wait for the device computes (A3) for a fixed number X of tokens: the
masked ones, and others that are ignored.

Shapes: B sequences or pairs, K codes per image, T tokens of a text, S of a sequence, N = B S, W width, X
tokens of (A3), V vocabulary.
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.recursive.config.parts import Shape
from recstudy.recursive.models.fuselip import Aligner, FuseLIP
from recstudy.recursive.models.networks.contract import Carry, Network, Output, VisionEncoder, on_paper
from recstudy.recursive.models.networks.layers import ClipLayer, Past, init_as_clip, own_precision

Mode = Literal["prefix_causal", "image_only", "leaky"]
SCALE, BIAS = 10.0, -10.0  # initial t and b of the contrastive loss
IGNORED_TARGET = -100  # target of a token that is not masked
MARGIN = 8  # standard deviations above the mean number of masked tokens for which (A3) has space


class MaskHead(nn.Module):
    """The head that predicts masked tokens, Eq. 5."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, h_XW: Tensor, embedding_VW: Tensor) -> Tensor:
        hidden_XW = self.norm(F.gelu(self.dense(h_XW)))
        return F.linear(hidden_XW, embedding_VW, self.bias)  # Eq. 5, before the softmax


class FuseLIPNetwork(VisionEncoder):
    """The encoder of FuseLIP, Eqs. 2 to 5."""

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
        """Return the features (B, W) of sequences, which have length 1."""
        return self.pool(self.states(ids_BS, self.padding_mask(ids_BS)), ids_BS)

    def states(self, ids_BS: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """Return the states h (B, S, W), Eqs. 2 and 3. With a past, the ids are those after it."""
        start = 0 if past is None else past.length
        s_BSW = self.embed(ids_BS) + self.places[start : start + ids_BS.shape[1]]  # Eq. 2
        for layer in self.layers:
            s_BSW = layer(s_BSW, mask, past)  # Eq. 3
        return s_BSW

    def padding_mask(self, ids_BS: Tensor) -> Tensor:
        """Return a mask (B, 1, 1, S) that is True for all tokens but the padding."""
        return (ids_BS != self.config.pad)[:, None, None]

    def pool(self, h_BSW: Tensor, ids_BS: Tensor) -> Tensor:
        """Return the features (B, W) of sequences with the states h, Eq. 4."""
        ends_B = (ids_BS == self.config.eos).int().argmax(1)
        end_BW = h_BSW[torch.arange(len(h_BSW), device=h_BSW.device), ends_B]
        return F.normalize(self.norm(end_BW), dim=-1)  # Eq. 4


def image_only(config: FuseLIP, codes_BK: Tensor) -> Tensor:
    """Return the ids of a sequence with only an image, Eq. 1."""
    empty_2 = torch.tensor([config.bos, config.eos], device=codes_BK.device)
    return torch.cat([image_ids(config, codes_BK), empty_2.expand(len(codes_BK), -1)], dim=1)


def image_ids(config: FuseLIP, codes_BK: Tensor) -> Tensor:
    """Return codes as ids of the joint vocabulary."""
    return codes_BK.long() + config.first_code


class Injection(nn.Module):
    """Features of a FuseLIP encoder for each token of a caption.

    A dimension has a root mean square of about 1. With 'image_only', a feature has length 1.
    """

    def __init__(self, encoder: FuseLIPNetwork, mode: Mode = "prefix_causal") -> None:
        super().__init__()
        self.encoder, self.mode = encoder, mode

    @property
    def cache_size(self) -> int:
        """The number of cached tensors of earlier tokens; 0 if later tokens change earlier ones."""
        return 2 * len(self.encoder.layers) if self.mode == "prefix_causal" else 0

    def see(self, codes_BK: Tensor) -> Tensor:
        """Return the part of an image that does not depend on the tokens.

        It is the feature (B, W) with 'image_only', and the codes (B, K) otherwise.
        """
        if self.mode == "image_only":
            return self.encoder(image_only(self.encoder.config, codes_BK))
        return codes_BK

    def forward(self, image: Tensor, tokens_BT: Tensor, past: Past | None = None) -> Tensor:
        """Return the feature of each token.

        Args:
            image: The result of `see`.
            tokens_BT: The tokens; K + T must be within the encoder's context.
            past: With 'prefix_causal', keys and values of earlier tokens. The other modes do not use it.

        Returns:
            Features (B, T, W), or (B, 1, W) of the last token if the past has earlier tokens.
        """
        if self.mode == "image_only":
            return image[:, None].expand(-1, tokens_BT.shape[1], -1)
        if past is not None and past.cache:  # only the last token is new
            return self.encoder.norm(self.encoder.states(tokens_BT[:, -1:], past=past))
        codes = image.shape[1]
        ids_BS = torch.cat([image_ids(self.encoder.config, image), tokens_BT.long()], dim=1)
        # 'leaky' is the bug of the paper: every token attends to the whole caption.
        is_leaky = self.mode == "leaky"
        mask = self.encoder.padding_mask(ids_BS) if is_leaky else prefix_causal(codes, tokens_BT)
        return self.encoder.norm(self.encoder.states(ids_BS, mask, past)[:, codes:])


def prefix_causal(codes: int, tokens_BT: Tensor) -> Tensor:
    """Return the mask (S, S) of 'prefix_causal'.

    It is True where a token (row) attends to another (column): image tokens to each other, and text tokens to
    the image and to the text so far.
    """
    length = codes + tokens_BT.shape[1]
    causal_SS = torch.ones(length, length, dtype=torch.bool, device=tokens_BT.device).tril()
    return causal_SS | F.pad(causal_SS.new_ones(codes, codes), (0, length - codes, 0, length - codes))


class Hidden(NamedTuple):
    """Sequences with some of their tokens replaced by [MASK]."""

    ids: Tensor  # (B, S) ids after the masking
    targets: Tensor  # (B, S) ids of masked tokens; `IGNORED_TARGET` at the others


class AlignerNetwork(Network):
    """FuseLIP's training on pairs, Eqs. A1 to A4. Its `images` are codes (B, K)."""

    # As in the published code, the scale t of SigLIP stays between 1 and 100.

    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"encoder.log_scale": (0.0, math.log(100))}

    def __init__(self, config: Aligner, shape: Shape, classes: int) -> None:
        super().__init__()
        self.encoder = FuseLIPNetwork(config.encoder)

    def start(self, images: Tensor, context: Tensor | None = None) -> Carry:
        assert context is not None, "an aligner needs captions as its context"
        return (context,)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        (tokens,) = carry
        if not self.training:
            return Output(torch.cat(self.features(images, tokens), dim=1)), carry
        pair = mask_pair(self.encoder.config, *self.sequences(images, tokens))
        loss = fuselip_loss(self.encoder, *pair)
        return Output(loss.expand(len(images), 1), loss=loss.expand(len(images))), carry

    def sequences(self, images: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of both sides of each pair: of the image and of the text."""
        config = self.encoder.config
        ids_BT = tokens[:, : config.context].clone()
        cut_B = ~(ids_BT == config.eos).any(1)
        # A text that was cut gets EOT as its last token, where the feature is read.
        ids_BT[:, -1] = torch.where(cut_B, config.eos, ids_BT[:, -1])
        return image_only(config, images.long()), ids_BT

    def features(self, images: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features of both sides, Eq. A1, each (B, W) and of length 1."""
        left, right = self.sequences(images, tokens)
        return self.encoder(left), self.encoder(right)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # a graph would contain the seed and recompile
def mask_pair(config: FuseLIP, left: Tensor, right: Tensor) -> tuple[Hidden, Hidden]:
    """Mask tokens on both sides, with random numbers from torch's CPU generator."""
    if on_paper(left):  # such a tensor has no random numbers
        return Hidden(left, left), Hidden(right, right)
    generator = torch.Generator(left.device).manual_seed(int(torch.randint(2**62, (), device="cpu")))
    return hide(config, left, generator), hide(config, right, generator)


def fuselip_loss(network: FuseLIPNetwork, left: Hidden, right: Hidden) -> Tensor:
    """Return the loss of B pairs of sequences in nats, Eqs. A2 to A4."""
    left_BW, left_masked = _side(network, left)
    right_BW, right_masked = _side(network, right)
    contrastive = siglip_loss(left_BW, right_BW, network.log_scale.exp(), network.bias)
    masked = left_masked + right_masked  # Eq. A3
    return contrastive + network.config.mask_weight * masked  # Eq. A4


def siglip_loss(left_BW: Tensor, right_BW: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Return the contrastive loss of features of length 1, Eq. A2."""
    # In float32 even with autocast, because bfloat16 has steps of 1/16 near -b.
    with own_precision(left_BW):
        logits_BB = scale * left_BW.float() @ right_BW.float().T + bias
    labels_BB = 2 * torch.eye(len(left_BW), device=logits_BB.device) - 1
    return -F.logsigmoid(labels_BB * logits_BB).sum() / len(left_BW)


def hide(config: FuseLIP, ids_BS: Tensor, generator: torch.Generator) -> Hidden:
    """Mask tokens at the rate `mask_rate`.

    Padding, EOT and [MASK] are never masked, and, as in the published code, neither is code 0 of an image.

    Args:
        config: The settings.
        ids_BS: The ids.
        generator: The random generator, on the device of the ids.
    """
    is_selected_BS = torch.rand(ids_BS.shape, generator=generator, device=ids_BS.device) < config.mask_rate
    never_masked = [config.pad, config.eos, config.mask, config.first_code]
    is_masked_BS = is_selected_BS & ~torch.isin(ids_BS, torch.tensor(never_masked, device=ids_BS.device))
    ids = torch.where(is_masked_BS, config.mask, ids_BS)
    return Hidden(ids, torch.where(is_masked_BS, ids_BS, IGNORED_TARGET))


def masked_capacity(rate: float, tokens: int) -> int:
    """Return X, the fixed number of tokens for which (A3) is computed.

    Args:
        rate: The rate at which tokens are masked.
        tokens: The number of tokens of a batch.
    """
    # If more tokens are masked, the last ones are left out of the loss: in less than one of 10^9 steps.
    mean = rate * tokens
    return min(tokens, math.ceil(mean + MARGIN * math.sqrt(mean * (1 - rate)) + MARGIN))


def masked_loss(logits_XV: Tensor, targets_X: Tensor) -> Tensor:
    """Return one side of Eq. A3, over the masked tokens; 0 without masked tokens."""
    count = (targets_X != IGNORED_TARGET).sum().clamp(min=1)
    loss = F.cross_entropy(logits_XV.float(), targets_X, reduction="sum", ignore_index=IGNORED_TARGET)
    return loss / count


def _side(network: FuseLIPNetwork, side: Hidden) -> tuple[Tensor, Tensor]:
    """Return features (B, W), and one side of Eq. A3, which reads the states before the last norm."""
    if network.mask_head is None:
        return network(side.ids), side.ids.new_zeros((), dtype=torch.float32)
    h_BSW = network.states(side.ids, network.padding_mask(side.ids))
    targets_N = side.targets.flatten()
    # X tokens with all masked ones first, so that the number of logits is fixed.
    is_ignored_N = (targets_N == IGNORED_TARGET).to(torch.int8)
    rate, count = network.config.mask_rate, len(targets_N)
    capacity = round(rate * count) if on_paper(side.ids) else masked_capacity(rate, count)
    first_X = is_ignored_N.argsort(stable=True)[:capacity]
    logits_XV = network.mask_head(h_BSW.flatten(0, 1)[first_X], network.embed.weight)
    return network.pool(h_BSW, side.ids), masked_loss(logits_XV, targets_N[first_X])
