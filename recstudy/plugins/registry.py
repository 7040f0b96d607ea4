"""A dict that explains itself: an unknown name lists the known ones and the nearest."""

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Self, TypeVar

from recstudy.errors import ConfigError, choices, nearest

T = TypeVar("T")
Added = TypeVar("Added")
OWN = "recstudy"


@dataclass(frozen=True)
class Entry:
    """One registered thing, and the module that registered it."""

    registry: "Registry[Any]"
    name: str
    thing: Any
    module: str

    def put(self) -> None:
        self.registry[self.name] = self.thing
        self.registry.modules[self.name] = self.module


class Registry(dict[str, T], Generic[T]):
    """Names of one kind of thing, filled by a decorator.

    >>> families = Registry("model family")
    >>> @families.add("vitrm")
    ... class ViTRM: ...
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.modules: dict[str, str] = {}  # by name: the module that registered it
        self.whole = False  # whether a missing name is nowhere else, so that nothing is imported to find it
        _registries.append(weakref.ref(self))

    def add(self, name: str) -> Callable[[Added], Added]:
        def register(thing: Added) -> Added:
            module = sys._getframe(1).f_globals["__name__"]  # a thing may be of a class that another module has
            own = _is_own(module)
            if not own:
                fill()
            if own and (in_front := next((one for one in _standing if one.has(self, name)), None)) is not None:
                in_front.before.append(Entry(self, name, thing, module))  # a study that was first has taken the name
                return thing
            if dict.__contains__(self, name):
                by = self.modules.get(name, OWN)
                if _is_own(by) and not own:
                    raise ConfigError(f"the {self.kind} {name!r} is recstudy's own. Give yours another name")
                # A study may take a name that another study has.
                if own or not _gathering or _gathering[-1].has(self, name):
                    raise ConfigError(f"the {self.kind} {name!r} is registered twice{_where(by, module)}")
            self.put(name, thing, module)
            return thing

        return register

    def add_all(self, things: Mapping[str, T]) -> None:
        """Add recstudy's own things by their names."""
        for name, thing in things.items():
            self.add(name)(thing)

    def put(self, name: str, thing: Any, module: str) -> None:
        """Add what `module` defines, as `add` does, without a check of the name."""
        entry = Entry(self, name, thing, module)
        if _gathering and not _is_own(module):
            _gathering[-1].append(entry)
        else:
            entry.put()

    def complete(self) -> Self:
        """Add the recursive models' names and those of installed packages, which otherwise waits until a name is missing."""
        if not self.whole:
            look_further()
        return self

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (not self.whole and look_further() and super().__contains__(name))

    def get(self, name: str, default: Any = None) -> Any:
        found = super().get(name)  # a dict has no __missing__ in get
        if found is None and name in self:
            return self[name]
        return default if found is None else found

    def __missing__(self, name: str) -> T:
        if name in self:
            return self[name]
        known = sorted(self)
        near, reasons = nearest(str(name), known), "".join(f" {reason}." for reason in absent)
        if reasons and not near:  # the likelier cause comes first
            raise ConfigError(f"no {self.kind} {name!r}:{reasons} There are {choices(known)}.")
        raise ConfigError(f"no {self.kind} {name!r}: there are {choices(known)}.{near}{reasons}")


absent: list[str] = []  # why something that was to be loaded is not there: said where a name is missing
offered: set[str] = set()  # modules of installed packages, which every process finds by itself
further: list[Callable[[], None]] = []  # what to ask, once, before a name is said to be missing
_registries: list["weakref.ref[Registry[Any]]"] = []
_standing: list["Standing"] = []  # the outermost first
_gathering: list["Standing"] = []  # what is being loaded, the innermost last


def fill() -> None:
    """Import the recursive models, which register their parts; `import recstudy` does not, to save 0.6 s."""
    import_module("recstudy.programs.recursive")


def look_further() -> bool:
    """Import the recursive models and ask those of `further`; true, when done."""
    fill()
    while further:
        further.pop()()
    return True


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == OWN


def _where(one: str, other: str) -> str:
    files = [getattr(sys.modules.get(module), "__file__", None) for module in (one, other)]
    if one != other and files[0] is not None and files[0] == files[1]:
        return f": {files[0]} runs as the study and is imported by another module too. Move what both need to a third"
    return f", by {one} and by {other}" if one != other else f" in {one}"


class Standing(list[Entry]):
    """Entries that stand in their registries, in front of others of the same names, as long as the block runs."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        super().__init__()
        self.before: list[Entry] = []  # what the entries hide
        _standing.append(self)
        for entry in entries:
            self.append(entry)

    def __eq__(self, other: object) -> bool:
        return self is other  # also of two that are empty

    def has(self, registry: Registry[Any], name: str) -> bool:
        return any(entry.registry is registry and entry.name == name for entry in self)

    def append(self, entry: Entry) -> None:
        registry, name = entry.registry, entry.name
        if dict.__contains__(registry, name):
            self.before.append(Entry(registry, name, dict.__getitem__(registry, name), registry.modules.get(name, OWN)))
        super().append(entry)
        entry.put()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _standing.remove(self)
        for entry in self:
            dict.pop(entry.registry, entry.name, None)
            entry.registry.modules.pop(entry.name, None)
        for entry in self.before:
            entry.put()


@contextmanager
def gathering() -> Iterator[Standing]:
    """What is registered from outside of recstudy as long as the block runs, and no longer."""
    with Standing() as entries:
        _gathering.append(entries)
        try:
            yield entries
        finally:
            _gathering.remove(entries)


def outsiders() -> list[str]:
    """Return the modules outside of recstudy that have registered something, in the order in which they did."""
    registries = (registry for ref in _registries if (registry := ref()) is not None)
    modules = dict.fromkeys(module for registry in registries for module in registry.modules.values())
    return [module for module in modules if not _is_own(module) and module not in offered]
