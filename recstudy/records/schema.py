"""What stands in the files of runs and studies, as classes: one a file, or one a line of a log.

Every class is checked when it is made and when it is read, and cannot be changed. Keys that this version does not know are
passed over, because a newer one may have added them; what a newer one adds must have a default here. `reading.py` reads and
writes them, says what a damaged file lacks, and brings older formats up to this one.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import AliasChoices, ConfigDict, Field, model_serializer, model_validator
from pydantic.dataclasses import dataclass

from recstudy.explained import Explained
from recstudy.records.files import Json

Number = int | float
Values = dict[str, Number | None]  # what was measured, by its name

FORMAT = 1
PARTS = ("data", "model", "train", "place")  # of a config
NUMBERS = ("train.epochs", "train.batch_size", "train.ema_decay", "data.limit")  # with which readers compute
SMOKED = "-smoke"  # ends the name of a smoke run's folder
STRICT = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)  # built once used


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Marker:
    """`recstudy.json` in the root of a results folder."""

    format: int = FORMAT
    what: str = "results of recstudy"


# ------------------------------------------------------------------------------------------------------------- of a run


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Hardware:
    """The machine of a run's first worker."""

    host: str = ""
    cpu: str = ""
    cores: int | None = None
    gpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class CodeRecord:
    """What computes a part of a run: digests of the definitions that it uses, by file, and of all of them."""

    digest: str  # two, with a space between them, where the code changed while the run was under way
    files: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Provenance:
    """What made a run's numbers."""

    commit: str | None = None  # of the study's repository, at the last attempt
    commits: tuple[str, ...] = ()  # of every attempt: the code may have changed in between
    dirty: bool = False  # that, or recstudy's own repository
    recstudy: str = ""  # its commits, where they are of another repository than the study's
    code: dict[str, str] = Field(default_factory=dict)  # part (`model`, `data`, `train`) -> digest; nothing in old records
    earlier: int = 0  # how often it was finished before and run again, on request
    versions: dict[str, str] = Field(default_factory=dict)
    hardware: Hardware = Hardware()
    workers: int = 1
    data_checksum: str = ""
    data_notes: tuple[str, ...] = ()
    synthetic: bool = False
    lost_epochs: int = 0  # whose lines were damaged when it went on after them
    started: str = ""
    finished: str = ""

    @property
    def made_by(self) -> str:
        """The commits, in the order of the attempts; empty where none is known."""
        return ", then ".join(self.commits) or self.commit or ""

    @property
    def packages(self) -> str:
        """Their versions in words."""
        return ", ".join(f"{package} {version}" for package, version in sorted(self.versions.items()))


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Selected:
    """The epoch whose weights were judged, and its scores on the split that selected it."""

    split: str = ""
    epoch: int | None = None
    scores: Values = Field(default_factory=dict)

    @property
    def number(self) -> int | None:
        """As readers count it, from 1; the file counts from 0."""
        return None if self.epoch is None else self.epoch + 1

    @model_validator(mode="before")
    @classmethod
    def _apart(cls, values: Any) -> Any:
        """The file has the scores beside `split` and `epoch`."""
        if not isinstance(values, dict):
            return values
        known = {key: values[key] for key in ("split", "epoch") if key in values}
        return known | {"scores": {key: value for key, value in values.items() if key not in known}}

    @model_serializer
    def _beside(self) -> Json:
        return {"split": self.split, "epoch": self.epoch, **self.scores}


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Routing:
    """Of a mixture of experts, layer by layer: each expert's tokens, the router's mean entropy, and the choices dropped."""

    load: tuple[tuple[Number, ...], ...]
    entropy: tuple[float, ...]
    dropped: tuple[Number, ...]


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Answered:
    """Of how many test images a run keeps its answers."""

    kept: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Result:
    """`result.json`: what a finished run has measured, what it cost, and what made it."""

    format: int = FORMAT
    status: Literal["done", "diverged"]
    error: str = ""  # of one that diverged
    metrics: Values  # on the test split
    depths: dict[str, Values] = Field(default_factory=dict)  # metric -> supervision steps -> value, of the same weights
    selected: Selected = Selected()
    undefined: tuple[str, ...] = ()  # findings that the metrics leave out
    unavailable: dict[str, str] = Field(default_factory=dict)  # metric -> why there is none
    notes: tuple[str, ...] = ()  # what must be known of the captions that were scored
    tokenizer: dict[str, str] = Field(default_factory=dict)  # of captions: what they cut -> their names
    decode: str | None = None  # how captions were written
    answers: Answered | None = None
    routing: Any = None  # as `Routing` has it; read where it is drawn, and damage to it costs that figure alone
    cost: Values = Field(default_factory=dict)
    attempts: int | None = None
    provenance: Provenance = Provenance()


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Later:
    """A metric that was computed after its run had finished, or why it could not be."""

    value: Number | None = None
    by_class: Values = Field(default_factory=dict)  # where it is a mean over classes
    undefined: tuple[str, ...] = ()  # classes that it leaves out
    unavailable: str = ""
    how: Literal["answers", "weights"]  # what it was computed from
    date: str = ""
    code: str = ""  # digest of what computed it
    tokenizer: str = ""  # of captions: what cut their words


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Measured:
    """`measured.json`: metrics that a run's result does not have, by name."""

    format: int = FORMAT
    metrics: dict[str, Later] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Failure:
    """`failure.json`: why the last attempt failed."""

    format: int = FORMAT
    # One of `FAILURES`; the file calls it `class`.
    error_class: str = Field(validation_alias=AliasChoices("class", "error_class"), serialization_alias="class")
    error: str = ""
    traceback: str = ""
    attempts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Stopped:
    """`stopped.json`: how far a run was when its search stopped it, and which rule did."""

    format: int = FORMAT
    epoch: int
    score: Number | None = None
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Attempt:
    """A line of `attempts.jsonl`: a worker began the run, or left a drained node."""

    started: str | None = None
    host: str = ""
    process: int | None = None
    commit: str | None = None
    dirty: bool = False
    recstudy: str = ""
    ended: str | None = None
    drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class LossLine:
    """A line of `losses.jsonl`: the training loss of every `every`-th update of an epoch, from update `first` on."""

    epoch: int
    first: int
    every: int
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True, config=STRICT)
class EpochLine:
    """A line of `epochs.jsonl`: what an epoch measured, by name."""

    values: Values

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        """The file has the values alone."""
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
    """Under which an epoch's values have its score on the selection split; empty where they have none."""
    return next((name for name in values if name.startswith("selection_") and name != "selection_loss"), "")


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Settings:
    """`config.json`: what decided the run, in parts, as `RunConfig` gives them."""

    data: Json = Field(default_factory=dict)
    model: Json = Field(default_factory=dict)
    train: Json = Field(default_factory=dict)
    seed: int = 0
    place: Json = Field(default_factory=dict)


