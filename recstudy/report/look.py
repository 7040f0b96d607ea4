"""The appearance of figures: templates for screen and paper, colours for colour-blind readers, common traces.

The page sets a figure's width, and Plotly sets margins, legend and ticks. `on_paper` gives a figure the
width of a venue's column or text.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, takewhile
from math import ceil, log2, log10
from textwrap import wrap
from typing import Any

from recstudy.base.lazy import go, np, pd, px
from recstudy.base.values import is_number
from recstudy.records import Json
from recstudy.report.names import metric

# Close to Okabe and Ito (2008), with a contrast of at least 3 to white (WCAG 1.4.11; their orange has 2.2).
PALETTE = ("#0072B2", "#D55E00", "#005C43", "#B9668F", "#6B5000", "#5B1DD0")
# the same colours on a dark page, where page.js sets them
DARK = ("#28A4E3", "#D55E00", "#04D48D", "#CC79A7", "#E69F00", "#BCE3F2")
GREY = "#9AA0A6"  # of lines without a name
END_LABELS = {
    0: 12,
    540: 24,
    900: 40,
}  # smallest width in pixels -> characters of a name at the end of a line
LABEL_GAP = 0.09  # of a panel's height between two such names
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down")
SPECTRUM = PALETTE[0], PALETTE[3], PALETTE[1]  # a colour scale from blue to orange
# a colour scale of shares, readable in black and white
SHADES = ((0, "#EEF4F9"), (0.7, PALETTE[0]), (1, "#003F66"))
PAGE_WIDTH = 640  # pixels of a figure beside question and answer, and of a printed page
WIDE_RANGE = 8  # ratio of the largest level to the smallest from which an axis may be logarithmic
FLOP_PREFIXES = {"G": 1e9, "P": 1e15}
MAX_TICKS = 12  # up to this count, each integer has a label
LARGE_COUNT = 10_000  # from here on, labels have SI prefixes: 20k
HEIGHT = 380  # pixels of a figure with one panel
PAPER_HEIGHT = 0.8  # of the height on a screen
PIXELS_PER_INCH = 120  # of a printed figure, so that its letters of 14 pixels have 8.4 points
LEGEND_LINE, COLUMN = 20, 3.25  # pixels and inches of a name in a printed legend
SHORT_LEGEND = 4  # names that fit in a figure of any height
# characters of a line: of a legend and a y-axis title on paper, and of a note
NAME_WIDTH, TITLE_WIDTH, NOTE_WIDTH = 40, 16, 54

_GRID = "rgba(128,128,128,0.25)"  # readable on white and on black
_AXIS = {"gridcolor": _GRID, "zeroline": False, "ticks": "outside", "automargin": True, "exponentformat": "e"}
_AXIS["title"] = {"standoff": 8}
_LEGEND = {"orientation": "h", "xref": "container", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom"}
_LEGEND |= {"tracegroupgap": 0}
_LAYOUT = {
    "colorway": PALETTE,
    "hovermode": "closest",
    "hoverlabel": {"namelength": -1},
    "modebar": {
        "bgcolor": "rgba(0,0,0,0)",
        "color": "gray",
        "activecolor": PALETTE[0],
        "remove": ["sendChartToCloud", "select2d", "lasso2d"],  # the first sends data to Plotly's server
    },
    "xaxis": _AXIS,
    "yaxis": _AXIS,
    "coloraxis": {"colorbar": {"thickness": 12, "title": {"side": "right", "font": {"size": 13}}}},
    "margin": {"l": 50, "r": 15, "t": 30, "b": 45},
}


def _template(family: str, legend_height: float) -> dict[str, Any]:
    text = {"font": {"family": family, "size": 14}, "legend": {**_LEGEND, "maxheight": legend_height}}
    return {"layout": {**_LAYOUT, **text}, "data": {"scatter": [{"marker": {"size": 9}}]}}


SCREEN = _template("system-ui, sans-serif", 0.35)
FONTS = {  # of figures on paper
    "sans": "Arial, Helvetica, sans-serif",
    "serif": "Times New Roman, Times, Liberation Serif, serif",
}


def on_screen(figure: go.Figure) -> go.Figure:
    """Return the figure with the template of a page."""
    formed(figure, PAGE_WIDTH).layout.template = SCREEN
    # with more ticks, labels between powers of ten overlap on a phone
    figure.update_xaxes(nticks=2, selector={"type": "log"})
    return figure.update_layout(height=figure.layout.height or HEIGHT)


def formed(figure: go.Figure, width: float) -> go.Figure:
    """Give a figure with several layouts in `meta` the one for this width in pixels, as page.js does."""
    forms = (figure.layout.meta or {}).get("forms", ())
    form = [form for form in forms if form["width"] <= width][-1:]
    return figure.update_layout({name: value for name, value in dict(*form).items() if name != "width"})


def on_paper(figure: go.Figure, inches: float, font: str = "sans") -> go.Figure:
    """Return a copy of the figure with the template of a paper, `inches` wide, in one of the `FONTS`.

    A figure whose height follows from its rows has `layout.meta = {"rows": True}`, and keeps its height.
    """
    figure = formed(go.Figure(figure), inches * PIXELS_PER_INCH)
    has_rows = bool(figure.layout.meta and figure.layout.meta.get("rows"))
    height = (figure.layout.height or HEIGHT) * (1 if has_rows else PAPER_HEIGHT)
    names = {trace.name for trace in figure.data if trace.name and trace.showlegend is not False}
    if figure.layout.showlegend is not False:
        height += LEGEND_LINE * max(0, len(names) - SHORT_LEGEND) * COLUMN / inches
    width = 5 * int(inches * PIXELS_PER_INCH / 5 + 1e-6)  # Chrome prints whole pixels
    paper = figure.update_layout(width=width, height=5 * round(height / 5), margin_t=None)
    paper.layout.template = _template(FONTS[font], 1)  # a printed legend cannot be scrolled
    paper.for_each_yaxis(lambda axis: axis.update(title_text=folded(axis.title.text or "", TITLE_WIDTH)))
    return paper.for_each_trace(lambda trace: trace.update(name=folded(trace.name or "", NAME_WIDTH)))


def titled(figure: go.Figure, title: str, notes: Sequence[str]) -> go.Figure:
    """Return a copy of the figure with its title and the notes that a reader must know."""
    lines = [f"<b>{escape(title)}</b>"] if title else []
    lines += [f"<i>{folded(escape(note), NOTE_WIDTH)}</i>" for note in notes]
    text = "<br>".join(lines)
    place = {"x": 0, "xref": "container", "yref": "container", "y": 1, "yanchor": "top", "automargin": True}
    rise = 17 * text.count("<br>")  # Plotly puts the last line where the first should be
    pad = {"t": 20 + rise, "b": 8 - rise, "l": 8}
    figure = go.Figure(figure).update_layout(title={"text": text, "font": {"size": 13}, "pad": pad, **place})
    if text and figure.layout.height and (figure.layout.meta or {}).get("rows"):
        figure.layout.height += 20 + 5 * ceil(rise / 5)  # rows keep their distance
    return figure


# --- words


def escape(text: object) -> str:
    """Escape text for Plotly, whose labels are a kind of HTML."""
    return html.escape(str(text), quote=False)


def metric_label(name: str) -> str:
    """Return a metric's title with its unit, as Plotly shows it."""
    return escape(metric(name).heading)


