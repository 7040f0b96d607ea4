"""Base classes of user-defined programs (function, command, table) and of their settings.

A program is registered under its name when a study is created from it, in each process that imports the
study file.
"""

import dataclasses
import math
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model, model_validator

from recstudy.base.errors import ConfigError, RecstudyError, choices, nearest, raised_at
from recstudy.base.explained import refusal
from recstudy.base.values import flatten, is_number, set_at
from recstudy.plugins import study_file
from recstudy.programs.base import PROGRAMS, Program, RunSettings
from recstudy.programs.facts import Description
from recstudy.programs.metric import METRICS, Metric
from recstudy.programs.settings import PREFIX, Range, Resources, configure, json_value, tunable
from recstudy.records import Json
from recstudy.records.runs import RUN_COLUMNS

STEPS = ("epochs", "steps")  # settings with the number of steps that a run reports; two in a smoke run
RESERVED = {
    "seed": "a run reads its seed from run.seed, and --seeds sets the number of seeds",
    "resources": "resources.cpus and similar fields set the resources of a run",
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
            raise ValueError(f"{self.program_name} runs in one process. Remove --trainer train")
        return self

    @property
    def program(self) -> "OwnProgram":
        program = PROGRAMS[self.program_name]
        assert isinstance(program, OwnProgram)
        return program

    @property
    def description(self) -> Description:
        # settings named `model` or `data` are titles
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
        """The settings with the number of steps that a run reports."""
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
                raise ConfigError(f"{self.program_name} runs in one process. Remove --workers")
            if part != "resources" and not self.program.typed:
                _refuse_unknown(rest.split("."), self.program.defaults, settings)
            fields = resources if part == "resources" else settings
            set_at(fields, rest, json_value(value, f"the setting {rest!r}"))
        run = self.program.read(
            {"program": self.program_name, "settings": settings, "seed": self.seed, "resources": resources}
        )
        if self.program.typed:  # a nested class may have dropped unknown names
            for name, value in changes.items():
                path = self.path(name).removeprefix(PREFIX)
                for names in _setting_names(tuple(path.split(".")), value):
                    _refuse_unknown(names, run.settings)
        return run


class OwnProgram(Program):
    """A user's program.

    Args:
        name: Part of the run ids, so renaming the program gives its runs new ids.
        settings: Names and defaults; or a dataclass or pydantic model, whose types and bounds are checked.
        metrics: Description of each metric by name. The first metric is the score.
        title: Name of the program in tables.
        data: Name of the data set in tables.
        is_synthetic: Whether the data are generated.
    """

    spec: Program | None = None  # the Function or Command that the user gave
    # Whether it has paths relative to the study file. Workers import a copy of that file elsewhere, so they
    # use the program that the driver sends.
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
        self.name, self.settings_spec = name, settings
        self.metrics = _titled(name, metrics)
        self.title, self.data, self.is_synthetic = title or name.rpartition(".")[2], data, is_synthetic
        self.schema, defaults = _schema(name, settings)
        self.typed = not isinstance(settings, Mapping)  # a run gets an object instead of a dictionary
        self.defaults = self.complete(defaults)
        is_model = issubclass(self.schema, BaseModel)
        self.ranges = tunable(self.schema.model_validate(self.defaults), PREFIX) if is_model else {}

    def bind(self, settings: Any, metrics: Mapping[str, Metric]) -> "OwnProgram":
        return self

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Add the defaults to the settings and convert them to JSON values.

        Raises:
            ConfigError: A name is unknown or a value is invalid. The message names the field.
        """
        return dict(json_value(self.parse(settings), f"a setting of {self.title}"))

    def parse(self, settings: Mapping[str, Any]) -> Any:
        """Return the settings as an instance of the schema."""
        field_names = _fields(self.schema)
        for name in settings:
            if name in RESERVED:
                raise ConfigError(f"{name!r} is not a setting of {self.title}: {RESERVED[name]}")
            if name not in field_names:
                raise ConfigError(
                    f"Unknown setting {name!r}: {self.title} has {choices(field_names) or 'none'}."
                    f"{nearest(name, field_names)}"
                )
        try:
            return TypeAdapter(self.schema).validate_python(dict(settings))
        except ValidationError as error:
            raise refusal(error, self.schema, prefix=f"a setting of {self.title}: ") from None

    def read(self, values: Json) -> OwnSettings:
        return configure(OwnSettings, {**values, "settings": self.complete(values.get("settings", {}))})

    def base(self, changes: Mapping[str, Any]) -> OwnSettings:
        """Return the default settings with these changes."""
        return self.read({"program": self.name, "settings": self.defaults}).with_changes(changes)

    def explain(self, error: Exception) -> str:
        return str(error) if isinstance(error, RecstudyError) else raised_at(error)

    def register(self, module: str) -> None:
        """Register the program under its name.

        At a prompt and in a notebook, it replaces a program with the same name.

        Args:
            module: The user's module, which other processes import.

        Raises:
            ConfigError: Another program has the name.
        """
        previous, is_typed = dict.get(PROGRAMS, self.name), module == "__main__" and study_file() is None
        if isinstance(previous, OwnProgram) and not is_typed:
            if not self.same_as(previous):
                raise ConfigError(f"Two programs are named {self.name!r}. Rename one of them")
            if not self.differs(previous):
                return  # another study has this program, such as that of a file imported here
        # a program defined at a prompt is sent to workers by value
        PROGRAMS.set_entry(self.name, self, "recstudy" if is_typed else module)

    def differs(self, program: "OwnProgram") -> bool:
        """Whether another study gives the same program other settings or metrics."""
        return (program.defaults, program.metrics) != (self.defaults, self.metrics)

    def activate(self) -> None:
        """Make this the program of its name, if another study has given the same one other settings."""
        if dict.__contains__(PROGRAMS, self.name):
            PROGRAMS[self.name] = self

    def same_as(self, program: Program) -> bool:
        """Whether the other program is equivalent, so that both may have the same name."""
        return self is program

    def __reduce__(self) -> tuple[Any, ...]:
        return _bind, (self.spec, self.settings_spec, self.metrics, self.name)


def _refuse_unknown(names: Sequence[str], *places: Mapping[str, Any]) -> None:
    """Refuse a nested setting that none of the places has. An empty dictionary accepts every name."""
    for settings in places:
        values: Any = settings
        for depth, name in enumerate(names):
            if not isinstance(values, Mapping) or not values:
                return
            if depth and name not in values:
                parent, known = ".".join(names[:depth]), choices(values)
                known_paths = flatten(settings)
                break
            values = values.get(name)
        else:
            return
    path = ".".join(names)
    raise ConfigError(f"Unknown setting {path!r}: {parent} has {known}.{nearest(path, known_paths)}")


def _setting_names(names: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the names of a setting and those of the settings in its dictionary, if they may be fields."""
    yield names
    for key, inner_value in value.items() if isinstance(value, Mapping) else ():
        if isinstance(key, str) and key.isidentifier():
            yield from _setting_names((*names, key), inner_value)


def _bind(spec: Any, settings: Any, metrics: Mapping[str, Metric], name: str) -> OwnProgram:
    """Unpickle a program. The name is passed, because its module may have another name in this process."""
    schema = settings if isinstance(settings, type) else type(settings)
    # dataclasses compare with `is MISSING`, but a class pickled by value has a copy of MISSING
    for field in getattr(schema, "__dataclass_fields__", {}).values():
        for default in ("default", "default_factory"):
            if type(getattr(field, default)).__name__ == type(dataclasses.MISSING).__name__:
                setattr(field, default, dataclasses.MISSING)
    program: OwnProgram = spec.bind(settings, metrics)
    program.name = name
    return program


def receive(pickled: str) -> None:
    """Register the program that a driver has sent, unless an imported module has registered an equal one."""
    program: OwnProgram = pickle.loads(pickled.encode("latin-1"))
    known_program = dict.get(PROGRAMS, program.name)
    if program.has_paths or not isinstance(known_program, OwnProgram) or program.differs(known_program):
        PROGRAMS.set_entry(program.name, program, "recstudy")


def read_metrics(name: str, output: Any, metrics: Iterable[str]) -> dict[str, float]:
    """Return the declared metrics from the output of a program.

    Raises:
        ConfigError: A metric is missing, or it is not a number.
    """
    if not isinstance(output, Mapping):
        raise ConfigError(
            f"{name} must return its metrics, such as {{{next(iter(metrics))!r}: 91.3}}, but it returned"
            f" {output!r}"
        )
    values: dict[str, float] = {}
    for metric in metrics:
        if metric not in output:
            raise ConfigError(
                f"{name} must return {metric!r}, but it returned {choices(map(str, output)) or 'nothing'}"
            )
        values[metric] = number(name, metric, output[metric])
    return values


def number(name: str, metric: str, value: Any) -> float:
    """Convert a number of NumPy, torch or Python to a float (ConfigError if it is not a number)."""
    value = python_scalar(value)
    if not is_number(value):
        raise ConfigError(f"{name}: {metric} must be a number, but it is {value!r}")
    return float(value)


def python_scalar(value: Any) -> Any:
    """Return the number in a one-element array of NumPy or torch; other values unchanged."""
    return value.item() if hasattr(value, "item") else value


def not_finite(values: Mapping[str, float]) -> str:
    """Describe the first value that is not finite; empty if all values are finite."""
    return next((f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)), "")


