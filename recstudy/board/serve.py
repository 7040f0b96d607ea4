"""The board's address, and the server that answers there until it is stopped."""

import socket
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from flask import Flask
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from recstudy.board.app import content, make_app
from recstudy.board.guard import check, guard
from recstudy.board.pages import page
from recstudy.board.renderer import Desk
from recstudy.board.rows import Kept
from recstudy.board.sources import LINKS, Sources
from recstudy.board.store import Follower
from recstudy.board.watch import Watch
from recstudy.errors import ConfigError
from recstudy.records import Results
from recstudy.records.files import MARKER

SWITCH_S = 0.0005  # an answer waits for the desk's thread at each read and write: by Python's 5 ms that adds up to 0.1 s


class Board:
    """A board that listens, from when it is made until `stop`.

    Args:
        place: the results folder, or the URI of one on an object store, of which this machine then keeps a copy (mirror.py).
        host, port: where to listen; port 0 takes a free one.
        token: what readers must have; needed where others than this machine reach `host`.
        links: name -> address of programs to point to, beside `LINKS` or in their place.

    Raises:
        ConfigError: no results folder, an address that cannot be had, or one that needs a token.
        StorageError: the store does not answer.
    """

    def __init__(self, place: Path | str, host: str, port: int, token: str = "", links: Mapping[str, str] | None = None) -> None:
        check(host, token)
        results, shown = Results(place), tuple(_checked({**LINKS, **(links or {})}).items())
        self._store = Follower(results, lambda: self._desk.wanted()) if results.store else None
        if not (results.root / MARKER).is_file():
            raise ConfigError(f"{place} is no results folder ({MARKER} is missing). Give the one that --results was given.")
        watch = Watch(results.root, self._store.beats if self._store else {})
        self._desk = Desk(Sources(watch, Kept(watch), shown, self._store), page, content)
        app = make_app(self._desk)
        self._server = _listen(host, port, app.server)
        taken = int(self._server.socket.getsockname()[1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{taken}"
        guard(app.server, host, taken, token, list(app.csp_hashes()))

    def run(self) -> None:
        """Answer until stopped, by `stop` from another thread or by a signal."""
        self._desk.start()
        if self._store:
            self._store.start()
        sys.setswitchinterval(SWITCH_S)
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._server.server_close()
            self._desk.stop()
            if self._store:
                self._store.stop()

    def stop(self) -> None:
        self._server.shutdown()


class _Quiet(WSGIRequestHandler):
    """Keeps connections open, and does not print a line a request."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def _listen(host: str, port: int, app: Flask) -> BaseWSGIServer:
    try:
        with closing(_socket(host, port)) as taken:
            return make_server(host, port, app, threaded=True, request_handler=_Quiet, fd=taken.fileno())
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen on {host}, port {port}: {reason}. Give another --port, or --host.") from None


def _socket(host: str, port: int) -> socket.socket:
    """By hand, because on a port that is taken `make_server` ends the process."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except BaseException:
        listening.close()
        raise
    return listening


def _checked(links: Mapping[str, str]) -> Mapping[str, str]:
    for name, url in links.items():
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"--link {name}={url} must be NAME=http://... or NAME=https://...")
    return links
