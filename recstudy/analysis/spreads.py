"""From a study's records to the spread of each metric: whose seeds are pooled, on which scale, and what a table says of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from recstudy.analysis.contrasts import Pairing, pairing
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.analysis.stats import Scale, Spread, own, pool, within
from recstudy.report.names import metric, plural

UNKNOWN = 1000  # questions of a test split whose size no run states


def scale_of(name: str, runs: Sequence[Row]) -> Scale:
    """The scale of a metric: logits, where it is a share of right answers."""
    known = metric(name.partition("@")[0])
    low, high = known.bounds or (-inf, inf)
    items = max((run.found.answers.of for run in runs if run.found.answers), default=0) or UNKNOWN
    return Scale(low, high, items if known.share else 0)


def scored(run: Row, name: str) -> bool:
    """Whether a run counts in a mean of this metric: it has finished and has it. What is computed a diverged one has too."""
    return run.status in (("done", "diverged") if metric(name).computed else ("done",)) and run.value(name) is not None


def spreads_of(records: StudyRecords, name: str) -> Mapping[int, Spread]:
    """The spread of a metric over the seeds of each variant, pooled over those of the same data and protocol.

    Of a search the fresh seeds alone count: its own runs are those that it chose by. What follows from the config has none.
    """
    return records.once(("spreads", name), lambda: {} if metric(name).computed else _spreads(records, name))


def spread_of(records: StudyRecords, runs: Sequence[Row], name: str) -> Spread | None:
    """The spread that the mean of these runs goes by: that of their variants' seeds, for how far treatments are from each other
    is no error of their mean; that of the values where these follow from others."""
    if any(name in run.added for run in runs):
        return own([run.number(name) for run in runs], scale_of(name, runs))
    known = spreads_of(records, name)
    found = [known.get(index) for index in dict.fromkeys(run.variant for run in runs)]
    return within([spread for spread in found if spread]) if all(found) else None


def pairing_of(records: StudyRecords, name: str, variants: Sequence[int]) -> Pairing | None:
    """Whether the seeds of these variants are high or low together, those apart that go by their own spread."""
    spreads = spreads_of(records, name)
    alike = [index for index in variants if not (index in spreads and spreads[index].why)]
    runs = [seeds_of(records, index, name) for index in alike]
    scale = scale_of(name, [run for seeds in runs for run in seeds])
    return pairing({_ids(seeds): {run.seed: run.number(name) for run in seeds} for seeds in runs}, scale)


def pairing_note(pairs: Pairing | None) -> str:
    """Whether seeds are compared in pairs, and why."""
    if pairs is None:
        return "seeds are not paired: too few to know whether they go together"
    how = "paired" if pairs.helps else "not paired"
    left = f"; {plural(int(pairs.spread.df), 'degree')} of freedom beside it" if pairs.helps else ""
    said = f"the values of one seed correlate by {pairs.correlation:.2f}"
    return f"seeds are {how}: {said} (F test of the seeds' effect, p = {pairs.p:.2g})" + left


def spread_notes(records: StudyRecords, variants: Sequence[int], names: Sequence[str]) -> tuple[str, ...]:
    """Over what each metric's spread is pooled, and which variants go by their own."""
    shown = set(variants)
    pools: dict[str, list[str]] = {}
    alone: dict[tuple[str, str], list[str]] = {}
    for name in names:
        found = {index: spread for index, spread in spreads_of(records, name).items() if index in shown}
        pools.setdefault(_over(list(found.values())), []).append(metric(name).title)
        for index, spread in found.items():
            if spread.why:
                alone.setdefault((spread.why, metric(name).title), []).append(records.variants[index].label)
    notes = [f"spread over seeds, {over}: {_some(titles)}" for over, titles in pools.items() if over]
    owns = [f"{title} by the variant's own spread, because {why}: {_some(labels)}" for (why, title), labels in alone.items()]
    return (*notes, *owns, *(_shared(records, variants) if any(not metric(name).computed for name in names) else ()))


def _shared(records: StudyRecords, variants: Sequence[int]) -> list[str]:
    """What is trained once for all seeds of a variant, whose own spread is in no interval."""
    having: dict[str, list[str]] = {}
    for index in variants:
        config = records.configs[index]
        if any(path.startswith("model.fuselip.") for path in config):
            having.setdefault("one FuseLIP encoder on one image tokenizer", []).append(records.variants[index].label)
        elif "model.tokenizer_epochs" in config and not config.get("model.files"):
            having.setdefault("one image tokenizer", []).append(records.variants[index].label)
    return [f"the seeds share {what}, so intervals leave out what it adds: {_some(labels)}" for what, labels in having.items()]


def _over(spreads: Sequence[Spread]) -> str:
    """What several variants share; empty where each has its own."""
    shared = [spread for spread, uses in Counter(spreads).items() if not spread.why and uses > 1]
    many = [f"{plural(spread.variants, 'variant')} ({plural(int(spread.df), 'degree')} of freedom)" for spread in shared]
    return f"pooled from {' and '.join(many)}" if many else ""


def _spreads(records: StudyRecords, name: str) -> dict[int, Spread]:
    groups: dict[object, list[int]] = {}
    for index in range(len(records.variants)):
        groups.setdefault(protocol(records, index), []).append(index)
    found: dict[int, Spread] = {}
    for variants in groups.values():
        runs = {index: seeds_of(records, index, name) for index in variants}
        scale = scale_of(name, [run for seeds in runs.values() for run in seeds])
        spreads = pool({_ids(seeds): [run.number(name) for run in seeds] for seeds in runs.values()}, scale)
        found |= {index: spreads[_ids(seeds)] for index, seeds in runs.items() if _ids(seeds) in spreads}
    return found


def _ids(runs: Sequence[Row]) -> tuple[str, ...]:
    """Variants with the same runs, such as an ablation that changes nothing, count once."""
    return tuple(run.id for run in runs)


def seeds_of(records: StudyRecords, index: int, name: str) -> list[Row]:
    """The runs of a variant whose values are one another's repetitions."""
    fresh = records.by_variant[index][1 if records.plan.search is not None else 0 :]
    return [run for run in fresh if scored(run, name)]


def protocol(records: StudyRecords, index: int) -> object:
    """What variants must share for their seeds to be pooled."""
    config = records.configs[index]
    settings = tuple((path, repr(value)) for path, value in config.items() if path.startswith("data."))
    return records.variants[index].data, records.leaks(index), repr(config.get("train.selection")), settings


def _some(names: Sequence[str], most: int = 4) -> str:
    return "; ".join([*names[:most], *([f"{len(names) - most} more"] if names[most:] else [])])
