"""Turn wrong arguments in a study file into errors that name the valid arguments and the nearest one.

Public classes and functions are decorated with `explained`. Only calls and `__init__` are wrapped, so the
classes stay what they are. Without it, Python's TypeError would end a study file with a traceback and no
hint, and pydantic's error has several lines.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.dataclasses import rebuild_dataclass

from recstudy.base.errors import ConfigError, choices, nearest, nearest_first

Called = TypeVar("Called", bound=Callable[..., Any])
UNKNOWN_FIELD = ("extra_forbidden", "unexpected_keyword_argument")
MISSING_FIELD = ("missing", "missing_argument")


def explained(called: Called) -> Called:
    """Decorate a class or function, so that wrong arguments raise a ConfigError with the valid ones."""
    if isinstance(called, type):
        kind: Any = called
        if getattr(kind, "__pydantic_complete__", True):
            kind.__init__ = explained(kind.__init__)
            return called

        def build(self: Any, *args: Any, **words: Any) -> None:
            """Build the validators at the first instance, as pydantic does, and wrap the new `__init__`."""
            rebuild_dataclass(kind, force=True)
            kind.__init__ = explained(kind.__init__)
            kind.__init__(self, *args, **words)

        kind.__init__ = build
        return called

    @wraps(called)
    def call(*args: Any, **words: Any) -> Any:
        try:
            return called(*args, **words)
        except ValidationError as error:
            raise ConfigError(explain(error, type(args[0]) if args else None)) from None
        except TypeError:
            takes, name = signature(called), called.__qualname__.removesuffix(".__init__")
            parameters = [word for word in takes.parameters if word != "self"]
            for word in words:
                if word not in parameters:
                    raise ConfigError(
                        f"no argument {word!r}: {name} has {choices(parameters)}.{nearest(word, parameters)}"
                    ) from None
            try:
                takes.bind(*args, **words)
            except TypeError as error:
                raise ConfigError(f"{name}: {error}. It has {choices(parameters)}") from None
            raise

    return call  # type: ignore[return-value]


def refusal(error: ValidationError, kind: Any, part: str = "", prefix: str = "") -> ConfigError:
    """Return the error for invalid settings: about one field, or about a combination if no single field is
    wrong.

    Args:
        error: The error from pydantic.
        kind: The class.
        part: The field of the larger object that contains it.
        before: The beginning of the message.
    """
    fault = error.errors(include_url=False)[0]
    annotation = kind
    for name in fault["loc"]:
        fields = getattr(annotation, "model_fields", {})
        annotation = fields[name].annotation if name in fields else None
    failure = ConfigError(prefix + explain(error, kind, part))
    failure.is_combination = fault["type"] == "value_error" and (
        not fault["loc"] or hasattr(annotation, "model_fields")
    )
    return failure


def explain(error: ValidationError, kind: Any, part: str = "") -> str:
    """Return the field, the rule and the given value in one line.

    Args:
        error: The error from pydantic.
        kind: The class.
        part: The field of the larger object that contains it.
    """
    faults = error.errors(include_url=False)
    first = next((fault for fault in faults if fault["type"] in UNKNOWN_FIELD), faults[0])
    place = list(map(str, first["loc"]))
    if place and isinstance(position := first["loc"][0], int):
        place[:1] = _takes(kind)[position : position + 1]
    *outer, last = place or [""]
    path = ".".join(filter(None, [part, *outer, last]))
    if first["type"] in UNKNOWN_FIELD:
        for name in outer:  # the class that holds the field, for its list of names
            kind = kind.model_fields[name].annotation
        fields = sorted(_takes(kind))
        known_fields = f"{kind.__name__} has {nearest_first(last, fields)}"
        return f"Unknown field {path!r}.{nearest(last, fields)} {known_fields}"
    if first["type"] in MISSING_FIELD:
        return f"{kind.__name__} needs {path!r}"
    if first["type"] == "value_error":
        return f"{path or kind.__name__}: {first['ctx']['error']}" if path else str(first["ctx"]["error"])
    rule = first["msg"].removeprefix("Input should be ").partition(", unable to")[0]
    rule = rule.replace("a valid integer", "an integer").replace("a valid ", "a ")
    value = first["input"]
    several = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    sweep = (
        f". Several values are swept by --vary {path}={','.join(map(str, several))}"
        if len(several) > 1
        else ""
    )
    return f"{path!r} must be {rule}, but got {value!r}{sweep}"


def _takes(kind: Any) -> list[str]:
    """Return the fields of a pydantic class in order."""
    return [
        name
        for name, parameter in kind.__signature__.parameters.items()
        if parameter.kind is not Parameter.VAR_POSITIONAL
    ]
