"""Draws cosines before and after training: two halves of a violin a variant, and the published pairs as diamonds beside them."""

from functools import partial
from textwrap import wrap

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.alignment import Aligned, alignment_caption, alignment_data, alignment_html
from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, dress, shown, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.report import Alignment

COLORS = {"before": PALETTE[1], "after": PALETTE[0]}  # orange and blue
SIDES = {"before": "negative", "after": "positive"}  # of the violin's middle: left and right
FEW = 60  # pairs that are drawn as points too


def drawn(records: StudyRecords, spec: Alignment) -> Drawn:
    data = alignment_data(records, spec)
    figure, below = partial(alignment_figure, data, spec), alignment_html(data, spec)
    return Drawn(figure, data.frame, spec.heading, data.notes, alignment_caption(data), below)


def alignment_figure(data: Aligned, spec: Alignment, size: Size = SCREEN) -> go.Figure:
    """The two distributions of each variant, with its name on the axis."""
    figure = go.Figure()
    for when in COLORS:
        for at, (_, part) in enumerate(data.ours.groupby("variant", sort=False)):
            _violin(figure, part, when, named=at == 0)
        if len(data.published):
            _diamonds(figure, data.published, when)
    dress(figure, spec.heading, data.notes, caption=alignment_caption(data), size=size)
    figure.update_layout(violinmode="overlay", violingap=0.2)
    places = len(dict.fromkeys(place for trace in figure.data for place in trace.x))
    figure.update_xaxes(type="category", range=[-0.6, places - 0.4])  # room for the halves at both ends
    return figure.update_yaxes(title="cosine of image and caption")


def _violin(figure: go.Figure, part: pd.DataFrame, when: str, named: bool) -> None:
    color = COLORS[when]
    figure.add_violin(
        x=[_place(part["label"].iloc[0])] * len(part),
        y=part[when].tolist(),
        name=when,
        legendgroup=when,
        showlegend=named,
        side=SIDES[when],
        points="all" if len(part) <= FEW else False,
        pointpos=-0.5 if when == "before" else 0.5,
        jitter=0.2,
        marker={"size": 5, "color": color, "symbol": "circle-open" if when == "before" else "circle"},
        spanmode="hard",  # no cosine is drawn that no pair has
        line={"color": color},
        fillcolor=tint(color, 0.3),
        meanline={"visible": True},
        box={"visible": True},
        hoverinfo="y",
    )


def _diamonds(figure: go.Figure, pairs: pd.DataFrame, when: str) -> None:
    """The published pairs, each at a place of its own."""
    said = [f"published, {pair['caption']}, {when}: {pair[when]:.4f}; {pair['source']}" for pair in pairs.to_dict("records")]
    figure.add_scatter(
        x=[_place(f"published, {caption.replace('_', ' ')}") for caption in pairs["caption"]],
        y=pairs[when].tolist(),
        mode="markers",
        name=f"{when}, paper",
        legendgroup=when,
        marker={
            "symbol": "diamond-open" if when == "before" else "diamond",
            "size": 12,
            "color": COLORS[when],
            "line": {"width": 2},
        },
        hovertext=[shown(text) for text in said],
        hoverinfo="text",
    )


def _place(label: str) -> str:
    """A label on the axis, in four short lines at most; in print `fit` folds them again."""
    return "<br>".join(map(shown, wrap(label, 16, max_lines=4, placeholder=" \N{HORIZONTAL ELLIPSIS}")))
