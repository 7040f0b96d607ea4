"""`/run/ID`: one run's numbers, what sets it apart from the study's baseline, its curves, log, examples and provenance."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from recstudy.board.markup import Address, Page, PagePart, make_part, state, study_link, text
from recstudy.board.poller import NO_PLAN
from recstudy.board.sources import Sources, one_run
from recstudy.board.study import part_html
from recstudy.errors import ConfigError
from recstudy.opened import descriptor
from recstudy.programs.settings import flatten
from recstudy.records import EpochLine, Json, RunFolder, read_log, read_record
from recstudy.records.reading import dumped
from recstudy.records.schema import Attempt, Settings
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
    Part,
    Residuals,
    Thinking,
)
from recstudy.report.caveats import warnings
from recstudy.report.drawn import DrawnFigure
from recstudy.report.figures.learning_curves import axis_of
from recstudy.report.markup import Html, fold, markup, words_table
from recstudy.report.names import inline, metric, number, plain, plural, quantity, setting_name
from recstudy.report.page import figure_box
from recstudy.report.puzzles import THINKING
from recstudy.report.rows import Row, origin
from recstudy.report.study_records import StudyRecords
from recstudy.report.summary import failures, named_settings, provenance
from recstudy.report.traces import TRACE
from recstudy.terminal import duration

UNDRAWN = ("epoch", "learning_rate", "seconds", "images_per_second")  # numbers of an epoch that no curve shows
CURVES = 6
SHORT, LONG = 12, 2000  # lines of a log that are in sight, and those that unfold
TAIL = 2**16  # bytes at the end of a file that are read for its last lines
EVERY = ("done", "unfinished", "diverged")
# Parts of the report on one run: heading, the file that they draw, the states of a run that they draw it of, and themselves.
DRAWN: dict[str, tuple[str, str, Sequence[str], Sequence[Part]]] = {
    "losses": ("Training loss, update by update", "losses.jsonl", EVERY, [LossTrace()]),
    "mistakes": ("Misclassified test images", "mistakes.npz", EVERY[:1], [Mistakes()]),
    "thinking": ("Thinking", THINKING, EVERY[:1], [Thinking(), Residuals()]),
    "captions": ("Captions", "captions.json", EVERY[:1], [Captions()]),
    "alignment": ("Alignment", "alignment.json", EVERY[:1], [Alignment(targets=())]),
    "attention": ("Attention", TRACE, EVERY[:1], [AttentionMaps()]),
    "experts": ("Experts", TRACE, EVERY[:1], [ExpertLoad(), ExpertPath()]),
}


def run_page(sources: Sources, address: Address) -> Page:
    """Return the page of the run that the address names.

    Raises:
        ConfigError: the folder has no such run.
    """
    run_id, poller = address.path[1], sources.poller
    records, baseline = run_records(sources, run_id)
    row, folder = records.rows[0], records.results.run(run_id)
    kept = {file.name for file in folder.path.iterdir()} if folder.path.is_dir() else set()
    running = run_id in poller.running
    parts = [make_part("head", "", lambda: _head(sources, records, running))]
    if measured(row):
        parts.append(make_part("numbers", "Numbers", lambda: _numbers(row)))
    if row.status in ("failed", "diverged"):
        parts.append(make_part("failure", "What failed", lambda: failures(records) + _hang(folder)))
    if "epochs.jsonl" in kept:
        parts.append(make_part("curves", "Curves", lambda: _curves(records, read_log(folder.epochs, EpochLine))))
    if {"attempts.jsonl", "epochs.jsonl"} & kept or row.result is not None or row.failure is not None:
        parts.append(make_part("log", "Log", lambda: _log(records, folder, read_log(folder.epochs, EpochLine), running)))
    for key, (title, file, states, drawn) in DRAWN.items():
        if file in kept and row.status in states and (key != "experts" or records.configs[0].get("model.experts")):
            parts.append(PagePart(key, title, "".join(part_html(records, part) for part in drawn)))
    if "output.log" in kept:
        parts.append(make_part("output", "Output", lambda: _tail(folder.path / "output.log")))
    if row.result is not None and row.provenance.origin != "imported":
        parts.append(make_part("machine", "Machine", lambda: _machine(row)))
    parts.append(make_part("settings", "Settings", lambda: _settings(records, baseline)))
    parts.append(make_part("provenance", "Provenance", lambda: provenance(records)))
    return Page(f"{row.label}, seed {row.seed}", parts)


def run_records(sources: Sources, run_id: str) -> tuple[StudyRecords, Json | None]:
    """Return the records of this run alone, and the flat settings of the baseline of a study that names it.

    A run that no study names is a study of its own, made of its config, without a baseline.

    Raises:
        ConfigError: the folder has no such run.
    """
    for study in sources.poller.studies_of(run_id):
        records = sources.records(study)
        variant, _ = sources.poller.studies[study].named[run_id]
        return one_run(records, variant, run_id), flatten(records.plan.base)
    if run_id not in sources.poller.runs:
        raise ConfigError(f"no run {run_id!r} in this folder")
    results = sources.poller.results
    config = read_record(results.run(run_id).config, Settings) or Settings()
    model = str(config.model.get("family", config.program))
    alone = VariantRecord(label="a run of no study", model=model, data=str(config.data.get("name", "")))
    run = PlannedRun(0, config.seed, run_id)
    base = {name: value for name, value in dumped(config).items() if value or name == "seed"}
    plan = replace(NO_PLAN, base=base, variants=(alone,), seeds=(config.seed,), runs=(run,))
    return StudyRecords(results, plan, [replace(sources.poller.outcome(run_id), label=alone.label, seed=config.seed)]), None


def difference(sides: Sequence[Json], heads: Sequence[str]) -> str:
    """Show the settings that differ, beside each other; where a run has its data and how it is placed decide nothing."""
    paths = dict.fromkeys(path for side in sides for path in side if not path.startswith("place."))
    apart = [path for path in paths if any(side.get(path) != sides[0].get(path) for side in sides)]
    rows = [(setting_name(path), *(plain(side[path]) if path in side else "" for side in sides)) for path in apart]
    return words_table("Settings that differ", ("field", *heads), rows) if rows else "<p>No setting differs.</p>"


def measured(row: Row) -> dict[str, float]:
    """Return the metrics and costs of a run that are numbers."""
    return {name: value for name in row.measured if (value := row.value(name)) is not None}


def _head(sources: Sources, records: StudyRecords, running: bool) -> str:
    row, selected = records.rows[0], records.rows[0].selected
    named = [study_link(*study) for study in sources.poller.studies_of(row.id)]
    pairs = [
        ("Program" if records.is_own else "Model", records.variants[0].model),
        ("Data", records.variants[0].data),
        ("Attempts", plain(row.attempts) if row.attempts else ""),
        ("Selected epoch", f"{selected.number} by the {selected.split} split" if selected.number else ""),
    ]
    of = f" of {', '.join(named)}" if named else ""
    where = f"<p>{state('running' if running else row.status)} run <code>{text(row.id)}</code>{of}</p>"
    shown = markup("facts", [(name, value) for name, value in pairs if value])
    return f"<h1>{text(row.label)}, seed {text(row.seed)}</h1>{where}{markup('warnings', warnings(records))}{shown}"


def _numbers(row: Row) -> str:
    rows = [(metric(name).title, quantity(name, value)) for name, value in measured(row).items()]
    why = [(metric(name).title, f"not available: {reason}") for name, reason in row.unavailable.items()]
    return words_table("Numbers", ("what", "value"), rows + why)


def _curves(records: StudyRecords, epochs: Sequence[EpochLine]) -> str:
    """Draw what its epochs measure, the loss and the score first; other numbers only where they change."""
    lines = [line.values for line in epochs]
    numbers = [name for name, value in (lines[0] if lines else {}).items() if value is not None]
    names = {name for name in numbers if judged(name)}
    names |= {name for name in numbers if name not in UNDRAWN and len({line.get(name) for line in lines}) > 1}
    order = sorted(names, key=lambda name: (name != "train_loss", not name.startswith("selection_"), name))
    spec = LearningCurves(metrics=tuple(order[:CURVES]) or ("train_loss",))
    data = spec.data(records)
    drawn = DrawnFigure(replace(spec, title=f"By {axis_of(data)}"), data)
    return figure_box(drawn.figure, drawn.label, [*warnings(records), *spec.notes(records, data)], drawn.caption)


def judged(name: str) -> bool:
    """Return whether an epoch's value is a loss or a score."""
    return name == "train_loss" or name.startswith("selection_")


