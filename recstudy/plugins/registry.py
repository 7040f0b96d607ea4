"""Define `Registry`, a dict of named things whose error for an unknown name lists the known names.

Every extensible part of recstudy has one, such as model families, metrics and optimizers. Registries import
the recursive models and installed plug-ins only when a name is missing.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distribution, entry_points
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import WeakValueDictionary

from recstudy.base.errors import ConfigError, choices, nearest, raised_at

T = TypeVar("T")
Added = TypeVar("Added")
PACKAGE = "recstudy"


class Entry(NamedTuple):
    """A registered thing, with the module that registered it."""

    registry: "Registry[Any]"
    name: str
    thing: Any
    module: str


class Registry(dict[str, T], Generic[T]):
    """The registered things of one kind by name, filled by a decorator.

    Args:
        kind: What the things are, for messages.
        marks: Characters that names may have besides letters and digits.

    >>> families = Registry("model family")
    >>> @families.add("vitrm")
    ... class ViTRM: ...
    """

    def __init__(self, kind: str, marks: str = "_-. ") -> None:
        super().__init__()
        self.kind, self.marks = kind, marks
        self.modules: dict[str, str] = {}  # name -> module that registered it
        self.is_complete = False  # if true, nothing is imported to find a missing name
        self.hidden: list[dict[str, Any]] = []  # things replaced by each `overlay`, the outermost first
        _registries[id(self)] = self

    def add(self, name: str) -> Callable[[Added], Added]:
        """Return a decorator that registers a class or function under this name.

        Raises:
            ConfigError: The name is taken, or has characters that names cannot have.
        """

        def register(thing: Added) -> Added:
            self.check_name(name)
            # The caller's module: `thing.__module__` may be another one if it is an object of a class.
            module = sys._getframe(1).f_globals["__name__"]
            is_own = _is_own(module)
            if not is_own:
                fill()
            for hidden in self.hidden if is_own else ():
                if name in hidden:  # a study overlays this name, and recstudy's own thing is imported later
                    hidden[name] = thing
                    return thing
            if dict.__contains__(self, name):
                first_module = self.modules.get(name, PACKAGE)
                if _is_own(first_module) and not is_own:
                    raise ConfigError(
                        f"the {self.kind} {name!r} exists in recstudy already. Give yours another name"
                    )
                modules = _describe_modules(first_module, module)
                raise ConfigError(f"the {self.kind} {name!r} is registered twice{modules}")
            self.set_entry(name, thing, module)
            return thing

        return register

    def check_name(self, name: object) -> None:
        """Check that a name can be used on the command line, in addresses and in file names.

        Raises:
            ConfigError: The name has other characters, or does not start with a letter or digit.
        """
        if not isinstance(name, str) or not re.fullmatch(rf"\w[\w{re.escape(self.marks)}]*", name):
            allowed = f"letters, digits, {', '.join(map(repr, self.marks))}"
            raise ConfigError(
                f"the {self.kind} {name!r} has an invalid name. Names consist of {allowed} and start with a"
                " letter or digit"
            )

    def add_all(self, things: Mapping[str, T]) -> None:
        """Register recstudy's own things by their names."""
        for name, thing in things.items():
            self.add(name)(thing)

    def set_entry(self, name: str, thing: Any, module: str) -> None:
        """Register a thing of `module` without checking its name."""
        self[name], self.modules[name] = thing, module

    @contextmanager
    def overlay(self, things: Mapping[str, T]) -> Iterator[None]:
        """Add these things inside the block; they replace others of the same names.

        If there are any, the registry counts as complete inside the block, so a missing name imports nothing.
        """
        hidden, was_complete = {name: dict.get(self, name) for name in things}, self.is_complete
        self.hidden.append(hidden)
        self.update(things)
        self.is_complete = was_complete or bool(things)
        try:
            yield
        finally:
            self.is_complete = was_complete
            self.hidden.pop()
            for name, thing in hidden.items():
                del self[name]
                if thing is not None:
                    self[name] = thing

    def complete(self) -> Self:
        """Import the recursive models and installed plug-ins now and return the registry.

        Otherwise they are imported when a name is missing.
        """
        if not self.is_complete:
            look_further()
        return self

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (
            not self.is_complete and look_further() and super().__contains__(name)
        )

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  a dict has no __missing__ in get

    def __missing__(self, name: str) -> T:
        if name in self:
            return self[name]
        names = sorted(self)
        hint = nearest(str(name), names)
        reasons = "".join(f" {reason}." for reason in missing_reasons)
        # Without a similar name, a failed import is the likelier cause, so it comes first.
        if reasons and not hint:
            raise ConfigError(f"no {self.kind} {name!r}:{reasons} There are {choices(names)}.")
        raise ConfigError(f"no {self.kind} {name!r}: there are {choices(names)}.{hint}{reasons}")


