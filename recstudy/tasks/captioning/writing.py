"""What a captioner has learned: its loss on the selection split after each epoch, its own captions of the
test set at the end.

While a run trains, every token is judged by the true tokens before it (teacher forcing): the loss, and the
share of tokens that are the most likely ones. The captions that metrics compare are written by the model
alone (`decode.py`).

Shapes: N images, T tokens.
"""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.data.batches import Batches
from recstudy.data.cache import DataSet, Split
from recstudy.data.text import Tokenizer
from recstudy.metrics import Answers
from recstudy.metrics.registry import selection_score
from recstudy.models.captioners import CaptionModel
from recstudy.models.networks.caption import Captioner
from recstudy.models.networks.contract import Network
from recstudy.models.networks.layers import in_float64
from recstudy.programs.watchdog import heartbeat
from recstudy.tasks.captioning.decode import decode
from recstudy.tasks.captioning.rate_score import made_by
from recstudy.tasks.captioning.routing import expert_use, kept
from recstudy.tasks.captioning.scores import words
from recstudy.train.evaluate import (
    DivergenceError,
    autocast,
    iterate_outputs,
    summarize_answers,
    worker_batch_size,
)
from recstudy.train.losses import loss_of, token_hits, token_loss
from recstudy.train.parallel import concatenated, rank_and_world, total

if TYPE_CHECKING:
    from recstudy.tasks.captioning import Captioning
    from recstudy.tasks.task import Judged

EXAMPLES = 36  # test images whose captions are kept to look at


def selection_scores(
    task: "Captioning", network: Network, batches: Batches, data: DataSet
) -> tuple[float, float]:
    """Nats a token and the score that selects epochs, over all workers; where that is of captions, `batches`
    are no share.
    """
    config = task.config
    loss, accuracy = taught(network, batches, config)
    if not task.writes_to_select:
        return loss, accuracy
    split = data.selection(config.train.selection)
    return loss, selection_score(
        config.score, _written(captions(network, batches, config, data.tokenizer), split, data)
    )


def taught(network: Network, batches: Batches, config: RunConfig) -> tuple[float, float]:
    """Nats a token and token accuracy in percent, over all workers where `batches` are this one's share."""
    (sums,) = told(network, batches, config)
    # at the end the others wait
    loss, hits, tokens, captions = (total(sums) if batches.world > 1 else sums).tolist()
    return loss / captions, 100 * hits / tokens


@torch.no_grad()
def told(network: Network, batches: Batches, config: RunConfig, depths: Sequence[int] = ()) -> Tensor:
    """Sums over this worker's share after each of `depths` supervision steps, (depths, 4): loss in nats a
    token of each caption, tokens that are right, tokens, captions. Without depths: after
    `evaluation_steps`."""
    depths = depths or [config.train.evaluation_steps]
    sums = in_float64(torch.zeros(len(depths), 4, device=batches.device))
    for depth, batch, output, count in iterate_outputs(network, batches, config, depths):
        logits, tokens = output.logits[:count].float(), batch.labels[:count]
        hits, there = token_hits(logits, tokens)
        loss = token_loss(logits, tokens, loss_of(config.train)).sum()
        sums[list(depths).index(depth)] += in_float64(
            torch.stack([loss, hits.sum(), there.sum(), loss.new_tensor(count)])
        )
    return sums


def findings(task: "Captioning", network: Network, test: Batches, train: Batches, data: DataSet) -> "Judged":
    """Return what a result states of the captions, and what is kept to look at: by a group's first worker,
    while the others write their share of the `captions`.

    Raises:
        DivergenceError: a loss is not finite.
    """
    assert isinstance(network, Captioner)
    assert data.tokenizer is not None
    config = task.config
    ids = captions(network, test, config, data.tokenizer)  # first: the others write theirs at once
    loss, accuracy = taught(network, test, config)
    if not np.isfinite(loss):
        raise DivergenceError("the loss of the test set is not finite")
    answers = _written(ids, data.test, data)
    judged, files = summarize_answers(answers)
    learned = {"token_accuracy": accuracy, "caption_loss": loss}
    if not config.train.imported:  # what others trained on is not known
        learned["train_token_accuracy"] = taught(network, train, config)[1]
    shared, routing = expert_use(network, test, config)
    judged |= {
        "metrics": judged["metrics"] | learned | shared,
        "depths": {"token_accuracy": by_depth(network, test, config)},
        "notes": list(words(answers).notes),
        "tokenizer": {
            "text": f"{data.tokenizer.name} ({data.classes:,})",
            "checksum": data.tokenizer.checksum,
            "metrics": words(answers).tokenizer,
            "rate": made_by() if "rate_score" in judged["metrics"] else "",
        },
        "decode": described(config.model),
        **({"routing": routing} if routing else {}),
    }
    return judged, examples(answers, data) | kept(network, test, ids, config, data.tokenizer) | files


