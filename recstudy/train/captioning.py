"""What a captioner has learned: its loss on the selection split after each epoch, its own captions of the test set at the end.

While a run trains, every token is judged by the true tokens before it (teacher forcing): the loss, and the share of tokens
that are the most likely ones. The captions that metrics compare are written by the model alone (`decode.py`).

Shapes: N images, T tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.data.batches import Batches
from recstudy.data.cache import DataSet
from recstudy.data.text import Tokenizer
from recstudy.metrics.captions import caption_scores
from recstudy.models.backbone import CaptionModel
from recstudy.models.networks.caption import Captioner
from recstudy.models.networks.contract import Network
from recstudy.train.decode import decode
from recstudy.train.evaluate import Diverged, autocast, own_batch, some
from recstudy.train.losses import answer_loss, token_hits
from recstudy.train.parallel import total
from recstudy.train.watchdog import alive

EXAMPLES = 36  # test images whose captions are kept to look at


def selection_scores(network: Network, batches: Batches, config: RunConfig) -> tuple[float, float]:
    """Nats a token and token accuracy in percent on the selection split, over all workers."""
    (sums,) = told(network, batches, config)
    loss, hits, tokens, captions = total(sums).tolist()
    return loss / captions, 100 * hits / tokens


@torch.no_grad()
def told(network: Network, batches: Batches, config: RunConfig, depths: Sequence[int] = ()) -> Tensor:
    """Sums over this worker's share after each of `depths` supervision steps, (depths, 4): loss in nats a token of each
    caption, tokens that are right, tokens, captions. Without depths: after `evaluation_steps`."""
    depths = depths or [config.train.evaluation_steps]
    network.eval()
    sums = torch.zeros(len(depths), 4, dtype=torch.float64, device=batches.device)
    for batch in batches.plain(own_batch(config) * batches.world):
        alive()
        images, tokens, count = some(batch.images), some(batch.labels), len(batch.images)
        carry = network.start(images, tokens[:, :-1])
        for step in range(1, max(depths) + 1):
            with autocast(images.device, config.train):
                output, carry = network(images, carry)
            if step in depths:
                logits, own = output.logits[:count].float(), tokens[:count]
                hits, there = token_hits(logits, own)
                loss = answer_loss(logits, own, config.train.loss).sum()
                sums[list(depths).index(step)] += torch.stack([loss.double(), hits.sum(), there.sum(), there.new_tensor(count)])
    return sums


def findings(
    network: Network, test: Batches, train: Batches, config: RunConfig, data: DataSet
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a result states of the captions, and what is kept to look at.

    Raises:
        Diverged: a loss is not finite.
    """
    assert isinstance(network, Captioner)
    assert data.tokenizer is not None
    assert data.test.captions is not None
    loss, accuracy = selection_scores(network, test, config)
    if not np.isfinite(loss):
        raise Diverged("the loss of the test set is not finite")
    _, seen = selection_scores(network, train, config)
    written = captions(network, test, config, data.tokenizer)
    references = [data.test.captions[row] for row in data.test.rows]
    scores = caption_scores(written, references)
    taught = {"token_accuracy": accuracy, "caption_loss": loss, "train_token_accuracy": seen}
    found = {
        "metrics": scores.values | taught,
        "depths": {"token_accuracy": by_depth(network, test, config)},
        "unavailable": scores.missing,
        "notes": list(scores.notes),
        "tokenizer": {
            "text": f"{data.tokenizer.name} ({data.classes:,})",
            "checksum": data.tokenizer.checksum,
            "metrics": scores.tokenizer,
        },
        "decode": described(config.model),
    }
    return found, examples(written, references, data)


def by_depth(network: Network, test: Batches, config: RunConfig) -> dict[str, float]:
    """Token accuracy on the test set after 1, 2, ... supervision steps of the same weights; none without recursion."""
    depths = range(1, config.train.evaluation_depths + 1)
    if not config.model.recursive or not depths:
        return {}
    sums = told(network, test, config, depths)
    return {str(depth): 100 * (hits / tokens).item() for depth, (_, hits, tokens, _) in zip(depths, sums, strict=True)}


def captions(network: Captioner, batches: Batches, config: RunConfig, tokenizer: Tokenizer) -> list[str]:
    """The model's own caption of every image."""
    model = config.model
    assert isinstance(model, CaptionModel)
    network.eval()
    texts: list[str] = []
    for batch in batches.plain(max(1, own_batch(config) // model.beam)):
        alive()
        with autocast(batch.images.device, config.train):
            ids = decode(
                network,
                batch.images,
                tokenizer,
                length=batch.labels.shape[1],
                steps=config.train.evaluation_steps,
                method=model.decode,
                width=model.beam,
                length_normalisation=model.length_normalisation,
            )
        texts += [tokenizer.decode(row) for row in ids.tolist()]
    return texts


def described(model: Any) -> str:
    """How captions are written, in words."""
    assert isinstance(model, CaptionModel)
    power = f", length normalisation {model.length_normalisation:g}" if model.length_normalisation else ""
    return f"beam {model.beam}{power}" if model.decode == "beam" else model.decode.replace("_", " ")


def examples(written: Sequence[str], references: Sequence[Sequence[str]], data: DataSet) -> dict[str, Any]:
    """The first test images with what is said of them."""
    rows = data.test.rows[:EXAMPLES]
    said = [
        {"row": int(row), "references": list(own), "hypothesis": text}
        for row, own, text in zip(rows, references, written, strict=False)
    ]
    return {
        "captions.json": {"format": 1, "examples": said},
        "captions.npz": {"rows": rows, "images": np.asarray(data.test.images[rows])},
    }