def _log(records: StudyRecords, folder: RunFolder, epochs: Sequence[EpochLine], running: bool) -> Html:
    """Tell what its records say of it, from its first attempt to how it ended: its last lines, and all of them to unfold."""
    row, (unit, first) = records.rows[0], ("step", 0) if records.is_own else ("epoch", 1)
    once = {line.epoch: line for line in epochs}.values()
    lines = [*_attempts(folder), *(f"{unit} {line.epoch + first}: {_values(line)}" for line in once)]
    if running:
        lines.append("under way")
    elif row.failure is not None:
        after = f" after {plural(row.failure.attempts, 'attempt')}" if row.failure.attempts else ""
        lines.append(f"failed{after} ({row.failure.error_class}): {row.failure.error}")
    elif row.stopped is not None:
        by = f" by {row.stopped.by}" if row.stopped.by else ""
        lines.append(f"stopped early after {unit} {row.stopped.epoch + first}{by}")
    elif row.result is not None:
        lines.append(f"{row.status}{f', {row.found.error}' if row.found.error else ''}")
    if not lines:
        return Html('<p class="note">It has not begun.</p>')
    whole = fold(f"All {len(lines):,} lines", markup("code", "\n".join(lines[-LONG:]))) if len(lines) > SHORT else ""
    return Html(markup("code", "\n".join(lines[-SHORT:])) + whole)


