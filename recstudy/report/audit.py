"""The audit of a study: facts in its records that change what a reader should conclude, and known
inconsistencies of its papers.

`RULES` has each check with its conclusion and a remedy. No rule repeats what the page states beside its
numbers, such as post hoc claims, changed code, or how captions were decoded. No rule repeats a known
inconsistency of a paper. `recstudy audit` and the report's page show the result.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from operator import attrgetter
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from recstudy.base.errors import StorageError
from recstudy.base.terminal import flops
from recstudy.evidence import mean_of
from recstudy.papers import by_name
from recstudy.papers.target import PUBLISHED, papers
from recstudy.programs.metric import METRICS
from recstudy.records import Results
from recstudy.records.runs import Row, distinct
from recstudy.records.schema import REPEATED, Provenance
from recstudy.report.caveats import join_labels
from recstudy.report.names import metric, plural
from recstudy.report.page import markup
from recstudy.report.parts import BesidePublished, missing_modules, parts_of
from recstudy.report.registration import late_changes
from recstudy.report.study_records import StudyRecords, load_studies
from recstudy.report.targets import PAPER

TITLE = "What a careful reviewer would ask"
UNEQUAL = 1.5  # ratio of training FLOPs above which the audit lists the variants
COSTS = ("train_pflop", "train_gflops", "gflops")
SHORT = 12  # characters of a checksum that are printed
MACHINES = "kinds of machine"
ORIGINS: dict[str, Callable[[Provenance], str]] = {
    "commits of the code": attrgetter("made_by"),
    "commits of recstudy": attrgetter("recstudy"),
    "sets of package versions": attrgetter("packages"),
    MACHINES: lambda provenance: provenance.hardware.gpu or provenance.hardware.cpu,
}
Observation = tuple[str, Collection[int]]  # a fact, and the variants that it applies to


@dataclass(frozen=True)
class Contradiction:
    """A statement of a paper, the fact that contradicts it, and how this project handles it.

    Args:
        id: The paper's id and a number.
        paper: The paper's id.
        where: The paper's section or table.
        conflict: The fact that contradicts the statement.
        handling: What this project does about it.
        quote: The statement, if it is verbatim.
        says: The statement in our words, if it is not.
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
        """The statement with its name, such as `ViTRM-8`; its conflict; our handling."""
        statement = f'"{self.quote}"' if self.quote else self.says
        return f"{by_name(self.id)}: {statement} ({self.where})", self.conflict, self.handling


@cache
def contradictions() -> list[Contradiction]:
    """Read `recstudy/recursive/papers/contradictions.yaml`."""
    import yaml

    text = PUBLISHED.joinpath("contradictions.yaml").read_text(encoding="utf-8")
    return [Contradiction(**entry) for entry in yaml.safe_load(text)]


# --- rules


def check_selection(records: StudyRecords) -> Iterator[Observation]:
    """Find scores on the test set that were also selected on it.

    Imported weights are excluded, because their config's selection was never applied.
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
    """Find variants with one seed. Searches are excluded: their table of best trials names fresh seeds."""
    single = set()
    for index, rows in enumerate(records.by_variant):
        seeds = {row.seed for row in rows}
        if len(seeds) == 1:
            single.add(index)
    if single and records.plan.search is None:
        yield "One seed only", single


def check_missing_runs(records: StudyRecords) -> Iterator[Observation]:
    """Count the runs without a result by state and variant. Of a search, only fresh seeds count."""
    first = 1 if records.plan.search else 0
    runs = distinct(run for rows in records.by_variant for run in rows[first:])
    missing_runs = [run for run in runs if not run.done]
    if missing_runs:
        counts = Counter((run.label, run.status) for run in missing_runs)
        states = [f"{label}: {count} {status}" for (label, status), count in counts.items()]
        count = f"{len(missing_runs):,} of {len(runs):,}"
        fact = f"Runs without a result: {count} ({join_labels(states, '; ', 6)})"
        yield fact, {run.variant for run in missing_runs}


def check_flops(records: StudyRecords) -> Iterator[Observation]:
    """Compare variants on the same data, unless the report shows the cost of each row."""
    shows_costs = any(name in COSTS for part in parts_of(records) for name in part.shown_metrics)
    if records.plan.search is not None or shows_costs:
        return
    costs: dict[str, dict[int, float]] = {}
    for index, (variant, rows) in enumerate(zip(records.variants, finished_by_variant(records), strict=True)):
        values = [row.number("train_pflop") for row in rows if row.value("train_pflop")]
        if not variant.leaks and (mean := mean_of(values) if values else None):
            costs.setdefault(variant.data, {})[index] = mean
    for data, means in costs.items():
        cheapest, costliest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        if means[costliest] >= UNEQUAL * means[cheapest]:
            costs_range = f"{flops(means[cheapest])} to {flops(means[costliest])} a run"
            yield f"Unequal training FLOPs on {data}: {costs_range}", {cheapest, costliest}


def check_data(records: StudyRecords) -> Iterator[Observation]:
    """Find data sets with the same settings but different images. With `per seed`, seeds differ anyway."""
    groups: dict[object, list[Row]] = {}
    for row in finished_runs(records):
        # With `per seed`, each seed has other images, so runs are compared within a seed.
        seed = row.seed if records.configs[row.variant].get("data.resample") == "per seed" else None
        groups.setdefault((seed, records.data_settings[row.variant]), []).append(row)
    for rows in groups.values():
        checksums = Counter(
            row.provenance.data_checksum[:SHORT] for row in rows if row.provenance.data_checksum
        )
        if len(checksums) > 1:
            data = records.variants[rows[0].variant].data
            fact = f"{len(checksums)} different data checksums of {data}: {count_words(checksums)}"
            yield fact, {row.variant for row in rows}


def check_repeats(records: StudyRecords) -> Iterator[Observation]:
    """Find test items that are also training items, and items with several labels, in the data's notes."""
    repeats: dict[tuple[str, str], set[int]] = {}
    for row in finished_runs(records):
        for note in row.provenance.data_notes:
            if note.startswith(REPEATED):
                key = (records.variants[row.variant].data, note.removeprefix(REPEATED))
                repeats.setdefault(key, set()).add(row.variant)
    for (data, note), variants in repeats.items():
        yield f"{data}: {note}", variants


