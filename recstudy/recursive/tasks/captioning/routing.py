"""Expert use of a trained captioner on the test set, and attention and feature maps of its first captions.

`writing.findings` calls `expert_use` and `trace_captions`. The latter returns trace.npz with the model's own
captions of the first test images, each of at most T tokens that it read:
    rows (n,), lengths (n,)            row in the test set, and number of tokens that were read
    words (n, T + 1)                   these tokens, then the last token that was written
    cross_attention (n, L, H, T, P)    float16, of the token that is read, from which the next word is written
    self_attention (n, L, H, T, T)     float16; not for Show, Attend and Tell, which has L = H = 1
    router (n, L, T, E)                float16, only with several experts
    chosen (n, L, T, k)                int16, the most likely expert first, only with several experts
    features (n, S, h, w)              float16, means over channels, only for MicarVLMoE with a pyramid:
                                       (V1)-(V2) in networks/micar.py

Shapes: n captions, L layers, H heads, T tokens, P places of the image, E experts, k experts a token, B images
of a batch, S feature maps of h x w: each pyramid level at the size of C2, and F.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recstudy.programs.watchdog import heartbeat
from recstudy.records.files import Json
from recstudy.recursive.config.answers import Scores
from recstudy.recursive.config.parts import PAD
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.data.batches import Batches
from recstudy.recursive.data.text import Tokenizer
from recstudy.recursive.models.networks.caption import Captioner
from recstudy.recursive.models.networks.layers import in_float64
from recstudy.recursive.models.networks.lstm_captioners import ShowAttendTellNetwork
from recstudy.recursive.models.networks.micar import MicarNetwork
from recstudy.recursive.train.evaluate import autocast, worker_batch_size

# For 003's largest model (80 tokens, 3 layers, 8 heads, 49 places, 8 experts), 6 captions take 1.80 MB for
# self-attention, 1.11 MB for cross-attention, 0.03 MB for the router and 0.19 MB for feature maps before
# compression.
CAPTIONS = 6
# Longer captions are cut. No token attends to later ones, so this does not change the maps of the others.
LONGEST = 128
# Tokens x tokens of a batch. Their float32 maps in 3 layers of 8 heads take 0.4 GB.
PAIRS = 2**22


@torch.no_grad()
def trace_captions(
    network: Captioner,
    test: Batches,
    caption_ids: Sequence[Sequence[int]],
    config: RunConfig,
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """Return `trace.npz` by its name; empty for a network without maps.

    Args:
        network: a network in evaluation mode.
        test: the test set.
        caption_ids: the token ids of the captions that `decode` wrote, from the first image on.
        config: of the run.
        tokenizer: the tokenizer of the ids.
    """
    images = next(test.evaluation_batches(CAPTIONS)).images
    captions = [truncate_at_eos(ids, tokenizer)[: LONGEST + 1] for ids in caption_ids[: len(images)]]
    longest = max(map(len, captions))
    padded_ids = []
    words = []
    for ids in captions:
        padding = longest - len(ids)
        # The last token is written, but never read.
        padded_ids.append([*ids[:-1], *[PAD] * padding])
        words.append([*(display_token(token, tokenizer) for token in ids), *[""] * padding])
    with autocast(images.device, config.train):
        map_arrays = maps(network, images, torch.tensor(padded_ids, device=images.device))
    if not map_arrays:
        return {}
    arrays = {
        "rows": test.rows[: len(captions)].numpy(),
        "lengths": np.array([len(ids) - 1 for ids in captions]),
        "words": np.array(words),
    }
    for name, part in map_arrays.items():
        # Half precision and short integers keep the file small.
        dtype = torch.float16 if part.is_floating_point() else torch.int16
        arrays[name] = part.to(dtype).cpu().numpy()
    return {"trace.npz": arrays}


def maps(network: Captioner, images: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Return the maps of the module docstring for a batch, batch first; empty for a network without maps."""
    if isinstance(network, ShowAttendTellNetwork):
        return {"cross_attention": network.trace(images, tokens)[:, None, None]}
    if not isinstance(network, MicarNetwork):
        return {}
    trace = network.trace(images, tokens)
    layers = {"cross_attention": trace.cross_attention, "self_attention": trace.self_attention}
    if network.config.experts > 1:
        layers |= {"router": trace.router, "chosen": trace.chosen}
    # A trace has the layers first.
    arrays = {name: part.transpose(0, 1) for name, part in layers.items()}
    features = network.eyes.feature_maps(images)
    return arrays if features is None else arrays | {"features": features}


@torch.no_grad()
def expert_use(network: Captioner, test: Batches, config: RunConfig) -> tuple[Scores, Json]:
    """Return metrics of the expert use on the test set, and the facts by layer.

    The network reads the true captions as in training, including BOS and EOS. PAD is not counted.
    `attention_entropy.1` is that of the attention to the image in the first layer, mean over heads. Both
    results are empty for a network with one expert.
    """
    if not isinstance(network, MicarNetwork) or network.config.experts == 1:
        return {}, {}
    sums, tokens = [], 0
    for batch in test.evaluation_batches(
        max(1, min(worker_batch_size(config), PAIRS // test.labels.shape[1] ** 2))
    ):
        heartbeat()
        read = batch.labels[:, :-1]
        with autocast(read.device, config.train):
            trace = network.trace(batch.images, read)
        attention_LBT = torch.special.entr(trace.cross_attention.float()).sum(-1).mean(2)
        entropy_L, attention_L = (
            in_float64(part_LBT * (read != PAD)).sum((1, 2)) for part_LBT in (trace.entropy, attention_LBT)
        )
        sums.append((trace.load, entropy_L, trace.dropped, attention_L))
        tokens += int((read != PAD).sum())
    load_LE, entropy_L, dropped_L, attention_L = (
        torch.stack(parts).sum(0) for parts in zip(*sums, strict=True)
    )
    metrics, facts = summarize_routing(load_LE, entropy_L / tokens, dropped_L, tokens, network.config.top_k)
    for layer, entropy in enumerate(attention_L.tolist(), 1):
        metrics[f"attention_entropy.{layer}"] = entropy / tokens
    return metrics, facts


def summarize_routing(
    load_LE: Tensor, entropy_L: Tensor, dropped_L: Tensor, tokens: int, top_k: int
) -> tuple[Scores, Json]:
    """Return the routing metrics in nats and percent, and the facts that they are computed from.

    Args:
        load_LE: number of tokens that each expert processed.
        entropy_L: entropy of the router, mean over tokens, in nats.
        dropped_L: number of choices that no expert processed.
        tokens: number of tokens without PAD.
        top_k: choices for each token and layer.
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


def truncate_at_eos(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Return the ids up to and including the first EOS, without PAD."""
    words = takewhile(lambda token: token != tokenizer.eos, ids)
    caption = [token for token in words if token != tokenizer.pad]
    return [*caption, tokenizer.eos] if tokenizer.eos in ids else caption


def display_token(token: int, tokenizer: Tokenizer) -> str:
    """Return the label of a token in a figure."""
    special = {tokenizer.bos: "[start]", tokenizer.eos: "[end]", tokenizer.unk: "[unknown]"}
    return special.get(token) or tokenizer.decode([token]) or f"[token {token}]"
