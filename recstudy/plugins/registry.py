"""A dict that explains itself: an unknown name lists the known ones and the nearest."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import WeakValueDictionary

from recstudy.errors import ConfigError, choices, nearest, raised_at

T = TypeVar("T")
Added = TypeVar("Added")
OWN = "recstudy"


class Entry(NamedTuple):
    """One registered thing, and the module that registered it."""

    registry: "Registry[Any]"
    name: str
    thing: Any
    module: str


class Registry(dict[str, T], Generic[T]):
    """Names of one kind of thing, filled by a decorator.

    >>> families = Registry("model family")
    >>> @families.add("vitrm")
    ... class ViTRM: ...
    """

    def __init__(self, kind: str, marks: str = "_-. ") -> None:
        super().__init__()
        self.kind, self.marks = kind, marks  # characters of names beside letters and digits
        self.modules: dict[str, str] = {}  # by name: the module that registered it
        self.whole = False  # whether a missing name is nowhere else, so that nothing is imported to find it
        self.hidden: list[dict[str, Any]] = []  # by each `in_front`, the outermost first
        _registries[id(self)] = self

    def add(self, name: str) -> Callable[[Added], Added]:
        def register(thing: Added) -> Added:
            self.check_name(name)
            # a thing may be of a class that another module has
            module = sys._getframe(1).f_globals["__name__"]
            own = _is_own(module)
            if not own:
                fill()
            for hidden in self.hidden if own else ():
                if name in hidden:  # a study that was first has taken the name
                    hidden[name] = thing
                    return thing
            if dict.__contains__(self, name):
                by = self.modules.get(name, OWN)
                if _is_own(by) and not own:
                    raise ConfigError(f"the {self.kind} {name!r} is recstudy's own. Give yours another name")
                raise ConfigError(f"the {self.kind} {name!r} is registered twice{_where(by, module)}")
            self.put(name, thing, module)
            return thing

        return register

    def check_name(self, name: object) -> None:
        """Refuse (ConfigError) a name with characters that separate words on the command line, in addresses
        and in file names.
        """
        if not isinstance(name, str) or not re.fullmatch(rf"\w[\w{re.escape(self.marks)}]*", name):
            allowed = f"letters, digits, {', '.join(map(repr, self.marks))}"
            raise ConfigError(
                f"the {self.kind} {name!r} needs another name, of {allowed}, with a letter or digit first"
            )

    def add_all(self, things: Mapping[str, T]) -> None:
        """Add recstudy's own things by their names."""
        for name, thing in things.items():
            self.add(name)(thing)

    def put(self, name: str, thing: Any, module: str) -> None:
        """Add what `module` defines, as `add` does, without a check of the name."""
        self[name], self.modules[name] = thing, module

    @contextmanager
    def in_front(self, things: Mapping[str, T]) -> Iterator[None]:
        """Have these things inside the block, before others of the same names; if there are any, they are all
        that are needed.
        """
        hidden, whole = {name: dict.get(self, name) for name in things}, self.whole
        self.hidden.append(hidden)
        self.update(things)
        self.whole = whole or bool(things)
        try:
            yield
        finally:
            self.whole = whole
            self.hidden.pop()
            for name, thing in hidden.items():
                del self[name]
                if thing is not None:
                    self[name] = thing

    def complete(self) -> Self:
        """Add the recursive models' names and those of installed packages, which otherwise waits until a name
        is missing.
        """
        if not self.whole:
            look_further()
        return self

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (
            not self.whole and look_further() and super().__contains__(name)
        )

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  a dict has no __missing__ in get

    def __missing__(self, name: str) -> T:
        if name in self:
            return self[name]
        known = sorted(self)
        near, reasons = nearest(str(name), known), "".join(f" {reason}." for reason in absent)
        if reasons and not near:  # the likelier cause comes first
            raise ConfigError(f"no {self.kind} {name!r}:{reasons} There are {choices(known)}.")
        raise ConfigError(f"no {self.kind} {name!r}: there are {choices(known)}.{near}{reasons}")


absent: list[str] = []  # why something that was to be loaded is not there: said where a name is missing
GROUP = "recstudy.plugins"  # of entry points, each of which names a module that registers something
offered: set[str] = set()  # modules of installed packages, which every process finds by itself
_has_asked = False  # whether installed packages were asked
# in the order in which they were made
_registries: WeakValueDictionary[int, Registry[Any]] = WeakValueDictionary()


def fill() -> None:
    """Import the recursive models, which register their parts; `import recstudy` does not, to save 0.6 s."""
    import_module("recstudy.programs.recursive")


def look_further() -> bool:
    """Import the recursive models and, the first time, what installed packages offer; true, when done.

    What cannot be imported is told where a name is missing.
    """
    global _has_asked
    fill()
    points = () if _has_asked else entry_points(group=GROUP)
    _has_asked = True
    for point in points:
        try:
            with gathering():
                point.load()
                entries = outside_entries()
        except (Exception, SystemExit) as error:
            package = point.dist.name if point.dist is not None else "a package"
            absent.append(f"The plug-in {point.name!r} of {package} cannot be imported: {raised_at(error)}")
        else:
            _put_back(entries)
            offered.update(entry.module for entry in entries)
    return True


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == OWN


def is_users(kind: type) -> bool:
    """Return whether a class is defined outside of recstudy."""
    return not _is_own(kind.__module__)


def _where(first: str, second: str) -> str:
    """Return which modules have registered a name twice."""
    if first == second:
        return f" in {first}"
    file, other_file = (getattr(sys.modules.get(module), "__file__", None) for module in (first, second))
    if file is not None and file == other_file:
        return (
            f": {file} runs as the study and is imported by another module too. Move what both need to a"
            " third"
        )
    return f", by {first} and by {second}"


def outside_entries() -> list[Entry]:
    """Return what modules outside of recstudy have registered, without those of installed packages that are
    offered to all.
    """
    return [
        Entry(registry, name, thing, module)
        for registry in _registries.values()
        for name, thing in registry.items()
        if not _is_own(module := registry.modules.get(name, OWN)) and module not in offered
    ]


def outsiders() -> list[str]:
    """Return the modules outside of recstudy that have registered something, in the order in which they
    did.
    """
    return list(dict.fromkeys(entry.module for entry in outside_entries()))


@contextmanager
def gathering() -> Iterator[None]:
    """Forget after the block what is registered from outside of recstudy in it, and hide in it what was
    registered before.
    """
    entries = _take_outside()
    try:
        yield
    finally:
        _take_outside()
        _put_back(entries)


def _take_outside() -> list[Entry]:
    entries = outside_entries()
    for entry in entries:
        del entry.registry[entry.name], entry.registry.modules[entry.name]
    return entries


def _put_back(entries: list[Entry]) -> None:
    for entry in entries:
        entry.registry.put(entry.name, entry.thing, entry.module)
