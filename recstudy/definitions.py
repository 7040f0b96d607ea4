"""What one file of source defines: its statements, each with a digest, the names that it defines and those that it uses.

Comments, formatting, docstrings, annotations of functions and descriptions of fields do not count, nor does the version of
Python.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:Name, as a family names its network


def taken_apart(source: bytes, package: Sequence[str]) -> dict[str, Any]:
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


def _parsed(source: bytes) -> list[ast.stmt]:
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