def answered(task: "Captioning", network: Network, test: Batches, data: DataSet) -> Answers:
    """Return what metrics of the test set are computed from: the captions that the model writes by itself."""
    return _written(captions(network, test, task.config, data.tokenizer), data.test, data)


def _written(ids: Sequence[Sequence[int]], split: Split, data: DataSet) -> Answers:
    assert data.tokenizer is not None
    assert split.captions is not None
    return Answers(
        "caption",
        rows=split.rows,
        written=[data.tokenizer.decode(row) for row in ids],
        references=[split.captions[row] for row in split.rows],
    )


def by_depth(network: Network, test: Batches, config: RunConfig) -> dict[str, float]:
    """Token accuracy on the test set after 1, 2, ... supervision steps of the same weights; none without
    recursion.
    """
    depths = range(1, config.train.evaluation_depths + 1)
    if not config.model.recursive or not depths:
        return {}
    sums = told(network, test, config, depths)
    return {
        str(depth): 100 * (hits / tokens).item()
        for depth, (_, hits, tokens, _) in zip(depths, sums, strict=True)
    }


def captions(
    network: Network, batches: Batches, config: RunConfig, tokenizer: Tokenizer | None
) -> list[list[int]]:
    """Return the ids of the model's own caption of every image, as `decode` gives them.

    Every worker of a group calls this, with batches that are no share: whole ones of them are shared out, in
    their order.
    """
    model = config.model
    assert isinstance(model, CaptionModel)
    assert isinstance(network, Captioner)
    assert tokenizer is not None
    network.eval()
    rank, world = rank_and_world()
    size = written_at_once(config)
    count = -(-len(batches.rows) // size)
    # 003 writes so many tokens behind BOS
    length = batches.labels.shape[1] + (model.decode == "official_quirk")
    written = [batches.labels.new_empty(0, length, dtype=torch.int64)]
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
        written.append(ids)
    return concatenated(torch.cat(written)).tolist()


def written_at_once(config: RunConfig) -> int:
    """Images of a batch whose captions are written: so many that it fits where training does.

    The keys and values of every beam and of every supervision step are kept: of 3 beams and 16 steps, 48
    times those of one pass over the caption. 003's search depends on which images share a batch, so the
    number of workers does not count there.
    """
    model = config.model
    assert isinstance(model, CaptionModel)
    beams = 1 if model.decode == "greedy" else model.beam
    images = 2 * config.train.batch_size if model.decode == "official_quirk" else worker_batch_size(config)
    return max(1, images // (beams * config.train.evaluation_steps))


def described(model: Any) -> str:
    """Return how captions are written, in words."""
    assert isinstance(model, CaptionModel)
    power = f", length normalisation {model.length_normalisation:g}" if model.length_normalisation else ""
    return f"beam {model.beam}{power}" if model.decode == "beam" else model.decode.replace("_", " ")


def examples(answers: Answers, data: DataSet) -> dict[str, Any]:
    """Return the first test images with what is said of them."""
    said = [
        {"row": int(row), "references": list(own), "hypothesis": text}
        for row, own, text in zip(answers.rows[:EXAMPLES], answers.references, answers.written, strict=False)
    ]
    shown = data.test.rows[:EXAMPLES]
    return {
        "captions.json": {"format": 1, "examples": said},
        "captions.npz": {"rows": shown, "images": np.asarray(data.test.images[shown])},
    }
