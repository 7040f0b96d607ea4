"""What is counted by building a model, kept in RECSTUDY_CACHE/counted.json, so that a plan is priced without torch.

It is counted anew where the model's or the data set's settings or code change, or a package that networks are made with.
"""

import json
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recstudy.config import DataConfig, ModelConfig
from recstudy.definitions import sha
from recstudy.files import cache_folder, whole
from recstudy.plugins import named
from recstudy.source import code_of

PACKAGES = ("torch", "torchvision", "timm")
MOST = 5000  # kept counts; the oldest go


@lru_cache(maxsize=1024)
def counted(place: str, model: ModelConfig, data: DataConfig, *more: int) -> tuple[int, ...]:
    """What the function at `place` (`module:name`) says of the model, the data set and what else it takes."""
    key = sha([place, model.model_dump_json(), data.model_dump_json(), *map(str, more), *_code(place, type(model), type(data))])
    kept = _kept()
    if key not in kept:
        kept[key] = list(named(place)(model, data, *more))
        with suppress(OSError), whole(_path()) as temporary:  # then it is counted again
            temporary.write_text(json.dumps(dict([*kept.items()][-MOST:])))
    return tuple(kept[key])


@lru_cache(maxsize=256)
def _code(place: str, model: type[ModelConfig], data: type[DataConfig]) -> list[str]:
    digest = code_of(place, model, data, within=("recstudy.models", "recstudy.data")).digest
    return [digest, *map(version, PACKAGES)]


def _kept() -> dict[str, list[int]]:
    with suppress(OSError, ValueError):
        found: Any = json.loads(_path().read_bytes())
        if isinstance(found, dict) and all(isinstance(counts, list) for counts in found.values()):
            return found
    return {}


def _path() -> Path:
    return cache_folder() / "counted.json"
