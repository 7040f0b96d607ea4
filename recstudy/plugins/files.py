"""Find a user's files: the study's file, modules that register something, and their imports from the folder.

`loading.py` uses them to copy a study to its workers; data caches and plans record their digests.
"""

import ast
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from inspect import Parameter, Signature, getsourcefile, getsourcelines, signature
from pathlib import Path
from typing import Any, NamedTuple

from recstudy.base.errors import ConfigError, choices, missing_package, nearest, raised_at
from recstudy.base.files import atomic_write, cache_folder, caching
from recstudy.base.values import hashed
from recstudy.plugins.syntax import code_of, imports_of, module_of, paths, with_packages

INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class UserFiles:
    """The modules that a study defines itself, with all files that they need.

    Args:
        root: The folder that the modules are imported from.
        modules: The modules to import, in this order. A module without an entry in `contents` is installed or
            on PYTHONPATH.
        contents: Path relative to the root -> content of the file.
    """

    root: Path = Path()
    modules: tuple[str, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file, by its path relative to the root."""
        return {path: file_digest(content) for path, content in sorted(self.contents.items())}

    @property
    def record(self) -> list[dict[str, str]]:
        """The entries for the plan: each `file`, with the name of its `module` if that is imported."""
        modules = {self.path(name): name for name in self.modules}
        files = [{"module": modules.get(path, ""), "file": str(self.root / path)} for path in self.contents]
        return files + [{"module": name, "file": ""} for name in self.modules if not self.path(name)]

    @property
    def names(self) -> set[str]:
        """The names of the files' modules and of their packages."""
        return {name for path in self.contents for name in with_packages(module_of(path))}

    def path(self, module: str) -> str:
        """Return the path of a module relative to the root; empty if `contents` lacks it."""
        return next((path for path in paths(module) if path in self.contents), "")

    def copy(self) -> Path:
        """Copy the files to a folder of the cache and return the folder.

        Workers import from the copy, so an edit does not change a running study.

        Raises:
            DataError: The cache folder cannot be written.
        """
        parts = [*sorted(self.modules), *map(" ".join, self.digests.items())]
        digest = hashed("\n".join(parts), 16)
        folder = cache_folder() / "plugins" / f"study_{digest}"
        with caching("the study's modules", folder.parent):
            for path, content in self.contents.items():
                if not (folder / path).exists():
                    with atomic_write(folder / path) as temporary:  # another process may write it too
                        temporary.write_bytes(content)
        return folder


code_digests: dict[str, str] = {}  # SHA-256 of a user file that this process read -> SHA-256 of its code


def file_digest(content: bytes) -> str:
    """Return the SHA-256 of a user file, and add the SHA-256 of its code to `code_digests`."""
    digest = hashlib.sha256(content).hexdigest()
    if digest not in code_digests:
        code_digests[digest] = hashlib.sha256(code_of(content).encode()).hexdigest()
    return digest


def user_files_of(root: Path, modules: Iterable[str], imported: Iterable[str] = ()) -> UserFiles:
    """Return modules with every file below `root` that they import, directly or indirectly.

    Args:
        root: The folder that the modules are imported from.
        modules: Names of the modules.
        imported: Names of further modules whose files are included.
    """
    names = tuple(modules)
    contents: dict[str, bytes] = {}
    waiting = [*names, *imported]
    while waiting:
        name = waiting.pop(0)
        path = next((path for path in paths(name) if (root / path).is_file()), None)
        if path is not None and path not in contents and name.partition(".")[0] != "recstudy":
            contents[path] = (root / path).read_bytes()
            waiting += imports_of(path, contents[path])
    return UserFiles(root, names, contents)


def outside_files(files: UserFiles) -> dict[str, Path]:
    """Return the modules that user files import from other folders, by path relative to the folder.

    Such a folder is on PYTHONPATH, or its package is installed in editable mode. Modules of the standard
    library and of other installed packages are left out.
    """
    outside: dict[str, Path] = {}
    waiting = [files]
    while waiting:
        root, contents = waiting[0].root, waiting.pop(0).contents
        for name in sorted({name for path in contents for name in imports_of(path, contents[path])}):
            package = name.partition(".")[0]
            other_root = None if any((root / path).exists() for path in paths(package)) else _root_of(package)
            if other_root not in (None, root):
                imported = user_files_of(other_root, [name]).contents
                new = {path: imported[path] for path in imported if path not in outside}
                outside |= {path: other_root / path for path in new}
                waiting.append(UserFiles(other_root, (), new))
    return outside


def _root_of(package: str) -> Path | None:
    """Return the folder that a package is imported from; None if it is installed or cannot be imported."""
    spec = None
    if package not in {*sys.stdlib_module_names, "recstudy", "__main__"}:
        with suppress(ImportError, ValueError):
            spec = find_spec(package)
    # a namespace package has folders and no file
    origin = spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
    if not origin:
        return None
    path = Path(origin)
    root = path.resolve().parents[path.name == "__init__.py"]
    return root if INSTALLED.isdisjoint(root.parts) else None


def module_files(file: Path) -> UserFiles:
    """Return a study's file, or a module, with its imports.

    Raises:
        ConfigError: The file does not exist.
    """
    if not file.is_file():
        raise ConfigError(
            f"{file} does not exist. Name the file of a study, or a module, that registers something."
        )
    return user_files_of(file.resolve().parent, [file.stem])


def code_key(*entries: type | str) -> list[str]:
    """Return a cache key for the code of classes, or of functions named `module:name`.

    Returns:
        recstudy's version and the SHA-256 of each file. The imports of a user's file from its folder are
        included, because a changed helper of a reader decodes other images.
    """
    key = [version("recstudy")]
    for entry in entries:
        module = entry.partition(":")[0] if isinstance(entry, str) else entry.__module__
        spec = None if module in sys.modules else find_spec(module)  # does not import the module
        file = Path(
            getattr(sys.modules.get(module, spec), "__file__" if spec is None else "origin", None) or ""
        )
        if not file.is_file():
            # A class typed at a prompt has no file, so only this process may use its cache.
            key.append(f"process {os.getpid()}, {id(entry)}")
            continue
        name, file = file.stem if module == "__main__" else module, file.resolve()
        root = file.parents[name.count(".") + (file.stem == "__init__")]
        is_user = INSTALLED.isdisjoint(file.parts) and name.partition(".")[0] != "recstudy"
        files = (
            user_files_of(root, [name]) if is_user else UserFiles(root, (), {file.name: file.read_bytes()})
        )
        key += files.digests.values()
    return key


# The file that Python was started with


class StudyFile(NamedTuple):
    """The file that Python was started with, with the name under which other processes import it."""

    name: str
    root: Path
    path: Path

    @property
    def installed(self) -> bool:
        return not INSTALLED.isdisjoint(self.root.parts)


def study_file() -> StudyFile | None:
    """Return the study file; None in a notebook and at a prompt."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is None or file == "<stdin>":
        return None
    path, spec = Path(file).resolve(), getattr(main, "__spec__", None)
    name = path.stem if spec is None else spec.name
    # python -m package.study
    return StudyFile(name, path.parents[name.count(".")] if spec else path.parent, path)


def caller() -> dict[str, Any]:
    """Return the globals of the innermost calling module outside of recstudy; empty if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "recstudy",
        "dataclasses",
        "pydantic",
    ):
        frame = frame.f_back
    return frame.f_globals if frame is not None else {}


