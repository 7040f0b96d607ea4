"""A user's files: the study's file, the modules that register something, and what these import from the same
folder.

They are found in the syntax trees, so that a late import (such as a network that a family names by a string)
counts too.
"""

import ast
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from inspect import Parameter, Signature, getsourcefile, getsourcelines, signature
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from recstudy.errors import ConfigError, choices, missing_package, nearest, raised_at
from recstudy.files import atomic_write, cache_folder, caching, sha

PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:Name, as a family names its network
INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class UserFiles:
    """The modules that a study defines itself, with all files that they need.

    Args:
        root: The folder that they are imported from.
        modules: The modules to import, in this order. A module without a file here is installed, or on
            PYTHONPATH.
        contents: Path below the root -> content of the file.
    """

    root: Path = Path()
    modules: tuple[str, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file, by its path below the root."""
        return {path: file_digest(content) for path, content in sorted(self.contents.items())}

    @property
    def record(self) -> list[dict[str, str]]:
        """The record for the plan: each `file` with its `module`, if that is to be imported."""
        modules = {self.path(name): name for name in self.modules}
        files = [{"module": modules.get(path, ""), "file": str(self.root / path)} for path in self.contents]
        return files + [{"module": name, "file": ""} for name in self.modules if not self.path(name)]

    @property
    def names(self) -> set[str]:
        """The modules of the files, and their packages."""
        return {name for path in self.contents for name in _with_packages(module_of(path))}

    def path(self, module: str) -> str:
        """Return the path of a module below the root; empty if it has no file here."""
        return next((path for path in paths(module) if path in self.contents), "")

    def copy(self) -> Path:
        """Return a folder with copies of the files, from which workers import them: an edit does not reach a
        study that runs.

        Raises:
            DataError: The cache folder cannot be written.
        """
        digest = sha([*sorted(self.modules), *(f"{path} {digest}" for path, digest in self.digests.items())])
        folder = cache_folder() / "plugins" / f"study_{digest}"
        with caching("the study's modules", folder.parent):
            for path, content in self.contents.items():
                if not (folder / path).exists():
                    with atomic_write(folder / path) as temporary:  # another process may write the same
                        temporary.write_bytes(content)
        return folder


code_digests: dict[str, str] = {}  # SHA-256 of a user file that this process has read -> of its code


def file_digest(content: bytes) -> str:
    """Return the SHA-256 of a user file, and keep that of its code in `code_digests`."""
    digest = hashlib.sha256(content).hexdigest()
    if digest not in code_digests:
        code_digests[digest] = hashlib.sha256(code_of(content).encode()).hexdigest()
    return digest


def code_of(content: bytes) -> str:
    """Return what a source computes: without comments, docstrings and layout, and without what states and
    starts a study.

    A study's settings are part of its runs' ids; its claims, seeds and report decide no number.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return content.decode(errors="replace")
    tree.body = [statement for statement in tree.body if not _is_study(statement)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [
                part
                for part in node.body
                if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
            ]
    return ast.dump(tree)


def _is_study(statement: ast.stmt) -> bool:
    """Tell whether a statement of a module makes a study, without a function of its own, or runs it."""
    if isinstance(statement, ast.If):
        return "__name__" in ast.unparse(statement.test)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    is_plain = not any(isinstance(node, ast.Lambda) for node in ast.walk(statement))
    return is_plain and ast.unparse(statement.value.func).rpartition(".")[2] in ("Study", "Search")


def user_files_of(root: Path, modules: Iterable[str], imported: Iterable[str] = ()) -> UserFiles:
    """Return the modules and every file below `root` that they import, now or later; `imported`: further
    modules to follow.
    """
    names = tuple(modules)
    contents: dict[str, bytes] = {}
    waiting = [*names, *imported]
    while waiting:
        name = waiting.pop(0)
        path = next((path for path in paths(name) if (root / path).is_file()), None)
        if path is not None and path not in contents and name.partition(".")[0] != "recstudy":
            contents[path] = (root / path).read_bytes()
            waiting += _imports(
                contents[path], name if path.endswith("__init__.py") else name.rpartition(".")[0]
            )
    return UserFiles(root, names, contents)


def module_files(file: Path) -> UserFiles:
    """Return a study's file, or a module, with what it imports (ConfigError: it is not there)."""
    if not file.is_file():
        raise ConfigError(
            f"{file} is not there. Give the file of a study, or a module, that registers something."
        )
    return user_files_of(file.resolve().parent, [file.stem])


def paths(module: str) -> tuple[str, str]:
    """Return where a module's source may be, below the folder that it is imported from."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def module_of(path: str) -> str:
    """Return the module whose source is at a path below that folder."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _with_packages(name: str) -> Iterator[str]:
    """Yield `a`, `a.b` and `a.b.c` for `a.b.c`."""
    return accumulate(name.split("."), "{}.{}".format)


def _imports(content: bytes, package: str) -> Iterator[str]:
    """Yield the modules that a source may import, with their packages."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return  # the import says so
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            names = [".".join(filter(None, [*above, node.module, alias.name])) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PLACE.fullmatch(node.value):
            names = [node.value.partition(":")[0]]
        for name in names:
            yield from _with_packages(name)


def code_key(*entries: type | str) -> list[str]:
    """Return the key of what classes, or functions named `module:name`, compute: recstudy's version and
    SHA-256 of the files.

    The files that a user's file imports from its folder count too: a changed helper of a reader decodes other
    images. A class that was typed at a prompt has no file, so its key is of this process alone.
    """
    key = [version("recstudy")]
    for entry in entries:
        module = entry.partition(":")[0] if isinstance(entry, str) else entry.__module__
        spec = None if module in sys.modules else find_spec(module)  # which imports no network
        file = Path(
            getattr(sys.modules.get(module, spec), "__file__" if spec is None else "origin", None) or ""
        )
        if not file.is_file():
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


# ------------------------------------------------------------------------------------------- the file that is
# run


class StudyFile(NamedTuple):
    """The file that Python was started with, as a module that others could import."""

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
    """Return the globals of the innermost module outside of recstudy that is being run; empty if there is
    none.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "recstudy",
        "dataclasses",
        "pydantic",
    ):
        frame = frame.f_back
    return frame.f_globals if frame is not None else {}


def named(place: str) -> Any:
    """Return what `module:Name` names; its module is imported now, so that a config loads no torch before it
    computes.
    """
    module, _, name = place.partition(":")
    study = study_file()
    running = study is not None and study.name == module and module not in sys.modules
    try:
        names = vars(sys.modules["__main__"] if running else import_module(module))
    except (ImportError, SyntaxError) as error:
        if module.startswith("recstudy.") or missing_package(error):
            raise
        modules = [file.stem for file in (study.root if study else Path()).glob("*.py")]
        hint = nearest(module, modules) if getattr(error, "name", "") == module else ""
        raise ConfigError(f"{place!r}: {module} cannot be imported: {raised_at(error)}.{hint}") from error
    if name not in names:
        raise ConfigError(f"{place!r}: the module {module} has no {name!r}.{nearest(name, names)}")
    return names[name]


def check_call(function: Callable[..., Any], *arguments: str) -> None:
    """Refuse a class or a function of a user's that cannot be called with these arguments, named for the
    message.

    Raises:
        ConfigError: A method is missing, or the signature has fewer or more arguments. The message names file
            and line.
    """
    name = getattr(function, "__qualname__", str(function))
    if missing := sorted(getattr(function, "__abstractmethods__", ())):
        methods = [
            method
            for method, value in vars(function).items()
            if callable(value) and not method.startswith("_")
        ]
        hint = nearest(missing[0], methods)
        raise ConfigError(
            f"{_defined(function)}{name} lacks {choices(missing)}: it has"
            f" {choices(methods) or 'no methods'}.{hint}"
        )
    try:
        taken = signature(function)
    except (TypeError, ValueError):  # of C
        return
    try:
        taken.bind(*arguments)
    except TypeError as error:
        untyped = Signature([each.replace(annotation=Parameter.empty) for each in taken.parameters.values()])
        call = f"{name}({', '.join(arguments)})"
        raise ConfigError(f"{_defined(function)}{name}{untyped} is called as {call}: {error}") from None


def _defined(function: Any) -> str:
    """Return `FILE, line N: ` of a definition; empty where there is no file."""
    try:
        return f"{Path(getsourcefile(function) or '').name}, line {getsourcelines(function)[1]}: "
    except (OSError, TypeError):  # typed at a prompt, or an object that can be called
        return ""


def files_of_study(modules: list[str]) -> UserFiles:
    """Return the files of the study that runs in this process, by the modules that have registered something.

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
    # What was imported from below the root so far; never from an environment inside, whose modules have other
    # names.
    files = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    imported = [
        name for name, file in files if file and any(Path(file) == study.root / path for path in paths(name))
    ]
    return user_files_of(study.root, names, imported)


def _check_guarded(file: Path) -> None:
    """Refuse a study file that would start its study in every process that imports it.

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
    at = f", line {line}," if line else ""
    return (
        f"{file}{at} calls main(...) whenever it is imported, as every worker does. Put it under: if __name__"
        ' == "__main__":'
    )
