"""What stands in the files of a results folder, as classes: one a file, or one a line of a log; of studies:
`study_schema.py`.

Every class is checked when it is made and when it is read, and cannot be changed. Keys that this version does
not know are passed over, because a newer one may have added them; what a newer one adds must have a default
here. `reading.py` reads and writes them, says what a damaged file lacks, and brings older formats up to this
one.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

from pydantic import AfterValidator, AliasChoices, ConfigDict, Field, model_serializer, model_validator
from pydantic.dataclasses import dataclass

from recstudy.records.files import Json

MOST = 2**64
Whole = Annotated[int, Field(ge=-MOST, le=MOST)]  # one of 400 digits is no measurement, and no float
Number = Whole | float
Cosine = Annotated[float, Field(gt=-1.001, lt=1.001)]  # with room for rounding
Values = dict[str, Number | None]  # what was measured, by its name

FORMAT = 1
STRICT = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)  # built once used
Kind = TypeVar("Kind")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
def record(kind: type[Kind]) -> type[Kind]:
    """Make a class one of records: frozen, made by keywords, and checked strictly."""
    return dataclass(kind, frozen=True, slots=True, kw_only=True, config=STRICT)  # type: ignore[return-value]


def bounded(values: Any) -> Any:
    """Return JSON values without a whole number beyond `MOST` in them (ValueError)."""
    queue: list[Any] = [values]
    while queue:
        value = queue.pop()
        if isinstance(value, int) and abs(value) > MOST:
            raise ValueError(f"it holds a whole number of {len(str(value))} digits")
        queue += (
            value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        )
    return values


Plain = Annotated[Any, AfterValidator(bounded)]
Object = Annotated[Json, AfterValidator(bounded)]


def now() -> str:
    """Return the date and time in UTC as records have them."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@record
class Marker:
    """`recstudy.json` in the root of a results folder."""

    format: Whole = FORMAT
    what: str = "results of recstudy"


@record
class Hardware:
    """The machine of a run's first worker."""

    host: str = ""
    cpu: str = ""
    cores: Whole | None = None
    gpu: str | None = None


REPEATED = "Repeated items: "  # how a data note about items that occur more than once begins


@record
class Initial:
    """`weights/DIGEST.json`: where the weights beside it, from which runs start, were taken from."""

    format: Whole = FORMAT
    source: str = ""  # a file as it was named, or the run
    sha256: str = ""  # of that file
    names: str = ""  # whose: `trm` or `hrm` of their authors' code; empty where they are recstudy's own
    settings: Object = Field(default_factory=dict)  # what its authors' config says of the network
    date: str = ""

    @property
    def words(self) -> str:
        """Where the weights are from, for a reader."""
        return f"{self.source} (sha256 {self.sha256[:12]})"


@record
class Provenance:
    """What made a run's numbers."""

    commit: str | None = None  # of the study's repository, at the last attempt
    commits: tuple[str, ...] = ()  # of every attempt: the code may have changed in between
    dirty: bool = False  # that, or recstudy's own repository
    recstudy: str = ""  # its commits, where they are of another repository than the study's
    # The SHA-256 of each user file, by its path below the study file; several, with spaces, where it changed
    # during the run.
    files: dict[str, str] = Field(default_factory=dict)
    earlier: Whole = 0  # how often it was finished before and run again, on request
    versions: dict[str, str] = Field(default_factory=dict)
    hardware: Hardware = Hardware()
    workers: Whole = 1
    precision: str = ""  # of the matrix products, in words; empty in old records
    # that each worker computed with, of its machine's cores; nothing in old records
    threads: Whole | None = None
    data_checksum: str = ""
    data_notes: tuple[str, ...] = ()
    synthetic: bool = False
    lost_epochs: Whole = 0  # whose lines were damaged when it went on after them
    origin: Literal["trained", "imported"] = "trained"  # imported: from `initial` as it is, or from `source`
    source: str = ""  # of numbers that were imported: the file, its digest, the date
    initial: Initial | None = None  # what it started from, where that was not drawn
    started: str = ""
    finished: str = ""

    @property
    def begun(self) -> str:
        """Where its weights were taken from and what became of them, in words; empty where a seed drew
        them.
        """
        how = "judged as they are" if self.origin == "imported" else "trained on here"
        return f"{self.initial.words}, {how}" if self.initial else ""

    @property
    def made_by(self) -> str:
        """The commits, in the order of the attempts; empty where none is known."""
        return ", then ".join(self.commits) or self.commit or ""

    @property
    def packages(self) -> str:
        """Their versions in words."""
        return ", ".join(f"{package} {version}" for package, version in sorted(self.versions.items()))


@record
class Selected:
    """The epoch whose weights were judged, and its scores on the split that selected it."""

    split: str = ""
    epoch: Whole | None = None
    scores: Values = Field(default_factory=dict)

    @property
    def number(self) -> int | None:
        """As readers count it, from 1; the file counts from 0."""
        return None if self.epoch is None else self.epoch + 1

    @model_validator(mode="before")
    @classmethod
    def _apart(cls, values: Any) -> Any:
        """Return a line as the file has it, with the scores beside `split` and `epoch`."""
        if not isinstance(values, dict):
            return values
        known = {key: values[key] for key in ("split", "epoch") if key in values}
        return known | {"scores": {key: value for key, value in values.items() if key not in known}}

    @model_serializer
    def _beside(self) -> Json:
        return {"split": self.split, "epoch": self.epoch, **self.scores}


@record
class Routing:
    """Of a mixture of experts, layer by layer: each expert's tokens, the router's mean entropy, and the
    choices dropped.
    """

    load: tuple[tuple[Number, ...], ...]
    entropy: tuple[float, ...]
    dropped: tuple[Number, ...]


