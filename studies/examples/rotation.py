"""Estimate the rotation of a digit: a regression with ViTRM, for one and three latent steps.

The digits are scikit-learn's, rotated by random angles. Cost: about two minutes on 2 cores.

    python rotation.py
"""

from typing import ClassVar, Literal

import numpy as np

from recstudy import Resources, Study, grid, main
from recstudy.recursive import (
    DATASETS,
    METRICS,
    TASKS,
    Arrays,
    DataConfig,
    Labels,
    Reader,
    RunConfig,
    Task,
    TrainConfig,
    ViTRM,
    metric,
)
from recstudy.report import PARTS, FigurePart, Table


@TASKS.add("regression")
class Regression(Task):
    """One real number per image, in the unit of the labels."""

    name: ClassVar = "regression"
    labels: ClassVar = Labels("float32")  # (N,); other types and shapes are refused before training
    score: ClassVar = "rmse"  # selects epochs
    example: ClassVar = {  # for `recstudy check`
        "data": {"name": "turned_digits"},
        "model": {"family": "cnn", "width": 8},
    }

    def loss(self, output, batch):
        """Return the squared error of each image, shape (B,)."""
        return (output.logits[:, 0].float() - batch.labels) ** 2

    def right(self, output, batch):
        """Return the target of the halting head, shape (B,): the answer is within 0.1 rad."""
        return (output.logits[:, 0] - batch.labels).abs() < 0.1

    def kept(self, output, batch):
        """Return the arrays that the run saves for metrics and figures."""
        return {"value": output.logits[:, 0].float()}


@METRICS.add("rmse")
@metric(
    "RMSE", unit="rad", better="lower", form=".3f", short="rmse", tasks=("regression",), bounds=(0, np.inf)
)
def rmse(answers):
    return float(np.sqrt(np.mean((answers.task_arrays["value"] - answers.labels) ** 2)))


def distance(answers):
    return np.abs(answers.task_arrays["value"] - answers.labels)


@METRICS.add("mae")
@metric(
    "MAE", unit="rad", better="lower", form=".3f", tasks=("regression",), bounds=(0, np.inf), each=distance
)
def mae(answers):
    return float(distance(answers).mean())


@DATASETS.add("turned_digits")
class TurnedDigits(DataConfig):
    synthetic: ClassVar = True
    task: ClassVar = "regression"
    shape: ClassVar = (1, 8, 8)
    classes: ClassVar = 1  # logits of the network

    name: Literal["turned_digits"] = "turned_digits"

    def reader(self):
        return TurnedReader(self)


class TurnedReader(Reader):
    def sources(self, folder):
        return []

    def program(self):
        return ["turned digits", 1]  # raise the number when the generated images change

    def decode(self, folder):
        from scipy.ndimage import rotate
        from sklearn.datasets import load_digits

        images = load_digits().images * 15
        angles = np.random.default_rng(0).uniform(-0.8, 0.8, len(images)).astype(np.float32)
        turned = [
            rotate(image, np.degrees(angle), reshape=False, order=1)
            for image, angle in zip(images, angles, strict=True)
        ]
        pixels = np.stack(turned)[:, None].clip(0, 255).astype(np.uint8)
        return Arrays(pixels[:1400], angles[:1400], pixels[1400:], angles[1400:])


@PARTS.add("calibration")
class Calibration(FigurePart):
    """Mean prediction and mean label in ten equal parts of the predictions."""

    name: str = "calibration"
    default_title = "Prediction and label"

    def data(self, records):
        import pandas as pd

        from recstudy.recursive import answers_of

        frames = [pd.DataFrame(columns=["variant", "tenth", "predicted", "true"])]
        for row in records.rows:
            if answers := answers_of(records, row)[0]:
                frame = pd.DataFrame(
                    {"variant": row.label, "predicted": answers.task_arrays["value"], "true": answers.labels}
                )
                frame["tenth"] = 10 * frame.predicted.rank(method="first", pct=True) // 1.0001
                frames.append(frame.groupby(["variant", "tenth"], as_index=False).mean())
        return pd.concat(frames[1:] or frames).groupby(["variant", "tenth"], as_index=False).mean()

    def draw(self, data):
        import plotly.express as px

        return px.line(data, x="predicted", y="true", color="variant", markers=True)


study = Study(
    name="rotation",
    presets={
        "quick": RunConfig(
            data=TurnedDigits(),
            model=ViTRM(width=32, heads=2, patch=2),
            train=TrainConfig(
                epochs=10,
                batch_size=64,
                learning_rate=1e-3,
                ema_decay=0.9,
                supervision_steps=2,
                evaluation_steps=2,
            ),
            resources=Resources(cpus=1),
        )
    },
    variants=grid({"model.latent_steps": [1, 3]}),
    seeds=3,
    report=[Table("errors", metrics=("rmse", "mae", "params", "gflops")), Calibration()],
)

if __name__ == "__main__":
    main(study)
