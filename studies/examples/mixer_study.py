"""How deep should a weight-tied MLP-Mixer be?

The model, data set, metric, figure, optimizer, loss and augmentation are defined here, not in recstudy.
Cost: seconds per run on one core.

    python mixer_study.py --data DIR

DIR/scans.npz holds train_x and test_x (uint8, shape (N, 1, 8, 8)), train_y and test_y (int64, shape (N,)).
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from recstudy import Resources, Study, grid, main
from recstudy.recursive import (
    AUGMENTATIONS,
    DATASETS,
    FAMILIES,
    LOSSES,
    METRICS,
    OPTIMIZERS,
    Arrays,
    Augment,
    DataConfig,
    ModelConfig,
    Reader,
    RunConfig,
    TrainConfig,
    metric,
)
from recstudy.report import PARTS, FigurePart, Table


@FAMILIES.add("mixer")
class Mixer(ModelConfig):
    network: ClassVar[str] = "mixer_network:MixerNetwork"
    recursive: ClassVar[bool] = True
    example: ClassVar = {"model": {"width": 8}}  # the small model of `recstudy check`

    family: Literal["mixer"] = "mixer"
    patch: int = Field(2, ge=1, description="side of a square patch")
    width: int = Field(32, ge=1, description="dimensions of a patch")
    depth: int = Field(2, ge=1, description="applications of the block in a supervision step")
    activation: Literal["gelu", "relu"] = "gelu"


@DATASETS.add("scans")
class Scans(DataConfig):
    name: Literal["scans"] = "scans"
    shape: ClassVar = (1, 8, 8)
    classes: ClassVar = 10

    def reader(self):
        return ScansReader(self)


class ScansReader(Reader):
    def sources(self, folder):
        return ["scans.npz"]

    def decode(self, folder):
        with np.load(folder / "scans.npz") as file:
            return Arrays(file["train_x"], file["train_y"], file["test_x"], file["test_y"])


@METRICS.add("worst_class")
@metric("Worst class", unit="%", better="higher", form=".1f", bounds=(0, 100))
def worst_class(answers):
    right = answers.predicted == answers.labels
    return 100 * min(right[answers.labels == label].mean() for label in np.unique(answers.labels))


@PARTS.add("reliability")
class Reliability(FigurePart):
    name: str = "reliability"
    default_title = "Confidence and accuracy"

    def data(self, records):
        import pandas as pd

        from recstudy.recursive import answers_of

        bins = []
        for row in records.rows:
            if answers := answers_of(records, row)[0]:
                sure, right = answers.probabilities.max(1), answers.predicted == answers.labels
                frame = pd.DataFrame(
                    {"variant": row.label, "bin": 10 * sure // 1, "confidence": sure, "right": right}
                )
                bins.append(frame.groupby(["variant", "bin"], as_index=False).mean())
        return pd.concat(bins) if bins else pd.DataFrame(columns=["variant", "confidence", "right"])

    def draw(self, data):
        import plotly.express as px

        return px.line(data, x="confidence", y="right", color="variant")


@OPTIMIZERS.add("heavy_ball")
def heavy_ball(groups, config, *, momentum=0.9):
    import torch

    return torch.optim.SGD(groups, lr=config.learning_rate, momentum=momentum)


@LOSSES.add("focal")
def focal(logits, targets, smoothing=0.0, *, gamma=2.0):
    from recstudy.recursive.train.losses import shares

    log = logits.log_softmax(-1)
    return -(shares(logits, targets, smoothing) * (1 - log.exp()) ** gamma * log).sum(-1)


@AUGMENTATIONS.add("darken")
def darken(images, generator):
    import torch

    brightness = 1 - torch.rand(len(images), 1, 1, 1, generator=generator) / 4
    return (images * brightness.to(images.device)).to(torch.uint8)


train = TrainConfig(
    epochs=2,
    batch_size=32,
    learning_rate=0.05,
    optimizer="heavy_ball",
    loss="focal",
    augment=Augment(more=("darken",)),
)
study = Study(
    name="mixer",
    presets={"quick": RunConfig(data=Scans(), model=Mixer(), train=train, resources=Resources(gpus=0))},
    variants=grid({"model.depth": [1, 3], "train.supervision_steps": [1, 2]}),
    report=[Table("depths", metrics=("top1_accuracy", "worst_class", "params")), Reliability()],
)

if __name__ == "__main__":
    main(study)