@record
class KeptCaption:
    """A test image's reference captions, and what the model wrote."""

    row: Whole
    references: tuple[str, ...]
    hypothesis: str


@record
class KeptCaptions:
    """`captions.json` of a run."""

    examples: tuple[KeptCaption, ...]


@record
class CosinePair:
    """The cosine of a test image and its caption, before and after training."""

    row: Whole
    caption: str
    before: Cosine
    after: Cosine


@record
class CosinePairs:
    """`alignment.json` of a run."""

    pairs: tuple[CosinePair, ...]


@record
class Answered:
    """Of how many test images a run keeps its answers."""

    kept: Whole
    of: Whole
    # of these images, where several of them are copies of one puzzle, which count once
    draws: Whole | None = None
    # puzzles on which trajectories and copies are scored, which are no further draws
    repeated: Whole | None = None

    def count(self, repeated: bool) -> int:
        """Return how many independent draws a share is one of: of all, or of the puzzles that are answered
        more than once.
        """
        every = self.draws or self.of
        return min(every, self.repeated) if repeated and self.repeated else every


@record
class Result:
    """`result.json`: what a finished run has measured, what it cost, and what made it."""

    format: Whole = FORMAT
    status: Literal["done", "diverged"]
    error: str = ""  # of one that diverged
    metrics: Values  # on the test split
    # metric -> supervision steps -> value, of the same weights
    depths: dict[str, Values] = Field(default_factory=dict)
    selected: Selected = Selected()
    undefined: tuple[str, ...] = ()  # findings that the metrics leave out
    unavailable: dict[str, str] = Field(default_factory=dict)  # metric -> why there is none
    raised: tuple[str, ...] = ()  # those of them whose own code raised something
    notes: tuple[str, ...] = ()  # what must be known of the captions that were scored
    tokenizer: dict[str, str] = Field(default_factory=dict)  # of captions: what they cut -> their names
    decode: str | None = None  # how captions were written
    answers: Answered | None = None
    # as `Routing` has it; read where it is drawn, and damage to it costs that figure alone
    routing: Any = None
    cost: Values = Field(default_factory=dict)
    attempts: Whole | None = None
    provenance: Provenance = Provenance()


@record
class Later:
    """A metric that was computed after its run had finished, or why it could not be."""

    value: Number | None = None
    by_class: Values = Field(default_factory=dict)  # where it is a mean over classes
    undefined: tuple[str, ...] = ()  # classes that it leaves out
    unavailable: str = ""
    raised: bool = False  # whether its own code raised that
    how: Literal["answers", "weights"]  # what it was computed from
    date: str = ""
    tokenizer: str = ""  # of captions: what cut their words


@record
class Measured:
    """`measured.json`: metrics that a run's result does not have, by name."""

    format: Whole = FORMAT
    metrics: dict[str, Later] = Field(default_factory=dict)


@record
class Failure:
    """`failure.json`: why the last attempt failed."""

    format: Whole = FORMAT
    # One of `FAILURES`; the file calls it `class`.
    error_class: str = Field(
        validation_alias=AliasChoices("class", "error_class"), serialization_alias="class"
    )
    error: str = ""
    traceback: str = ""
    # The last lines of the user's files in it, the innermost last: see `recstudy.errors.user_calls`.
    calls: tuple[str, ...] = ()
    attempts: Whole | None = None


@record
class Stopped:
    """`stopped.json`: how far a run was when its search stopped it, and which rule did."""

    format: Whole = FORMAT
    epoch: Whole
    score: Number | None = None
    by: str = ""


@record
class Attempt:
    """A line of `attempts.jsonl`: a worker began the run, or left a drained node."""

    started: str | None = None
    host: str = ""
    process: Whole | None = None
    commit: str | None = None
    dirty: bool = False
    recstudy: str = ""
    ended: str | None = None
    drained: bool = False


@record
class LossLine:
    """A line of `losses.jsonl`: the training loss of every `every`-th update of an epoch, from update `first`
    on.
    """

    epoch: Whole
    first: Whole
    every: Whole
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True, config=STRICT)
class EpochLine:
    """A line of `epochs.jsonl`: what an epoch measured, by name."""

    values: Values

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        """Return a line as the file has it, with the values alone."""
        return {"values": values} if isinstance(values, dict) else values

    @model_serializer
    def _alone(self) -> Values:
        return self.values

    def __post_init__(self) -> None:
        if not isinstance(self.values.get("epoch"), int):
            raise ValueError(f"epoch must be a whole number, but it is {self.values.get('epoch')!r}")

    @property
    def epoch(self) -> int:
        return int(self.values["epoch"] or 0)

    @property
    def score(self) -> Number | None:
        """On the selection split."""
        return self.values.get(score_name(self.values))


def score_name(values: Mapping[str, Any]) -> str:
    """Return under which name an epoch's values have its score on the selection split; empty where they have
    none.
    """
    return next((name for name in values if name.startswith("selection_") and name != "selection_loss"), "")


@record
class Settings:
    """`config.json`: what decided the run, in parts, as `RunConfig` gives them, or the settings of a user's
    own program.
    """

    program: str = ""  # a user's own
    settings: Object = Field(default_factory=dict)
    data: Object = Field(default_factory=dict)
    model: Object = Field(default_factory=dict)
    train: Object = Field(default_factory=dict)
    seed: Whole = 0
    resources: Object = Field(
        default_factory=dict,
        validation_alias=AliasChoices("resources", "place"),
        serialization_alias="resources",
    )
