"""The studies that come with recstudy: beside the package in a checkout, inside it where it is installed."""

import ast
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from recstudy.errors import ConfigError, nearest
from recstudy.study.repository import INSIDE, PACKAGE

STARTER = PACKAGE / "starter.txt"  # of which `recstudy new` writes a copy under another name
STARTERS_NAME = "own_model"
NAME = re.compile(r"[a-z][a-z0-9_]*")


def shipped() -> dict[str, Path]:
    """Return the file of each study, by its name."""
    folder = INSIDE if INSIDE.is_dir() else PACKAGE.parent / "studies"
    return {file.stem: file for file in sorted(folder.glob("*.py")) if "\nstudy = " in file.read_text(encoding="utf-8")}


def question(file: Path) -> str:
    """Return the first line of a study's docstring."""
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem).partition("\n")[0]


def run(name: str, arguments: Sequence[str]) -> NoReturn:
    """Become the process of `python studies/NAME.py ARGUMENTS`; a study of your own is named by its file.

    Raises:
        ConfigError: there is none of that name.
    """
    studies = shipped()
    file = Path(name) if name.endswith(".py") else studies.get(name)
    if file is None or not file.is_file():
        raise ConfigError(f"no study {name!r}.{nearest(name, studies)} `recstudy studies` lists them")
    os.execv(sys.executable, [sys.executable, str(file), *arguments])


def new(name: str, folder: Path) -> Path:
    """Write the starter's copy under another name.

    Raises:
        ConfigError: the name is no module's, or the file is there.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"a study's name is that of a Python module: small letters, digits and '_', but got {name!r}")
    file = folder / f"{name}.py"
    if file.exists():
        raise ConfigError(f"{file} is there already. Give another name, or remove it first.")
    file.write_text(STARTER.read_text(encoding="utf-8").replace(STARTERS_NAME, name), encoding="utf-8")
    return file
