"""Read the claims of a YAML file, for `recstudy judge` and `recstudy.judge`."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from recstudy.base.errors import ConfigError
from recstudy.base.strict_yaml import read_yaml_file
from recstudy.evidence import ALPHA
from recstudy.programs.columns import name_of, value_of
from recstudy.programs.settings import Config, configure
from recstudy.report import Claim
from recstudy.report.claims import DEPTH, TUNED

KEYS = (DEPTH, "metric", TUNED, "of", "over")  # of a claim's selectors that name no setting


class ClaimsFile(Config):
    """The content of a claims file. Metrics have the fields of `recstudy.Metric`."""

    claims: list[Any] = Field(default_factory=list)
    metrics: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    alpha: float = ALPHA
    question: str = ""
    title: str = ""
    data: str = ""


def read_claims(file: Path, texts: Iterable[str] = ()) -> ClaimsFile:
    """Return the content of a claims file: a list of claims, or a `ClaimsFile`.

    Args:
        file: The YAML file.
        texts: The names of the settings whose levels are texts.

    Raises:
        ConfigError: The file cannot be read or has other content. The message names file and line.
    """
    values = read_yaml_file("--claims", file)
    if not isinstance(values, list | dict):
        raise ConfigError(
            f"{file.name} states nothing: it needs a list of claims, such as - {{text: ..., higher: {{lr:"
            " 0.1}}"
        )
    node: Any = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)  # which has the lines
    if isinstance(values, list):
        entries, values = node.value, {"claims": values}
    else:
        entries = next((value.value for key, value in node.value if key.value == "claims"), ())
    try:
        claims_file = configure(ClaimsFile, values)
    except ConfigError as error:
        raise ConfigError(f"{file.name}: {error}") from None
    claims, text_names = [], {*texts}
    for entry, place in zip(claims_file.claims, entries, strict=True):
        try:
            if not isinstance(entry, dict):
                raise ConfigError(
                    f"a claim has fields, such as text: ..., higher: {{lr: 0.1}}, but got {entry!r}"
                )
            claims.append(
                Claim(
                    **{
                        name: value if name == "text" else _normalize(value, name, text_names)
                        for name, value in entry.items()
                    }
                )
            )
        except ConfigError as error:
            raise ConfigError(f"{file.name}, line {place.start_mark.line + 1}: {error}") from None
    return claims_file.model_copy(update={"claims": claims})


def _normalize(value: Any, key: str, texts: Collection[str]) -> Any:
    """Return a part of a claim with the names and values of the settings and metrics in the study."""
    if isinstance(value, dict):
        return {
            name if name in KEYS else name_of(name): _normalize(value, name, texts)
            for name, value in value.items()
        }
    if isinstance(value, list):
        return [_normalize(value, key, texts) for value in value]
    if not isinstance(value, str) or name_of(key) in texts:
        return value
    return name_of(value) if key in ("metric", TUNED) else value_of(value)
