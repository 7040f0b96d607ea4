"""What stands in the files of studies and searches, as classes: one a file, or one a line of a log; strict as
in `schema.py`.
"""

from typing import Any, Literal, NamedTuple

from pydantic import AliasChoices, Field, model_validator

from recstudy.explained import explained
from recstudy.records.schema import FORMAT, Number, Object, Plain, Values, Whole, record

PARTS = ("data", "model", "train", "resources")  # of a config
NUMBERS = ("train.epochs", "train.batch_size", "train.ema_decay", "data.limit")  # with which readers compute
LONGEST = 200  # letters of a study's or a run's name: file systems take 255 bytes
SMOKED = "-smoke"  # ends the name of a smoke run's folder


@record
class VariantRecord:
    """A variant: its label, its level on each axis, and what it changes in the base config."""

    label: str = Field(max_length=2000)
    levels: Object = Field(default_factory=dict)
    changes: Object = Field(default_factory=dict)
    model: str = ""
    data: str = ""
    synthetic: bool = False
    leaks: bool = False
    batch_norm: bool = False  # trains with it
    base: Whole | None = None  # the variant that it is compared with
    data_checksum: str = ""  # of the images as they are now, where that was known
    pflop: Number | None = None  # of a run's training, where that was known


@explained
@record
class Deviation:
    """Where a study's `paper` preset knowingly is not as its paper, or sets what the paper leaves blank.

    Args:
        field: of the config; or, where none says it, what it is about in words.
        paper: the paper's value; None where it is blank, so that ours is an assumption, of which every
            verdict speaks.
        ours: the preset's value. A run with the paper's own value compares as well, and does not deviate.
        why: in a few words.
    """

    field: str
    paper: Plain = None
    ours: Plain
    why: str

    @property
    def of_config(self) -> bool:
        return self.field.startswith(("data.", "model.", "train.", "settings."))


@record
class MetricRecord:
    """How a metric of a user's own program is read; fields as those of `recstudy.programs.metric.Metric`."""

    unit: str = ""
    better: Literal["higher", "lower"] | None = None
    items: Whole | None = None
    title: str = ""
    form: str = ""
    bounds: tuple[float, float] | None = None
    share: bool = False


@record
class Reference:
    """What published values are compared with: the `paper` preset as the study has it, whatever preset is run
    and set.
    """

    preset: str
    base: Object
    axes: dict[str, str] = Field(default_factory=dict)
    # None: the plan's own, of the same preset without changes
    variants: tuple[VariantRecord, ...] | None = None


@record
class ImportedFile:
    """A file that finished runs were imported from; never with the folders above it."""

    name: str
    sha256: str
    date: str  # of the import
    changed: str = ""  # when the file was last changed: its runs had finished by then

    @property
    def words(self) -> str:
        return f"{self.name} (sha256 {self.sha256[:12]}), on {self.date[:10]}"


@record
class ImportedRun:
    """A run as a line of a file has it."""

    settings: Object
    seed: Whole
    status: Literal["done", "diverged", "failed"] = "done"
    error_class: str = ""  # of one that failed: its state in its tracker
    error: str = ""
    metrics: Values = Field(default_factory=dict)
    file: Whole = 0  # its place among the files
    line: Whole = 0


@record
class Imported:
    """`imported.json` beside a plan: the runs that were imported, by their ids. They have no folders of their
    own.

    A folder for each of 10,000 runs takes 3 to 13 s to write and 120 MB; this file takes 0.1 s and 2 MB.
    """

    format: Whole = FORMAT
    files: tuple[ImportedFile, ...] = ()
    runs: dict[str, ImportedRun] = Field(default_factory=dict)


class PlannedRun(NamedTuple):
    """A variant, by its place among all, with one seed."""

    variant: Whole
    seed: Whole
    id: str


@record
class RangeRecord:
    """What a search may try of a field: numbers between two ends, or one of several values."""

    low: Number = 0
    high: Number = 0
    log: bool = False
    choices: tuple[Plain, ...] = ()
    # other field -> values at which it is searched
    when: dict[str, tuple[Any, ...]] = Field(default_factory=dict)


