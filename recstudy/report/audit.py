"""The audit: records that change what a reader should conclude from a study, and known inconsistencies of its
papers.

`RULES` has a conclusion per rule: when it applies and what would settle it. No rule repeats what the page
says with the numbers: which claims are post hoc, what changed since the runs, how captions were decoded. None
repeats a known inconsistency of a paper, such as baselines with the stem of large images.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
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
from recstudy.records.schema import REPEATED, Provenance
from recstudy.report.caveats import join_labels
from recstudy.report.names import metric, plural
from recstudy.report.page import markup
from recstudy.report.parts import BesidePublished
from recstudy.report.study_records import StudyRecords, load_studies
from recstudy.report.targets import PAPER
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
Observation = tuple[str, Collection[int]]  # what was seen, and in which variants


@dataclass(frozen=True)
class Contradiction:
    """A statement of a paper, what contradicts it, and what this project does about it.

    `where` is the paper's section or table. A `quote` is verbatim; `says` is in our words.
    """

    id: str
    paper: str
    where: str
    conflict: str
    handling: str
    quote: str = ""
    says: str = ""

    @property
    def row(self) -> tuple[str, str, str]:
        """The statement under its name, such as `ViTRM-8`, in quotation marks if it is verbatim; its
        conflict; our handling.
        """
        statement = f'"{self.quote}"' if self.quote else self.says
        return f"{by_name(self.id)}: {statement} ({self.where})", self.conflict, self.handling


@cache
def contradictions() -> list[Contradiction]:
    """Read `recstudy/papers/contradictions.yaml`."""
    import yaml

    text = files("recstudy").joinpath("papers/contradictions.yaml").read_text(encoding="utf-8")
    return [Contradiction(**entry) for entry in yaml.safe_load(text)]


# ------------------------------------------------------------------------------------------------------------------ rules


def check_selection(records: StudyRecords) -> Iterator[Observation]:
    """Find test scores that were selected. Imported weights are trained nowhere here, whatever their config
    selects by.
    """
    planned = {
        index for index, config in enumerate(records.configs) if config.get("train.selection") == "test"
    }
    selected = {row.variant for row in records.rows if row.selected.split == "test"}
    if test_selected := (planned - records.imported) | selected:
        yield "The epoch is selected on the test set: validation and test are the same images", test_selected
    objectives = records.plan.search.objectives if records.plan.search else ()
    titles = [metric(name).title for name in objectives if name in METRICS and METRICS[name].tasks]
    if titles:
        yield f"The search optimizes {', '.join(titles)} on the test set", range(len(records.variants))


def check_seeds(records: StudyRecords) -> Iterator[Observation]:
    """Find variants with one seed. Of a search, the table of the best says which seeds are fresh."""
    single = {index for index, rows in enumerate(records.by_variant) if len({row.seed for row in rows}) == 1}
    if single and records.plan.search is None:
        yield "One seed only", single


def check_flops(records: StudyRecords) -> Iterator[Observation]:
    """Compare variants on the same data, unless the report shows what each row cost."""
    if records.plan.search is not None or any(
        name in COSTS for part in records.parts for name in part.shown_metrics
    ):
        return
    costs: dict[str, dict[int, float]] = {}
    for index, (variant, rows) in enumerate(zip(records.variants, finished(records), strict=True)):
        values = [row.number("train_pflop") for row in rows if row.value("train_pflop")]
        if not variant.leaks and (mean := mean_of(values) if values else None):
            costs.setdefault(variant.data, {})[index] = mean
    for data, means in costs.items():
        cheapest, costliest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        if means[costliest] >= UNEQUAL * means[cheapest]:
            yield (
                f"Unequal training FLOPs on {data}: {flops(means[cheapest])} to {flops(means[costliest])} a run",
                {cheapest, costliest},
            )


def check_data(records: StudyRecords) -> Iterator[Observation]:
    """Find data sets of the same settings, and not the same images. Seeds may have data of their own."""
    groups: dict[object, list[Row]] = {}
    for row in (row for rows in finished(records) for row in rows):
        seed = row.seed if records.configs[row.variant].get("data.resample") == "per seed" else None
        groups.setdefault((seed, records.data_settings[row.variant]), []).append(row)
    for rows in groups.values():
        checksums = Counter(
            row.provenance.data_checksum[:SHORT] for row in rows if row.provenance.data_checksum
        )
        if len(checksums) > 1:
            data = records.variants[rows[0].variant].data
            yield (
                f"{len(checksums)} different data checksums of {data}: {counted(checksums)}",
                {row.variant for row in rows},
            )


def check_repeats(records: StudyRecords) -> Iterator[Observation]:
    """Find test items that are training items too, and items with several labels, by the notes of the data's
    readers.
    """
    repeats: dict[tuple[str, str], set[int]] = {}
    for row in (row for rows in finished(records) for row in rows):
        for note in row.provenance.data_notes:
            if note.startswith(REPEATED):
                repeats.setdefault(
                    (records.variants[row.variant].data, note.removeprefix(REPEATED)), set()
                ).add(row.variant)
    for (data, note), variants in repeats.items():
        yield f"{data}: {note}", variants


def check_origins(records: StudyRecords) -> Iterator[Observation]:
    """Find variants that differ in what computed them. The machine counts if the report shows times."""
    timed = any(metric(name).timed for part in records.parts for name in part.shown_metrics)
    for origin_name, read in ORIGINS.items():
        origins = [[read(row.provenance) for row in rows] for rows in finished(records) if rows]
        values = Counter(value for variant in origins for value in variant if value)
        if len(values) > 1 and len(set(map(frozenset, origins))) > 1 and (timed or origin_name != MACHINES):
            yield f"{len(values)} {origin_name}: {counted(values)}", range(len(records.variants))


def finished(records: StudyRecords) -> list[list[Row]]:
    """Return the finished runs of each variant."""
    return [[row for row in rows if row.done] for rows in records.by_variant]


def counted(values: Counter[str]) -> str:
    return ", ".join(f"{value} ({count})" for value, count in values.items())


class Rule(NamedTuple):
    """A check of the records, what a reader should conclude from what it finds, and what would settle it.

    `is_general`: it applies to any program, and not only to the recursive models.
    """

    check: Callable[[StudyRecords], Iterator[Observation]]
    conclusion: str
    settle: str
    is_general: bool = False


RULES = {  # in the order of the report
    "selection on the test set": Rule(
        check_selection,
        "These scores are optimistic, because the best of many epochs or settings on the test set is partly"
        " luck.",
        "Select on a validation split (train.selection=validation; a search by `score`), and score the test"
        " set once.",
    ),
    "the number of seeds": Rule(
        check_seeds,
        "A difference from a single run may be luck, because the variance between seeds is unknown.",
        "Three seeds or more: the study's command with --seeds 3.",
        is_general=True,
    ),
    "equal training FLOPs": Rule(
        check_flops,
        "A better score of the more expensive variant may come from its compute and not from its idea.",
        "A variant with as many FLOPs as the others, as in studies/vitrm_fairness.py, or a table with the"
        " costs.",
    ),
    "data checksums": Rule(
        check_data,
        "These runs cannot be compared, because they were not trained and scored on the same data.",
        "Find out which copy is right, and run the others again with another --results.",
    ),
    "noted repeats of data": Rule(
        check_repeats,
        "A network may have memorized a test item that is a training item too. An item with several labels"
        " has no right answer.",
        "Remove the copies from one split, and run again with another --results.",
    ),
    "commits, versions and machines": Rule(
        check_origins,
        "A difference between rows may come from another version of the code or packages, and one in time"
        " from the machine.",
        "Check that the change does not touch the runs (git diff), or run everything again with another"
        " --results.",
        is_general=True,
    ),
}


# ----------------------------------------------------------------------------------------------------------------- report


@dataclass(frozen=True)
class Finding:
    """What a rule found, and the labels of the variants that it is about: without `where` all."""

    rule: str
    what: str
    conclusion: str
    settle: str
    where: list[str]

    @property
    def place(self) -> str:
        """Three of the variants, and how many others."""
        return join_labels(self.where) or "every variant"


@dataclass(frozen=True)
class AuditReport:
    """The findings, the names of the rules that were checked, and the contradictions of the study's papers,
    each paper's under a title."""

    findings: list[Finding]
    checked: list[str]
    contradictions: dict[str, list[Contradiction]]


