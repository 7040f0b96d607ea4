"""Fill the templates of the board, which extend the report's page and link the pages."""

from typing import Any

from flask import g, url_for
from markupsafe import Markup

from recstudy.board.folder import BoardStudy
from recstudy.report.names import page_title
from recstudy.report.page import FIGURE, ICON, PageContent, markup, page_values, render, templates

PACKAGE = "recstudy.board"
templates(PACKAGE).globals.update(g=g, url_for=url_for, icon=ICON, page_title=page_title)


def fill(template: str, **values: Any) -> str:
    """Return a template of the board filled with these values."""
    return render(f"{template}.html.jinja", PACKAGE, **values)


def piece(macro: str, *values: Any) -> Markup:
    """Return the HTML of a macro in `pieces.html.jinja`."""
    return markup(macro, *values, template="pieces", package=PACKAGE)


def framed(content: PageContent, study: BoardStudy | None = None) -> str:
    """Return the HTML of a page.

    Args:
        content: The title, head and sections.
        study: The study to whose pages the frame links. By default there are no links.
    """
    has_figures = any(FIGURE in section.content for section in content.sections)
    return fill("board", study=study, has_figures=has_figures, **page_values(content))
