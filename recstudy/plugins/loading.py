"""A user's modules in this process: for good in a worker, while a block runs in a reader.

Two studies may use the same names for modules and registered things, so a reader has a study's modules in place only in use.
"""

import importlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from recstudy.errors import ConfigError, raised_at
from recstudy.files import sha
from recstudy.plugins import registry
from recstudy.plugins.files import UserFiles, files_of_study, paths, study_file, unguarded, user_files_of
from recstudy.plugins.registry import Entry, Standing, gathering, outsiders

GROUP = "recstudy.plugins"  # of entry points, each of which names a module that registers something
_lock = threading.RLock()  # one thread at a time has modules of a study in place
_importing: list[str] = []
_kept: UserFiles | None = None


class LoadedModules:
    """The modules of one study: imported once, and in place while `standing` runs.

    Args:
        files: The modules and their files.
        problems: Why some modules are not there.
    """

    def __init__(self, files: UserFiles, problems: Sequence[str] = ()) -> None:
        self.files = files
        self.modules: dict[str, ModuleType] = {}
        self.entries: list[Entry] = []
        self.problems = list(problems)
        self._stands = False
        if any(not files.path(name) for name in files.modules):
            registry.look_further()  # an installed module may be offered to every study: then it is not this one's own
        with self._importable(), gathering() as entries:
            self.problems += filter(None, map(_import, files.modules))
            self.entries += entries

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Keep the modules importable and registered inside the block."""
        if self._stands:
            yield
            return
        with self._importable(), Standing(self.entries), gathering() as late_entries:
            registry.absent[:0] = self.problems
            self._stands = True
            try:
                yield
            finally:
                self._stands = False
                del registry.absent[: len(self.problems)]
                self.entries += late_entries

    @contextmanager
    def _importable(self) -> Iterator[None]:
        if not self.files.modules:
            yield
            return
        hidden = {name: sys.modules.pop(name) for name in self.files.names if name in sys.modules}
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a cached file hides an edit within a second
        sys.modules.update(self.modules)
        sys.path.insert(0, str(self.files.root))
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.path.remove(str(self.files.root))
            sys.dont_write_bytecode = writes
            self.modules = {name: sys.modules.pop(name) for name in self.files.names if name in sys.modules}
            sys.modules.update(hidden)


def _import(name: str) -> str:
    """Import a module; return why it cannot be imported, in one line, or nothing."""
    _importing.append(name)
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        return f"{name} cannot be imported: {raised_at(error)}"
    finally:
        _importing.pop()
    return ""


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


# ------------------------------------------------------------------------------------------------------- where it runs


def current_files() -> UserFiles:
    """Return the files of this process's study (ConfigError: another process could not import some of them)."""
    return _kept or files_of_study(outsiders())


@contextmanager
def kept(files: UserFiles | None = None) -> Iterator[None]:
    """Keep `current_files()` as it is now, or as given, inside the block, so that workers get the files that the plan records."""
    global _kept
    before, _kept = _kept, files or current_files()
    try:
        yield
    finally:
        _kept = before


@contextmanager
def loaded(files: UserFiles) -> Iterator[None]:
    """Have these modules in place inside the block, as this process's study.

    Raises:
        ConfigError: A module cannot be imported. The message names file, line and error.
    """
    modules = LoadedModules(files)
    if modules.problems:
        raise ConfigError("; ".join(modules.problems))
    with modules.standing(), kept(files):
        yield


def import_all() -> None:
    """Import each file of the study now, so that an edit counts from the next command on."""
    study = study_file()
    for path in current_files().contents:
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if study is None or name != study.name:
            with suppress(Exception):  # a later import raises it again
                importlib.import_module(name)


def sent_files() -> tuple[str, tuple[str, ...]]:
    """Return a folder with copies of the study's files, and the modules to import from it; both empty if it defines nothing.

    Raises:
        ConfigError: Something was registered at a prompt.
    """
    if study_file() is None and "__main__" in outsiders():
        raise ConfigError("what is registered at a prompt cannot reach other processes: write it into a file and import it")
    files = current_files()
    return (str(files.copy()), files.modules) if files.modules else ("", ())


def import_sent(folder: str, modules: Sequence[str]) -> None:
    """Import a study's modules in a worker, from a folder of `sent_files` that is here or that Ray has brought.

    Raises:
        ConfigError: A module cannot be imported. The message names file, line and error.
    """
    if folder and not Path(folder).is_dir():  # the head node's: here it is one of Ray's `py_modules`
        spec = find_spec(Path(folder).name)
        folder = next(iter(spec.submodule_search_locations or ())) if spec is not None else ""
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)  # in front of the study's own folder, where a file may have changed
    problems = list(filter(None, map(_import, modules)))
    if problems:
        raise ConfigError("; ".join(problems))


# ------------------------------------------------------------------------------------------------------- where it is read


_read: dict[tuple[tuple[str, str], ...], LoadedModules] = {}


@contextmanager
def reading(record: Sequence[Mapping[str, str]], trust: bool = False) -> Iterator[str]:
    """Have the modules that a plan names (`UserFiles.record`) in place inside the block, and yield a digest of them.

    Nothing is imported without `trust`, except in the process that runs the study. Where a name is missing, the error says why.

    Args:
        record: The plan's modules.
        trust: Import the modules from the files that the plan names, as these are now.
    """
    wanted = tuple((entry["module"], entry["file"]) for entry in record)
    present = not wanted
    with suppress(ConfigError):
        present = present or [(entry["module"], entry["file"]) for entry in current_files().record] == list(wanted)
    if present:
        yield ""
        return
    with _lock:
        if trust:
            modules = _trusted(wanted)
        else:
            offered = {point.module for point in entry_points(group=GROUP)}
            names = [file or module for module, file in wanted if file or module not in offered]
            modules = LoadedModules(UserFiles(), [f"not imported: {', '.join(names)}; --trust imports it"] if names else [])
        with modules.standing():
            yield sha([modules.files.digest, *modules.problems])


def _trusted(wanted: tuple[tuple[str, str], ...]) -> LoadedModules:
    """Return the modules as they are now, imported before or anew."""
    roots = [file.removesuffix(path) for module, file in wanted if module for path in paths(module) if file.endswith(path)]
    root = Path(roots[0] if roots else sys.prefix)
    modules = [module for module, file in wanted if module and file]
    present = [name for name in modules if root.is_absolute() and any((root / path).is_file() for path in paths(name))]
    problems = [f"not imported: {file} is not there" for module, file in wanted if module in modules and module not in present]
    files = user_files_of(root, [*present, *(module for module, file in wanted if not file)])
    if wanted not in _read or _read[wanted].files != files:
        _read[wanted] = LoadedModules(files, problems)
    return _read[wanted]


# ------------------------------------------------------------------------------------------------------- installed packages


def _installed() -> None:
    """Import what installed packages offer; what cannot be imported is told where a name is missing."""
    for point in entry_points(group=GROUP):
        with gathering() as entries:
            try:
                point.load()
            except (Exception, SystemExit) as error:
                package = point.dist.name if point.dist is not None else "a package"
                registry.absent.append(f"The plug-in {point.name!r} of {package} cannot be imported: {raised_at(error)}")
                continue
        for entry in entries:
            entry.put()
            registry.offered.add(entry.module)


registry.further.append(_installed)
