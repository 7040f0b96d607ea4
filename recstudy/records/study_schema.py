"""Record classes of studies, searches and bundles: one class per file, or per line of a log.

The rules are those of `schema.py`. Drivers write these records; reports and the board read them.
"""

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, PlainSerializer

from recstudy.base.explained import explained
from recstudy.evidence.seeds import ALPHA
from recstudy.records.schema import EMPTY, FORMAT, Integer, Number, Object, PlainValue, Values, record

PARTS = ("data", "model", "train", "resources")  # of a config
NUMBERS = (
    "train.epochs",
    "train.batch_size",
    "train.ema_decay",
    "data.limit",
)  # fields that readers use as numbers
LONGEST = 200  # characters in the name of a study or run; file systems allow 255 bytes
SMOKED = "-smoke"  # suffix of the folder of a smoke run


@record
class VariantRecord:
    """A variant: its label, its level on each axis, and its changes to the base config."""

    label: str = Field(max_length=2000)
    levels: Object = EMPTY
    changes: Object = EMPTY
    model: str = ""
    data: str = ""
    synthetic: bool = False
    leaks: bool = False
    batch_norm: bool = False  # whether the model has batch normalization
    base: Integer | None = None  # index of the variant with which it is compared
    data_checksum: str = ""  # of the images when the plan was written, if known
    pflop: Number | None = None  # training compute of a run, if known


@explained
@record
class Deviation:
    """A known deviation of the `paper` preset from its paper, or a setting that the paper does not state.

    Args:
        field: The field of the config, or a description in words if there is no such field.
        paper: The value in the paper. None if the paper does not state it; `ours` is then an assumption,
            which
            every verdict mentions.
        ours: The value in the preset. A run with the paper's value is also comparable and does not deviate.
        why: The reason in a few words.
    """

    field: str
    paper: PlainValue = None
    ours: PlainValue
    why: str

    @property
    def of_config(self) -> bool:
        return self.field.startswith(("data.", "model.", "train.", "settings."))


@record
class MetricRecord:
    """A metric of a user's own program, with the fields of `recstudy.programs.metric.Metric`."""

    unit: str = ""
    better: Literal["higher", "lower"] | None = None
    items: Integer | None = None
    title: str = ""
    form: str = ""
    bounds: tuple[float, float] | None = None
    share: bool = False


@record
class Reference:
    """The `paper` preset of a study, with which published values are compared, whatever preset is run."""

    preset: str
    base: Object
    axes: dict[str, str] = EMPTY
    # None: the variants of the plan, which then is of the `paper` preset without changes
    variants: tuple[VariantRecord, ...] | None = None


@record
class ImportedFile:
    """A file from which finished runs were imported, without the folders above it."""

    name: str
    sha256: str
    date: str  # date of the import
    started: str = ""  # the first start of its runs by its own column; empty if that is unknown

    @property
    def words(self) -> str:
        return f"{self.name} (sha256 {self.sha256[:12]}), on {self.date[:10]}"


@record
class ImportedRun:
    """A run that was imported from a line of a file."""

    settings: Object
    seed: Integer
    status: Literal["done", "diverged", "failed"] = "done"
    error_class: str = ""  # of a failed run: its state in its tracker
    error: str = ""
    metrics: Values = EMPTY
    item_scores: dict[str, dict[str, Number]] | None = None  # metric -> test item -> score
    errors: dict[str, Number] | None = None  # metric -> its standard error over test items
    file: Integer = 0  # index in `files`
    line: Integer = 0


@record
class Imported:
    """`imported.json` of a study: the imported runs by id."""

    # Imported runs have no folders: 10,000 folders take 3 to 13 s and 120 MB, this file 0.1 s and 2 MB.

    format: Integer = FORMAT
    files: tuple[ImportedFile, ...] = ()
    runs: dict[str, ImportedRun] = EMPTY


class Run(NamedTuple):
    """A planned run: a variant, or a trial of a search, with one seed.

    Files have the first three fields. The other two are set in the process that has made the plan.

    Args:
        variant: The index of the variant, or the number of the trial.
        seed: The seed.
        id: The `run_id` of its settings.
        label: The label of the variant.
        config: Its `RunSettings`.
    """

    variant: Integer
    seed: Integer
    id: str
    label: str = ""
    config: Any = None

    def __str__(self) -> str:
        return f"{self.label}, seed {self.seed}"