@record
class Confirm:
    """How many of the best are run again, and with which fresh seeds."""

    best: Whole = 0
    seeds: tuple[Whole, ...] = ()


@record
class TrialRecord:
    """A trial that was proposed; trials with the same settings share a variant."""

    number: Whole
    params: Object
    variant: Whole


FEWEST_TRIALS = 10  # for the importance of a field: of two trials each field explains as much as any other


@record
class ImportanceRecord:
    """`importance-DEFINITION.json`: objective -> method -> field -> its share in the objective's variance;
    `intervals` has the ends of its 95 % interval over the trials."""

    trials: Whole = 0
    importance: dict[str, dict[str, dict[str, float]]]
    intervals: dict[str, dict[str, dict[str, tuple[float, float]]]] = Field(default_factory=dict)
    missing: dict[str, str] = Field(default_factory=dict)  # method -> why it gives nothing


@record
class SearchRecord:
    """How a search searches; what it has found so far stands in files of its own, and is not written here."""

    objectives: dict[str, Literal["max", "min"]] = Field(min_length=1)
    sampler: str = ""
    stopping: str = "none"
    budget: str = ""
    space: dict[str, dict[str, RangeRecord]]  # family -> field -> what may be tried
    confirm: Confirm = Confirm()
    trials: tuple[TrialRecord, ...] = Field(default=(), exclude=True)
    # variant -> its fresh seeds
    confirmed: dict[int, tuple[int, ...]] = Field(default_factory=dict, exclude=True)
    importance: ImportanceRecord | None = Field(default=None, exclude=True)


def is_name(text: str, empty: bool = False) -> bool:
    """Return whether a file may have this name on any system: no path, no control characters, of `LONGEST`
    letters at most.
    """
    return (
        (empty or text != "")
        and text not in (".", "..")
        and "/" not in text
        and text.isprintable()
        and len(text) <= LONGEST
    )


def folder_of(preset: str, smoke: bool) -> str:
    """Return a preset's folder; a smoke run has its own, so that it never stands in for the real one."""
    return f"{preset}{SMOKED}" if smoke else preset


@record
class Registered:
    """`STUDY.PRESET.registered.yaml` beside a study's file: what it had stated before it ran."""

    study: str
    preset: str
    date: str
    recstudy: str
    definition: str  # digest of the settings
    seeds: Whole
    max_seeds: Whole = Field(validation_alias=AliasChoices("max_seeds", "seeds_at_most"))
    stated: dict[str, str]  # digest of a claim, margin, deviation or threshold of learning -> its words

    @model_validator(mode="before")
    @classmethod
    def _joined(cls, values: Any) -> Any:
        """Read an older file, which has claims, margins and deviations in lists, and thresholds of learning
        without digests.
        """
        if not isinstance(values, dict) or "claims" not in values:
            return values
        from recstudy.programs.settings import digest  # which imports this module

        kinds = ("claim", "margin", "deviation")
        stated = {
            one["digest"]: f"the {kind} {one['what']!r}" for kind in kinds for one in values[f"{kind}s"]
        }
        for name, value in values.get("learned", {}).items():
            stated[digest(["learned", name, float(value)], 12)] = f"when {name} counts as learned"
        return values | {"stated": stated}


