"""The Dash application: one page that shows the parts of the address it is at, and every two seconds those that changed."""

import gzip
import hashlib
import json
from functools import lru_cache
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc
from dash.exceptions import PreventUpdate
from flask import Flask, Response, request
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from werkzeug.wrappers import Response as Answer

from recstudy.analysis.page import anchor, titled
from recstudy.board.elements import elements
from recstudy.board.markup import Part, contents, href
from recstudy.board.pages import address
from recstudy.board.renderer import Desk
from recstudy.board.script import script
from recstudy.board.stylesheet import INDEX, STYLE

META = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
TICK_MS = 2000
KEPT = 100  # parts that are kept as the browser gets them: those of a few pages
WAIT_S = 0.5  # for the parts of a page that was just asked for
PLOTLY = f"plotly-{get_plotlyjs_version()}.js"


def make_app(desk: Desk) -> Dash:
    """The application, whose pages the desk makes."""
    server = Flask("recstudy.board", static_folder=None)
    app = Dash(
        "recstudy.board", server=server,  # type: ignore[arg-type]  # a Flask, as its documentation says
        title="recstudy board", update_title="", index_string=INDEX, include_assets_files=False,
        suppress_callback_exceptions=True, enable_mcp=False, meta_tags=[META],
    )  # fmt: skip
    _serve_files(server)
    app.layout = [
        dcc.Location(id="at", refresh="callback-nav"),
        dcc.Interval(id="tick", interval=TICK_MS),
        dcc.Store(id="have", data={}),
        dcc.Store(id="update"),
    ]
    app.callback(
        Output("update", "data"), Output("have", "data"),
        Input("at", "pathname"), Input("at", "search"), Input("tick", "n_intervals"), State("have", "data"),
    )(lambda path, search, ticks, have: answer(desk, path or "/", search or "", have))  # fmt: skip
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("board", "show"), Output("update", "id"), Input("update", "data")
    )
    return app


def answer(desk: Desk, path: str, search: str, have: dict[str, Any]) -> tuple[Any, Any]:
    """The parts of the page that the browser does not have as they are, and what it has then.

    Raises:
        PreventUpdate: it has them all.
    """
    at = have.get("at") or ["", ""]
    new = at != [path, search]
    title, parts = desk.show(address(path, search), WAIT_S if new else 0.0)
    head = next((at for at, part in enumerate(parts) if part.title), len(parts))
    parts = [*parts[:head], contents(parts), *parts[head:]]
    marks = {part.key: mark(part) for part in parts}
    known = have.get("parts", {}) if at[0] == path else {}
    changed = {part.key: content(part) for part in parts if known.get(part.key) != marks[part.key]}
    last, notices = desk.news(have.get("news"))
    if not (new or changed or notices) and list(marks) == list(known):
        raise PreventUpdate
    news = [{"title": one.title, "body": one.words, "tag": f"recstudy {one.at}", "to": href(*one.path)} for one in notices]
    update = {"path": path, "search": search, "title": title, "order": list(marks), "parts": changed, "news": news}
    return update, {"at": [path, search], "parts": marks, "news": last}


@lru_cache(KEPT)
def mark(part: Part) -> str:
    """By which a browser and the board agree that it has this part as it is."""
    return hashlib.sha256(f"{part.title}\n{part.finding}\n{part.body}".encode()).hexdigest()[:16]


@lru_cache(KEPT)
def content(part: Part) -> str:
    """The heading and what is under it, as JSON of nodes."""
    words = titled(part.title, part.finding)
    heading = [("h2", {"id": part.key, "tabindex": "-1"}, [words]), *elements(anchor(part.key))] if part.title else []
    return json.dumps([*heading, *elements(part.body)], ensure_ascii=False, separators=(",", ":"))


def _serve_files(server: Flask) -> None:
    """The drawing library, the style sheet and the script, each from memory."""
    files = {"board.js": ("text/javascript", script(f"/_board/{PLOTLY}")), "style.css": ("text/css", STYLE)}

    @server.get("/_board/<name>")
    def file(name: str) -> Answer:
        if name not in files:
            return Response("no such file", 404)
        kind, content = files[name]
        answer = Response(content, mimetype=kind)
        answer.headers["Cache-Control"] = "no-cache"
        answer.add_etag()
        return answer.make_conditional(request)

    @server.get(f"/_board/{PLOTLY}")
    def plotly() -> Response:
        """4.8 MB, or 1.4 for a browser that can unpack it, which asks once, because the name says the version."""
        packed = request.accept_encodings.quality("gzip") > 0
        answer = Response(_plotly(packed), mimetype="text/javascript")
        answer.headers["Cache-Control"] = "private, max-age=31536000, immutable"
        answer.headers["Vary"] = "Accept-Encoding"
        if packed:
            answer.headers["Content-Encoding"] = "gzip"
        return answer


@lru_cache
def _plotly(packed: bool) -> bytes:
    whole = get_plotlyjs().encode()
    return gzip.compress(whole) if packed else whole
