"""`/compare?runs=ID,ID` or `?a=...&b=...`: 2 to 12 runs, or two studies, beside each other."""

from collections.abc import Sequence

import pandas as pd

from recstudy.analysis.cells import cell
from recstudy.analysis.figures.learning import COLUMNS
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, table, warning_lines, words_table
from recstudy.analysis.rows import origin
from recstudy.analysis.tables.render import cell_text
from recstudy.board.columns import first_metric
from recstudy.board.curves import curves_html, drawn_as
from recstudy.board.markup import Address, Page, Recipe, Same, page_of, run_link, state, study_link, text
from recstudy.board.overview import compare_form
from recstudy.board.rows import some_variants
from recstudy.board.run import difference, measured, run_records
from recstudy.board.runlist import FEWEST, MOST
from recstudy.board.sources import Sources, compared
from recstudy.board.study import part_html
from recstudy.config import flatten
from recstudy.errors import ConfigError
from recstudy.records import EpochLine, read_log
from recstudy.report import Differences
from recstudy.report.names import DASH, axis_title, metric, number

SIDES = "abcdefghijkl"  # what each is called


def compare_page(sources: Sources, address: Address) -> Page:
    """Runs, or two studies, as the address names them, or why there is nothing to compare; and a form for two others."""
    chosen = compared(address)
    a, b = (*chosen, "", "")[:2]
    form = "" if len(chosen) > 2 else compare_form(sources, a, b)
    asked = Recipe("form", "", form, lambda: f"<h1>Compare</h1>{form}")
    if len(chosen) < FEWEST:
        return Page("Compare", [asked])
    try:
        return Page("Compare", [asked, *_beside(sources, chosen, address)])
    except ConfigError as error:
        problem = warning_lines([str(error)])
        return Page("Compare", [asked, Recipe("problem", "", problem, lambda: problem)])


def _beside(sources: Sources, chosen: Sequence[str], address: Address) -> list[Recipe]:
    studies = [side for side in chosen if "/" in side]
    if not studies:
        return _runs(sources, chosen, address)
    if len(studies) < len(chosen):
        run = next(side for side in chosen if "/" not in side)
        raise ConfigError(f"{run!r} is a run and {studies[0]!r} a study. Give two run ids, or two studies as NAME/PRESET.")
    return _studies(sources, studies[:2], address)


# ----------------------------------------------------------------------------------------------------------------- runs


def _runs(sources: Sources, run_ids: Sequence[str], address: Address) -> list[Recipe]:
    if len(run_ids) > MOST:
        raise ConfigError(f"{len(run_ids)} runs are too many to tell apart: compare {FEWEST} to {MOST}.")
    sides = [run_records(sources, run_id)[0] for run_id in run_ids]
    needs = tuple(Same(sources.watch.runs.get(run_id)) for run_id in run_ids)
    study = _shared(sources, run_ids)
    of = (Same(study[0]), tuple(study[1])) if study else ()
    differences = [Recipe("differences", "Differences", of, lambda: _differences(*study))] if study else []
    return [
        Recipe("runs", "The runs", needs, lambda: _which(sides)),
        *differences,
        Recipe("curves", "Curves", (needs, sources.live(), drawn_as(address)), lambda: _curves(sides, address)),
        Recipe("settings", "Settings", needs, lambda: difference([side.configs[0] for side in sides], SIDES[: len(sides)])),
        Recipe("numbers", "Numbers", needs, lambda: _numbers(sides)),
        Recipe("provenance", "Provenance", needs, lambda: _provenance(sides)),
    ]


def _which(sides: list[StudyRecords]) -> str:
    rows = [
        [text(side), run_link(run.id, run.label), text(run.seed), state(run.status)]
        for side, records in zip(SIDES, sides, strict=False)
        for run in records.rows
    ]
    return table("The runs", ("", "run", "seed", "status"), rows, {1: "prose"})


