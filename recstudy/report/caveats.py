"""What stands beside numbers: what they were measured on, how many runs are in, and what a reader must know
before them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from recstudy.programs.metric import METRICS, Metric
from recstudy.records.runs import Row, distinct
from recstudy.report.changes import change_lines, study_changes
from recstudy.report.names import metric, plural, value_text
from recstudy.report.study_records import StudyRecords

SELECTIONS = {
    "validation": "epoch selected on a validation split",
    "test": "epoch selected on the test set, as in the paper: optimistic",
    "last": "last epoch, no selection",
    "imported": "imported weights, no training",
}

TEXT = {
    "decode": "captions decoded by",
    "text": "text tokenizer of the models",
    "metrics": "words of the metrics cut by",
    "rate": "RaTEScore by the models",
    "image": "image tokenizer",
}
# by a field that only such data have
KINDS = {"data.rounds": "puzzles", "data.tokenizer": "images and captions"}
REDRAWN = {  # of sets that no program makes, what their `drawing_seed` draws
    "arc_agi": "augmentations",
    "digits": "split into training and test images",
    "maze_hard": "choice of training puzzles",
    "sudoku_extreme": "choice of training puzzles",
}
CIDER_SCALE = "CIDEr as pycocoevalcap gives it: ten times the mean similarity"
IMPORTED = "imported weights, judged here and not trained here"
IMPORTED_RESULTS = "imported results: these runs were made elsewhere"
LEAK = "is told the caption it is to write"
INTERVALS = (
    "mean and 95 % interval over seeds, variances moderated by up to 2 degrees of freedom from other variants"
)
STAND_IN = "the image tokenizer is a small stand-in trained here, not the TiTok of FuseLIP"


def caption_facts(records: StudyRecords, variants: Sequence[int]) -> dict[str, Any]:
    """Return `caption` and `study_notes` of a table of these variants: facts of its own, and those of the
    whole study.
    """
    facts, every = _facts(records, variants), _facts(records, range(len(records.variants)))
    counts = Counter(
        run.status for run in distinct(run for index in variants for run in records.by_variant[index])
    )
    progress = f"{counts['done']:,} of {plural(counts.total(), 'run')} done"
    progress += "".join(
        f", {counts[state]:,} {state}" for state in ("diverged", "stopped", "failed") if counts[state]
    )
    caption = "; ".join(fact for fact in facts if fact not in every)
    return {
        "caption": caption,
        "study_notes": (*(fact for fact in facts if fact in every), progress, INTERVALS),
    }


def _facts(records: StudyRecords, variants: Sequence[int]) -> list[str]:
    """Return the data and the selection of these variants."""
    data = ", ".join(dict.fromkeys(records.variants[index].data for index in variants))
    data += (
        " (synthetic data)" if not records.synthetic.isdisjoint(variants) and "synthetic" not in data else ""
    )
    selections = dict.fromkeys(
        "imported" if index in records.imported else records.configs[index].get("train.selection")
        for index in (() if records.is_own else variants)
    )
    protocol = "; ".join(
        SELECTIONS.get(str(selection), f"selection {value_text(selection)}") for selection in selections
    )
    scores = dict.fromkeys(
        str(score) for index in variants if (score := records.configs[index].get("train.score"))
    )
    protocol += f" by {', '.join(metric(score).title for score in scores)}" if scores else ""
    return [fact for fact in (data, protocol) if fact]


def seed_words(records: StudyRecords, variants: Iterable[int]) -> str:
    """Return what the random seed controls, and what is fixed across seeds."""
    labels_by_text: dict[str, list[str]] = {}
    for index in () if records.is_own else variants:
        config = records.configs[index]
        kind = next((kind for field, kind in KINDS.items() if field in config), "images")
        is_resampled = {REDRAWN.get(str(config.get("data.name")), kind): "data.drawing_seed" in config}
        is_resampled |= {"subset of a limit": True} if config.get("data.limit") else {}
        is_resampled |= {"validation split": True} if config.get("train.selection") == "validation" else {}
        varying_items = [
            item
            for item, follows in is_resampled.items()
            if follows and config.get("data.resample") == "per seed"
        ]
        fixed_items = [what for what in is_resampled if what not in varying_items]
        text = ", ".join(["initial weights", "order of training", *varying_items])
        text += f"; fixed across seeds: {', '.join(fixed_items)}" if fixed_items else ""
        labels_by_text.setdefault(text, []).append(records.variants[index].label)
    return "; ".join(
        told if len(labels_by_text) == 1 else f"{told} ({join_labels(labels)})"
        for told, labels in labels_by_text.items()
    )


def warnings(records: StudyRecords) -> tuple[str, ...]:
    """Return what a reader must know before any number of the study."""
    messages = []
    if records.plan.smoke:
        base = records.plan.base
        epochs, limit = base.get("train", {}).get("epochs"), base.get("data", {}).get("limit")
        size = "" if records.is_own else f"{value_text(epochs)} epochs on {value_text(limit)} images; "
        messages.append(f"smoke run: {size}the numbers mean nothing")
    if records.plan.imported:
        files = "; ".join(file.words for file in records.plan.imported)
        messages.append(f"finished runs, imported from {files}: recstudy has run none of them")
    if records.synthetic:
        messages.append("synthetic data: generated by a program, no measure of the real task")
    if records.imported and not records.is_own:
        messages.append(
            f"{IMPORTED}: {join_labels([records.variants[index].label for index in sorted(records.imported)])}"
        )
    edits = change_lines([change for change in study_changes(records) if change.kind == "code"])
    return (*messages, *(f"{edit}: their numbers are those of the earlier code" for edit in edits))


def missing_metric_notes(
    records: StudyRecords, variants: Iterable[int], metrics: Iterable[str]
) -> tuple[str, ...]:
    """Name metrics that follow from answers and that finished runs lack, such as one defined since; and how
    to get them.
    """
    names = dict.fromkeys(name.partition(".")[0] for name in metrics)
    following = {
        name: definitions
        for name in names
        if (definitions := METRICS.get(name)) is not None and definitions.of is not None
    }
    done = [run for index in variants for run in records.by_variant[index] if run.done]

    def lacks(run: Row, name: str, definition: Metric) -> bool:
        """Tell whether the run could have this metric and nobody has tried: others of its task are there."""
        if run.value(name) is not None or name in run.unavailable:
            return False
        run_metrics = [METRICS[other] for other in run.measured if other in METRICS]
        tasks = {
            task
            for other in run_metrics
            if other.of is not None and len(other.tasks) == 1
            for task in other.tasks
        }
        return not tasks.isdisjoint(definition.tasks) and not (definition.by_finding and run.found.undefined)

    missing_counts = Counter(
        name for name, known in following.items() for run in done if lacks(run, name, known)
    )
    if not missing_counts:
        return ()
    command = f"recstudy evaluate {records.command_path} " + " ".join(
        f"--metric {name}" for name in missing_counts
    )
    words = ", ".join(
        f"{metric(name).title} by {plural(count, 'finished run')}" for name, count in missing_counts.items()
    )
    return (f"not computed yet: {words}. Compute without training: {command}",)


def leaky_notes(records: StudyRecords, variants: Iterable[int], is_shown: bool = True) -> tuple[str, ...]:
    """Name the variants whose numbers show a fault and no model's worth: never compared, and never part of a
    mean.
    """
    labels = ", ".join(records.variants[index].label for index in variants if records.leaks(index))
    return (f"{'never compared' if is_shown else 'left out'}, because it {LEAK}: {labels}",) if labels else ()


def undefined_notes(
    records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]
) -> tuple[str, ...]:
    """Name the findings that no number could be given for: the test split has none with, or none without
    them.
    """
    if not any(metric(name).by_finding for name in metrics):
        return ()
    runs = [run for index in variants for run in records.by_variant[index]]
    names = dict.fromkeys(name for run in runs for name in run.found.undefined)
    return (f"left out, undefined on this test split: {', '.join(names)}",) if names else ()


def text_notes(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> tuple[str, ...]:
    """Say how captions were decoded and cut into tokens and words: without that, none of their scores says
    anything.
    """
    definitions = [metric(name) for name in metrics]
    of_words, labels_by_note = any(one.of_words for one in definitions), dict[str, list[str]]()
    for run in (run for index in variants if of_words for run in records.by_variant[index]):
        for note in run.found.notes:  # such as how many captions have no word
            labels_by_note.setdefault(f"{note} (seed {run.seed})", []).append(run.label)
    scored = [f"{note}: {join_labels(labels)}" for note, labels in labels_by_note.items()]
    keys = [
        *(("decode", "metrics") if of_words else ()),
        *(("rate",) if "rate_score" in metrics else ()),
        "text",
        "image",
    ]
    notes_on_methods = (
        method_notes(records, variants, keys) if of_words or any(one.of_text for one in definitions) else ()
    )
    return (*scored, *notes_on_methods, *([CIDER_SCALE] if "cider" in metrics else []))


def method_notes(records: StudyRecords, variants: Sequence[int], keys: Sequence[str]) -> tuple[str, ...]:
    """Return what the finished runs say of these `TEXT` keys, each once; a stand-in for the paper's tokenizer
    is called so.
    """
    notes, standin = [], False
    for key in (key for key in TEXT if key in keys):
        labels_by_method: dict[str, dict[str, None]] = {}
        for run in (run for index in variants for run in records.by_variant[index] if run.done):
            if method := run.found.decode if key == "decode" else run.found.tokenizer.get(key):
                labels_by_method.setdefault(str(method), {})[run.label] = None
        facts = [
            value if len(labels_by_method) == 1 else f"{value}: {join_labels(list(labels))}"
            for value, labels in labels_by_method.items()
        ]
        notes += [f"{TEXT[key]}: {'; '.join(facts)}"] if facts else []
        standin = standin or (key == "image" and any("standin" in value for value in labels_by_method))
    return (*notes, *([STAND_IN] if standin else []))


def join_labels(labels: Sequence[str], separator: str = " / ", limit: int = 3) -> str:
    """Name so many of them, and say how many more there are."""
    return separator.join([*labels[:limit], *([f"{len(labels) - limit} more"] if labels[limit:] else [])])
