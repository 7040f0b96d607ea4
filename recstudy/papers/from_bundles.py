"""A study that someone has published as targets for another: the mean of each of its variants, with all settings it was run with.

    published("bundle:their_study.zip", margin=0.5, why="a third of the 1.5 points between one step and two")

A variant of which a run gave no number compares with nothing: the rest may be the lucky ones. `recstudy verify` tells before
whether a bundle says what its records say; here its records are taken as they are.
"""

from collections.abc import Collection, Sequence
from statistics import fmean
from typing import Any

from recstudy.config import flatten
from recstudy.errors import ConfigError, StorageError, choices
from recstudy.metrics import METRICS
from recstudy.papers.own_tables import asking_folder
from recstudy.records import Result, Results, read_json, read_record
from recstudy.records.plans import read_plan
from recstudy.records.published import RESULTS, about_bundle, unzipped
from recstudy.records.study_schema import PARTS

DEPTHS = "train.evaluation_depths"  # at which a run is scored besides: of no number here
SHORT = 12  # digits of the digest of the records


def bundle_rows(place: str, only: Collection[str]) -> list[dict[str, Any]]:
    """Read the fields of a `Target` for each variant and metric of a bundle, which lies relative to the file that asks for it.

    Args:
        place: its folder or zip.
        only: of these metrics; where none is named, of those that rank runs, and of parameters.

    Raises:
        ConfigError: it is none, or damaged.
    """
    path = asking_folder() / place
    if not path.exists():
        raise ConfigError(f"no bundle at {str(path)!r}. Give the folder or the zip that `recstudy publish` wrote")
    try:
        with unzipped(path) as root:
            about = about_bundle(root, str(path))
            results = Results(root / RESULTS)
            plan = read_plan(results.study(about.study, about.preset))
            if plan is None:
                raise StorageError(f"{path} has no plan")
            runs: dict[str, list[str]] = {}
            for run in plan.runs:
                runs.setdefault(plan.variants[run.variant].label, []).append(run.id)
            source = f"{about.study} {about.preset} (records {about.records[:SHORT]}, {{}})"
            return [
                {"source": source.format(label), "model": label} | row
                for label, ids in runs.items()
                for row in _rows(results, ids, only)
            ]
    except StorageError as error:
        raise ConfigError(str(error).rstrip(".")) from None


def _rows(results: Results, ids: Sequence[str], only: Collection[str]) -> list[dict[str, Any]]:
    """Return a variant's numbers; none of one that has no finished run."""
    found = [read_record(results.run(run).result, Result) for run in ids]
    done = [result for result in found if result is not None and result.status == "done"]
    config = next((kept for run in ids if (kept := read_json(results.run(run).config))), None)
    if not done or config is None:
        return []
    parts = {part: config.get(part) for part in PARTS if part != "place"}
    if not all(isinstance(part, dict) for part in parts.values()):
        raise StorageError(f"{results.run(ids[0]).config} is damaged: it has not all of {choices(parts)}")
    fields = flatten(parts)
    each = [result.metrics | result.cost for result in done]
    known = {
        name: [value for values in each if (value := values.get(name)) is not None] for name in each[0] if _asked(name, only)
    }
    lost = f"of its {len(ids)} runs {len(ids) - len(done)} gave no number, and the rest may be the lucky ones"
    return [
        {
            "metric": name,
            "value": fmean(values),
            "unit": METRICS[name].unit if name in METRICS else "",
            "kind": "reported",
            "note": f"the mean of n={len(done)}",
            "where": {path: value for path, value in fields.items() if value is not None and path != DEPTHS},
            "reference": {path: None for path, value in fields.items() if value is None},
            "against": (lost,) if len(done) < len(ids) else (),
        }
        for name, values in known.items()
        if len(values) == len(done)
    ]


def _asked(name: str, only: Collection[str]) -> bool:
    known = METRICS.get(name)
    return name in only if only else name == "params" or (known is not None and known.ranks)
