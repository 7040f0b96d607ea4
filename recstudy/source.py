"""Digests of the code that computes something: of the definitions that it uses, file by file.

From a class or function on, names are followed to the definitions beside it and, through imports, to those of other files:
below the folder of a user's module, and of recstudy all but what computes no number of a run (`IDLE`), so that a new module
counts from its first import on. What stands in the same file and is not used does not count, nor do comments, formatting,
docstrings, annotations of functions, descriptions of fields and the version of Python: a digest moves where what is computed
may have changed.

The digests of a file's definitions are kept in RECSTUDY_CACHE/code.json, by the file's path, size and time.
"""

import ast
import hashlib
import importlib.util
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from recstudy.files import cache_folder, whole

PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:Name, as a family names its network
ROOT = Path(__file__).parents[1]  # the folder that recstudy lies in
OURS = Path(__file__).parent.name
INSTALLED = {"site-packages", "dist-packages"}  # there a module's own package is followed, and no other
IDLE = (  # what is set stands in a run's id, and the rest writes, reads or refuses what others computed
    *(f"{OURS}.{part}" for part in ("config", "errors", "explained", "files", "opened", "plugins", "records", "source")),
    *(f"{OURS}.{part}" for part in ("data.checking", "metrics.registry", "train.watchdog")),
)
SETTLED_S = 2.0  # a file that changed later than that may change again within its clock's tick


@dataclass(frozen=True)
class Code:
    """What something is computed by: file -> digest of the definitions in it that are used. Empty: nobody knows."""

    files: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Digest all of it, wherever the files lie; empty where nobody knows."""
        return sha(sorted(self.files.values())) if self.files else ""


def code_of(*entries: Any) -> Code:
    """Return what computes `entries`: classes, functions, or `module:Name`; `module:` is all of a module."""
    walk = _Walk()
    for module, name in map(_named, entries):
        walk.start(module, name)
    _files.keep()
    return Code({name: sha(sorted(digests)) for name, digests in sorted(walk.used.items())})


def same_code(made: str, now: str) -> bool:
    """Return whether a record's digest is the present one, or that of the same definitions in the files of before.

    moved_code.json has the digests of commits 73e8870, whose scopes were listed by hand, 4c1a5c9, 639df5b and f1b9d36, with what
    each is now where the same is computed: several, where training on different kinds of labels had one digest.
    """
    return made == now or now in _moved().get(made, ())


@cache
def _moved() -> dict[str, list[str]]:
    return dict(json.loads(Path(__file__).with_name("moved_code.json").read_bytes()))


def _named(entry: Any) -> tuple[str, str]:
    """Module and name of an entry; no name for all of a module."""
    if isinstance(entry, str):
        module, _, name = entry.partition(":")
        return module, name
    kind = entry if hasattr(entry, "__qualname__") else type(entry)
    return kind.__module__, kind.__qualname__.partition(".")[0]


class _Module(NamedTuple):
    """A file, by the folder that it is imported from and its path below."""

    root: Path
    path: str

    @property
    def package(self) -> list[str]:
        return self.path.split("/")[:-1]


class _Walk:
    """What was found so far."""

    def __init__(self) -> None:
        self.used: dict[str, set[str]] = {}  # file -> digests of the definitions in it
        self.seen: set[tuple[_Module, str]] = set()
        self.waiting: list[tuple[_Module, str]] = []

    def start(self, module: str, name: str) -> None:
        if (found := _located(module)) is not None:
            self.waiting.append((found, name))
        while self.waiting:
            self._follow(*self.waiting.pop())

    def _follow(self, module: _Module, name: str) -> None:
        """Follow a name of a module, and all that its definition uses; every name where it is empty."""
        if (module, name) in self.seen:
            return
        self.seen.add((module, name))
        file = _files.read(module)
        if not name:
            self.waiting += [(module, defined) for defined in file["defined"]]
        for statement in (file["statements"][number] for number in file["defined"].get(name, ())):
            self.used.setdefault(module.path, set()).add(statement["digest"])
            for used in statement["uses"]:
                self._use(module, used, file["imports"] | statement["imports"])
        if name in file["imports"]:
            self._use(module, name, file["imports"])
        elif name not in file["defined"]:
            for star in file["stars"]:
                self._reach(module, star, [name])

    def _use(self, module: _Module, used: str, imports: Mapping[str, str]) -> None:
        """Follow what a statement uses: `name`, `name.attribute...`, or `module:Name` in a string."""
        if ":" in used:
            self._reach(module, *_split(used))
            return
        name, *rest = used.split(".")
        if name in imports:
            base, names = _split(imports[name])
            self._reach(module, base, [*names, *rest])
        else:
            self.waiting.append((module, name))

    def _reach(self, module: _Module, base: str, names: Sequence[str]) -> None:
        """Follow what the module `base` and the names taken of it, one by one, lead to: some may be modules too."""
        found = self._there(module, base)
        while names and (inner := self._there(module, f"{base}.{names[0]}")) is not None:
            found, base, names = inner, f"{base}.{names[0]}", names[1:]
        if found is not None:
            self.waiting.append((found, names[0] if names else ""))

    def _there(self, module: _Module, name: str) -> _Module | None:
        """Another module, where it is followed."""
        top = name.partition(".")[0]
        if top == OURS:
            idle = any(f"{name}.".startswith(f"{part}.") for part in IDLE)
            return None if idle else _below(ROOT, name)
        if not INSTALLED.isdisjoint(module.root.parts) and top != module.path.partition("/")[0].removesuffix(".py"):
            return None
        return _below(module.root, name)


def _split(target: str) -> tuple[str, list[str]]:
    base, _, name = target.partition(":")
    return base, [name] if name else []


def paths(module: str) -> tuple[str, str]:
    """Return where a module's source may be, below the folder that it is imported from."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def _located(name: str) -> _Module | None:
    """Return a module by its name in this process."""
    if name.startswith(f"{OURS}."):
        return _below(ROOT, name)
    loaded = sys.modules.get(name)
    file, spec = getattr(loaded, "__file__", None), getattr(loaded, "__spec__", None)
    if loaded is None:
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.util.find_spec(name)
            file = spec.origin if spec else None
    if file is None or not file.endswith(".py"):
        return None  # defined at a prompt, or no Python
    path, name = Path(file).resolve(), spec.name if spec else Path(file).stem
    depth = name.count(".") + (path.name == "__init__.py")
    return _Module(path.parents[depth], path.relative_to(path.parents[depth]).as_posix())


