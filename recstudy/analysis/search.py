"""A search on disk: what a sampler proposed, read as the variants and runs of a study.

    plan.json                     "search": objectives, sampler, stopping, budget, space by family, what is confirmed
    trials-DEFINITION.jsonl       a line a trial (settings, variant, run id), and one a fresh seed of one of the best
    importance-DEFINITION.json    how much each field matters, once enough trials have finished

Trials with the same settings are the same run, so they share a variant; its first run is the search's own.
"""

from collections.abc import Iterable
from pathlib import Path

from recstudy.records import Json, read_json, read_lines

FAMILY = "family"  # the parameter that chooses between model families, where a search has several


def read_plan(folder: Path) -> Json | None:
    """A study's plan, or None where there is none, with `others`: other definitions of this name, and what they hold.

    Of a search, `variants`, `runs` and `axes` are those of its trials so far, and `search` has three keys more: `trials`
    (`number`, `params`, `variant`), `confirmed` (variant -> its fresh seeds) and `importance` (as its file has it, or None).
    """
    plan = read_json(folder / "plan.json")
    if plan is None:
        return None
    return (_with_trials(folder, plan) if "search" in plan else plan) | {"others": _others(folder, plan)}


def _others(folder: Path, shown: Json) -> dict[str, str]:
    plans = [read_json(path) or {} for path in sorted(folder.glob("plan-*.json"))]
    return {plan["definition"]: _size(folder, plan) for plan in plans if plan.get("definition") != shown.get("definition")}


def _size(folder: Path, plan: Json) -> str:
    if "search" not in plan:
        return f"{len(plan['runs'])} runs"
    count = sum("number" in line for line in read_lines(trial_log(folder, plan)))
    return f"{count} trial" + "s" * (count != 1)


def trial_log(folder: Path, plan: Json) -> Path:
    return folder / f"trials-{plan['definition']}.jsonl"


def objective(row: Json, name: str) -> float | None:
    """An objective's value of a run: `selection_NAME` is the score of the selected epoch, any other a metric or a cost."""
    selected = name.removeprefix("selection_")
    value = row.get(name if selected == name else f"selected.{selected}")
    return None if value is None or value != value else float(value)  # NaN is not itself


def ranges_of(space: dict[str, Json]) -> dict[str, list[Json]]:
    """Field -> the ranges that the families state; the choice of the family first where there are several."""
    ranges: dict[str, list[Json]] = {FAMILY: [{"choices": list(space)}]} if len(space) > 1 else {}
    for fields in space.values():
        for path, stated in fields.items():
            ranges.setdefault(path, []).append(stated)
    return ranges


def short_names(fields: Iterable[str]) -> dict[str, str]:
    """Field -> the last part of its path, or the whole path where two fields end alike."""
    last = {path: path.rpartition(".")[2] for path in fields}
    return {path: name if list(last.values()).count(name) == 1 else path for path, name in last.items()}


def _with_trials(folder: Path, plan: Json) -> Json:
    search = plan["search"]
    lines = read_lines(trial_log(folder, plan))
    proposed = {line["number"]: line for line in lines if "number" in line}
    first = {line["id"]: line for line in reversed(proposed.values())}  # of one run, the first that proposed it
    ids = list(dict.fromkeys(line["id"] for line in proposed.values()))
    at = {identity: index for index, identity in enumerate(ids)}
    runs = [[at[identity], first[identity]["seed"], identity] for identity in ids]
    confirmed: dict[int, list[int]] = {}
    for line in lines:
        if "confirms" not in line or line["confirms"] not in proposed:
            continue
        variant = at[proposed[line["confirms"]]["id"]]
        if [variant, line["seed"], line["id"]] not in runs:
            runs.append([variant, line["seed"], line["id"]])
            confirmed.setdefault(variant, []).append(line["seed"])
    trials = [{"number": number, "params": line["params"], "variant": at[line["id"]]} for number, line in proposed.items()]
    names = short_names(ranges_of(search["space"]))
    return plan | {
        "variants": [first[identity]["variant"] for identity in ids],
        "runs": runs,
        "axes": {name: path for path, name in names.items()},
        "search": search
        | {"trials": trials, "confirmed": confirmed, "importance": read_json(folder / f"importance-{plan['definition']}.json")},
    }
