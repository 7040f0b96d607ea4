"""Writes docs/studies, a page a study, and the generated parts of README.md and the tour, from studies and
results taken here.

    python docs/tools/study_pages.py                                      rewrite the generated parts
    python docs/tools/study_pages.py --take vitrm_depth_sweep/quick       first take over that study's tables from ./results
    python docs/tools/study_pages.py --check                              only say whether they are up to date (make check)

Results are taken into `studies/tables/`, with date and machine, so that a fresh clone shows them without
running anything.
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
from textwrap import wrap
from typing import Annotated, Any

import tyro
import yaml

from recstudy import Search, Study
from recstudy.config import DATASETS, FAMILIES, TrainConfig
from recstudy.config.fields import described
from recstudy.errors import ConfigError, nearest
from recstudy.papers import Target, by_name, named
from recstudy.papers.replications import CELLS
from recstudy.programs.settings import Resources, flatten
from recstudy.records import Results, write_whole
from recstudy.report import Alignment, Arithmetic, Best, Claims, FigurePart, Table, writers
from recstudy.report.family import family, published_answers
from recstudy.report.figures.forest import clip_percent, combine_cell, replication_rows, summarize
from recstudy.report.findings import findings
from recstudy.report.kinds import make_table, render_part
from recstudy.report.names import DASH
from recstudy.report.study_records import load_study
from recstudy.report.tables.arithmetic import counted_claims
from recstudy.report.tables.question_table import verdict_words
from recstudy.study.plan import make_plan
from recstudy.terminal import finish

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies"
TABLES = STUDIES / "tables"
BLANK = "left blank"  # by a paper
NOT_JUDGED = "not judged"
LATER = (
    f"{NOT_JUDGED.capitalize()}: the claim was stated, or given another margin, after the results here were"
    " taken."
)
RULES = "third edition"  # of the rules of evidence, by which results are judged
EARLIER_RULES = """\
Judged by the rules before 2026-11-28: each part of the report was a family of its own, intervals were those of the tests, and
the number of test items set a floor to their width. Verdicts may change when the study is run again."""
COUNTED = """\
[What a verdict means](../how-to/verdicts.md). *Values* counts what the paper prints there. Verdicts are of these values alone:
each counts once beside every variant that it stands beside."""
OTHERS = """\
A published number is mostly of one run. Here is what others measured of the same cell, each as its source prints it
(`recstudy/papers/replications.csv`). Into the mean go the independent retrainings, one row a run, without the published run and
without ours; weights that were re-evaluated or fine-tuned are no new draw of a training, and a row in another paper's table may
be copied. Random effects by Paule and Mandel: *tau* is the spread between retrainings beside what test items and printed digits
explain, and *one more would find* the 95 % prediction interval. Some picked their best epoch on the test set: that is in tau too.
In a study, `Replications(cell="trm_mlp_sudoku_extreme")` draws them with its own comparable runs."""
COVERAGE = """\
What a reader of the five papers looks for, and where a study answers it. *exact*: the preset `paper` shows or asks it as the
paper has it. *partial*: with the difference that is named. *missing*: no study answers it. The status is of the question.
Answers, and settings in which the preset `paper` differs from its paper, are on the page of each study. In brackets are the
presets that have the part, claim, variant or setting; the data of the paper are those of the preset `paper`."""
ANSWERS = ("part", "claim", "variant", "setting")  # of a study, by which an item of coverage.yaml is answered
STATUSES = ("exact", "partial", "missing")
SHOWN = "vitrm_depth_sweep.quick"  # the results that README.md and docs/tour.md show
PAGES = ROOT / "docs" / "studies"
PUBLISHED = ROOT / "recstudy" / "papers"
PAPERS = yaml.safe_load((PUBLISHED / "index.yaml").read_text(encoding="utf-8"))["papers"]
PICTURES = ROOT / "docs" / "pictures"


@dataclass(frozen=True)
class Options:
    """Rewrite docs/studies and the generated parts of README.md and docs/tour.md."""

    take: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Take over the results of STUDY/PRESET. May be given more than once."""
    results: Path = Path("results")
    """Where they are."""
    check: bool = False
    """Write nothing; exit with 1 where something is out of date."""