def audit(records: StudyRecords) -> AuditReport:
    """Check every rule that applies to a study, and look up its papers."""
    rules = {name: rule for name, rule in RULES.items() if rule.is_general or not records.is_own}
    findings = []
    for name, rule in rules.items():
        for observation, positions in rule.check(records):
            labels = [variant.label for index, variant in enumerate(records.variants) if index in positions]
            named_labels = labels if len(labels) < len(records.variants) else []
            findings.append(Finding(name, observation, rule.conclusion, rule.settle, named_labels))
    targets = [
        target for part in records.parts if isinstance(part, BesidePublished) for target in part.targets
    ]
    paper_ids = {target.source.partition(" ")[0] for target in targets}
    entries_by_paper = groupby(
        (entry for entry in contradictions() if entry.paper in paper_ids), attrgetter("paper")
    )
    titles = {
        f"Known inconsistencies in the {papers()[paper]['name']} paper": list(entries)
        for paper, entries in entries_by_paper
    }
    return AuditReport(findings, [*rules], titles)


def audit_html(records: StudyRecords) -> str:
    """Show findings in full. The page of the preset `paper` has the contradictions, folded."""
    return markup("audit", audit(records), records.plan.preset == PAPER, template="study")


def audit_lines(report: AuditReport) -> Iterator[Text]:
    """Return a paragraph per finding and a line per contradiction, for a terminal."""
    if not report.findings:
        yield Text(f"Nothing to ask. Checked: {', '.join(report.checked)}.")
    for finding in report.findings:
        yield Text(f"Question: {finding.what}", style="bold")
        for line in (
            f"Where: {finding.place}",
            finding.conclusion,
            f"What would settle it: {finding.settle}",
        ):
            yield Text(f"    {line}")
    for title, entries in report.contradictions.items():
        yield Text(f"{title}:")
        yield from (Text("    {}; but: {}. Here: {}.".format(*entry.row)) for entry in entries)


def show_audits(
    studies: Sequence[tuple[Results, str, str]], as_json: bool, console: Console, trust: bool = False
) -> None:
    """Print the audit of each study (results folder, name, preset).

    Raises:
        StorageError: Some are damaged; the others were printed.
    """
    readable, damages = load_studies(studies, trust)
    entries = []
    for (name, preset), records in readable.items():
        with records.study_modules():
            report = audit(records)
        entries.append(
            {"study": name, "preset": preset, **asdict(report), "missing_modules": records.missing_modules}
        )
        if not as_json:
            title = f"{name} ({preset}): {plural(len(report.findings), 'question')}"
            for line in (
                Text(title, style="bold underline"),
                *map(Text, records.missing_modules),
                *audit_lines(report),
            ):
                console.print(line, soft_wrap=True)
    if as_json:
        print(json.dumps(entries, indent=1))
    if damages:
        raise StorageError(" ".join(map(str, damages)))
