"""Write docs/studies (one page per study) and the generated part of docs/tour.md.

    python docs/tools/study_pages.py                        rewrite the generated parts
    python docs/tools/study_pages.py --take STUDY/PRESET    first copy that study's tables from ./results
    python docs/tools/study_pages.py --take-bundles         first copy the tables of all bundles in ./studies
    python docs/tools/study_pages.py --check                only check that they are up to date (make check)

Both copy results into `studies/tables/` with their date and machine, so that a fresh clone shows them without
running anything. If a rule of evidence changes, `--take-bundles` judges the bundles by the new rule.
"""

import importlib.util
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Annotated, Any

import tyro
import yaml

from recstudy import Search, Study
from recstudy.base.errors import ConfigError, nearest
from recstudy.base.terminal import finish
from recstudy.base.values import flatten
from recstudy.evidence import Verdict
from recstudy.papers import Target, by_name, cite_item
from recstudy.papers.replications import CELLS
from recstudy.programs.settings import Resources
from recstudy.publishing.bundle import open_bundle
from recstudy.records import Results, write_whole
from recstudy.recursive import DATASETS, FAMILIES, Alignment, Reader, TrainConfig
from recstudy.recursive.config.fields import describe_fields
from recstudy.report import Arithmetic, Best, Claims, FigurePart, Table, writers
from recstudy.report.family import family, published_answers
from recstudy.report.figures.forest import clip_percent, combine_cell, replication_rows, summarize
from recstudy.report.findings import claim_text, findings
from recstudy.report.kinds import make_table, render_part
from recstudy.report.names import DASH, study_title
from recstudy.report.parts import BesidePublished, OfVariants, parts_of
from recstudy.report.question_rows import QuestionRow
from recstudy.report.study_records import load_study
from recstudy.report.tables.arithmetic import counted_claims
from recstudy.report.tables.question_table import needed_words, verdict_words
from recstudy.report.targets import match_targets
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies"
TABLES, EVIDENCE = STUDIES / "tables", STUDIES / "evidence"
BLANK = "not stated"  # a setting that the paper leaves open
NOT_JUDGED = "not judged"
LATER_CLAIM = "Not judged: the claim was added, or its margin changed, after these results were recorded."
RULES = "fourth edition"  # the rules of evidence that judge results today
EARLIER_RULES = """\
These verdicts follow the rules before 2026-11-29: a variant with a large variance borrowed from the others,
three equal seeds at a bound were decided, and a published value could differ at any look. A rerun of the
study may change the verdicts."""
COUNTED = """\
[What a verdict means](../how-to/verdicts.md). *Values* counts the published values of a table or figure.
The verdicts count only these values, once for each variant that they are compared with."""
REPLICATIONS = """\
A published number usually comes from a single run. This page lists other measurements of the same quantity,
as their sources print them (`recstudy/recursive/papers/replications.csv`). The mean covers the independent
retrainings, one row per run. It leaves out the published run and our own runs. Weights that were re-evaluated
or fine-tuned are not a new training run, and a row in another paper's table may be a copy. The random-effects
model is that of Paule and Mandel. *tau* is the variation between retrainings that test items and rounding do
not explain. *Next retraining* is the 95 % prediction interval of one more run. Some authors picked their best
epoch on the test set, and tau includes this choice. In a study,
`Replications(cell="trm_mlp_sudoku_extreme")` plots these values with the study's comparable runs."""
COVERAGE = """\
This page lists what readers of the five papers look for, and which study answers it.

- *exact*: the preset `paper` answers the item as the paper does.
- *partial*: a study answers it with the stated difference.
- *missing*: no study answers it.

The status refers to the question, not to its result. The page of each study shows the answers, and the
settings in which the preset `paper` differs from its paper. The brackets name the presets that contain the
part, claim, variant or setting. The preset `paper` uses the paper's data. An item is exact only if the preset
`paper` has its answer, and if runs of that preset can be judged against the item's published values."""
JUDGED = """\
The table counts the published values that a part of a preset `paper` compares. A value can be judged if a
variant has the settings of its source. For the others, the table counts the first reason against it."""
DRAWN_REASON = "drawn beside ours, without a verdict"  # published pairs of an alignment plot
GIVEN_REASON = "the study puts it in, or the paper does not print it"
SHOWN_REASONS = 3  # the most frequent reasons against a comparison, for each published table
ANSWERS = (
    "part",
    "claim",
    "variant",
    "setting",
)  # the things of a study that may answer an item of coverage.yaml
STATUSES = ("exact", "partial", "missing")
QUICK_RESULTS = "vitrm_depth_sweep.quick"  # the results that docs/tour.md shows
PAGES = ROOT / "docs" / "studies"
PUBLISHED = ROOT / "recstudy" / "recursive" / "papers"
PAPERS = yaml.safe_load((PUBLISHED / "index.yaml").read_text(encoding="utf-8"))["papers"]
PICTURES = ROOT / "docs" / "pictures"
WITH_PAGE = yaml.safe_load((ROOT / "docs" / "data" / "sets.yaml").read_text(encoding="utf-8"))  # data sets


