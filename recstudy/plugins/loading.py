"""A user's modules in this process: imported from where they lie or from a copy, anew where they have changed.

Several studies may name their modules and what they register alike, so each one's stand in front of the others' only as long
as they are used: for good in a worker, for as long as a block runs in a reader.
"""

import importlib
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import entry_points
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from recstudy.errors import ConfigError
from recstudy.files import sha
from recstudy.plugins import registry
from recstudy.plugins.bundle import Bundle, bundle_of, main_bundle, module_of, paths, source, unguarded
from recstudy.plugins.registry import Entry, Standing, gathering, outsiders
from recstudy.plugins.trust import GROUP, named, remember, trusted

_lock = threading.RLock()  # one thread at a time has modules of a study in place
_importing: list[str] = []


class _Loader(SourceFileLoader):
    """Gives a module the text that was sent or recorded, which its file may no longer hold when it is imported."""

    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.text, self.path)


class _Finder(MetaPathFinder):
    """Finds a bundle's modules before any other of their names; in its packages others, too, where `anywhere` says so."""

    def __init__(self, bundle: Bundle, root: Path, anywhere: bool) -> None:
        self.bundle, self.root, self.anywhere = bundle, root, anywhere

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        below = self.bundle.path(fullname)
        file, within = self.root / below, [str(self.root.joinpath(*fullname.split(".")))] if self.anywhere else []
        if below:
            loader = _Loader(fullname, str(file), self.bundle.files[below])
            folder = within if file.name == "__init__.py" else None
            return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=folder)
        if fullname in self.bundle.packages and not self.anywhere:  # one without a file
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = []
            return spec
        return None


class Layer:
    """The modules of one study: imported once, in place as long as `standing` runs.

    Args:
        bundle: which, and what is in them.
        root: the folder that they are imported from.
        refused: why some are not imported.
        anywhere: whether they may import what else lies there.
    """

    def __init__(self, bundle: Bundle, root: Path, refused: Sequence[str] = (), anywhere: bool = True) -> None:
        self.bundle, self.root, self.refused, self.anywhere = bundle, root, list(refused), anywhere
        self.names = {*map(module_of, bundle.files), *bundle.packages}
        self.modules: dict[str, ModuleType] = {}
        self.entries: list[Entry] = []
        self.problems = list(refused)
        self._standing = False

    def load(self) -> None:
        """Import what registers something; what cannot be is told in `problems`."""
        if len(self.bundle.modules) > sum(bool(self.bundle.path(name)) for name in self.bundle.modules):
            registry.look_further()  # one that is installed may be offered to every study: then it is not this one's own
        with self._importable(), gathering() as entries:
            problems = [_imported(name, self.root) for name in self.bundle.modules]
            self.entries = list(entries)
        self.problems += filter(None, problems)

    @contextmanager
    def standing(self) -> Iterator[None]:
        """In place as long as the block runs, and an outer one."""
        if self._standing:
            yield
            return
        with self._importable(), Standing(self.entries), gathering() as late:
            registry.absent[:0] = self.problems
            self._standing = True
            try:
                yield
            finally:
                self._standing = False
                del registry.absent[: len(self.problems)]
                self.entries += late

    @contextmanager
    def _importable(self) -> Iterator[None]:
        hidden = {name: sys.modules.pop(name) for name in self.names if name in sys.modules}
        finder, path = _Finder(self.bundle, self.root, self.anywhere), [str(self.root)] * self.anywhere
        sys.modules.update(self.modules)
        sys.meta_path.insert(0, finder)
        sys.path[:0] = path
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            for own in path:
                sys.path.remove(own)
            self.modules = {name: sys.modules.pop(name) for name in self.names if name in sys.modules}
            sys.modules.update(hidden)


def _imported(name: str, root: Path) -> str:
    """Import a module; why it cannot be, in one line, or nothing."""
    _importing.append(name)
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        return f"{name} cannot be imported: {_reason(error, root)}"
    finally:
        _importing.pop()
    return ""


def _reason(error: BaseException, root: Path) -> str:
    """Return the user's file and line where it was raised, and the error."""
    if isinstance(error, SyntaxError):
        return f"{_below(error.filename or '', root)}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(root)]
    at = f"{_below(frames[-1].filename, root)}, line {frames[-1].lineno}: " if frames else ""
    return f"{at}{type(error).__name__}: {' '.join(str(error).split())}"


def _below(file: str, root: Path) -> str:
    path = Path(file)
    return str(path.relative_to(root)) if path.is_relative_to(root) else file


# ------------------------------------------------------------------------------------------------------- where it runs


_used: tuple[Bundle, ExitStack] | None = None
_kept: Bundle | None = None