# ----------------------------------------------------------------------------------------------------------- of a study


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class VariantRecord:
    """A variant: its label, its level on each axis, and what it changes in the base config."""

    label: str
    levels: Json = Field(default_factory=dict)
    changes: Json = Field(default_factory=dict)
    model: str = ""
    data: str = ""
    synthetic: bool = False
    leaks: bool = False
    base: int | None = None  # the variant that it is compared with
    code: dict[str, str] = Field(default_factory=dict)  # part of a run -> what computes it, as `PlanRecord.code` calls it
    data_checksum: str = ""  # of the images as they are now, where that was known


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Deviation(metaclass=Explained):
    """Where a study's `paper` preset knowingly is not as its paper, or sets what the paper leaves blank.

    Args:
        field: of the config; or, where none says it, what it is about in words.
        paper: the paper's value; None where it is blank, so that ours is an assumption, of which every verdict speaks.
        ours: the preset's value. A run with the paper's own value compares as well, and does not deviate.
        why: in a few words.
    """

    field: str
    paper: Any = None
    ours: Any
    why: str

    @property
    def of_config(self) -> bool:
        return self.field.startswith(("data.", "model.", "train."))


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Reference:
    """What published values are compared with: the `paper` preset as the study has it, whatever preset is run and set."""

    preset: str
    base: Json
    axes: dict[str, str] = Field(default_factory=dict)
    variants: tuple[VariantRecord, ...] | None = None  # None: the plan's own, of the same preset without changes