def check_origins(records: StudyRecords) -> Iterator[Observation]:
    """Find variants that were computed by different code, packages or machines.

    Machines count only if the report shows times.
    """
    has_times = any(metric(name).timed for part in parts_of(records) for name in part.shown_metrics)
    for noun, read in ORIGINS.items():
        # The machine changes only times, which this report does not show.
        if noun == MACHINES and not has_times:
            continue
        origins = [[read(row.provenance) for row in rows] for rows in finished_by_variant(records) if rows]
        values = Counter(value for variant in origins for value in variant if value)
        if len(values) > 1 and len(set(map(frozenset, origins))) > 1:
            yield f"{len(values)} {noun}: {count_words(values)}", range(len(records.variants))


def check_changes(records: StudyRecords) -> Iterator[Observation]:
    """Find changes of metrics, thresholds, pairing, blocks and seeds after runs had finished."""
    yield from ((change, range(len(records.variants))) for change in late_changes(records))


def finished_by_variant(records: StudyRecords) -> list[list[Row]]:
    return [[row for row in rows if row.done] for rows in records.by_variant]


def finished_runs(records: StudyRecords) -> list[Row]:
    return [row for rows in finished_by_variant(records) for row in rows]


def count_words(values: Counter[str]) -> str:
    """Return `a (3), b (1)`."""
    return ", ".join(f"{value} ({count})" for value, count in values.items())


class Rule(NamedTuple):
    """A check of the records with its conclusion and remedy.

    Args:
        check: Yields each fact that it finds, with its variants.
        conclusion: What a reader should conclude from such a fact.
        settle: What would settle the question.
        is_general: Whether the rule applies to every program, and not only to the recursive models.
    """

    check: Callable[[StudyRecords], Iterator[Observation]]
    conclusion: str
    settle: str
    is_general: bool = False


