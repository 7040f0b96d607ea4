"""Who may read the board: on this machine whoever asks by its own name, from elsewhere whoever has the token.

A page of another site can make a browser ask 127.0.0.1 under that site's name (DNS rebinding): the board
answers to its own names only. Where it listens for others, a token in the address is exchanged once for a
cookie.
"""

import hashlib
import hmac
import ipaddress
from urllib.parse import urlencode, urlsplit

from flask import Flask, Response, abort, redirect, request
from werkzeug.wrappers import Response as Answer

from recstudy.errors import ConfigError

SHORTEST = 16  # characters of a token
MAKE_ONE = "python -c 'import secrets; print(secrets.token_urlsafe())'"
LARGEST = 2**20  # bytes of a request
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def is_local(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(host: str, token: str) -> None:
    """Refuse an address that others reach without a token, and a token that can be guessed (ConfigError)."""
    if token and len(token) < SHORTEST:
        raise ConfigError(
            f"the board's token needs {SHORTEST} characters or more, but has {len(token)}. Make one:"
            f" {MAKE_ONE}"
        )
    if not token and not is_local(host):
        raise ConfigError(
            f"--host {host} lets others read the results: give a --token (or set RECSTUDY_BOARD_TOKEN), or"
            f" listen on 127.0.0.1 and reach it through ssh -L. Make a token: {MAKE_ONE}"
        )


def guard(server: Flask, host: str, port: int, token: str) -> None:
    """Check every request, and say in every answer what its page may load.

    Args:
        server: the board's.
        host, port: where it listens.
        token: what readers must have; none is asked for where it is empty.
    """
    name, kept = f"recstudy_board_{port}", hashlib.sha256(token.encode()).hexdigest()
    server.config["MAX_CONTENT_LENGTH"] = LARGEST

    @server.before_request
    def may_read() -> Answer | None:
        if is_local(host) and not is_local(_name(request.host)):
            abort(403, "This board answers to 127.0.0.1 and localhost only.")
        if not token or _same(request.cookies.get(name, ""), kept):
            return None
        if not _same(request.args.get("token", ""), token):
            abort(403, "This board asks for its token: open it once with ?token=TOKEN in its address.")
        rest = urlencode([(key, value) for key, value in request.args.items(multi=True) if key != "token"])
        # out of the address bar and of histories
        answer = redirect(request.path + (f"?{rest}" if rest else ""), 303)
        # Lax: with Strict, whoever comes by a link in a message would be asked again.
        answer.set_cookie(name, kept, httponly=True, samesite="Lax")
        return answer

    @server.after_request
    def careful(answer: Response) -> Response:
        answer.headers["Content-Security-Policy"] = POLICY
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers["Referrer-Policy"] = "no-referrer"
        if not answer.headers.get("Cache-Control"):
            answer.headers["Cache-Control"] = "no-store"
        return answer


def _name(host: str) -> str:
    """Return `127.0.0.1` of `127.0.0.1:8050`, `::1` of `[::1]:8050`."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())