@record
class PlanRecord:
    """`plan.json`: which runs a study is made of, and what to draw of them. Of a search, those of its trials
    so far.
    """

    format: Whole = FORMAT
    study: str
    preset: str
    question: str = ""
    description: str = ""
    created: str = ""
    command: str = ""
    file: str = ""  # of the study; empty for one that comes with recstudy, and at a prompt
    smoke: bool = False
    definition: str = ""
    plugins: tuple[dict[str, str], ...] = ()  # files with what the study defines itself: `module`, `file`
    base: Object  # the preset's config, in parts
    changes: Object = Field(default_factory=dict)  # what the command line has set in it, by field
    metrics: dict[str, MetricRecord] = Field(default_factory=dict)  # of a user's own program
    imported: tuple[ImportedFile, ...] = ()  # from which its runs were imported; none where they were run
    reference: Reference | None = None
    deviations: tuple[Deviation, ...] = ()  # of the `paper` preset from its paper
    axes: dict[str, str] = Field(default_factory=dict)  # axis -> the field that it sets
    variants: tuple[VariantRecord, ...]
    seeds: tuple[Whole, ...]
    # the stated maximum number of seeds; 0 if the study states none
    max_seeds: Whole = Field(0, validation_alias=AliasChoices("max_seeds", "seeds_at_most"))
    # metric -> the value above which a seed has learned
    success_threshold: dict[str, float] = Field(
        default_factory=dict, validation_alias=AliasChoices("success_threshold", "learned")
    )
    runs: tuple[PlannedRun, ...]
    report: tuple[Object, ...]  # its parts, each with its kind
    search: SearchRecord | None = None
    # the SHA-256 of each user file, by its path below the study file
    files: dict[str, str] = Field(default_factory=dict)
    # SHA-256 of a user file, now or earlier -> of its code alone
    code_digests: dict[str, str] = Field(default_factory=dict)
    # digest of a claim, margin or deviation -> when it was first stated
    stated: dict[str, str] = Field(default_factory=dict)
    registered: Registered | None = None
    # digest of a question -> its words, how many questions
    dropped: dict[str, tuple[str, Whole]] = Field(default_factory=dict)
    paired: bool = False  # whether differences are taken per seed

    @property
    def folder(self) -> str:
        """The preset's folder."""
        return folder_of(self.preset, self.smoke)

    def __post_init__(self) -> None:
        for field in ("study", "preset", "definition"):
            if not is_name(name := getattr(self, field), empty=True):
                raise ValueError(f"the {field} must be a name, but it is {name!r}")
        if any(not {"module", "file"} <= plugin.keys() for plugin in self.plugins):
            raise ValueError("each of plugins must have a module and a file")
        for part in PARTS:
            if not isinstance(self.base.get(part, {}), dict):
                raise ValueError(f"base.{part} must be an object, but it is {self.base[part]!r}")
        for path in NUMBERS:
            part, _, name = path.partition(".")
            stated = [
                self.base.get(part, {}).get(name),
                *(variant.changes.get(path) for variant in self.variants),
            ]
            if wrong := [
                value for value in stated if value is not None and not isinstance(value, int | float)
            ]:
                raise ValueError(f"{path} must be a number, but it is {wrong[0]!r}")
        for run in self.runs:
            if not 0 <= run.variant < len(self.variants):
                raise ValueError(f"run {run.id!r} names variant {run.variant} of {len(self.variants)}")
            if not is_name(run.id):
                raise ValueError(f"a run's id must be a name, but it is {run.id!r}")


@record
class Look:
    """A line of `studies/looks.jsonl`: verdicts were read that these runs had not been behind before."""

    date: str
    runs: tuple[str, ...] = ()
    # in `looks-DEFINITION.jsonl` of records before 2026-11-28: all runs of so many seeds, and no ids
    seeds: Whole = 0


@record
class TrialLine:
    """A line of a search's log: a trial was proposed."""

    number: Whole
    params: Object
    variant: VariantRecord
    seed: Whole
    id: str


@record
class ConfirmLine:
    """A line of a search's log: trial `confirms` is one of the best and is run again with a fresh seed."""

    confirms: Whole
    seed: Whole
    id: str


@record
class Clock:
    """What a session of a search has used so far."""

    session: str
    h: float
    gpuh: float


@record
class ClockLine:
    """A line of a search's log: the time that it has used."""

    clock: Clock


@record
class About:
    """`bundle.json` of a published study: what a bundle is of, what drew its report, and what is not in
    it.
    """

    format: int = FORMAT
    study: str
    preset: str  # the preset's folder
    recstudy: str  # version
    drawn_by: str  # digest of the code that drew the report
    packages: dict[str, str] = Field(default_factory=dict)
    records: str  # digest of all files below `results`, by which a paper may name them
    code: dict[str, str] = Field(default_factory=dict)  # file below `code` -> what it is
    left_out: tuple[str, ...] = ()  # in words
    date: str = ""  # on which the last run finished
