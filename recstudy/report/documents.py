"""The JSON documents that commands print with `--json`.

Standard output is exactly one document, and everything else is printed to standard error. A number has full
precision and is the number of the page. Keys of questions are those of the CSV files beside the tables. A
missing number is null, and so is an infinite bound.

A new key does not change `schema_version`. Another meaning, a new type or a removed key does.
"""

from importlib.metadata import version
from typing import IO, Literal

from pydantic import BaseModel, ConfigDict

from recstudy.evidence import Kind, Verdict
from recstudy.papers import by_name
from recstudy.records.files import Json
from recstudy.report.names import join_labels

StudyVerdict = Literal["supported", "undecided", "contradicted", "no claim"]


class JsonPart(BaseModel):
    """A part of a document."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Document(JsonPart):
    """The keys of every document."""

    schema_version: Literal[1] = 1
    recstudy: str = version("recstudy")
    """The version of recstudy that printed the document."""

    def show(self, stdout: IO[str] | None = None) -> None:
        """Print the document."""
        print(self.model_dump_json(indent=1), file=stdout)


class SideEntry(JsonPart):
    """A variant of a contrast with its runs."""

    label: str
    weight: float
    """The weight of the variant's mean in the contrast."""
    values: dict[int, float]
    """Seed -> the value of its run."""


class QuestionEntry(JsonPart):
    """A claim, a difference, an effect or a published value, with its answer."""

    part: str
    """The table of the page that has the question; empty for a published value."""
    question: str
    """The text of a claim, or the variant, the effect or the published value."""
    kind: Kind
    base: str = ""
    """The variant with which a difference compares."""
    contrast: str = ""
    """The comparison and the tested range, in words."""
    metric: str
    unit: str
    better: Literal["higher", "lower"] | None
    """The better direction of the metric."""
    verdict: Verdict
    verdict_words: str
    """The verdict as the page prints it, with its marks, such as `supported (post hoc)`."""
    is_decided: bool
    """Whether more runs cannot change the verdict."""
    region_low: float | None
    """The lower end of the claimed range of the estimate."""
    region_high: float | None
    estimate: float | None
    """The estimate of the contrast in the unit of the metric; for a published value, our mean."""
    low: float | None
    """The lower end of the 95 % confidence interval of the estimate."""
    high: float | None
    low_adjusted: float | None
    """The lower end of the interval at `level_adjusted`, the level of the test."""
    high_adjusted: float | None
    level_adjusted: float
    """The level that is adjusted for all questions and looks."""
    n: int
    """The number of seeds of the variant that has the fewest."""
    df: float | None
    """The degrees of freedom of the interval."""
    p: float | None
    """The p value of this question alone."""
    p_holm: float | None
    """The p value after Holm's correction and the look. It decides the verdict."""
    published: float | None = None
    """The published value."""
    sides: list[SideEntry]
    seeds_needed: int | None
    """Further seeds of each variant for a decision 4 times in 5, if the effect is at its lower quartile."""
    seeds_needed_for_the_estimate: int | None
    """The same, if the effect is as estimated."""
    seeds_needed_words: str = ""
    """The same in words, or the need of an untested question, such as `a second seed`."""
    reasons: list[str]
    """Why the question is open or needs care."""
    lost: list[str] = []
    """Runs that ended without a value, each with the reason."""
    runs_left: int
    """The number of unfinished runs."""
    run_ids: list[str]
    ending: Literal["decided", "open", "out of reach", ""] = ""
    """Whether further seeds up to the maximum can decide it. Only claims and published values have this."""
    next_command: str = ""
    """The command that may decide the question; empty if none is known."""


class EstimateEntry(JsonPart):
    """The mean of a metric over the seeds of a variant."""

    variant: int
    """The index of the variant in the plan."""
    label: str
    metric: str
    value: float | None
    low: float | None
    """The lower end of the 95 % confidence interval."""
    high: float | None
    n: int
    df: float | None
    error: float | None
    """The standard error."""
    notes: str
    """Why the interval is missing or needs care."""


class StudyEntry(JsonPart):
    """A study with the content of its page."""

    study: str
    preset: str
    question: str
    folder: str
    """The folder of the study. Its page is `report/report.html` there."""
    runs: dict[str, int]
    """Status -> the number of runs, such as `done` and `not run`."""
    alpha: float
    max_seeds: int | None
    """The stated maximum number of seeds; null if none is stated."""
    verdict: StudyVerdict
    """All claims are supported, or some are undecided, or some are contradicted or smaller than claimed."""
    findings: list[str]
    """The first sentences of the page."""
    warnings: list[str]
    """What a reader must know before the numbers."""
    questions: list[QuestionEntry]
    estimates: list[EstimateEntry]
    problems: list[str]
    """Parts of the report that cannot be drawn, each with the reason."""
    next_command: str
    """The command that may decide an open claim or finish runs; empty if none is known."""
    next_step: str
    """The advice in words."""


class StudiesDocument(Document):
    """The document of `recstudy judge`, `recstudy report` and the run of a study."""

    command: Literal["judge", "report", "run"]
    verdict: StudyVerdict
    """The verdict of all claims, to which the exit code of `--exit-by-verdict` belongs."""
    studies: list[StudyEntry]


