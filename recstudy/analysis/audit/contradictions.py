"""Where a paper contradicts itself, its numbers or its code, for the studies that stand beside its numbers."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from recstudy.analysis.frame import StudyRecords
from recstudy.report import BesidePublished


class Contradiction(NamedTuple):
    """A statement of a paper, what stands against it, and what this project does about it."""

    id: str
    paper: str
    statement: str
    conflict: str
    handling: str

    @property
    def words(self) -> str:
        return f'{self.id}: the paper says "{self.statement}"; but: {self.conflict}. Here: {self.handling}.'


@cache
def contradictions() -> dict[str, Contradiction]:
    """Those of `recstudy/papers/contradictions.yaml`, by id."""
    import yaml

    lines = yaml.safe_load(files("recstudy").joinpath("papers/contradictions.yaml").read_text(encoding="utf-8"))
    return {line["id"]: _read(line) for line in lines}


def papers(records: StudyRecords) -> list[str]:
    """The papers whose numbers the study's report stands beside, such as `002`."""
    targets = [target for part in records.parts if isinstance(part, BesidePublished) for target in part.targets]
    return sorted({target.source[:3] for target in targets})


def of_papers(names: Iterable[str]) -> list[Contradiction]:
    return [one for one in contradictions().values() if one.paper in names]


def _read(line: dict[str, str]) -> Contradiction:
    handling = "noted" if line["handling"] == "note" else line["handling"]
    return Contradiction(line["id"], line["seed"], line["statement"], line["conflict"], handling)
