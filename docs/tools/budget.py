"""Compare the size of each folder, in tokens, with its budget in pyproject.toml ([tool.recstudy.budget]).

    python docs/tools/budget.py          print every folder, fail if one exceeds its budget (make check)

A token is a name, an operator, a number or a string. Comments and docstrings are free, so that shorter lines
and better documentation cost nothing.
"""

import ast
import io
import sys
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
UNCOUNTED_TOKENS = LAYOUT | {tokenize.COMMENT}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_lines(text: str) -> set[int]:
    """Return the numbers of the lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def count_tokens(file: Path) -> int:
    """Return the number of tokens of a Python file, without comments and docstrings."""
    text = file.read_text(encoding="utf-8")
    docstrings = docstring_lines(text)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in UNCOUNTED_TOKENS and token.start[0] not in docstrings for token in tokens)


def main() -> int:
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["recstudy"][
        "budget"
    ]
    exceeded = []
    for folder, budget in budgets.items():
        # "recstudy/*.py" counts the files directly in a folder, "recstudy/study" those at any depth.
        pattern = folder if folder.endswith(".py") else f"{folder}/**/*.py"
        tokens = sum(map(count_tokens, ROOT.glob(pattern)))
        print(f"{folder:22}{tokens:9,} of {budget:,}")
        if tokens > budget:
            exceeded.append(
                f"{folder} has {tokens:,} tokens, {tokens - budget:,} more than its budget in pyproject.toml"
            )
    print(*exceeded, sep="\n", end="\n" if exceeded else "", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
