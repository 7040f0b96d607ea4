"""The command `recstudy board`."""

import os
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from recstudy.cli.options import (
    Imports,
    ResultsArgument,
    Several,
)


@dataclass(frozen=True)
class BoardCommand:
    """Show studies and runs in a browser while they run.

    The board changes no run. Showing verdicts adds a look to studies/looks.jsonl.
    """

    path: ResultsArgument = "results"
    """A results folder, or its URI (default: results)."""
    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """The address to listen on (default: 127.0.0.1). Addresses other than this machine need a token."""
    port: Annotated[int, arg(metavar="N")] = 8050
    """The port (default: 8050). 0 chooses a free one."""
    token: Annotated[str, arg(metavar="TOKEN")] = ""
    """Access token. Readers open the board with ?token=TOKEN once. Default: RECSTUDY_BOARD_TOKEN."""
    trust: Imports = False
    link: Annotated[Several, arg(metavar="NAME=URL")] = ()
    """A link to show, such as "Ray dashboard=http://head:8265". May be repeated."""

    def run(self) -> int:
        from recstudy.board.server import BoardServer  # it loads Flask

        token = self.token or os.environ.get("RECSTUDY_BOARD_TOKEN", "")
        links = dict(link.partition("=")[::2] for link in self.link)
        server = BoardServer(self.path, self.host, self.port, token, links, self.trust)
        asks = ", which asks once for ?token=TOKEN" if token else ""
        print(f"Board: {server.url}{asks} (Ctrl-C stops it)", flush=True)
        server.run()
        return 0
