"""The board's address, and the server that answers there until it is stopped.

A page is made when somebody asks for it and kept until the folder changes. An open page asks every two seconds whether it is
still the same, and takes in the parts that are not.
"""

import gzip
import hashlib
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import closing
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from flask import Flask, Response, abort, request
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Response as Answer

from recstudy.board.guard import check, guard
from recstudy.board.markup import Address, PagePart, address_of, link
from recstudy.board.pages import page_or_problem
from recstudy.board.poller import ResultsPoller
from recstudy.board.sources import LINKS, Sources
from recstudy.errors import ConfigError
from recstudy.opened import there
from recstudy.records import Results
from recstudy.records.files import MARKER
from recstudy.report.markup import escape
from recstudy.report.page import COPY, CSS, ICON, SCRIPT, VIEWER, VIEWER_CSS

POLL_S = 1.0  # between two looks at the folder
REST = 3.0  # or this often as long as the last look took: the board leaves the cores to the runs
FETCH_S = 5.0  # between two fetches from an object store
PAGES = 32  # pages that are kept
PLOTLY = f"plotly-{get_plotlyjs_version()}.js"
JS, STYLE = ((files("recstudy.board") / "web" / name).read_text(encoding="utf-8") for name in ("board.js", "board.css"))
FILES = {
    "board.js": ("text/javascript", f"{JS}{SCRIPT}{COPY}{VIEWER}"),
    "style.css": ("text/css", CSS + VIEWER_CSS + STYLE),
}
FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="{icon}">
<link rel="stylesheet" href="/_board/style.css">
</head>
<body>
<a class="skip" href="#page">To the page</a>
<noscript><p class="warning">Figures and live updates need JavaScript; the tables do without.</p></noscript>
<nav class="top" aria-label="Board"><a href="/">Studies and runs</a> <a href="#contents">On this page</a></nav>
<p class="lost" id="lost" role="status"></p>
<main id="page" tabindex="-1">
{parts}
</main>
{library}<script src="/_board/board.js"></script>
</body>
</html>
"""


class BoardServer:
    """A board that listens, from when it is made until `stop`.

    Args:
        place: the results folder, or the URI of one on an object store, of which this machine then keeps a copy (mirror.py).
        host, port: where to listen; port 0 takes a free one.
        token: what readers must have; needed where others than this machine reach `host`.
        links: name -> address of programs to point to, beside `LINKS` or in their place.
        trust: import what studies define themselves.

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
        if results.store:
            results.pull()
        if not there(results.root / MARKER):
            raise ConfigError(f"{place} is no results folder ({MARKER} is missing). Give the one that --results was given.")
        app = make_app(Pages(results, tuple(shown.items()), trust))
        self._server = _listen(host, port, app)
        bound_port = int(self._server.socket.getsockname()[1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound_port}"
        guard(app, host, bound_port, token)

    def run(self) -> None:
        """Answer until stopped, by `stop` from another thread or by a signal."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._server.server_close()

    def stop(self) -> None:
        self._server.shutdown()


class Pages:
    """The pages of a results folder, each made once for each state of the folder, one at a time."""

    def __init__(self, results: Results, links: tuple[tuple[str, str], ...], trust: bool) -> None:
        self._results = results
        self.sources = Sources(ResultsPoller(results.root), links, results.store, trust)
        self._lock = threading.Lock()
        self._pages: OrderedDict[Address, tuple[object, bytes]] = OrderedDict()
        self._polled, self._poll_seconds, self._fetched = float("-inf"), 0.0, time.monotonic()
        self._store_problems: list[str] = []

    def show(self, address: Address) -> bytes:
        """Return the page at this address as HTML."""
        with self._lock:
            self._poll()
            state = self.sources.state
            made_of, html = self._pages.pop(address, (None, b""))
            if made_of != state:
                html = page_html(self.sources, address)
            self._pages[address] = state, html
            while len(self._pages) > PAGES:
                self._pages.popitem(last=False)
            return html

    def _poll(self) -> None:
        began = time.monotonic()
        if began - self._polled < max(POLL_S, REST * self._poll_seconds):
            return
        if self._results.store and began - self._fetched > max(FETCH_S, REST * self._poll_seconds):
            self._store_problems = []
            try:
                self._results.pull()
            except Exception as error:  # the store may come back; what was fetched is still shown
                self._store_problems = [f"These results are older than the store, which cannot be read: {error}"]
            self._fetched = time.monotonic()
        self.sources.problems[:] = self._store_problems
        try:
            self.sources.poller.poll()
        except OSError as error:  # the folder's file system may come back; what was read is still shown
            self.sources.problems.append(f"The folder cannot be read: {error}")
        self._polled = time.monotonic()
        self._poll_seconds = self._polled - began


def page_html(sources: Sources, address: Address) -> bytes:
    """Return a page as HTML. Each part is a section, so that an open page can take in those that changed."""
    page = page_or_problem(sources, address)
    parts = list(page.parts)
    items = [f"<li>{link('#' + part.key, part.title)}</li>" for part in parts if part.title]
    if len(items) > 1:
        nav = f'<nav id="contents" tabindex="-1" aria-label="On this page"><ul>{"".join(items)}</ul></nav>'
        first = next(position for position, part in enumerate(parts) if part.title)
        parts.insert(first, PagePart("contents", "", nav))
    sections = "\n".join(f'<section class="part" data-key="{part.key}">{_with_heading(part)}</section>' for part in parts)
    library = f'<script src="/_board/{PLOTLY}"></script>\n' if 'class="figure"' in sections else ""
    return FRAME.format(title=escape(page.title), icon=ICON, parts=sections, library=library).encode()


def _with_heading(part: PagePart) -> str:
    if not part.title:
        return part.body
    title = f"{part.title}: {part.finding}" if part.finding else part.title
    anchor = f'<a class="anchor" href="#{part.key}" aria-label="link to this section"></a>'
    return f'<h2 id="{part.key}" tabindex="-1">{escape(title)}</h2>{anchor}{part.body}'


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


def make_app(pages: Pages) -> Flask:
    """Return the application: pages, the drawing library, the style sheet and the script."""
    app = Flask("recstudy.board", static_folder=None)

    @app.get("/")
    @app.get("/<path:path>")
    def page(path: str = "") -> Answer:
        html = pages.show(address_of(request.path, request.query_string.decode("utf-8", "replace")))
        return _cacheable(Response(html, mimetype="text/html"))

    @app.get("/_board/<name>")
    def file(name: str) -> Answer:
        if name not in FILES:
            abort(404)
        kind, content = FILES[name]
        return _cacheable(Response(content, mimetype=kind))

    @app.get(f"/_board/{PLOTLY}")
    def plotly() -> Response:
        """Send 4.8 MB, or 1.4 for a browser that can unpack it, which asks once, because the name says the version."""
        packed = request.accept_encodings.quality("gzip") > 0
        answer = Response(_plotly(packed), mimetype="text/javascript")
        answer.headers["Cache-Control"] = "private, max-age=31536000, immutable"
        answer.headers["Vary"] = "Accept-Encoding"
        if packed:
            answer.headers["Content-Encoding"] = "gzip"
        return answer

    return app


def _cacheable(answer: Response) -> Answer:
    """Let a browser ask whether the content is still the same."""
    answer.headers["Cache-Control"] = "no-cache"
    answer.set_etag(hashlib.sha256(answer.get_data()).hexdigest()[:32])
    return answer.make_conditional(request)


@lru_cache
def _plotly(packed: bool) -> bytes:
    library = get_plotlyjs().encode()
    return gzip.compress(library) if packed else library
