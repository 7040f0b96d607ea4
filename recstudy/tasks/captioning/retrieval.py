"""How well images and captions lie together: retrieval on the selection split after each epoch, cosines
before and after.

Of N pairs, an image's own caption is found within k where fewer than k other captions lie as close to the
image (recall@k); captions that are word for word the same count as one. Both directions count half.

The paper (000, section III.D) prints cosines of matched pairs. Those of mismatched pairs can rise with them,
so the contrast of the two is measured as well: the mean cosine of an image and its caption, minus that of an
image and the caption of another.

Shapes: N pairs, W width.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.data.batches import Batches
from recstudy.data.cache import DataSet
from recstudy.metrics import Answers
from recstudy.models.networks.contract import Network, build
from recstudy.models.networks.fuselip import AlignerNetwork, siglip_loss
from recstudy.models.networks.layers import in_float64
from recstudy.programs.metric import NotAvailable
from recstudy.programs.watchdog import heartbeat
from recstudy.tasks.captioning.encoders import begin
from recstudy.tasks.captioning.writing import EXAMPLES
from recstudy.train.evaluate import DivergenceError, autocast, pad_empty, worker_batch_size
from recstudy.train.parallel import concatenated
from recstudy.train.process import draw

if TYPE_CHECKING:
    from recstudy.tasks.task import Judged, Task

PAIRS = 1000  # test pairs whose cosines are kept
RANKS = (1, 5, 10)


@torch.no_grad()
def selection_scores(task: "Task", network: Network, batches: Batches, data: DataSet) -> tuple[float, float]:
    """Contrastive loss over all pairs of the selection split, in nats, and recall@1 in percent."""
    images_NW, texts_NW, tokens = (concatenated(part) for part in features(network, batches, task.config))
    assert isinstance(network, AlignerNetwork)
    loss = siglip_loss(images_NW, texts_NW, network.encoder.log_scale.exp(), network.encoder.bias).item()
    return loss, recalls(images_NW, texts_NW, tokens)[1]


@torch.no_grad()
def features(network: Network, batches: Batches, config: RunConfig) -> tuple[Tensor, Tensor, Tensor]:
    """Features of images and captions (N, W) of this worker's share, and the captions' tokens."""
    assert isinstance(network, AlignerNetwork)
    network.eval()
    parts = []
    for batch in batches.evaluation_batches(worker_batch_size(config) * batches.world):
        heartbeat()
        with autocast(batch.images.device, config.train):
            left, right = network.features(pad_empty(batch.images), pad_empty(batch.labels))
        count = len(batch.images)
        parts.append((left[:count].float(), right[:count].float(), batch.labels))
    images_NW, texts_NW, tokens = (torch.cat(own) for own in zip(*parts, strict=True))
    return images_NW, texts_NW, tokens


def recalls(images_NW: Tensor, texts_NW: Tensor, tokens: Tensor) -> dict[int, float]:
    """Return recall@k in percent, mean of both directions; equal captions are one."""
    cosines_NN, same_NN = images_NW @ texts_NW.T, equal_captions(tokens)
    found = {}
    for k in RANKS:
        shares = []
        for closeness in (cosines_NN, cosines_NN.T):
            own = closeness.masked_fill(~same_NN, -torch.inf).amax(1, keepdim=True)
            # a tie is no find: features that are all alike find nothing
            closer = ((closeness >= own) & ~same_NN).sum(1)
            shares.append(in_float64(closer < k).mean().item())
        found[k] = 100 * sum(shares) / len(shares)
    return found


def contrast(images_NW: Tensor, texts_NW: Tensor, tokens: Tensor) -> float | None:
    """Return the mean cosine of matched pairs minus that of mismatched ones; None if all captions are
    equal.
    """
    others = (images_NW @ texts_NW.T)[~equal_captions(tokens)]
    return ((images_NW * texts_NW).sum(-1).mean() - others.mean()).item() if len(others) else None


def equal_captions(tokens: Tensor) -> Tensor:
    """Return which captions are equal word for word, (N, N)."""
    # a number for each: N x N of tokens would be N x N x T
    captions_N = tokens.unique(dim=0, return_inverse=True)[1]
    return captions_N[:, None] == captions_N[None]


def answered(task: "Task", network: Network, test: Batches, data: DataSet) -> Answers:
    """Give nothing (NotAvailable): an aligner tells neither classes nor captions."""
    raise NotAvailable(
        "it aligns images and captions, and answers nothing that a metric could be computed from"
    )


def findings(task: "Task", network: Network, test: Batches, train: Batches, data: DataSet) -> "Judged":
    """Return what a result states of the alignment, beside that of the network as training began, and the
    pairs that are kept.

    Raises:
        DivergenceError: a feature is not finite.
    """
    config = task.config
    images_NW, texts_NW, tokens = features(network, test, config)
    if not torch.isfinite(images_NW @ texts_NW.T).all():
        raise DivergenceError("the features of the test set are not finite")
    torch.manual_seed(draw(config.seed, "weights"))
    before = build(config.model, config.data).to(images_NW.device)
    begin(before, config.model)
    cosines = {"before": features(before, test, config)[:2], "after": (images_NW, texts_NW)}
    own = {when: (left * right).sum(-1).tolist() for when, (left, right) in cosines.items()}
    found = {f"recall_{k}": value for k, value in recalls(images_NW, texts_NW, tokens).items()}
    found |= {f"cosine_{when}": float(np.mean(values)) for when, values in own.items()}
    contrasts = {f"contrast_{when}": contrast(left, right, tokens) for when, (left, right) in cosines.items()}
    found |= {name: value for name, value in contrasts.items() if value is not None}
    assert data.test.captions is not None
    rows = data.test.rows[:PAIRS]
    pairs = [
        {"row": int(row), "caption": data.test.captions[row][0], "before": first, "after": last}
        for row, first, last in zip(rows, own["before"], own["after"], strict=False)
    ]
    shown = rows[:EXAMPLES]
    kept = {
        "alignment.json": {"format": 1, "pairs": pairs},
        "captions.npz": {"rows": shown, "images": np.asarray(data.test.images[shown])},
    }
    return {"metrics": found, "depths": {}}, kept