@lru_cache(maxsize=4096)
def _below(root: Path, name: str) -> _Module | None:
    return next((_Module(root, file) for file in paths(name) if (root / file).is_file()), None)


def stand(texts: Mapping[Path, str]) -> None:
    """Take these texts for the files' from now on, in this process, in place of those that were given before."""
    _files.standing = dict(texts)


class _Files:
    """Files taken apart, each once, and kept for later processes.

    `standing` has the texts of those that are imported as they were, whatever their files hold by now.
    """

    def __init__(self) -> None:
        self.known: dict[str, Any] | None = None
        self.checked: dict[_Module, Any] = {}
        self.standing: dict[Path, str] = {}
        self.changed = False

    @property
    def path(self) -> Path:
        return cache_folder() / "code.json"

    def read(self, module: _Module) -> Any:
        if module not in self.checked:
            self.checked[module] = self._read(module)
        return self.checked[module]

    def _read(self, module: _Module) -> Any:
        file = module.root / module.path
        if (text := self.standing.get(file)) is not None:
            return taken_apart(text, module.package)
        stamp, key = _stamp(file), f"{module.root}:{module.path}"
        if self.known is None:
            self.known = self._kept()
        kept = self.known.get(key)
        if kept is None or kept["stamp"] != stamp:
            kept = {"stamp": stamp, **taken_apart(file.read_bytes(), module.package)}
            if time.time() - stamp[1] / 1e9 > SETTLED_S:
                self.known[key], self.changed = kept, True
        return kept

    def _kept(self) -> dict[str, Any]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self.path.read_bytes())
            if kept["by"] == _stamp(Path(__file__)):
                return dict(kept["files"])
        return {}

    def keep(self) -> None:
        """Keep them for later processes; what is looked at next is looked at anew."""
        self.checked.clear()
        _below.cache_clear()
        if self.changed:
            with suppress(OSError), whole(self.path) as temporary:  # then it is computed again
                temporary.write_text(json.dumps({"by": _stamp(Path(__file__)), "files": self.known}), encoding="utf-8")
            self.changed = False


