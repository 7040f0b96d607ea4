"""The rules of the audit: what a careful reviewer would ask, why it matters, and what would settle it.

A check is a pure function of the records, and `RULES` has the words of its findings. No rule repeats a caveat that the page has:
how captions were decoded, what changed since the runs, what was registered, which seeds of a search are fresh. None refuses
anything: a study may have its reasons, and then its text should give them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple

from recstudy.evidence import mean_of
from recstudy.programs.metric import METRICS
from recstudy.programs.settings import averaged_steps
from recstudy.records.schema import Provenance
from recstudy.records.study_schema import Deviation
from recstudy.report.caveats import some
from recstudy.report.claims import Claim
from recstudy.report.names import metric, plain
from recstudy.report.registration import post_hoc, statements, words_of
from recstudy.report.rows import Row
from recstudy.report.study_records import StudyRecords
from recstudy.terminal import flops

SIDES = {"digits": 8, "mnist": 28, "cifar10": 32, "cifar100": 32}  # pixels a side of images whose config does not state it
SMALL = 32  # pixels a side: the ImageNet stem leaves an 8x8 map of them to the first block
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
Severity = Literal["question", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that a careful reviewer would ask (`question`), or ought to know (`note`).

    `where`: the variants that it is about, none of them where it is about all. `why`: one sentence. `settle`: what would
    settle it, and `command`, a line to type, where there is one. `known`: ids of the papers' contradictions on the same thing.
    """

    what: str
    why: str
    settle: str
    where: tuple[str, ...] = ()
    command: str = ""
    severity: Severity = "question"
    known: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Name three of the variants, and count the others."""
        return some(self.where) or "every variant"


class Observation(NamedTuple):
    """What a check found in these variants (None: in all; no variant: nothing was found)."""

    what: str
    variants: Iterable[int] | None = None
    command: str = ""
    severity: Severity = "question"


class Rule(NamedTuple):
    """A check, with why its findings matter, what would settle them, and the papers' contradictions on the same thing."""

    check: Callable[[StudyRecords], Iterator[Observation]]
    why: str
    settle: str
    known: tuple[str, ...] = ()
    general: bool = False  # it asks of any program, and not of the recursive models alone

    def findings(self, records: StudyRecords) -> Iterator[Finding]:
        everywhere = set(range(len(records.variants)))  # none before the first trial of a search
        for observation in self.check(records):
            variants = everywhere if observation.variants is None else set(observation.variants)
            if variants or observation.variants is None:
                labels = () if variants == everywhere else tuple(records.variants[index].label for index in sorted(variants))
                what, _, command, severity = observation
                yield Finding(what, self.why, self.settle, labels, command, severity, self.known)