RULES = {  # in the order of the report
    "selection on the test set": Rule(
        check_selection,
        "These scores are optimistic: the best of many epochs or settings on the test set is partly luck.",
        "Select on a validation split (train.selection=validation; a search by `score`), and evaluate the"
        " test set once.",
    ),
    "the number of seeds": Rule(
        check_seeds,
        "A difference from a single run may be luck, because the variance between seeds is unknown.",
        "Run three seeds or more: the study's command with --seeds 3.",
        is_general=True,
    ),
    "missing runs": Rule(
        check_missing_runs,
        "The runs that have a result may be the lucky ones, so that means are too good.",
        "Repeat the study's command, which runs failed and unfinished runs again. State how many runs of each"
        " variant diverged.",
        is_general=True,
    ),
    "equal training FLOPs": Rule(
        check_flops,
        "A better score of the more expensive variant may come from its compute and not from its idea.",
        "Add a variant with the FLOPs of the others, as in studies/vitrm_fairness.py, or a table with the"
        " costs.",
    ),
    "data checksums": Rule(
        check_data,
        "These runs cannot be compared, because they were not trained and scored on the same data.",
        "Find out which copy is correct, and rerun the other runs in another results folder (--results).",
    ),
    "noted repeats of data": Rule(
        check_repeats,
        "A network may have memorized a test item that is also a training item. An item with several labels"
        " has no correct answer.",
        "Remove the copies from one split, and rerun in another results folder (--results).",
    ),
    "commits, versions and machines": Rule(
        check_origins,
        "A difference between rows may come from another version of the code or packages. A difference in"
        " time may come from the machine.",
        "Check that the change does not affect the runs (git diff), or rerun everything in another results"
        " folder (--results).",
        is_general=True,
    ),
    "descriptions before the runs": Rule(
        check_changes,
        "Was the metric described, and were the seeds chosen, before the runs? A later choice may have been"
        " made for its verdict.",
        "Restore the description or the seeds, or rerun everything in another results folder (--results).",
        is_general=True,
    ),
}


# --- report


@dataclass(frozen=True)
class Finding:
    """A fact that a rule found. `where` has the labels of its variants; it is empty if all are meant.

    The field names are the keys of `recstudy audit --json`.
    """

    rule: str
    what: str
    conclusion: str
    settle: str
    where: list[str]

    @property
    def place(self) -> str:
        """The first three variants and the number of others, for print."""
        return join_labels(self.where) or "every variant"


@dataclass(frozen=True)
class AuditReport:
    """The findings, the names of the checked rules, and the contradictions of each paper by a title."""

    findings: list[Finding]
    checked: list[str]
    contradictions: dict[str, list[Contradiction]]


def audit(records: StudyRecords) -> AuditReport:
    """Check every rule that applies to a study, and look up the contradictions of its papers."""
    rules = {name: rule for name, rule in RULES.items() if rule.is_general or not records.is_own}
    findings = []
    for name, rule in rules.items():
        for fact, indices in rule.check(records):
            labels = [variant.label for index, variant in enumerate(records.variants) if index in indices]
            is_everywhere = len(labels) == len(records.variants)
            findings.append(
                Finding(name, fact, rule.conclusion, rule.settle, [] if is_everywhere else labels)
            )
    parts = [part for part in parts_of(records) if isinstance(part, BesidePublished)]
    paper_ids = {target.source.partition(" ")[0] for part in parts for target in part.targets}
    by_title: dict[str, list[Contradiction]] = {}
    for entry in contradictions():
        if entry.paper in paper_ids:
            title = f"Known inconsistencies in the {papers()[entry.paper]['name']} paper"
            by_title.setdefault(title, []).append(entry)
    return AuditReport(findings, [*rules], by_title)


def audit_html(records: StudyRecords) -> str:
    """Return the audit as HTML. The page of the preset `paper` also has the contradictions, folded."""
    return markup("audit", audit(records), records.plan.preset == PAPER, template="study")


def audit_lines(report: AuditReport) -> Iterator[Text]:
    """Return a paragraph per finding and a line per contradiction, for a terminal."""
    if not report.findings:
        yield Text(f"No questions. Checked: {', '.join(report.checked)}.")
    for finding in report.findings:
        yield Text(f"Question: {finding.what}", style="bold")
        yield Text(f"    Variants: {finding.place}")
        yield Text(f"    {finding.conclusion}")
        yield Text(f"    What would settle it: {finding.settle}")
    for title, entries in report.contradictions.items():
        yield Text(f"{title}:")
        yield from (Text("    {}; but: {}. Here: {}.".format(*entry.row)) for entry in entries)


def show_audits(
    studies: Sequence[tuple[Results, str, str]], as_json: bool, console: Console, trust: bool = False
) -> None:
    """Print the audit of each study (results folder, name, preset).

    Raises:
        StorageError: Some studies are damaged. The others are printed before.
    """
    readable, damages = load_studies(studies, trust)
    entries = []
    for (name, preset), records in readable.items():
        with records.study_modules():
            report = audit(records)
        entries.append(
            {"study": name, "preset": preset, **asdict(report), "not_here": missing_modules(records)}
        )
        if not as_json:
            title = f"{name} ({preset}): {plural(len(report.findings), 'question')}"
            heading = Text(title, style="bold underline")
            for line in (heading, *map(Text, missing_modules(records)), *audit_lines(report)):
                console.print(line, soft_wrap=True)
    if as_json:
        print(json.dumps(entries, indent=1))
    if damages:
        raise StorageError(" ".join(map(str, damages)))