_files = _Files()


def _stamp(file: Path) -> list[int]:
    about = file.stat()
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns]  # the last moves where an edit keeps size and time


def taken_apart(source: bytes | str, package: Sequence[str]) -> dict[str, Any]:
    """Return the statements of a file with their digests and what they use, by the names that they define; its imports."""
    file: dict[str, Any] = {"statements": [], "defined": {}, "imports": {}, "stars": []}
    for statement in _parsed(source):
        text: list[str] = []
        uses: set[str] = set()
        imports: dict[str, str] = {}
        _write(statement, text, uses)
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports |= imported(node, package)
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.If | ast.Try):
            file["imports"] |= imports
            file["stars"] += [target.partition(":")[0] for name, target in imports.items() if name == "*"]
        if defined := set(_defined(statement)):
            for name in defined:
                file["defined"].setdefault(name, []).append(len(file["statements"]))
            file["statements"].append({"digest": sha(text), "uses": sorted(uses), "imports": imports})
    return file


def _parsed(source: bytes | str) -> list[ast.stmt]:
    """Return the statements, without those that no process runs when it imports the module."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return []  # whoever imports it is told
    skipped = ("TYPE_CHECKING", "__name__")
    return [one for one in body if not (isinstance(one, ast.If) and any(name in ast.dump(one.test) for name in skipped))]


def _defined(statement: ast.AST) -> Iterator[str]:
    """Names that a statement binds, or changes what is bound to."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield from _root(statement.value.func)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _root(target)
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        yield from _root(statement.target)
    elif not isinstance(statement, ast.Import | ast.ImportFrom):
        for inner in ast.iter_child_nodes(statement):
            yield from _defined(inner)


def _root(target: ast.AST) -> Iterator[str]:
    """Return `table` of `table["a"].b = ...`."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _root(one)
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred | ast.Call):
        target = target.func if isinstance(target, ast.Call) else target.value
    if isinstance(target, ast.Name):
        yield target.id


def imported(node: ast.Import | ast.ImportFrom, package: Sequence[str]) -> dict[str, str]:
    """Return what an import binds: name -> `module`, or `module:name`."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or (top := alias.name.partition(".")[0]): alias.name if alias.asname else top for alias in node.names
        }
    above = package[: len(package) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    return {alias.asname or alias.name: f"{base}:{alias.name}" for alias in node.names}


def _write(node: Any, text: list[str], uses: set[str]) -> None:
    """Write a syntax tree as text that any version of Python writes alike, and the names that it uses."""
    if isinstance(node, list):
        for one in node:
            _write(one, text, uses)
    elif not isinstance(node, ast.AST):
        text.append(repr(node))
    elif not _says_nothing(node):
        dotted = _dotted(node)
        if dotted:
            uses.add(dotted)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PLACE.fullmatch(node.value):
            uses.add(node.value)
        text += ["(", type(node).__name__, *([dotted] if dotted else [])]
        for name in () if dotted else node._fields:
            value = getattr(node, name, None)
            if value is not None and value != [] and name not in _uncounted(node):
                text.append(name)
                _write(value, text, uses)
        text.append(")")


def _says_nothing(node: ast.AST) -> bool:
    """Docstrings, `pass`, and what documents a field."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Pass) or (isinstance(node, ast.keyword) and node.arg == "description")


def _uncounted(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.arg):
        return ("annotation", "type_comment")
    return ("ctx", "kind", "returns", "type_comment")


def _dotted(node: ast.AST) -> str:
    """Return `a.b.c` for what is written so; nothing for other expressions."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join(reversed([*names, node.id])) if isinstance(node, ast.Name) else ""


def sha(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
