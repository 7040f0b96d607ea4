"""Curves by epoch with a choice of how they are drawn: smoothed, and their losses on a log axis. It stands in the address."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from recstudy.analysis.figures.layout import dress
from recstudy.analysis.figures.learning import COLUMNS, learning_caption, learning_figure
from recstudy.analysis.page import Html, figure_box
from recstudy.board.markup import Address, choice
from recstudy.records import EpochLine
from recstudy.report import LearningCurves
from recstudy.report.names import metric

WINDOWS = {"": "off", "5": "over 5 epochs", "25": "over 25 epochs"}  # of a moving average
AXES = {"": "linear", "log": "log"}


def drawn_as(address: Address) -> tuple[str, str]:
    """Return what of the address decides how curves look."""
    return address.get("smooth"), address.get("axis")


def judged(name: str) -> bool:
    """Tell whether an epoch's value is a loss or a score."""
    return name == "train_loss" or name.startswith("selection_")


def run_curves(runs: Iterable[tuple[str, Iterable[EpochLine]]], names: Sequence[str] = ()) -> pd.DataFrame:
    """Return a line a run, by its label, as `learning_figure` draws them: these metrics, or all losses and scores."""
    rows = [
        {"variant": at, "label": label, "metric": name, "epoch": line.epoch + 1, "n": 1, "synthetic": False}
        | dict.fromkeys(("mean", "low", "high"), value)
        for at, (label, lines) in enumerate(runs)
        for line in lines
        for name, value in line.values.items()
        if (name in names if names else judged(name)) and value is not None
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def curves_html(data: pd.DataFrame, title: str, address: Address, notes: Sequence[str] = ()) -> str:
    """Draw the choice, and a panel a metric.

    Args:
        data: as `learning_data` gives it.
        title: of the figure.
        address: `smooth` and `axis` in it say how to draw.
        notes: what a reader must know before.
    """
    window = int(asked) if (asked := address.get("smooth")) in WINDOWS and asked else 1
    spec = LearningCurves(title=title, metrics=tuple(dict.fromkeys(data["metric"])), window=window)
    positive = [
        name for name in spec.metrics if metric(name).bounds is None and (data.loc[data["metric"] == name, "mean"] > 0).all()
    ]
    means = data.groupby(["variant", "metric"], sort=False)["mean"]
    smoothed = data.assign(average=means.transform(lambda mean: mean.rolling(window, min_periods=1, center=True).mean()))
    figure = learning_figure(smoothed, spec, log=positive if address.get("axis") == "log" else ())
    caption = learning_caption(data, spec)
    choices = Html(
        '<nav class="pages" aria-label="How curves are drawn">'
        f"<span>Smoothing:</span> {_choices(address, 'smooth', WINDOWS)}"
        f'<span class="next">Losses:</span> {_choices(address, "axis", AXES)}</nav>'
    )
    return choices + figure_box(dress(figure, title, notes, caption), title, notes, caption)


def _choices(address: Address, name: str, choices: Mapping[str, str]) -> str:
    now = address.get(name) if address.get(name) in choices else ""
    return " ".join(choice(address.changed(**{name: value}), words, value == now) for value, words in choices.items())
