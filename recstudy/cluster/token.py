"""Ray's token, for a cluster that asks for one."""

import os
from pathlib import Path


def present_token() -> None:
    """Let Ray show the user's token to the cluster it joins; by itself it does so only for one that it starts.

    Ray reads this when it is imported, so call it before.
    """
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")).expanduser()
    if os.environ.get("RAY_AUTH_TOKEN") or file.exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
