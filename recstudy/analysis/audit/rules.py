"""What a rule of the audit is: it finds what a careful reviewer would ask, why it matters, and what would settle it.

Rules are pure functions of the records. None of them refuses anything: a study may have its reasons, and then its text should
give them.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from recstudy.analysis.caveats import some
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.evidence import mean_of
from recstudy.metrics import METRICS
from recstudy.report.names import metric, plain
from recstudy.terminal import flops

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
    """What a check found in these variants (None: in all; no variant: nothing was found), or in these rows of a table."""

    what: str
    variants: Iterable[int] | None = None
    command: str = ""
    note: bool = False
    rows: tuple[str, ...] = ()
    settle: str = ""
    why: str = ""


Check = Callable[[StudyRecords], Iterator[Observation]]
RULES: dict[str, Callable[[StudyRecords], Iterator[Finding]]] = {}  # by what is checked, in the words and order of the report


def rule(name: str, why: str, settle: str = "", *known: str) -> Callable[[Check], None]:
    """Add a check to `RULES`, with why its findings matter and what would settle them, unless they say otherwise themselves."""

    def add(check: Check) -> None:
        def findings(records: StudyRecords) -> Iterator[Finding]:
            for found in check(records):
                everywhere = set(range(len(records.variants)))  # none before the first trial of a search
                chosen = everywhere if found.variants is None else set(found.variants)
                if chosen or found.variants is None:
                    labels = [records.variants[index].label for index in sorted(chosen)] if chosen != everywhere else []
                    severity: Severity = "note" if found.note else "question"
                    texts = found.what, found.why or why, found.settle or settle
                    yield Finding(*texts, found.rows or tuple(labels), found.command, severity, known)

        RULES[name] = findings

    return add


def compared(records: StudyRecords) -> list[list[int]]:
    """Group the variants that compare: two or more on the same data, none that is told the answer, no trials of a search."""
    groups: dict[str, list[int]] = {}
    for index, variant in enumerate(records.variants if records.plan.search is None else ()):
        if not records.leaks(index):
            groups.setdefault(variant.data, []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def done(records: StudyRecords, variants: Iterable[int] | None = None) -> list[Row]:
    """Return the finished runs, of these variants or of all."""
    if variants is None:
        return records.once("done", lambda: done(records, range(len(records.variants))))
    return [run for index in variants for run in records.by_variant[index] if run.done]


def levels(records: StudyRecords, variants: Iterable[int], field: str) -> list[object]:
    """Return the variants' values of a config field."""
    return [records.configs[index].get(field) for index in variants]


def command(records: StudyRecords, *flags: str) -> str:
    """Return the command that the plan records, with these flags, each before its value, in place of those it has."""
    try:
        words, given = shlex.split(records.plan.command), flags[::2]
    except ValueError:  # of a plan that somebody has changed
        return records.plan.command
    kept = [
        word for at, word in enumerate(words) if word.partition("=")[0] not in given and (not at or words[at - 1] not in given)
    ]
    return shlex.join([*kept, *flags])


def setting(records: StudyRecords, field: str, value: str) -> str:
    """Return the study's own command with one setting changed; none where the study varies it."""
    return "" if field in records.plan.axes.values() else f"{records.plan.command} --set {field}={value}"


def counted(values: Sequence[object]) -> str:
    """Count each value, such as `1,000 (3), 300 (6)`."""
    words = {value: f"{value:,}" if type(value) is int else str(value) for value in values}
    return ", ".join(f"{word} ({values.count(value)})" for value, word in words.items())


# -------------------------------------------------------------------------------------------------------------- a study's design
SIDES = {"digits": 8, "mnist": 28, "cifar10": 32, "cifar100": 32}  # pixels a side of images whose config does not state it
SMALL = 32  # pixels a side: the ImageNet stem leaves an 8x8 map of them to the first block
UNEQUAL = 1.5  # times the least training FLOPs, from which on a reader should know of it
COSTS = ("train_pflop", "train_gflops", "gflops")
SCORED = {"metrics": "cut into words", "rate": "judged", "text": "cut into the models' tokens"}


