"""Control who may read the board: local users, or readers with the token. `server.py` installs the checks.

A token in the address is exchanged once for a cookie.
"""

import hashlib
import hmac
import ipaddress
from urllib.parse import urlencode, urlsplit

from flask import Flask, Response, abort, redirect, request
from werkzeug.wrappers import Response as Answer

from recstudy.base.errors import ConfigError

SHORTEST = 16  # minimum number of characters of a token
MAKE_ONE = "python -c 'import secrets; print(secrets.token_urlsafe())'"
LARGEST = 2**20  # maximum number of bytes of a request
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def is_local(host: str) -> bool:
    """Return whether only this machine can reach `host`, such as `localhost` or `127.0.0.1`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(host: str, token: str) -> None:
    """Check the address and the token of a board.

    Raises:
        ConfigError: Other machines can reach `host` without a token, or the token is too short.
    """
    if token and len(token) < SHORTEST:
        raise ConfigError(
            f"the board's token needs at least {SHORTEST} characters, but has {len(token)}. Make one:"
            f" {MAKE_ONE}"
        )
    if not token and not is_local(host):
        raise ConfigError(
            f"--host {host} lets others read the results. Give a --token (or set RECSTUDY_BOARD_TOKEN), or"
            f" listen on 127.0.0.1 and reach it through ssh -L. Make a token: {MAKE_ONE}"
        )


def guard(server: Flask, host: str, port: int, token: str) -> None:
    """Check every request, and set security headers in every response.

    Args:
        server: The application of the board.
        host: The address where it listens.
        port: The port where it listens.
        token: The token of readers. If empty, no token is needed.
    """
    name, cookie_value = f"recstudy_board_{port}", hashlib.sha256(token.encode()).hexdigest()
    server.config["MAX_CONTENT_LENGTH"] = LARGEST

    @server.before_request
    def may_read() -> Answer | None:
        # DNS rebinding: a page of another site can make a browser ask 127.0.0.1 under that site's name.
        if is_local(host) and not is_local(_name(request.host)):
            abort(403, "This board only answers to 127.0.0.1 and localhost.")
        if not token or _equal(request.cookies.get(name, ""), cookie_value):
            return None
        if not _equal(request.args.get("token", ""), token):
            abort(403, "This board needs its token. Open it once with ?token=TOKEN in the address.")
        rest = urlencode([(key, value) for key, value in request.args.items(multi=True) if key != "token"])
        # The redirect removes the token from the address bar and the browser's history.
        answer = redirect(request.path + (f"?{rest}" if rest else ""), 303)
        # Lax, because with Strict a reader who follows a link in a message would need the token again.
        answer.set_cookie(name, cookie_value, httponly=True, samesite="Lax")
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
    """Return the host name without the port: `127.0.0.1` for `127.0.0.1:8050`, `::1` for `[::1]:8050`."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _equal(text: str, secret: str) -> bool:
    # In constant time, so that the duration does not reveal how many characters match.
    return hmac.compare_digest(text.encode(), secret.encode())
