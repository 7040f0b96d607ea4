"""Notes beside the numbers of tables and figures: the data, the progress of the runs, and what a reader must
know before the numbers.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from recstudy.programs.metric import METRICS
from recstudy.records.runs import FINAL_STATUSES, Row, distinct
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
# config field -> the data of the tasks that have it
KINDS = {"data.rounds": "puzzles", "data.tokenizer": "images and captions"}
RESAMPLED = {  # what `drawing_seed` controls in data sets that are not generated
    "arc_agi": "augmentations",
    "digits": "split into training and test images",
    "maze_hard": "choice of training puzzles",
    "sudoku_extreme": "choice of training puzzles",
}
CIDER_SCALE = "CIDEr as in pycocoevalcap: ten times the mean similarity"
IMPORTED = "imported weights, evaluated here and not trained here"
IMPORTED_RESULTS = "imported results: these runs were executed elsewhere"
LEAK = "is given the caption that it must write"
INTERVALS = (
    "mean and 95 % CI over seeds; variances are moderated by up to 2 degrees of freedom from other variants"
)
STAND_IN = "the image tokenizer is a small stand-in trained here, not the TiTok of FuseLIP"


def caption_facts(records: StudyRecords, variants: Sequence[int]) -> dict[str, Any]:
    """Return the facts below a table of these variants.

    Returns:
        `caption` has the facts that only this table needs. `study_notes` has those of the whole study.
    """
    facts, study_facts = _facts(records, variants), _facts(records, range(len(records.variants)))
    runs = distinct(run for index in variants for run in records.by_variant[index])
    counts = Counter(run.status for run in runs)
    progress = f"{counts['done']:,} of {plural(counts.total(), 'run')} done"
    for state in ("diverged", "stopped", "failed"):
        progress += f", {counts[state]:,} {state}" if counts[state] else ""
    caption = "; ".join(fact for fact in facts if fact not in study_facts)
    # A page states the facts of the whole study once, and not below each table.
    shared = [fact for fact in facts if fact in study_facts]
    return {"caption": caption, "study_notes": (*shared, progress, INTERVALS)}


def interim_words(records: StudyRecords) -> str:
    """Return `interim, 5 of 30 runs` while runs of the study are left to do, else an empty text."""
    runs = distinct(records.rows)
    is_interim = any(run.status not in FINAL_STATUSES for run in runs)
    return f"interim, {sum(run.done for run in runs):,} of {plural(len(runs), 'run')}" * is_interim


def _facts(records: StudyRecords, variants: Sequence[int]) -> list[str]:
    """Return the data of these variants, and how their epoch was selected."""
    data = ", ".join(dict.fromkeys(records.variants[index].data for index in variants))
    if "synthetic" not in data and not records.synthetic.isdisjoint(variants):
        data += " (synthetic data)"
    selections: dict[str, None] = {}
    for index in () if records.is_own else variants:
        # The selection in the config of imported weights was never applied.
        is_imported = index in records.imported
        selection = "imported" if is_imported else records.configs[index].get("train.selection")
        selections[SELECTIONS.get(str(selection), f"selection {value_text(selection)}")] = None
    protocol = "; ".join(selections)
    scores = dict.fromkeys(records.configs[index].get("train.score") for index in variants)
    titles = [metric(str(score)).title for score in scores if score]
    protocol += f" by {', '.join(titles)}" if titles else ""
    return [fact for fact in (data, protocol) if fact]


def seed_words(records: StudyRecords, variants: Iterable[int]) -> str:
    """Return what the random seed controls, and what is fixed across seeds."""
    labels_by_text: dict[str, list[str]] = {}
    for index in () if records.is_own else variants:
        config = records.configs[index]
        data = next((data for field, data in KINDS.items() if field in config), "images")
        # what is drawn -> whether `data.resample` controls it
        draws = {RESAMPLED.get(str(config.get("data.name")), data): "data.drawing_seed" in config}
        draws |= {"subset of a limit": True} if config.get("data.limit") else {}
        draws |= {"validation split": True} if config.get("train.selection") == "validation" else {}
        is_per_seed = config.get("data.resample") == "per seed"
        varying = [draw for draw, is_resampled in draws.items() if is_resampled and is_per_seed]
        fixed = [draw for draw in draws if draw not in varying]
        text = ", ".join(["initial weights", "order of training", *varying])
        text += f"; fixed across seeds: {', '.join(fixed)}" if fixed else ""
        labels_by_text.setdefault(text, []).append(records.variants[index].label)
    texts = [f"{text} ({join_labels(labels)})" for text, labels in labels_by_text.items()]
    return "; ".join(texts if len(texts) > 1 else labels_by_text)


def warnings(records: StudyRecords) -> tuple[str, ...]:
    """Return what a reader must know before the numbers of the study, such as that data are synthetic."""
    messages = []
    if records.plan.smoke:
        base = records.plan.base
        epochs, limit = base.get("train", {}).get("epochs"), base.get("data", {}).get("limit")
        size = "" if records.is_own else f"{value_text(epochs)} epochs on {value_text(limit)} images; "
        messages.append(f"smoke run: {size}the numbers mean nothing")
    if records.plan.imported:
        files = "; ".join(file.words for file in records.plan.imported)
        messages.append(f"finished runs, imported from {files}: recstudy did not run them")
    if records.synthetic:
        messages.append("synthetic data: generated by a program, not real data")
    if records.imported and not records.is_own:
        labels = [records.variants[index].label for index in sorted(records.imported)]
        messages.append(f"{IMPORTED}: {join_labels(labels)}")
    edits = change_lines([change for change in study_changes(records) if change.kind == "code"])
    return (*messages, *(f"{edit}: their numbers are from the earlier code" for edit in edits))


def missing_metric_notes(
    records: StudyRecords, variants: Iterable[int], metrics: Iterable[str]
) -> tuple[str, ...]:
    """Name the metrics that finished runs lack although saved answers suffice, and the command for them.

    A metric that was defined after the runs is an example.
    """
    names = dict.fromkeys(name.partition(".")[0] for name in metrics)
    runs = [run for index in variants for run in records.by_variant[index] if run.done]
    missing_counts = Counter(name for name in names for run in runs if _could_have(run, name))
    if not missing_counts:
        return ()
    command = " --metric ".join([f"recstudy evaluate {records.command_path}", *missing_counts])
    counts = [
        f"{metric(name).title} by {plural(count, 'finished run')}" for name, count in missing_counts.items()
    ]
    return (f"not computed yet: {', '.join(counts)}. Compute without training: {command}",)


def _could_have(run: Row, name: str) -> bool:
    """Whether a run's answers suffice for a metric that it lacks: it has another metric of the same task."""
    definition = METRICS.get(name)
    if definition is None or definition.of is None or run.value(name) is not None or name in run.unavailable:
        return False
    # A metric by finding is undefined if all or none of the test images have the finding.
    if definition.by_finding and run.result_or_empty.undefined:
        return False
    metrics = [METRICS[measured] for measured in run.measured if measured in METRICS]
    # A metric of a single task shows which task the run has.
    return any(
        other_metric.of is not None
        and len(other_metric.tasks) == 1
        and {*other_metric.tasks} <= {*definition.tasks}
        for other_metric in metrics
    )