def folded(markup: str, width: int) -> str:
    """Break Plotly's markup into lines of at most `width` characters, unless a word is longer."""
    lines: list[str] = []
    for text in markup.split("<br>"):
        lines += wrap(html.unescape(text), width, break_long_words=False)
    return "<br>".join(map(escape, lines))


def clipped(markup: str, width: int, lines: int = 1) -> str:
    """Return escaped text in at most `lines` lines of `width` characters, with an ellipsis if it is cut."""
    all_lines = wrap(
        " ".join(html.unescape(markup).split()) or "\N{OPEN BOX}", width
    )  # a token may be a space
    ellipsis = "\N{HORIZONTAL ELLIPSIS}" if len(all_lines) > lines else ""
    return "<br>".join(map(escape, all_lines[:lines])) + ellipsis


def without_common(labels: Iterable[str]) -> tuple[dict[str, str], str]:
    """Split labels such as `2 latent steps, width 64` into their parts.

    Returns:
        Each label without the parts that all labels have, and the common parts.
    """
    parts = {label: label.split(", ") for label in labels}
    first, *others = parts.values()
    common = [part for part in first if all(part in label for label in others)] if others else []
    names = {label: ", ".join(part for part in parts[label] if part not in common) for label in parts}
    return {label: name or label for label, name in names.items()}, ", ".join(common)


# --- traces


def line_style(column: str, levels: Iterable[object]) -> dict[str, Any]:
    """Return the options of `px.line` that give each level of a column its own color, dash and symbol.

    The numbers of colors, dashes and symbols (6, 5, 7) have no common factor, so 210 levels differ.
    """
    names = list(map(str, levels))
    styles = {"color_discrete_map": PALETTE, "line_dash_map": DASHES, "symbol_map": SYMBOLS}
    maps = {option: dict(zip(names, cycle(values), strict=False)) for option, values in styles.items()}
    columns = dict.fromkeys(("color", "line_dash", "symbol"), column)
    return {**columns, **maps, "render_mode": "svg", "template": SCREEN}


