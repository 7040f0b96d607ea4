"""What happens inside a trained captioner: its experts' tokens, and attention and feature maps of its first
captions.

trace.npz holds the model's own captions of the first test images, each of at most T tokens that it read:
    rows (n,), lengths (n,)            the row in the test set, and how many tokens were read
    words (n, T + 1)                   those tokens, then the one that was written last
    cross_attention (n, L, H, T, P)    float16: of the token that is read, which the next word is written from
    self_attention (n, L, H, T, T)     float16; not of Show, Attend and Tell, which has L = H = 1
    router (n, L, T, E)                float16, and `chosen` (n, L, T, k) int16, the likeliest first: of several experts only
    features (n, S, h, w)              float16, of MicarVLMoE with a pyramid: (V1)-(V2) in networks/micar.py, means over channels

Shapes: n captions, L layers, H heads, T tokens, P places of the image, E experts, k experts a token, B images
of a batch, S feature maps of h x w: each pyramid level at the size of C2, and F.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recstudy.config import PAD, RunConfig
from recstudy.data.batches import Batches
from recstudy.data.text import Tokenizer
from recstudy.models.networks.caption import Captioner
from recstudy.models.networks.layers import in_float64
from recstudy.models.networks.lstm_captioners import ShowAttendTellNetwork
from recstudy.models.networks.micar import MicarNetwork
from recstudy.programs.watchdog import heartbeat
from recstudy.train.evaluate import autocast, worker_batch_size

# At 003's largest (80 tokens, 3 layers, 8 heads, 49 places, 8 experts) 6 captions take 1.80 MB for
# self-attention, 1.11 MB for cross-attention, 0.03 MB for the router and 0.19 MB for feature maps before
# compression. Longer captions are cut: what a token does not see cannot change it.
CAPTIONS, LONGEST = 6, 128
PAIRS = 2**22  # tokens x tokens of a batch: 3 layers of 8 heads keep 0.4 GB of float32 maps of them


@torch.no_grad()
def kept(
    network: Captioner,
    test: Batches,
    written: Sequence[Sequence[int]],
    config: RunConfig,
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """Return `trace.npz` by its name; nothing for a network without maps.

    Args:
        network: in evaluation mode.
        test: the test set.
        written: the ids of its captions, as `decode` gives them, from the first image on.
        config: of the run.
        tokenizer: what the ids are of.
    """
    images = next(test.evaluation_batches(CAPTIONS)).images
    own = [ended(ids, tokenizer)[: LONGEST + 1] for ids in written[: len(images)]]
    longest = max(map(len, own)) - 1
    read = torch.tensor([[*ids[:-1], *[PAD] * (longest + 1 - len(ids))] for ids in own], device=images.device)
    with autocast(images.device, config.train):
        found = maps(network, images, read)
    if not found:
        return {}
    named = [[word(one, tokenizer) for one in ids] + [""] * (longest + 1 - len(ids)) for ids in own]
    told = {"lengths": np.array([len(ids) - 1 for ids in own]), "words": np.array(named)}
    arrays = {name: _small(part) for name, part in found.items()}
    return {"trace.npz": {"rows": test.rows[: len(own)].numpy(), **told, **arrays}}


def maps(network: Captioner, images: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Return the arrays above of a batch, the batch first; none for a network that has no maps."""
    if isinstance(network, ShowAttendTellNetwork):
        return {"cross_attention": network.trace(images, tokens).attention[:, None, None]}
    if not isinstance(network, MicarNetwork):
        return {}
    trace = network.trace(images, tokens)
    found = {"cross_attention": trace.cross_attention, "self_attention": trace.self_attention}
    found |= {"router": trace.router, "chosen": trace.chosen} if network.config.experts > 1 else {}
    found = {name: part.transpose(0, 1) for name, part in found.items()}
    features = network.eyes.feature_maps(images)
    return found if features is None else found | {"features": features}


@torch.no_grad()
def expert_use(
    network: Captioner, test: Batches, config: RunConfig
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return how the experts share the test set's tokens, true captions being read: metrics, and facts by
    layer.

    A caption is read as in training, BOS and EOS included; PAD is never counted. Both are empty without
    several experts.
    """
    if not isinstance(network, MicarNetwork) or network.config.experts == 1:
        return {}, {}
    load, entropy, dropped, tokens = [], [], [], 0
    for batch in test.evaluation_batches(
        max(1, min(worker_batch_size(config), PAIRS // test.labels.shape[1] ** 2))
    ):
        heartbeat()
        read = batch.labels[:, :-1]
        with autocast(read.device, config.train):
            trace = network.trace(batch.images, read)
        load.append(trace.load)
        dropped.append(trace.dropped)
        entropy.append(in_float64(trace.entropy * (read != PAD)).sum((1, 2)))
        tokens += int((read != PAD).sum())
    mean_L = torch.stack(entropy).sum(0) / tokens
    return summed(torch.stack(load).sum(0), mean_L, torch.stack(dropped).sum(0), tokens, network.config.top_k)


def summed(
    load_LE: Tensor, entropy_L: Tensor, dropped_L: Tensor, tokens: int, top_k: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics in nats and percent, and the facts that they come from.

    Args:
        load_LE: tokens that each expert ran on.
        entropy_L: mean over tokens, in nats.
        dropped_L: choices that no expert ran on.
        tokens: how many, PAD left out.
        top_k: choices a token and layer.
    """
    share_LE = load_LE / load_LE.sum(1, keepdim=True).clamp(min=1)
    metrics = {
        "router_entropy": entropy_L.mean().item(),
        "expert_load_peak": 100 * share_LE.max().item(),
        "dropped_tokens": 100 * dropped_L.sum().item() / (tokens * top_k * len(dropped_L)),
    }
    facts = {
        "load": load_LE.tolist(),
        "entropy": entropy_L.tolist(),
        "dropped": dropped_L.tolist(),
        "tokens": tokens,
    }
    return metrics, facts


def ended(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Return the ids up to the first EOS, with it, and without PAD."""
    own = [one for one in takewhile(lambda one: one != tokenizer.eos, ids) if one != tokenizer.pad]
    return [*own, tokenizer.eos] if tokenizer.eos in ids else own


def word(one: int, tokenizer: Tokenizer) -> str:
    """Return what stands for a token under a figure."""
    special = {tokenizer.bos: "[start]", tokenizer.eos: "[end]", tokenizer.unk: "[unknown]"}
    return special.get(one) or tokenizer.decode([one]) or f"[token {one}]"


def _small(part: Tensor) -> Any:
    return part.to(torch.float16 if part.is_floating_point() else torch.int16).cpu().numpy()
