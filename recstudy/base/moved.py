"""Where modules and names of version 0.2 are now. This file goes with version 0.4."""

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from recstudy.base.errors import ConfigError

RECURSIVE = "recstudy.recursive"
MODULES = {  # old module -> what replaces it
    **dict.fromkeys(("config", "data", "models", "tasks", "metrics"), f"from {RECURSIVE} import ..."),
    **{
        name: f"from {RECURSIVE}.{name} import ..." for name in ("train", "contract", "weights", "reevaluate")
    },
    "testing": f"from {RECURSIVE}.testing import tiny_run; from recstudy.study.testing import tiny_study",
    **{
        name: f"from recstudy.base.{name} import ..."
        for name in ("errors", "files", "terminal", "strict_yaml", "opened", "lazy", "explained")
    },
    **{name: f"from recstudy.cli.{name} import ..." for name in ("judge", "options", "reproduce")},
}
NAMES = {  # module -> names that are in `recstudy.recursive` now
    "recstudy": ("AtTest", "Augment", "RunConfig", "TrainConfig"),
    "recstudy.report": (
        "Alignment",
        "AttentionMaps",
        "Captions",
        "ExpertLoad",
        "ExpertPath",
        "FeatureMaps",
        "Mistakes",
        "Residuals",
        "Thinking",
        "answers_of",
    ),
}

REPLACED = {"Interactions": "Curve(NAME, x=..., y=METRIC, by=...)"}  # old name -> what replaces it


def missing_name(module: str, name: str) -> Exception:
    """Return the error for a name that a module does not have."""
    if name in NAMES[module]:
        return MovedError(f"{name} has moved (version 0.3): write from {RECURSIVE} import {name}")
    if name in REPLACED:
        return MovedError(f"{name} is no longer there (version 0.3): write {REPLACED[name]}")
    return AttributeError(f"module {module!r} has no attribute {name!r}")


class MovedError(ConfigError, ModuleNotFoundError):
    """A study file imports from a place of version 0.2."""


class MovedModules(MetaPathFinder):
    """Name the new place of a module of version 0.2 that an import cannot find."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, old = name.partition(".")
        if package == "recstudy" and old in MODULES:
            raise MovedError(f"{name} has moved (version 0.3): write {MODULES[old]}")
        return None
