"""`/compare?runs=ID,ID` or `?a=...&b=...`: 2 to 12 runs, or two studies, beside each other."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from recstudy.analysis.cells import cell
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, code, table, warning_lines, words_table
from recstudy.analysis.rows import origin
from recstudy.analysis.tables.render import cell_text
from recstudy.board.curves import curves_html, drawn_as, run_curves
from recstudy.board.markup import Address, Page, Recipe, Same, page_of, run_link, state, study_link, text
from recstudy.board.overview import compare_form
from recstudy.board.run import DRAWN, difference, measured, run_records
from recstudy.board.runlist import FEWEST, MOST
from recstudy.board.sources import Sources, main_metric, some_variants
from recstudy.board.study import part_html
from recstudy.config import flatten
from recstudy.errors import ConfigError
from recstudy.opened import there
from recstudy.records import EpochLine, read_log
from recstudy.records.study_schema import PlannedRun
from recstudy.report import Captions, Differences, Thinking
from recstudy.report.names import DASH, axis_title, metric, number

SIDES = "abcdefghijkl"  # what each is called
COMMIT = re.compile(r"[0-9a-f]{7,40}")


def compare_page(sources: Sources, address: Address) -> Page:
    """Return runs, or two studies, as the address names them, or why there is nothing to compare; and a form for two others."""
    chosen = address.compared
    form = "" if len(chosen) > 2 else compare_form(sources, *chosen)
    asked = Recipe("form", "", form, lambda: f"<h1>Compare</h1>{form}")
    if len(chosen) < FEWEST:
        return Page("Compare", [asked])
    try:
        studies = [side for side in chosen if "/" in side]
        if studies and len(studies) < len(chosen):
            run = next(side for side in chosen if "/" not in side)
            raise ConfigError(f"{run!r} is a run and {studies[0]!r} a study. Give two run ids, or two studies as NAME/PRESET.")
        beside = _studies(sources, studies[:2], address) if studies else _runs(sources, chosen, address)
    except ConfigError as error:
        problem = warning_lines([str(error)])
        beside = [Recipe("problem", "", problem, lambda: problem)]
    return Page("Compare", [asked, *beside])


# ----------------------------------------------------------------------------------------------------------------- runs


def _runs(sources: Sources, run_ids: Sequence[str], address: Address) -> list[Recipe]:
    if len(run_ids) > MOST:
        raise ConfigError(f"{len(run_ids)} runs are too many to tell apart: compare {FEWEST} to {MOST}.")
    sides, heads = [run_records(sources, run_id)[0] for run_id in run_ids], SIDES[: len(run_ids)]
    needs = tuple(Same(sources.poller.runs.get(run_id)) for run_id in run_ids)
    drawn = (needs, sources.poller.live(), drawn_as(address))
    study = _shared(sources, run_ids)
    of = (Same(study[0]), tuple(study[1])) if study else ()
    differences = (
        [Recipe("differences", "Differences", of, lambda: _differences(*study))] if study and main_metric(study[0]) else []
    )
    return [
        Recipe("runs", "The runs", needs, lambda: _which(sides)),
        *differences,
        Recipe("curves", "Curves", drawn, lambda: _curves(sides, address)),
        *_kept(sides, needs),
        Recipe("settings", "Settings", needs, lambda: difference([side.configs[0] for side in sides], heads)),
        Recipe("code", "Code", needs, lambda: _code(sides)),
        Recipe("numbers", "Numbers", needs, lambda: _numbers(sides)),
        Recipe("provenance", "Provenance", needs, lambda: _provenance(sides)),
    ]


def _kept(sides: list[StudyRecords], needs: object) -> list[Recipe]:
    """Show what runs kept of their answers, as each run's page does, beside each other, where two of them have some."""
    found = []
    for key in ("mistakes", "captions", "thinking", "attention"):
        title, file, states, _ = DRAWN[key]
        having = [
            (side, records)
            for side, records in zip(SIDES, sides, strict=False)
            if records.rows[0].status in states and there(records.results.run(records.rows[0].id).path / file)
        ]
        if len(having) > 1:
            found.append(Recipe(key, title, needs, partial(_drawn, having, key)))
    return found


def _drawn(having: Sequence[tuple[str, StudyRecords]], key: str) -> str:
    """Draw in one what compares its variants itself, such as the captions of one image; else a column a run."""
    part = DRAWN[key][3][0]
    if isinstance(part, Captions | Thinking):
        return part_html(_as_variants(having), part)
    columns = "".join(
        f"<div><h3>{text(f'{side}: {records.rows[0].label}, seed {records.rows[0].seed}')}</h3>{part_html(records, part)}</div>"
        for side, records in having
    )
    return f'<div class="beside">{columns}</div>'


def _as_variants(having: Sequence[tuple[str, StudyRecords]]) -> StudyRecords:
    """Return the runs as if they were one study's, each a variant of its own, named by its side."""
    first, variants, rows = having[0][1], [], []
    for at, (side, records) in enumerate(having):
        run = records.rows[0]
        label = f"{side}: {run.label}"  # what is drawn names the seed itself
        variants.append(replace(records.variants[0], label=label, changes=records.configs[0]))
        rows.append(replace(run, variant=at, label=label))
    runs = tuple(PlannedRun(row.variant, row.seed, row.id) for row in rows)
    plan = replace(first.plan, base={}, variants=tuple(variants), seeds=tuple(dict.fromkeys(row.seed for row in rows)), runs=runs)
    return StudyRecords(first.results, plan, rows, trust=first.trust)


