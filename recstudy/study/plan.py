"""The plan on disk: which runs a study is made of, and what to draw of them."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recstudy.analysis.spec import REPORT, AnyPart, Best
from recstudy.config import Config, RunConfig, flatten
from recstudy.records import FORMAT, Json, Results, write_json
from recstudy.stores import without_password
from recstudy.study.design import Variant
from recstudy.study.search import Search, SearchPlan
from recstudy.study.study import Plan, Study

LEAKY = "LEAKY"


def plan_record(plan: Plan) -> Json:
    """What `plan.json` holds; the reading half needs nothing else of the study file."""
    return _head(plan.study, plan) | {
        "base": {**plan.base.values, "place": plan.base.place.model_dump()},
        "axes": dict(plan.variants[0].axes) if plan.variants else {},
        "variants": [
            variant_record(replace(variant, changes=effective(variant.changes, plan.changes)), config)
            | _base(variant, plan.variants)
            for variant, config in zip(plan.variants, plan.configs, strict=True)
        ],
        "seeds": list(range(plan.seeds)),
        "runs": [[run.variant, run.seed, run.id] for run in plan.runs],
        "report": REPORT.dump_python(list(plan.study.by_preset(plan.study.report, plan.preset)), mode="json"),
    }


def search_record(plan: SearchPlan) -> Json:
    """What a search's `plan.json` holds; its trials stand beside it."""
    search = plan.study
    return _head(search, plan) | {
        "base": {**plan.base.values, "place": plan.base.place.model_dump()},
        "axes": {},
        "variants": [],
        "seeds": [0],
        "runs": [],
        "report": REPORT.dump_python(
            [_scored(part, plan.base.score) for part in search.by_preset(search.report, plan.preset)], mode="json"
        ),
        "search": {
            "objectives": dict(plan.objectives),
            "sampler": plan.sampler,
            "stopping": plan.stopping,
            "budget": str(plan.budget),
            "space": {family: {path: range.record for path, range in fields.items()} for family, fields in plan.space.items()},
            "confirm": {"best": plan.confirm, "seeds": list(range(1, plan.seeds + 1))},
        },
    }


def _scored(part: AnyPart, score: str) -> AnyPart:
    """A part of a report, with the name of the families' score for `score`."""
    if not isinstance(part, Best):
        return part
    return replace(part, metrics=tuple(score if name == "score" else name for name in part.metrics))


def _head(study: Study | Search, plan: Plan | SearchPlan) -> Json:
    question, _, description = study.question.partition("\n")
    return {
        "format": FORMAT,
        "study": study.name,
        "preset": plan.preset,
        "question": question.strip(),
        "description": description.strip(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command(),
        "smoke": plan.smoke,
        "definition": plan.definition,
    }


def variant_record(variant: Variant, config: RunConfig) -> Json:
    """A variant as plain JSON values; the label of one that leaks says so."""
    leaks = config.model.leaks
    fields = flatten(config.values)  # where a variant leaves an axis alone, its level is the preset's own
    own = {axis: fields[path] for axis, path in variant.axes.items() if path in fields}
    return {
        "label": variant.label + f", {LEAKY}" * (leaks and LEAKY not in variant.label),
        "levels": own | dict(variant.levels),
        "changes": _plain(variant.changes),
        "model": config.model.title,
        "data": config.data.title,
        "synthetic": config.data.synthetic,
        "leaks": leaks,
    }


def _base(variant: Variant, variants: Sequence[Variant]) -> Json:
    """Where the variant that it is compared with stands among all, if it is compared with one."""
    return {"base": [other.label for other in variants].index(variant.base)} if variant.base else {}


def effective(variant: Mapping[str, Any], command_line: Mapping[str, Any]) -> Mapping[str, Any]:
    """A variant's changes, with what the command line changes within them; the rest of that stands in `base`."""
    within = {field: value for field, value in command_line.items() if any(f"{field}.".startswith(f"{own}.") for own in variant)}
    return {**variant, **within}


def _plain(changes: Mapping[str, Any]) -> Json:
    return {field: value.model_dump(mode="json") if isinstance(value, Config) else value for field, value in changes.items()}


def command() -> str:
    """The command line that finishes the study: as it was typed, without the choice of some variants and without passwords."""
    script = Path(sys.argv[0])
    shown = script.name if not script.exists() else _relative(script)
    arguments = sys.argv[1:]
    kept = [word for at, word in enumerate(arguments) if not word.startswith("--only") and arguments[max(at - 1, 0)] != "--only"]
    return shlex.join(["python", shown, *map(without_password, kept)])


def _relative(path: Path) -> str:
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return path.name


def record_plan(plan: Plan | SearchPlan, results: Results) -> None:
    """Write `plan.json`, the one file of a study that readers start from, and a copy that another definition leaves alone."""
    record = search_record(plan) if isinstance(plan, SearchPlan) else plan_record(plan)
    folder = results.study(plan.study.name, plan.folder)
    files = folder / f"plan-{plan.definition}.json", folder / "plan.json"
    with results.changing(*files):
        for file in files:
            write_json(file, record)
