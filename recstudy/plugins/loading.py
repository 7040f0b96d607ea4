"""A user's modules in this process: for good in a worker, as long as a block runs in a reader.

Two studies may use the same names for modules and registered things, so a study's modules are in place only while they are used.
"""

import importlib
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tokenize import detect_encoding
from types import ModuleType

from recstudy.errors import ConfigError
from recstudy.files import cache_folder, caching, sha, whole
from recstudy.plugins import registry
from recstudy.plugins.bundle import Bundle, bundle_of, main_bundle, module_of, paths, source, study_file, unguarded
from recstudy.plugins.registry import Entry, Standing, gathering, outsiders

GROUP = "recstudy.plugins"  # of entry points, each of which names a module that registers something
_lock = threading.RLock()  # one thread at a time has modules of a study in place
_importing: list[str] = []


class Layer:
    """The modules of one study: imported once, in place as long as `standing` runs.

    Args:
        bundle: which modules, and their texts.
        root: the folder that they are imported from.
        problems: why some are not imported.
    """

    def __init__(self, bundle: Bundle, root: Path, problems: Sequence[str] = ()) -> None:
        self.bundle, self.root = bundle, root
        self.modules: dict[str, ModuleType] = {}
        self.entries: list[Entry] = []
        self.problems = list(problems)
        self._standing = False
        if any(not bundle.path(name) for name in bundle.modules):
            registry.look_further()  # an installed module may be offered to every study: then it is not this one's own
        with self._importable(), gathering() as entries:
            self.problems += filter(None, [_imported(name, root) for name in bundle.modules])
            self.entries += entries

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Keep the modules importable and registered inside the block."""
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
        if not self.bundle:
            yield
            return
        hidden = {name: sys.modules.pop(name) for name in self.bundle.names if name in sys.modules}
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a cached file hides an edit within a second
        sys.modules.update(self.modules)
        sys.path.insert(0, str(self.root))
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.path.remove(str(self.root))
            sys.dont_write_bytecode = writes
            self.modules = {name: sys.modules.pop(name) for name in self.bundle.names if name in sys.modules}
            sys.modules.update(hidden)


def _imported(name: str, root: Path) -> str:
    """Import a module; return why it cannot be imported, in one line, or nothing."""
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
    """Return this process's user modules: those that it was given, or those that its study and the modules beside it define.

    Raises:
        ConfigError: another process could not import some of them.
    """
    return _used[0] if _used is not None else _kept or main_bundle(outsiders())


@contextmanager
def kept() -> Iterator[None]:
    """Keep `bundle()` as it is now inside the block, so that workers get the texts that the plan records.

    Raises:
        ConfigError: another process could not import some of it.
    """
    global _kept
    before = _kept
    _kept = bundle()
    try:
        yield
    finally:
        _kept = before


def import_all() -> None:
    """Import each module of the study now, so that an edit of its file counts from the next command on."""
    study = study_file()
    for name in map(module_of, bundle().files):
        if study is None or name != study.name:
            with suppress(Exception):  # whoever needs it later raises it again
                importlib.import_module(name)


def use(given: Bundle) -> None:
    """Load a study's modules for good, in place of those of the study before.

    Raises:
        ConfigError: one cannot be imported; it names file, line and error.
    """
    global _used
    with _lock:
        if _used is not None:
            if _used[0] == given:
                return
            _used[1].close()
            _used = None
        if not given:
            return
        layer = Layer(given, _folder(given))
        if layer.problems:
            raise ConfigError("; ".join(layer.problems))
        standing = ExitStack()
        standing.enter_context(layer.standing())
        _used = given, standing


def _folder(given: Bundle) -> Path:
    """Return the study's folder if it is here and its files are as they were sent, else a copy in the cache folder.

    Raises:
        DataError: the cache folder cannot be written.
    """
    root = Path(given.root)
    with suppress(ConfigError):
        if all(source(root / path) == text for path, text in given.files.items()):
            return root
    copy = cache_folder() / "plugins" / given.digest
    with caching("the study's modules", copy.parent):
        for path, text in given.files.items():
            if not (copy / path).is_file() or source(copy / path) != text:
                encoding, _ = detect_encoding(BytesIO(text.encode()).readline)  # the one that the file states
                with whole(copy / path) as temporary:  # another process may do the same
                    temporary.write_bytes(text.encode(encoding))
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


_layers: dict[tuple[tuple[str, str], ...], Layer] = {}


@contextmanager
def reading(record: Sequence[Mapping[str, str]], trust: bool = False) -> Iterator[str]:
    """Have the modules that a plan names (`Bundle.record`) in place inside the block, and give a digest of them.

    Nothing is imported without `trust`, except in the process that runs the study. Where a name is missing, the error says why.

    Args:
        record: the plan's modules.
        trust: import the modules from the files that the plan names, as these are now.
    """
    wanted = tuple((entry["module"], entry["file"]) for entry in record)
    with _lock:
        present = not wanted
        with suppress(ConfigError):
            present = present or [(entry["module"], entry["file"]) for entry in bundle().record] == list(wanted)
        if present:
            yield ""
            return
        if trust:
            layer = _trusted(wanted)
        else:
            offered = {point.module for point in entry_points(group=GROUP)}
            names = [file or module for module, file in wanted if file or module not in offered]
            layer = Layer(Bundle(), Path(), [f"not imported: {', '.join(names)}; --trust imports it"] if names else [])
        with layer.standing():
            yield sha([layer.bundle.digest, *layer.problems])


def _trusted(wanted: tuple[tuple[str, str], ...]) -> Layer:
    """Return the modules as they are now, imported before or anew."""
    roots = [file.removesuffix(path) for module, file in wanted if module for path in paths(module) if file.endswith(path)]
    root = Path(roots[0] if roots else sys.prefix)
    modules = [module for module, file in wanted if module and file]
    present = [name for name in modules if root.is_absolute() and any((root / path).is_file() for path in paths(name))]
    problems = [f"not imported: {file} is not there" for module, file in wanted if module in modules and module not in present]
    given = bundle_of(root, [*present, *(module for module, file in wanted if not file)])
    layer = _layers.get(wanted)
    if layer is None or layer.bundle != given:
        layer = _layers[wanted] = Layer(given, root, problems)
    return layer


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
