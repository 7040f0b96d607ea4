"""What stands beside numbers: what they were measured on, how many runs are in, and what a reader must know before them."""

from collections import Counter
from collections.abc import Iterable, Sequence

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row, distinct
from recstudy.analysis.tables.entries import Note
from recstudy.metrics import METRICS, Metric
from recstudy.report.names import metric, plain, plural

SELECTIONS = {
    "validation": "epoch selected on a validation split",
    "test": "epoch selected on the test set, as in the paper: optimistic",
    "last": "last epoch, no selection",
}

TEXT = {
    "decode": "captions decoded by",
    "text": "text tokenizer of the models",
    "metrics": "words of the metrics cut by",
    "rate": "RaTEScore by the models",
    "image": "image tokenizer",
}
KINDS = {"data.rounds": "puzzles", "data.tokenizer": "images and captions"}  # by a field that only such data have
REDRAWN = {  # of sets that no program makes, what their `drawing_seed` draws
    "arc_agi": "augmentations",
    "digits": "split into training and test images",
    "maze_hard": "choice of training puzzles",
    "sudoku_extreme": "choice of training puzzles",
}
CIDER_SCALE = "CIDEr as pycocoevalcap gives it: ten times the mean similarity"
LEAK = "is told the caption it is to write"
STAND_IN = "the image tokenizer is a small stand-in trained here, not the TiTok of FuseLIP"


def caption(records: StudyRecords, variants: Sequence[int], before: str = "") -> Note:
    """Say data, protocol and progress of these variants in one line of facts."""
    runs = distinct(run for index in variants for run in records.by_variant[index])
    data = ", ".join(dict.fromkeys(records.variants[index].data for index in variants))
    chosen = dict.fromkeys(records.configs[index].get("train.selection") for index in variants)
    protocol = "; ".join(SELECTIONS.get(str(selection), f"selection {plain(selection)}") for selection in chosen)
    scores = dict.fromkeys(str(score) for index in variants if (score := records.configs[index].get("train.score")))
    protocol += f" by {', '.join(metric(score).title for score in scores)}" if scores else ""
    counts = Counter(run.status for run in runs)
    progress = f"{counts['done']:,} of {plural(len(runs), 'run')} done"
    progress += "".join(f", {counts[state]:,} {state}" for state in ("diverged", "stopped", "failed") if counts[state])
    synthetic = " (synthetic data)" if is_synthetic(records, variants) and "synthetic" not in data else ""
    settled = counts["done"] + counts["diverged"] + (counts["stopped"] if records.plan.search is not None else 0)
    finish = f"Finish with: {records.plan.command}" if settled < len(runs) else ""
    facts = "; ".join(filter(None, [before, data + synthetic, protocol, progress]))
    return Note(f"{facts}. Mean ± 95 % interval over seeds", screen=finish)


def drawn_anew(records: StudyRecords, variants: Iterable[int]) -> str:
    """What is drawn anew for each seed, so that intervals over seeds hold for it, and what is not."""
    having: dict[str, list[str]] = {}
    for index in variants:
        config = records.configs[index]
        kind = next((kind for field, kind in KINDS.items() if field in config), "images")
        drawn = {REDRAWN.get(str(config.get("data.name")), kind): "data.drawing_seed" in config}
        drawn |= {"subset of a limit": True} if config.get("data.limit") else {}
        drawn |= {"validation split": True} if config.get("train.selection") == "validation" else {}
        own = [what for what, follows in drawn.items() if follows and config.get("data.drawing") == "per seed"]
        same = [what for what in drawn if what not in own]
        told = ", ".join(["initial weights", "order of training", *own])
        told += f"; the same for all seeds: {', '.join(same)}" if same else ""
        having.setdefault(told, []).append(records.variants[index].label)
    return "; ".join(told if len(having) == 1 else f"{told} ({some(labels)})" for told, labels in having.items())


def warnings(records: StudyRecords) -> tuple[str, ...]:
    """What a reader must know before any number of the study."""
    found = []
    if records.plan.smoke:
        found.append(f"smoke run: {_smoke(records.plan.base)}; the numbers mean nothing")
    if is_synthetic(records, range(len(records.variants))):
        found.append("synthetic data: drawn by a program, no measure of the real task")
    return tuple(found)


