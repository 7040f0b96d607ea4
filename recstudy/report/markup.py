"""HTML by jinja2 templates, which escape every value that is not markup already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NewType

import markupsafe
from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment


Html = NewType("Html", str)  # a page takes it as it is: all text in it is escaped


@cache
def templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("recstudy.report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def macros(name: str = "macros") -> Any:
    """Return the macros of a template, which give markup: `macros().facts([("Runs", "3 of 4")])`."""
    return templates().get_template(f"{name}.html.jinja").module


def render(template: str, **values: Any) -> Html:
    """Return a template's markup with these values."""
    return Html(templates().get_template(template).render(**values))


def markup(macro: str, *values: Any, template: str = "macros") -> Html:
    """Return what a macro of a template gives: `markup("facts", [("Runs", "3 of 4")])`."""
    return Html(str(getattr(macros(template), macro)(*values)))


def escape(words: object) -> Html:
    return Html(str(markupsafe.escape(words)))


def fold(summary: str, content: str) -> Html:
    """Return content that opens below its summary."""
    return markup("fold", summary, Markup(content))


def table(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Html | tuple[Html, str]]],
    classes: Mapping[int, str] | None = None,
    kind: str = "",
) -> Html:
    """Return a table in a box that scrolls on its own, as the macro `table` describes it, with entries that are HTML."""

    def entry_markup(entry: Html | tuple[Html, str]) -> Markup | tuple[Markup, str]:
        return (Markup(entry[0]), entry[1]) if isinstance(entry, tuple) else Markup(entry)

    return markup("table", label, heads, [list(map(entry_markup, row)) for row in rows], classes or {}, kind)


def words_table(label: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table of words."""
    return markup("table", label, heads, [list(map(str, row)) for row in rows], {}, "words")
