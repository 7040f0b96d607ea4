"""The frame of the board's pages: templates that extend the report's page, with links between the pages."""

from functools import cache
from typing import Any

from flask import url_for
from jinja2 import ChoiceLoader, Environment, PackageLoader

from recstudy.board.folder import Study
from recstudy.report.names import page_title
from recstudy.report.page import FIGURE, ICON, Html, PageContent, page_values, templates


@cache
def environment() -> Environment:
    loaders = [PackageLoader("recstudy.board"), PackageLoader("recstudy.report")]
    made = templates().overlay(loader=ChoiceLoader(loaders))
    made.globals |= {"url_for": url_for, "icon": ICON, "page_title": page_title}
    return made


def fill(template: str, **values: Any) -> str:
    """Return a template of the board with these values."""
    return environment().get_template(f"{template}.html.jinja").render(**values)


def piece(macro: str, *values: Any) -> Html:
    """Return what a macro of `pieces.html.jinja` gives."""
    return Html(str(getattr(environment().get_template("pieces.html.jinja").module, macro)(*values)))


def framed(content: PageContent, study: Study | None = None) -> str:
    """Return a page of sections in the board's frame, with links to the pages of its study."""
    has_figures = any(FIGURE in section.content for section in content.sections)
    return fill("board", study=study, has_figures=has_figures, **page_values(content))