def leaky_notes(records: StudyRecords, variants: Iterable[int], is_shown: bool = True) -> tuple[str, ...]:
    """Name the variants that leak: they are never compared and never part of a mean."""
    labels = ", ".join(records.variants[index].label for index in variants if records.leaks(index))
    consequence = "never compared" if is_shown else "left out"
    return (f"{consequence}, because it {LEAK}: {labels}",) if labels else ()


def undefined_notes(
    records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]
) -> tuple[str, ...]:
    """Name the findings without a metric, because all or none of the test images have them."""
    if not any(metric(name).by_finding for name in metrics):
        return ()
    runs = (run for index in variants for run in records.by_variant[index])
    names = dict.fromkeys(name for run in runs for name in run.result_or_empty.undefined)
    return (f"left out, undefined on this test split: {', '.join(names)}",) if names else ()


def text_notes(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> tuple[str, ...]:
    """Return how captions were decoded and tokenized, on which their scores depend."""
    has_words = any(metric(name).of_words for name in metrics)
    if not has_words and not any(metric(name).of_text for name in metrics):
        return ()
    labels_by_note: dict[str, list[str]] = {}
    for run in (run for index in variants for run in records.by_variant[index]):
        for note in run.result_or_empty.notes if has_words else ():  # such as how many captions have no word
            labels_by_note.setdefault(f"{note} (seed {run.seed})", []).append(run.label)
    notes = [f"{note}: {join_labels(labels)}" for note, labels in labels_by_note.items()]
    keys = ["decode", "metrics"] if has_words else []
    keys += ["rate"] if "rate_score" in metrics else []
    notes += method_notes(records, variants, [*keys, "text", "image"])
    return (*notes, *([CIDER_SCALE] if "cider" in metrics else []))


def method_notes(records: StudyRecords, variants: Sequence[int], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the methods that finished runs recorded for these keys of `TEXT`, each once.

    A note is added if the image tokenizer is a stand-in for that of the paper.
    """
    notes: list[str] = []
    has_stand_in = False
    for key in (key for key in TEXT if key in keys):
        labels_by_method: dict[str, dict[str, None]] = {}
        for run in (run for index in variants for run in records.by_variant[index] if run.done):
            method = run.result_or_empty.decode if key == "decode" else run.result_or_empty.tokenizer.get(key)
            if method:
                labels_by_method.setdefault(str(method), {})[run.label] = None
        facts = [f"{method}: {join_labels(list(runs))}" for method, runs in labels_by_method.items()]
        if facts:
            notes.append(f"{TEXT[key]}: {'; '.join(labels_by_method if len(facts) == 1 else facts)}")
        if key == "image":
            has_stand_in = any("standin" in method for method in labels_by_method)
    return (*notes, *([STAND_IN] if has_stand_in else []))


def join_labels(labels: Sequence[str], separator: str = " / ", limit: int = 3) -> str:
    """Join at most `limit` labels, and state how many more there are."""
    rest = [f"{len(labels) - limit} more"] * (len(labels) > limit)
    return separator.join([*labels[:limit], *rest])
