"""One study's records as a table: a row a run, read straight from the JSON files.

Nothing here knows how a run was made. Missing, failed, diverged and damaged runs are rows like any other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from recstudy.analysis.names import plain
from recstudy.analysis.search import read_plan
from recstudy.config import flatten
from recstudy.errors import ConfigError, StorageError, choices, nearest
from recstudy.records import Json, Results, read_json, read_lines, read_result

STATUSES = ("done", "diverged", "stopped", "failed", "unfinished", "not run")


@dataclass(frozen=True)
class StudyRecords:
    """A study's plan and its runs.

    `rows` has one dictionary a planned run, and `runs` is the same as a frame: `variant` (its index), `label`, `seed`,
    `id`, `status` (one of `STATUSES`; `stopped` by a search's scheduler, with the last epoch's `stopped_score`; `unfinished`
    was begun and left neither result nor failure), `levels.AXIS`, every config field that differs between variants
    (`model.latent_steps`), metrics and cost by their names (which are listed in `measured`), `METRIC@DEPTH`, `undefined`
    (findings that the metrics leave out), `unavailable` (metric -> why there is none), `caption_notes` (what must be known of
    the captions that were scored), `tokenizers` (of captions: what they
    cut -> name), `decode`, `attempts`, `error_class`, `error`, `traceback`, and `provenance.*`.
    """

    results: Results
    plan: Json = field(repr=False)
    rows: list[Json] = field(repr=False)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a planned run."""
        return pd.DataFrame(self.rows, columns=None if self.rows else ["variant", "label", "seed", "id", "status"])

    @property
    def variants(self) -> list[Json]:
        return self.plan["variants"]

    @cached_property
    def configs(self) -> list[Json]:
        """Each variant's config fields by dotted path."""
        base = flatten(self.plan["base"])
        return [config_of(base, variant["changes"]) for variant in self.variants]

    @cached_property
    def by_variant(self) -> list[list[Json]]:
        """The rows of each variant."""
        groups: list[list[Json]] = [[] for _ in self.variants]
        for row in self.rows:
            groups[row["variant"]].append(row)
        return groups

    def field(self, path: str) -> pd.Series:
        """A config field of every run, whether the study varies it or not."""
        return self.runs["variant"].map([config.get(path) for config in self.configs].__getitem__)

    def level(self, variant: int, name: str) -> Any:
        """A variant's level of an axis, or its value of a config field; `model` and `data` alone give their titles.

        Raises:
            ConfigError: it has neither. The message names the axes.
        """
        chosen = self.variants[variant]
        if name in chosen["levels"]:
            level = chosen["levels"][name]
            return plain(level) if isinstance(level, dict | list) else level
        if name in self.configs[variant]:
            return self.configs[variant][name]
        if name in ("model", "data"):
            return chosen[name]
        known = [*self.plan["axes"], *self.configs[variant]]
        if any(name in other["levels"] for other in self.variants) or any(name in config for config in self.configs):
            return None  # another model's field
        raise ConfigError(f"the report names {name!r}, but the study has {choices(known)}.{nearest(name, known)}")

    def chosen(self, where: Json) -> list[int]:
        """The variants at these levels, in the study's order."""
        return [
            index
            for index in range(len(self.variants))
            if all(same(self.level(index, name), level) for name, level in where.items())
        ]

    def leaks(self, variant: int) -> bool:
        """Whether the model was told what it was to say, so that none of its numbers compares with another."""
        return bool(self.variants[variant].get("leaks"))

    def measured(self, variants: Iterable[int]) -> list[str]:
        """The metrics and costs that any run of these variants has, in the order of their first appearance."""
        runs = [run for index in variants for run in self.by_variant[index]]
        return list(dict.fromkeys(name for run in runs for name in run.get("measured", ()) if run[name] is not None))

    def first_run(self, variant: int, file: str, states: Sequence[str]) -> Json | None:
        """The first of a variant's seeds that is in one of these `states` and has this file (`mistakes.npz`)."""
        runs = (run for run in self.by_variant[variant] if run["status"] in states)
        return next((run for run in runs if (self.results.run(run["id"]).path / file).exists()), None)

    def epochs(self, variants: Iterable[int]) -> pd.DataFrame:
        """The per-epoch lines of these variants' runs, with `variant`, `seed` and `id`."""
        lines: list[Json] = []
        for index in variants:
            for run in self.by_variant[index]:
                seen = {line["epoch"]: line for line in read_lines(self.results.run(run["id"]).epochs)}
                lines.extend({"variant": index, "seed": run["seed"], "id": run["id"], **line} for line in seen.values())
        return pd.DataFrame(lines)


def same(one: Any, other: Any) -> bool:
    """Whether two settings are the same setting: 1 and 1.0 are, 1 and True are not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def config_of(base: Json, changes: Json) -> Json:
    """Flat config fields after a variant's changes; a change to a whole part replaces all of its fields."""
    config = dict(base)
    for path, value in changes.items():
        if isinstance(value, dict):
            config = {key: kept for key, kept in config.items() if not key.startswith(path + ".")}
            config |= flatten(value, path + ".")
        else:
            config[path] = value
    return config


