"""The command `recstudy new`."""

import json
import keyword
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from recstudy.base.errors import TRAIN, ConfigError, StorageError
from recstudy.base.files import refuse_existing
from recstudy.base.terminal import say
from recstudy.base.values import flatten, set_at
from recstudy.cli.options import Name
from recstudy.programs.command_line import script_of, split_words
from recstudy.programs.inputs import CODE

WITHOUT_RAY = "" if find_spec("ray") else " --no-ray"  # a base install has no Ray
NAME = re.compile(r"[a-z][a-z0-9_]*")
OPTION = re.compile(r"(?<=\s)(--?[A-Za-z][\w.-]*(?:=|\s+)|\+*[A-Za-z][\w.]*=)(-?[\d.]\S*|[^\s-]\S*)")
WANDB = re.compile(r"^\s*(import|from) wandb\b", re.MULTILINE)
SEEDS = ("seed", "random_seed", "random_state", "manual_seed")
OUTPUT = re.compile(
    r"o|out|output|(out|output|save|log|checkpoint|result|results|run|root)_?(dir|path|folder)"
)


@dataclass(frozen=True)
class NewCommand:
    """Write a starter study that runs in under a minute.

    --function (default): a training function, in any framework. --command "python train.py --lr 0.1": an
    existing script, whose numbers become settings. --script: a small script, which is written too. --model:
    a recursive model that recstudy trains.

    Then: python NAME.py, or python NAME.py --help.
    """

    name: Positional[Name]
    """The name of the study and of its file in this folder."""
    function: bool = False
    """Study a training function (default)."""
    command: Annotated[str, arg(metavar="COMMAND")] = ""
    """Study an existing script. Give its command line with numbers."""
    script: bool = False
    """Study train.py, a small script that is written, too."""
    model: bool = False
    """Study a recursive model."""

    def run(self) -> int:
        kinds = [kind for kind in ("function", "command", "script", "model") if getattr(self, kind)]
        kind, *other_kinds = kinds or ["function"]
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
        kind: The program of its runs: `function`, `command`, `script` (which is written too) or `model`.
        command: For the kind `command`: the command line of an existing script.

    Returns:
        The written files, the study first.

    Raises:
        ConfigError: The name is no module name or is used by another module, a file exists, or the script of
            the command does not.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"a study's name is that of a Python module: small letters, digits and '_', but got {name!r}"
        )
    text = _starter(kind).replace("my_study.py", f"my_study.py{WITHOUT_RAY}").replace("my_study", name)
    texts = {folder / f"{name}.py": _filled(text, folder, command) if kind == "command" else text}
    if kind == "script":
        texts[folder / "train.py"] = _starter("train")
    for file in texts:
        refuse_existing(file)
        _refuse_module(file)
    for file, text in texts.items():
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageError(f"cannot write {file}: {error.strerror}. Use a writable folder") from None
    return [*texts]


def _filled(text: str, folder: Path, command: str) -> str:
    """Return the starter of a command, with its numbers as settings, and its seed and output folder."""
    script, settings = script_of(split_words(command)), dict[str, Any]()
    if script.endswith(CODE) and not (folder / script).is_file():
        raise ConfigError(
            f"{script} does not exist here. Give the command of an existing script, or --script for a small"
            " script that is written"
        )
    if "{" in command:
        raise ConfigError(
            f"give the command with its numbers, such as 'python train.py --lr 0.1'. Got {command!r}"
        )

    def placeholder(option: re.Match[str]) -> str:
        name, value = option[1].strip("-+= ").replace("-", "_"), option[2]
        number = re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*)?([eE][-+]?\d+)?", value)
        last = name.rpartition(".")[2]
        if number and last in SEEDS:
            name = "seed"
        elif OUTPUT.fullmatch(last) and not number:
            name = "folder"
        elif number:
            set_at(settings, name, float(value) if number[2] or number[3] else int(value))
        else:
            return option[0]
        return f"{option[1]}{{{name}}}"

    launcher, _, options = command.partition(script)  # the options of torchrun and others stay
    line = f"{launcher}{script}{OPTION.sub(placeholder, options)}"
    if line == command:
        line, settings = f"{command} --lr {{lr}} --seed {{seed}} --out {{folder}}", {"lr": 0.1}
    source = 'JsonFile("metrics.json")' if "{folder}" in line else 'LastLine(r"accuracy: (\\S+)")'
    if script.endswith(".py") and WANDB.search(
        (folder / script).read_text(encoding="utf-8", errors="replace")
    ):
        source = "Wandb()"
    name, value = next(iter(flatten(settings).items()), ("", 0))
    levels = [value / 2, value] if isinstance(value, float) else [value, 2 * value or 1]
    variants = f"grid({{{json.dumps(name)}: {levels}}})" if name else '[Variant("as_it_is", {})]'
    fields = {
        "SCRIPT": script,
        "COMMAND": json.dumps(line, ensure_ascii=False),
        "SOURCE": source,
        "SETTINGS": json.dumps(settings),
        "VARIANTS": variants,
    }
    return re.sub("|".join(fields), lambda field: fields[field[0]], text)


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