def _titled(name: str, metrics: Any) -> dict[str, Metric]:
    if not isinstance(metrics, Mapping) or not metrics:
        example = 'metrics={"accuracy": Metric("%", items=10_000)}'
        raise ConfigError(f"{name} needs metrics, such as {example}, but got {metrics!r}")
    titled = {}
    for metric, spec in metrics.items():
        METRICS.check_name(metric)
        if metric in RUN_COLUMNS:
            raise ConfigError(
                f"a metric of {name} must not be named {metric!r}, because {choices(RUN_COLUMNS)} describe"
                " each run in tables. Rename it"
            )
        if not isinstance(spec, Metric):
            raise ConfigError(
                f'the metric {metric!r} of {name} must be a Metric, such as Metric("%"), but got {spec!r}'
            )
        words = metric.replace("_", " ")
        title = words.capitalize() if words.isascii() and words.islower() else words
        titled[metric] = dataclasses.replace(spec, title=spec.title or title)
    return titled


def _schema(name: str, settings: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class that validates settings, and the user's defaults."""
    schema: Any = settings if isinstance(settings, type) else type(settings)
    if isinstance(settings, Mapping):
        for field in settings:
            if not isinstance(field, str) or not field.isidentifier():
                raise ConfigError(
                    f"The name of a setting of {name} must be a Python identifier, but got {field!r}"
                )
        defaults = {
            field: json_value(value, f"the setting {field!r} of {name}") for field, value in settings.items()
        }
        fields: Any = {}
        for field, value in defaults.items():  # pydantic also accepts an int for a float default
            field_type = type(value) if isinstance(value, bool | int | float | str) else Any
            fields[field] = (field_type, value)
        schema = create_model("Settings", __config__=ConfigDict(protected_namespaces=()), **fields)
    elif dataclasses.is_dataclass(schema) or issubclass(schema, BaseModel):
        defaults = (
            {} if schema is settings else {field: getattr(settings, field) for field in _fields(schema)}
        )
    else:
        raise ConfigError(
            f"settings of {name} must be a dictionary with defaults, a dataclass or a pydantic model, but got"
            f" {settings!r}"
        )
    for field in _fields(schema):
        if field in RESERVED:
            raise ConfigError(f"settings of {name} must not have {field!r}: {RESERVED[field]}")
    return schema, defaults


def _fields(schema: Any) -> list[str]:
    return (
        list(schema.model_fields)
        if issubclass(schema, BaseModel)
        else [field.name for field in dataclasses.fields(schema)]
    )
