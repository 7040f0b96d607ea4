"""A small language model: predict the next byte of a text file with a GRU of two widths.

python language_model.py --data DIR      # DIR/text.txt: any text of at least 10,000 characters
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from recstudy import Resources, Study, grid, main
from recstudy.base.errors import DataError
from recstudy.recursive import (
    DATASETS,
    FAMILIES,
    METRICS,
    TASKS,
    Arrays,
    DataConfig,
    Labels,
    ModelConfig,
    Reader,
    RunConfig,
    Task,
    TrainConfig,
    metric,
)
from recstudy.recursive.models.networks.contract import Network, Output
from recstudy.report import LearningCurves, Table


@TASKS.add("language model")
class LanguageModel(Task):
    """Predict the next token at every position."""

    name: ClassVar = "language model"
    labels: ClassVar = Labels("int64", ("cells",), least=0, below="classes")  # (N, T): the next tokens
    output: ClassVar = "tokens"  # families that support this output list it in `outputs`
    score: ClassVar = "perplexity"
    augments: ClassVar = "text"
    example: ClassVar = {"data": {"name": "text", "length": 16}, "model": {"family": "gru", "width": 8}}

    def nats(self, output, batch):
        return F.cross_entropy(output.logits.float().transpose(1, 2), batch.labels, reduction="none")

    def loss(self, output, batch):
        """Return the mean loss of each window in nats per token, shape (B,)."""
        return self.nats(output, batch).mean(1)

    def right(self, output, batch):
        """Return the share of correct tokens of each window, shape (B,)."""
        return (output.logits.argmax(-1) == batch.labels).float().mean(1)

    def kept(self, output, batch):
        """Return token losses in half precision and the predicted tokens, for metrics."""
        return {"nats": self.nats(output, batch).half(), "guess": output.logits.argmax(-1).byte()}


@METRICS.add("perplexity")
@metric(
    "Perplexity",
    better="lower",
    form=".2f",
    short="ppl",
    tasks=("language model",),
    bounds=(1, np.inf),
    ranks=True,
)
def perplexity(answers):
    return float(np.exp(answers.task_arrays["nats"].astype(np.float64).mean()))


def tokens_right(answers):
    """Return the percentage of correct tokens of each window, shape (N,)."""
    return 100 * (answers.task_arrays["guess"] == answers.labels).mean(1)


@METRICS.add("next_token_accuracy")
@metric(
    "Next-token accuracy", unit="%", better="higher", form=".1f", tasks=("language model",), bounds=(0, 100),
    share=True, each=tokens_right,
)  # fmt: skip
def next_token_accuracy(answers):
    return float(tokens_right(answers).mean())


@DATASETS.add("text")
class Text(DataConfig):
    """Windows of a text file. The labels are the bytes of the window, shifted by one."""

    task: ClassVar = "language model"
    classes: ClassVar = 256
    moments: ClassVar = ((0.0,), (1 / 255,))  # bytes are not normalized

    name: Literal["text"] = "text"
    path: str = Field("text.txt", description="below the data folder")
    length: int = Field(64, ge=2, description="bytes of a window")

    @property
    def shape(self):
        return (1, 1, self.length)

    def reader(self):
        return TextReader(self)


class TextReader(Reader):
    def sources(self, folder):
        return [self.config.path]

    def decode(self, folder):
        text, length = np.frombuffer((folder / self.config.path).read_bytes(), np.uint8), self.config.length
        count = (len(text) - 1) // length
        if count < 20:
            raise DataError(
                f"{folder / self.config.path} has {len(text):,} bytes, fewer than 20 windows of {length}."
                " Use a longer text"
            )
        windows = text[: count * length].reshape(count, 1, 1, length)
        following = text[1 : count * length + 1].reshape(count, length).astype(np.int64)
        train = count * 9 // 10  # the end of the text is the test set
        return Arrays(windows[:train], following[:train], windows[train:], following[train:])


@FAMILIES.add("gru")
class GRU(ModelConfig):
    outputs: ClassVar = ("tokens",)
    example: ClassVar = {"data": {"name": "text", "length": 16}, "model": {"width": 8}}

    family: Literal["gru"] = "gru"
    width: int = Field(64, ge=1, description="dimensions of the state")

    def build(self, shape, classes):
        return GRUNetwork(self, classes)


class GRUNetwork(Network):
    def __init__(self, config, classes):
        super().__init__()
        self.embed = nn.Embedding(classes, config.width)
        self.gru = nn.GRU(config.width, config.width, batch_first=True)
        self.head = nn.Linear(config.width, classes)

    def start(self, images, context=None):
        return ()

    def forward(self, images, carry):
        states, _ = self.gru(self.embed(images.flatten(1).long()))
        return Output(self.head(states)), carry


study = Study(
    name="language_model",
    presets={
        "quick": RunConfig(
            data=Text(),
            model=GRU(),
            train=TrainConfig(epochs=6, batch_size=16, learning_rate=3e-3, ema_decay=0.0),
            resources=Resources(cpus=1),
        )
    },
    variants=grid({"model.width": [32, 64]}),
    seeds=3,
    report=[
        Table("perplexity", metrics=("perplexity", "next_token_accuracy", "params")),
        LearningCurves("learning"),
    ],
)

if __name__ == "__main__":
    main(study)
