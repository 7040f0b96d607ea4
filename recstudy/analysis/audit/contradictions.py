"""Where a paper contradicts itself or its code, or claims more than its numbers bear, for the studies beside them."""

from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from recstudy.analysis.audit.worked import WORKED
from recstudy.analysis.frame import StudyRecords
from recstudy.papers import by_name
from recstudy.report import BesidePublished


class Contradiction(NamedTuple):
    """A statement of a paper, what stands against it, and what this project does about it.

    `place`: the paper's section or table. `quoted`: the statement is the paper's own words, letter by letter; else it is ours.
    """

    id: str
    paper: str
    place: str
    statement: str
    quoted: bool
    conflict: str
    handling: str

    @property
    def called(self) -> str:
        """Its id as a person reads it: `ViTRM-8`."""
        return by_name(self.id)

    @property
    def said(self) -> str:
        """The statement, in quotation marks where it is one, and where it stands."""
        return (f'"{self.statement}"' if self.quoted else self.statement) + f" ({self.place})"

    @property
    def words(self) -> str:
        return f"{self.called}: the paper says {self.said}; but: {self.conflict}. Here: {self.handling}."


@cache
def contradictions() -> dict[str, Contradiction]:
    """Those of `recstudy/papers/contradictions.yaml`, by id."""
    import yaml

    text = files("recstudy").joinpath("papers/contradictions.yaml").read_text(encoding="utf-8")
    lines = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # in C, where it is built: in a tenth of 50 ms
    return {line["id"]: _read(line) for line in lines}


def papers(records: StudyRecords) -> list[str]:
    """The papers whose numbers the study's report stands beside, such as `002`."""
    targets = [target for part in records.parts if isinstance(part, BesidePublished) for target in part.targets]
    return sorted({target.source[:3] for target in targets})


def of_papers(names: Collection[str]) -> list[Contradiction]:
    return [one for one in contradictions().values() if one.paper in names] if names else []


def _read(line: dict[str, str]) -> Contradiction:
    quoted, worked = "quote" in line, WORKED.get(line["id"])
    return Contradiction(
        id=line["id"],
        paper=line["seed"],
        place=line["where"],
        statement=line["quote" if quoted else "says"],
        quoted=quoted,
        conflict=line["conflict"].format(**worked()) if worked else line["conflict"],
        handling="noted" if line["handling"] == "note" else line["handling"],
    )
