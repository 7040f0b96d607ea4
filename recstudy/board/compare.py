"""`/compare?a=...&b=...`: two runs, or two studies, beside each other."""

import pandas as pd

from recstudy.analysis.cells import cell_of
from recstudy.analysis.figures.learning import COLUMNS, learning_figure
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, figure_box, table, warning_lines, words_table
from recstudy.analysis.rows import origin
from recstudy.analysis.tables.render import cell_text
from recstudy.board.markup import Address, Page, Recipe, Same, page_of, run_link, study_link, text
from recstudy.board.overview import compare_form
from recstudy.board.run import difference, measured, run_records
from recstudy.board.runlist import first_metric
from recstudy.board.sources import Sources
from recstudy.config import flatten
from recstudy.errors import ConfigError
from recstudy.records import EpochLine, read_log
from recstudy.report import LearningCurves
from recstudy.report.names import DASH, axis_title, metric, number

SIDES = ("a", "b")


def compare_page(sources: Sources, address: Address) -> Page:
    """A form, and under it two of the same kind, as the address names them, or why there is nothing to compare."""
    a, b = (address.get(side).strip() for side in SIDES)
    asked = Recipe("form", "", (a, b, tuple(sources.watch.studies)), lambda: f"<h1>Compare</h1>{compare_form(sources, a, b)}")
    if not (a and b):
        return Page("Compare", [asked])
    try:
        return Page("Compare", [asked, *_beside(sources, a, b, address)])
    except ConfigError as error:
        problem = warning_lines([str(error)])
        return Page("Compare", [asked, Recipe("problem", "", problem, lambda: problem)])


def _beside(sources: Sources, a: str, b: str, address: Address) -> list[Recipe]:
    if ("/" in a) != ("/" in b):
        run, study = (b, a) if "/" in a else (a, b)
        raise ConfigError(f"{run!r} is a run and {study!r} a study. Give two run ids, or two studies as NAME/PRESET.")
    return _studies(sources, a, b, address) if "/" in a else _runs(sources, a, b)


# ----------------------------------------------------------------------------------------------------------------- runs


def _runs(sources: Sources, a: str, b: str) -> list[Recipe]:
    sides = [run_records(sources, run_id)[0] for run_id in (a, b)]
    needs = tuple(Same(sources.watch.runs.get(run_id)) for run_id in (a, b))
    return [
        Recipe("runs", "The runs", needs, lambda: _which(sides)),
        Recipe("numbers", "Numbers", needs, lambda: _numbers(sides)),
        Recipe("curves", "Curves", (needs, sources.live()), lambda: _curves(sides)),
        Recipe("settings", "Settings", needs, lambda: difference(sides[0].configs[0], sides[1].configs[0], ("a", "b"))),
        Recipe("provenance", "Provenance", needs, lambda: _provenance(sides)),
    ]


def _which(sides: list[StudyRecords]) -> str:
    rows = [
        [text(side), run_link(run.id, run.label), text(run.seed), text(run.status)]
        for side, records in zip(SIDES, sides, strict=True)
        for run in records.rows
    ]
    return table("The runs", ("", "run", "seed", "status"), rows, {1: "prose"})


def _numbers(sides: list[StudyRecords]) -> str:
    one, other = (measured(records.rows[0]) for records in sides)
    rows = []
    for name in dict.fromkeys([*one, *other]):
        values = [side.get(name) for side in (one, other)]
        shown = [DASH if value is None else number(name, value) for value in values]
        rows.append([text(words) for words in (metric(name).heading, *shown, _apart(name, values[0], values[1]))])
    return table("Numbers", ("what", "a", "b", "b minus a"), rows) if rows else "<p>Neither has finished.</p>"


def _apart(name: str, one: float | None, other: float | None) -> str:
    """With its sign, and as many decimals as both have."""
    if one is None or other is None:
        return ""
    return "+" * (other > one) + number(name, other - one)


def _curves(sides: list[StudyRecords]) -> str:
    """Loss and score of both, a line each."""
    rows = []
    for at, (side, records) in enumerate(zip(SIDES, sides, strict=True)):
        run = records.rows[0]
        label = f"{side}: {run.label}, seed {run.seed}"
        for line in {line.epoch: line for line in read_log(records.results.run(run.id).epochs, EpochLine)}.values():
            named = {"variant": at, "label": label, "epoch": line.epoch + 1, "n": 1, "synthetic": False}
            drawn = [name for name in line.values if name == "train_loss" or name.startswith("selection_")]
            rows += [named | {"metric": name} | dict.fromkeys(("mean", "low", "high"), line.values[name]) for name in drawn]
    data = pd.DataFrame(rows, columns=COLUMNS)
    if data.empty:
        return "<p>Neither has finished an epoch.</p>"
    spec = LearningCurves(title="Both runs", metrics=tuple(dict.fromkeys(data["metric"])))
    return figure_box(learning_figure(data, spec), "Curves of both runs")


def _provenance(sides: list[StudyRecords]) -> str:
    made = [origin(records.rows[0].provenance) if records.rows[0].result else {} for records in sides]
    names = dict.fromkeys(name for one in made for name in one)
    rows = [(axis_title(f"provenance.{name}"), *(str(one.get(name, "")) for one in made)) for name in names]
    apart = [row for row in rows if row[1] != row[2]]
    return words_table("Provenance that differs", ("what", "a", "b"), apart) if apart else "<p>Nothing differs.</p>"


# -------------------------------------------------------------------------------------------------------------- studies


def _studies(sources: Sources, a: str, b: str, address: Address) -> list[Recipe]:
    studies = [(name.partition("/")[0], name.partition("/")[2]) for name in (a, b)]
    sides = [sources.kept.records(study) for study in studies]
    needs, bases = tuple(map(Same, sides)), [flatten(side.plan.base) for side in sides]
    links = Html(", ".join(f"{side}: {study_link(*study)}" for side, study in zip(SIDES, studies, strict=True)))
    return [
        Recipe("studies", "The studies", needs, lambda: f"<p>{links}</p>{_scores(sides, address)}"),
        Recipe("base", "Base settings", needs, lambda: difference(bases[0], bases[1], SIDES)),
    ]


def _scores(sides: list[StudyRecords], address: Address) -> str:
    """A row a label that either has, a column a study: mean, interval and n of the first metric of its first table."""
    names = [first_metric(records) for records in sides]
    labels = list(dict.fromkeys(variant.label for records in sides for variant in records.variants))
    shown, pages = page_of(address, "rows", len(labels))
    at: list[dict[str, int]] = [{variant.label: index for index, variant in enumerate(side.variants)} for side in sides]
    columns = list(zip(sides, at, names, strict=True))
    rows = [[text(label), *(_cell(side, where.get(label), name) for side, where, name in columns)] for label in labels[shown]]
    heads = ("variant", *(f"{side}: {metric(name).heading}" for side, name in zip(SIDES, names, strict=True)))
    return table("Scores by variant", heads, rows) + pages


def _cell(records: StudyRecords, variant: int | None, name: str) -> Html:
    return text(DASH if variant is None else cell_text(cell_of(records, [variant], name, records.by_variant[variant])))
