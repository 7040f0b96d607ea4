"""What a rule of the audit is: it finds what a careful reviewer would ask, why it matters, and what would settle it.

Rules are pure functions of the records. None of them refuses anything: a study may have its reasons, and then its text should
give them.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from recstudy.analysis.caveats import some
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row

Severity = Literal["question", "note"]


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
        """Name three of the variants, and count the others."""
        return some(self.where) or "every variant"


class Observation(NamedTuple):
    """What a check found in these variants (None: in all; no variant: nothing was found), or in these rows of a table."""

    what: str
    variants: Iterable[int] | None = None
    command: str = ""
    note: bool = False
    rows: tuple[str, ...] = ()
    settle: str = ""
    why: str = ""


Check = Callable[[StudyRecords], Iterator[Observation]]
RULES: dict[str, Callable[[StudyRecords], Iterator[Finding]]] = {}  # by what is checked, in the words and order of the report


def rule(name: str, why: str, settle: str = "", *known: str) -> Callable[[Check], None]:
    """Add a check to `RULES`, with why its findings matter and what would settle them, unless they say otherwise themselves."""

    def add(check: Check) -> None:
        def findings(records: StudyRecords) -> Iterator[Finding]:
            for found in check(records):
                everywhere = set(range(len(records.variants)))  # none before the first trial of a search
                chosen = everywhere if found.variants is None else set(found.variants)
                if chosen or found.variants is None:
                    labels = [records.variants[index].label for index in sorted(chosen)] if chosen != everywhere else []
                    severity: Severity = "note" if found.note else "question"
                    texts = found.what, found.why or why, found.settle or settle
                    yield Finding(*texts, found.rows or tuple(labels), found.command, severity, known)

        RULES[name] = findings

    return add


def compared(records: StudyRecords) -> list[list[int]]:
    """Group the variants that compare: two or more on the same data, none that is told the answer, no trials of a search."""
    groups: dict[str, list[int]] = {}
    for index, variant in enumerate(records.variants if records.plan.search is None else ()):
        if not records.leaks(index):
            groups.setdefault(variant.data, []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def done(records: StudyRecords, variants: Iterable[int] | None = None) -> list[Row]:
    """Return the finished runs, of these variants or of all."""
    if variants is None:
        return records.once("done", lambda: done(records, range(len(records.variants))))
    return [run for index in variants for run in records.by_variant[index] if run.done]


def levels(records: StudyRecords, variants: Iterable[int], field: str) -> list[object]:
    """Return the variants' values of a config field."""
    return [records.configs[index].get(field) for index in variants]


def command(records: StudyRecords, *flags: str) -> str:
    """Return the study's own command, with these flags, each before its value, in place of those it has."""
    words, given = shlex.split(records.plan.command), flags[::2]
    kept = [
        word for at, word in enumerate(words) if word.partition("=")[0] not in given and (not at or words[at - 1] not in given)
    ]
    return shlex.join([*kept, *flags])


def setting(records: StudyRecords, field: str, value: str) -> str:
    """Return the study's own command with one setting changed; none where the study varies it."""
    return "" if field in records.plan.axes.values() else f"{records.plan.command} --set {field}={value}"


def counted(values: Sequence[object]) -> str:
    """Count each value, such as `1,000 (3), 300 (6)`."""
    words = {value: f"{value:,}" if type(value) is int else str(value) for value in values}
    return ", ".join(f"{word} ({values.count(value)})" for value, word in words.items())
