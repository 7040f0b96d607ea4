"""Config fields as columns of a table, before its numbers: what a variant is, as the papers' tables say it."""

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.names import DASH, axis_title, plain
from recstudy.analysis.spec import Table


def settings_of(records: StudyRecords, index: int, spec: Table) -> tuple[tuple[str, ...], ...]:
    """A variant's value of each field of each setting, in words; a dash where its model has no such field.

    Raises:
        ConfigError: no variant has such a field or axis.
    """
    return tuple(tuple(_word(records, index, path) for path in fields_of(setting)) for setting in spec.settings)


def fields_of(setting: str | tuple[str, ...]) -> tuple[str, ...]:
    return (setting,) if isinstance(setting, str) else setting


def settings_title(fields: tuple[str, ...]) -> str:
    """`high/middle/low cycles` of three fields that end alike, `weights/tuned` of two that do not."""
    titles = [axis_title(path).split() for path in fields]
    alike = 0
    while len(fields) > 1 and all(len(title) > alike + 1 and title[-alike - 1] == titles[0][-alike - 1] for title in titles):
        alike += 1
    ends = titles[0][len(titles[0]) - alike :]
    return " ".join(["/".join(" ".join(title[: len(title) - alike]) for title in titles), *ends])


def settings_text(words: tuple[str, ...]) -> str:
    """`2/0/2`; one dash where there is none of them."""
    return DASH if set(words) == {DASH} else "/".join(words)


def _word(records: StudyRecords, index: int, path: str) -> str:
    value = records.level(index, path)
    there = value is not None or path in records.configs[index] or path in records.variants[index]["levels"]
    return plain(value) if there else DASH
