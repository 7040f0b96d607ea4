"""Deviations that several studies of a paper share, stated once, in `deviations.yaml`."""

from functools import cache
from importlib.resources import files
from typing import Any

from recstudy.errors import ConfigError, choices, nearest
from recstudy.explained import explained
from recstudy.records.study_schema import Deviation


@explained
def deviations(name: str) -> tuple[Deviation, ...]:
    """Return where the studies of a paper knowingly are not as its text or its code.

    Args:
        name: of the list in `recstudy/papers/deviations.yaml`, such as `003_code`.

    Raises:
        ConfigError: there is none of this name.
    """
    lists = _lists()
    if name not in lists:
        raise ConfigError(
            f"no list of deviations {name!r}: there are {choices(lists)}.{nearest(name, lists)}"
        )
    return tuple(Deviation(**stated) for stated in lists[name])


@cache
def _lists() -> dict[str, list[dict[str, Any]]]:
    import yaml

    return yaml.safe_load(files("recstudy").joinpath("papers/deviations.yaml").read_text(encoding="utf-8"))