Runs = Annotated[tuple[Run, ...], PlainSerializer(lambda runs: [run[:3] for run in runs])]


@record
class RangeRecord:
    """The range of a field in a search: an interval of numbers, or a list of choices."""

    low: Number = 0
    high: Number = 0
    log: bool = False
    choices: tuple[PlainValue, ...] = ()
    # other field -> its values for which this field is searched
    when: dict[str, tuple[Any, ...]] = EMPTY


@record
class Confirm:
    """The number of best trials that a search confirms, and the fresh seeds for them."""

    best: Integer = 0
    seeds: tuple[Integer, ...] = ()


@record
class TrialRecord:
    """A proposed trial. Trials with the same settings share a variant."""

    number: Integer
    params: Object
    variant: Integer


FEWEST_TRIALS = 10  # for field importance: with two trials, every field explains the same share


@record
class ImportanceRecord:
    """`importance-DEFINITION.json`: objective -> method -> field -> its share of the objective's variance.

    `intervals` has the 95 % confidence intervals of these shares over the trials.
    """

    trials: Integer = 0
    importance: dict[str, dict[str, dict[str, float]]]
    intervals: dict[str, dict[str, dict[str, tuple[float, float]]]] = EMPTY
    missing: dict[str, str] = EMPTY  # method -> why it has no result


@record
class SearchRecord:
    """The settings of a search. Its trials and importances are in files of their own and not written here."""

    objectives: dict[str, Literal["max", "min"]] = Field(min_length=1)
    sampler: str = ""
    stopping: str = "none"
    budget: str = ""
    space: dict[str, dict[str, RangeRecord]]  # family -> field -> its range
    confirm: Confirm = Confirm()
    trials: tuple[TrialRecord, ...] = Field(default=(), exclude=True)
    # variant -> the fresh seeds of its confirmation
    confirmed: dict[int, tuple[int, ...]] = Field(default_factory=dict, exclude=True)
    importance: ImportanceRecord | None = Field(default=None, exclude=True)


def is_name(text: str, empty: bool = False) -> bool:
    """Return whether this can be the name of a file: no path, no control characters, not too long.

    Args:
        text: The name.
        empty: Accept an empty name.
    """
    return (
        (empty or text != "")
        and text not in (".", "..")
        and "/" not in text
        and text.isprintable()
        and len(text) <= LONGEST
    )


def folder_of(preset: str, smoke: bool) -> str:
    """Return the name of a preset's folder. A smoke run has its own, so that it never replaces a real run."""
    return f"{preset}{SMOKED}" if smoke else preset


@record
class DescriptionRecord:
    """The description of metrics, thresholds, `paired` and `blocks` from a date on."""

    date: str = ""  # empty if it is unknown, and then before all runs
    values: Object = EMPTY  # such as `accuracy.items` -> 2000