def bundle() -> Bundle:
    """Return what this process has from outside: what it was given, or what its study and the modules beside it define.

    Raises:
        ConfigError: some of it cannot be had in another process.
    """
    return _used[0] if _used is not None else _kept or main_bundle(outsiders())


@contextmanager
def kept() -> Iterator[None]:
    """Have the study's modules stay as they are now while the block runs, whatever becomes of their files.

    What the driver gives to workers and what is imported later (a network that a family names by a string) are then the texts
    that the plan records.

    Raises:
        ConfigError: some of it cannot be had in another process.
    """
    global _kept
    if _used is not None or _kept is not None:
        yield
        return
    _kept = bundle()
    root = Path(_kept.root)
    finder = _Finder(_kept, root, anywhere=True)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _kept = None


def use(given: Bundle) -> None:
    """Load a study's modules for good, in place of those of the study before.

    Raises:
        ConfigError: one cannot be imported; it names file, line and error.
    """
    global _used
    with _lock:
        if _used is not None:
            if _used[0].digest == given.digest:
                return
            _used[1].close()
            _used = None
        if not given:
            return
        root = _folder(given)
        layer = Layer(given, root)
        layer.load()
        if layer.problems:
            raise ConfigError("; ".join(layer.problems))
        standing = ExitStack()
        standing.enter_context(layer.standing())
        _used = given, standing


def _folder(given: Bundle) -> Path:
    """Tell where the files lie: in the study's folder, if it is here and they are what they were, else in a copy of the cache."""
    root = Path(given.root)
    with suppress(ConfigError):
        if all(source(root / path) == text for path, text in given.files.items()):
            return root
    return remember(given)


def importing() -> bool:
    """Tell whether a study's file is only being imported, for what it registers."""
    return bool(_importing)


def refuse_while_loading() -> None:
    """Refuse to start a study from a file that is only being imported.

    Raises:
        ConfigError: it is.
    """
    if _importing:
        raise ConfigError(unguarded(f"{_importing[-1]}.py"))


# ------------------------------------------------------------------------------------------------------- where it is read


_layers: dict[tuple[Any, ...], Layer] = {}


@contextmanager
def reading(record: Sequence[Mapping[str, str]], trust: bool = False) -> Iterator[str]:
    """Have what a plan names (`Bundle.record`) in place as long as the block runs; give a digest of it.

    What this user has neither run nor trusted, what has changed since, or what cannot be imported costs nothing but itself: where
    a name is missing, the error says why. With `trust`, all is imported as it lies where the plan says.
    """
    present = not record
    with suppress(ConfigError):
        present = present or bundle().record == [dict(one) for one in record]  # this process is the study's own
    if present:
        yield ""
        return
    with _lock:
        layer = _layer(record, trust)
        with layer.standing():
            yield sha([layer.bundle.digest, *layer.problems])


def _layer(record: Sequence[Mapping[str, str]], trust: bool) -> Layer:
    """Return the modules that may be imported as they are now, imported before or anew."""
    given, problems = _as_they_lie(record) if trust else trusted(record)
    key = (trust, *((one["module"], one["file"], one["digest"]) for one in record))
    layer = _layers.get(key)
    if layer is None or (layer.bundle, layer.refused) != (given, problems):
        layer = _layers[key] = Layer(given, Path(given.root), problems, anywhere=trust)
        layer.load()
    return layer


def _as_they_lie(record: Sequence[Mapping[str, str]]) -> tuple[Bundle, list[str]]:
    """Return the modules where a plan says that they lay, whatever they are now, and what is not there."""
    try:
        wanted = named(record)
    except ConfigError as error:
        return Bundle(), [f"not imported: {error}"]
    root = Path(wanted.root)
    there = [name for name in wanted.modules if root.is_absolute() and any((root / path).is_file() for path in paths(name))]
    gone = [wanted.at(paths(name)[0]) for name in wanted.modules if name not in there]
    return bundle_of(root, [*there, *wanted.installed]), [f"not imported: {file} is not there" for file in gone]


# ------------------------------------------------------------------------------------------------------- installed packages


def _installed() -> None:
    """Import what installed packages offer; what cannot be imported is told where a name is missing."""
    for point in entry_points(group=GROUP):
        with gathering() as entries:
            try:
                point.load()
            except (Exception, SystemExit) as error:
                package = point.dist.name if point.dist is not None else "a package"
                spec = None
                with suppress(ImportError, ValueError):
                    spec = find_spec(point.module.partition(".")[0])
                home = Path(spec.origin).parent if spec is not None and spec.origin else Path(sys.prefix)
                said = f"The plug-in {point.name!r} of {package} cannot be imported: {_reason(error, home)}"
                registry.absent.append(said)
                continue
        for entry in entries:
            entry.put()
            registry.offered.add(entry.module)


registry.further.append(_installed)
