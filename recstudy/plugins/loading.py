"""Import a user's modules in this process: permanently in a worker, for the length of a block in a reader.

The driver calls `frozen_files` and `sent_files`, workers call `import_sent`, and pages and commands that read
results call `reading`. Two studies may use the same names for modules and registered things, so a reader
removes a study's modules after use.
"""

import importlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from recstudy.base.errors import ConfigError, raised_at
from recstudy.plugins import registry
from recstudy.plugins.files import (
    UserFiles,
    files_of_study,
    study_file,
    unguarded,
    user_files_of,
)
from recstudy.plugins.registry import GROUP, gathering, outsiders
from recstudy.plugins.syntax import module_of, paths

_lock = threading.RLock()  # held while modules of a study are imported, because `sys.modules` is shared
_importing: list[str] = []  # names of the modules that are being imported, the innermost last
_frozen_files: UserFiles | None = None
_read: list[list[tuple[str, str]]] = []  # modules and files of the plans being read, the innermost last


def _import(name: str) -> str:
    """Import a module and return an error message of one line, or an empty string."""
    _importing.append(name)
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        return f"{name} cannot be imported: {raised_at(error)}"
    finally:
        _importing.pop()
    return ""


def importing() -> bool:
    """Tell whether a study's file is being imported only for the things that it registers."""
    return bool(_importing)


def refuse_while_loading() -> None:
    """Check that the study's file is not merely being imported, before a study starts.

    Raises:
        ConfigError: The file is being imported.
    """
    if _importing:
        raise ConfigError(unguarded(f"{_importing[-1]}.py"))


# The process that runs the study, and its workers


def current_files() -> UserFiles:
    """Return the files of this process's study.

    Raises:
        ConfigError: Another process could not import some of them.
    """
    return _frozen_files or files_of_study(outsiders())


@contextmanager
def frozen_files(files: UserFiles | None = None) -> Iterator[None]:
    """Fix the result of `current_files()` inside the block, so that workers get the files of the plan.

    Args:
        files: The files to return. By default those that `current_files()` returns now.
    """
    global _frozen_files
    previous_files, _frozen_files = _frozen_files, files or current_files()
    try:
        yield
    finally:
        _frozen_files = previous_files


@contextmanager
def loaded(files: UserFiles, problems: list[str] | None = None) -> Iterator[None]:
    """Import these modules inside the block as this process's study, and remove them afterwards.

    Args:
        files: The modules and their files.
        problems: Reasons why modules are missing. An error about a missing name inside the block quotes them
            and the reasons of failed imports.

    Raises:
        ConfigError: A module cannot be imported and `problems` is None. The message names file, line and
            error.
    """
    if any(not files.path(name) for name in files.modules):
        # An installed package may register the module for every study. It then stays after the block.
        registry.look_further()
    hidden = {name: sys.modules.pop(name) for name in files.names if name in sys.modules}
    # Python compares cached bytecode by modification time in seconds, which hides an edit within a second.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(files.root))
    importlib.invalidate_caches()
    try:
        with gathering(), frozen_files(files):
            reasons = [*(problems or ()), *filter(None, map(_import, files.modules))]
            if reasons and problems is None:
                raise ConfigError("; ".join(reasons))
            with _quoting(reasons):
                yield
    finally:
        sys.path.remove(str(files.root))
        sys.dont_write_bytecode = writes
        for name in files.names & sys.modules.keys():
            del sys.modules[name]
        sys.modules.update(hidden)


@contextmanager
def _quoting(reasons: Sequence[str]) -> Iterator[None]:
    """Add these reasons to every error about a missing name inside the block."""
    registry.missing_reasons[:0] = reasons
    try:
        yield
    finally:
        del registry.missing_reasons[: len(reasons)]


def import_all() -> None:
    """Import every file of the study now, so that a later edit takes effect only in the next command."""
    study = study_file()
    for path in current_files().contents:
        if study is None or module_of(path) != study.name:
            with suppress(Exception):  # the import that needs the module raises the error again
                importlib.import_module(module_of(path))


def sent_files() -> tuple[str, tuple[str, ...]]:
    """Copy the study's files for its workers.

    Returns:
        The folder with the copies, and the modules to import from it. Both are empty if the study registers
        nothing.

    Raises:
        ConfigError: Something was registered at a prompt.
    """
    if study_file() is None and "__main__" in outsiders():
        raise ConfigError(
            "other processes cannot import what was registered at a prompt. Move it to a file and import that"
        )
    files = current_files()
    return (str(files.copy()), files.modules) if files.modules else ("", ())


def import_sent(folder: str, modules: Sequence[str]) -> None:
    """Import a study's modules in a worker.

    Args:
        folder: The folder that `sent_files` returned on the driver.
        modules: The modules that it returned.

    Raises:
        ConfigError: A module cannot be imported. The message names file, line and error.
    """
    if folder and not Path(folder).is_dir():  # on another node, Ray has copied it as one of its `py_modules`
        spec = find_spec(Path(folder).name)
        folder = next(iter(spec.submodule_search_locations or ())) if spec is not None else ""
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)  # before the study's own folder, whose files may have changed since
    problems = list(filter(None, map(_import, modules)))
    if problems:
        raise ConfigError("; ".join(problems))


# Processes that read results


@contextmanager
def reading(record: Sequence[Mapping[str, str]], trust: bool = False) -> Iterator[None]:
    """Make the modules of a plan available inside the block, for one thread at a time.

    Without `trust` nothing is imported, and an error about a missing name tells so. The process that runs the
    study has its modules already.

    Args:
        record: The plan's `UserFiles.record`.
        trust: Import the modules from the files that the plan names. Their present content is used.
    """
    plan_modules = [(entry["module"], entry["file"]) for entry in record]
    with _lock:
        present: list[tuple[str, str]] = []
        with suppress(ConfigError):
            present = [(entry["module"], entry["file"]) for entry in current_files().record]
        if plan_modules in (present, *_read[-1:]):
            yield
            return
        # Modules of installed packages are imported without trust, because the user has installed them.
        offered = {point.module for point in entry_points(group=GROUP)}
        untrusted = [file or module for module, file in plan_modules if file or module not in offered]
        _read.append(plan_modules)
        try:
            if trust:
                context = _load_from_plan(plan_modules)
            else:
                reason = f"not imported: {', '.join(untrusted)}; --trust imports it"
                context = _quoting([reason] if untrusted else [])
            with context:
                yield
        finally:
            _read.pop()


def _load_from_plan(plan_modules: Sequence[tuple[str, str]]) -> AbstractContextManager[None]:
    """Return a context with the modules of a plan, imported from the present files."""
    roots = [
        file.removesuffix(path)
        for module, file in plan_modules
        if module
        for path in paths(module)
        if file.endswith(path)
    ]
    root = Path(roots[0] if roots else sys.prefix)
    modules, problems = [], []
    for module, file in plan_modules:
        exists = root.is_absolute() and any((root / path).is_file() for path in paths(module))
        if module and file and not exists:
            problems.append(f"not imported: {file} does not exist")
        elif module:
            modules.append(module)
    return loaded(user_files_of(root, modules), problems)