def compared(records: StudyRecords) -> list[list[int]]:
    """Group the variants that compare: two or more on the same data, none that is told the answer, no trials of a search."""
    groups: dict[str, list[int]] = {}
    for index, variant in enumerate(records.variants if records.plan.search is None else ()):
        if not records.leaks(index):
            groups.setdefault(variant.data, []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def done(records: StudyRecords, variants: Iterable[int]) -> list[Row]:
    """Return the finished runs of these variants."""
    return [run for index in variants for run in records.by_variant[index] if run.done]


def levels(records: StudyRecords, variants: Iterable[int], field: str) -> list[object]:
    """Return the variants' values of a config field."""
    return [records.configs[index].get(field) for index in variants]


def setting(records: StudyRecords, field: str, value: str) -> str:
    """Return the study's own command with one setting changed; none where the study varies it."""
    return "" if field in records.plan.axes.values() else f"{records.plan.command} --set {field}={value}"


def counted(values: Sequence[object]) -> str:
    """Count each value, such as `1,000 (3), 300 (6)`."""
    words = {value: f"{value:,}" if type(value) is int else str(value) for value in values}
    return ", ".join(f"{word} ({values.count(value)})" for value, word in words.items())


def check_selection(records: StudyRecords) -> Iterator[Observation]:
    """Look at the settings, and at what the runs say of themselves."""
    planned = [index for index, config in enumerate(records.configs) if config.get("train.selection") == "test"]
    told = [row.variant for row in records.rows if row.selected.split == "test"]
    what = "The epoch is selected on the test set: validation and test are the same images"
    yield Observation(what, [*planned, *told], setting(records, "train.selection", "validation"))


def check_objective(records: StudyRecords) -> Iterator[Observation]:
    search = records.plan.search
    names = [name for name in (search.objectives if search else ()) if name in METRICS and METRICS[name].tasks]
    if names:
        yield Observation(f"The search goes by {', '.join(metric(name).title for name in names)} on the test set")


def check_seeds(records: StudyRecords) -> Iterator[Observation]:
    """Leave out searches, whose table of the best says which seeds are fresh."""
    if records.plan.search is None:
        alone = [index for index, runs in enumerate(records.by_variant) if len({run.seed for run in runs}) == 1]
        yield Observation("One seed only", alone)


def check_epochs(records: StudyRecords) -> Iterator[Observation]:
    """Find models that compare and were trained for different numbers of epochs, and that is not the question."""
    for group in compared(records) if "train.epochs" not in records.plan.axes.values() else ():
        planned = levels(records, group, "train.epochs")
        models: dict[str, set[object]] = {}
        for index, count in zip(group, planned, strict=True):
            models.setdefault(records.variants[index].model, set()).add(count)
        if len(set(planned)) > 1 and (len(models) == 1 or not set.intersection(*models.values())):
            yield Observation(f"Unequal epochs on {records.variants[group[0]].data}: {counted(planned)}", group)


def check_flops(records: StudyRecords) -> Iterator[Observation]:
    """Ask; or note it where the report shows what each row was paid."""
    for group in compared(records):
        paid = {}
        for index in group:
            known = [run.number("train_pflop") for run in done(records, [index]) if run.value("train_pflop")]
            if known and (cost := mean_of(known)):
                paid[index] = cost
        if len(paid) < 2 or max(paid.values()) < UNEQUAL * min(paid.values()):
            continue
        least, most = min(paid, key=lambda index: paid[index]), max(paid, key=lambda index: paid[index])
        ends = f"{flops(paid[least])} to {flops(paid[most])} a run"
        severity: Severity = "note" if any(name in COSTS for part in records.parts for name in part.shows) else "question"
        what = f"Unequal training FLOPs on {records.variants[least].data}: {ends}"
        yield Observation(what, (least, most), severity=severity)


def check_learning_rates(records: StudyRecords) -> Iterator[Observation]:
    """Find models at several batch sizes with one learning rate for all of them."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, variant in enumerate(records.variants):
        groups.setdefault((variant.model, variant.data), []).append(index)
    fixed: dict[str, list[int]] = {}
    for group in groups.values():
        used = set(levels(records, group, "train.learning_rate"))
        if len(used) == 1 < len(set(levels(records, group, "train.batch_size"))):
            fixed.setdefault(plain(used.pop()), []).extend(group)
    yield Observation(
        f"One learning rate ({', '.join(fixed)}) for all batch sizes", [index for group in fixed.values() for index in group]
    )


def check_baselines(records: StudyRecords) -> Iterator[Observation]:
    """Find convolutional baselines with the stem of large images on small ones, and not their fair selves beside them."""
    large: dict[int, tuple[tuple[object, ...], int]] = {}
    fair = set()
    for index, config in enumerate(records.configs):
        network = config.get("model.family"), config.get("model.depth"), records.variants[index].data
        side = config.get("data.size", SIDES.get(str(config.get("data.name"))))
        if config.get("model.stem") == "cifar":
            fair.add(network)
        elif config.get("model.stem") == "imagenet" and isinstance(side, int) and side <= SMALL:
            large[index] = network, side
    found = {index: f"{side}x{side}" for index, (network, side) in large.items() if network not in fair}
    pixels = ", ".join(dict.fromkeys(found.values()))
    yield Observation(f"A handicapped baseline: the ImageNet stem on images of {pixels} pixels", found)


def check_data(records: StudyRecords) -> Iterator[Observation]:
    """Find data sets of the same settings, and not the same images."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for run in done(records, range(len(records.variants))):
        own = run.seed if records.configs[run.variant].get("data.drawing") == "per seed" else None
        groups.setdefault((own, records.data_settings[run.variant]), []).append(run)
    for runs in groups.values():
        found = [run.provenance.data_checksum[:SHORT] for run in runs if run.provenance.data_checksum]
        if len(set(found)) > 1:
            what = f"{len(set(found))} different data checksums of {records.variants[runs[0].variant].data}: {counted(found)}"
            yield Observation(what, {run.variant for run in runs})


def check_statements(records: StudyRecords) -> Iterator[Observation]:
    """Find claims, deviations and thresholds stated after their runs."""
    late = [one for one in statements(records.plan) if isinstance(one, Claim | Deviation | tuple) and post_hoc(records, one)]
    if late:
        yield Observation(f"Stated after the first run that is judged by it had finished: {'; '.join(map(words_of, late))}")


def check_origins(records: StudyRecords) -> Iterator[Observation]:
    """Find rows that differ in what computed them; the machine counts if the report shows times."""
    timed = any(metric(name).timed for part in records.parts for name in part.shows)
    rows = [[run.provenance for run in done(records, [index])] for index in range(len(records.variants))]
    for what, read in ORIGINS.items():
        origins = [[read(provenance) for provenance in row] for row in rows if row]
        known = [origin for row in origins for origin in row if origin]
        if len(set(known)) > 1 and len(set(map(frozenset, origins))) > 1 and (timed or what != MACHINES):
            yield Observation(f"{len(set(known))} {what}: {counted(known)}")


def check_average(records: StudyRecords) -> Iterator[Observation]:
    """Find averages that look back to before the first step of the optimiser, as far as the images that a run was shown tell."""
    spans: dict[int, float] = {}
    for run in done(records, range(len(records.variants))):
        config = records.configs[run.variant]
        images = (run.value("images_per_second") or 0.0) * (run.value("seconds") or 0.0)
        one = not config.get("train.detach_carry", True) or config.get("train.halting") == "sample"
        used = 1.0 if one else float(run.value("supervision_steps_used") or 1.0)
        batch, span = config.get("train.batch_size"), averaged_steps(float(config.get("train.ema_decay") or 0.0))
        if images and batch and images * used / float(batch) < span:
            spans[run.variant] = span
    told = ", ".join(dict.fromkeys(f"{span:,.0f}" for _, span in sorted(spans.items())))
    what = f"The moving average of the weights spans {told} steps, more than the run makes"
    yield Observation(what, spans, setting(records, "train.ema_decay", "0"))


RULES = {  # by what is checked, in the words and order of the report
    "selection on the test set": Rule(
        check_selection,
        "The best of many epochs on the test set is partly luck, so that every score is optimistic.",
        "Select on a validation split, and score the test set once.",
        ("002-8",),
    ),
    "a search's objective": Rule(
        check_objective,
        "Settings that were chosen on the test set have no test score left that is free of the choice.",
        "Let it go by `score`, which is that of the selection split.",
    ),
    "the number of seeds": Rule(
        check_seeds,
        "The spread between seeds is not known, so that no difference between rows can be told from luck.",
        "Three seeds or more: the study's command with --seeds 3.",
        ("004-5",),
        general=True,
    ),
    "equal epochs": Rule(
        check_epochs,
        "A row that saw its images more often may owe its score to that alone.",
        "A variant of each model with the epochs of the others, as in studies/vitrm_fairness.py.",
        ("002-11",),
    ),
    "equal training FLOPs": Rule(
        check_flops,
        "A row that cost more may owe its score to the compute and not to the idea.",
        "A variant with as many FLOPs as the others, as in studies/vitrm_fairness.py, or the score drawn against the FLOPs.",
        ("002-11",),
    ),
    "learning rates by batch size": Rule(
        check_learning_rates,
        "The rate suits one batch size best, so that what looks like sensitivity to the batch size may be one to the rate.",
        "A learning rate tuned for each batch size on the selection split, as in studies/vitrm_fairness.py.",
        ("002-10",),
    ),
    "handicapped baselines": Rule(
        check_baselines,
        "Stride and pooling leave its blocks a 16th of the positions, and another model may beat it for that reason alone.",
        'The same network with ResNet(stem="cifar"), as in studies/vitrm_fairness.py.',
        ("002-9",),
    ),
    "data checksums": Rule(
        check_data,
        "These runs were not trained and scored on the same images.",
        "Find out which copy is right, and run the others again with another --results.",
    ),
    "claims stated before the runs": Rule(
        check_statements,
        "What is stated with the numbers in sight may be stated because of them.",
        "Fresh seeds, which nobody has seen, decide it; `recstudy register` shows what was stated before them.",
        general=True,
    ),
    "commits, versions and machines": Rule(
        check_origins,
        "A difference between rows may be one between two versions of the code, and one of times between two machines.",
        "Run all of it again by one version on one machine, with another --results, or say in the text what changed.",
        general=True,
    ),
    "the span of the moving average": Rule(
        check_average,
        "What is scored is then close to the random weights at the start.",
        "A smaller train.ema_decay, 0 for none, or more epochs.",
    ),
}
