"""Draws cosines before and after training: two halves of a violin a variant, and the published pairs as diamonds beside them."""

from functools import partial
from textwrap import wrap

import plotly.graph_objects as go

from recstudy.analysis.alignment import Aligned, alignment_caption, alignment_data, alignment_html
from recstudy.analysis.figures.layout import Drawn
from recstudy.analysis.figures.marks import scatter
from recstudy.analysis.figures.theme import PALETTE, SCREEN, Size, shown, tint
from recstudy.analysis.frame import StudyRecords
from recstudy.report import Alignment

COLORS = {"before": PALETTE[1], "after": PALETTE[0]}  # orange and blue
# Of the violin's middle: left and right; where the points stand; and as what.
SIDES = {"before": ("negative", -0.5, "circle-open"), "after": ("positive", 0.5, "circle")}
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
            side, apart, symbol = SIDES[when]
            look = {"side": side, "line": {"color": color}, "fillcolor": tint(color, 0.3), "hoverinfo": "y"}
            look |= {"spanmode": "hard", "meanline": {"visible": True}, "box": {"visible": True}}  # hard: up to the last pair
            dots = {"points": "all" if len(part) <= FEW else False, "pointpos": apart, "jitter": 0.2}
            marker = {"size": 5, "color": color, "symbol": symbol}
            half = scatter([place(part["label"].iloc[0])] * len(part), part[when], name=when, legendgroup=when)
            figure.add_violin(**{**half, **look, **dots, "marker": marker, "showlegend": at == 0})
        pairs = data.published.to_dict("records")
        if pairs:
            said = [f"published, {pair['caption']}, {when}: {pair[when]:.4f}; {pair['source']}" for pair in pairs]
            x, y = [place(f"published, {pair['caption'].replace('_', ' ')}") for pair in pairs], [pair[when] for pair in pairs]
            symbol = "diamond-open" if when == "before" else "diamond"
            marker = {"symbol": symbol, "size": 12, "color": color, "line": {"width": 2}}
            figure.add_scatter(**scatter(x, y, said, f"{when}, paper", legendgroup=when, mode="markers", marker=marker))
    figure.update_layout(violinmode="overlay", violingap=0.2)
    places = len(dict.fromkeys(place for trace in figure.data for place in trace.x))
    figure.update_xaxes(type="category", range=[-0.6, places - 0.4])  # room for the halves at both ends
    return figure.update_yaxes(title="cosine of image and caption")
