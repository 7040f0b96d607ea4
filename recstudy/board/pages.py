"""Which page an address asks for."""

from urllib.parse import parse_qsl, unquote

from recstudy.board.compare import compare_page
from recstudy.board.markup import Address, Page
from recstudy.board.overview import overview
from recstudy.board.run import run_page
from recstudy.board.runlist import runs_page
from recstudy.board.sources import Sources
from recstudy.board.study import study_page
from recstudy.errors import ConfigError

FIELDS = 20  # of an address


def address(path: str, search: str = "") -> Address:
    """From what a browser's address bar holds; more fields than any page has are passed over."""
    words = tuple(unquote(word) for word in path.split("/") if word)
    fields = "&".join(search.removeprefix("?").split("&", FIELDS)[:FIELDS])
    return Address(words, tuple(sorted(dict(parse_qsl(fields)).items())))


def page(sources: Sources, asked: Address) -> Page:
    """The page at this address.

    Raises:
        ConfigError: there is none. The message names the thing that is missing.
    """
    match asked.path:
        case ():
            return overview(sources, asked)
        case ("study", _, _):
            return study_page(sources, asked)
        case ("runs", _, _):
            return runs_page(sources, asked)
        case ("run", _):
            return run_page(sources, asked)
        case ("compare",):
            return compare_page(sources, asked)
    raise ConfigError(
        f"no page at /{'/'.join(asked.path)}: there are /, /study/NAME/PRESET, /runs/NAME/PRESET, /run/ID and /compare"
    )