def import_object(import_path: str) -> Any:
    """Import the module of `module:Name` and return its object `Name`.

    Configs store such strings, so that reading a config imports no torch.

    Raises:
        ConfigError: The module cannot be imported, or has no such name.
    """
    module, _, name = import_path.partition(":")
    study = study_file()
    # In the process that runs the study, its module is `__main__`. A second import would run the file twice.
    running = study is not None and study.name == module and module not in sys.modules
    try:
        names = vars(sys.modules["__main__"] if running else import_module(module))
    except (ImportError, SyntaxError) as error:
        if module.startswith("recstudy.") or missing_package(error):
            raise  # the error of a missing package already tells how to install it
        modules = [file.stem for file in (study.root if study else Path()).glob("*.py")]
        hint = nearest(module, modules) if getattr(error, "name", "") == module else ""
        raise ConfigError(
            f"{import_path!r}: {module} cannot be imported: {raised_at(error)}.{hint}"
        ) from error
    if name not in names:
        raise ConfigError(f"{import_path!r}: the module {module} has no {name!r}.{nearest(name, names)}")
    return names[name]


def check_call(function: Callable[..., Any], *arguments: str) -> None:
    """Check that a user's class or function can be called with these positional arguments.

    Args:
        function: The class or function.
        *arguments: Names of the arguments, for the message.

    Raises:
        ConfigError: A method is missing, or the signature has fewer or more arguments. The message names file
            and line.
    """
    name = getattr(function, "__qualname__", str(function))
    if missing_methods := sorted(getattr(function, "__abstractmethods__", ())):
        methods = [
            method
            for method, value in vars(function).items()
            if callable(value) and not method.startswith("_")
        ]
        hint = nearest(missing_methods[0], methods)
        raise ConfigError(
            f"{_location(function)}{name} lacks {choices(missing_methods)}: it has"
            f" {choices(methods) or 'no methods'}.{hint}"
        )
    try:
        own_signature = signature(function)
    except (TypeError, ValueError):  # functions written in C may have no signature
        return
    try:
        own_signature.bind(*arguments)
    except TypeError as error:
        untyped = Signature(
            [parameter.replace(annotation=Parameter.empty) for parameter in own_signature.parameters.values()]
        )
        call = f"{name}({', '.join(arguments)})"
        raise ConfigError(f"{_location(function)}{name}{untyped} is called as {call}: {error}") from None


