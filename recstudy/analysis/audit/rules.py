"""What a careful reviewer asks of a study: first of its design, which is known before the first run, then of its runs.

Rules are pure functions of the records. None of them refuses anything: a study may have its reasons, and then its text should
give them.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import attrgetter
from statistics import median
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from recstudy.analysis.caveats import LEAK, some
from recstudy.analysis.cells import cell_of
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.registration import changes, differences, lines, post_hoc, statements
from recstudy.analysis.rows import Row
from recstudy.config import averaged_steps
from recstudy.errors import ConfigError
from recstudy.evidence import LEVEL, MOST_SEEDS, mean_of
from recstudy.metrics import METRICS
from recstudy.records.study_schema import Deviation
from recstudy.report import Claim, Table
from recstudy.report.names import metric, number, plain, plural
from recstudy.terminal import flops

SIDES = {"digits": 8, "mnist": 28, "cifar10": 32, "cifar100": 32}  # pixels a side of images whose config does not state it
SMALL = 32  # pixels a side: the ImageNet stem leaves an 8x8 map of them to the first block
UNEQUAL = 1.5  # times the least training FLOPs, from which on a reader should know of it
COSTS = ("train_pflop", "train_gflops", "gflops")
CHEAP = 10  # seeds a variant, up to which the command for them is given
SHORT = 12  # characters of a checksum that tell it apart
SCORED = {"metrics": "cut into words", "rate": "judged", "text": "cut into the models' tokens"}

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


class Found(NamedTuple):
    """What a check found in these variants (None: in all; no variant: nothing was found), or in these rows of a table."""

    what: str
    variants: Iterable[int] | None = None
    command: str = ""
    note: bool = False
    rows: tuple[str, ...] = ()
    settle: str = ""
    why: str = ""


Check = Callable[[StudyRecords], Iterator[Found]]
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
    chosen = range(len(records.variants)) if variants is None else variants
    return [run for index in chosen for run in records.by_variant[index] if run.done]


def levels(records: StudyRecords, variants: Iterable[int], field: str) -> list[object]:
    """Return the variants' values of a config field."""
    return [records.configs[index].get(field) for index in variants]


def command(records: StudyRecords, *flags: str) -> str:
    """Return the study's own command, with these flags, each before its value, in place of those it has."""
    words, given = shlex.split(records.plan.command), flags[::2]
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


