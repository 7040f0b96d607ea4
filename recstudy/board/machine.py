"""What a run used of its machine, over the time that it ran: a panel each for cores, memory, GPU and the GPU's memory."""

from collections.abc import Sequence
from itertools import accumulate

import plotly.graph_objects as go

from recstudy.analysis.figures.layout import dress, facets
from recstudy.analysis.figures.theme import scatter, style
from recstudy.analysis.page import figure_box
from recstudy.records import RunFolder, read_log
from recstudy.records.schema import UsageLine
from recstudy.terminal import duration

PANELS = {"cores": "cores in use", "memory_mb": "memory, MB", "gpu": "GPU in use, %", "gpu_memory_mb": "GPU memory, MB"}
TITLE = "Use of the machine"
CAPTION = "Of the process of the run's first worker, over all of its attempts; how busy a GPU is, is told of all who share it"


def usage_html(folder: RunFolder) -> str:
    """Draw what `usage.jsonl` has (StorageError: it is damaged)."""
    lines = read_log(folder.usage, UsageLine)
    return figure_box(dress(usage_figure(lines), TITLE, caption=CAPTION), TITLE, caption=CAPTION)


def usage_figure(lines: Sequence[UsageLine]) -> go.Figure:
    """Draw a panel of each quantity that was measured, against the hours or minutes that the run has run."""
    ends = list(accumulate(float(line.seconds) for line in lines))
    unit, name = (3600, "hours") if ends and ends[-1] > 7200 else (60, "minutes")
    shown = {field: title for field, title in PANELS.items() if any(getattr(line, field) is not None for line in lines)}
    figure = facets(len(shown), 0.1, shared_xaxes=True)
    for row, (field, title) in enumerate(shown.items(), 1):
        points = [(at, value) for at, line in zip(ends, lines, strict=True) if (value := getattr(line, field)) is not None]
        hover = [f"after {duration(at)}: {value:,.4g} {title}" for at, value in points]
        mode, line = "lines" if len(points) > 1 else "markers", {"color": style(row - 1)["color"]}
        x, y = ([at / unit for at, _ in points], [value for _, value in points])
        figure.add_trace(scatter(x, y, hover, mode=mode, line=line), row=row, col=1)
        figure.update_yaxes(title=title, rangemode="tozero", row=row, col=1)
    return figure.update_xaxes(title=f"{name} of running", row=max(1, len(shown)), col=1)
