"""The audit: what a careful reviewer would ask of a study, and what is known to be inconsistent in the papers beside it.

`RULES` has a question per rule: when it is asked, why it matters and what would settle it. No rule repeats what the page says
with the numbers: which claims are post hoc, what changed since the runs, how captions were decoded. None repeats a known
inconsistency of a paper, such as baselines with the stem of large images.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from recstudy.errors import StorageError
from recstudy.evidence import mean_of
from recstudy.papers import by_name, papers
from recstudy.programs.metric import METRICS
from recstudy.records import Results
from recstudy.records.runs import Row
from recstudy.records.schema import Provenance
from recstudy.report.caveats import some
from recstudy.report.markup import markup
from recstudy.report.names import metric, plural
from recstudy.report.parts import BesidePublished
from recstudy.report.study_records import StudyRecords, load_studies
from recstudy.terminal import flops

TITLE = "What a careful reviewer would ask"
UNEQUAL = 1.5  # times the least training FLOPs, from which on a reader should know of it
COSTS = ("train_pflop", "train_gflops", "gflops")
SHORT = 12  # characters of a checksum that tell it apart
MACHINES = "kinds of machine"
ORIGINS: dict[str, Callable[[Provenance], str]] = {
    "commits of the code": attrgetter("made_by"),
    "commits of recstudy": attrgetter("recstudy"),
    "sets of package versions": attrgetter("packages"),
    MACHINES: lambda provenance: provenance.hardware.gpu or provenance.hardware.cpu,
}
Observation = tuple[str, Iterable[int] | None]  # what was seen, and in which variants; None: in all


@dataclass(frozen=True)
class Contradiction:
    """A statement of a paper, what contradicts it, and what this project does about it.

    `place` is the paper's section or table. A `quoted` statement is verbatim; others are in our words.
    """

    id: str
    paper: str
    place: str
    statement: str
    quoted: bool
    conflict: str
    handling: str

    @property
    def row(self) -> tuple[str, str, str]:
        """The statement under its name, such as `ViTRM-8`, in quotation marks if it is verbatim; its conflict; our handling."""
        statement = f'"{self.statement}"' if self.quoted else self.statement
        return f"{by_name(self.id)}: {statement} ({self.place})", self.conflict, self.handling

    @property
    def words(self) -> str:
        """The row in one line."""
        return "{}; but: {}. Here: {}.".format(*self.row)


@cache
def contradictions() -> dict[str, Contradiction]:
    """Read `recstudy/papers/contradictions.yaml`, by id."""
    import yaml

    entries = yaml.safe_load(files("recstudy").joinpath("papers/contradictions.yaml").read_text(encoding="utf-8"))
    return {
        entry["id"]: Contradiction(
            id=entry["id"],
            paper=entry["seed"],
            place=entry["where"],
            statement=entry.get("quote", entry.get("says")),
            quoted="quote" in entry,
            conflict=entry["conflict"],
            handling="noted" if entry["handling"] == "note" else entry["handling"],
        )
        for entry in entries
    }


# ------------------------------------------------------------------------------------------------------------------ rules


def check_selection(records: StudyRecords) -> Iterator[Observation]:
    planned = [index for index, config in enumerate(records.configs) if config.get("train.selection") == "test"]
    selected = [row.variant for row in records.rows if row.selected.split == "test"]
    yield "The epoch is selected on the test set: validation and test are the same images", [*planned, *selected]
    objectives = records.plan.search.objectives if records.plan.search else ()
    titles = [metric(name).title for name in objectives if name in METRICS and METRICS[name].tasks]
    if titles:
        yield f"The search optimizes {', '.join(titles)} on the test set", None


def check_seeds(records: StudyRecords) -> Iterator[Observation]:
    if records.plan.search is None:  # whose table of the best says which seeds are fresh
        yield "One seed only", [index for index, rows in enumerate(records.by_variant) if len({row.seed for row in rows}) == 1]


def check_flops(records: StudyRecords) -> Iterator[Observation]:
    """Compare variants on the same data, unless the report shows what each row cost."""
    if records.plan.search is not None or any(name in COSTS for part in records.parts for name in part.shows):
        return
    costs: dict[str, dict[int, float]] = {}
    for index, variant in enumerate(records.variants):
        values = [row.number("train_pflop") for row in finished(records, index) if row.value("train_pflop")]
        if not variant.leaks and (mean := mean_of(values) if values else None):
            costs.setdefault(variant.data, {})[index] = mean
    for data, means in costs.items():
        least, most = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        if means[most] >= UNEQUAL * means[least]:
            yield f"Unequal training FLOPs on {data}: {flops(means[least])} to {flops(means[most])} a run", (least, most)


def check_data(records: StudyRecords) -> Iterator[Observation]:
    """Find data sets of the same settings, and not the same images. Seeds may have data of their own."""
    groups: dict[object, list[Row]] = {}
    for row in (row for index in range(len(records.variants)) for row in finished(records, index)):
        seed = row.seed if records.configs[row.variant].get("data.drawing") == "per seed" else None
        groups.setdefault((seed, records.data_settings[row.variant]), []).append(row)
    for rows in groups.values():
        checksums = Counter(row.provenance.data_checksum[:SHORT] for row in rows if row.provenance.data_checksum)
        if len(checksums) > 1:
            data = records.variants[rows[0].variant].data
            yield f"{len(checksums)} different data checksums of {data}: {counted(checksums)}", {row.variant for row in rows}


def check_origins(records: StudyRecords) -> Iterator[Observation]:
    """Find variants that differ in what computed them. The machine counts if the report shows times."""
    timed = any(metric(name).timed for part in records.parts for name in part.shows)
    rows = [[row.provenance for row in finished(records, index)] for index in range(len(records.variants))]
    for what, read in ORIGINS.items():
        origins = [list(map(read, provenances)) for provenances in rows if provenances]
        values = Counter(value for variant in origins for value in variant if value)
        if len(values) > 1 and len(set(map(frozenset, origins))) > 1 and (timed or what != MACHINES):
            yield f"{len(values)} {what}: {counted(values)}", None


def finished(records: StudyRecords, variant: int) -> list[Row]:
    return [row for row in records.by_variant[variant] if row.done]


def counted(values: Counter[str]) -> str:
    return ", ".join(f"{value} ({count})" for value, count in values.items())


class Rule(NamedTuple):
    """A question.

    Args:
        check: Yields what makes a reviewer ask.
        why: Why it matters.
        settle: What would settle it.
        contradictions: Ids of the papers' contradictions on the same thing.
        general: Whether it applies to any program, and not only to the recursive models.
    """

    check: Callable[[StudyRecords], Iterator[Observation]]
    why: str
    settle: str
    contradictions: tuple[str, ...] = ()
    general: bool = False


RULES = {  # in the order of the report
    "selection on the test set": Rule(
        check_selection,
        "The best of many epochs or settings on the test set is partly luck, so every score is optimistic.",
        "Select on a validation split (train.selection=validation; a search by `score`), and score the test set once.",
        ("002-8",),
    ),
    "the number of seeds": Rule(
        check_seeds,
        "The variance between seeds is unknown, so no difference between rows can be told from luck.",
        "Three seeds or more: the study's command with --seeds 3.",
        ("004-5",),
        general=True,
    ),
    "equal training FLOPs": Rule(
        check_flops,
        "A row that cost more may owe its score to the compute and not to the idea.",
        "A variant with as many FLOPs as the others, as in studies/vitrm_fairness.py, or a table with the costs.",
        ("002-11",),
    ),
    "data checksums": Rule(
        check_data,
        "These runs were not trained and scored on the same images.",
        "Find out which copy is right, and run the others again with another --results.",
    ),
    "commits, versions and machines": Rule(
        check_origins,
        "A difference between rows may be one between two versions of the code, or of times between two machines.",
        "Run everything again with one version on one machine and another --results, or say in the text what changed.",
        general=True,
    ),
}


# ----------------------------------------------------------------------------------------------------------------- report


@dataclass(frozen=True)
class Finding:
    """A question of a rule, and the variants that it is about: without `where` all."""

    rule: str
    what: str
    why: str
    settle: str
    where: tuple[str, ...]
    contradictions: tuple[Contradiction, ...]

    @property
    def place(self) -> str:
        """Three of the variants, and how many others."""
        return some(self.where) or "every variant"


@dataclass(frozen=True)
class AuditReport:
    """The findings, the contradictions of the study's papers that no finding is about, and the rules that were checked."""

    findings: tuple[Finding, ...]
    contradictions: tuple[Contradiction, ...]
    checked: tuple[str, ...]

    @property
    def nothing(self) -> str:
        """What stands in place of findings."""
        return "" if self.findings else f"Checked: {', '.join(self.checked)}."

    @property
    def papers(self) -> list[tuple[str, list[Contradiction]]]:
        """The contradictions of each paper under a title."""
        groups = groupby(self.contradictions, attrgetter("paper"))
        return [(f"Known inconsistencies in the {papers()[paper]['name']} paper", list(group)) for paper, group in groups]