class PlannedRun(NamedTuple):
    """A variant, by its place among all, with one seed."""

    variant: int
    seed: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Range:
    """What a search may try of a field: numbers between two ends, or one of several values."""

    low: Number = 0
    high: Number = 0
    log: bool = False
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Confirm:
    """How many of the best are run again, and with which fresh seeds."""

    best: int = 0
    seeds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class TrialRecord:
    """A trial that was proposed; trials with the same settings share a variant."""

    number: int
    params: Json
    variant: int


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Importance:
    """`importance-DEFINITION.json`: objective -> method -> field -> its share in the objective's variance."""

    trials: int = 0
    importance: dict[str, dict[str, dict[str, float]]]
    missing: dict[str, str] = Field(default_factory=dict)  # method -> why it gives nothing


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class SearchRecord:
    """How a search searches; what it has found so far stands in files of its own, and is not written here."""

    objectives: dict[str, Literal["max", "min"]] = Field(min_length=1)
    sampler: str = ""
    stopping: str = "none"
    budget: str = ""
    space: dict[str, dict[str, Range]]  # family -> field -> what may be tried
    confirm: Confirm = Confirm()
    trials: tuple[TrialRecord, ...] = Field(default=(), exclude=True)
    confirmed: dict[int, tuple[int, ...]] = Field(default_factory=dict, exclude=True)  # variant -> its fresh seeds
    importance: Importance | None = Field(default=None, exclude=True)


def folder_of(preset: str, smoke: bool) -> str:
    """A preset's folder; a smoke run has its own, so that it never stands in for the real one."""
    return f"{preset}{SMOKED}" if smoke else preset


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class PlanRecord:
    """`plan.json`: which runs a study is made of, and what to draw of them. Of a search, those of its trials so far."""

    format: int = FORMAT
    study: str
    preset: str
    question: str = ""
    description: str = ""
    created: str = ""
    command: str = ""
    smoke: bool = False
    definition: str = ""
    plugins: tuple[dict[str, str], ...] = ()  # files with what the study defines itself: `module`, `file`, `digest`
    base: Json  # the preset's config, in parts
    changes: Json = Field(default_factory=dict)  # what the command line has set in it, by field
    reference: Reference | None = None
    deviations: tuple[Deviation, ...] = ()  # of the `paper` preset from its paper
    axes: dict[str, str] = Field(default_factory=dict)  # axis -> the field that it sets
    variants: tuple[VariantRecord, ...]
    seeds: tuple[int, ...]
    runs: tuple[PlannedRun, ...]
    report: tuple[Json, ...]  # its parts, each with its kind
    search: SearchRecord | None = None
    code: dict[str, CodeRecord] = Field(default_factory=dict)  # what computes the runs now
    others: dict[str, str] = Field(default_factory=dict, exclude=True)  # other definitions of this name -> what they hold

    @property
    def folder(self) -> str:
        """The preset's folder."""
        return folder_of(self.preset, self.smoke)

    def __post_init__(self) -> None:
        if "/" in self.definition:
            raise ValueError(f"the definition must be a name, but it is {self.definition!r}")
        if any(not {"module", "file"} <= one.keys() for one in self.plugins):
            raise ValueError("each of plugins must have a module and a file")
        for part in PARTS:
            if not isinstance(self.base.get(part, {}), dict):
                raise ValueError(f"base.{part} must be an object, but it is {self.base[part]!r}")
        for path in NUMBERS:
            part, _, name = path.partition(".")
            stated = [self.base.get(part, {}).get(name), *(variant.changes.get(path) for variant in self.variants)]
            if wrong := [value for value in stated if value is not None and not isinstance(value, Number)]:
                raise ValueError(f"{path} must be a number, but it is {wrong[0]!r}")
        for run in self.runs:
            if not 0 <= run.variant < len(self.variants):
                raise ValueError(f"run {run.id!r} names variant {run.variant} of {len(self.variants)}")
            if "/" in run.id or run.id in ("", ".", ".."):
                raise ValueError(f"a run's id must be a name, but it is {run.id!r}")


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class TrialLine:
    """A line of a search's log: a trial was proposed."""

    number: int
    params: Json
    variant: VariantRecord
    seed: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ConfirmLine:
    """A line of a search's log: trial `confirms` is one of the best and is run again with a fresh seed."""

    confirms: int
    seed: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Clock:
    """What a session of a search has used so far."""

    session: str
    h: float
    gpuh: float


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ClockLine:
    """A line of a search's log: the time that it has used."""

    clock: Clock
