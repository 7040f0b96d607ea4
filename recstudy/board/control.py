"""Orders from a board that was started with `--control`: forms on its pages, and the one address to which they are sent.

Whoever gives one has the board's token, and a page of the board itself must have sent it: another site's, or another program's on
this machine, shows in the browser's `Origin`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recstudy.analysis.page import Html, escape
from recstudy.analysis.status import studies
from recstudy.errors import ConfigError, RecstudyError
from recstudy.records import Results
from recstudy.records.orders import LONGEST, give, words
from recstudy.records.study_schema import Order, OrderLine

if TYPE_CHECKING:
    from flask import Flask

ROUTE = "/order"
OF_STUDY, OF_RUN = ("pause", "resume", "stop"), ("pause", "resume", "stop", "retry")
SHOWN = 20  # orders on a page
HINT = (
    "A running study obeys within seconds: a run leaves its worker at once and keeps its newest checkpoint. Stop ends it for the "
    "command under way; the same command goes on."
)


class Given(BaseModel):
    """What a page of the board sends."""

    model_config = ConfigDict(strict=True, extra="forbid")
    study: str
    preset: str
    order: Order
    run: str = ""
    by: str = Field("", max_length=LONGEST)


def take_orders(server: "Flask", results: Results) -> None:
    """Take orders at `ROUTE`, and answer each in a line: what was ordered, or why nothing was."""
    from flask import abort, request  # what pages show of orders needs none of it

    @server.post(ROUTE)
    def order() -> tuple[dict[str, Any], int]:
        if urlsplit(request.headers.get("Origin", "")).netloc != request.host or not request.is_json:
            abort(403, "Orders are taken from this board's own pages alone.")
        try:
            asked = Given.model_validate_json(request.get_data())
        except ValidationError:
            abort(400, "This is no order that a page of the board gives.")
        try:
            if (asked.study, asked.preset) not in studies(results):
                raise ConfigError("no such study in this folder")
            by = f"{asked.by or 'somebody'} ({request.remote_addr})"
            line = give(results, asked.study, asked.preset, asked.order, asked.run, by)
        except RecstudyError as error:
            return {"said": str(error)}, 409
        return {"said": f"Ordered at {words(line)}"}, 200


def orders_html(given: Sequence[OrderLine], study: str, preset: str, run: str = "", control: bool = False) -> str:
    """Show what was ordered, the last first, under a form where the board takes orders."""
    buttons = "".join(f'<button value="{one}">{one.capitalize()}</button> ' for one in (OF_RUN if run else OF_STUDY))
    what = f'data-study="{escape(study)}" data-preset="{escape(preset)}" data-run="{escape(run)}"'
    name = '<label>Your name <input name="by"></label>'
    form = f'<form class="orders" {what}>{name} {buttons}<output></output></form><p class="note">{escape(HINT)}</p>'
    lines = "".join(f"<li>{escape(words(line))}</li>" for line in given[:SHOWN])
    return Html((form if control else "") + (f"<ul>{lines}</ul>" if lines else ""))