missing_reasons: list[str] = []  # why modules could not be imported; quoted by errors about missing names
GROUP = "recstudy.plugins"  # group of entry points, each of which names a module that registers something
offered: set[str] = set()  # modules of installed packages; every process imports them by itself
_has_asked = False  # whether the entry points of installed packages were loaded
# all registries, in the order in which they were created
_registries: WeakValueDictionary[int, Registry[Any]] = WeakValueDictionary()


@cache
def fill() -> None:
    """Import the programs that recstudy itself offers: the recursive models, which register their parts.

    They are entry points of the installed package, as the plug-ins of others are. `import recstudy` does not
    import them, which saves 0.6 s.
    """
    for point in distribution(PACKAGE).entry_points.select(group=GROUP):
        point.load()


def look_further() -> bool:
    """Import the recursive models and, in the first call, the plug-ins of installed packages.

    Errors of plug-ins are quoted when a name is missing.

    Returns:
        True, so that the call can be part of a condition.
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
            missing_reasons.append(
                f"The plug-in {point.name!r} of {package} cannot be imported: {raised_at(error)}"
            )
        else:
            _restore(entries)
            offered.update(entry.module for entry in entries)
    return True


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def is_users(kind: type) -> bool:
    """Return whether a class is defined outside of recstudy."""
    return not _is_own(kind.__module__)


def _describe_modules(first: str, second: str) -> str:
    """Return the end of an error message about the two modules that registered the same name."""
    if first == second:
        return f" in {first}"
    file, other_file = (getattr(sys.modules.get(module), "__file__", None) for module in (first, second))
    if file is not None and file == other_file:
        return (
            f": {file} runs as the study and is also imported by another module. Move the code that both need"
            " to a third module"
        )
    return f", by {first} and by {second}"


def outside_entries() -> list[Entry]:
    """Return the entries of modules outside of recstudy, without those of installed plug-ins."""
    return [
        Entry(registry, name, thing, module)
        for registry in _registries.values()
        for name, thing in registry.items()
        if not _is_own(module := registry.modules.get(name, PACKAGE)) and module not in offered
    ]


def outsiders() -> list[str]:
    """Return the modules outside of recstudy that have registered something, by registry, then by time."""
    return list(dict.fromkeys(entry.module for entry in outside_entries()))


@contextmanager
def gathering() -> Iterator[None]:
    """Start the block without entries from outside of recstudy, and restore the earlier ones after it.

    Entries that the block itself adds from outside of recstudy are removed after it.
    """
    entries = _take_outside()
    try:
        yield
    finally:
        _take_outside()
        _restore(entries)


def _take_outside() -> list[Entry]:
    entries = outside_entries()
    for entry in entries:
        del entry.registry[entry.name], entry.registry.modules[entry.name]
    return entries


def _restore(entries: list[Entry]) -> None:
    for entry in entries:
        entry.registry.set_entry(entry.name, entry.thing, entry.module)
