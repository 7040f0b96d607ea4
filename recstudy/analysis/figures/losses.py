"""The loss of single updates, as in Figures 1, 3 and 5 of 004: light where it was recorded, its moving average dark."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.learning import MOST, cut_note, labelled, shown_variants
from recstudy.analysis.figures.theme import SCREEN, Size, dress, shown, style, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.records import LossLine, read_log
from recstudy.report import LossTrace
from recstudy.report.names import metric, plural

POINTS = 40_000  # of a whole figure, about 1 MB in its page
TRACE = 2_000  # of one variant: three for each point of a printed figure's width
COLUMNS = ["variant", "label", "seed", "update", "loss", "average", "synthetic"]


def drawn(records: StudyRecords, spec: LossTrace) -> Drawn:
    data, notes = loss_data(records, spec), loss_notes(records, spec)
    return Drawn(partial(loss_figure, data, spec, notes), data, spec.heading, notes, loss_caption(data, spec))


def loss_data(records: StudyRecords, spec: LossTrace, most: int = MOST) -> pd.DataFrame:
    """One row a recorded update of the first finished or running seed of each variant that recorded any, else of a diverged one.

    `update` counts from the start of training; `average` is the mean of the `window` recorded losses around it.
    """
    states = ("done", "unfinished"), ("diverged",)
    first = {index: [records.first_run(index, "losses.jsonl", one) for one in states] for index in records.chosen(spec.where)}
    runs = {index: going or diverged for index, (going, diverged) in first.items()}
    found = {index: run for index, run in runs.items() if run is not None}
    traces = [_trace(records, found[index], spec.window) for index in shown_variants(records, most, found)]
    if all(trace.empty for trace in traces):
        return pd.DataFrame(columns=COLUMNS)
    return labelled(records, pd.concat([trace for trace in traces if len(trace)], ignore_index=True))[COLUMNS]


def moving_average(losses: Sequence[float], window: int) -> npt.NDArray[np.float64]:
    """The mean of the `window` values around each (of an even number, one more before it); of fewer at the two ends."""
    return pd.Series(losses, dtype=float).rolling(window, min_periods=1, center=True).mean().to_numpy()


def thin(losses: npt.NDArray[np.float64], most: int) -> npt.NDArray[np.int64]:
    """Where to find the lowest and the highest of each of `most / 2` equal stretches: the trace keeps its width."""
    if len(losses) <= most:
        return np.arange(len(losses))
    stretches = np.array_split(np.arange(len(losses)), max(1, most // 2))
    ends = {int(at[end(losses[at])]) for at in stretches for end in (np.argmin, np.argmax)}
    return np.array(sorted(ends), dtype=np.int64)


def loss_figure(data: pd.DataFrame, spec: LossTrace, notes: Sequence[str] = (), size: Size = SCREEN) -> go.Figure:
    """A light and a dark line a variant; a click on its name in the legend hides or shows both."""
    figure = go.Figure()
    most = _most(data)
    drawn = [(int(part["variant"].iloc[0]), part.iloc[thin(part["loss"].to_numpy(), most)]) for part in _by_variant(data)]
    light = min(0.35, max(0.1, 0.7 / max(1, len(drawn))))  # of many traces each lighter, so that the dark lines stand out
    for index, part in drawn:
        _draw(figure, part, "loss", {"color": tint(style(index)["color"], light), "width": 1}, legend=False)
    for index, part in drawn:
        _draw(figure, part, "average", {"color": style(index)["color"], "dash": style(index)["dash"], "width": 2.5}, legend=True)
    figure.update_xaxes(title="optimiser updates")
    figure.update_yaxes(title=shown(metric("train_loss").heading))
    return dress(figure, spec.heading, notes, caption=loss_caption(data, spec), size=size)


def loss_notes(records: StudyRecords, spec: LossTrace, most: int = MOST) -> tuple[str, ...]:
    """What a reader must know before the traces."""
    return (*warnings(records), *cut_note(records, len(records.chosen(spec.where)), most))


def loss_caption(data: pd.DataFrame, spec: LossTrace) -> str:
    """What is light, what is dark, and over how many updates the average goes."""
    every = [int(part["update"].diff().median()) for part in _by_variant(data) if len(part) > 1]
    if not every:
        return ""
    recorded = "each update" if max(every) == 1 else f"one update in {_span(every)}"
    average = f"{plural(spec.window, 'point')} ({_span([spec.window * step for step in every])} updates)"
    thinned = max(len(part) for part in _by_variant(data)) > _most(data)
    return (
        f"Light: the loss of {recorded}. Dark: its moving average, centred, over {average}. One seed a variant."
        + " Drawn are the lowest and the highest point of each short stretch; the CSV file has all." * thinned
    )


def _span(counts: Sequence[int]) -> str:
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


def _most(data: pd.DataFrame) -> int:
    return min(TRACE, POINTS // max(1, data["variant"].nunique()))


def _by_variant(data: pd.DataFrame) -> list[pd.DataFrame]:
    return [part for _, part in data.groupby("variant", sort=False)]


def _trace(records: StudyRecords, run: Row, window: int) -> pd.DataFrame:
    """A run's recorded losses; an epoch that stands there twice counts as it was written last."""
    lines = {line.epoch: line for line in read_log(records.results.run(run.id).losses, LossLine)}.values()
    updates = [line.first + line.every * np.arange(len(line.losses)) for line in lines]
    losses = [loss for line in lines for loss in line.losses]
    known = {"variant": run.variant, "seed": run.seed, "update": np.concatenate([np.array([], dtype=int), *updates])}
    return pd.DataFrame({**known, "loss": np.array(losses, dtype=float), "average": moving_average(losses, window)})


def _draw(figure: go.Figure, part: pd.DataFrame, column: str, line: dict[str, object], legend: bool) -> None:
    """Numbers as 32-bit arrays, which Plotly packs: a fifth of the page that their digits would take."""
    figure.add_scatter(
        x=part["update"].to_numpy(dtype=np.int32),
        y=part[column].to_numpy(dtype=np.float32),
        mode="lines" if len(part) > 1 else "markers",
        name=shown(part["label"].iloc[0]),
        legendgroup=str(part["variant"].iloc[0]),
        showlegend=legend,
        line=line,
        hovertemplate=f"update %{{x:,}}: {'average ' * legend}%{{y:.4g}}, seed {part['seed'].iloc[0]}",
        hoverlabel={"namelength": -1},
    )
