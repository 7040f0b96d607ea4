"""The training loss of single updates, as in Figures 1, 3 and 5 of 004: light as recorded, dark its moving average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from recstudy.lazy import go, np, pd
from recstudy.records import LossLine, read_log
from recstudy.records.runs import Row
from recstudy.report.figures.learning_curves import LearningCurves, moving_average, span
from recstudy.report.names import metric, plural
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.variants import MOST, add_labels, cut_note, shown_variants

COLUMNS = ["variant", "label", "seed", "update", "loss", "average", "synthetic"]
LOSSES = "losses.jsonl"
POINTS = 1_500  # of a variant: two for each pixel of a printed figure's width; 30 variants take 1 MB in a page
THINNED = "Drawn are the lowest and the highest point of each short stretch; the CSV file has all."


@PARTS.add("loss_trace")
class LossTrace(FigurePart, OfVariants):
    """The training loss of single updates, light, and its moving average, dark: one seed of every variant."""

    name: str = "loss_trace"
    window: int = Field(default=50, ge=1)  # recorded points that an average is taken over
    live: ClassVar[bool] = True
    default_title: ClassVar[str] = "Training loss, update by update"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per recorded loss of the first finished or running seed of each variant, else of a diverged one.

        `update` counts from the start of training; `average` is the mean of the `window` recorded losses around.
        """
        runs: dict[int, Row] = {}
        for index in records.chosen(self.where):
            run = records.first_run(index, LOSSES, ("done", "unfinished")) or records.first_run(index, LOSSES, ("diverged",))
            if run:
                runs[index] = run
        rows = []
        for index in shown_variants(records, MOST, runs):
            lines = read_log(records.results.run(runs[index].id).losses, LossLine)
            for line in {line.epoch: line for line in lines}.values():  # the last line of an epoch that was run again
                rows.append((index, runs[index].seed, line.first + line.every * np.arange(len(line.losses)), line.losses))
        data = pd.DataFrame(rows, columns=["variant", "seed", "update", "loss"]).explode(["update", "loss"], ignore_index=True)
        data = data.dropna(subset="update").astype({"update": int, "loss": float})
        data["average"] = data.groupby("variant")["loss"].transform(moving_average, self.window)
        return add_labels(records, data)[COLUMNS]

    def notes(self, records: StudyRecords, data: pd.DataFrame) -> Sequence[str]:
        return cut_note(records, len(records.chosen(self.where)))

    def finding(self, data: pd.DataFrame) -> str:
        ends = span(data.drop_duplicates("variant", keep="last")["average"], ".3g")
        return f"it ends at {ends} {metric('train_loss').unit}".strip()

    def caption(self, data: pd.DataFrame) -> str:
        words = f"Light: the recorded losses. Dark: their moving average, centred, over {plural(self.window, 'point')}."
        return f"{words} One seed a variant." + f" {THINNED}" * bool(data["variant"].value_counts().max() > POINTS)

    def draw(self, data: pd.DataFrame) -> go.Figure:
        parts = [part.iloc[thin(part["loss"].to_numpy(), POINTS)] for _, part in data.groupby("variant", sort=False)]
        types = {"update": "int32", "loss": "float32", "average": "float32"}  # Plotly packs them: a fifth of their digits
        points = pd.concat(parts).astype(types).rename(columns={"loss": "mean"})
        points = points.assign(metric="train_loss", low=points["mean"], n=1, selected=0)
        return LearningCurves(window=self.window).draw(points).update_xaxes(title="optimiser updates")


def thin(losses: np.ndarray, most: int) -> np.ndarray:
    """Return the positions of the lowest and the highest of each of `most / 2` equal stretches: the trace keeps its width."""
    positions = np.arange(len(losses))
    if len(losses) <= most:
        return positions
    stretches = np.array_split(positions, max(1, most // 2))
    return np.unique([stretch[end(losses[stretch])] for stretch in stretches for end in (np.argmin, np.argmax)])