@dataclass(frozen=True)
class Options:
    """Rewrite docs/studies and the generated part of docs/tour.md."""

    take: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Copy the results of STUDY/PRESET. May be given more than once."""
    take_bundles: bool = False
    """Copy the results of every bundle in studies/evidence."""
    results: Path = Path("results")
    """The results folder to copy from."""
    check: bool = False
    """Write nothing. Exit with code 1 if a page is out of date."""


def main(options: Options) -> int:
    for name in options.take:
        take(Results(options.results), *name.split("/", 1))
    for bundle in sorted(EVIDENCE.glob("*.zip")) if options.take_bundles else ():
        take_bundle(bundle)
    studies, tables = (
        load_studies(),
        {path.stem: json.loads(path.read_bytes()) for path in sorted(TABLES.glob("*.json"))},
    )
    pages = {PAGES / f"{study.name}.md": page(study, tables) for study in studies}
    pages[PAGES / "index.md"] = index(studies, tables)
    pages[PAGES / "coverage.md"] = coverage(
        studies, yaml.safe_load((PUBLISHED / "coverage.yaml").read_text(encoding="utf-8"))
    )
    tour = PAGES.parent / "tour.md"
    pages[tour] = quick(tour.read_text(encoding="utf-8"), tables[QUICK_RESULTS])
    pages[PAGES.parent / "api" / "fields.md"] = fields()
    pages[PAGES.parent / "replications.md"] = replications()
    stale = [
        path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    obsolete_pages = [path for path in PAGES.glob("*.md") if path not in pages]
    if options.check:
        for path in (*stale, *obsolete_pages):
            print(f"{path.relative_to(ROOT)} is out of date: run `make readme`", file=sys.stderr)
        return 1 if stale or obsolete_pages else 0
    for path in stale:
        write_whole(path, pages[path])
    for path in obsolete_pages:
        path.unlink()
    return 0


def load_studies() -> list[Study | Search]:
    """Load every study and search of `studies/`, with its module docstring as the question."""
    modules = [
        load(path)
        for path in sorted(STUDIES.glob("*.py"))
        if "\nstudy = " in path.read_text(encoding="utf-8")
    ]
    return [replace(module.study, question=module.__doc__) for module in modules]


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def take(results: Results, name: str, preset: str) -> None:
    """Copy a study's tables, verdicts and provenance into `studies/tables/`."""
    records = load_study(results, name, preset)
    done = [row for row in records.rows if row.done]
    finished_runs = {row.id: row for row in done}.values()  # variants with equal settings share their runs
    measured = {
        part.name: make_table(records, part) for part in parts_of(records) if isinstance(part, Table | Best)
    }
    counted = [
        claim for part in parts_of(records) if isinstance(part, Arithmetic) for claim in counted_claims(part)
    ]
    rows = [row for table in measured.values() for row in table.rows]
    comparisons = [
        (match.target, row.label, answer.verdict)
        for row in rows
        for cell in row.cells
        for match, answer in published_answers(cell)
    ]
    comparisons += [(claim.target, "", claim.verdict) for claim in counted]
    alignments = [part for part in parts_of(records) if isinstance(part, Alignment)]
    # The published pairs of an alignment plot show other images.
    comparisons += [(target, "", "not comparable") for part in alignments for target in part.targets]
    judged = [
        row for part in parts_of(records) if isinstance(part, Claims) for row in family(records, part).rows
    ]
    tables_by_part = {
        part.name: render_part(records, part).table_below
        for part in parts_of(records)
        if not isinstance(part, FigurePart)
    }
    texts = {name: writers.markdown(page) for name, page in tables_by_part.items() if page}
    first, machine = done[0].provenance, done[0].provenance.hardware
    content = {
        # without the results folder, which is a path of this machine
        "command": re.sub(r" --results(=| )\S+", "", records.plan.command),
        "runs": f"{len(finished_runs)} of {len({row.id for row in records.rows})}",
        "date": max(row.provenance.finished for row in done)[:10],
        "machine": f"{machine.cpu}, {machine.cores} cores, {machine.gpu or 'no GPU'}",
        "commit": (first.made_by or "None")[:10],
        "uncommitted changes": any(row.provenance.dirty for row in done),
        "minutes": round(sum(row.number("seconds") for row in finished_runs) / 60, 1),
        "wall seconds": wall_seconds([(row.provenance.started, row.provenance.finished) for row in done]),
        "changes": dict(records.plan.changes),
        "ids": {} if records.plan.search else ids(done),
        "rules": RULES,
        "verdicts": by_source(comparisons),
        "claims": {row.label: judged_claim(row) for row in judged},
        "findings": list(map(str, findings(records))),
        "tables": texts,
    }
    write_whole(TABLES / f"{name}.{preset}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def take_bundle(file: Path) -> None:
    """Copy the tables of the bundle STUDY.PRESET.zip."""
    with open_bundle(file) as bundle:
        take(Results(bundle.root / "results"), *file.stem.split("."))


def judged_claim(row: QuestionRow) -> dict[str, str]:
    """Return the contrast, verdict and values of a claim, and the seeds that it needs."""
    has_values = row.estimate.value is not None
    return {
        "contrast": row.contrast,
        "verdict": verdict_words(row),
        "result": claim_text(row).removeprefix(f"{row.label}: ") if has_values else "",
        "seeds needed": needed_words(row),
    }


def by_source(judged: list[tuple[Target, str, str]]) -> dict[str, dict[str, int]]:
    """Count the verdicts of each published table or figure; each value counts once per variant."""
    verdict_by_value = {
        (target.source, label): (source_of(target), verdict) for target, label, verdict in judged
    }
    counted: dict[str, Counter[str]] = {}
    for source, verdict in verdict_by_value.values():
        counted.setdefault(source, Counter())[verdict] += 1
    return {source: dict(sorted(counts.items())) for source, counts in sorted(counted.items())}


def source_of(target: Target) -> str:
    """Return the paper and its table or figure, without the row."""
    return target.source.split(" (")[0]


def wall_seconds(spans: list[tuple[str, str]]) -> int:
    """Return the seconds in which at least one run was running; several commands may have started them."""
    seconds, until = 0.0, 0.0
    for start, end in sorted(
        (datetime.fromisoformat(start).timestamp(), datetime.fromisoformat(end).timestamp())
        for start, end in spans
    ):
        seconds += max(0.0, end - max(start, until))
        until = max(until, end)
    return round(seconds)


def ids(runs: list[Any]) -> dict[str, list[str]]:
    """Return the run ids of each variant; a page compares them with the ids of today's study."""
    run_ids: dict[str, list[str]] = {}
    for run in runs:
        run_ids.setdefault(run.label, []).append(run.id)
    return run_ids


def index(studies: list[Study | Search], tables: dict[str, Any]) -> str:
    """Return the text of docs/studies/index.md."""
    lines = [
        "# Studies",
        "",
        (
            "Each file of `studies/` asks one question. Dated findings, including negative ones, are in"
            " `tests/benchmarks/LOG.md`."
        ),
        "[What the studies cover](coverage.md) lists the tables, figures and claims of the five papers.",
        "",
        "| study | question | presets (runs) | recorded results |",
        "| --- | --- | --- | --- |",
    ]
    for study in studies:
        dates = {preset: tables.get(f"{study.name}.{preset}", {}).get("date") for preset in study.presets}
        results = ", ".join(f"{preset}: {date}" for preset, date in dates.items() if date)
        question = by_name(study.question.splitlines()[0])
        lines.append(
            f"| [{study_title(study.name)}]({study.name}.md) | {question} | {presets(study)}"
            f" | {results or 'none'} |"
        )
    lines += ["", "## Published values and recorded results", "", COUNTED, ""]
    lines += [*reproduced(studies, tables), "", "## Papers", "", *papers()]
    return "\n".join(lines) + "\n"


def papers() -> list[str]:
    """List the papers by their short names, with links and notes."""
    linked = (
        f"[{paper['title']}]({paper['url']})" if paper["url"] else paper["title"] for paper in PAPERS.values()
    )
    noted = (f". {paper['note']}" if "note" in paper else "" for paper in PAPERS.values())
    return [
        f"- **{paper['name']}**: {title}{note}"
        for paper, title, note in zip(PAPERS.values(), linked, noted, strict=True)
    ]


def coverage(studies: list[Study | Search], items: dict[str, list[dict[str, Any]]]) -> str:
    """Return the text of docs/studies/coverage.md.

    Args:
        studies: The studies that may answer an item.
        items: The items of coverage.yaml by paper.

    Raises:
        ConfigError: An item has no reason, names something that its study does not have, or is called exact
            although no run of the preset `paper` could be judged against its published values.
    """
    by_study = {study.name: study for study in studies}
    answers = cache(
        lambda name: {preset: answers_of(by_study[name], preset) for preset in by_study[name].presets}
    )
    placed_values = {name: published_values(study) for name, study in by_study.items()}
    counts = ["| paper | items | exact | partial | missing |", "| --- | ---: | ---: | ---: | ---: |"]
    lines = []
    for paper, paper_items in items.items():
        number = Counter(item["status"] for item in paper_items)
        counts.append(
            f"| {PAPERS[paper]['name']} | {len(paper_items)} |"
            f" {' | '.join(str(number[status]) for status in STATUSES)} |"
        )
        lines += ["", f"## {PAPERS[paper]['name']}", ""]
        lines += ["| item | status | study | answer | why |", "| --- | --- | --- | --- | --- |"]
        for item in paper_items:
            status, why, link, answer = item["status"], item.get("why", ""), DASH, DASH
            entry = f"coverage.yaml, {item['item']!r}"
            if status not in STATUSES or bool(why) == (status == "exact"):
                raise ConfigError(f"{entry}: only 'partial' and 'missing' need, and have, a reason `why`")
            if status != "missing":
                study = item.get("study", "")
                kind = next((kind for kind in ANSWERS if item.get(kind)), "part")
                if study not in by_study:
                    raise ConfigError(f"{entry}: no study {study!r}{nearest(study, by_study)}")
                names = [by_name(str(name)) for name in as_list(item.get(kind, ""))]
                presets = [
                    preset
                    for preset, texts in answers(study).items()
                    if all(is_answered(texts[kind], kind, name) for name in names)
                ]
                if not presets or (status == "exact" and "paper" not in presets):
                    preset_text = "in its preset 'paper'" if presets else "in any preset"
                    name_text = " and ".join(map(repr, names))
                    raise ConfigError(f"{entry}: {study} has no {kind} {name_text} {preset_text}")
                if status == "exact" and (kind in ("part", "variant") or "values" in item):
                    refuse_barred(entry, placed_values[study], item)
                link = f"[{study_title(study)}]({study}.md)"
                answer = f"{kind} {', '.join(f'`{name}`' for name in names)} ({', '.join(presets)})"
            words = (writers.md(item["item"]), status, link, answer, writers.md(why) or DASH)
            lines.append(f"| {' | '.join(map(by_name, words))} |")
    judged = judgeable_values([value for values in placed_values.values() for value in values])
    return "\n".join(["# What the studies cover", "", COVERAGE, "", *counts, *judged, *lines]) + "\n"


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def is_answered(texts: set[str], kind: str, name: str) -> bool:
    """Return whether a preset has this part, variant or setting, or a claim that contains this text."""
    return any(name in text for text in texts) if kind == "claim" else name in texts


def answers_of(study: Study | Search, preset: str) -> dict[str, set[str]]:
    """Return the names of a preset that may answer an item, by their kind in `ANSWERS`."""
    plan = make_plan(study, preset)
    levels = (str(level) for variant in plan.variants for level in variant.levels.values())
    settings = (flatten(config.model_dump()).items() for config in plan.configs)
    return {
        "part": {part.name for part in study.by_preset(study.report, preset)},
        "claim": set(stated_by(study, preset)),
        "variant": {*levels, *(variant.label for variant in plan.variants)},
        "setting": {f"{field}={value}" for fields in settings for field, value in fields},
    }


@dataclass(frozen=True)
class PlacedValue:
    """A published value in a part of the preset `paper`, and why no run can be judged against it."""

    study: str
    part: str
    target: Target
    reasons: tuple[str, ...]
    variants: frozenset[str]
    """labels of the variants that it is compared with, and their levels"""


def published_values(study: Study | Search) -> list[PlacedValue]:
    """Match the published values of the preset `paper` with its variants, before anything has run."""
    if isinstance(study, Search) or "paper" not in study.presets:
        return []
    placed_values: list[PlacedValue] = []
    with TemporaryDirectory() as folder:
        results = Results(Path(folder)).create()
        record_plan(make_plan(study, "paper"), results)
        records = load_study(results, study.name, "paper")
    for part in parts_of(records):
        reasons: dict[str, list[tuple[str, ...]]] = {}
        labels: dict[str, set[str]] = {}
        if isinstance(part, Arithmetic):
            for claim in counted_claims(part):
                given_reason = (GIVEN_REASON,) if claim.verdict == Verdict.GIVEN_VALUE else ()
                reasons[claim.target.source] = [(*map(by_name, claim.target.against), *given_reason)]
        elif isinstance(part, Alignment):
            reasons = {target.source: [(DRAWN_REASON,)] for target in part.targets}
        elif isinstance(part, BesidePublished):
            variants = records.chosen(part.where) if isinstance(part, OfVariants) else []
            placement = match_targets(records, part.targets, variants, part.shown_metrics)
            reasons = {target.source: [(reason,)] for target, reason in placement.unmatched_targets}
            for (index, _), matches in placement.matches.items():
                variant = records.variants[index]
                for source, match in ((match.target.source, match) for match in matches):
                    reasons.setdefault(source, []).append(match.reasons)
                    labels.setdefault(source, set()).update(
                        {variant.label, *map(str, variant.levels.values())}
                    )
        for target in getattr(part, "targets", ()):
            source = target.source
            fewest_reasons = min(reasons.get(source, [("not compared",)]), key=len)
            placed_values.append(
                PlacedValue(study.name, part.name, target, fewest_reasons, frozenset(labels.get(source, ())))
            )
    return placed_values


def refuse_barred(entry: str, placed_values: list[PlacedValue], item: dict[str, Any]) -> None:
    """Check that the published values of an exact item can be judged.

    Raises:
        ConfigError: A value of the item's part and `values` is barred, or `values` selects none.
    """
    selection = {field: as_list(value) for field, value in item.get("values", {}).items()}
    selected = [
        value
        for value in placed_values
        if value.part == item.get("part", value.part)
        and ("variant" not in item or item["variant"] in value.variants)
        and all(field_of(value.target, field) in wanted_values for field, wanted_values in selection.items())
    ]
    if selection and not selected:
        raise ConfigError(f"{entry}: no published value of {item['study']} has {item['values']}")
    for value in selected:
        if value.reasons:
            raise ConfigError(
                f"{entry}: it is not exact, for {value.target.cited} ({value.target.metric}) cannot be"
                f" judged: {'; '.join(value.reasons)}"
            )


def field_of(target: Target, field: str) -> Any:
    """Return a field of a published value, such as `metric`, or of its settings, such as `data.name`."""
    return getattr(target, field) if field in Target.model_fields else target.where.get(field)


def judgeable_values(placed_values: list[PlacedValue]) -> list[str]:
    """Return a table of the published tables: the values that a preset `paper` can be judged by."""
    best: dict[str, PlacedValue] = {}
    for value in placed_values:
        source = value.target.source
        if source not in best or len(value.reasons) < len(best[source].reasons):
            best[source] = value
    tables: dict[str, list[PlacedValue]] = {}
    for value in best.values():
        tables.setdefault(value.target.row.partition("#")[0], []).append(value)
    lines = ["", "## Published values that can be judged", "", JUDGED, ""]
    lines += ["| table | values | can be judged | why not the others |", "| --- | ---: | ---: | --- |"]
    for name, values in sorted(tables.items()):
        barred = Counter(value.reasons[0].partition("; ")[0] for value in values if value.reasons)
        why = "; ".join(f"{count}: {reason}" for reason, count in barred.most_common(SHOWN_REASONS))
        further_count = sum(barred.values()) - sum(count for _, count in barred.most_common(SHOWN_REASONS))
        why += f"; {further_count}: other reasons" if further_count else ""
        can_judge = len(values) - sum(barred.values())
        lines.append(f"| `{name}` | {len(values)} | {can_judge} | {writers.md(why) or DASH} |")
    return lines


def page(study: Study | Search, tables: dict[str, Any]) -> str:
    """Return the text of docs/studies/NAME.md: question, claims, results and deviations from the paper."""
    question = by_name(re.sub(r"\n+(?=Published:|Cost:)", "\n\n", study.question.strip()))
    lines = [
        f"# {study_title(study.name)}",
        "",
        question,
        "",
        f"File: `studies/{study.name}.py`. Presets (runs): {presets(study)}.",
        *paper_command(study),
    ]
    for path in sorted(PICTURES.glob(f"{study.name}.*")):
        lines += ["", f"![{path.name.split('.')[1]}](../pictures/{path.name})"]
    lines += claims(study, tables)
    for preset in study.presets:
        if content := tables.get(f"{study.name}.{preset}"):
            source_line = provenance(content) + revision_note(study, preset, content)
            lines += ["", f"## Results: {preset}", "", source_line]
            lines += ["", EARLIER_RULES, ""] if content.get("rules") != RULES else []
            lines += sentences(content)
            lines += [line for text in content["tables"].values() for line in ("", by_name(text.strip()))]
    return "\n".join([*lines, *deviations(study)]) + "\n"


def paper_command(study: Study | Search) -> list[str]:
    """Return the command of the preset `paper`, and the pages of its data sets."""
    if "paper" not in study.presets:
        return []
    configs = study.presets["paper"] if isinstance(study, Search) else make_plan(study, "paper").configs
    kinds = {config.data.title: config.data for config in configs if config.data.name in WITH_PAGE}
    can_download = any(type(data.reader()).fetch is not Reader.fetch for data in kinds.values())
    command = f"python studies/{study.name}.py --preset paper" + " --data DIR" * bool(kinds)
    lines = ["", "```bash", command + " --download" * can_download, "```", ""]
    links = ", ".join(f"[{title}](../data/{data.name}.md)" for title, data in kinds.items())
    guides = "[Weights and tools](../how-to/offline.md). [Eight GPUs, one machine](../how-to/eight-gpus.md)."
    return [*lines, f"Data: {links or 'generated'}. {guides}"]


def claims(study: Study | Search, tables: dict[str, Any]) -> list[str]:
    """List the study's claims in each preset with their verdicts."""
    lines = []
    for preset in study.presets:
        content = tables.get(f"{study.name}.{preset}")
        for text, contrast in stated_by(study, preset).items():
            lines.append(f"| {writers.md(text)} | {preset} | {outcome(contrast, content)} |")
    if not lines:
        return []
    head = ["", "## Claims", "", "| claim | preset | verdict |", "| --- | --- | --- |"]
    return [*head, *lines, *(["", LATER_CLAIM] if any(f"| {NOT_JUDGED} |" in line for line in lines) else [])]


def stated_by(study: Study | Search, preset: str) -> dict[str, str]:
    """Return the contrast and margin of each claim of a preset, by the claim's text."""
    parts = [] if isinstance(study, Search) else make_plan(study, preset).claims
    return {by_name(claim.text): claim.contrast for part in parts for claim in part.claims}


def outcome(contrast: str, content: dict[str, Any] | None) -> str:
    """Return a claim's verdict in the recorded results; a verdict on another margin does not count."""
    if not content:
        return "not run"
    return next(
        (claim["verdict"] for claim in content.get("claims", {}).values() if claim["contrast"] == contrast),
        NOT_JUDGED,
    )


def deviations(study: Study | Search) -> list[str]:
    """List the settings in which the preset `paper` differs from its paper, or that the paper omits."""
    study_deviations = [] if isinstance(study, Search) else study.deviations
    if not study_deviations:
        return []
    rows = [
        (
            deviation.field,
            BLANK if deviation.paper is None else str(deviation.paper),
            str(deviation.ours),
            deviation.why,
        )
        for deviation in study_deviations
    ]
    lines = ["", "## Deviations of the preset `paper` from its paper", ""]
    lines += ["| setting | paper | study | reason |", "| --- | --- | --- | --- |"]
    return lines + [f"| {' | '.join(by_name(writers.md(word)) for word in row)} |" for row in rows]


def replications() -> str:
    """Return the text of docs/replications.md: replications of published cells and their prediction."""
    lines = [
        "# Replications by others",
        "",
        REPLICATIONS,
        "",
        "| cell | published | retrained | mean | tau | next retraining |",
    ]
    lines.append("| --- | ---: | ---: | --- | ---: | --- |")
    figures_data = {name: (replication_rows(name), combine_cell(name)) for name in CELLS}
    for name, (data, summary) in figures_data.items():
        mean = f"{summary.mean:.1f}"
        if summary.interval:
            mean += " [{:.1f}, {:.1f}]".format(*clip_percent(*summary.interval))
        prediction = DASH
        if summary.predicted:
            prediction = "{:.1f} to {:.1f}".format(*clip_percent(*summary.predicted))
        tau = f"{summary.tau:.1f}" if summary.k > 1 else DASH
        cell = f"[{CELLS[name].title}](#{name})"
        lines.append(f"| {cell} | {data['value'][0]:.1f} | {summary.k} | {mean} | {tau} | {prediction} |")
    for name, (data, summary) in figures_data.items():
        lines += ["", f"## {CELLS[name].title} {{#{name}}}", "", *wrap(f"{summarize(summary)}.", 128)]
        lines += ["", "| who | % | what | in the mean | source |", "| --- | ---: | --- | --- | --- |"]
        for row in data[data["kind"].isin(["published", "retrained", "apart"])].to_dict("records"):
            value = DASH if row["value"] != row["value"] else f"{row['value']:g}"
            counts = {"published": "no: the published run", "retrained": "yes"}.get(
                row["kind"], f"no: {row['apart']}"
            )
            words = (row["who"], value, row["setting"], counts, row["source"])
            lines.append(f"| {' | '.join(map(writers.md, words))} |")
    return "\n".join(lines) + "\n"


def fields() -> str:
    """Return the text of docs/api/fields.md: every setting, part by part."""
    groups = {
        "Every run": {"train": (TrainConfig, "train."), "resources": (Resources, "resources.")},
        "Model families": {name: (kind, "model.") for name, kind in sorted(FAMILIES.complete().items())},
        "Data sets": {name: (kind, "data.") for name, kind in sorted(DATASETS.complete().items())},
    }
    lines = [
        "# Every field",
        "",
        "The tables of `recstudy fields NAME`. Set a field with `FIELD=VALUE` after a study's command.",
    ]
    for title, parts in groups.items():
        lines += ["", f"## {title}"]
        for name, (kind, prefix) in parts.items():
            lines += ["", f"### `{name}`", "", with_code((kind.__doc__ or "").split("\n")[0])]
            lines += [
                "",
                "| field | type | default | search range | meaning |",
                "| --- | --- | --- | --- | --- |",
            ]
            lines += [
                f"| {' | '.join(map(with_code, vars(entry).values()))} |"
                for entry in describe_fields(kind, prefix)
            ]
    return "\n".join(lines) + "\n"


def with_code(words: str) -> str:
    """Return a text of the program as Markdown, in which backticks still mark code."""
    code = re.compile(r"\\`(.*?)\\`")
    return code.sub(lambda match: f"`{match[1].replace(chr(92), '')}`", by_name(writers.md(words)))


def presets(study: Study | Search) -> str:
    return ", ".join(f"{preset} ({planned(study, preset)})" for preset in study.presets)


def planned(study: Study | Search, preset: str) -> str:
    """Return the number of runs of a preset, or the budget of a search."""
    if isinstance(study, Search):
        return str(make_plan(study, preset).budget)
    return str(len({run.id for run in make_plan(study, preset).runs}))


def provenance(content: dict[str, Any]) -> str:
    return (
        f"`{content['command']}`: {content['runs']} runs, {content['wall seconds'] / 60:.1f} minutes of"
        f" wall time, {content['minutes']} minutes of training, {content['date']}, {content['machine']},"
        f" commit {content['commit']}{' with uncommitted changes' * content['uncommitted changes']}."
    )


def revision_note(study: Study | Search, preset: str, content: dict[str, Any]) -> str:
    """Return a note if today's study would compute other runs."""
    labels, changed_labels = content.get("ids", {}), changed(study, preset, content)
    if not changed_labels:
        return ""
    label_list = writers.md(", ".join(changed_labels[:3])) + (
        f" and {len(changed_labels) - 3} more" if changed_labels[3:] else ""
    )
    subject = (
        "all variants"
        if len(changed_labels) == len(labels)
        else f"{len(changed_labels)} of {len(labels)} variants ({label_list})"
    )
    return f" **Earlier revision**: the code or settings of {subject} have changed since."


def changed(study: Study | Search, preset: str, content: dict[str, Any]) -> list[str]:
    """Return the variants whose run ids differ today; none of a search, whose sampler chooses its runs."""
    if isinstance(study, Search):
        return []
    run_ids = content.get("ids", {})
    # the results may have more seeds than the preset runs today
    seeds = max(study.by_preset(study.seeds, preset), *map(len, run_ids.values()), 1)
    current_ids = {run.id for run in make_plan(study, preset, content.get("changes"), seeds).runs}
    return [label for label, variant_ids in run_ids.items() if not set(variant_ids) <= current_ids]


def sentences(content: dict[str, Any]) -> list[str]:
    """Return the findings as a list."""
    finding_lines = [f"- {by_name(writers.md(finding))}" for finding in content.get("findings", ())]
    return ["", *finding_lines] if finding_lines else []


def quick(text: str, content: dict[str, Any]) -> str:
    """Return the tour with the findings of a quick study."""
    block = "\n".join([provenance(content), *sentences(content)])
    pattern = r"(<!-- quick: generated by make readme -->\n).*?(\n<!-- end of quick -->)"
    text, count = re.subn(pattern, lambda match: match[1] + block + match[2], text, flags=re.DOTALL)
    assert count == 1, "the page has no block 'quick'"
    return text


def reproduced(studies: list[Study | Search], tables: dict[str, Any]) -> list[str]:
    """Return one line per published table or figure: the study that answers it and each preset's state."""
    lines = [
        "| published | values | study | quick | standard | paper |",
        "| --- | ---: | --- | --- | --- | --- |",
    ]
    for study in studies:
        for item, count in items(study, "paper").items():
            states = [
                (
                    state(study, preset, tables.get(f"{study.name}.{preset}"), item)
                    if item in items(study, preset)
                    else "not in preset"
                )
                for preset in ("quick", "standard", "paper")
            ]
            lines.append(
                f"| {cite_item(item)} | {count} | [{study_title(study.name)}]({study.name}.md)"
                f" | {' | '.join(states)} |"
            )
    return lines


def items(study: Study | Search, preset: str) -> dict[str, int]:
    """Count the values of each published table or figure that a preset's parts are compared with."""
    parts = [
        part
        for part in study.by_preset(study.report, preset)
        if isinstance(part, Table | Arithmetic | Alignment)
    ]
    source_by_target = {target.source: source_of(target) for part in parts for target in part.targets}
    return dict(sorted(Counter(source_by_target.values()).items()))


def state(study: Study | Search, preset: str, content: dict[str, Any] | None, item: str) -> str:
    if content is None:
        return "not run"
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in content["verdicts"].get(item, {}).items())
    revision = ", earlier revision" * bool(changed(study, preset, content))
    return (
        f"{content['runs']} runs ({content['date']}{revision}): {verdicts or 'no published value to compare'}"
    )


if __name__ == "__main__":
    finish(lambda: main(tyro.cli(Options, description=__doc__)))