@record
class PlanRecord:
    """`plan.json`: the runs of a study and the parts of its report. A search has the runs of past trials."""

    format: Integer = FORMAT
    study: str
    preset: str
    question: str = ""
    description: str = ""
    created: str = ""
    command: str = ""
    file: str = ""  # the study file; empty for a shipped study and in an interactive session
    smoke: bool = False
    definition: str = ""
    plugins: tuple[dict[str, str], ...] = ()  # files with the study's own definitions: `module`, `file`
    base: Object  # the preset's config, in parts
    changes: Object = EMPTY  # field -> value from the command line
    metrics: dict[str, MetricRecord] = EMPTY  # of a user's own program
    imported: tuple[ImportedFile, ...] = ()  # the files of imported runs; empty if the runs were run here
    reference: Reference | None = None
    deviations: tuple[Deviation, ...] = ()  # of the `paper` preset from its paper
    axes: dict[str, str] = EMPTY  # axis -> its field
    variants: tuple[VariantRecord, ...]
    seeds: tuple[Integer, ...]
    # the stated maximum number of seeds; 0 if the study states none
    max_seeds: Integer = 0
    most_seeds: dict[str, Integer] = EMPTY  # of each label, in all imports
    # metric -> the value above which a seed has learned
    success_threshold: dict[str, float] = EMPTY
    runs: Runs
    report: tuple[Object, ...]  # its parts, each with its kind
    search: SearchRecord | None = None
    # path of a user file, relative to the study file -> its SHA-256
    files: dict[str, str] = EMPTY
    # SHA-256 of a user file, now or earlier -> of its code alone
    code_digests: dict[str, str] = EMPTY
    # digest of a claim, margin or deviation -> the date of its first statement
    stated: dict[str, str] = EMPTY
    described: tuple[DescriptionRecord, ...] = ()  # the first description, and each change of it
    # digest of a question -> its words and the number of questions
    dropped: dict[str, tuple[str, Integer]] = EMPTY
    paired: bool = False  # whether differences are taken per seed
    blocks: tuple[str, ...] = ()  # settings such as a data set, within whose levels variants are compared
    alpha: float = Field(default=ALPHA, gt=0, lt=1)  # the error of all questions together
    # share of the data that each seed draws as its test set; 0 for a fixed test set
    test_share: float = Field(default=0.0, ge=0, lt=1)

    @property
    def overlap(self) -> float:
        """The `overlap` of `recstudy.evidence.Fit`."""
        return self.test_share / (1 - self.test_share)

    @property
    def folder(self) -> str:
        """The name of the preset's folder."""
        return folder_of(self.preset, self.smoke)

    def __post_init__(self) -> None:
        for field in ("study", "preset", "definition"):
            if not is_name(name := getattr(self, field), empty=True):
                raise ValueError(f"the {field} must be a valid name, but it is {name!r}")
        if any(not {"module", "file"} <= plugin.keys() for plugin in self.plugins):
            raise ValueError("each of plugins must have a module and a file")
        for part in PARTS:
            if not isinstance(self.base.get(part, {}), dict):
                raise ValueError(f"base.{part} must be an object, but it is {self.base[part]!r}")
        for path in NUMBERS:
            part, _, name = path.partition(".")
            numbers = [
                self.base.get(part, {}).get(name),
                *(variant.changes.get(path) for variant in self.variants),
            ]
            if wrong := [
                value for value in numbers if value is not None and not isinstance(value, int | float)
            ]:
                raise ValueError(f"{path} must be a number, but it is {wrong[0]!r}")
        for run in self.runs:
            if not 0 <= run.variant < len(self.variants):
                raise ValueError(
                    f"run {run.id!r} has variant {run.variant}, but there are {len(self.variants)} variants"
                )
            if not is_name(run.id):
                raise ValueError(f"a run id must be a valid name, but it is {run.id!r}")


@record
class Look:
    """A line of `studies/looks.jsonl`: the verdicts of these runs were read for the first time."""

    date: str
    runs: tuple[str, ...] = ()  # ids; of imported runs, digests of settings, seed and metrics
    # In `looks-DEFINITION.jsonl` of records before 2026-11-28, a look has a number of seeds and no run ids.
    seeds: Integer = 0


@record
class TrialLine:
    """A line in the log of a search: a proposed trial."""

    number: Integer
    params: Object
    variant: VariantRecord
    seed: Integer
    id: str
    more_ids: tuple[str, ...] | None = None  # of its runs with the following seeds

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its runs."""
        return self.id, *(self.more_ids or ())


@record
class ConfirmLine:
    """A line in the log of a search: trial `confirms` is one of the best and gets a fresh seed."""

    confirms: Integer
    seed: Integer
    id: str


@record
class Clock:
    """The wall hours and GPU hours that a session of a search has used so far."""

    session: str
    h: float
    gpuh: float


@record
class ClockLine:
    """A line in the log of a search: the time used so far."""

    clock: Clock


@record
class About:
    """`bundle.json`: the study in a bundle, the code that drew its report, and the omitted files."""

    format: int = FORMAT
    study: str
    preset: str  # the preset's folder
    recstudy: str  # version
    drawn_by: str  # digest of the code that drew the report
    packages: dict[str, str] = EMPTY
    records: str  # digest of all files below `results`, which a paper can print
    code: dict[str, str] = EMPTY  # file below `code` -> its description
    left_out: tuple[str, ...] = ()  # in words
    date: str = ""  # when the last run finished