def _shared(sources: Sources, run_ids: Sequence[str]) -> tuple[StudyRecords, list[int]] | None:
    """The study that names all of these runs, and their variants, where they are of several."""
    for study in sources.studies_of(run_ids[0]):
        named = sources.watch.studies[study].named
        variants = list(dict.fromkeys(named[run_id][0] for run_id in run_ids if run_id in named))
        if len(variants) > 1 and named.keys() >= set(run_ids):
            return sources.kept.records(study), variants
    return None


def _differences(records: StudyRecords, variants: list[int]) -> str:
    """Each variant minus that of the first run, over all of their seeds."""
    name, base = first_metric(records), records.variants[variants[0]].label
    note = f'<p class="note">Over all finished seeds of these variants, not only the runs above; against {text(base)}.</p>'
    return note + part_html(some_variants(records, variants), Differences(metric=name, base=base))


def _numbers(sides: list[StudyRecords]) -> str:
    """A column a run; of two, also how far they are apart."""
    found = [measured(records.rows[0]) for records in sides]
    rows = []
    for name in dict.fromkeys(name for side in found for name in side):
        values = [side.get(name) for side in found]
        shown = [DASH if value is None else number(name, value) for value in values]
        apart = [_apart(name, values[0], values[1])] if len(values) == 2 else []
        rows.append([text(words) for words in (metric(name).heading, *shown, *apart)])
    heads = ("what", *SIDES[: len(sides)], *(["b minus a"] if len(sides) == 2 else []))
    return table("Numbers", heads, rows) if rows else "<p>None has finished.</p>"


def _apart(name: str, one: float | None, other: float | None) -> str:
    """With its sign, and as many decimals as both have."""
    if one is None or other is None:
        return ""
    return "+" * (other > one) + number(name, other - one)


def _curves(sides: list[StudyRecords], address: Address) -> str:
    """Loss and score of each, a line each."""
    rows = []
    for at, (side, records) in enumerate(zip(SIDES, sides, strict=False)):
        run = records.rows[0]
        label = f"{side}: {run.label}, seed {run.seed}"
        for line in {line.epoch: line for line in read_log(records.results.run(run.id).epochs, EpochLine)}.values():
            named = {"variant": at, "label": label, "epoch": line.epoch + 1, "n": 1, "synthetic": False}
            drawn = [name for name in line.values if name == "train_loss" or name.startswith("selection_")]
            rows += [named | {"metric": name} | dict.fromkeys(("mean", "low", "high"), line.values[name]) for name in drawn]
    data = pd.DataFrame(rows, columns=COLUMNS)
    if data.empty:
        return "<p>None has finished an epoch.</p>"
    return curves_html(data, "Curves of these runs", address)


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
    sides = [sources.kept.records(study) for study in studies]
    needs, bases = tuple(map(Same, sides)), [flatten(side.plan.base) for side in sides]
    links = Html(", ".join(f"{side}: {study_link(*study)}" for side, study in zip(SIDES, studies, strict=False)))
    return [
        Recipe("studies", "The studies", needs, lambda: f"<p>{links}</p>{_scores(sides, address)}"),
        Recipe("base", "Base settings", needs, lambda: difference(bases, SIDES[:2])),
    ]


def _scores(sides: list[StudyRecords], address: Address) -> str:
    """A row a label that either has, a column a study: mean, interval and n of the first metric of its first table."""
    names = [first_metric(records) for records in sides]
    labels = list(dict.fromkeys(variant.label for records in sides for variant in records.variants))
    shown, pages = page_of(address, "rows", len(labels))
    at: list[dict[str, int]] = [{variant.label: index for index, variant in enumerate(side.variants)} for side in sides]
    columns = list(zip(sides, at, names, strict=True))
    rows = [[text(label), *(_cell(side, where.get(label), name) for side, where, name in columns)] for label in labels[shown]]
    heads = ("variant", *(f"{side}: {metric(name).heading}" for side, name in zip(SIDES, names, strict=False)))
    return table("Scores by variant", heads, rows) + pages


def _cell(records: StudyRecords, variant: int | None, name: str) -> Html:
    return text(DASH if variant is None else cell_text(cell(records, [variant], name)))