def audit(records: StudyRecords) -> AuditReport:
    """Ask everything there is to ask of a study. A contradiction of its papers is listed with the finding that is about it."""
    targets = [target for part in records.parts if isinstance(part, BesidePublished) for target in part.targets]
    beside = {target.source.partition(" ")[0] for target in targets}
    known = {name: entry for name, entry in contradictions().items() if entry.paper in beside}
    everywhere = set(range(len(records.variants)))  # none before the first trial of a search
    rules = {name: rule for name, rule in RULES.items() if rule.general or not records.is_own}
    findings = []
    for name, rule in rules.items():
        for what, observed in rule.check(records):
            variants = everywhere if observed is None else set(observed)
            if variants or observed is None:
                labels = () if variants == everywhere else tuple(records.variants[index].label for index in sorted(variants))
                about = tuple(known.pop(entry) for entry in rule.contradictions if entry in known)
                findings.append(Finding(name, what, rule.why, rule.settle, labels, about))
    return AuditReport(tuple(findings), tuple(known.values()), tuple(rules))


def audit_html(report: AuditReport) -> str:
    """Show findings in full and contradictions folded."""
    return markup("audit", report, template="study")


def audit_lines(report: AuditReport) -> Iterator[Text]:
    """Return a paragraph per finding and a line per contradiction, for a terminal."""
    if report.nothing:
        yield Text(f"Nothing to ask. {report.nothing}")
    for finding in report.findings:
        yield Text(f"Question: {finding.what}", style="bold")
        lines = [f"Where: {finding.place}", f"Why it matters: {finding.why}", f"What would settle it: {finding.settle}"]
        yield from (Text(f"    {line}") for line in [*lines, *(entry.words for entry in finding.contradictions)])
    for title, entries in report.papers:
        yield from (Text(line) for line in (f"{title}:", *(f"    {entry.words}" for entry in entries)))


def show_audits(studies: Sequence[tuple[Results, str, str]], as_json: bool, out: Console, trust: bool = False) -> None:
    """Print the audit of each study (results folder, name, preset).

    Raises:
        StorageError: Some are damaged; the others were printed.
    """
    readable, damages = load_studies(studies, trust)
    entries = []
    for (name, preset), records in readable.items():
        with records.standing():
            report = audit(records)
        entries.append({"study": name, "preset": preset, **asdict(report), "not_here": records.not_here})
        if not as_json:
            title = f"{name} ({preset}): {plural(len(report.findings), 'question')}"
            for line in (Text(title, style="bold underline"), *map(Text, records.not_here), *audit_lines(report)):
                out.print(line, soft_wrap=True)
    if as_json:
        print(json.dumps(entries, indent=1))
    if damages:
        raise StorageError(" ".join(map(str, damages)))
