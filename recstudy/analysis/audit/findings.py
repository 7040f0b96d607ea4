"""What an audit is made of: a finding, and the words that every rule needs to say where it holds and what would settle it."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row

Severity = Literal["question", "note"]
SHOWN = 3  # variants that a line names before it counts the others


@dataclass(frozen=True)
class Finding:
    """One thing that a careful reviewer would ask (`question`), or ought to know (`note`).

    `where`: the variants that it is about, none of them where it is about all. `why`: one sentence. `settle`: what would
    settle it, and `command`, a line to type, where there is one. `known`: ids of the papers' contradictions on the same thing.
    """

    what: str
    why: str
    settle: str
    where: tuple[str, ...] = ()
    command: str = ""
    severity: Severity = "question"
    known: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Three of the variants, and how many more there are."""
        more = [f"{len(self.where) - SHOWN} more"] if len(self.where) > SHOWN else []
        return " / ".join([*self.where[:SHOWN], *more]) or "every variant"


def where(records: StudyRecords, variants: Iterable[int]) -> tuple[str, ...]:
    """The labels of these variants; none where they are all."""
    chosen = sorted(set(variants))
    return () if len(chosen) == len(records.variants) else tuple(records.variants[index].label for index in chosen)


def tasks(records: StudyRecords) -> list[list[int]]:
    """The variants that compare with each other: two or more on the same data, without those that are told the answer.

    Of a search, none: its trials are its question.
    """
    groups: dict[str, list[int]] = {}
    for index, variant in enumerate(records.variants if records.plan.search is None else ()):
        if not records.leaks(index):
            groups.setdefault(variant.data, []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def done(records: StudyRecords, variants: Iterable[int] | None = None) -> list[Row]:
    """The finished runs, of these variants or of all."""
    chosen = range(len(records.variants)) if variants is None else variants
    return [run for index in chosen for run in records.by_variant[index] if run.done]


def swept(records: StudyRecords, field: str) -> bool:
    """Whether the field is an axis of the study: then its levels are the question, and nothing to ask about."""
    return field in records.plan.axes.values()


def command(records: StudyRecords, *flags: str) -> str:
    """The study's own command, with these flags, each before its value, in place of those it has."""
    words, given = shlex.split(records.plan.command), flags[::2]
    kept = [
        word for at, word in enumerate(words) if word.partition("=")[0] not in given and (not at or words[at - 1] not in given)
    ]
    return shlex.join([*kept, *flags])


def setting(records: StudyRecords, field: str, value: str) -> str:
    """The study's own command with one setting changed; none where the study varies it."""
    if swept(records, field):
        return ""
    return f"{records.plan.command} --set {field}={value}"


def counted(values: Sequence[object], unit: str = "") -> str:
    """`1,000 (3), 300 (6)`: each value with how often it is there."""
    distinct = list(dict.fromkeys(values))
    return ", ".join(f"{_plain(value)}{unit} ({values.count(value)})" for value in distinct)


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
