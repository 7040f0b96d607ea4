"""Notes beside the numbers of tables and figures: the data, the progress of the runs, and what a reader must
know before the numbers.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from recstudy.records.runs import FINAL_STATUSES, distinct
from recstudy.report.fits import are_over_items
from recstudy.report.names import join_labels, metric, plural, value_text
from recstudy.report.reasons import LEAK, REASONS
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
INTERVALS = (
    "mean and 95 % CI over seeds; variances are moderated by up to 2 degrees of freedom from other variants"
)
ITEM_INTERVALS = "single runs; 95 % CI over test items, which says nothing about other seeds"
STAND_IN = "the image tokenizer is a small stand-in trained here, not the TiTok of FuseLIP"


def caption_facts(records: StudyRecords, variants: Sequence[int]) -> dict[str, Any]:
    """Return the facts below a table of these variants.

    Returns:
        `caption` has the facts that only this table needs. `study_notes` has those of the whole study.
    """
    facts, study_facts = _facts(records, variants), _facts(records, records.indices)
    runs = distinct(records.rows_of(variants))
    counts = Counter(run.status for run in runs)
    done = f"{counts['done']:,} of {plural(counts.total(), 'run')} done"
    progress = ", ".join([done, *status_words(counts, FINAL_STATUSES[1:])])
    caption = "; ".join(fact for fact in facts if fact not in study_facts)
    # A page states the facts of the whole study once, and not below each table.
    shared = [fact for fact in facts if fact in study_facts]
    return {
        "caption": caption,
        "study_notes": (*shared, progress, ITEM_INTERVALS if are_over_items(records) else INTERVALS),
    }


def status_words(counts: Counter[str], statuses: Sequence[str]) -> list[str]:
    """Return the number of runs of each of these statuses, such as `2 diverged`, if it has any."""
    return [f"{counts[status]:,} {status}" for status in statuses if counts[status]]


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


def seed_words(records: StudyRecords) -> str:
    """Return what the random seed controls, and what is fixed across seeds."""
    pairs = []
    for variant, config in zip(records.variants, records.configs, strict=True):
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
        pairs.append((text, variant.label))
    texts = _with_labels(pairs, "{} ({})")
    return "" if records.is_own else "; ".join(texts.values() if len(texts) > 1 else texts)


def warnings(records: StudyRecords) -> tuple[str, ...]:
    """Return what a reader must know before the numbers of the study, such as that data are synthetic."""
    warning_reasons = (reason for reason in REASONS if not reason.question)
    return tuple(fact for reason in warning_reasons for fact, _ in reason.finds(records))


def leaky_notes(records: StudyRecords, variants: Iterable[int], is_shown: bool = True) -> list[str]:
    """Name the variants that leak: they are never compared and never part of a mean."""
    labels = ", ".join(records.labels(filter(records.leaks, variants)))
    consequence = "never compared" if is_shown else "left out"
    return [f"{consequence}, because it {LEAK}: {labels}"] if labels else []


def undefined_notes(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> list[str]:
    """Name the findings without a metric, because all or none of the test images have them."""
    if not any(metric(name).by_finding for name in metrics):
        return []
    rows = records.rows_of(variants)
    names = dict.fromkeys(name for row in rows for name in row.result_or_empty.undefined)
    return [f"left out, undefined on this test split: {', '.join(names)}"] if names else []


def text_notes(records: StudyRecords, variants: Sequence[int], metrics: Sequence[str]) -> list[str]:
    """Return how captions were decoded and tokenized, on which their scores depend."""
    has_words = any(metric(name).of_words for name in metrics)
    if not has_words and not any(metric(name).of_text for name in metrics):
        return []
    pairs = [  # such as how many captions have no word
        (f"{note} (seed {row.seed})", row.label)
        for row in records.rows_of(variants if has_words else ())
        for note in row.result_or_empty.notes
    ]
    keys = ["decode", "metrics"] * has_words + ["rate"] * ("rate_score" in metrics) + ["text", "image"]
    cider_notes = [CIDER_SCALE] * ("cider" in metrics)
    return [*_with_labels(pairs).values(), *method_notes(records, variants, keys), *cider_notes]


def method_notes(records: StudyRecords, variants: Sequence[int], keys: Sequence[str]) -> list[str]:
    """Return the methods that finished runs recorded for these keys of `TEXT`, each once.

    A note is added if the image tokenizer is a stand-in for that of the paper.
    """
    notes, methods = [], dict[str, str]()
    for key, words in TEXT.items():
        pairs = []
        for row in records.rows_of(variants if key in keys else ()):
            result = row.result_or_empty
            if row.done and (method := {**result.tokenizer, "decode": result.decode}.get(key)):
                pairs.append((str(method), row.label))
        if methods := _with_labels(pairs):
            notes.append(f"{words}: {'; '.join(methods.values() if len(methods) > 1 else methods)}")
    # The last key of `TEXT` is that of the image tokenizer.
    return notes + [STAND_IN] * any("standin" in method for method in methods)


def _with_labels(pairs: Iterable[tuple[str, str]], form: str = "{}: {}") -> dict[str, str]:
    """Return each text of (text, label) with the labels of its variants."""
    labels_by_text: dict[str, dict[str, None]] = {}
    for text, label in pairs:
        labels_by_text.setdefault(text, {})[label] = None
    return {text: form.format(text, join_labels([*labels])) for text, labels in labels_by_text.items()}
