"""Read the source of a user's file: which of it decides numbers, and what it imports.

Imports are read from syntax trees, so a later import counts too, such as a network that a family names by a
string.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate

IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # module:Name, as a family names its network


def code_of(content: bytes) -> str:
    """Return the code of a source without comments, docstrings, layout and the definition of a study.

    Two sources with the same result compute the same numbers.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return content.decode(errors="replace")
    # A study's settings are in the ids of its runs already. Its claims, seeds and report change no number.
    names = _names_of_recstudy(tree)
    tree.body = [statement for statement in tree.body if not _is_study(statement, names)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [
                part
                for part in node.body
                if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
            ]
    return ast.dump(tree)


def _names_of_recstudy(tree: ast.Module) -> dict[str, str]:
    """Return the names that a module has for objects of recstudy: name in the module -> name in recstudy."""
    names = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("recstudy."):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            for module in (alias.asname or "recstudy" for alias in node.names if alias.name == "recstudy"):
                names |= {f"{module}.{name}": name for name in ("Study", "Search", "main")}
    return names


def _is_study(statement: ast.stmt, names: Mapping[str, str]) -> bool:
    """Tell whether a statement of a module only runs a study, or defines one without a lambda.

    Args:
        statement: The statement.
        names: The module's names of what it imports from recstudy.
    """

    def calls(node: ast.AST, *functions: str) -> bool:
        return isinstance(node, ast.Call) and names.get(ast.unparse(node.func)) in functions

    if isinstance(statement, ast.If):
        lines = [any(calls(node, "main") for node in ast.walk(line)) for line in statement.body]
        return "__name__" in ast.unparse(statement.test) and all(lines)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    is_plain = not any(isinstance(node, ast.Lambda) for node in ast.walk(statement))
    return is_plain and calls(statement.value, "Study", "Search")


def paths(module: str) -> tuple[str, str]:
    """Return the possible paths of a module's source, relative to the folder that it is imported from."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def module_of(path: str) -> str:
    """Return the module of a source, given its path relative to the folder that it is imported from."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def with_packages(name: str) -> Iterator[str]:
    """Yield `a`, `a.b` and `a.b.c` for `a.b.c`."""
    return accumulate(name.split("."), "{}.{}".format)


def imports_of(path: str, content: bytes) -> Iterator[str]:
    """Yield the modules that a source may import, with their packages.

    Args:
        path: The source's path relative to the folder that it is imported from.
        content: The source.
    """
    module = module_of(path)
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return  # importing it raises the error with file and line
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Call) and loads_code(node) and isinstance(node.args[0], ast.Constant):
            names = [str(node.args[0].value)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # a level of 1 is the package itself, 2 its parent, and so on
            parents = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            names = [".".join(filter(None, [*parents, node.module, alias.name])) for alias in node.names]
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and IMPORT_PATH.fullmatch(node.value)
        ):
            names = [node.value.partition(":")[0]]
        for name in names:
            yield from with_packages(name)


def loads_code(call: ast.Call) -> bool:
    """Return whether a call imports a module by its name, or executes a text."""
    function = ast.unparse(call.func).removeprefix("importlib.").removeprefix("runpy.")
    return bool(call.args) and function in ("import_module", "__import__", "run_path", "run_module", "exec")


def computes_imports(content: bytes) -> bool:
    """Return whether a source imports modules whose names it computes, so that any file may be one."""
    try:
        nodes = ast.walk(ast.parse(content))
    except (SyntaxError, ValueError):
        return False
    return any(
        isinstance(node, ast.Call) and loads_code(node) and not isinstance(node.args[0], ast.Constant)
        for node in nodes
    )
