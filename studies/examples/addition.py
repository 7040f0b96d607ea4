"""Can a tiny recursive model carry? Sequence labelling: the bits of the sum of two binary numbers.

The label of a position depends on all positions before it. Cost: about two minutes on 2 cores.

    python addition.py
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from torch.nn import functional as F

from recstudy import Resources, Study, grid, main
from recstudy.recursive import (
    DATASETS,
    METRICS,
    TASKS,
    TRM,
    Arrays,
    DataConfig,
    Labels,
    Reader,
    RunConfig,
    Task,
    TrainConfig,
    metric,
)
from recstudy.report import Curve, Table


@TASKS.add("sequence labelling")
class SequenceLabelling(Task):
    """One tag per position of a sequence. Positions with tag 0 are not scored."""

    name: ClassVar = "sequence labelling"
    labels: ClassVar = Labels("int64", ("cells",), least=0, below="classes")  # (N, positions)
    output: ClassVar = "cells"  # families with one answer per cell: HRM, TRM, Transformer
    score: ClassVar = "tag_accuracy"
    augments: ClassVar = "sequences, whose order carries the meaning"
    example: ClassVar = {
        "data": {"name": "addition", "count": 48},
        "model": {"family": "trm", "tokens": "cell", "width": 16, "heads": 2, "multiple": 16},
    }

    def loss(self, output, batch):
        """Return the mean cross-entropy of each sequence in nats, shape (B,)."""
        is_scored = batch.labels != 0
        losses = F.cross_entropy(output.logits.float().transpose(1, 2), batch.labels, reduction="none")
        return (losses * is_scored).sum(1) / is_scored.sum(1)

    def right(self, output, batch):
        return ((output.logits.argmax(-1) == batch.labels) | (batch.labels == 0)).all(1)

    def kept(self, output, batch):
        return {"tags": output.logits.argmax(-1).byte()}


def tags_right(answers):
    """Return the percentage of correct tags of each sequence, shape (N,)."""
    is_scored = answers.labels != 0
    return 100 * ((answers.task_arrays["tags"] == answers.labels) & is_scored).sum(1) / is_scored.sum(1)


@METRICS.add("tag_accuracy")
@metric(
    "Tag accuracy", unit="%", better="higher", form=".1f", short="tags", tasks=("sequence labelling",),
    bounds=(0, 100), share=True, ranks=True, each=tags_right,
)  # fmt: skip
def tag_accuracy(answers):
    return float(tags_right(answers).mean())


@METRICS.add("whole_sequences")
@metric(
    "Sequences right",
    unit="%",
    better="higher",
    form=".1f",
    tasks=("sequence labelling",),
    bounds=(0, 100),
    share=True,
)
def whole_sequences(answers):
    return 100 * float((tags_right(answers) == 100).mean())


@DATASETS.add("addition")
class Addition(DataConfig):
    """Two numbers of `bits` bits, lowest bit first: token 1 + a + 2 b, tag 1 + bit of the sum."""

    synthetic: ClassVar = True
    task: ClassVar = "sequence labelling"
    classes: ClassVar = 5  # tokens and tags start at 0
    moments: ClassVar = ((0.0,), (1 / 255,))  # tokens are not normalized

    name: Literal["addition"] = "addition"
    bits: int = Field(12, ge=2, le=64)
    count: int = Field(2000, ge=48, description="sequences; a fifth is the test set")

    @property
    def shape(self):
        return (1, 1, self.bits)

    def reader(self):
        return AdditionReader(self)


class AdditionReader(Reader):
    def sources(self, folder):
        return []

    def program(self):
        return ["addition", 1]

    def decode(self, folder):
        count, bits = self.config.count, self.config.bits
        a, b = np.random.default_rng(0).integers(2, size=(2, count, bits))
        carry, tags = np.zeros(count, np.int64), np.zeros((count, bits), np.int64)
        for position in range(bits):
            total = a[:, position] + b[:, position] + carry
            tags[:, position], carry = 1 + total % 2, total // 2
        tokens, test = (1 + a + 2 * b).astype(np.uint8)[:, None, None], count // 5
        return Arrays(tokens[test:], tags[test:], tokens[:test], tags[:test])


study = Study(
    name="addition",
    presets={
        "quick": RunConfig(
            data=Addition(),
            model=TRM(tokens="cell", width=32, heads=2, multiple=16, cycles=2),
            train=TrainConfig(
                epochs=12,
                batch_size=64,
                learning_rate=1e-3,
                ema_decay=0.9,
                supervision_steps=4,
                evaluation_steps=4,
            ),
            resources=Resources(cpus=1),
        )
    },
    variants=grid({"model.latent_steps": [1, 3]}),
    seeds=3,
    report=[
        Table("tags", metrics=("tag_accuracy", "whole_sequences", "params", "gflops")),
        Curve("depth", x="eval.depth", y="tag_accuracy", by="model.latent_steps"),
    ],
)

if __name__ == "__main__":
    main(study)