class StudyStatus(JsonPart):
    """The progress of a study: its runs by status, or the `problem` with which its plan cannot be read."""

    study: str
    preset: str
    done: int = 0
    diverged: int = 0
    stopped: int = 0
    failed: int = 0
    planned: int = 0
    command: str = ""
    """The recorded command, which resumes the study; empty for imported runs."""
    problem: str = ""
    running: list[str] = []
    """Labels and seeds of running runs."""


class StatusDocument(Document):
    """The document of `recstudy status`. It has no measured value, so reading it is no look."""

    command: Literal["status"] = "status"
    studies: list[StudyStatus]


class Contradiction(JsonPart):
    """A statement of a paper, the fact that contradicts it, and how this project handles it."""

    id: str
    """The paper's id and a number."""
    paper: str
    where: str
    """The paper's section or table."""
    conflict: str
    """The fact that contradicts the statement."""
    handling: str
    """What this project does about it."""
    quote: str = ""
    """The statement, if it is verbatim."""
    says: str = ""
    """The statement in our words, if it is not."""

    @property
    def row(self) -> tuple[str, str, str]:
        """The statement with its name, such as `ViTRM-8`; its conflict; our handling."""
        statement = f'"{self.quote}"' if self.quote else self.says
        return f"{by_name(self.id)}: {statement} ({self.where})", self.conflict, self.handling


class Finding(JsonPart):
    """A fact that raises a question."""

    rule: str
    what: str
    conclusion: str
    settle: str
    where: list[str]
    """The labels of its variants; empty if all are meant."""

    @property
    def place(self) -> str:
        """The first three variants and the number of others, for print."""
        return join_labels(self.where) or "every variant"


class AuditEntry(JsonPart):
    """The audit of a study."""

    study: str
    preset: str
    findings: list[Finding]
    checked: list[str]
    """The ids of the checked reasons."""
    contradictions: dict[str, list[Contradiction]]
    """Title -> known contradictions in a paper of the study."""
    not_here: list[str]
    """Why modules of the study were not imported."""


class AuditDocument(Document):
    """The document of `recstudy audit`."""

    command: Literal["audit"] = "audit"
    studies: list[AuditEntry]


class NumberRun(JsonPart):
    """A run behind a number."""

    id: str
    seed: int
    variant: str
    value: float | None
    made_by: str
    """The commit of the code."""


class ExplainDocument(Document):
    """The document of `recstudy explain`."""

    command: Literal["explain"] = "explain"
    study: str
    preset: str
    table: str
    row: str
    column: str
    fields: Json
    """The line of the table's CSV file."""
    passages: list[str]
    """The page or table cell of each published value of the row, with a short quote."""
    runs: list[NumberRun]
    notes: list[str]
    """Runs that are left out, each with the reason, and the files of imported runs."""
    records: str
    """The place of the records."""


class VerifyDocument(Document):
    """The document of `recstudy verify`. If something differs, the exit code is 1."""

    command: Literal["verify"] = "verify"
    study: str
    preset: str
    published_with: str
    """The version of recstudy that published the bundle."""
    matches: bool
    """Whether nothing differs."""
    records: str
    """The SHA-256 of the records."""
    checked: list[str]
    unchecked: list[str]
    differences: list[str]


class ComparedNumber(JsonPart):
    """A published number beside the number of local runs."""

    title: str
    verdict: Literal["within run-to-run spread", "different", "undecided"]
    difference: float | None
    """The local mean minus the published mean."""
    low: float | None
    """The lower end of its interval."""
    high: float | None
    level: float
    """The level of the interval, which is adjusted for the number of variants (Bonferroni)."""


class ReproduceDocument(Document):
    """The document of `recstudy reproduce`. If a number is different, the exit code is 1."""

    command: Literal["reproduce"] = "reproduce"
    study: str
    preset: str
    is_bit_equal: bool
    """Whether every metric of all common runs is equal to the last digit."""
    equal_runs: int
    common_runs: int
    theirs: dict[str, list[float]]
    """Variant -> the published values, a value for each seed."""
    here: dict[str, list[float]]
    """Variant -> the local values."""
    their_machines: str
    machines_here: str
    numbers: list[ComparedNumber]
    """Empty if the runs are bit-equal, because they then need no test."""


class FieldEntry(JsonPart):
    """A setting of runs."""

    field: str
    type: str
    default: str
    search_range: str
    meaning: str


class FieldsDocument(Document):
    """The document of `recstudy fields`."""

    command: Literal["fields"] = "fields"
    parts: dict[str, list[str]]
    """Group -> the names of its parts."""
    fields: list[FieldEntry]
    """The settings of the named part; empty without a part."""


class PlannedEntry(JsonPart):
    """A planned run with its cost."""

    label: str
    seed: int
    id: str
    params: float | None
    gflops: float | None
    train_gflops: float | None
    memory_gb: float | None
    cached: bool
    """Whether the run has finished and is not repeated."""
    changed: list[str]
    """What has changed since it finished: code, data."""


class DryRunDocument(Document):
    """The document of a study, or of `recstudy reproduce`, with `--dry-run`."""

    command: Literal["dry-run"] = "dry-run"
    study: str
    preset: str
    runs: list[PlannedEntry]
    """All runs of a study, or the first trials of a search."""
    notes: list[str]
    """The price, the seeds that open claims need, and changed code."""
    search: Json | None = None
    """The space, the budget and the state of a search."""
