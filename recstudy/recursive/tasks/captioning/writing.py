"""Evaluate captioners: the loss on the selection split after each epoch, captions of the test set at the end.

The task `Captioning` names this module as its `evaluation`. The loss and the token accuracy use teacher
forcing: the model predicts each token from the true tokens before it. The other metrics compare captions that
the model writes from the image only (`decode.py`).

Shapes: N images, T tokens.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recstudy.programs.metric import METRICS
from recstudy.programs.watchdog import heartbeat
from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.data.batches import Batches
from recstudy.recursive.data.cache import DataSet, Split
from recstudy.recursive.data.text import Tokenizer
from recstudy.recursive.metrics.registry import selection_score
from recstudy.recursive.models.caption import CaptionModel
from recstudy.recursive.models.networks.caption import Captioner
from recstudy.recursive.models.networks.contract import Network
from recstudy.recursive.models.networks.layers import in_float64
from recstudy.recursive.tasks.captioning.decode import decode
from recstudy.recursive.tasks.captioning.rate_score import describe_models
from recstudy.recursive.tasks.captioning.routing import expert_use, trace_captions
from recstudy.recursive.tasks.captioning.scores import words
from recstudy.recursive.train.evaluate import (
    DivergenceError,
    autocast,
    iterate_outputs,
    summarize_answers,
    worker_batch_size,
)
from recstudy.recursive.train.losses import loss_of, token_hits, token_loss
from recstudy.recursive.train.parallel import concatenated, rank_and_world, total
from recstudy.recursive.train.task import Judged, Task

EXAMPLES = 36  # test images whose captions are saved for the board


def selection_scores(task: Task, network: Network, batches: Batches, data: DataSet) -> tuple[float, float]:
    """Return the loss in nats a token and the score that selects epochs, over all workers.

    If the score compares captions that the model writes, `batches` is the whole split instead of a worker's
    share.
    """
    config = task.config
    loss, accuracy = teacher_forced_scores(network, batches, config)
    if METRICS[config.score].of is None:
        return loss, accuracy
    split = data.selection(config.train.selection)
    ids = captions(network, batches, config, data.tokenizer)
    return loss, selection_score(config.score, _caption_answers(ids, split, data))


def teacher_forced_scores(network: Network, batches: Batches, config: RunConfig) -> tuple[float, float]:
    """Return the loss in nats a token and the token accuracy in percent, with teacher forcing.

    If `batches` is a worker's share, the scores are over all workers.
    """
    (sums,) = sum_token_scores(network, batches, config)
    # At the end of a run only the first worker evaluates, with all batches, so a sum over workers would wait
    # forever.
    loss, hits, tokens, captions = (total(sums) if batches.world > 1 else sums).tolist()
    return loss / captions, 100 * hits / tokens


@torch.no_grad()
def sum_token_scores(
    network: Network, batches: Batches, config: RunConfig, depths: Sequence[int] = ()
) -> Tensor:
    """Sum the scores of this worker's share after each of `depths` supervision steps.

    Returns:
        (depths, 4): loss in nats a token of each caption, right tokens, tokens, captions. Without depths, one
        row after `evaluation_steps`.
    """
    depths = depths or [config.train.evaluation_steps]
    sums = in_float64(torch.zeros(len(depths), 4, device=batches.device))
    for depth, batch, output, count in iterate_outputs(network, batches, config, depths):
        logits, tokens = output.logits[:count].float(), batch.labels[:count]
        hits, token_counts = token_hits(logits, tokens)
        loss = token_loss(logits, tokens, loss_of(config.train)).sum()
        sums[list(depths).index(depth)] += in_float64(
            torch.stack([loss, hits.sum(), token_counts.sum(), loss.new_tensor(count)])
        )
    return sums


def findings(task: Task, network: Network, test: Batches, train: Batches, data: DataSet) -> Judged:
    """Evaluate the test set at the end of a run, in the first worker of a group.

    Returns:
        The fields of the result, and the files of the run's folder by name.

    Raises:
        DivergenceError: a loss is not finite.
    """
    assert isinstance(network, Captioner)
    assert data.tokenizer is not None
    config = task.config
    # Captions come first, because the other workers write their share now (`Captioning.assist`).
    ids = captions(network, test, config, data.tokenizer)
    loss, accuracy = teacher_forced_scores(network, test, config)
    if not np.isfinite(loss):
        raise DivergenceError("the loss of the test set is not finite")
    answers = _caption_answers(ids, data.test, data)
    judged, files = summarize_answers(answers)
    learned = {"token_accuracy": accuracy, "caption_loss": loss}
    if not config.train.imported:  # the training data of imported weights are unknown
        learned["train_token_accuracy"] = teacher_forced_scores(network, train, config)[1]
    shared, routing = expert_use(network, test, config)
    judged |= {
        "metrics": judged["metrics"] | learned | shared,
        "depths": {"token_accuracy": by_depth(network, test, config)},
        "notes": list(words(answers).notes),
        "tokenizer": {
            "text": f"{data.tokenizer.name} ({config.data.classes:,})",
            "checksum": data.tokenizer.checksum,
            "metrics": words(answers).tokenizer,
            "rate": describe_models() if "rate_score" in judged["metrics"] else "",
        },
        "decode": describe_decoding(config.model),
        **({"routing": routing} if routing else {}),
    }
    return judged, collect_examples(answers, data) | trace_captions(
        network, test, ids, config, data.tokenizer
    ) | files


def answered(task: Task, network: Network, test: Batches, data: DataSet) -> Answers:
    """Return the captions that the model writes for the test set, from which metrics are computed."""
    return _caption_answers(captions(network, test, task.config, data.tokenizer), data.test, data)


def _caption_answers(ids: Sequence[Sequence[int]], split: Split, data: DataSet) -> Answers:
    assert data.tokenizer is not None
    assert split.captions is not None
    return Answers(
        "caption",
        rows=split.rows,
        written=[data.tokenizer.decode(row) for row in ids],
        references=[split.captions[row] for row in split.rows],
    )


def by_depth(network: Network, test: Batches, config: RunConfig) -> Scores:
    """Return the test token accuracy in percent after 1, 2, ... supervision steps of the same weights.

    The result is empty for a model without recursion.
    """
    if not config.depths:
        return {}
    sums = sum_token_scores(network, test, config, config.depths)
    return {
        str(depth): 100 * (hits / tokens).item()
        for depth, (_, hits, tokens, _) in zip(config.depths, sums, strict=True)
    }


def captions(
    network: Network, batches: Batches, config: RunConfig, tokenizer: Tokenizer | None
) -> list[list[int]]:
    """Return the token ids of the caption that the model writes for each image, from `decode`.

    Every worker of a group calls this with the batches of the whole split. Each worker writes the captions of
    consecutive whole batches.
    """
    model = config.model
    assert isinstance(model, CaptionModel)
    assert isinstance(network, Captioner)
    assert tokenizer is not None
    network.eval()
    rank, world = rank_and_world()
    size = caption_batch_size(config)
    count = -(-len(batches.rows) // size)
    # 003's code counts the length without BOS.
    length = batches.labels.shape[1] + (model.decode == "official_quirk")
    parts = [batches.labels.new_empty(0, length, dtype=torch.int64)]
    for batch in islice(batches.evaluation_batches(size), count * rank // world, count * (rank + 1) // world):
        heartbeat()
        with autocast(batch.images.device, config.train):
            ids = decode(
                network,
                batch.images,
                tokenizer,
                length=length,
                steps=config.train.evaluation_steps,
                method=model.decode,
                width=model.beam,
                length_normalisation=model.length_normalisation,
            )
        parts.append(ids)
    return concatenated(torch.cat(parts)).tolist()


def caption_batch_size(config: RunConfig) -> int:
    """Return a number of images whose captions can be written at a time in the memory of training."""
    model = config.model
    assert isinstance(model, CaptionModel)
    # Keys and values are kept for every beam and supervision step: with 3 beams and 16 steps, 48 times those
    # of one pass over the caption.
    # 003's search depends on which images share a batch, so its batches must not depend on the number of
    # workers.
    images = 2 * config.train.batch_size if model.decode == "official_quirk" else worker_batch_size(config)
    return max(1, images // (model.beams * config.train.evaluation_steps))


def describe_decoding(model: Any) -> str:
    """Return a description of the search for a caption, for tables."""
    power = f", length normalisation {model.length_normalisation:g}" if model.length_normalisation else ""
    return f"beam {model.beam}{power}" if model.decode == "beam" else model.decode.replace("_", " ")


def collect_examples(answers: Answers, data: DataSet) -> dict[str, Any]:
    """Return the files with the first test images and their captions."""
    examples = [
        {"row": int(row), "references": list(references), "hypothesis": text}
        for row, references, text in zip(
            answers.rows[:EXAMPLES], answers.references, answers.written, strict=False
        )
    ]
    return {"captions.json": {"format": 1, "examples": examples}, **example_images(data)}


def example_images(data: DataSet) -> dict[str, Any]:
    """Return the file with the first test images."""
    rows = data.test.rows[:EXAMPLES]
    return {"captions.npz": {"rows": rows, "images": np.asarray(data.test.images[rows])}}
