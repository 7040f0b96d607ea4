"""Record classes of runs: one class per file, or per line of a log. `study_schema.py` has those of studies.

Records are immutable, and pydantic checks them when they are made and when they are read. Unknown keys are
ignored, because a newer version may have added them. A new field must have a default, so that older files
stay readable. `reading.py` reads and writes records.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from recstudy.records.files import Json

MAX_INTEGER = 2**64
Integer = Annotated[
    int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)
]  # bounded, because an integer of 400 digits cannot become a float
Number = Integer | float
Values = dict[str, Number | None]  # name -> measured value

FORMAT = 1
STRICT = ConfigDict(
    strict=True, extra="ignore", allow_inf_nan=False, defer_build=True
)  # validators are built on first use
Kind = TypeVar("Kind")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
def record(kind: type[Kind]) -> type[Kind]:
    """Make a class a record: a frozen dataclass with keyword arguments and strict validation."""
    return dataclass(kind, frozen=True, slots=True, kw_only=True, config=STRICT)  # type: ignore[return-value]


def bounded(values: Any) -> Any:
    """Return JSON values unchanged. Raises ValueError if an integer in them exceeds `MAX_INTEGER`."""
    queue: list[Any] = [values]
    while queue:
        value = queue.pop()
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise ValueError(f"it has a whole number of {len(str(value))} digits")
        if isinstance(value, dict):
            queue += value.values()
        elif isinstance(value, list | tuple):
            queue += value
    return values


def escaped(text: Any) -> Any:
    """Return a text whose lone surrogates are escaped, such as those of a Latin-1 file name."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


Encodable = Annotated[str, BeforeValidator(escaped)]
PlainValue = Annotated[Any, AfterValidator(bounded)]
Object = Annotated[Json, AfterValidator(bounded)]
EMPTY: Any = Field(default_factory=dict)  # a field that is an empty dict by default


def current_time() -> str:
    """Return the current date and time in UTC in the format of records."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@record
class Marker:
    """`recstudy.json` in the root of a results folder."""

    format: Integer = FORMAT
    what: str = "results of recstudy"


@record
class Hardware:
    """The machine of a run's first worker."""

    host: str = ""
    cpu: str = ""
    cores: Integer | None = None
    gpu: str | None = None


REPEATED = "Repeated items: "  # prefix of the data note about duplicate items


@record
class Initial:
    """`weights/DIGEST.json`: the source of the initial weights in `DIGEST.safetensors`."""

    format: Integer = FORMAT
    source: str = ""  # the file as the user named it, or the run
    sha256: str = ""  # of the source file
    names: str = ""  # naming scheme: `trm` or `hrm` of their authors' code; empty for recstudy's own
    settings: Object = EMPTY  # the network's settings in its authors' config
    date: str = ""

    @property
    def words(self) -> str:
        """The source of the weights in words."""
        return f"{self.source} (sha256 {self.sha256[:12]})"


@record
class Provenance:
    """The code, data, machine and dates of a run."""

    commit: str | None = None  # of the study's repository, at the last attempt
    commits: tuple[str, ...] = ()  # of all attempts, because the code may have changed between them
    dirty: bool = False  # whether the study's or recstudy's repository had uncommitted changes
    recstudy: str = ""  # its commits, if it is in another repository than the study
    # path of a user file, relative to the study file -> its SHA-256; several, separated by spaces, if the
    # file changed during the run
    files: dict[str, str] = EMPTY
    earlier: Integer = 0  # earlier finished attempts that were rerun on request
    versions: dict[str, str] = EMPTY
    hardware: Hardware = Hardware()
    workers: Integer = 1
    precision: str = ""  # of matrix products, in words; empty in old records
    # CPU threads of each worker; None in old records
    threads: Integer | None = None
    data_checksum: str = ""
    data_notes: tuple[str, ...] = ()
    synthetic: bool = False
    lost_epochs: Integer = 0  # epochs whose log lines were damaged when the run was resumed
    origin: Literal["trained", "imported"] = (
        "trained"  # imported: from `initial` without training, or from `source`
    )
    source: str = ""  # of imported metrics: the file, its digest and the date
    initial: Initial | None = None  # the initial weights, unless a seed initialized them
    started: str = ""
    finished: str = ""

    @property
    def initial_weights(self) -> str:
        """The source of the initial weights in words; empty if a seed initialized them."""
        use = "evaluated without training" if self.origin == "imported" else "trained further"
        return f"{self.initial.words}, {use}" if self.initial else ""

    @property
    def made_by(self) -> str:
        """The commits in the order of the attempts; empty if none is known."""
        return ", then ".join(self.commits) or self.commit or ""

    @property
    def packages(self) -> str:
        """The package versions in words."""
        return ", ".join(f"{package} {version}" for package, version in sorted(self.versions.items()))


