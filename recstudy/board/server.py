"""The Flask application of the board and its HTTP server, started by `recstudy board`.

Pages are made on request and cached until their study changes. An open page asks every two seconds for
changes and replaces only the changed parts.
"""

import gzip
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from flask import Flask, Response, abort, g, request
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Response as Answer

from recstudy.base.errors import ConfigError, RecstudyError
from recstudy.base.opened import is_regular_file
from recstudy.board.folder import BoardStudy, ResultsFolder
from recstudy.board.frame import framed
from recstudy.board.guard import check, guard
from recstudy.board.pages import index_page, study_page
from recstudy.board.run import run_page
from recstudy.board.runs import compare_page, logged_curves, runs_page
from recstudy.records import Results
from recstudy.records.files import MARKER
from recstudy.report.page import (
    COPY,
    CSS,
    GZIP_LEVEL,
    LIBRARY,
    SCRIPT,
    SORT,
    VIEWER,
    VIEWER_CSS,
    PageContent,
    markup,
)

POLL_S = 1.0  # least time between two polls of the folder
# Least time between two polls in multiples of the last poll's duration, so that the board leaves the cores to
# the runs.
REST = 3.0
FETCH_S = 5.0  # least time between two fetches from an object store
PAGES = 32  # at most so many pages are cached
LINKS = {
    "Ray dashboard": "http://127.0.0.1:8265",
    "TensorBoard": "http://127.0.0.1:6006",
    "Optuna dashboard": "http://127.0.0.1:8080",
}
ROUTES = {
    "index": "/",
    "study": "/study/<name>/<preset>",
    "runs": "/runs/<name>/<preset>",
    "curves": "/curves/<name>/<preset>",
    "compare": "/compare/<name>/<preset>",
    "run": "/run/<run_id>",
}
# Only the files of itables are used; the package is never imported.
DATA_TABLES = Path(str(getattr(find_spec("itables"), "origin", ""))).parent / "html"
JS, RUNS_JS, STYLE = (
    (files("recstudy.board") / "web" / name).read_text(encoding="utf-8")
    for name in ("board.js", "runs.js", "board.css")
)
ASSETS: dict[str, Callable[[], bytes]] = {
    "board.js": f"{JS}{SCRIPT}{COPY}{SORT}{VIEWER}".encode,
    "runs.js": RUNS_JS.encode,
    "board.css": f"{CSS}{VIEWER_CSS}{STYLE}".encode,
    "plotly.js": LIBRARY.read_bytes,
    "dt_bundle.js": (DATA_TABLES / "dt_bundle.js").read_bytes,
    "dt_bundle.css": (DATA_TABLES / "dt_bundle.css").read_bytes,
}
TYPES = {".js": "text/javascript", ".css": "text/css"}
log = logging.getLogger(__name__)


