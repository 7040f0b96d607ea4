"""How far is a digit turned? A regression: one real number an image, by ViTRM with more and fewer latent steps.

The digits are scikit-learn's, turned by a program. Cost: about two minutes on 2 cores.

    python rotation.py
"""

from typing import ClassVar, Literal

import numpy as np

from recstudy import Place, RunConfig, Study, TrainConfig, grid, main
from recstudy.config import DATASETS, DataConfig
from recstudy.data import Decoded, Reader
from recstudy.metrics import METRICS, metric
from recstudy.models import ViTRM
from recstudy.report import PARTS, FigurePart, Table
from recstudy.tasks import TASKS, Labels, Task


@TASKS.add("regression")
class Regression(Task):
    """One real number an image, in the data's own unit."""

    name: ClassVar = "regression"
    labels: ClassVar = Labels("float32")  # (N,); data of another type or shape are refused before anything is trained
    score: ClassVar = "rmse"  # selects epochs
    example: ClassVar = {"data": {"name": "turned_digits"}, "model": {"family": "cnn", "width": 8}}  # for `recstudy contract`

    def loss(self, output, batch):
        """(B,) squared error of the network's one logit."""
        return (output.logits[:, 0].float() - batch.labels) ** 2

    def right(self, output, batch):
        """(B,) whether an answer needs no further supervision step: what a halting head learns."""
        return (output.logits[:, 0] - batch.labels).abs() < 0.1

    def kept(self, output, batch):
        """What the run keeps of its answers, in the precision that it has here."""
        return {"value": output.logits[:, 0].float()}


@METRICS.add("rmse")
@metric("RMSE", unit="rad", better="lower", form=".3f", short="rmse", tasks=("regression",), bounds=(0, np.inf))
def rmse(answers):
    return float(np.sqrt(np.mean((answers.kept["value"] - answers.labels) ** 2)))


def distance(answers):
    return np.abs(answers.kept["value"] - answers.labels)


@METRICS.add("mae")
@metric("MAE", unit="rad", better="lower", form=".3f", tasks=("regression",), bounds=(0, np.inf), each=distance)
def mae(answers):
    return float(distance(answers).mean())


@DATASETS.add("turned_digits")
class TurnedDigits(DataConfig):
    synthetic: ClassVar = True
    task: ClassVar = "regression"
    shape: ClassVar = (1, 8, 8)
    classes: ClassVar = 1  # logits that a network gives

    name: Literal["turned_digits"] = "turned_digits"

    def reader(self):
        return TurnedReader(self)


class TurnedReader(Reader):
    def sources(self, folder):
        return []

    def program(self):
        return ["turned digits", 1]  # another number where it draws other images

    def decode(self, folder):
        from scipy.ndimage import rotate
        from sklearn.datasets import load_digits

        images = load_digits().images * 15
        angles = np.random.default_rng(0).uniform(-0.8, 0.8, len(images)).astype(np.float32)
        turned = [rotate(image, np.degrees(angle), reshape=False, order=1) for image, angle in zip(images, angles, strict=True)]
        pixels = np.stack(turned)[:, None].clip(0, 255).astype(np.uint8)
        return Decoded(pixels[:1400], angles[:1400], pixels[1400:], angles[1400:])


@PARTS.add("calibration")
class Calibration(FigurePart):
    """Ten equal parts of the answers: what was said on average, and what was true."""

    name: str = "calibration"

    def drawn(self, records):
        import pandas as pd
        import plotly.express as px

        from recstudy.analysis import Drawn, answers_of

        frames = [pd.DataFrame(columns=["variant", "tenth", "said", "true"])]
        for row in records.rows:
            if found := answers_of(records, row)[0]:
                frame = pd.DataFrame({"variant": row.label, "said": found.kept["value"], "true": found.labels})
                frame["tenth"] = 10 * frame.said.rank(method="first", pct=True) // 1.0001
                frames.append(frame.groupby(["variant", "tenth"], as_index=False).mean())
        data = pd.concat(frames[1:] or frames).groupby(["variant", "tenth"], as_index=False).mean()
        return Drawn(
            lambda size: px.line(data, x="said", y="true", color="variant", markers=True), data, "What was said and true"
        )


study = Study(
    name="rotation",
    presets={
        "quick": RunConfig(
            data=TurnedDigits(),
            model=ViTRM(width=32, heads=2, patch=2),
            train=TrainConfig(
                epochs=10, batch_size=64, learning_rate=1e-3, ema_decay=0.9, supervision_steps=2, evaluation_steps=2
            ),
            place=Place(cpus_per_run=1),
        )
    },
    variants=grid({"model.latent_steps": [1, 3]}),
    seeds=3,
    report=[Table("errors", metrics=("rmse", "mae", "params", "gflops")), Calibration()],
)

if __name__ == "__main__":
    main(study)