@record
class Selected:
    """The epoch whose weights were evaluated, and its scores on the selection split."""

    split: str = ""
    epoch: Integer | None = None
    scores: Values = EMPTY

    @property
    def number(self) -> int | None:
        """The epoch counted from 1, as on pages. Files count from 0."""
        return None if self.epoch is None else self.epoch + 1

    @model_validator(mode="before")
    @classmethod
    def _separate_scores(cls, values: Any) -> Any:
        """Collect the scores of a file, where they have the same level as `split` and `epoch`."""
        if not isinstance(values, dict):
            return values
        named_values = {key: values[key] for key in ("split", "epoch") if key in values}
        return named_values | {
            "scores": {key: value for key, value in values.items() if key not in named_values}
        }

    @model_serializer
    def _join_scores(self) -> Json:
        return {"split": self.split, "epoch": self.epoch, **self.scores}


@record
class Answered:
    """The number of test images whose answers a run keeps, and how many of them are independent."""

    kept: Integer
    of: Integer
    # independent images, if several images are copies of one puzzle
    draws: Integer | None = None
    # puzzles that are answered several times, by trajectories or copies
    repeated: Integer | None = None

    def count(self, repeated: bool) -> int:
        """Return the number of independent samples behind a share.

        Args:
            repeated: Whether the share is over the puzzles that are answered several times.
        """
        every = self.draws or self.of
        return min(every, self.repeated) if repeated and self.repeated else every


@record
class Result:
    """`result.json`: the metrics, the cost and the provenance of a finished run."""

    format: Integer = FORMAT
    status: Literal["done", "diverged"]
    error: str = ""  # why it diverged
    metrics: Values  # on the test split
    # metric -> supervision steps -> value, with the same weights
    depths: dict[str, Values] = EMPTY
    selected: Selected = Selected()
    undefined: tuple[str, ...] = ()  # findings that the metrics leave out
    unavailable: dict[str, str] = EMPTY  # metric -> why it has no value
    raised: tuple[str, ...] = ()  # the unavailable metrics whose code raised an error
    notes: tuple[str, ...] = ()  # notes on the scored captions
    tokenizer: dict[str, str] = EMPTY  # text that was split into words -> name of the tokenizer
    decode: str | None = None  # how captions were generated
    answers: Answered | None = None
    # The fields of `Routing`. Only its figure checks them, so that damage costs no other part of the report.
    routing: Any = None
    cost: Values = EMPTY
    attempts: Integer | None = None
    provenance: Provenance = Provenance()

    @property
    def wall_seconds(self) -> float:
        """Wall time of training and final evaluation in seconds. Older records lack the evaluation."""
        return float(sum(self.cost.get(name) or 0.0 for name in ("seconds", "evaluation_seconds")))


@record
class LateMetric:
    """A metric that was computed after its run had finished, or the reason why it has no value."""

    value: Number | None = None
    by_class: Values = EMPTY  # class -> value, for a mean over classes
    undefined: tuple[str, ...] = ()  # classes that the mean leaves out
    unavailable: str = ""
    raised: bool = False  # whether its code raised the error in `unavailable`
    how: Literal["answers", "weights"]  # its source
    date: str = ""
    tokenizer: str = ""  # of captions: the tokenizer of the words


@record
class Measured:
    """`measured.json`: metric -> a value that was computed after the run."""

    format: Integer = FORMAT
    metrics: dict[str, LateMetric] = EMPTY


@record
class Failure:
    """`failure.json`: why the last attempt failed."""

    format: Integer = FORMAT
    # One of `FAILURES`. Its key in the file is `class`.
    error_class: str = Field(
        validation_alias=AliasChoices("class", "error_class"), serialization_alias="class"
    )
    error: Encodable = ""
    traceback: Encodable = ""
    # The last lines of the user's files in the traceback, the innermost last
    # (`recstudy.base.errors.user_calls`).
    calls: tuple[Encodable, ...] = ()
    attempts: Integer | None = None


@record
class Stopped:
    """`stopped.json`: the epoch and score at which a search stopped a run, and the rule that stopped it."""

    format: Integer = FORMAT
    epoch: Integer
    score: Number | None = None
    by: str = ""


@record
class Attempt:
    """A line of `attempts.jsonl`: a worker started the run, or left a drained node."""

    started: str | None = None
    host: str = ""
    process: Integer | None = None
    commit: str | None = None
    dirty: bool = False
    recstudy: str = ""
    ended: str | None = None
    drained: bool = False


@record
class LossLine:
    """A line of `losses.jsonl`: the training losses of an epoch, from update `first` in steps of `every`."""

    epoch: Integer
    first: Integer
    every: Integer
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True, config=STRICT)
class EpochLine:
    """A line of `epochs.jsonl`: the values of an epoch by name."""

    values: Values

    @model_validator(mode="before")
    @classmethod
    def _wrap_values(cls, values: Any) -> Any:
        """Wrap the values of a line, which has no key `values`."""
        return {"values": values} if isinstance(values, dict) else values

    def __post_init__(self) -> None:
        if not isinstance(self.values.get("epoch"), int):
            raise ValueError(f"epoch must be a whole number, but it is {self.values.get('epoch')!r}")

    @property
    def epoch(self) -> int:
        return int(self.values["epoch"] or 0)


@record
class Settings:
    """`config.json`: the settings that decide the run.

    They are the parts of a `RunConfig`, or the settings of a user's own program.
    """

    program: str = ""  # the name of a user's own program
    settings: Object = EMPTY
    data: Object = EMPTY
    model: Object = EMPTY
    train: Object = EMPTY
    seed: Integer = 0
    resources: Object = EMPTY