def to_evaluate(records: StudyRecords, variants: Iterable[int], metrics: Iterable[str]) -> tuple[Note, ...]:
    """Metrics that follow from answers and that finished runs lack, such as one that was defined since; and how to get them."""
    done = [run for index in variants for run in records.by_variant[index] if run.done]
    names = dict.fromkeys(name.partition(".")[0] for name in metrics)
    following = {name: known for name in names if (known := METRICS.get(name)) is not None and known.of is not None}
    lacking = {name: count for name, known in following.items() if (count := sum(_lacks(run, name, known) for run in done))}
    if not lacking:
        return ()
    command = f"recstudy evaluate {records.place} " + " ".join(f"--metric {name}" for name in lacking)
    words = ", ".join(f"{metric(name).title} by {plural(count, 'finished run')}" for name, count in lacking.items())
    return (Note(f"not computed yet: {words}", screen=f"Compute without training: {command}"),)


def _lacks(run: Row, name: str, known: Metric) -> bool:
    """Whether the run could have this metric and nobody has tried: others of its task are there."""
    if run.value(name) is not None or name in run.unavailable:
        return False
    others = [METRICS[other] for other in run.measured if other in METRICS]
    tasks = {task for other in others if other.of is not None and len(other.tasks) == 1 for task in other.tasks}
    return not tasks.isdisjoint(known.tasks) and not (known.by_finding and run.found.undefined)


def is_synthetic(records: StudyRecords, variants: Iterable[int]) -> bool:
    """Whether any of these variants is planned on synthetic data, or has a run that says it was."""
    return not records.synthetic.isdisjoint(variants)


def leaky_notes(records: StudyRecords, variants: Iterable[int], shown: bool = True) -> tuple[str, ...]:
    """Names the variants whose numbers show a fault and no model's worth: never compared, and never part of a mean."""
    labels = ", ".join(records.variants[index].label for index in variants if records.leaks(index))
    return (f"{'never compared' if shown else 'left out'}, because it {LEAK}: {labels}",) if labels else ()


def left_out(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> tuple[str, ...]:
    """Names the findings that no number could be given for: the test split has none with, or none without them."""
    if not any(metric(name).by_finding for name in metrics):
        return ()
    runs = [run for index in variants for run in records.by_variant[index]]
    names = dict.fromkeys(name for run in runs for name in run.found.undefined)
    return (f"left out, undefined on this test split: {', '.join(names)}",) if names else ()


def text_notes(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> tuple[str, ...]:
    """How captions were decoded and cut into tokens and words: without that, none of their scores says anything."""
    used = [metric(name) for name in metrics]
    words: tuple[str, ...] = ("decode", "metrics") if any(one.of_words for one in used) else ()
    words += ("rate",) if "rate_score" in metrics else ()
    told = made_notes(records, variants, (*words, "text", "image")) if any(one.of_text or one.of_words for one in used) else ()
    scored = scored_notes(records, variants) if any(one.of_words for one in used) else ()
    return (*scored, *told, *([CIDER_SCALE] if "cider" in metrics else []))


def scored_notes(records: StudyRecords, variants: Sequence[int]) -> tuple[str, ...]:
    """What the runs found in the captions that they scored, such as how many have no word, with the variants that it is of."""
    having: dict[str, list[str]] = {}
    for run in (run for index in variants for run in records.by_variant[index]):
        for note in run.found.notes:
            having.setdefault(f"{note} (seed {run.seed})", []).append(run.label)
    return tuple(f"{note}: {some(labels)}" for note, labels in having.items())


def made_notes(records: StudyRecords, variants: Sequence[int], keys: Sequence[str]) -> tuple[str, ...]:
    """What the finished runs say of these `TEXT` keys, each once; a stand-in for the paper's tokenizer is called so."""
    runs = [run for index in variants for run in records.by_variant[index] if run.done]
    made = [(run.label, {**run.found.tokenizer, "decode": run.found.decode}) for run in runs]
    facts = {key: _by_label([(label, str(how[key])) for label, how in made if how.get(key)]) for key in TEXT if key in keys}
    notes = [f"{TEXT[key]}: {fact}" for key, fact in facts.items() if fact]
    return (*notes, *([STAND_IN] if "standin" in facts.get("image", "") else []))


def _by_label(named: Sequence[tuple[str, str]]) -> str:
    """The one value of all, or each value with the labels that have it."""
    values = dict.fromkeys(value for _, value in named)
    if len(values) < 2:
        return next(iter(values), "")
    having = {value: list(dict.fromkeys(label for label, own in named if own == value)) for value in values}
    return "; ".join(f"{value}: {some(labels)}" for value, labels in having.items())


def some(labels: Sequence[str]) -> str:
    """Three of them, and how many more there are."""
    return " / ".join([*labels[:3], *([f"{len(labels) - 3} more"] if labels[3:] else [])])


def _smoke(base: dict[str, dict[str, object]]) -> str:
    epochs, limit = base.get("train", {}).get("epochs"), base.get("data", {}).get("limit")
    return f"{plain(epochs)} epochs on {plain(limit)} images"
