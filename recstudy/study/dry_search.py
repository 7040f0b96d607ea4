"""What a search would try and what its settings cost, before anything is started."""

import json
from collections.abc import Iterable
from typing import Any

from rich.table import Table
from rich.text import Text

from recstudy.errors import choices
from recstudy.models.costs import cost
from recstudy.records import Results
from recstudy.study.search import FAMILY, SearchPlan
from recstudy.study.trials import TrialLog
from recstudy.terminal import console


def print_search(plan: SearchPlan, results: Results, told: Iterable[str], as_json: bool) -> None:
    """The ranges of each family, the settings that come first with their cost, what was tried before and is `told` of it."""
    log = TrialLog(plan, results)
    if as_json:
        print(json.dumps(_record(plan, log), indent=1))
        return
    out = console()
    out.print(f"{plan.study.name}, preset {plan.folder}: by {plan.sampler}, stopping {plan.stopping}")
    out.print(f"Budget: {plan.split}.", soft_wrap=True)
    out.print(f"Objectives: {', '.join(f'{name} ({way})' for name, way in plan.objectives.items())}")
    out.print(_ranges(plan))
    out.print(_first(plan))
    out.print(f"Tried before: {len(log.params)} settings, and {len(log.fresh)} runs with fresh seeds.")
    for line in told:
        out.print(line, soft_wrap=True)


def _ranges(plan: SearchPlan) -> Table:
    table = Table("family", "field", "tried", box=None)
    for family, fields in plan.space.items():
        for path, range in fields.items():
            where = " and ".join(f"{one} is {choices(map(str, values))}" for one, values in plan.study.when.get(path, {}).items())
            table.add_row(*(Text(str(cell)) for cell in (family, path, f"{range}, where {where}" if where else range)))
    return table


def _first(plan: SearchPlan) -> Table:
    table = Table("first", "parameters", "GFLOPs", "training GFLOPs", box=None)
    for params in plan.first:
        run = plan.run(0, params)
        counted = cost(run.config)
        cells = run.label, f"{counted.params:,}", f"{counted.gflops:.4g}", f"{counted.train_gflops:.4g}"
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _record(plan: SearchPlan, log: TrialLog) -> dict[str, Any]:
    return {
        "definition": plan.definition,
        "budget": str(plan.budget),
        "kept for fresh seeds": plan.kept,
        "sampler": plan.sampler,
        "stopping": plan.stopping,
        "objectives": dict(plan.objectives),
        "space": {
            family: {path: range.record | _when(plan, path) for path, range in fields.items()}
            for family, fields in plan.space.items()
        },
        "first": [{FAMILY: plan.base.model.family, **params} for params in plan.first],
        "tried": len(log.params),
        "made": log.made,
    }


def _when(plan: SearchPlan, path: str) -> dict[str, Any]:
    """Return what a range's record has beside the range where it is searched at some settings alone."""
    return {"when": dict(plan.study.when[path])} if path in plan.study.when else {}
