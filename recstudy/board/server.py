"""The board's address, the server that answers there until it is stopped, and the Dash application that it serves.

The application is one page that shows the parts of the address it is at, and every two seconds those that changed.
"""

import gzip
import hashlib
import socket
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc
from dash.exceptions import PreventUpdate
from flask import Flask, Response, request
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Response as Answer

from recstudy.analysis.page import COPY, CSS, ICON, SCRIPT, VIEWER, VIEWER_CSS, anchor, escape, titled
from recstudy.board.guard import check, guard
from recstudy.board.markup import PagePart, address_of, link
from recstudy.board.poller import ResultsPoller, StoreFollower
from recstudy.board.renderer import PageRenderer
from recstudy.board.sources import LINKS, Sources
from recstudy.errors import ConfigError
from recstudy.opened import there
from recstudy.records import Results
from recstudy.records.files import MARKER

SWITCH_S = 0.0005  # an answer waits for the renderer's thread at each read and write: by Python's 5 ms that adds up to 0.1 s
TICK_MS = 2000
WAIT_S = 0.5  # for the parts of a page that is not whole yet
PLOTLY = f"plotly-{get_plotlyjs_version()}.js"
META = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
JS, STYLE, INDEX = (
    (files("recstudy.board") / "web" / name).read_text(encoding="utf-8") for name in ("board.js", "board.css", "index.html")
)
FILES = {
    "board.js": ("text/javascript", f'{SCRIPT}{COPY}{VIEWER}const PLOTLY = "/_board/{PLOTLY}";\n{JS}'),
    "style.css": ("text/css", CSS + VIEWER_CSS + STYLE),
}


class BoardServer:
    """A board that listens, from when it is made until `stop`.

    Args:
        place: the results folder, or the URI of one on an object store, of which this machine then keeps a copy (mirror.py).
        host, port: where to listen; port 0 takes a free one.
        token: what readers must have; needed where others than this machine reach `host`.
        links: name -> address of programs to point to, beside `LINKS` or in their place.
        trust: import what studies define themselves, whatever it is now.

    Raises:
        ConfigError: no results folder, an address that cannot be had, or one that needs a token.
        StorageError: the store does not answer.
    """

    def __init__(
        self,
        place: Path | str,
        host: str,
        port: int,
        token: str = "",
        links: Mapping[str, str] | None = None,
        trust: bool = False,
    ) -> None:
        check(host, token)
        shown = {**LINKS, **(links or {})}
        for name, url in shown.items():
            if not url.startswith(("http://", "https://")):
                raise ConfigError(f"--link {name}={url} must be NAME=http://... or NAME=https://...")
        results = Results(place)
        self._store = StoreFollower(results, lambda: self._renderer.wanted()) if results.store else None
        if not there(results.root / MARKER):
            raise ConfigError(f"{place} is no results folder ({MARKER} is missing). Give the one that --results was given.")
        poller = ResultsPoller(results.root)
        self._renderer = PageRenderer(Sources(poller, tuple(shown.items()), self._store, trust))
        app = make_app(self._renderer)
        self._server = _listen(host, port, app.server)
        taken = int(self._server.socket.getsockname()[1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{taken}"
        guard(app.server, host, taken, token, list(app.csp_hashes()))

    def run(self) -> bool:
        """Answer until stopped, by `stop` from another thread or by a signal; tell whether all that it began has ended."""
        self._renderer.start()
        if self._store:
            self._store.start()
        sys.setswitchinterval(SWITCH_S)
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._server.server_close()
            self._renderer.stop()
            if self._store:
                self._store.stop()
        return not self._renderer.hangs

    def stop(self) -> None:
        self._server.shutdown()


class _Quiet(WSGIRequestHandler):
    """Keeps connections open, and does not print a line a request."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def _listen(host: str, port: int, app: Flask) -> BaseWSGIServer:
    """Open the socket by hand, because on a port that is taken `make_server` ends the process."""
    try:
        with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen()
            return make_server(host, port, app, threaded=True, request_handler=_Quiet, fd=listening.fileno())
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen on {host}, port {port}: {reason}. Give another --port, or --host.") from None


# ---------------------------------------------------------------------------------------------------------- application


def make_app(renderer: PageRenderer) -> Dash:
    """Return the application, whose pages the renderer makes."""
    server = Flask("recstudy.board", static_folder=None)
    app = Dash(
        "recstudy.board", server=server,  # type: ignore[arg-type]  # a Flask, as its documentation says
        title="recstudy board", update_title="", index_string=INDEX.replace("{%icon%}", ICON), include_assets_files=False,
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
    )(lambda path, search, ticks, have: answer(renderer, path or "/", search or "", have))  # fmt: skip
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("board", "show"), Output("update", "id"), Input("update", "data")
    )
    return app


def answer(renderer: PageRenderer, path: str, search: str, have: dict[str, Any]) -> tuple[Any, Any]:
    """Return the parts of the page that the browser does not have as they are, and what it has then.

    Raises:
        PreventUpdate: it has them all.
    """
    at = have.get("at") or ["", ""]
    title, parts, whole = renderer.show(address_of(path, search), WAIT_S)
    linked = [f"<li>{link('#' + part.key, part.title)}</li>" for part in parts if part.title]
    if len(linked) > 1:
        nav = f'<nav id="contents" tabindex="-1" aria-label="On this page"><ul>{"".join(linked)}</ul></nav>'
        first = next(place for place, part in enumerate(parts) if part.title)
        parts = [*parts[:first], PagePart("contents", "", nav), *parts[first:]]
    made = {part.key: _with_heading(part) for part in parts}
    marks = {key: hashlib.sha256(html.encode()).hexdigest()[:16] for key, html in made.items()}
    known = have.get("parts", {}) if at[0] == path else {}
    changed = {key: html for key, html in made.items() if known.get(key) != marks[key]}
    if whole and at == [path, search] and not changed and list(marks) == list(known):
        raise PreventUpdate
    update = {"path": path, "search": search, "title": title, "order": list(marks), "parts": changed, "whole": whole}
    return update, {"at": [path, search], "parts": marks}


def _with_heading(part: PagePart) -> str:
    if not part.title:
        return part.body
    return f'<h2 id="{part.key}" tabindex="-1">{escape(titled(part.title, part.finding))}</h2>{anchor(part.key)}{part.body}'


def _serve_files(server: Flask) -> None:
    """Serve the drawing library, the style sheet and the script, each from memory."""

    @server.get("/_board/<name>")
    def file(name: str) -> Answer:
        if name not in FILES:
            return Response("no such file", 404)
        kind, content = FILES[name]
        answer = Response(content, mimetype=kind)
        answer.headers["Cache-Control"] = "no-cache"
        answer.add_etag()
        return answer.make_conditional(request)

    @server.get(f"/_board/{PLOTLY}")
    def plotly() -> Response:
        """Send 4.8 MB, or 1.4 for a browser that can unpack it, which asks once, because the name says the version."""
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
