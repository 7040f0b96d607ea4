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
from recstudy.files import cache_folder, caching, whole
from recstudy.plugins import registry
from recstudy.plugins.bundle import Bundle, bundle_of, main_bundle, module_of, source, unguarded
from recstudy.plugins.registry import Entry, Standing, gathering, outsiders
from recstudy.source import paths

GROUP = "recstudy.plugins"  # of entry points, each of which names a module that registers something

_lock = threading.RLock()  # one thread at a time has modules of a study in place
_importing: list[str] = []


class _Loader(SourceFileLoader):
    """Without the cached byte code, which takes a file that changed within a second for the one before."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder(MetaPathFinder):
    """Finds a bundle's modules before any other of their names."""

    def __init__(self, root: Path, names: frozenset[str]) -> None:
        self.root, self.names = root, names

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in self.names:
            return None
        for below in paths(fullname):
            file = self.root / below
            if file.is_file():
                folder = [str(file.parent)] if file.name == "__init__.py" else None
                loader = _Loader(fullname, str(file))
                return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=folder)
        return None


class Layer:
    """The modules of one study: imported once, in place as long as `standing` runs."""

    def __init__(self, bundle: Bundle, root: Path) -> None:
        self.bundle, self.root = bundle, root
        self.names = frozenset(map(module_of, bundle.files))
        self.modules: dict[str, ModuleType] = {}
        self.entries: list[Entry] = []
        self.problems: list[str] = []
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
        finder, path = _Finder(self.root, self.names), str(self.root)
        sys.modules.update(self.modules)
        sys.meta_path.insert(0, finder)
        sys.path.insert(0, path)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            sys.path.remove(path)
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


def bundle() -> Bundle:
    """Return what this process has from outside: what it was given, or what its study and the modules beside it define.

    Raises:
        ConfigError: some of it cannot be had in another process.
    """
    return _used[0] if _used is not None else main_bundle(outsiders())


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
        layer = Layer(given, _folder(given))
        layer.load()
        if layer.problems:
            raise ConfigError("; ".join(layer.problems))
        kept = ExitStack()
        kept.enter_context(layer.standing())
        _used = given, kept


def _folder(given: Bundle) -> Path:
    """Tell where the files lie: in the study's folder, if it is here and they are what they were, else in a copy of the cache."""
    copy = cache_folder() / "plugins" / given.digest
    for root in (Path(given.root), copy):
        with suppress(ConfigError):
            if all(source(root / path) == text for path, text in given.files.items()):
                return root
    for path, text in given.files.items():  # another process may do the same
        with caching("the study's modules", copy.parent), whole(copy / path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return copy


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


_layers: dict[tuple[str, ...], Layer] = {}


@contextmanager
def reading(files: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What a plan names (`Bundle.record`) is in place as long as the block runs; gives a digest of it.

    What is not there or cannot be imported costs nothing but itself: where a name is missing, the error says why.
    """
    present = not files
    with suppress(ConfigError):
        present = present or bundle().record == [dict(one) for one in files]  # this process is the study's own
    if present:
        yield ""
        return
    with _lock:
        layer = _layer(files)
        with layer.standing():
            yield layer.bundle.digest


def _layer(files: Sequence[Mapping[str, str]]) -> Layer:
    """Return the modules as they are now, imported before or anew."""
    key = tuple(f"{one['module']}:{one['file']}" for one in files)
    root, modules, problems = _found(files)
    given = bundle_of(root, modules)
    layer = _layers.get(key)
    if layer is None or layer.bundle.digest != given.digest or layer.root != root:
        layer = _layers[key] = Layer(given, root)
        layer.problems += problems
        layer.load()
    return layer


def _found(files: Sequence[Mapping[str, str]]) -> tuple[Path, list[str], list[str]]:
    """Return the modules that are there, in the folder that the plan names or in the one where the reader is, and what is not."""
    root, modules, problems = Path(), [], []
    for name, file in ((one["module"], one["file"]) for one in files if one["module"]):
        below = next((path for path in paths(name) if file.endswith(f"/{path}")), "")
        folders = [Path(file.removesuffix(below)), Path()] if below else []
        folder = next((folder for folder in folders if (folder / below).is_file()), None)
        if file and folder is None:
            problems.append(f"{file} is not there, nor is {below} in the current folder")
            continue
        root = folder or root
        modules.append(name)
    return root.absolute(), modules, problems


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
