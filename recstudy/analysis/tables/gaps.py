"""Why a run gives no value, and two runs of a seed no pair."""

from collections.abc import Mapping

from recstudy.analysis.names import metric
from recstudy.records import Json


def gap(run: Json | None, name: str) -> str:
    """Why a run gives no value of this metric; empty where it does."""
    if run is None or run["status"] != "done":
        return "not planned" if run is None else f"failed: {run['error_class']}" if run["status"] == "failed" else run["status"]
    return "" if run.get(name) is not None else f"without {metric(name).title}"


def pair_gap(ours: Json | None, theirs: Json | None, name: str) -> str:
    """Why a seed gives no pair; empty where it does."""
    said = [("", gap(ours, name)), ("base ", gap(theirs, name))]
    return ", ".join(f"{who}{why}" for who, why in said if why)


def by_reason(gaps: Mapping[int, str]) -> tuple[str, ...]:
    """`seeds 1, 3: not run`, a line a reason."""
    seeds = {why: [str(seed) for seed, own in gaps.items() if own == why] for why in dict.fromkeys(gaps.values()) if why}
    return tuple(f"seed{'s' * (len(own) > 1)} {', '.join(own)}: {why}" for why, own in seeds.items())
