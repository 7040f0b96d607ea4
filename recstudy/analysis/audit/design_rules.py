"""What a reviewer asks of a study's design, which is known before the first run; and what a finding is made of."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from recstudy.analysis.caveats import LEAK, is_synthetic, some
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.metrics import METRICS
from recstudy.report.names import metric, plain

SIDES = {"digits": 8, "mnist": 28, "cifar10": 32, "cifar100": 32}  # pixels a side of images whose config does not state it
SMALL = 32  # pixels a side: the ImageNet stem leaves an 8x8 map of them to the first block


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
    severity: Literal["question", "note"] = "question"
    known: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Name three of the variants, and count the others."""
        return some(self.where) or "every variant"


def where(records: StudyRecords, variants: Iterable[int]) -> tuple[str, ...]:
    """Return the labels of these variants; none where they are all."""
    chosen = sorted(set(variants))
    return () if len(chosen) == len(records.variants) else tuple(records.variants[index].label for index in chosen)


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
    return ", ".join(
        f"{f'{value:,}' if type(value) is int else value} ({values.count(value)})" for value in dict.fromkeys(values)
    )


def selection(records: StudyRecords) -> Iterator[Finding]:
    """The reported epoch is the best on the test set, by the settings or by what the runs say of themselves."""
    planned = [index for index, config in enumerate(records.configs) if config.get("train.selection") == "test"]
    told = [row.variant for row in records.rows if row.selected.split == "test"]
    if planned or told:
        yield Finding(
            "The epoch is selected on the test set: validation and test are the same images",
            "The best of many epochs on the test set is partly luck, so that every score is optimistic.",
            "Select on a validation split, and score the test set once.",
            where(records, [*planned, *told]),
            setting(records, "train.selection", "validation"),
            known=("002-8",),
        )


def objectives(records: StudyRecords) -> Iterator[Finding]:
    """A search goes by a score of the test set."""
    search = records.plan.search
    names = [name for name in (search.objectives if search else ()) if name in METRICS and METRICS[name].tasks]
    if names:
        yield Finding(
            f"The search goes by {', '.join(metric(name).title for name in names)} on the test set",
            "Settings that were chosen on the test set have no test score left that is free of the choice.",
            "Let it go by `score`, which is that of the selection split.",
        )


def seeds(records: StudyRecords) -> Iterator[Finding]:
    """Variants have one seed; of a search, `curse` asks for fresh ones."""
    alone = [index for index, runs in enumerate(records.by_variant) if len({run.seed for run in runs}) == 1]
    if alone and records.plan.search is None:
        yield Finding(
            "One seed only",
            "The spread between seeds is not known, so that no difference between rows can be told from luck.",
            "Three seeds or more.",
            where(records, alone),
            command(records, "--seeds", "3"),
            known=("004-5",),
        )


def curse(records: StudyRecords) -> Iterator[Finding]:
    """The best settings of a search have no finished run with a fresh seed."""
    search = records.plan.search
    if search is None or any(run.seed in search.confirmed.get(run.variant, ()) and run.done for run in records.rows):
        return
    why = "The best of many trials is also the luckiest of them (winner's curse): its score is too good."
    if search.confirm.best and search.confirm.seeds:
        what, settle = "The best trials have not been run again with fresh seeds", "Finish the search, which ends with them."
        yield Finding(what, why, settle, command=command(records), severity="note")
        return
    amount, _, unit = search.budget.partition(" ")
    budget = f"{2 * float(amount):g}" + {"hour": "h", "hours": "h", "GPU hours": "gpuh", "GPU hour": "gpuh"}.get(unit, "")
    settle = "Run the best again with seeds that the search did not use, on a larger budget, which pays for these too."
    again = command(records, "--seeds", "3", "--budget", budget)
    yield Finding("No fresh seeds are planned for the best trials", why, settle, command=again)


