"""Curves with a choice of how they are drawn: smoothed, and their losses on a log axis. It stands in the address."""

from collections.abc import Sequence

import pandas as pd

from recstudy.analysis.figures.layout import dress
from recstudy.analysis.figures.learning import learning_caption, learning_figure
from recstudy.analysis.page import Html, figure_box
from recstudy.board.markup import Address, choice
from recstudy.report import LearningCurves
from recstudy.report.names import metric

WINDOWS = ("", "5", "25")  # epochs of a moving average
AXES = {"": "linear", "log": "log"}


def drawn_as(address: Address) -> tuple[str, str]:
    """What of the address decides how curves look."""
    return address.get("smooth"), address.get("axis")


def curves_html(data: pd.DataFrame, title: str, address: Address, notes: Sequence[str] = ()) -> str:
    """The choice, and a panel a metric.

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
    figure = learning_figure(_smoothed(data, window), spec, log=positive if address.get("axis") == "log" else ())
    caption = learning_caption(data, spec)
    return _choice(address) + figure_box(dress(figure, title, notes, caption), title, notes, caption)


def _smoothed(data: pd.DataFrame, window: int) -> pd.DataFrame:
    curves = data.groupby(["variant", "metric"], sort=False)["mean"]
    return data.assign(average=curves.transform(lambda mean: mean.rolling(window, min_periods=1, center=True).mean()))


def _choice(address: Address) -> Html:
    smooth = {"": "off", **{window: f"over {window} epochs" for window in WINDOWS if window}}
    return Html(
        f'<nav class="pages" aria-label="How curves are drawn"><span>Smoothing:</span> {_links(address, "smooth", smooth)}'
        f'<span class="next">Losses:</span> {_links(address, "axis", AXES)}</nav>'
    )


def _links(address: Address, name: str, choices: dict[str, str]) -> str:
    now = address.get(name) if address.get(name) in choices else ""
    return " ".join(choice(address.but(**{name: value}), words, value == now) for value, words in choices.items())
