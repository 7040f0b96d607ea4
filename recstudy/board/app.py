"""The Dash application: one page that shows the parts of the address it is at, and every two seconds those that changed."""

import hashlib
from functools import lru_cache
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update, set_props
from dash.exceptions import PreventUpdate
from flask import Flask, Response
from plotly.offline import get_plotlyjs

from recstudy.board.desk import Desk
from recstudy.board.elements import elements
from recstudy.board.look import ARRIVE, FIGURES, INDEX, STYLE
from recstudy.board.markup import Part
from recstudy.board.pages import address

META = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
TICK_MS = 2000
KEPT = 100  # parts whose components are kept: those of a few pages
WAIT_S = 0.5  # for the parts of a page that was just asked for


def make_app(desk: Desk) -> Dash:
    """The application, whose pages the desk makes."""
    server = Flask("recstudy.board", static_folder=None)
    app = Dash(
        "recstudy.board", server=server,  # type: ignore[arg-type]  # a Flask, as its documentation says
        title="recstudy board", update_title="", index_string=INDEX, include_assets_files=False,
        suppress_callback_exceptions=True, enable_mcp=False, meta_tags=[META],
    )  # fmt: skip
    _serve_files(server)
    app.layout = _layout
    app.callback(
        Output("page", "children"), Output("have", "data"), Output("title", "data"),
        Input("at", "pathname"), Input("at", "search"), Input("tick", "n_intervals"), State("have", "data"),
    )(lambda path, search, ticks, have: answer(desk, path or "/", search or "", have))  # fmt: skip
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ARRIVE, Output("title", "id"), Input("title", "data"), prevent_initial_call=True
    )
    return app


def answer(desk: Desk, path: str, search: str, have: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The whole page where it is another one or has other parts than the browser has, else the parts that changed."""
    new = have.get("at") != [path, search]
    title, parts = desk.show(address(path, search), WAIT_S if new else 0.0)
    marks = {part.key: mark(part) for part in parts}
    now = {"at": [path, search], "parts": marks}
    if new or list(marks) != list(have["parts"]):
        shown = [section(part) for part in parts]
        return [shown[0], *sections(parts), *shown[1:]], now, {"title": title, "at": path + search}
    changed = [part for part in parts if have["parts"][part.key] != marks[part.key]]
    if not changed:
        raise PreventUpdate
    for part in changed:
        set_props({"part": part.key}, {"children": content(part)})
    return no_update, now, no_update


@lru_cache(KEPT)
def mark(part: Part) -> str:
    """By which a browser and the board agree that it has this part as it is."""
    return hashlib.sha256(f"{part.title}\n{part.body}".encode()).hexdigest()[:16]


def section(part: Part) -> html.Section:
    return html.Section(content(part), id={"part": part.key})


def sections(parts: list[Part]) -> list[html.Nav]:
    """Links to the page's parts, where there are several."""
    links = [html.Li(html.A(part.title, href=f"#{part.key}")) for part in parts if part.title]
    return [html.Nav(html.Ul(links))] if len(links) > 1 else []


@lru_cache(KEPT)
def content(part: Part) -> list[Any]:
    """The heading and what is under it."""
    body = elements(part.body)
    return [html.H2(part.title, id=part.key, tabIndex="-1"), *body] if part.title else body


def _layout() -> list[Any]:
    top = [dcc.Link("Studies and runs", href="/"), dcc.Link("Compare", href="/compare")]
    return [
        html.Nav(top, className="top"),
        html.Main(id="page", tabIndex="-1"),
        dcc.Location(id="at", refresh="callback-nav"),
        dcc.Interval(id="tick", interval=TICK_MS),
        dcc.Store(id="have", data={}),
        dcc.Store(id="title"),
    ]


def _serve_files(server: Flask) -> None:
    """The drawing library, the style sheet and the script, each from memory."""
    files = {"plotly.js": get_plotlyjs(), "figures.js": FIGURES, "style.css": STYLE}

    @server.get("/_board/<name>")
    def file(name: str) -> Response:
        if name not in files:
            return Response("no such file", 404)
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        answer = Response(files[name], mimetype=kind)
        answer.headers["Cache-Control"] = "no-cache"
        answer.add_etag()
        return answer
