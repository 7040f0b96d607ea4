"""Programs of a user's own: their settings, and what they have in common.

A program is registered under its name when a study is made of it, in each process that imports the study's
file.
"""

import dataclasses
import math
import pickle
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model, model_validator

from recstudy.errors import ConfigError, RecstudyError, choices, nearest, raised_at
from recstudy.explained import refusal
from recstudy.plugins import study_file
from recstudy.programs.base import PROGRAMS, Program
from recstudy.programs.metric import METRICS, Metric
from recstudy.programs.settings import (
    PREFIX,
    Description,
    Range,
    Resources,
    RunSettings,
    configure,
    json_value,
    set_at,
    tunable,
)
from recstudy.records.files import Json

STEPS = ("epochs", "steps")  # settings that say how many steps a run reports; a smoke run makes two
RESERVED = {
    "seed": "run.seed has the seed of a run; --seeds sets how many there are",
    "resources": "resources.cpus and its neighbors are the resources of a run",
}


class OwnSettings(RunSettings):
    """The settings of one run of a user's program."""

    model_config = ConfigDict(serialize_by_alias=True)

    program_name: str = Field(alias="program")
    settings: dict[str, Any]
    seed: int = Field(0, ge=0)
    resources: Resources = Resources(trainer="inline")

    @model_validator(mode="after")
    def _runs_in_one_process(self) -> Self:
        if self.resources.uses_train:
            raise ValueError(f"{self.program_name} runs in one process: leave --trainer train out")
        return self

    @property
    def program(self) -> "OwnProgram":
        program = PROGRAMS[self.program_name]
        assert isinstance(program, OwnProgram)
        return program

    @property
    def description(self) -> Description:
        """A setting called `model` or `data` is the title of that."""
        program, model, data = self.program, self.settings.get("model"), self.settings.get("data")
        return Description(
            model if isinstance(model, str) else program.title,
            data if isinstance(data, str) else program.data,
            program.is_synthetic,
        )

    @property
    def score(self) -> str:
        return next(iter(self.program.metrics))

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return self.program.metrics

    @property
    def ranges(self) -> Mapping[str, Range]:
        return self.program.ranges

    @property
    def kind(self) -> str:
        return self.program_name

    @property
    def counts(self) -> dict[str, int]:
        """The settings that say how many steps a run reports."""
        return {name: self.settings[name] for name in STEPS if type(self.settings.get(name)) is int}

    @property
    def steps(self) -> int | None:
        return next(iter(self.counts.values()), None)

    def path(self, name: str) -> str:
        return name if name.startswith((PREFIX, "resources.")) else PREFIX + name

    def with_each(self, several: Iterable[Mapping[str, Any]]) -> list["OwnSettings"]:
        return [self._changed(changes) for changes in several]

    def smaller(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        counts = {PREFIX + name: count for name, count in self.counts.items()}
        return {path: 2 for path, count in counts.items() if path not in changes and count > 2}

    def _changed(self, changes: Mapping[str, Any]) -> "OwnSettings":
        settings, resources = dict(self.settings), self.resources.model_dump()
        for name, value in changes.items():
            path = self.path(name)
            part, _, rest = path.partition(".")
            if path == "resources.workers" and value != 1:
                raise ConfigError(f"{self.program_name} runs in one process: leave --workers out")
            set_at(
                resources if part == "resources" else settings,
                rest,
                json_value(value, f"the setting {rest!r}"),
            )
        return self.program.read(
            {"program": self.program_name, "settings": settings, "seed": self.seed, "resources": resources}
        )


class OwnProgram(Program):
    """A user's program.

    Args:
        name: Identifies it in run ids, so that renaming it gives its runs new ids.
        settings: Names and defaults; or a dataclass or pydantic model, whose types and bounds are then
            checked.
        metrics: Name -> how it is read. The first one is the score.
        title: What tables call it.
        data: What tables call its data set.
        is_synthetic: Whether its data are generated.
    """

    spec: Any = None  # what was bound to settings and metrics
    # relative to the study file, of which a worker imports a copy: the driver's program counts
    has_paths = False

    def __init__(
        self,
        name: str,
        settings: Any,
        metrics: Mapping[str, Metric],
        title: str = "",
        data: str = "",
        is_synthetic: bool = False,
    ) -> None:
        self.name, self.stated = name, settings
        self.metrics = _titled(name, metrics)
        self.title, self.data, self.is_synthetic = title or name.rpartition(".")[2], data, is_synthetic
        self.schema, defaults = _schema(name, settings)
        self.typed = not isinstance(settings, Mapping)  # then a run gets an object, else a dictionary
        self.defaults = self.complete(defaults)
        is_model = issubclass(self.schema, BaseModel)
        self.ranges = tunable(self.schema.model_validate(self.defaults), PREFIX) if is_model else {}

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings with defaults, as plain JSON values.

        Raises:
            ConfigError: A name is unknown or a value does not fit. The message names the field.
        """
        return dict(json_value(self.parse(settings), f"a setting of {self.title}"))

    def parse(self, settings: Mapping[str, Any]) -> Any:
        """Return settings as the schema's object."""
        known = _fields(self.schema)
        for name in settings:
            if name in RESERVED:
                raise ConfigError(f"{name!r} is not a setting of {self.title}: {RESERVED[name]}")
            if name not in known:
                raise ConfigError(
                    f"no setting {name!r}: {self.title} has {choices(known) or 'none'}.{nearest(name, known)}"
                )
        try:
            return TypeAdapter(self.schema).validate_python(dict(settings))
        except ValidationError as error:
            raise refusal(error, self.schema, prefix=f"a setting of {self.title}: ") from None

    def read(self, values: Json) -> OwnSettings:
        return configure(OwnSettings, {**values, "settings": self.complete(values.get("settings", {}))})

    def base(self, changes: Mapping[str, Any]) -> OwnSettings:
        """Return the settings of a run by default, with these changes."""
        return self.read({"program": self.name, "settings": self.defaults}).with_changes(changes)

    def explain(self, error: Exception) -> str:
        return str(error) if isinstance(error, RecstudyError) else raised_at(error)

    def register(self, module: str) -> None:
        """Make the program known under its name; `module` is the user's, which other processes import.

        At a prompt and in a notebook it takes the place of the one before.

        Raises:
            ConfigError: another program has the name, or the same one with other settings or metrics.
        """
        known, is_typed = dict.get(PROGRAMS, self.name), module == "__main__" and study_file() is None
        if not isinstance(known, OwnProgram) or is_typed:
            # at a prompt it is sent by value
            PROGRAMS.put(self.name, self, "recstudy" if is_typed else module)
        elif not self.same_as(known):
            raise ConfigError(f"two programs are called {self.name!r}. Give one of them another name")
        elif (known.defaults, known.metrics) != (self.defaults, self.metrics):
            raise ConfigError(
                f"two studies give {self.name} other settings or metrics. Give one of the programs another"
                f" name, such as {type(self.spec).__name__}(..., name={self.title + '2'!r})"
            )

    def same_as(self, other: Program) -> bool:
        """Whether another program does the same, so that both may have one name."""
        return self is other

    def __reduce__(self) -> tuple[Any, ...]:
        return _bind, (self.spec, self.stated, self.metrics, self.name)


def _bind(spec: Any, settings: Any, metrics: Mapping[str, Metric], name: str) -> OwnProgram:
    """Make a program anew, in the process to which it was sent, where its module may have another name."""
    schema = settings if isinstance(settings, type) else type(settings)
    # a class that is sent by value has a copy of MISSING
    for field in getattr(schema, "__dataclass_fields__", {}).values():
        for default in ("default", "default_factory"):
            if type(getattr(field, default)).__name__ == type(dataclasses.MISSING).__name__:
                setattr(field, default, dataclasses.MISSING)
    program: OwnProgram = spec.bind(settings, metrics)
    program.name = name
    return program


def receive(sent: str) -> None:
    """Register the program that a driver has sent, unless a module imported here has registered the same."""
    program: OwnProgram = pickle.loads(sent.encode("latin-1"))
    if program.has_paths or not dict.__contains__(PROGRAMS, program.name):
        PROGRAMS.put(program.name, program, "recstudy")


def measured(name: str, given: Any, metrics: Iterable[str]) -> dict[str, float]:
    """Return the stated metrics of what a program returned.

    Raises:
        ConfigError: a stated metric is missing, or is not a number.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{name} must return its metrics, such as {{{next(iter(metrics))!r}: 91.3}}, but it returned"
            f" {given!r}"
        )
    values: dict[str, float] = {}
    for metric in metrics:
        if metric not in given:
            raise ConfigError(
                f"{name} returned no {metric!r}: it returned {choices(map(str, given)) or 'nothing'}"
            )
        values[metric] = number(name, metric, given[metric])
    return values


def number(name: str, metric: str, value: Any) -> float:
    """Return a number of numpy's, torch's or Python's as a float (ConfigError)."""
    value = python_scalar(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name}: {metric} must be a number, but it is {value!r}")
    return float(value)


def python_scalar(value: Any) -> Any:
    """Return the number in an array of NumPy or torch that has one; any other value as it is."""
    return value.item() if hasattr(value, "item") else value


def not_finite(values: Mapping[str, float]) -> str:
    """Return the first value that is not finite, in words; empty if all are."""
    return next((f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)), "")


