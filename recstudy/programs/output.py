"""What is read of a command: its metrics and the steps that it reports."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recstudy.errors import ConfigError, choices

STEPS = ("step", "epoch")  # groups of a progress pattern that count


@dataclass(frozen=True)
class JsonFile:
    """Metrics in a JSON file that the command writes: an object with a number for each metric.

    Args:
        path: The file, below `{folder}`. It is read once the command has ended.
    """

    path: str

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        """Refuse (ConfigError) a command that cannot have these metrics."""
        if "folder" not in placeholders:
            raise ConfigError(f"{self.path} is read in {{folder}}: add it to the command, such as --out {{folder}}")

    def read(self, metrics: Collection[str], folder: Path, lines: Iterable[str]) -> Any:
        """Return the metrics of a command that has ended, by its folder and its output (ConfigError)."""
        try:
            return _numbers(json.loads((folder / self.path).read_bytes()))
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be read in {{folder}}: {error.strerror}") from None
        except ValueError as error:
            raise ConfigError(f"{self.path} is not JSON: {error}") from None


@dataclass(frozen=True)
class LastLine:
    r"""Metrics that the command prints. Of several matching lines, the last one counts.

    Args:
        pattern: A regular expression with a group for each metric in their order, such as `r"accuracy: (\S+)"`, or with
            groups named by the metrics, such as `r"accuracy: (?P<accuracy>\S+)|F1: (?P<f1>\S+)"`.
    """

    pattern: str

    def check(self, metrics: Collection[str], placeholders: Collection[str]) -> None:
        """Refuse (ConfigError) a command that cannot have these metrics."""
        pattern = compiled("LastLine", self.pattern)
        groups = pattern.groupindex or [*metrics][: pattern.groups]
        if missing := [name for name in metrics if name not in groups]:
            raise ConfigError(f"the pattern of LastLine has no group for {choices(missing)}: {self.pattern}")

    def read(self, metrics: Collection[str], folder: Path, lines: Iterable[str]) -> Any:
        """Return the metrics of a command that has ended, by its folder and its output (ConfigError)."""
        values: dict[str, str] = {}
        for line in lines:
            for match in re.finditer(self.pattern, line):
                groups = match.groupdict() or dict(zip(metrics, match.groups(), strict=False))
                values |= {name: groups[name] for name in metrics if groups.get(name) is not None}
        if not values:
            raise ConfigError(f"no line of its output matches {self.pattern}")
        return _numbers(values)


def read_step(pattern: str, line: str) -> tuple[int | None, dict[str, float]] | None:
    """Return the step, if it is numbered, and the values that a line reports; None if it reports no step."""
    match = re.search(pattern, line) if pattern else None
    if match is None:
        return None
    numbers = {name: value for name, value in _numbers(match.groupdict()).items() if isinstance(value, float)}
    steps = [int(numbers.pop(name)) for name in STEPS if name in numbers]
    return (steps[0] if steps else None), numbers


def _numbers(values: Any) -> Any:
    """Return values with numbers in place of texts that are numbers."""
    values = dict(values) if isinstance(values, Mapping) else values
    for name, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, str):
            with suppress(ValueError):
                values[name] = float(value)
    return values


def compiled(name: str, pattern: str) -> re.Pattern[str]:
    """Return a pattern (ConfigError: it is not a regular expression)."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"the pattern of {name} is no regular expression: {error}: {pattern}") from None
