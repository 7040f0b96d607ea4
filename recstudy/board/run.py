"""`/run/ID`: one run's numbers, what sets it apart from the study's baseline, its curves, examples and provenance."""

from collections.abc import Sequence
from dataclasses import replace

from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.learning import learning_data, learning_notes
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, code, facts, fold, warning_lines, words_table
from recstudy.analysis.rows import Row, origin
from recstudy.analysis.summary import failures, provenance
from recstudy.analysis.thinking import THINKING
from recstudy.analysis.traces import TRACE
from recstudy.board.curves import curves_html, drawn_as
from recstudy.board.markup import Address, Page, Recipe, Same, state, study_link, text
from recstudy.board.overview import compare_form
from recstudy.board.plans import NO_PLAN
from recstudy.board.rows import one_run
from recstudy.board.sources import Sources
from recstudy.board.story import story
from recstudy.board.study import part_html
from recstudy.config import flatten
from recstudy.errors import ConfigError
from recstudy.records import EpochLine, Json, read_log, read_record
from recstudy.records.reading import dumped
from recstudy.records.schema import Settings
from recstudy.records.study_schema import PlannedRun, VariantRecord
from recstudy.report import (
    Alignment,
    AttentionMaps,
    Captions,
    ExpertLoad,
    ExpertPath,
    LearningCurves,
    LossTrace,
    Mistakes,
    Residuals,
    Thinking,
)
from recstudy.report.names import metric, plain, quantity

UNDRAWN = ("epoch", "learning_rate", "seconds", "images_per_second")  # numbers of an epoch that no curve shows
CURVES = 6


def run_page(sources: Sources, address: Address) -> Page:
    """The page of the run that the address names.

    Raises:
        ConfigError: the folder has no such run.
    """
    run_id = address.path[1]
    records, baseline = run_records(sources, run_id)
    row, seen = records.rows[0], sources.watch.runs.get(run_id)
    needs = Same(seen)
    live = (seen.log.offset if seen is not None and seen.log else 0, run_id in sources.watch.running)
    names = _measured(sources, run_id)
    body = [
        Recipe("head", "", (needs, live), lambda: _head(sources, records, live[1])),
        Recipe("numbers", "Numbers", needs, lambda: _numbers(row)),
        Recipe("failure", "What failed", needs, lambda: failures(records) + _hang(records)),
        Recipe("curves", "Curves", (needs, live, drawn_as(address)), lambda: _curves(records, names, address)),
        Recipe("log", "Log", (needs, live), lambda: story(records.results.run(run_id), row, live[1])),
        Recipe("losses", "Training loss, update by update", (needs, live), lambda: part_html(records, LossTrace())),
        Recipe("mistakes", "Misclassified test images", needs, lambda: part_html(records, Mistakes())),
        Recipe("thinking", "Thinking", needs, lambda: part_html(records, Thinking()) + part_html(records, Residuals())),
        Recipe("captions", "Captions", needs, lambda: part_html(records, Captions())),
        Recipe("alignment", "Alignment", needs, lambda: part_html(records, Alignment(targets=()))),
        Recipe("attention", "Attention", needs, lambda: part_html(records, AttentionMaps())),
        Recipe("experts", "Experts", needs, lambda: part_html(records, ExpertLoad()) + part_html(records, ExpertPath())),
        Recipe("machine", "Machine", needs, lambda: _machine(row)),
        Recipe("settings", "Settings", needs, lambda: _settings(records.configs[0], baseline, records.plan.changes)),
        Recipe("provenance", "Provenance", needs, lambda: provenance(records)),
        Recipe("compare", "Compare", tuple(sources.watch.studies), lambda: compare_form(sources, run_id)),
    ]
    left_out = {key for key, there in _there(records, row).items() if not there}
    return Page(f"{row.label}, seed {row.seed}", [part for part in body if part.key not in left_out])


def run_records(sources: Sources, run_id: str) -> tuple[StudyRecords, Json | None]:
    """The records of this run alone, and the flat settings of the baseline of a study that names it.

    Raises:
        ConfigError: the folder has no such run.
    """
    for study in sources.studies_of(run_id):
        records = sources.kept.records(study)
        variant, _ = sources.watch.studies[study].named[run_id]
        return one_run(records, variant, run_id), flatten(records.plan.base)
    if run_id not in sources.watch.runs:
        raise ConfigError(f"no run {run_id!r} in this folder")
    return loose_run(sources, run_id), None


def loose_run(sources: Sources, run_id: str) -> StudyRecords:
    """A run that no study names: a study of its own, made of its config."""
    results = sources.watch.results
    config = read_record(results.run(run_id).config, Settings) or Settings()
    model, data = str(config.model.get("family", "")), str(config.data.get("name", ""))
    variant = VariantRecord(label="a run of no study", model=model, data=data)
    run = PlannedRun(0, config.seed, run_id)
    base = dumped(config)
    plan = replace(NO_PLAN, base=base, variants=(variant,), seeds=(config.seed,), runs=(run,))
    return StudyRecords(results, plan, [Row.of(sources.watch.outcome(run_id), 0, variant, config.seed, run_id)])