def _titled(name: str, metrics: Any) -> dict[str, Metric]:
    if not isinstance(metrics, Mapping) or not metrics:
        example = 'metrics={"accuracy": Metric("%", items=10_000)}'
        raise ConfigError(f"{name} needs its metrics, such as {example}, but got {metrics!r}")
    titled = {}
    for metric, given in metrics.items():
        METRICS.check_name(metric)
        if not isinstance(given, Metric):
            raise ConfigError(
                f'the metric {metric!r} of {name} must be a Metric, such as Metric("%"), but got {given!r}'
            )
        titled[metric] = (
            given if given.title else dataclasses.replace(given, title=metric.replace("_", " ").capitalize())
        )
    return titled


def _schema(name: str, given: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class that checks settings, and the values that the user has given."""
    schema: Any = given if isinstance(given, type) else type(given)
    if isinstance(given, Mapping):
        for field in given:
            if not isinstance(field, str) or not field.isidentifier():
                raise ConfigError(
                    f"a setting of {name} needs a name like a Python variable's, but got {field!r}"
                )
        defaults = {
            field: json_value(value, f"the setting {field!r} of {name}") for field, value in given.items()
        }
        fields: Any = {  # a number may be any number if the default is a real one
            field: (type(value) if isinstance(value, bool | int | float | str) else Any, value)
            for field, value in defaults.items()
        }
        schema = create_model("Settings", __config__=ConfigDict(protected_namespaces=()), **fields)
    elif dataclasses.is_dataclass(schema) or issubclass(schema, BaseModel):
        defaults = {} if schema is given else {field: getattr(given, field) for field in _fields(schema)}
    else:
        raise ConfigError(
            f"the settings of {name} must be a dictionary with defaults, a dataclass or a pydantic model, but"
            f" got {given!r}"
        )
    for field in _fields(schema):
        if field in RESERVED:
            raise ConfigError(f"the settings of {name} must not have {field!r}: {RESERVED[field]}")
    return schema, defaults


def _fields(schema: Any) -> list[str]:
    return (
        list(schema.model_fields)
        if issubclass(schema, BaseModel)
        else [field.name for field in dataclasses.fields(schema)]
    )
