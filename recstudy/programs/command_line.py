"""The line of a command: its words, without a shell, and the placeholders in them."""

import os
import re
import shlex
import string
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest

SIGN = re.compile(r"\$[\w({]|`|(?:^|\s)\d?[<>|&;]\S*|;(?=\s|$)")  # of a line that was typed for a shell


class Placeholders(string.Formatter):
    """A formatter that accepts names with dots and records in `used_names` which names it has used."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values, self.used_names = values, set[str]()

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        """Return the value of a placeholder (ConfigError if the name is unknown)."""
        if field_name not in self.values:
            raise ConfigError(
                f"Unknown placeholder {{{field_name}}}. Known placeholders: {choices(self.values)}."
                f"{nearest(field_name, self.values)}"
            )
        self.used_names.add(field_name)
        return self.values[field_name], field_name


def split_words(line: str) -> list[str]:
    """Return the words of a command line (ConfigError if it needs a shell)."""
    line = re.sub(r"\\\r?\n", " ", line)  # continued in the next line
    try:
        words = [re.sub("^~(?=/)", str(Path.home()), word) for word in shlex.split(line)]
    except ValueError as error:
        raise ConfigError(f"Cannot split the command into words: {error}: {line}") from None
    if not words:
        raise ConfigError("The command is empty. Give one, such as python train.py --lr {lr}")
    if variable := re.match(r"(\w+)=(.*)", words[0]):
        raise ConfigError(
            f"No shell is used, so {words[0]} sets no variable. Use environment={{{variable[1]!r}:"
            f" {variable[2]!r}}}"
        )
    # single quotes protect every sign, double quotes all but $ and `
    unquoted_line = re.sub("'[^']*'", "", line)
    if sign := SIGN.search(re.sub('"[^"$`]*"', "", unquoted_line)):
        raise ConfigError(
            f"No shell is used, so {sign[0].strip()!r} would be an argument of {script_of(words)}. Remove it,"
            " quote it, or use: bash -c '...'"
        )
    return words


def script_of(words: Sequence[str]) -> str:
    """Return the first word that is a file name, such as `train.py`; else the first word."""
    return next((word for word in words if re.fullmatch(r"[^-{=][^{=]*\.[A-Za-z_]\w*", word)), words[0])


def search_path() -> str:
    """Return the PATH of commands."""
    # this interpreter's folder first, so that `python` runs the study's interpreter
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
