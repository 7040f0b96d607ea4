"""What a reviewer asks of a study's design: the part of the audit that is known before the first run."""

from collections.abc import Iterator, Mapping, Sequence

from recstudy.analysis.audit.findings import Finding, command, counted, setting, swept, tasks, where
from recstudy.analysis.frame import StudyRecords
from recstudy.metrics import METRICS
from recstudy.report.names import metric, plain

# Sides of the images whose config does not state one, in pixels.
SIDES = {"digits": 8, "mnist": 28, "cifar10": 32, "cifar100": 32}
SMALL = 32  # pixels a side: the ImageNet stem leaves an 8x8 map of them to the first block


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
    """Variants with one seed; of a search, `curse` asks for fresh ones."""
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
    """A search whose best settings have no finished run with a fresh seed."""
    search = records.plan.search
    if search is None or _confirmed(records, search.confirmed):
        return
    planned = search.confirm.best and search.confirm.seeds
    yield Finding(
        "The best trials have not been run again with fresh seeds"
        if planned
        else "No fresh seeds are planned for the best trials",
        "The best of many trials is also the luckiest of them (winner's curse): its score is too good.",
        "Finish the search, which ends with them."
        if planned
        else "Run the best again with seeds that the search did not use, on a larger budget, which pays for these too.",
        command=command(records) if planned else command(records, "--seeds", "3", "--budget", _doubled(search.budget)),
        severity="note" if planned else "question",
    )


def _doubled(budget: str) -> str:
    amount, _, unit = budget.partition(" ")
    return f"{2 * float(amount):g}" + {"hour": "h", "hours": "h", "GPU hours": "gpuh", "GPU hour": "gpuh"}.get(unit, "")


def epochs(records: StudyRecords) -> Iterator[Finding]:
    """Models that compare were trained for different numbers of epochs, and that is not the question."""
    for group in tasks(records) if not swept(records, "train.epochs") else ():
        planned = [records.configs[index].get("train.epochs") for index in group]
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
    """Models at several batch sizes that have one learning rate for all of them."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, variant in enumerate(records.variants):
        groups.setdefault((variant.model, variant.data), []).append(index)
    found = [group for group in groups.values() if len(_values(records, group, "train.batch_size")) > 1]
    fixed = [group for group in found if len(_values(records, group, "train.learning_rate")) == 1]
    if fixed:
        used = ", ".join(dict.fromkeys(plain(rate) for group in fixed for rate in _values(records, group, "train.learning_rate")))
        yield Finding(
            f"One learning rate ({used}) for all batch sizes",
            "The rate suits one batch size best, so that what looks like sensitivity to the batch size may be one to the rate.",
            "A learning rate tuned for each batch size on the selection split, as in studies/vitrm_fairness.py.",
            where(records, [index for group in fixed for index in group]),
            known=("002-10",),
        )


def stems(records: StudyRecords) -> Iterator[Finding]:
    """Convolutional baselines with the stem of large images on small ones, and without their fair selves beside them."""
    fair = {_network(records, index) for index, config in enumerate(records.configs) if config.get("model.stem") == "cifar"}
    large = [index for index, config in enumerate(records.configs) if config.get("model.stem") == "imagenet"]
    small = [index for index in large if (side(records, index) or SMALL + 1) <= SMALL]
    found = [index for index in small if _network(records, index) not in fair]
    if found:
        sides = ", ".join(dict.fromkeys(f"{side(records, index)}x{side(records, index)}" for index in found))
        yield Finding(
            f"A handicapped baseline: the ImageNet stem on images of {sides} pixels",
            "Stride and pooling leave its blocks a 16th of the positions, and another model may beat it for that reason alone.",
            'The same network with ResNet(stem="cifar"), as in studies/vitrm_fairness.py.',
            where(records, found),
            known=("002-9",),
        )


def limits(records: StudyRecords) -> Iterator[Finding]:
    """A smoke run, or a part of the data only."""
    cut = {index: config["data.limit"] for index, config in enumerate(records.configs) if config.get("data.limit") is not None}
    if cut:
        most = ", ".join(f"{limit:,}" for limit in dict.fromkeys(cut.values()))
        smoke = records.plan.smoke
        yield Finding(
            f"{'A smoke run' if smoke else 'A part of the data only'}: at most {most} images of each split",
            "Scores on fewer images are noisier, of models that have learned from less: no published number compares with them.",
            f"{'The study without --smoke' if smoke else 'A preset'} on the whole data set.",
            where(records, cut),
            severity="question" if smoke else "note",
        )


def side(records: StudyRecords, variant: int) -> int | None:
    """Pixels a side of a variant's images, where that is known."""
    config = records.configs[variant]
    stated = config.get("data.size", SIDES.get(str(config.get("data.name"))))
    return stated if isinstance(stated, int) else None


def _network(records: StudyRecords, index: int) -> tuple[object, ...]:
    """A baseline without its stem, and its data."""
    config = records.configs[index]
    return config.get("model.family"), config.get("model.depth"), records.variants[index].data


def _values(records: StudyRecords, variants: list[int], field: str) -> set[object]:
    return {records.configs[index].get(field) for index in variants}


def _confirmed(records: StudyRecords, fresh: Mapping[int, Sequence[int]]) -> bool:
    return any(run.seed in fresh.get(run.variant, ()) and run.done for run in records.rows)
