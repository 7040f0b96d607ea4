"""The studies at the place that a command is given: a folder or the URI of results."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from recstudy.base.errors import ConfigError, PartError, StorageError
from recstudy.records import Results
from recstudy.records.stores import is_uri

T = TypeVar("T")


def for_each_study(
    studies: Iterable[tuple[Results, str, str]], work: Callable[[Results, str, str], T]
) -> list[T]:
    """Return the results of `work` for each study (results folder, name, preset).

    Raises:
        StorageError, PartError: Some studies are damaged. The others have been processed.
    """
    done: list[T] = []
    damages: list[StorageError | PartError] = []
    for study in studies:
        try:
            done.append(work(*study))
        except (StorageError, PartError) as damage:
            damages.append(damage)
    if damages:
        raise type(damages[0])(" ".join(map(str, damages)))
    return done


def studies_of(place: str, sends: bool = False) -> list[tuple[Results, str, str]]:
    """Return the studies in a folder or object store.

    Args:
        place: A folder, or the URI of results on an object store, of which a local copy is read.
        sends: Send changes of the local copy to the store.

    Returns:
        The results folder, the name and the preset of each study.

    Raises:
        ConfigError: There is no study.
    """
    from recstudy.report.status import studies_at

    if not is_uri(place):
        return studies_at(Path(place.removeprefix("file://")))
    store = Results(place).pull()
    if not any(store.root.glob("studies/*/*/plan.json")):
        raise ConfigError(f"{place} has no study. Give the URI of --results.")
    return [(store if sends else copy, name, preset) for copy, name, preset in studies_at(store.root)]
