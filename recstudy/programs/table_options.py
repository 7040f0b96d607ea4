"""What a user states about a table of finished runs, on the command line or in Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MetricFields = Mapping[str, Any] | None  # the stated fields of a metric


def listed(words: str) -> list[str]:
    """Return the words between commas.

    >>> listed("lr, depth")
    ['lr', 'depth']
    """
    return [word.strip() for word in words.split(",") if word.strip()]


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The stated roles of columns, and the rules that reduce lines to runs. A list may be a text: `A,B`.

    Args:
        settings: The columns that are settings. By default they are detected.
        metrics: The columns that are metrics, the most important first, with their stated fields.
        seed: The column of the seed. Without one, runs with equal settings are numbered.
        items: The column of the test item, if each line has the result of one item. `none`: no column.
        blocks: The settings within which variants are compared. `none`: no setting.
        base: The levels with which other levels are compared, such as `baseline` or `lr=0.1`. By default a
            level whose name begins with baseline, else the best.
        texts: The settings whose cells are texts although they may look like numbers.
        last: The column that counts the lines of a run. The last line of each run counts.
        best: The metric by which the best line of each run counts.
        lines_are_runs: Whether each line is a run. Ids and seeds are then left out.
        paired: Whether variants with the same seed share data order and initialization.
        test_share: The share of the data that a seed or a fold tests, if these test sets overlap in training
            data (Nadeau and Bengio). It implies `paired`.
        replace: Whether the table replaces what was imported before under the same name.
    """

    settings: Sequence[str] = ()
    metrics: Mapping[str, MetricFields] = field(default_factory=dict)
    seed: str = ""
    items: str = ""
    blocks: Sequence[str] = ()
    base: Sequence[str] = ()
    texts: Sequence[str] = ()
    last: str = ""
    best: str = ""
    lines_are_runs: bool = False
    paired: bool = False
    test_share: float = 0.0
    replace: bool = False

    def __post_init__(self) -> None:
        for name in ("settings", "blocks", "base", "texts"):
            if isinstance(words := getattr(self, name), str):
                object.__setattr__(self, name, listed(words))