def _which(sides: list[StudyRecords]) -> str:
    runs = [records.rows[0] for records in sides]
    rows = [
        [text(side), run_link(run.id, run.label), text(run.seed), state(run.status)]
        for side, run in zip(SIDES, runs, strict=False)
    ]
    return table("The runs", ("", "run", "seed", "status"), rows, {1: "prose"})


def _shared(sources: Sources, run_ids: Sequence[str]) -> tuple[StudyRecords, list[int]] | None:
    """Return the study that names all of these runs, and their variants, where they are of several."""
    for study in sources.poller.studies_of(run_ids[0]):
        named = sources.poller.studies[study].named
        variants = list(dict.fromkeys(named[run_id][0] for run_id in run_ids if run_id in named))
        if len(variants) > 1 and named.keys() >= set(run_ids):
            return sources.records(study), variants
    return None


def _differences(records: StudyRecords, variants: list[int]) -> str:
    """Show each variant minus that of the first run, over all of their seeds."""
    name, base = main_metric(records), records.variants[variants[0]].label
    note = f'<p class="note">Over all finished seeds of these variants, not only the runs above; against {text(base)}.</p>'
    return note + part_html(some_variants(records, variants), Differences(metric=name, base=base))


def _numbers(sides: list[StudyRecords]) -> str:
    """Show a column a run; of two, also how far they are apart, with a sign and as many decimals as both have."""
    found = [measured(records.rows[0]) for records in sides]
    rows = []
    for name in dict.fromkeys(name for side in found for name in side):
        values = [side.get(name) for side in found]
        shown = [DASH if value is None else number(name, value) for value in values]
        if len(values) == 2:
            one, other = values
            shown.append("" if one is None or other is None else "+" * (other > one) + number(name, other - one))
        rows.append([text(words) for words in (metric(name).heading, *shown)])
    heads = ("what", *SIDES[: len(sides)], *(["b minus a"] if len(sides) == 2 else []))
    return table("Numbers", heads, rows) if rows else "<p>None has finished.</p>"


def _curves(sides: list[StudyRecords], address: Address) -> str:
    """Draw loss and score of each, a line each."""
    runs = [(side, records.rows[0], records.results) for side, records in zip(SIDES, sides, strict=False)]
    data = run_curves(
        (
            f"{side}: {run.label}, seed {run.seed}",
            {line.epoch: line for line in read_log(results.run(run.id).epochs, EpochLine)}.values(),
        )
        for side, run, results in runs
    )
    return "<p>None has finished an epoch.</p>" if data.empty else curves_html(data, "Curves of these runs", address)


def _code(sides: list[StudyRecords]) -> str:
    """Name the user files in which each run differs from the first, and give the command that compares the commits."""
    first, shown = sides[0].rows[0].provenance, ""
    for name, side in zip(SIDES[1:], sides[1:], strict=False):
        made, told = side.rows[0].provenance, f"from a to {name}"
        files = sorted(path for path in first.files.keys() | made.files.keys() if first.files.get(path) != made.files.get(path))
        shown += f"<p>User files that differ {text(told)}: {text(', '.join(files))}.</p>" if files else ""
        commits = [(by.recstudy or by.made_by).rpartition(", then ")[2].removesuffix(" with changes") for by in (first, made)]
        if commits[0] != commits[1] and all(map(COMMIT.fullmatch, commits)):
            shown += f"<p>The commits differ {text(told)}:</p>" + code(shlex.join(["git", "diff", *commits]))
    return shown or "<p>No difference is recorded.</p>"


def _provenance(sides: list[StudyRecords]) -> str:
    made = [origin(records.rows[0].provenance) if records.rows[0].result else {} for records in sides]
    names = dict.fromkeys(name for one in made for name in one)
    rows = [(axis_title(f"provenance.{name}"), *(str(one.get(name, "")) for one in made)) for name in names]
    apart = [row for row in rows if len(set(row[1:])) > 1]
    heads = ("what", *SIDES[: len(sides)])
    return words_table("Provenance that differs", heads, apart) if apart else "<p>Nothing differs.</p>"


# -------------------------------------------------------------------------------------------------------------- studies


def _studies(sources: Sources, chosen: Sequence[str], address: Address) -> list[Recipe]:
    studies = [(name.partition("/")[0], name.partition("/")[2]) for name in chosen]
    sides = [sources.records(study) for study in studies]
    needs, bases = tuple(map(Same, sides)), [flatten(side.plan.base) for side in sides]
    links = Html(", ".join(f"{side}: {study_link(*study)}" for side, study in zip(SIDES, studies, strict=False)))
    return [
        Recipe("studies", "The studies", (needs, address), lambda: f"<p>{links}</p>{_scores(sides, address)}"),
        Recipe("base", "Base settings", needs, lambda: difference(bases, SIDES[:2])),
    ]


def _scores(sides: list[StudyRecords], address: Address) -> str:
    """Show a row a label that either has, a column a study: mean, interval and n of the metric by which it is judged."""
    columns = [(side, {one.label: at for at, one in enumerate(side.variants)}, main_metric(side)) for side in sides]
    labels = list(dict.fromkeys(label for _, places, _ in columns for label in places))
    shown, pages = page_of(address, "rows", len(labels))
    rows = [[text(label), *(_cell(side, places.get(label), name) for side, places, name in columns)] for label in labels[shown]]
    heads = ("variant", *(f"{side}: {metric(name).heading}" for side, (_, _, name) in zip(SIDES, columns, strict=False)))
    return table("Scores by variant", heads, rows) + pages


def _cell(records: StudyRecords, variant: int | None, name: str) -> Html:
    return text(DASH if variant is None else cell_text(cell(records, [variant], name)))
