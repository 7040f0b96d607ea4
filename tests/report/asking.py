"""Made-up studies that ask something: claims, differences from a base, and factorials whose effects are
known.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from made_up import failure, finish, plan, read, result, run_id, variant, write_plan

from recstudy import Claim
from recstudy.records import Results, write_json
from recstudy.report import Claims, dump_report
from recstudy.report.family import family
from recstudy.report.parts import parts_of
from recstudy.report.question_rows import QuestionRow
from recstudy.report.study_records import StudyRecords

LINEAR_METRIC = "cosine_after"  # a metric on its own scale: the same numbers, worked out by hand
AROUND = (-0.1, 0.0, 0.1)  # a seed's distance from its mean: the spread is 0.1
MEANS = {1: 93.0, 2: 92.9, 4: 92.0, 16: 90.0}
HURTS = Claim("more supervision hurts", lower={"steps": 16}, higher={"steps": 1}, margin=0.5)
HELPS = Claim("more supervision helps", lower={"steps": 1}, higher={"steps": 16})
EQUAL_CLAIM = Claim("two steps are as good as one", lower={"steps": 1}, higher={"steps": 2}, within=0.6)
CLOSE = Claim("two steps are worse", lower={"steps": 2}, higher={"steps": 1})
FULL = [93.0, 93.2, 93.1, 92.9, 93.3]
ABLATION: dict[str, list[Any]] = {
    "full": FULL,
    "without MoE": [92.1, 92.4, 92.0, 92.2, 92.3],
    "without EMA": [93.1, 93.1, 93.4, 92.7, 93.4],
    "two experts": [94.0, 94.2, 94.1, 94.3],
    "a failed seed": [92.0, "failed", 91.9],
    "one seed": [92.0],
    "no seed": [None, None],
}


def study(
    root: Path, claims: Any, means: Any = MEANS, seeds: int = 3, losses: Any = None, **changes: Any
) -> Results:
    """A variant for each number of steps, seeds around its mean; `losses`: (steps, seed) -> `failed` or `not
    run`.
    """
    variants = [
        variant(f"steps={steps}", {"steps": steps}, {"train.supervision_steps": steps}) for steps in means
    ]
    scores = [
        [(losses or {}).get((steps, seed), mean + AROUND[seed]) for seed in range(seeds)]
        for steps, mean in means.items()
    ]
    report = dump_report([Claims(claims=tuple(claims)).scored_by("top1_accuracy")])
    axes = {"steps": "train.supervision_steps"}
    fields = {"variants": variants, "axes": axes, "seeds": list(range(seeds)), "report": report} | changes
    return write_scored_plan(root, plan(**fields), scores)


def ablation(root: Path, scores: Any = ABLATION, report: Any = (), **changes: Any) -> Results:
    """The first label is the base of all others; seeds may be `failed`, `diverged`, or None, which has not
    run.
    """
    variants = [
        variant(label, {"part": label}, {"train.supervision_steps": position + 1})
        | {"base": 0 if position else None}
        for position, label in enumerate(scores)
    ]
    runs = [
        [position, seed, run_id(position, seed)]
        for position, variant_scores in enumerate(scores.values())
        for seed in range(len(variant_scores))
    ]
    fields = {"axes": {"part": "part"}, "seeds": [], "report": dump_report(list(report))} | changes
    return write_scored_plan(root, plan(variants=variants, runs=runs, **fields), list(scores.values()))


def crossed(root: Path, variants: Any, score: Any, seeds: int = 3, report: Any = ()) -> Results:
    """A factorial whose run of a variant and a seed scores `score(levels, seed)`."""
    fields = {
        "axes": dict(variants[0].axes),
        "seeds": list(range(seeds)),
        "report": dump_report(list(report)),
    }
    fields["variants"] = [
        variant(crossing.label, dict(crossing.levels), dict(crossing.changes)) for crossing in variants
    ]
    scores = [[score(crossing.levels, seed) for seed in range(seeds)] for crossing in variants]
    return write_scored_plan(root, plan(**fields), scores)


def write_scored_plan(root: Path, study_plan: Any, scores: Any) -> Results:
    """The plan, and a run a score."""
    results = write_plan(root, study_plan)
    for position, variant_scores in enumerate(scores):
        for seed, score in enumerate(variant_scores):
            if score == "failed":
                write_json(results.run(run_id(position, seed)).failure, failure())
            elif score == "diverged":
                finish(results, position, seed, result(None, status="diverged"))
            elif score not in (None, "not run"):
                values = result(score)
                values["metrics"][LINEAR_METRIC] = score
                finish(results, position, seed, values)
    return results


def claimed(root: Path, *claims: Claim, **changes: Any) -> list[QuestionRow]:
    """The answers to these claims."""
    return rows_of(read(study(root / "r", claims, **changes)))


def rows_of(records: StudyRecords) -> list[QuestionRow]:
    """The answers of the report's first part."""
    return list(family(records, parts_of(records)[0]).rows)


def by(metric: str, *claims: Claim) -> list[Claim]:
    return [replace(claim, metric=metric) for claim in claims]