def name_ends(
    figure: go.Figure,
    line_ends: Mapping[str, tuple[float, str]],
    x: Any,
    values: pd.Series[float],
    panel: int = 1,
    panels: int = 1,
) -> None:
    """Write the names of lines at their ends, as labels of a second y-axis to the right of a panel.

    Names that would overlap are moved apart.

    Args:
        figure: The figure, whose `meta` gets the names for each width.
        line_ends: Name, escaped -> the last value of the line, and its color.
        x: The end of the x-axis.
        values: The values of the panel.
        panel: The panel's number.
        panels: The number of panels, each with one y-axis to the left.
    """
    y_axis, x_axis = axis_name("y", panel), axis_name("x", panel)
    right = axis_name("y", panels + panel)
    is_log = figure.layout[y_axis].type == "log"
    names = [name for name, (value, _) in line_ends.items() if value > 0 or not is_log]
    if not names:
        return
    names.sort(key=lambda name: line_ends[name][0])
    goals = np.array([line_ends[name][0] for name in names], float)
    if is_log:
        goals, values = np.log10(goals), values[values > 0].map(log10)
    lowest = values.min()  # names below it may be outside of the panel
    steps = LABEL_GAP * ((values.max() - lowest) or 1.0) * np.arange(len(names))
    places = np.maximum.accumulate(goals - steps) + steps
    places = np.maximum(places - (places - goals).mean(), lowest + steps)
    places = (10**places if is_log else places).tolist()
    # Plotly draws an axis only if it has a trace
    invisible: Json = {"mode": "markers", "marker_opacity": 0, "hoverinfo": "skip", "showlegend": False}
    ends = {"xaxis": x_axis.replace("axis", ""), "yaxis": right.replace("axis", "")}
    figure.add_scatter(x=[x] * len(places), y=places, **ends, **invisible)
    meta = dict(figure.layout.meta or {})
    forms = {form["width"]: form for form in meta.get("forms", ())}
    columns = zip(*(name.split(" ") for name in names), strict=False)
    shared = len([*takewhile(lambda words: len(set(words)) == 1, columns)])  # first words of all names
    for width, length in END_LABELS.items():
        shown_names = [clipped(name, length) for name in names]
        if len(set(shown_names)) < len(names):
            shown_names = [clipped(name.split(" ", shared)[-1], length) for name in names]
        texts = [
            f"<span style='color:{line_ends[name][1]}'>{text}</span>"
            for name, text in zip(names, shown_names, strict=True)
        ]
        forms[width] = {"width": width, **forms.get(width, {}), right: {"ticktext": texts}}
    main_axis = y_axis.replace("axis", "")
    scale: Json = {"overlaying": main_axis, "matches": main_axis, "anchor": ends["xaxis"], "side": "right"}
    scale |= {"tickvals": places, "ticks": "", "showgrid": False, "tickfont_size": 12, "ticklabelstandoff": 4}
    scale |= {"title": None, "type": "log" if is_log else None}
    figure.update_layout({right: scale, "meta": {**meta, "forms": [*forms.values()]}})


def axis_name(letter: str, number: int) -> str:
    """Return the name of an axis in a layout: `xaxis`, then `xaxis2`."""
    return f"{letter}axis{number}" if number > 1 else f"{letter}axis"


def tint(color: str, opacity: float) -> str:
    """Return a color such as `#0072B2` as `rgba(0,114,178,OPACITY)`."""
    return f"{channels(color)}{opacity})"


