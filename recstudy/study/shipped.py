"""Find the studies that come with recstudy."""

import ast
from pathlib import Path

from recstudy.study.repository import INSIDE, PACKAGE


def shipped() -> dict[str, Path]:
    """Return the file of each shipped study by name. They are next to the package in a checkout, and inside
    it if installed.
    """
    folder = INSIDE if INSIDE.is_dir() else PACKAGE.parent / "studies"
    return {
        file.stem: file
        for file in sorted(folder.glob("*.py"))
        if "\nstudy = " in file.read_text(encoding="utf-8")
    }


def question(file: Path) -> str:
    """Return the first line of a study's docstring."""
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem).partition("\n")[0]