@rule(
    "selection on the test set",
    "The best of many epochs on the test set is partly luck, so that every score is optimistic.",
    "Select on a validation split, and score the test set once.",
    "002-8",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Look at the settings, and at what the runs say of themselves."""
    planned = [index for index, config in enumerate(records.configs) if config.get("train.selection") == "test"]
    told = [row.variant for row in records.rows if row.selected.split == "test"]
    what = "The epoch is selected on the test set: validation and test are the same images"
    yield Observation(what, [*planned, *told], setting(records, "train.selection", "validation"))


@rule(
    "a search's objective",
    "Settings that were chosen on the test set have no test score left that is free of the choice.",
    "Let it go by `score`, which is that of the selection split.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    search = records.plan.search
    names = [name for name in (search.objectives if search else ()) if name in METRICS and METRICS[name].tasks]
    if names:
        yield Observation(f"The search goes by {', '.join(metric(name).title for name in names)} on the test set")


@rule(
    "the number of seeds",
    "The spread between seeds is not known, so that no difference between rows can be told from luck.",
    "Three seeds or more.",
    "004-5",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Leave out searches, which the next rule asks for fresh ones."""
    if records.plan.search is None:
        alone = [index for index, runs in enumerate(records.by_variant) if len({run.seed for run in runs}) == 1]
        yield Observation("One seed only", alone, command(records, "--seeds", "3"))


@rule(
    "fresh seeds after a search",
    "The best of many trials is also the luckiest of them (winner's curse): its score is too good.",
    "Run the best again with seeds that the search did not use, on a larger budget, which pays for these too.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    search = records.plan.search
    if search is None or any(run.seed in search.confirmed.get(run.variant, ()) and run.done for run in records.rows):
        return
    if search.confirm.best and search.confirm.seeds:
        what = "The best trials have not been run again with fresh seeds"
        yield Observation(what, command=command(records), note=True, settle="Finish the search, which ends with them.")
        return
    amount, _, unit = search.budget.partition(" ")
    budget = f"{2 * float(amount):g}" + {"hour": "h", "hours": "h", "GPU hours": "gpuh", "GPU hour": "gpuh"}.get(unit, "")
    again = command(records, "--seeds", "3", "--budget", budget)
    yield Observation("No fresh seeds are planned for the best trials", command=again)


@rule(
    "equal epochs",
    "A row that saw its images more often may owe its score to that alone.",
    "A variant of each model with the epochs of the others, as in studies/vitrm_fairness.py.",
    "002-11",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find models that compare and were trained for different numbers of epochs, and that is not the question."""
    for group in compared(records) if "train.epochs" not in records.plan.axes.values() else ():
        planned = levels(records, group, "train.epochs")
        models: dict[str, set[object]] = {}
        for index, count in zip(group, planned, strict=True):
            models.setdefault(records.variants[index].model, set()).add(count)
        if len(set(planned)) > 1 and (len(models) == 1 or not set.intersection(*models.values())):
            yield Observation(f"Unequal epochs on {records.variants[group[0]].data}: {counted(planned)}", group)


@rule(
    "equal training FLOPs",
    "A row that cost more may owe its score to the compute and not to the idea.",
    "A variant with as many FLOPs as the others, as in studies/vitrm_fairness.py, or the score drawn against the FLOPs.",
    "002-11",
)
def _(records: StudyRecords) -> Iterator[Observation]:
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
        yield Observation(
            f"Unequal training FLOPs on {records.variants[least].data}: {ends}",
            note=any(name in COSTS for part in records.parts for name in part.shows),
            rows=(records.variants[least].label, records.variants[most].label),
        )


@rule(
    "learning rates by batch size",
    "The rate suits one batch size best, so that what looks like sensitivity to the batch size may be one to the rate.",
    "A learning rate tuned for each batch size on the selection split, as in studies/vitrm_fairness.py.",
    "002-10",
)
def _(records: StudyRecords) -> Iterator[Observation]:
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


@rule(
    "handicapped baselines",
    "Stride and pooling leave its blocks a 16th of the positions, and another model may beat it for that reason alone.",
    'The same network with ResNet(stem="cifar"), as in studies/vitrm_fairness.py.',
    "002-9",
)
def _(records: StudyRecords) -> Iterator[Observation]:
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


@rule(
    "one implementation of each metric",
    "Scores of different implementations may differ by more than models do.",
    "Score every row by the same one.",
    "003-3",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find captions that were decoded or cut into words in more than one way, so that their scores are not one metric."""
    for group in compared(records):
        runs = done(records, group)
        said = {words: [run.found.tokenizer.get(key) for run in runs] for key, words in SCORED.items()}
        for words, used in (said | {"decoded": [run.found.decode for run in runs]}).items():
            known = [str(value) for value in used if value]
            if len(set(known)) > 1:
                yield Observation(f"Captions are {words} in {len(set(known))} ways: {counted(known)}", group)