def _attempts(folder: RunFolder) -> Iterator[str]:
    count = 0
    for line in read_log(folder.attempts, Attempt):
        if line.started is not None:
            count += 1
            made = f", commit {line.commit}{' with changes' * line.dirty}" if line.commit else ""
            yield f"{line.started}  attempt {count} began{f' on {line.host}' if line.host else ''}{made}"
        elif line.ended is not None:
            yield f"{line.ended}  left {'a drained node' if line.drained else 'its node'}"


def _values(line: EpochLine) -> str:
    values = {name: value for name, value in line.values.items() if value is not None}
    told = [
        f"{inline(name)} {number(name, value)} {metric(name).unit}".strip()
        for name, value in values.items()
        if name not in UNDRAWN
    ]
    told += [duration(values["seconds"])] if "seconds" in values else []
    told += [f"{values['images_per_second']:,.0f} images/s"] if "images_per_second" in values else []
    return ", ".join(told)


def _machine(row: Row) -> str:
    """Show where it ran, and how much of it it used, as far as that was recorded."""
    used = ("cores_used", "gpu_use", "peak_memory_mb", "images_per_second", "epoch_seconds")
    told = [(metric(name).title, quantity(name, value)) for name in used if (value := row.value(name))]
    made = origin(row.provenance)
    cores = f", {made['cores']} cores" if made["cores"] else ""
    where = [("Host", made["host"]), ("CPU", made["cpu"] and f"{made['cpu']}{cores}"), ("GPU", made["gpu"] or "none")]
    return markup("facts", [(name, str(value)) for name, value in [*where, *told] if value])


def _settings(records: StudyRecords, baseline: Json | None) -> str:
    config, rows = records.configs[0], named_settings(records, records.plan.changes)
    own = named_settings(records, config)
    told = "" if baseline is None else "<h3>Against the baseline</h3>" + difference([baseline, config], ("baseline", "this run"))
    if rows:
        told += words_table("Set on the command line", ("set on the command line, for the baseline too", "value"), rows)
    return told + fold(f"All {len(own)} settings", words_table("Settings", ("field", "value"), own))


def _hang(folder: RunFolder) -> Html:
    """Show the last lines that a watchdog wrote of a worker that hung."""
    told = ""
    for log in sorted(folder.path.glob("hang-*.log")):
        told += f"<h3>{text(log.name)}</h3>{_tail(log)}"
    return Html(told)


def _tail(log: Path) -> Html:
    """Return the last lines of a file that may be long."""
    with open(log, "rb", opener=descriptor) as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        return Html(markup("code", "\n".join(file.read(TAIL).decode(errors="replace").strip().splitlines()[-SHORT:])))