@rule(
    "selection on the test set",
    "The best of many epochs on the test set is partly luck, so that every score is optimistic.",
    "Select on a validation split, and score the test set once.",
    "002-8",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """By the settings, or by what the runs say of themselves."""
    planned = [index for index, config in enumerate(records.configs) if config.get("train.selection") == "test"]
    told = [row.variant for row in records.rows if row.selected.split == "test"]
    what = "The epoch is selected on the test set: validation and test are the same images"
    yield Found(what, [*planned, *told], setting(records, "train.selection", "validation"))


@rule(
    "a search's objective",
    "Settings that were chosen on the test set have no test score left that is free of the choice.",
    "Let it go by `score`, which is that of the selection split.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    search = records.plan.search
    names = [name for name in (search.objectives if search else ()) if name in METRICS and METRICS[name].tasks]
    if names:
        yield Found(f"The search goes by {', '.join(metric(name).title for name in names)} on the test set")


@rule(
    "the number of seeds",
    "The spread between seeds is not known, so that no difference between rows can be told from luck.",
    "Three seeds or more.",
    "004-5",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """Of a search, the next rule asks for fresh ones."""
    if records.plan.search is None:
        alone = [index for index, runs in enumerate(records.by_variant) if len({run.seed for run in runs}) == 1]
        yield Found("One seed only", alone, command(records, "--seeds", "3"))


@rule(
    "fresh seeds after a search",
    "The best of many trials is also the luckiest of them (winner's curse): its score is too good.",
    "Run the best again with seeds that the search did not use, on a larger budget, which pays for these too.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    search = records.plan.search
    if search is None or any(run.seed in search.confirmed.get(run.variant, ()) and run.done for run in records.rows):
        return
    if search.confirm.best and search.confirm.seeds:
        what = "The best trials have not been run again with fresh seeds"
        yield Found(what, command=command(records), note=True, settle="Finish the search, which ends with them.")
        return
    amount, _, unit = search.budget.partition(" ")
    budget = f"{2 * float(amount):g}" + {"hour": "h", "hours": "h", "GPU hours": "gpuh", "GPU hour": "gpuh"}.get(unit, "")
    again = command(records, "--seeds", "3", "--budget", budget)
    yield Found("No fresh seeds are planned for the best trials", command=again)


@rule(
    "equal epochs",
    "A row that saw its images more often may owe its score to that alone.",
    "A variant of each model with the epochs of the others, as in studies/vitrm_fairness.py.",
    "002-11",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """Models that compare were trained for different numbers of epochs, and that is not the question."""
    for group in compared(records) if "train.epochs" not in records.plan.axes.values() else ():
        planned = levels(records, group, "train.epochs")
        models: dict[str, set[object]] = {}
        for index, count in zip(group, planned, strict=True):
            models.setdefault(records.variants[index].model, set()).add(count)
        if len(set(planned)) > 1 and (len(models) == 1 or not set.intersection(*models.values())):
            yield Found(f"Unequal epochs on {records.variants[group[0]].data}: {counted(planned)}", group)


@rule(
    "equal training FLOPs",
    "A row that cost more may owe its score to the compute and not to the idea.",
    "A variant with as many FLOPs as the others, as in studies/vitrm_fairness.py, or the score drawn against the FLOPs.",
    "002-11",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """A note where the report shows what each row was paid."""
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
        yield Found(
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
def _(records: StudyRecords) -> Iterator[Found]:
    """Models at several batch sizes have one learning rate for all of them."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, variant in enumerate(records.variants):
        groups.setdefault((variant.model, variant.data), []).append(index)
    fixed: dict[str, list[int]] = {}
    for group in groups.values():
        used = set(levels(records, group, "train.learning_rate"))
        if len(used) == 1 < len(set(levels(records, group, "train.batch_size"))):
            fixed.setdefault(plain(used.pop()), []).extend(group)
    yield Found(
        f"One learning rate ({', '.join(fixed)}) for all batch sizes", [index for group in fixed.values() for index in group]
    )


@rule(
    "handicapped baselines",
    "Stride and pooling leave its blocks a 16th of the positions, and another model may beat it for that reason alone.",
    'The same network with ResNet(stem="cifar"), as in studies/vitrm_fairness.py.',
    "002-9",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """Convolutional baselines have the stem of large images on small ones, and not their fair selves beside them."""
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
    yield Found(f"A handicapped baseline: the ImageNet stem on images of {pixels} pixels", found)


@rule(
    "leaking captions",
    "Its numbers show a fault and no model's worth; no table compares them or calls them best.",
    "The same model without the leak (model.fuselip.mode=prefix_causal).",
    "000-7",
)
def _(records: StudyRecords) -> Iterator[Found]:
    yield Found(f"A model {LEAK}", filter(records.leaks, range(len(records.variants))), note=True)


@rule(
    "one implementation of each metric",
    "Scores of different implementations may differ by more than models do.",
    "Score every row by the same one.",
    "003-3",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """Captions were decoded or cut into words in more than one way, so that their scores are not one metric."""
    for group in compared(records):
        runs = done(records, group)
        said = {words: [run.found.tokenizer.get(key) for run in runs] for key, words in SCORED.items()}
        for words, used in (said | {"decoded": [run.found.decode for run in runs]}).items():
            known = [str(value) for value in used if value]
            if len(set(known)) > 1:
                yield Found(f"Captions are {words} in {len(set(known))} ways: {counted(known)}", group)


@rule("synthetic data", "What a model learns of generated data says nothing of the real task.", "A preset on real data.")
def _(records: StudyRecords) -> Iterator[Found]:
    yield Found("Synthetic data: generated by a program", records.synthetic)


@rule(
    "whole data sets",
    "Scores on fewer images are noisier, of models that have learned from less: no published number compares with them.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    cut = {index: config["data.limit"] for index, config in enumerate(records.configs) if config.get("data.limit") is not None}
    most, smoke = ", ".join(f"{limit:,}" for limit in dict.fromkeys(cut.values())), records.plan.smoke
    what = f"{'A smoke run' if smoke else 'A part of the data only'}: at most {most} images of each split"
    settle = f"{'The study without --smoke' if smoke else 'A preset'} on the whole data set."
    yield Found(what, cut, note=not smoke, settle=settle)


@rule(
    "data checksums",
    "These runs were not trained and scored on the same images.",
    "Find out which copy is right, and run the others again with another --results.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """One data set has the same settings, and not the same images."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for run in done(records):
        config = records.configs[run.variant]
        own = run.seed if config.get("data.drawing") == "per seed" else None
        settings = [f"{path}={config[path]}" for path in sorted(config) if path.startswith("data.")]
        groups.setdefault((own, *settings), []).append(run)
    for runs in groups.values():
        found = [run.provenance.data_checksum[:SHORT] for run in runs if run.provenance.data_checksum]
        if len(set(found)) > 1:
            what = f"{len(set(found))} different data checksums of {records.variants[runs[0].variant].data}: {counted(found)}"
            yield Found(what, {run.variant for run in runs})


@rule(
    "claims stated before the runs",
    "What is stated with the numbers in sight may be stated because of them.",
    "Fresh seeds, which nobody has seen, decide it; `recstudy register` shows what was stated before them.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """Claims and deviations were stated after their runs, or something is not as it was registered."""
    said = [
        f"the claim {one.text!r}" if isinstance(one, Claim) else f"the deviation {one.field!r}"
        for one in statements(records.plan)
        if isinstance(one, Claim | Deviation) and post_hoc(records, one)
    ]
    if said:
        yield Found(f"Stated after the first run that is judged by it had finished: {'; '.join(said)}")
    known = records.plan.registered
    if known and (changed := differences(records.plan, known)):
        yield Found(
            f"Not as it was registered on {known.date[:10]}: {'; '.join(changed)}",
            why="Whoever read what was registered expects something else.",
            settle="Say why in the study's text, or run it as it was registered.",
        )


@rule(
    "commits and versions",
    "A difference between rows may be one between two versions of the code.",
    "Run all of it again by one version, with another --results, or say in the text what changed.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """A question where the rows differ in it. Commits are none where digests tell what computed each run: the next rule asks."""
    runs = done(records)
    digested = all(run.provenance.code and records.variants[run.variant].code for run in runs)
    for what, told, asked in (
        ("commits of the code", attrgetter("made_by"), digested),
        ("commits of recstudy", attrgetter("recstudy"), digested),
        ("sets of package versions", attrgetter("packages"), False),
    ):
        named = [found for run in runs if (found := told(run.provenance))]
        if len(set(named)) > 1:
            made = {frozenset(told(run.provenance) for run in done(records, [index])) for index in range(len(records.variants))}
            differ = len(made - {frozenset()}) > 1
            yield Found(f"{len(set(named))} {what}: {counted(named)}", note=asked or not differ)


@rule(
    "code and data since",
    "The same command would not give these numbers today, and rows of before and after the change do not compare.",
    "Run them again; what they had is kept.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """Finished runs were computed by other code, or on other images, than the study's last command has found."""
    found = changes(records)
    changed = {change.run_id for change in found}
    for line in lines(found):
        variants = {row.variant for row in records.rows if row.id in changed}
        yield Found(line, variants, command(records, "--rerun", "changed"))


@rule(
    "uncommitted changes",
    "Nobody can get that code again, so that nobody can run them again.",
    "Commit, and run them again with another --results.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    dirty = [run.variant for run in done(records) if run.provenance.dirty]
    yield Found(f"{plural(len(dirty), 'run')} made from uncommitted changes", dirty)
    unknown = [run.variant for run in done(records) if not run.provenance.made_by]
    yield Found(f"{plural(len(unknown), 'run')} made by code of no known commit", unknown)


@rule(
    "machines",
    "Times of different machines do not compare, and neither do the last digits of scores.",
    "Measure times on one kind of machine.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """A question where the report shows times."""
    kinds = [run.provenance.hardware.gpu or run.provenance.hardware.cpu for run in done(records)]
    if len(set(kinds)) > 1:
        timed = any(metric(name).timed for part in records.parts for name in part.shows)
        yield Found(f"{len(set(kinds))} kinds of machine: {counted(kinds)}", note=not timed)


@rule(
    "the span of the moving average",
    "What is scored is then close to the random weights at the start.",
    "A smaller train.ema_decay, 0 for none, or more epochs.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """It looks back to before the first step of the optimiser, as far as that is known from the images that a run was shown."""
    spans: dict[int, float] = {}
    for run in done(records):
        config = records.configs[run.variant]
        images = (run.value("images_per_second") or 0.0) * (run.value("seconds") or 0.0)
        one = not config.get("train.detach_carry", True) or config.get("train.halting") == "sample"
        used = 1.0 if one else float(run.value("supervision_steps_used") or 1.0)
        batch, span = config.get("train.batch_size"), averaged_steps(float(config.get("train.ema_decay") or 0.0))
        if images and batch and images * used / float(batch) < span:
            spans[run.variant] = span
    told = ", ".join(dict.fromkeys(f"{span:,.0f}" for _, span in sorted(spans.items())))
    what = f"The moving average of the weights spans {told} steps, more than the run makes"
    yield Found(what, spans, setting(records, "train.ema_decay", "0"))


@rule(
    "failed runs left out",
    "The seeds that are left may be the lucky ones: a variant that fails on some looks better than it is.",
    "Fix the cause (see what failed) and rerun; diverged runs are a result, which the text should state.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """Of a search's trials, some may well diverge."""
    ends = ("failed",) if records.plan.search is not None else ("failed", "diverged")
    lost = [row for row in records.rows if row.status in ends]
    what = f"{plural(len(lost), 'run')} left out of every mean: {counted([row.error_class or 'diverged' for row in lost])}"
    yield Found(what, {row.variant for row in lost}, command(records))


@rule(
    "unfinished runs",
    "Rows with fewer seeds than others have wider intervals, and may change.",
    "The same command finishes them.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """A search stops some of its own accord."""
    ends = ("not run", "unfinished", *(() if records.plan.search is not None else ("stopped",)))
    left = [row.variant for row in records.rows if row.status in ends]
    yield Found(f"{plural(len(left), 'run')} of {len(records.rows):,} not finished", left, command(records), note=True)


@rule(
    "verdicts from one run",
    "One run has no interval, so that nothing can be said about whether the value was reproduced.",
    "The runs that are still to do.",
)
def _(records: StudyRecords) -> Iterator[Found]:
    """Published values stand beside one run, where more are planned: the rule of seeds asks where they are not."""
    alone: dict[str, None] = {}
    for part in records.parts:
        try:
            rows = part.cells_once(records).rows if isinstance(part, Table) and part.targets else ()
        except ConfigError:
            continue  # said in its place in the report
        for row in rows:
            for cell in row.cells:
                comparable = any(not placed.reasons for placed in cell.placed)
                if comparable and cell.n == 1 < cell.expected and not metric(cell.metric).computed:
                    alone[row.label] = None
    if alone:
        what = "Published values stand beside a single run"
        yield Found(what, command=command(records), note=True, rows=tuple(alone))


@rule("intervals against differences", "Another draw of the seeds may well put the rows in another order.")
def _(records: StudyRecords) -> Iterator[Found]:
    """Intervals are wider than the means are apart, and the seeds which are planned will not make them narrow enough."""
    names = dict.fromkeys(name for part in records.parts for name in part.shows)
    scores = [name for name in names if name in METRICS and METRICS[name].tasks and METRICS[name].better]
    for group in compared(records):
        blurred = [one for name in scores if (one := _blurred(records, group, name))]
        found = [one for one in blurred if one[1] is None or one[1] > len(records.plan.seeds)]
        if found:
            (words, enough), more = found[0], f", and {len(found) - 1} more" if found[1:] else ""
            needed = f"About {enough:,}" if enough else f"More than {MOST_SEEDS:,}"
            yield Found(
                f"Intervals wider than the means are apart on {records.variants[group[0]].data}: {words}{more}",
                group,
                command(records, "--seeds", str(enough)) if enough and enough <= CHEAP else "",
                settle=f"{needed} seeds a variant, by the spread of these, would make them as narrow as that; "
                "else the text says that no difference is shown.",
            )


def _blurred(records: StudyRecords, group: Sequence[int], name: str) -> tuple[str, int | None] | None:
    """Say how wide the median interval of a score is and how far apart its means are, where that is less; and after how many
    seeds of every variant it would be no wider, by the spread that the intervals go by (None: over `MOST_SEEDS`)."""
    cells = [cell_of(records, [index], name, records.by_variant[index]) for index in group]
    widths = [cell.high - cell.low for cell in cells if cell.high is not None and cell.low is not None]
    means = [cell.value for cell in cells if cell.value is not None]
    if len(widths) < 2 or (width := median(widths)) <= (apart := max(means) - min(means)):
        return None
    n = " to ".join(dict.fromkeys(str(end([cell.n for cell in cells if cell.n])) for end in (min, max)))
    words = f"{metric(name).title}, {number(name, width)} wide (n={n}), all means within {number(name, apart)}"
    estimates = [(cell.estimate, cell.n) for cell in cells]
    known = [(found.error * sqrt(n), found.df - n) for found, n in estimates if found.error and found.df]
    count = np.arange(2, MOST_SEEDS + 1)
    later = np.median([2 * stdtrit(df + count, (1 + LEVEL) / 2) * s / np.sqrt(count) for s, df in known], axis=0)
    enough = count[later <= apart] if known else count[:0]
    return words, int(enough[0]) if len(enough) else None