def _location(function: Any) -> str:
    """Return `FILE, line N: ` of a definition; empty if it has no file."""
    try:
        return f"{Path(getsourcefile(function) or '').name}, line {getsourcelines(function)[1]}: "
    except (OSError, TypeError):  # typed at a prompt, or a callable object
        return ""


def files_of_study(modules: list[str]) -> UserFiles:
    """Return the files of the study that runs in this process.

    Args:
        modules: The modules that have registered something.

    Raises:
        ConfigError: The study file starts its study whenever it is imported.
    """
    study = study_file()
    if not modules:
        return UserFiles()
    if study is None:
        return user_files_of(Path.cwd(), [name for name in modules if name != "__main__"])
    names = [study.name if name == "__main__" else name for name in modules]
    if study.root.name in INSTALLED:
        return UserFiles(study.root, tuple(names))
    if "__main__" in modules:
        _check_guarded(study.path)
    # Modules already imported from below the root. The module's name must match its path, which excludes
    # packages of a virtual environment inside the root.
    files = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    imported = [
        name for name, file in files if file and any(Path(file) == study.root / path for path in paths(name))
    ]
    return user_files_of(study.root, names, imported)


def _check_guarded(file: Path) -> None:
    """Check that importing a study file does not start its study.

    Raises:
        ConfigError: `main(...)` is called outside of `if __name__ == "__main__":`.
    """
    for statement in ast.parse(file.read_bytes()).body:
        guard = isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
        if guard or isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "main":
                raise ConfigError(unguarded(file.name, call.lineno))


def unguarded(file: str, line: int | None = None) -> str:
    """Return the error message for a study file that calls `main` without a guard."""
    position = f", line {line}," if line else ""
    return (
        f"{file}{position} calls main(...) whenever it is imported, and every worker imports it. Put the call"
        ' under: if __name__ == "__main__":'
    )
