"""Which of a user's files a study needs: the modules that register something, and what they import from beside them.

Found in the syntax trees, so that what is imported late (a network that a family names by a string) is found too.
"""

import ast
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import decode_source, find_spec
from pathlib import Path
from typing import Any, NamedTuple

from recstudy.errors import ConfigError
from recstudy.files import sha

PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:Name, as a family names its network
INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class Bundle:
    """A user's modules as text, which travels to any process.

    Args:
        root: the folder of the study file.
        modules: which to import, in their order; one without a file is installed, or on PYTHONPATH.
        files: path below the root -> source.
    """

    root: str = ""
    modules: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.modules)

    @cached_property
    def digest(self) -> str:
        """Digest the names of the modules and the texts of the files."""
        return sha([*sorted(self.modules), *(f"{path}\0{text}" for path, text in sorted(self.files.items()))])

    @property
    def record(self) -> list[dict[str, str]]:
        """For the plan: which modules to import (`module`; empty for files that only they import) and their files."""
        named = {path: name for name in self.modules if (path := self.path(name))}
        files = [{"module": named.get(path, ""), "file": str(Path(self.root, path))} for path in self.files]
        return files + [{"module": name, "file": ""} for name in self.modules if not self.path(name)]

    @cached_property
    def names(self) -> set[str]:
        """Name the modules of the files and the packages that they are in, whether these have a file or not."""
        return {name for path in self.files for name in parents(module_of(path))}

    def path(self, module: str) -> str:
        """Tell where a module's source is below the root; nothing where it is not in the bundle."""
        return next((path for path in paths(module) if path in self.files), "")


def paths(module: str) -> tuple[str, str]:
    """Return where a module's source may be, below the folder that it is imported from."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def code_key(*entries: type | str) -> list[str]:
    """Return the key of what classes, or functions named `module:name`, compute: recstudy's version and each file's SHA-256.

    The files that a user's file imports from beside it count, too: a changed helper of a reader decodes other images.
    A class that was typed at a prompt has no file, so its key is of this process alone.
    """
    key = [version("recstudy")]
    for entry in entries:
        module = entry.partition(":")[0] if isinstance(entry, str) else entry.__module__
        spec = None if module in sys.modules else find_spec(module)  # which imports no network
        file = Path(getattr(sys.modules.get(module, spec), "__file__" if spec is None else "origin", None) or "")
        if not file.is_file():
            key.append(f"process {os.getpid()}, {id(entry)}")
            continue
        key.append(hashlib.sha256(file.read_bytes()).hexdigest())
        name, file = file.stem if module == "__main__" else module, file.resolve()
        if INSTALLED.isdisjoint(file.parts) and name.partition(".")[0] != "recstudy":
            beside = bundle_of(file.parents[name.count(".") + (file.stem == "__init__")], [name])
            key += [sha([text]) for _, text in sorted(beside.files.items())]
    return key


def parents(name: str) -> list[str]:
    """Return a module's packages, and itself."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def bundle_of(root: Path, modules: Iterable[str], loaded: Iterable[str] = ()) -> Bundle:
    """Return the modules, and every file below `root` that they import, now or later; `loaded`: what is known to be imported."""
    names = tuple(modules)
    files: dict[str, str] = {}
    waiting = [*names, *loaded]
    while waiting:
        name = waiting.pop(0)
        found = next((path for path in paths(name) if (root / path).is_file()), None)
        if found is None or found in files or name.partition(".")[0] == "recstudy":
            continue
        files[found] = source(root / found)
        waiting += _imported(files[found], name if found.endswith("__init__.py") else name.rpartition(".")[0])
    return Bundle(str(root), names, files)


def file_bundle(file: Path) -> Bundle:
    """Return a study's file, or a module, with what it imports.

    Raises:
        ConfigError: it is not there.
    """
    if not file.is_file():
        raise ConfigError(f"{file} is not there. Give the file of a study, or a module, that registers something.")
    return bundle_of(file.resolve().parent, [file.stem])


def source(file: Path) -> str:
    try:
        return decode_source(file.read_bytes())
    except (OSError, UnicodeError, SyntaxError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from None


def _imported(text: str, package: str) -> Iterator[str]:
    """Return the modules that a source may import, with the packages that they are in."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return  # whoever imports it is told
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = [name for name in (*above, node.module) if name]
            found = [".".join([*base, alias.name]) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PLACE.fullmatch(node.value):
            found = [node.value.partition(":")[0]]
        else:
            continue
        for name in found:
            yield from parents(name)


# ------------------------------------------------------------------------------------------- the file that is run


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
    if spec is None:
        return StudyFile(path.stem, path.parent, path)
    return StudyFile(spec.name, path.parents[spec.name.count(".")], path)  # python -m package.study


def named(place: str) -> Any:
    """Return what `module:Name` names; its module is imported now, so that a config loads no torch before it computes."""
    module, _, name = place.partition(":")
    study = study_file()
    running = study is not None and study.name == module and module not in sys.modules
    return getattr(sys.modules["__main__"] if running else import_module(module), name)


def main_bundle(modules: Iterable[str]) -> Bundle:
    """Return the bundle of the study that runs in this process, by the modules that have registered something.

    Raises:
        ConfigError: one was defined where there is no file, or the study file starts its study whenever it is imported.
    """
    modules, study = list(modules), study_file()
    if not modules:
        return Bundle()
    if study is None:
        if "__main__" in modules:
            raise ConfigError("what is registered at a prompt cannot reach other processes: write it into a file and import it")
        return bundle_of(Path.cwd(), modules)
    names = [study.name if name == "__main__" else name for name in modules]
    if study.installed:
        return Bundle(str(study.root), tuple(names))
    if "__main__" in modules:
        check_guarded(study.path)
    # What was imported from below the root so far; never from an environment inside, whose modules have other names.
    files = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    beside = [name for name, file in files if file and any(Path(file) == study.root / path for path in paths(name))]
    return bundle_of(study.root, names, beside)


def check_guarded(file: Path) -> None:
    """Refuse a study file that would start its study in every process that imports it.

    Raises:
        ConfigError: `main(...)` is called outside of `if __name__ == "__main__":`.
    """
    for statement in ast.parse(source(file)).body:
        guard = isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
        if guard or isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "main":
                raise ConfigError(unguarded(file.name, call.lineno))


def unguarded(file: str, line: int | None = None) -> str:
    at = f", line {line}," if line else ""
    return f'{file}{at} calls main(...) whenever it is imported, as every worker does. Put it under: if __name__ == "__main__":'
