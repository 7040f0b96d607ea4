"""Draws cosines before and after training: two halves of a violin a variant, and the published pairs as diamonds beside them."""

from functools import partial
from textwrap import wrap

import plotly.graph_objects as go

from recstudy.analysis.alignment import Aligned, alignment_caption, alignment_data, alignment_html
from recstudy.analysis.figures.layout import Drawn
from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, shown, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.report import Alignment

COLORS = {"before": PALETTE[1], "after": PALETTE[0]}  # orange and blue
SIDES = {"before": "negative", "after": "positive"}  # of the violin's middle: left and right
FEW = 60  # pairs that are drawn as points too


def drawn(records: StudyRecords, spec: Alignment) -> Drawn:
    data = alignment_data(records, spec)
    means = data.ours.groupby("variant", sort=False)[list(COLORS)].mean()
    ends = [" to ".join(dict.fromkeys(f"{one:.2f}" for one in (means[when].min(), means[when].max()))) for when in COLORS]
    finding = f"mean {ends[0]} before, {ends[1]} after" if len(means) else ""
    figure, below = partial(alignment_figure, data), alignment_html(data, spec)
    return Drawn(figure, data.frame, spec.heading, data.notes, alignment_caption(data), below, finding)


def alignment_figure(data: Aligned, size: Size = SCREEN) -> go.Figure:
    """The two distributions of each variant, with its name on the axis; the published pairs each at a place of its own."""

    def place(label: str) -> str:
        """A label on the axis, in four short lines at most; in print it is folded again."""
        return "<br>".join(map(shown, wrap(label, 16, max_lines=4, placeholder=" \N{HORIZONTAL ELLIPSIS}")))

    figure = go.Figure()
    for when, color in COLORS.items():
        for at, (_, part) in enumerate(data.ours.groupby("variant", sort=False)):
            figure.add_violin(
                x=[place(part["label"].iloc[0])] * len(part),
                y=part[when].tolist(),
                name=when,
                legendgroup=when,
                showlegend=at == 0,
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
        pairs = data.published.to_dict("records")
        if pairs:
            said = [f"published, {pair['caption']}, {when}: {pair[when]:.4f}; {pair['source']}" for pair in pairs]
            symbol = "diamond-open" if when == "before" else "diamond"
            figure.add_scatter(
                x=[place(f"published, {pair['caption'].replace('_', ' ')}") for pair in pairs],
                y=[pair[when] for pair in pairs],
                mode="markers",
                name=f"{when}, paper",
                legendgroup=when,
                marker={"symbol": symbol, "size": 12, "color": color, "line": {"width": 2}},
                hovertext=list(map(shown, said)),
                hoverinfo="text",
            )
    figure.update_layout(violinmode="overlay", violingap=0.2)
    places = len(dict.fromkeys(place for trace in figure.data for place in trace.x))
    figure.update_xaxes(type="category", range=[-0.6, places - 0.4])  # room for the halves at both ends
    return figure.update_yaxes(title="cosine of image and caption")
