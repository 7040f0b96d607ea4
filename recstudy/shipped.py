"""Find and start the studies that come with recstudy, and write starter studies."""

import ast
import keyword
import os
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from recstudy.errors import TRAIN, ConfigError, nearest
from recstudy.files import refuse_existing
from recstudy.programs.command import script_of
from recstudy.study.repository import INSIDE, PACKAGE

NAME = re.compile(r"[a-z][a-z0-9_]*")


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


def run(name: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by `python studies/NAME.py ARGUMENTS`.

    Raises:
        ConfigError: There is no shipped study of this name.
    """
    studies = shipped()
    file = Path(name) if name.endswith(".py") else studies.get(name)
    if file is None or not file.is_file():
        raise ConfigError(f"no study {name!r}.{nearest(name, studies)} `recstudy studies` lists them")
    os.execv(sys.executable, [sys.executable, str(file), *arguments])


def new(name: str, folder: Path, kind: str = "function", command: str = "") -> list[Path]:
    """Write a starter study.

    Args:
        name: The name of the study and of its file.
        folder: The folder of the file.
        kind: The program of its runs: `function`, `command` or `model`.
        command: For the kind `command`: the command without its options, such as `python train.py`. If that
            script does not exist, a small one is written.

    Returns:
        The written files, the study first.

    Raises:
        ConfigError: The name is no module name or is used by another module, the file exists, or the command
            has placeholders or no script.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"a study's name is that of a Python module: small letters, digits and '_', but got {name!r}"
        )
    file, script = folder / f"{name}.py", script_of(command.split()) if command else ""
    refuse_existing(file)
    if "{" in command:
        raise ConfigError(
            "give the command without its options, such as 'python train.py': the study has them. Got"
            f" {command!r}"
        )
    text = _starter(kind).replace("my_study", name).replace("COMMAND", command).replace("SCRIPT", script)
    files = [file]
    _refuse_module(file)
    if script.endswith(".py") and not (folder / script).exists():
        _refuse_module(folder / script)
        files.append(folder / script)
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        files[-1].write_text(_starter("script"), encoding="utf-8")
    elif command:
        text = re.sub(r"    (data|is_synthetic)=.*\n", "", text)  # which the small script has
    file.write_text(text, encoding="utf-8")
    return files


def _refuse_module(file: Path) -> None:
    """Raise ConfigError if Python would import this file in place of an installed module."""
    name, spec = file.stem, find_spec(file.stem)
    if keyword.iskeyword(name):
        raise ConfigError(
            f"{file}: {name!r} is a keyword of Python and cannot be imported. Give another name, such as"
            f" my_{name}"
        )
    if name == "conftest":
        raise ConfigError(
            f"{file} would be run by pytest in every test of its folder. Give another name, such as my_study"
        )
    # a mere folder has no origin
    if name in sys.stdlib_module_names or name in TRAIN or (spec and spec.origin):
        raise ConfigError(
            f"{file} would be imported wherever the module {name!r} is meant. Give another name, such as"
            f" my_{name}"
        )


def _starter(kind: str) -> str:
    return (PACKAGE / f"starter_{kind}.txt").read_text(encoding="utf-8")