def load_study(results: Results, name: str, preset: str) -> StudyRecords:
    """Read a study's plan and all its runs.

    Raises:
        ConfigError: there is no such study or preset. The message names those there are.
    """
    plan = read_plan(results.study(name, preset))
    if plan is None:
        known = [f"{study} ({found})" for study, found in studies(results)]
        have = f"there are {choices(known)}.{nearest(f'{name} ({preset})', known)}" if known else "there is none yet."
        raise ConfigError(f"no study {name!r} with the preset {preset!r} in {results.root}: {have}")
    bare = StudyRecords(results, plan, [])
    shared = variant_columns(bare)
    rows = [{**shared[index], "seed": seed, "id": run_id, **run_columns(results, run_id)} for index, seed, run_id in plan["runs"]]
    return replace(bare, rows=rows)


def variant_columns(bare: StudyRecords) -> list[Json]:
    """For each variant the columns that all its runs share: its number and label, its levels, the fields that differ between
    variants; `seed` and `id` are to be filled in."""
    varied = varied_fields(bare.configs)
    return [
        {"variant": index, "label": variant["label"], "seed": None, "id": None}
        | {
            f"levels.{axis}": plain(level) if isinstance(level, dict | list) else level
            for axis, level in variant["levels"].items()
        }
        | {path: config.get(path) for path in varied}
        for index, (variant, config) in enumerate(zip(bare.variants, bare.configs, strict=True))
    ]


def studies(results: Results) -> list[tuple[str, str]]:
    """Name and preset of every study in the folder, sorted."""
    plans = (results.root / "studies").glob("*/*/plan.json")
    return sorted((plan.parent.parent.name, plan.parent.name) for plan in plans)


def status(results: Results) -> list[Json]:
    """One row a study: `study`, `preset`, `done`, `stopped`, `failed`, `planned` (of a search: so far), `command`, `smoke`."""
    states = results.states()
    rows = []
    for name, preset in studies(results):
        plan = read_plan(results.study(name, preset)) or {"runs": []}
        found = [states.get(run_id) for _, _, run_id in plan["runs"]]
        counts = {state: found.count(state) for state in ("done", "stopped", "failed")} | {"planned": len(found)}
        rows.append(
            {"study": name, "preset": preset, **counts, "command": plan.get("command", ""), "smoke": bool(plan.get("smoke"))}
        )
    return rows


def varied_fields(configs: list[Json]) -> list[str]:
    """The fields whose value is not the same in every config, in the configs' order."""
    fields = dict.fromkeys(path for config in configs for path in config)
    return [path for path in fields if any(config.get(path) != configs[0].get(path) for config in configs)]


def at_depth(metric: str, depth: int | str) -> str:
    """The column with a metric of the test set after so many supervision steps, from the same weights."""
    return f"{metric}@{depth}"


def run_columns(results: Results, run_id: str) -> Json:
    """The columns that a run's folder gives."""
    folder = results.run(run_id)
    try:
        result = read_result(folder.result)
        if result is not None:
            return _result(result)
        stopped, failure = read_json(folder.stopped), read_json(folder.failure)
    except StorageError as damage:
        return {"status": "failed", "error_class": "damaged record", "error": str(damage)}
    if stopped is not None:
        return {"status": "stopped", "stopped_epoch": stopped["epoch"], "stopped_score": stopped["score"]}
    if failure is not None:
        error_class, error = str(failure.get("class", "unknown")), str(failure.get("error", ""))
        traceback = str(failure.get("traceback", ""))
        return {
            "status": "failed",
            "error_class": error_class,
            "error": error,
            "traceback": traceback,
            "attempts": failure.get("attempts"),
        }
    return {"status": "unfinished" if folder.attempts.exists() else "not run"}


def _result(result: Json) -> Json:
    made = result.get("provenance") or {}
    provenance = {key: value for key, value in made.items() if key not in ("versions", "hardware")}
    provenance |= made.get("hardware") or {}
    if provenance.pop("commits", None):  # of every attempt: the code may have changed in between
        provenance["commit"] = ", then ".join(map(str, made["commits"]))
    provenance["versions"] = ", ".join(
        f"{package} {version}" for package, version in sorted((made.get("versions") or {}).items())
    )
    measured = (result.get("metrics") or {}) | (result.get("cost") or {})
    depths = result.get("depths") or {}
    return {
        "status": result["status"],
        **measured,
        "measured": tuple(measured),
        "undefined": tuple(result.get("undefined") or ()),
        "unavailable": result.get("unavailable") or {},
        "tokenizers": result.get("tokenizer") or {},
        "decode": result.get("decode"),
        "caption_notes": result.get("notes") or [],
        **{at_depth(name, depth): value for name, scored in depths.items() for depth, value in scored.items()},
        **{f"selected.{key}": value for key, value in (result.get("selected") or {}).items()},
        "attempts": result.get("attempts"),
        **{f"provenance.{key}": value for key, value in provenance.items()},
    }
