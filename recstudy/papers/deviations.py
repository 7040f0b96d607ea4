"""Read the deviations that several studies of one paper share from `deviations.yaml`.

Study files call `deviations` for their field of the same name.
"""

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.explained import explained
from recstudy.papers.target import read_published
from recstudy.records.study_schema import Deviation


@explained
def deviations(name: str) -> tuple[Deviation, ...]:
    """Return the known differences of a paper's studies from its text or its code.

    Args:
        name: Name of a list in `recstudy/recursive/papers/deviations.yaml`, such as `003_code`.

    Raises:
        ConfigError: No list has this name.
    """
    lists = read_published("deviations")
    if name not in lists:
        raise ConfigError(
            f"no list of deviations {name!r}: the lists are {choices(lists)}.{nearest(name, lists)}"
        )
    return tuple(Deviation(**fields) for fields in lists[name])
