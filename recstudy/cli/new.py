"""The command `recstudy new`."""

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from recstudy.base.errors import TRAIN, ConfigError
from recstudy.base.files import refuse_existing
from recstudy.base.terminal import say
from recstudy.cli.options import Name
from recstudy.programs.command import script_of

WITHOUT_RAY = "" if find_spec("ray") else " --no-ray"  # a base install has no Ray
NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class New:
    """Write a starter study that runs in under a minute.

    --function (default): a training function, in any framework. --command "python train.py": a script; if it
    does not exist, a small one is written. --model: a recursive model that recstudy trains.

    Then: python NAME.py, or python NAME.py --help.
    """

    name: Positional[Name]
    """The name of the study and of its file in this folder."""
    function: FlagCreatePairsOff[bool] = False
    """Study a training function (default)."""
    command: Annotated[str, arg(metavar="COMMAND")] = ""
    """Study a script. Give its command without options."""
    model: FlagCreatePairsOff[bool] = False
    """Study a recursive model."""

    def run(self) -> int:
        kind, *other_kinds = [kind for kind in ("function", "command", "model") if getattr(self, kind)] or [
            "function"
        ]
        if other_kinds:
            raise ConfigError(f"a study has one program: give --{kind} or --{other_kinds[0]}")
        study, *scripts = write_starter(self.name, Path(), kind, self.command)
        say(
            *(f"{script}: the script that the study runs" for script in scripts),
            f"{study}: run it with python {study}{WITHOUT_RAY}",
        )
        return 0


def write_starter(name: str, folder: Path, kind: str = "function", command: str = "") -> list[Path]:
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
    text = (
        _starter(kind)
        .replace("my_study.py", f"my_study.py{WITHOUT_RAY}")
        .replace("my_study", name)
        .replace("COMMAND", command)
        .replace("SCRIPT", script)
    )
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
    return (Path(__file__).parent / "starters" / f"{kind}.txt").read_text(encoding="utf-8")
