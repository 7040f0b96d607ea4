"""A published number, and the papers that they are of."""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import Field

from recstudy.programs.settings import Config

# A paper's number, by what stands before it or behind it.
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
        | ,?\ (?:\d+\.\d | [IVX]+\b | [Ss]ections?\b | (?:TABLE|Table|Figure)s?\b | text\b | abstract\b | arithmetic\b | setup\b)
      )
    )""",
    re.VERBOSE,
)
TWICE = re.compile(r"((\S+) paper) \(\2(?:(, )|\))")  # the ViTRM paper (002, section 4.4)


class Target(Config):
    """One published number, where it stands, and the settings it was obtained with."""

    source: str = Field(description="paper, place and row, such as `002 Table 1 (002_table1_cifar10#3)`")
    metric: str
    value: float = Field(description="in `unit`")
    unit: str
    kind: str = Field(description="reported, derived or author_repo")
    note: str = ""
    model: str = Field("", description="the name that the paper gives it")
    where: dict[str, Any] = Field(description="by dotted field; None where the paper leaves the value blank")
    against: tuple[str, ...] = Field((), description="why it compares with no result, whatever the settings")
    assumed: str = Field(
        "", description="what its paper leaves blank and we take it to be, such as `N_sup was 16`"
    )
    approximate: bool = Field(False, description="whether its paper gives it as about so much")
    decimals: int | None = Field(None, ge=0, description="as printed")
    std: float | None = Field(
        None, ge=0, description="the printed standard deviation, in `unit`; `note` says over what"
    )
    margin: float = Field(0.0, ge=0, description="results within this distance count as equal, in `unit`")
    margin_reason: str = Field(
        "", description="why so far and no further; without a reason there is no margin"
    )
    row: str = Field(
        "", description="its id in the published table, by which `settings` finds what it was obtained with"
    )
    reference: dict[str, Any] = Field(
        {}, description="of a table of one's own: what its source states besides, by dotted field"
    )
    read_from: Any = Field(
        None, exclude=True, repr=False, description="the `SourceRow` of a table of one's own; not in a plan"
    )

    @property
    def table(self) -> str:
        """The paper and the place, such as `002 Table 1`, which its other values share."""
        return self.source.partition(" (")[0]

    @property
    def cited(self) -> str:
        """The source as a person reads it: `ViTRM Table 1 (002_table1_cifar10#3)`."""
        return by_name(self.source)


@cache
def papers() -> dict[str, dict[str, str]]:
    """Name, title and address of each paper, by the number or word that files and sources begin with."""
    import yaml

    return yaml.safe_load(files("recstudy").joinpath("papers/index.yaml").read_text(encoding="utf-8"))[
        "papers"
    ]


def by_name(text: str) -> str:
    """Return the text with the papers' names for their numbers: `002 4.4.2: more steps` as `ViTRM 4.4.2: more
    steps`, `002-8` as `ViTRM-8`. Numbers that stand for no paper stay: 0.002, 1,002, `seed 003`, and the row
    in `002_table1_cifar10#3`.
    """
    words = NUMBER.sub(lambda match: papers()[match[match.lastindex or 0]]["name"], text)
    return TWICE.sub(lambda match: match[1] + " (" * bool(match[3]), words)
