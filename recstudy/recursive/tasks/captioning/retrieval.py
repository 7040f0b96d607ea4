"""Evaluate aligners: retrieval on the selection split after each epoch, cosines before and after training.

The task `ImageCaptionPairs` names this module as its `evaluation`. Recall@k is the share of N images for
which fewer than k other captions are as close as the image's own caption, averaged with the same share for
captions. Captions that are equal word for word count as one.

Paper 000 (section III.D) reports cosines of matched pairs. Cosines of mismatched pairs can rise as well. The
contrast is therefore measured too: the mean cosine of matched pairs minus the mean cosine of mismatched
pairs.

Shapes: N pairs, W width.
"""

import numpy as np
import torch
from torch import Tensor

from recstudy.programs.metric import NotAvailable
from recstudy.recursive.config.answers import Answers
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.data.batches import Batches
from recstudy.recursive.data.cache import DataSet
from recstudy.recursive.models.networks.contract import Network, build
from recstudy.recursive.models.networks.fuselip import AlignerNetwork, siglip_loss
from recstudy.recursive.models.networks.layers import in_float64
from recstudy.recursive.tasks.captioning.encoders import load_initial_weights
from recstudy.recursive.tasks.captioning.writing import example_images
from recstudy.recursive.train.evaluate import DivergenceError, autocast, padded_batches
from recstudy.recursive.train.parallel import concatenated
from recstudy.recursive.train.process import draw
from recstudy.recursive.train.task import Judged, Task

PAIRS = 1000  # test pairs whose cosines are saved
RANKS = (1, 5, 10)


@torch.no_grad()
def selection_scores(task: Task, network: Network, batches: Batches, data: DataSet) -> tuple[float, float]:
    """Return the contrastive loss over all pairs of the selection split, in nats, and recall@1 in percent."""
    images_NW, texts_NW, tokens = (concatenated(part) for part in features(network, batches, task.config))
    assert isinstance(network, AlignerNetwork)
    scale = network.encoder.log_scale.exp()
    loss = siglip_loss(images_NW, texts_NW, scale, network.encoder.bias).item()
    return loss, recalls(images_NW, texts_NW, tokens)[1]


@torch.no_grad()
def features(network: Network, batches: Batches, config: RunConfig) -> tuple[Tensor, Tensor, Tensor]:
    """Return the features of images and captions (N, W) of this worker's share, and the caption tokens."""
    assert isinstance(network, AlignerNetwork)
    parts = []
    for batch, count in padded_batches(network, batches, config):
        with autocast(batch.images.device, config.train):
            left, right = network.features(batch.images, batch.labels)
        parts.append((left[:count].float(), right[:count].float(), batch.labels[:count]))
    images_NW, texts_NW, tokens = (torch.cat(part) for part in zip(*parts, strict=True))
    return images_NW, texts_NW, tokens


def recalls(images_NW: Tensor, texts_NW: Tensor, tokens: Tensor) -> dict[int, float]:
    """Return recall@k in percent by k, the mean of both directions. Equal captions count as one."""
    cosines_NN = images_NW @ texts_NW.T
    same_NN = equal_captions(tokens)
    recall_by_rank = {}
    for k in RANKS:
        shares = []
        for closeness in (cosines_NN, cosines_NN.T):
            own_closeness = closeness.masked_fill(~same_NN, -torch.inf).amax(1, keepdim=True)
            # A tie counts as closer: otherwise features that are all equal would have a recall of 100 %.
            closer = ((closeness >= own_closeness) & ~same_NN).sum(1)
            shares.append(in_float64(closer < k).mean().item())
        recall_by_rank[k] = 100 * sum(shares) / len(shares)
    return recall_by_rank


def contrast(images_NW: Tensor, texts_NW: Tensor, tokens: Tensor) -> float | None:
    """Return the mean cosine of matched minus mismatched pairs; None if all captions are equal."""
    mismatched = (images_NW @ texts_NW.T)[~equal_captions(tokens)]
    if not len(mismatched):
        return None
    matched = (images_NW * texts_NW).sum(-1)
    return (matched.mean() - mismatched.mean()).item()


def equal_captions(tokens: Tensor) -> Tensor:
    """Return which captions are equal word for word, (N, N)."""
    # One number for each distinct caption: comparing all tokens would take N x N x T.
    captions_N = tokens.unique(dim=0, return_inverse=True)[1]
    return captions_N[:, None] == captions_N[None]


def answered(task: Task, network: Network, test: Batches, data: DataSet) -> Answers:
    """Refuse, because an aligner predicts neither classes nor captions.

    Raises:
        NotAvailable: always.
    """
    raise NotAvailable(
        "it aligns images with captions and has no answers from which metrics could be computed"
    )


def findings(task: Task, network: Network, test: Batches, train: Batches, data: DataSet) -> Judged:
    """Evaluate the test set at the end of a run, and compare with the network before training.

    Returns:
        The fields of the result, and the files of the run's folder by name.

    Raises:
        DivergenceError: a feature is not finite.
    """
    config = task.config
    images_NW, texts_NW, tokens = features(network, test, config)
    if not torch.isfinite(images_NW @ texts_NW.T).all():
        raise DivergenceError("the features of the test set are not finite")
    # The same seed as at the start of the run gives the network before training.
    torch.manual_seed(draw(config.seed, "weights"))
    initial_network = build(config.model, config.data).to(images_NW.device)
    load_initial_weights(initial_network, config, data)
    initial_images_NW, initial_texts_NW, _ = features(initial_network, test, config)
    feature_pairs = {"before": (initial_images_NW, initial_texts_NW), "after": (images_NW, texts_NW)}
    metrics = {f"recall_{k}": value for k, value in recalls(images_NW, texts_NW, tokens).items()}
    cosines = {}
    for when, (left, right) in feature_pairs.items():
        cosines[when] = (left * right).sum(-1).tolist()
        metrics[f"cosine_{when}"] = float(np.mean(cosines[when]))
    for when, (left, right) in feature_pairs.items():
        difference = contrast(left, right, tokens)
        if difference is not None:
            metrics[f"contrast_{when}"] = difference
    captions, names = data.test.captions, data.test.names
    assert captions is not None
    rows = data.test.rows[:PAIRS]
    pairs = [
        {
            "row": int(row),
            "caption": captions[row][0],
            "before": first,
            "after": last,
            "image": names[row] if names else "",
        }
        for row, first, last in zip(rows, cosines["before"], cosines["after"], strict=False)
    ]
    files = {"alignment.json": {"format": 1, "pairs": pairs}, **example_images(data)}
    return {"metrics": metrics, "depths": {}}, files
