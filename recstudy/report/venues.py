"""Page sizes of venues, which set the widths of LaTeX tables and exported figures.

HTML and Markdown ignore them. options.py makes a `Paper` from --venue, --width and --without.
"""

import re
from dataclasses import dataclass, replace

from recstudy.base.errors import ConfigError, choices, nearest

POINTS_PER_INCH = 72.27  # points of TeX
INCHES_PER_UNIT = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / POINTS_PER_INCH}
NARROWEST, WIDEST = 2.5, 20.0


@dataclass(frozen=True)
class Paper:
    """A page.

    Args:
        column: The width of a column in inches.
        text: The width of the text in inches.
        height: The height of the text in inches.
        letters: The font size in points.
        paper: The paper size in LaTeX, without `paper`.
        hidden_columns: Heads of columns that LaTeX tables leave out (--without), or globs of them.
        font: The font of exported figures, `sans` or `serif` (--font).
    """

    column: float
    text: float
    height: float = 9.0
    letters: int = 10
    paper: str = "letter"
    hidden_columns: tuple[str, ...] = ()
    font: str = "sans"

    @property
    def columns(self) -> int:
        return 1 if self.column == self.text else 2


VENUES: dict[str, Paper] = {
    "article": Paper(6.5, 6.5),  # LaTeX's own class on letter paper with margins of an inch
    "neurips": Paper(5.5, 5.5),  # neurips_2024.sty: textwidth=5.5in, textheight=9in
    "icml": Paper(3.25, 6.75),  # icml2025.sty: \textwidth 6.75in, \columnsep 0.25in, \textheight 9in
    # cvpr.sty: \textwidth 6.875in, \columnsep 0.3125in, \textheight 8.875in
    "cvpr": Paper(3.28, 6.875, 8.875),
    # acl.sty: a4paper, margin=2.5cm, \columnsep 0.6cm
    "acl": Paper(7.7 / 2.54, 16 / 2.54, 24.7 / 2.54, 11, "a4"),
    "ieee": Paper(
        252 / POINTS_PER_INCH, 516 / POINTS_PER_INCH, 9.0
    ),  # IEEEtran.cls: columns of 21 picas, text of 43
}
ARTICLE = VENUES["article"]


def paper_of(
    venue: str = "", width: str = "", hidden_columns: tuple[str, ...] = (), font: str = "sans"
) -> Paper:
    """Return the page of a venue or of a width; by default that of LaTeX's article.

    Args:
        venue: A name in `VENUES`.
        width: The width of a page with one column, such as `3.25in`.
        hidden_columns: Heads of columns that LaTeX tables leave out (--without), or globs of them.
        font: The font of exported figures, `sans` or `serif`.

    Raises:
        ConfigError: The venue is unknown, the width is invalid, or both are given.
    """
    if venue and width:
        raise ConfigError(
            f"--venue and --width exclude each other, but got --venue {venue} and --width {width}. Give one"
            " of them."
        )
    if venue and venue not in VENUES:
        raise ConfigError(f"unknown venue {venue!r}: there are {choices(VENUES)}.{nearest(venue, VENUES)}")
    page = VENUES[venue or "article"]
    if width:
        page = Paper(inches(width), inches(width))
    return replace(page, hidden_columns=hidden_columns, font=font)


def inches(width: str) -> float:
    """Return the inches of a width such as `3.25in`, `8.5cm`, `85mm` or `240pt`.

    Raises:
        ConfigError: The width is invalid, or outside of the allowed range.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(in|cm|mm|pt)", width.strip())
    size = float(match[1]) * INCHES_PER_UNIT[match[2]] if match else 0.0
    if not NARROWEST <= size <= WIDEST:
        raise ConfigError(
            f"--width must be from 2.5in to 20in, in in, cm, mm or pt, such as 3.25in, but got {width!r}"
        )
    return size