def epochs(records: StudyRecords) -> Iterator[Finding]:
    """Models that compare were trained for different numbers of epochs, and that is not the question."""
    for group in compared(records) if "train.epochs" not in records.plan.axes.values() else ():
        planned = levels(records, group, "train.epochs")
        models: dict[str, set[object]] = {}
        for index, count in zip(group, planned, strict=True):
            models.setdefault(records.variants[index].model, set()).add(count)
        if len(set(planned)) > 1 and (len(models) == 1 or not set.intersection(*models.values())):
            yield Finding(
                f"Unequal epochs on {records.variants[group[0]].data}: {counted(planned)}",
                "A row that saw its images more often may owe its score to that alone.",
                "A variant of each model with the epochs of the others, as in studies/vitrm_fairness.py.",
                where(records, group),
                known=("002-11",),
            )


def rates(records: StudyRecords) -> Iterator[Finding]:
    """Models at several batch sizes have one learning rate for all of them."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, variant in enumerate(records.variants):
        groups.setdefault((variant.model, variant.data), []).append(index)
    fixed: dict[str, list[int]] = {}
    for group in groups.values():
        used = set(levels(records, group, "train.learning_rate"))
        if len(used) == 1 < len(set(levels(records, group, "train.batch_size"))):
            fixed.setdefault(plain(used.pop()), []).extend(group)
    if fixed:
        yield Finding(
            f"One learning rate ({', '.join(fixed)}) for all batch sizes",
            "The rate suits one batch size best, so that what looks like sensitivity to the batch size may be one to the rate.",
            "A learning rate tuned for each batch size on the selection split, as in studies/vitrm_fairness.py.",
            where(records, [index for group in fixed.values() for index in group]),
            known=("002-10",),
        )


def stems(records: StudyRecords) -> Iterator[Finding]:
    """Convolutional baselines have the stem of large images on small ones, and not their fair selves beside them."""
    large: dict[tuple[object, ...], tuple[int, object]] = {}
    fair = set()
    for index, config in enumerate(records.configs):
        network = config.get("model.family"), config.get("model.depth"), records.variants[index].data
        side = config.get("data.size", SIDES.get(str(config.get("data.name"))))
        if config.get("model.stem") == "cifar":
            fair.add(network)
        elif config.get("model.stem") == "imagenet" and isinstance(side, int) and side <= SMALL:
            large[*network, index] = index, side
    found = dict(place for (*network, _), place in large.items() if tuple(network) not in fair)
    if found:
        yield Finding(
            "A handicapped baseline: the ImageNet stem on images of "
            f"{', '.join(f'{side}x{side}' for side in dict.fromkeys(found.values()))} pixels",
            "Stride and pooling leave its blocks a 16th of the positions, and another model may beat it for that reason alone.",
            'The same network with ResNet(stem="cifar"), as in studies/vitrm_fairness.py.',
            where(records, found),
            known=("002-9",),
        )


def limits(records: StudyRecords) -> Iterator[Finding]:
    """A smoke run, or a part of the data only."""
    cut = {index: config["data.limit"] for index, config in enumerate(records.configs) if config.get("data.limit") is not None}
    if cut:
        most, smoke = ", ".join(f"{limit:,}" for limit in dict.fromkeys(cut.values())), records.plan.smoke
        yield Finding(
            f"{'A smoke run' if smoke else 'A part of the data only'}: at most {most} images of each split",
            "Scores on fewer images are noisier, of models that have learned from less: no published number compares with them.",
            f"{'The study without --smoke' if smoke else 'A preset'} on the whole data set.",
            where(records, cut),
            severity="question" if smoke else "note",
        )


def synthetic(records: StudyRecords) -> Iterator[Finding]:
    """Some data are generated."""
    found = [index for index in range(len(records.variants)) if is_synthetic(records, [index])]
    if found:
        yield Finding(
            "Synthetic data: generated by a program",
            "What a model learns of generated data says nothing of the real task.",
            "A preset on real data.",
            where(records, found),
        )


def leaks(records: StudyRecords) -> Iterator[Finding]:
    """A model is told what it is to say."""
    found = [index for index in range(len(records.variants)) if records.leaks(index)]
    if found:
        yield Finding(
            f"A model {LEAK}",
            "Its numbers show a fault and no model's worth; no table compares them or calls them best.",
            "The same model without the leak (model.fuselip.mode=prefix_causal).",
            where(records, found),
            severity="note",
            known=("000-7",),
        )
