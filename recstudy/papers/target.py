"""Define a published number as a target, and name the papers.

`recstudy.papers` makes targets from tables; plans store them, and reports compare results with them.
"""

import csv
import operator
import re
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from recstudy.programs.settings import Config
from recstudy.records.files import Json

# Published tables, and how to read them. Their data come with the recursive models.
PUBLISHED = files("recstudy").joinpath("recursive/papers")
# The number of a paper in a text. The words before and after it tell it from other numbers.
NUMBER = re.compile(
    r"""
      ^(00[0-4]|trm|ptrm|arcprize)(?=:?\ \S)             # a source, a claim: 002 Table 1, 004: HRM is
    | (?<![\w.,#/+-])(?:
      [Pp]aper\ (00[0-4])\b(?![.,]\d)                    # paper 002
    | (?:(?<=\bof\ )|(?<=\bthat\ ))(00[0-4])\b(?![.,]\d) # Table III of 003, numbers that 003 takes over
    | (?<=\()(00[0-4])(?=[,;)])                          # (002), (000, section III.D)
    | (?<=:\ )(00[0-4])(?=\ [a-z]+s\b)                   # read with it: 003 scores
    | (00[0-4])(?=
          -\d{1,2}\b | 's\b | :\                         # contradiction 002-8, 003's, 004: HRM is
        | ,?\ (?:\d+\.\d | [IVX]+\b | [Ss]ections?\b | (?:TABLE|Table|Figure)s?\b
          | text\b | abstract\b | arithmetic\b | setup\b)
      )
    )""",
    re.VERBOSE,
)
REPEATED_NAME = re.compile(r"((\S+) paper) \(\2(?:(, )|\))")  # the ViTRM paper (002, section 4.4)


class Target(Config):
    """One published number with its source and its settings."""

    source: str
    """paper, place and row, such as `002 Table 1 (002_table1_cifar10#3)`"""
    metric: str
    value: float
    """in `unit`"""
    unit: str
    kind: str
    """reported, derived or author_repo"""
    note: str = ""
    model: str = ""
    """name of the method in the paper"""
    where: Json
    """settings by dotted field; None if the paper does not state it"""
    against: tuple[str, ...] = ()
    """why no result is comparable, whatever the settings"""
    assumed: str = ""
    """what the paper does not state and recstudy assumes, such as `N_sup was 16`"""
    approximate: bool = False
    """whether the paper gives only an approximate value"""
    decimals: NonNegativeInt | None = None
    """number of printed decimals"""
    std: NonNegativeFloat | None = None
    """the printed standard deviation, in `unit`; `note` tells over what"""
    margin: NonNegativeFloat = 0.0
    """results within this distance count as equal, in `unit`"""
    margin_reason: str = ""
    """reason for the margin, required with it"""
    row: str = ""
    """id of the row in the published table, by which `settings` finds its settings"""
    cell: str = Field("", exclude_if=operator.not_)
    """the page and cell of a user's table, such as `page 5, row ViT-Small`"""
    quote: str = Field("", exclude_if=operator.not_)
    """a few words of the source of a user's table, with the number"""
    reference: Json = Field({})
    """further settings that the source of a user's table states, by dotted field"""
    read_from: Any = Field(None, exclude=True, repr=False)
    """the `SourceRow` of a user's table; not stored in a plan"""

    @property
    def table(self) -> str:
        """The paper and the table, such as `002 Table 1`."""
        return self.source.partition(" (")[0]

    @property
    def cited(self) -> str:
        """The source with the paper's name: `ViTRM Table 1 (002_table1_cifar10#3)`."""
        return by_name(self.source)


def number_of(text: str) -> float | None:
    """Return the number in a cell of a table; None if it has none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


@cache
def published_yaml(name: str) -> Any:
    """Return the content of a YAML file beside the published tables, such as `settings`."""
    from recstudy.base.strict_yaml import read_yaml  # it loads PyYAML, without which --help is faster

    return read_yaml(PUBLISHED.joinpath(f"{name}.yaml").read_text(encoding="utf-8"))


def published_csv(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file of published numbers."""
    text = PUBLISHED.joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def papers() -> dict[str, dict[str, str]]:
    """Return the name, title and address of each paper, by its number or short name in files and sources."""
    return published_yaml("index")["papers"]


def by_name(text: str) -> str:
    """Replace papers' numbers in a text by their names.

    `002 4.4.2: more steps` becomes `ViTRM 4.4.2: more steps`, and `002-8` becomes `ViTRM-8`. Other numbers
    are unchanged: 0.002, 1,002, `seed 003`, and the row id `002_table1_cifar10#3`.
    """
    words = NUMBER.sub(lambda match: papers()[match[match.lastindex or 0]]["name"], text)
    return REPEATED_NAME.sub(lambda match: match[1] + " (" * bool(match[3]), words)
