"""Check the size and the names of the code against the limits in pyproject.toml (`make check`).

[tool.recstudy.budget] limits the tokens of each folder, and [tool.recstudy.plain] the share of names without
a noun and other signs of code that is hard to read.

    python docs/tools/budget.py          # print every measure; exit with code 1 if one exceeds its limit
    python docs/tools/budget.py --names  # list each name without a noun, with its place
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
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
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Participles, pronouns and adverbs. A name made of these alone does not say which thing it is.
NO_NOUNS = frozenset((Path(__file__).parent / "no_nouns.txt").read_text(encoding="utf-8").split())
LONGEST_INLINE = 8  # lines of a private function that its only caller could contain


@dataclass
class Measures:
    """Counts of one folder; the lists name places for messages."""

    tokens: int = 0
    code_lines: int = 0
    comment_lines: int = 0
    names: int = 0
    called_once: int = 0
    nounless: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)

    def add(self, file: Path) -> None:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        docstrings = docstring_lines(tree)
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                self.comment_lines += token.line.lstrip().startswith("#")
            elif token.type not in LAYOUT and token.start[0] not in docstrings:
                self.tokens += 1
                lines.update(range(token.start[0], token.end[0] + 1))
        self.code_lines += len(lines)
        uses = Counter(re.findall(r"\b_\w+\b", text))
        for name, line, node in defined_names(tree):
            self.names += 1
            if has_no_noun(name):
                self.nounless.append(f"{file.relative_to(ROOT)}:{line} {name}")
            if isinstance(node, ast.ClassDef):
                self.classes.append(name)
            is_private = isinstance(node, ast.FunctionDef) and re.match(r"_[a-z]", name) is not None
            self.called_once += is_private and uses[name] == 2 and is_short(node)


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the numbers of the lines that docstrings take."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return lines


def defined_names(tree: ast.AST) -> Iterator[tuple[str, int, ast.AST]]:
    """Yield the name, the line and the node of each variable, parameter, attribute, function and class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno, node
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno, node
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno, node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node.lineno, node


def has_no_noun(name: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
    return bool(words) and all(word.lower() in NO_NOUNS for word in words)


def is_short(function: ast.AST) -> bool:
    assert isinstance(function, ast.FunctionDef)
    last_line = function.body[-1].end_lineno or 0
    return last_line - function.body[0].lineno < LONGEST_INLINE and not function.decorator_list


def measure(pattern: str) -> Measures:
    """Measure the Python files below a folder, or those of a pattern such as studies/*.py."""
    measures = Measures()
    for file in sorted(ROOT.glob(pattern if pattern.endswith(".py") else f"{pattern}/**/*.py")):
        measures.add(file)
    return measures


def check_sizes(budgets: dict[str, int]) -> Iterator[str]:
    for folder, budget in budgets.items():
        tokens = measure(folder).tokens
        print(f"{folder:22}{tokens:9,} of {budget:,} tokens")
        if tokens > budget:
            yield f"{folder} has {tokens:,} tokens, {tokens - budget:,} above its budget in pyproject.toml"


def check_names(limits: dict[str, dict[str, float]], listed: bool) -> Iterator[str]:
    for folder, limit in limits.items():
        measures = measure(folder)
        values = {
            "nounless_percent": 100 * len(measures.nounless) / measures.names,
            "classes_named_twice": len([name for name, n in Counter(measures.classes).items() if n > 1]),
            "called_once": measures.called_once,
            "tokens_per_line": measures.tokens / measures.code_lines,
            "comment_percent": 100 * measures.comment_lines / measures.code_lines,
        }
        print(f"{folder:22}" + ", ".join(f"{name} {values[name]:.2f}" for name in limit))
        if listed:
            print(*measures.nounless, sep="\n")
        for name, bound in limit.items():
            is_minimum = name == "comment_percent"
            if values[name] < bound if is_minimum else values[name] > bound:
                yield (
                    f"{folder}: {name} is {values[name]:.2f}, the limit is {bound}"
                    " (python docs/tools/budget.py --names lists names without a noun)"
                )


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    settings = project["tool"]["recstudy"]
    errors = [*check_sizes(settings["budget"]), *check_names(settings["plain"], "--names" in sys.argv)]
    print(*errors, sep="\n", end="\n" if errors else "", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