def channels(color: str) -> str:
    """Return the text of `tint` before the opacity."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},"


def bands(data: pd.DataFrame, has_band: pd.Series[bool], **options: Any) -> Sequence[Any]:
    """Return traces that shade the area from `low` to `high`, with the options of `px.line` for the lines.

    No area crosses a point without a band.
    """
    stretches = data.assign(stretch=(~has_band).cumsum())[has_band]
    y = options["y"]
    high, low = (stretches.assign(**{y: stretches[end]}) for end in ("high", "low"))
    outlines = pd.concat([high, low[::-1]])
    figure = px.line(outlines, line_group="stretch", **options)
    figure.update_traces(mode="lines", line_width=0, fill="toself")
    return silent(figure.for_each_trace(lambda trace: trace.update(fillcolor=tint(trace.line.color, 0.16))))


def seed_dots(data: pd.DataFrame, **options: Any) -> Sequence[Any]:
    """Return traces with a dot for each number in the column `seeds`, for rows with several."""
    y = options["y"]
    seeds = data[data["seeds"].str.contains(" ")]
    seeds = seeds.assign(**{y: seeds["seeds"].str.split()}).explode(y).astype({y: float})
    return silent(px.line(seeds, **options).update_traces(mode="markers", marker_size=5))


def silent(figure: go.Figure) -> Sequence[Any]:
    """Return the traces of a figure without hover texts and legend entries."""
    return figure.update_traces(hoverinfo="skip", hovertemplate=None, showlegend=False).data


def panels(
    draw: Callable[..., go.Figure], data: pd.DataFrame, column: str, columns: int = 1, **options: Any
) -> go.Figure:
    """Draw a panel for each value of a column with a function of plotly.express.

    Args:
        draw: A function such as `px.scatter`.
        data: A row per point.
        column: The column whose values are the titles of the panels.
        columns: The number of panels side by side.
        options: Options of `draw`.
    """
    rows = -(-data[column].nunique() // columns)
    figure = draw(
        data,
        facet_col=column,
        facet_col_wrap=columns,
        facet_row_spacing=0.25 / rows,
        height=HEIGHT * rows,
        **{"template": SCREEN, **options},
    )
    # Plotly's titles are `column=value`
    figure.for_each_annotation(lambda title: title.update(text=title.text.partition("=")[2]))
    figure.update_layout(margin_t=55, legend_title_text="")  # the buttons are above the titles
    return figure.update_xaxes(showticklabels=True)


def share_map(x: Any, y: Any, shares: pd.Series, title: str) -> go.Figure:
    """Return a heat map of shares or other values with the first row on top. Its rows set its height."""
    figure = go.Figure(layout={"meta": {"rows": True}})
    hover = "%{y}, %{x}: %{z:.3g} %<extra></extra>"
    figure.add_heatmap(x=x, y=y, z=shares, hovertemplate=hover, coloraxis="coloraxis", xgap=1, ygap=1)
    figure.update_layout(
        coloraxis={"colorscale": SHADES, "cmin": 0, "cmax": shares.max(), "colorbar_title_text": title}
    )
    figure.update_xaxes(showgrid=False, ticks="", tickfont={"size": 11})
    return figure.update_yaxes(showgrid=False, ticks="", tickfont={"size": 11}, autorange="reversed")


# --- axes


def integer_ticks(counts: Iterable[float]) -> dict[str, Any]:
    """Return Plotly's options of an axis of counts, such as epochs: no tick is between two integers."""
    largest = max(counts, default=0)
    if largest <= MAX_TICKS:
        return {"dtick": 1, "tickformat": ","}
    return {"tickformat": "~s" if largest >= LARGE_COUNT else ","}


def without_prefix(name: str, values: pd.Series[float]) -> tuple[pd.Series[float], dict[str, Any]]:
    """Return values of a metric, FLOPs without the prefix of their unit, and Plotly's options of their axis.

    Large numbers have SI prefixes at the ticks: 0.0007548 GFLOP is 754.8k FLOP.
    """
    prefix, flop, _ = metric(name).unit.partition("FLOP")
    if flop and prefix in FLOP_PREFIXES:
        values = values * FLOP_PREFIXES[prefix]
    is_large = values.abs().max() >= LARGE_COUNT
    title = metric_label(name).replace(f"{prefix}FLOP", "FLOP") if flop else metric_label(name)
    options = {"title": title, **({"tickformat": "~s"} if is_large else {})}
    # around a single large value, Plotly would draw a range of one
    return values, {**options, **({"rangemode": "tozero"} if is_large and values.nunique() == 1 else {})}


def is_geometric(levels: Sequence[float]) -> bool:
    """Return whether levels such as 20, 100 and 500 are more even on a logarithmic axis than on a linear one.

    Powers of two always are. Other levels must span at least a factor of `WIDE_RANGE`.
    """
    if len(levels) < 3 or min(levels) <= 0:
        return False
    logs = [log2(level) for level in sorted(levels)]
    if all(level.is_integer() for level in logs):
        return True
    linear, logarithmic = (max(gaps) / min(gaps) for gaps in map(np.diff, (sorted(levels), logs)))
    return bool(max(levels) >= WIDE_RANGE * min(levels) and logarithmic < linear)


def ordered(levels: Iterable[Any]) -> list[Any]:
    """Return each level once: numbers sorted, other levels in the order of the study."""
    unique_levels = list(dict.fromkeys(levels))
    return sorted(unique_levels) if all(map(is_number, unique_levels)) else unique_levels


def escape_text(data: pd.DataFrame) -> pd.DataFrame:
    """Return the data with each text escaped."""
    texts = data.select_dtypes(exclude=["number", "bool"])
    return data.assign(**texts.map(lambda value: escape(value) if isinstance(value, str) else value))
