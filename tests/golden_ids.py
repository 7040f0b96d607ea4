"""Run ids that finished runs are found by: of every family and data set, and of the studies.

`python tests/golden_ids.py` writes golden_ids.json anew, where a study itself has changed or a family has
come. The ids of what was there before must stay as they are, unless its revision was raised; those of commit
9086471 (its three studies) were written by its own code, less those that a later revision computes otherwise.
"""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import recstudy.recursive.data
import recstudy.recursive.models
from recstudy.recursive import DATASETS, FAMILIES, RunConfig, TrainConfig
from recstudy.study.plan import make_plan
from recstudy.study.search import Search
from recstudy.study.study import Study

FILE = Path(__file__).with_suffix(".json")
STUDIES = Path(__file__).parents[1] / "studies"
REQUIRED_FIELDS = {  # fields without a default
    "data.folder": {"path": "birds", "class_count": 3},
    "data.captions": {"path": "films"},
    "data.puzzle_folder": {"path": "puzzles", "vocabulary": 11, "rows": 9, "columns": 9},
}


def of_parts() -> dict[str, str]:
    """By part: the id of a run of the family, or on the data set, with every other setting at its default."""
    ids = {}
    for part, registry in (("model", FAMILIES), ("data", DATASETS)):
        for name, kind in registry.items():
            if kind.__module__.startswith("recstudy."):
                parts = {
                    "data": recstudy.recursive.Digits(),
                    "model": recstudy.recursive.ViTRM(),
                    "train": TrainConfig(ema_decay=0.999),
                    "seed": 0,
                }
                parts[part] = kind(**REQUIRED_FIELDS.get(f"{part}.{name}", {}))
                ids[f"{part}.{name}"] = RunConfig.model_construct(**parts).run_id
    eyes = recstudy.recursive.ImageTRM(backbone="fuselip", fuselip=recstudy.recursive.FuseLIPBackboneConfig())
    return ids | {
        "FuseEyes": RunConfig.model_construct(
            **parts | {"model": eyes, "data": recstudy.recursive.Digits()}
        ).run_id
    }


def of_studies() -> dict[str, dict[str, str]]:
    """By study and preset: the definition, and the id of the first run of every variant (of every family of a
    search).
    """
    return {name: ids for path in sorted(STUDIES.glob("*_*.py")) for name, ids in _of_study(path)}


def load(path: Path) -> Study | Search:
    """The study of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module.study


def _of_study(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    study = load(path)
    for preset, bases in study.presets.items():
        if isinstance(study, Study):
            plan = make_plan(study, preset)
            ids = {
                variant.label: config.run_id
                for variant, config in zip(plan.variants, plan.configs, strict=True)
            }
            yield f"{study.name}/{preset}", {"definition": plan.definition} | ids
        for family in () if isinstance(study, Study) else (config.model.family for config in bases):
            plan = make_plan(study, preset, families=[family])
            yield (
                f"{study.name}/{preset}/{family}",
                {"definition": plan.definition, family: plan.base.run_id},
            )


if __name__ == "__main__":
    old_ids = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(
        json.dumps(
            old_ids | {"parts": of_parts(), "studies": of_studies()},
            indent=1,
            sort_keys=True,
            ensure_ascii=False,
        )
        + "\n"
    )