def difference(sides: Sequence[Json], heads: Sequence[str]) -> str:
    """The settings that differ, beside each other; where a run has its data and how it is placed decide nothing."""
    paths = dict.fromkeys(path for side in sides for path in side if not path.startswith("place."))
    rows = [(path, *(plain(side[path]) if path in side else "" for side in sides)) for path in paths if _apart(sides, path)]
    return words_table("Settings that differ", ("field", *heads), rows) if rows else "<p>No setting differs.</p>"


def _apart(sides: Sequence[Json], path: str) -> bool:
    return any(side.get(path) != sides[0].get(path) for side in sides)


def measured(row: Row) -> dict[str, float]:
    """The metrics and costs of a run that are numbers."""
    return {name: value for name in row.measured if (value := row.value(name)) is not None}


def _there(records: StudyRecords, row: Row) -> dict[str, bool]:
    """Which parts this run has something for."""
    folder = records.results.run(row.id).path
    kept = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    done = row.done
    return {
        "numbers": bool(measured(row)),
        "failure": row.status in ("failed", "diverged"),
        "curves": "epochs.jsonl" in kept,
        "log": {"attempts.jsonl", "epochs.jsonl"} & kept != set() or row.result is not None or row.failure is not None,
        "machine": row.result is not None,
        "losses": "losses.jsonl" in kept and row.status in ("done", "unfinished", "diverged"),
        "mistakes": done and "mistakes.npz" in kept,
        "thinking": done and THINKING in kept,
        "captions": done and "captions.json" in kept,
        "alignment": done and "alignment.json" in kept,
        "attention": done and TRACE in kept,
        "experts": done and TRACE in kept and bool(records.configs[0].get("model.experts")),
    }


def _head(sources: Sources, records: StudyRecords, running: bool) -> str:
    row = records.rows[0]
    named = [study_link(*study) for study in sources.studies_of(row.id)]
    status = state("running" if running else row.status)
    selected = row.selected
    pairs = [
        ("Model", records.variants[0].model),
        ("Data", records.variants[0].data),
        ("Attempts", plain(row.attempts) if row.attempts else ""),
        ("Selected epoch", f"{selected.number} by the {selected.split} split" if selected.number else ""),
    ]
    of = f" of {', '.join(named)}" if named else ""
    where = f"<p>{status} run <code>{text(row.id)}</code>{of}</p>"
    shown = facts([(name, value) for name, value in pairs if value])
    return f"<h1>{text(row.label)}, seed {text(row.seed)}</h1>{where}{warning_lines(warnings(records))}{shown}"


def _numbers(row: Row) -> str:
    rows = [(metric(name).title, quantity(name, value)) for name, value in measured(row).items()]
    why = [(metric(name).title, f"not available: {reason}") for name, reason in row.unavailable.items()]
    return words_table("Numbers", ("what", "value"), rows + why)


def _curves(records: StudyRecords, names: tuple[str, ...], address: Address) -> str:
    spec = LearningCurves(title="By epoch", metrics=names)
    data = learning_data(records, spec)
    return curves_html(data, "By epoch", address, learning_notes(records, spec, data))


def _machine(row: Row) -> str:
    """Where it ran, and how much of it it used, as far as that was recorded."""
    used = ("peak_memory_mb", "images_per_second", "epoch_seconds")
    told = [(metric(name).title, quantity(name, value)) for name in used if (value := row.value(name))]
    made = origin(row.provenance)
    cores = f", {made['cores']} cores" if made["cores"] else ""
    where = [("Host", made["host"]), ("CPU", made["cpu"] and f"{made['cpu']}{cores}"), ("GPU", made["gpu"] or "none")]
    return facts([(name, str(value)) for name, value in [*where, *told] if value])


def _settings(config: Json, baseline: Json | None, changes: Json) -> str:
    own = words_table("Settings", ("field", "value"), [(path, plain(value)) for path, value in config.items()])
    told = "" if baseline is None else "<h3>Against the baseline</h3>" + difference([baseline, config], ("baseline", "this run"))
    if changes:
        rows = [(path, plain(value)) for path, value in changes.items()]
        told += words_table("Set on the command line", ("set on the command line, for the baseline too", "value"), rows)
    return told + fold(f"All {len(config)} settings", own)


def _hang(records: StudyRecords) -> Html:
    """The last lines that a watchdog wrote of a worker that hung."""
    logs = sorted(records.results.run(records.rows[0].id).path.glob("hang-*.log"))
    return Html("".join(f"<h3>{text(log.name)}</h3>{code(_last(log.read_text(errors='replace')))}" for log in logs))


def _last(words: str, lines: int = 12) -> str:
    return "\n".join(words.strip().splitlines()[-lines:])


def _measured(sources: Sources, run_id: str) -> tuple[str, ...]:
    """What its epochs measure, the loss and the score first; other numbers only where they change."""
    lines = [line.values for line in read_log(sources.watch.results.run(run_id).epochs, EpochLine)]
    numbers = [name for name, value in (lines[0] if lines else {}).items() if value is not None]
    judged = {name for name in numbers if name == "train_loss" or name.startswith("selection_")}
    changing = {name for name in numbers if name not in UNDRAWN and len({line.get(name) for line in lines}) > 1}
    order = sorted(judged | changing, key=lambda name: (name != "train_loss", not name.startswith("selection_"), name))
    return tuple(order[:CURVES]) or ("train_loss",)