def main(options: Options) -> int:
    for name in options.take:
        take(Results(options.results), *name.split("/", 1))
    found, taken = (
        load_studies(),
        {path.stem: json.loads(path.read_bytes()) for path in sorted(TABLES.glob("*.json"))},
    )
    pages = {PAGES / f"{study.name}.md": page(study, taken) for study in found}
    pages[PAGES / "index.md"] = index(found, taken)
    pages[PAGES / "coverage.md"] = coverage(
        found, yaml.safe_load((PUBLISHED / "coverage.yaml").read_text(encoding="utf-8"))
    )
    for path, table in ((ROOT / "README.md", True), (PAGES.parent / "tour.md", False)):
        pages[path] = quick(path.read_text(encoding="utf-8"), taken[SHOWN], table)
    pages[PAGES.parent / "api" / "fields.md"] = fields()
    pages[PAGES.parent / "replications.md"] = others()
    stale = [
        path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    gone = [path for path in PAGES.glob("*.md") if path not in pages]
    if options.check:
        for path in (*stale, *gone):
            print(f"{path.relative_to(ROOT)} is out of date: run `make readme`", file=sys.stderr)
        return 1 if stale or gone else 0
    for path in stale:
        write_whole(path, pages[path])
    for path in gone:
        path.unlink()
    return 0


def load_studies() -> list[Study | Search]:
    """Every study and search file beside this one."""
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
    """Copy a study's tables, its verdicts and where they come from into `studies/tables/`."""
    records = load_study(results, name, preset)
    done = [row for row in records.rows if row.done]
    measured = {
        part.name: make_table(records, part) for part in records.parts if isinstance(part, Table | Best)
    }
    counted = [
        claim for part in records.parts if isinstance(part, Arithmetic) for claim in counted_claims(part)
    ]
    verdicts = by_source(
        [
            *((match.target, row.label, answer.verdict) for table in measured.values() for row in table.rows
              for cell in row.cells for match, answer in published_answers(cell)),
            *((claim.target, "", claim.verdict) for claim in counted),
            # whose published pairs are of other images
            *((target, "", "not comparable") for part in records.parts if isinstance(part, Alignment) for target in part.targets),
        ]
    )  # fmt: skip
    judged = [row for part in records.parts if isinstance(part, Claims) for row in family(records, part).rows]
    made = {
        part.name: render_part(records, part).table_below
        for part in records.parts
        if not isinstance(part, FigurePart)
    }
    texts = {name: writers.markdown(page) for name, page in made.items() if page}
    first, machine = done[0].provenance, done[0].provenance.hardware
    content = {
        # without a folder of this machine
        "command": re.sub(r" --results(=| )\S+", "", records.plan.command),
        "runs": f"{len(done)} of {len(records.rows)}",
        "date": max(row.provenance.finished for row in done)[:10],
        "machine": f"{machine.cpu}, {machine.cores} cores, {machine.gpu or 'no GPU'}",
        "commit": (first.made_by or "None")[:10],
        "uncommitted changes": any(row.provenance.dirty for row in done),
        "minutes": round(sum(row.number("seconds") for row in done) / 60, 1),
        "wall seconds": wall_seconds([(row.provenance.started, row.provenance.finished) for row in done]),
        "changes": dict(records.plan.changes),
        "ids": {} if records.plan.search else ids(done),
        "rules": RULES,
        "verdicts": verdicts,
        "claims": {row.label: {"contrast": row.contrast, "verdict": verdict_words(row)} for row in judged},
        "findings": list(map(str, findings(records))),
        "tables": texts,
    }
    write_whole(TABLES / f"{name}.{preset}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def by_source(judged: list[tuple[Target, str, str]]) -> dict[str, dict[str, int]]:
    """Published table or figure -> verdict -> how many of its own values have it, each once beside a
    variant.
    """
    once = {(target.source, label): (source_of(target), verdict) for target, label, verdict in judged}
    counted: dict[str, Counter[str]] = {}
    for source, verdict in once.values():
        counted.setdefault(source, Counter())[verdict] += 1
    return {source: dict(sorted(counts.items())) for source, counts in sorted(counted.items())}


def source_of(target: Target) -> str:
    """The paper and its table or figure, without the row."""
    return target.source.split(" (")[0]


def wall_seconds(spans: list[tuple[str, str]]) -> int:
    """Return the seconds in which any run was under way, for runs may be of several commands."""
    seconds, until = 0.0, 0.0
    for start, end in sorted(
        (datetime.fromisoformat(start).timestamp(), datetime.fromisoformat(end).timestamp())
        for start, end in spans
    ):
        seconds += max(0.0, end - max(start, until))
        until = max(until, end)
    return round(seconds)


def ids(runs: list[Any]) -> dict[str, list[str]]:
    """Each variant's runs, by which a page knows whether today's study would compute the same."""
    found: dict[str, list[str]] = {}
    for run in runs:
        found.setdefault(run.label, []).append(run.id)
    return found


def index(studies: list[Study | Search], taken: dict[str, Any]) -> str:
    """docs/studies/index.md."""
    lines = [
        "# Studies",
        "",
        (
            "One question a file of `studies/`; dated findings, the negative ones too, stand in"
            " `tests/benchmarks/LOG.md`."
        ),
        "[What the studies cover](coverage.md) lists the tables, figures and claims of the five papers.",
        "",
        "| study | question | presets (runs) | results taken here |",
        "| --- | --- | --- | --- |",
    ]
    for study in studies:
        dates = {preset: taken.get(f"{study.name}.{preset}", {}).get("date") for preset in study.presets}
        results = ", ".join(f"{preset}: {date}" for preset, date in dates.items() if date)
        asked = by_name(study.question.splitlines()[0])
        lines.append(
            f"| [{study.name}]({study.name}.md) | {asked} | {presets(study)} | {results or 'none'} |"
        )
    lines += ["", "## Published values beside results taken here", "", COUNTED, ""]
    lines += [*reproduced(studies, taken), "", "## Papers", "", *papers()]
    return "\n".join(lines) + "\n"


def papers() -> list[str]:
    """The papers by the names that they have here, with their links and what to know of them."""
    linked = (
        f"[{paper['title']}]({paper['url']})" if paper["url"] else paper["title"] for paper in PAPERS.values()
    )
    noted = (f". {paper['note']}" if "note" in paper else "" for paper in PAPERS.values())
    return [
        f"- **{paper['name']}**: {title}{note}"
        for paper, title, note in zip(PAPERS.values(), linked, noted, strict=True)
    ]


def coverage(studies: list[Study | Search], items: dict[str, list[dict[str, str]]]) -> str:
    """Return docs/studies/coverage.md.

    Args:
        studies: those that may answer an item.
        items: by paper, those of coverage.yaml.

    Raises:
        ConfigError: an item without a reason, or with a name that its study does not have.
    """
    by_study = {study.name: study for study in studies}
    answers = cache(
        lambda name: {preset: answers_of(by_study[name], preset) for preset in by_study[name].presets}
    )
    counts = ["| paper | items | exact | partial | missing |", "| --- | ---: | ---: | ---: | ---: |"]
    lines = []
    for paper, stated in items.items():
        number = Counter(item["status"] for item in stated)
        counts.append(
            f"| {PAPERS[paper]['name']} | {len(stated)} |"
            f" {' | '.join(str(number[status]) for status in STATUSES)} |"
        )
        lines += ["", f"## {PAPERS[paper]['name']}", ""]
        lines += ["| item | status | study | answer | why |", "| --- | --- | --- | --- | --- |"]
        for item in stated:
            status, why, link, answer = item["status"], item.get("why", ""), DASH, DASH
            if status not in STATUSES or bool(why) == (status == "exact"):
                raise ConfigError(
                    f"coverage.yaml, {item['item']!r}: only 'partial' and 'missing' need, and have, a reason"
                    " `why`"
                )
            if status != "missing":
                study, kind = (
                    item.get("study", ""),
                    next((kind for kind in ANSWERS if item.get(kind)), "part"),
                )
                if study not in by_study:
                    raise ConfigError(
                        f"coverage.yaml, {item['item']!r}: no study {study!r}{nearest(study, by_study)}"
                    )
                name = by_name(item[kind]) if kind == "claim" else item.get(kind, "")
                presets = [
                    preset
                    for preset, texts in answers(study).items()
                    if any(name in text if kind == "claim" else name == text for text in texts[kind])
                ]
                if not presets or (status == "exact" and "paper" not in presets):
                    where = "in its preset 'paper'" if presets else "in any preset"
                    raise ConfigError(
                        f"coverage.yaml, {item['item']!r}: {study} has no {kind} {name!r} {where}"
                    )
                link, answer = f"[{study}]({study}.md)", f"{kind} `{name}` ({', '.join(presets)})"
            words = (writers.md(item["item"]), status, link, answer, writers.md(why) or DASH)
            lines.append(f"| {' | '.join(map(by_name, words))} |")
    return "\n".join(["# What the studies cover", "", COVERAGE, "", *counts, *lines]) + "\n"


def answers_of(study: Study | Search, preset: str) -> dict[str, set[str]]:
    """Return the names by which an item may be answered in a preset: of each kind in `ANSWERS`."""
    plan = make_plan(study, preset)
    levels = (str(level) for variant in plan.variants for level in variant.levels.values())
    settings = (flatten(config.model_dump()).items() for config in plan.configs)
    return {
        "part": {part.name for part in study.by_preset(study.report, preset)},
        "claim": set(stated_by(study, preset)),
        "variant": {*levels, *(variant.label for variant in plan.variants)},
        "setting": {f"{field}={value}" for fields in settings for field, value in fields},
    }


def page(study: Study | Search, taken: dict[str, Any]) -> str:
    """docs/studies/NAME.md: what is asked and claimed, what was found, and where the paper's protocol is not
    kept.
    """
    asked = by_name(re.sub(r"\n(?=Published:|Cost:)", "\n\n", study.question.strip()))
    lines = [
        f"# {study.name}",
        "",
        asked,
        "",
        f"The file: `studies/{study.name}.py`. Presets (runs): {presets(study)}.",
    ]
    for path in sorted(PICTURES.glob(f"{study.name}.*")):
        lines += ["", f"![{path.name.split('.')[1]}](../pictures/{path.name})"]
    lines += claims(study, taken)
    for preset in study.presets:
        if content := taken.get(f"{study.name}.{preset}"):
            came = provenance(content) + earlier(study, preset, content)
            lines += ["", f"## Results: {preset}", "", came]
            lines += ["", EARLIER_RULES, ""] if content.get("rules") != RULES else []
            lines += sentences(content)
            lines += [line for text in content["tables"].values() for line in ("", by_name(text.strip()))]
    return "\n".join([*lines, *deviations(study)]) + "\n"


def claims(study: Study | Search, taken: dict[str, Any]) -> list[str]:
    """What the study claims in each preset, and what came of it."""
    lines = []
    for preset in study.presets:
        content = taken.get(f"{study.name}.{preset}")
        for text, contrast in stated_by(study, preset).items():
            lines.append(f"| {writers.md(text)} | {preset} | {outcome(contrast, content)} |")
    if not lines:
        return []
    head = ["", "## Claims", "", "| claim | preset | verdict |", "| --- | --- | --- |"]
    return [*head, *lines, *(["", LATER] if any(f"| {NOT_JUDGED} |" in line for line in lines) else [])]


def stated_by(study: Study | Search, preset: str) -> dict[str, str]:
    """A preset's claims: the contrast and margin of each by its text."""
    parts = [] if isinstance(study, Search) else make_plan(study, preset).claims
    return {by_name(claim.text): claim.contrast for part in parts for claim in part.claims}


def outcome(contrast: str, content: dict[str, Any] | None) -> str:
    """A claim's verdict in results taken here, if there are any; one of another contrast or margin is
    none.
    """
    if not content:
        return "not run"
    return next(
        (one["verdict"] for one in content.get("claims", {}).values() if one["contrast"] == contrast),
        NOT_JUDGED,
    )


def deviations(study: Study | Search) -> list[str]:
    """Where the preset `paper` is not as its paper, or fills in what that leaves blank."""
    stated = [] if isinstance(study, Search) else study.deviations
    if not stated:
        return []
    rows = [
        (one.field, BLANK if one.paper is None else str(one.paper), str(one.ours), one.why) for one in stated
    ]
    lines = ["", "## Where the preset `paper` is not its paper's", ""]
    lines += ["| setting | its paper's | here | why |", "| --- | --- | --- | --- |"]
    return lines + [f"| {' | '.join(by_name(writers.md(word)) for word in row)} |" for row in rows]


def others() -> str:
    """docs/replications.md: what others got for published cells, and what one more would find."""
    lines = [
        "# What others got",
        "",
        OTHERS,
        "",
        "| cell | published | retrained | mean | tau | one more would find |",
    ]
    lines.append("| --- | ---: | ---: | --- | ---: | --- |")
    figures_data = {name: (replication_rows(name), combine_cell(name)) for name in CELLS}
    for name, (data, found) in figures_data.items():
        mean = f"{found.mean:.1f}" if found else DASH
        if found and found.interval:
            mean += " [{:.1f}, {:.1f}]".format(*clip_percent(*found.interval))
        more = (
            "{:.1f} to {:.1f}".format(*clip_percent(*found.predicted)) if found and found.predicted else DASH
        )
        tau = f"{found.tau:.1f}" if found and found.k > 1 else DASH
        k = found.k if found else 0
        lines.append(
            f"| [{CELLS[name].title}](#{name}) | {data['value'][0]:.1f} | {k} | {mean} | {tau} | {more} |"
        )
    for name, (data, found) in figures_data.items():
        lines += ["", f"## {CELLS[name].title} {{#{name}}}", "", *wrap(f"{summarize(found)}.", 128)]
        lines += ["", "| who | % | what | in the mean | source |", "| --- | ---: | --- | --- | --- |"]
        for one in data[data["kind"].isin(["published", "retrained", "apart"])].to_dict("records"):
            value = DASH if one["value"] != one["value"] else f"{one['value']:g}"
            counts = {"published": "no: the published run", "retrained": "yes"}.get(
                one["kind"], f"no: {one['apart']}"
            )
            lines.append(
                f"| {' | '.join(writers.md(word) for word in (one['who'], value, one['setting'], counts, one['source']))} |"
            )
    return "\n".join(lines) + "\n"


def fields() -> str:
    """docs/api/fields.md: what can be set, part by part."""
    groups = {
        "Every run": {"train": (TrainConfig, "train."), "resources": (Resources, "resources.")},
        "Model families": {name: (kind, "model.") for name, kind in sorted(FAMILIES.complete().items())},
        "Data sets": {name: (kind, "data.") for name, kind in sorted(DATASETS.complete().items())},
    }
    lines = [
        "# Every field",
        "",
        "As `recstudy fields NAME` prints it; set by `FIELD=VALUE` behind a study's command.",
    ]
    for title, parts in groups.items():
        lines += ["", f"## {title}"]
        for name, (kind, prefix) in parts.items():
            lines += ["", f"### {name}", "", by_name(writers.md((kind.__doc__ or "").split("\n")[0]))]
            lines += [
                "",
                "| field | type | default | a search tries | what it is |",
                "| --- | --- | --- | --- | --- |",
            ]
            lines += [
                f"| {' | '.join(by_name(writers.md(word)) for word in row)} |"
                for row in described(kind, prefix)
            ]
    return "\n".join(lines) + "\n"


def presets(study: Study | Search) -> str:
    return ", ".join(f"{preset} ({planned(study, preset)})" for preset in study.presets)


def planned(study: Study | Search, preset: str) -> str:
    """How many runs a preset has; of a search, its budget."""
    if isinstance(study, Search):
        return str(make_plan(study, preset).budget)
    return str(len(make_plan(study, preset).runs))


def provenance(content: dict[str, Any]) -> str:
    return (
        f"`{content['command']}`: {content['runs']} runs, {content['wall seconds'] / 60:.1f} minutes by the"
        f" clock, {content['minutes']} minutes of training in all, {content['date']}, {content['machine']},"
        f" commit {content['commit']}{' with uncommitted changes' * content['uncommitted changes']}."
    )


def earlier(study: Study | Search, preset: str, content: dict[str, Any]) -> str:
    """Says so where today's study would compute something else."""
    labels, others = content.get("ids", {}), changed(study, preset, content)
    if not others:
        return ""
    named = writers.md(", ".join(others[:3])) + (f" and {len(others) - 3} more" if others[3:] else "")
    what = (
        "all variants" if len(others) == len(labels) else f"{len(others)} of {len(labels)} variants ({named})"
    )
    return f" **Of an earlier revision**: what computes {what}, or their settings, has changed since."


def changed(study: Study | Search, preset: str, content: dict[str, Any]) -> list[str]:
    """The taken variants of which a run has another id today; none of a search, whose sampler chooses its
    runs.
    """
    if isinstance(study, Search):
        return []
    taken = content.get("ids", {})
    # results may be of more than it runs
    seeds = max(study.by_preset(study.seeds, preset), *map(len, taken.values()), 1)
    now = {run.id for run in make_plan(study, preset, content.get("changes"), seeds).runs}
    return [label for label, own in taken.items() if not set(own) <= now]


def sentences(content: dict[str, Any]) -> list[str]:
    """The sentences that its page opens with."""
    said = [f"- {by_name(writers.md(one))}" for one in content.get("findings", ())]
    return ["", *said] if said else []


def quick(text: str, content: dict[str, Any], table: bool) -> str:
    """README.md or the tour with what a quick study printed: its findings and, if asked, a table without
    title and notes.
    """
    lines = [line for line in content["tables"]["depths"].splitlines() if line.startswith("|")]
    block = "\n".join([provenance(content), *sentences(content), *(["", *lines] if table else [])])
    pattern = r"(<!-- quick: generated by make readme -->\n).*?(\n<!-- end of quick -->)"
    text, count = re.subn(pattern, lambda match: match[1] + block + match[2], text, flags=re.DOTALL)
    assert count == 1, "the page has no block 'quick'"
    return text


def reproduced(studies: list[Study | Search], taken: dict[str, Any]) -> list[str]:
    """One line a published table or figure: which study answers it, and how far each preset is."""
    lines = [
        "| published | values | study | quick | standard | paper |",
        "| --- | ---: | --- | --- | --- | --- |",
    ]
    for study in studies:
        for item, count in items(study, "paper").items():
            states = [
                (
                    state(study, preset, taken.get(f"{study.name}.{preset}"), item)
                    if item in items(study, preset)
                    else "not in it"
                )
                for preset in ("quick", "standard", "paper")
            ]
            lines.append(
                f"| {named(item)} | {count} | [{study.name}]({study.name}.md) | {' | '.join(states)} |"
            )
    return lines


def items(study: Study | Search, preset: str) -> dict[str, int]:
    """Published table or figure -> how many of its values a preset's tables and figures stand beside."""
    parts = [
        part
        for part in study.by_preset(study.report, preset)
        if isinstance(part, Table | Arithmetic | Alignment)
    ]
    named_once = {target.source: source_of(target) for part in parts for target in part.targets}
    return dict(sorted(Counter(named_once.values()).items()))


def state(study: Study | Search, preset: str, content: dict[str, Any] | None, item: str) -> str:
    if content is None:
        return "not run"
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in content["verdicts"].get(item, {}).items())
    before = ", of an earlier revision" * bool(changed(study, preset, content))
    return f"{content['runs']} runs ({content['date']}{before}): {verdicts or 'no published value beside it'}"


if __name__ == "__main__":
    finish(lambda: main(tyro.cli(Options, description=__doc__)))
