"""A user's modules in this process: for good in a worker, while a block runs in a reader.

Two studies may use the same names for modules and registered things, so a reader has a study's modules in
place only in use.
"""

import importlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from recstudy.errors import ConfigError, raised_at
from recstudy.plugins import registry
from recstudy.plugins.files import (
    UserFiles,
    files_of_study,
    module_of,
    paths,
    study_file,
    unguarded,
    user_files_of,
)
from recstudy.plugins.registry import GROUP, gathering, outsiders

_lock = threading.RLock()  # one thread at a time has modules of a study in place
_importing: list[str] = []
_kept: UserFiles | None = None
_read: list[list[tuple[str, str]]] = []  # what the plans name that are being read, the innermost last


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


# -------------------------------------------------------------------------------------------------------
# where it runs


def current_files() -> UserFiles:
    """Return the files of this process's study (ConfigError: another process could not import some of
    them).
    """
    return _kept or files_of_study(outsiders())


@contextmanager
def kept(files: UserFiles | None = None) -> Iterator[None]:
    """Keep `current_files()` as it is now, or as given, inside the block, so that workers get the files that
    the plan records.
    """
    global _kept
    before, _kept = _kept, files or current_files()
    try:
        yield
    finally:
        _kept = before


@contextmanager
def loaded(files: UserFiles, problems: list[str] | None = None) -> Iterator[None]:
    """Have these modules importable and registered inside the block, as this process's study.

    Args:
        files: The modules and their files.
        problems: Takes why some modules are not there, which an error about a missing name then says.

    Raises:
        ConfigError: A module cannot be imported and `problems` is None. The message names file, line and
            error.
    """
    if any(not files.path(name) for name in files.modules):
        # an installed module may be offered to every study: then it is not this one's own
        registry.look_further()
    hidden = {name: sys.modules.pop(name) for name in files.names if name in sys.modules}
    # a cached file hides an edit within a second
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(files.root))
    importlib.invalidate_caches()
    try:
        with gathering(), kept(files):
            reasons = [*(problems or ()), *filter(None, map(_import, files.modules))]
            if reasons and problems is None:
                raise ConfigError("; ".join(reasons))
            with _absent(reasons):
                yield
    finally:
        sys.path.remove(str(files.root))
        sys.dont_write_bytecode = writes
        for name in files.names & sys.modules.keys():
            del sys.modules[name]
        sys.modules.update(hidden)


@contextmanager
def _absent(reasons: Sequence[str]) -> Iterator[None]:
    """Have an error about a missing name say these reasons inside the block."""
    registry.absent[:0] = reasons
    try:
        yield
    finally:
        del registry.absent[: len(reasons)]


def import_all() -> None:
    """Import each file of the study now, so that an edit counts from the next command on."""
    study = study_file()
    for path in current_files().contents:
        if study is None or module_of(path) != study.name:
            with suppress(Exception):  # a later import raises it again
                importlib.import_module(module_of(path))


def sent_files() -> tuple[str, tuple[str, ...]]:
    """Return a folder with copies of the study's files, and the modules to import from it; both empty if it
    defines nothing.

    Raises:
        ConfigError: Something was registered at a prompt.
    """
    if study_file() is None and "__main__" in outsiders():
        raise ConfigError(
            "what is registered at a prompt cannot reach other processes: write it into a file and import it"
        )
    files = current_files()
    return (str(files.copy()), files.modules) if files.modules else ("", ())


def import_sent(folder: str, modules: Sequence[str]) -> None:
    """Import a study's modules in a worker, from a folder of `sent_files` that is here or that Ray has
    brought.

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


# -------------------------------------------------------------------------------------------------------
# where it is read


@contextmanager
def reading(record: Sequence[Mapping[str, str]], trust: bool = False) -> Iterator[None]:
    """Have the modules that a plan names (`UserFiles.record`) in place inside the block, one thread at a
    time.

    Nothing is imported without `trust`, except in the process that runs the study. Where a name is missing,
    the error says why.

    Args:
        record: The plan's modules.
        trust: Import the modules from the files that the plan names, as these are now.
    """
    wanted = [(entry["module"], entry["file"]) for entry in record]
    with _lock:
        present: list[tuple[str, str]] = []
        with suppress(ConfigError):
            present = [(entry["module"], entry["file"]) for entry in current_files().record]
        if wanted in (present, *_read[-1:]):
            yield
            return
        offered = {point.module for point in entry_points(group=GROUP)}
        names = [file or module for module, file in wanted if file or module not in offered]
        _read.append(wanted)
        try:
            with (
                _trusted(wanted)
                if trust
                else _absent([f"not imported: {', '.join(names)}; --trust imports it"] * bool(names))
            ):
                yield
        finally:
            _read.pop()


def _trusted(wanted: Sequence[tuple[str, str]]) -> AbstractContextManager[None]:
    """Load the modules as they are now."""
    roots = [
        file.removesuffix(path)
        for module, file in wanted
        if module
        for path in paths(module)
        if file.endswith(path)
    ]
    root = Path(roots[0] if roots else sys.prefix)
    modules, problems = [], []
    for module, file in wanted:
        if (
            module
            and file
            and not (root.is_absolute() and any((root / path).is_file() for path in paths(module)))
        ):
            problems.append(f"not imported: {file} is not there")
        elif module:
            modules.append(module)
    return loaded(user_files_of(root, modules), problems)