class BoardServer:
    """A board that listens from its creation until `stop`.

    Args:
        place: The results folder, or its URI on an object store, of which this machine keeps a copy.
        host: The address where to listen.
        port: The port where to listen. 0 selects a free one.
        token: The token of readers. It is required if other machines can reach `host`.
        links: Name of a program -> its address, in addition to `LINKS`.
        trust: Import the modules that studies name.

    Raises:
        ConfigError: `place` is no results folder, the address is not available, or it needs a token.
        StorageError: The store does not answer.
    """

    def __init__(
        self,
        place: Path | str,
        host: str,
        port: int,
        token: str = "",
        links: Mapping[str, str] = {},
        trust: bool = False,
    ) -> None:
        check(host, token)
        for name, url in links.items():
            if not url.startswith(("http://", "https://")):
                raise ConfigError(f"--link {name}={url} must be NAME=http://... or NAME=https://...")
        results = Results(place)
        if results.store:
            results.pull()
        if not is_regular_file(results.root / MARKER):
            raise ConfigError(
                f"{place} is no results folder ({MARKER} is missing). Give the folder of --results."
            )
        app = make_app(results, links, trust)
        self._server = _listen(host, port, app)
        bound_port = int(self._server.socket.getsockname()[1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound_port}"
        guard(app, host, bound_port, token)

    def run(self) -> None:
        """Answer requests until `stop` is called in another thread or a signal arrives."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._server.server_close()

    def stop(self) -> None:
        self._server.shutdown()


class FolderWatch:
    """Polls a results folder, and fetches it from its store, when a page is requested.

    Attributes:
        folder: The folder at the last poll.
        problems: Why the folder or its store cannot be read.
    """

    def __init__(self, results: Results, trust: bool) -> None:
        self.folder = ResultsFolder(results, trust)
        self._store_problem = self._folder_problem = ""
        self._results = results
        self._polled, self._seconds, self._fetched = float("-inf"), 0.0, time.monotonic()

    @property
    def problems(self) -> list[str]:
        return [problem for problem in (self._store_problem, self._folder_problem) if problem]

    def refresh(self) -> None:
        """Poll the folder if enough time has passed. After an error the last state stays, with `problems`."""
        start = time.monotonic()
        if start - self._polled < max(POLL_S, REST * self._seconds):
            return
        # A store answers slowly, so it is fetched less often than the local copy is polled.
        if self._results.store and start - self._fetched > max(FETCH_S, REST * self._seconds):
            self._store_problem = ""
            try:
                self._results.pull()
            except Exception as error:
                self._store_problem = f"The store cannot be read, so these results may be old: {error}"
            self._fetched = time.monotonic()
        self._folder_problem = ""
        try:
            self.folder.poll()
        except (OSError, RecstudyError) as error:
            self._folder_problem = f"The folder cannot be read: {error}"
        self._polled = time.monotonic()
        self._seconds = self._polled - start


def make_app(results: Results, links: Mapping[str, str] = {}, trust: bool = False) -> Flask:
    """Return the application, which serves pages, scripts and style sheets."""
    app = Flask("recstudy.board", static_folder=None)
    watch, lock = FolderWatch(results, trust), threading.Lock()
    folder, place = watch.folder, results.store or str(results.root)
    pages: dict[str, tuple[object, str]] = {}  # address -> the state of the cached page, and its HTML

    def show(**names: str) -> Answer:
        with lock:
            watch.refresh()
            g.problems = watch.problems
            try:
                html, status = current_page(names), 200
            # Code of a study's modules may raise any exception, and one page must not end the board.
            except (Exception, SystemExit) as error:
                html, status = problem_page(error), 404
        return _cacheable(Response(html, status, mimetype="text/html"))

    def current_page(names: Mapping[str, str]) -> str:
        state: object
        if request.endpoint == "index":
            study = None
            state = [*folder.problems.values()], [study.version for study in folder.studies.values()]
        else:
            study = folder.study_of(**names) if request.endpoint == "run" else folder.study(**names)
            state = study.version
        state = state, watch.problems
        old_state, html = pages.pop(request.full_path, (None, ""))
        if old_state != state:
            html = make_page(study, names)
        pages[request.full_path] = state, html
        if len(pages) > PAGES:
            # The least recently used page is first, because each request moves its page to the end.
            del pages[next(iter(pages))]
        return html

    def make_page(study: BoardStudy | None, names: Mapping[str, str]) -> str:
        if study is None:
            return index_page(folder, place, {**LINKS, **links})
        with study.records.study_modules():
            match request.endpoint:
                case "study":
                    return study_page(study)
                case "runs":
                    return runs_page(study, request.args)
                case "curves":
                    return logged_curves(study, request.args)
                case "compare":
                    return compare_page(study, request.args.getlist("run"))
                case _:
                    return run_page(study, **names)

    for endpoint, rule in ROUTES.items():
        app.add_url_rule(rule, endpoint, show)

    @app.get("/static/<name>")
    def static(name: str) -> Answer:
        if name not in ASSETS:
            abort(404)
        answer = Response(_packed(name), mimetype=TYPES[Path(name).suffix])
        answer.headers["Content-Encoding"] = "gzip"
        return _cacheable(answer)

    return app


def problem_page(error: BaseException) -> str:
    """Return a page with an error."""
    words = str(error)
    if not isinstance(error, RecstudyError):
        log.error("a page cannot be shown", exc_info=error)
        words = f"This page cannot be shown: {type(error).__name__}: {error}"
    return framed(
        PageContent("Nothing to show", ["<h1>Nothing to show</h1>", markup("warnings", [words]), ""], [])
    )


def _cacheable(answer: Response) -> Answer:
    """Let a browser ask for changes with an ETag."""
    # The browser may keep the page, but must ask each time whether its ETag is still valid.
    answer.headers["Cache-Control"] = "no-cache"
    answer.add_etag()
    return answer.make_conditional(request)


@cache
def _packed(name: str) -> bytes:
    return gzip.compress(ASSETS[name](), GZIP_LEVEL)


class _Quiet(WSGIRequestHandler):
    """Keeps connections open, and does not log requests."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def _listen(host: str, port: int, app: Flask) -> BaseWSGIServer:
    """Open the socket here, because `make_server` ends the process if the port is taken."""
    try:
        with closing(
            socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        ) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen()
            return make_server(host, port, app, threaded=True, request_handler=_Quiet, fd=listening.fileno())
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {reason}. Give another --port, or --host."
        ) from None
