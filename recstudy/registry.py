"""A dict that explains itself: an unknown name lists the known ones and the nearest."""

from collections.abc import Callable
from typing import Generic, TypeVar

from recstudy.errors import ConfigError, choices, nearest

T = TypeVar("T")
Added = TypeVar("Added")


class Registry(dict[str, T], Generic[T]):
    """Names of one kind of thing, filled by a decorator.

    >>> families = Registry("model family")
    >>> @families.add("vitrm")
    ... class ViTRM: ...
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def add(self, name: str) -> Callable[[Added], Added]:
        def register(thing: Added) -> Added:
            if name in self:
                raise ConfigError(f"the {self.kind} {name!r} is registered twice")
            self[name] = thing  # type: ignore[assignment]
            return thing

        return register

    def __missing__(self, name: object) -> T:
        known = sorted(self)
        raise ConfigError(f"no {self.kind} {name!r}: there are {choices(known)}.{nearest(str(name), known)}")
