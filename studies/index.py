"""Writes what README.md and studies/README.md say about the studies, from the studies and from results taken here.

    python studies/index.py                                      rewrite the generated parts
    python studies/index.py --take vitrm_depth_sweep/quick       first take over that study's tables from ./results
    python studies/index.py --check                              only say whether they are up to date (make check)

Results are taken into `studies/tables/`, with date and machine, so that a fresh clone shows them without running anything.
"""

import importlib.util
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from recstudy import Search, Study
from recstudy.analysis.findings import findings
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables import markup
from recstudy.analysis.tables.arithmetic import arithmetic_data
from recstudy.records import Results, write_whole
from recstudy.report import Alignment, Arithmetic, Best, FigurePart, Table
from recstudy.study.search import make_search
from recstudy.study.study import make_plan
from recstudy.terminal import finish

HERE = Path(__file__).parent
TABLES = HERE / "tables"
POOLED = "pooled"
OLDER = "Taken by older rules: each interval is by its own seeds alone, and best and second are marked whatever they are apart."
SHOWN = "vitrm_depth_sweep.quick"  # the results on the README's first page


@dataclass(frozen=True)
class Options:
    """Rewrite the generated parts of README.md and studies/README.md."""

    take: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Take over the results of STUDY/PRESET. May be given more than once."""
    results: Path = Path("results")
    """Where they are."""
    check: bool = False
    """Write nothing; exit with 1 where something is out of date."""


def main(options: Options) -> int:
    for name in options.take:
        take(Results(options.results), *name.split("/", 1))
    found, taken = load_studies(), {path.stem: json.loads(path.read_text()) for path in sorted(TABLES.glob("*.json"))}
    pages = {
        HERE / "README.md": index(found, taken),
        HERE.parent / "README.md": readme((HERE.parent / "README.md").read_text(), found, taken),
    }
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if options.check:
        for path in stale:
            print(f"{path.name} in {path.parent.name or '.'} is out of date: run `make readme`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        write_whole(path, pages[path])
    return 0


def load_studies() -> list[Study | Search]:
    """Every study and search file beside this one."""
    modules = [load(path) for path in sorted(HERE.glob("*.py")) if "\nstudy = " in path.read_text()]
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
    measured = {part.name: part.cells(records) for part in records.parts if isinstance(part, Table | Best)}
    counted = {part.name: arithmetic_data(part) for part in records.parts if isinstance(part, Arithmetic)}
    verdicts = Counter(cell.verdict for table in measured.values() for row in table.rows for cell in row.cells if cell.placed)
    verdicts += Counter(claim.verdict for data in counted.values() for claim in data.claims)
    alike = [part for part in records.parts if isinstance(part, Alignment)]  # whose published pairs are of other images
    verdicts += Counter("not comparable" for part in alike for _ in part.targets)
    shown = {part.name: part.shown(records).printed for part in records.parts if not isinstance(part, FigurePart)}
    texts = {name: markup.markdown(page) for name, page in shown.items() if page}
    first, machine = done[0].provenance, done[0].provenance.hardware
    content = {
        "command": records.plan.command,
        "runs": f"{len(done)} of {len(records.rows)}",
        "date": max(row.provenance.finished for row in done)[:10],
        "machine": f"{machine.cpu}, {machine.cores} cores, {machine.gpu or 'no GPU'}",
        "commit": (first.made_by or "None")[:10],
        "uncommitted changes": any(row.provenance.dirty for row in done),
        "minutes": round(sum(row.number("seconds") for row in done) / 60, 1),
        "intervals": POOLED,
        "verdicts": dict(sorted(verdicts.items())),
        "findings": list(map(str, findings(records))),
        "tables": texts,
    }
    write_whole(TABLES / f"{name}.{preset}.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def index(studies: list[Study | Search], taken: dict[str, Any]) -> str:
    """studies/README.md."""
    lines = [
        "# Studies",
        "",
        "One question a file. This page is generated by `make readme`; dated findings stand in [LOG.md](LOG.md).",
        "",
        "| study | question | presets (runs) | results taken here |",
        "| --- | --- | --- | --- |",
    ]
    for study in studies:
        runs = ", ".join(f"{preset} ({planned(study, preset)})" for preset in study.presets)
        dates = {preset: taken.get(f"{study.name}.{preset}", {}).get("date") for preset in study.presets}
        results = ", ".join(f"{preset}: {date}" for preset, date in dates.items() if date)
        lines.append(f"| [{study.name}]({study.name}.py) | {study.question.splitlines()[0]} | {runs} | {results or 'none'} |")
    for key, content in taken.items():
        lines += ["", f"## {key.replace('.', ', ')}", "", provenance(content), *tables(content)]
    return "\n".join(lines) + "\n"


def planned(study: Study | Search, preset: str) -> str:
    """How many runs a preset has; of a search, its budget."""
    if isinstance(study, Search):
        return str(make_search(study, preset).budget)
    return str(len(make_plan(study, preset).runs))


def provenance(content: dict[str, Any]) -> str:
    older = f" {OLDER}" if content.get("intervals") != POOLED else ""
    return (
        f"`{content['command']}`: {content['runs']} runs, {content['minutes']} minutes of training in all, {content['date']}, "
        f"{content['machine']}, commit {content['commit']}{' with uncommitted changes' * content['uncommitted changes']}.{older}"
    )


def tables(content: dict[str, Any]) -> list[str]:
    """What was found, and the tables without their titles."""
    found = "\n".join(f"- {markup.md(one)}" for one in content.get("findings", ()))
    texts = [*filter(None, [found]), *(text.split("\n", 2)[2].strip() for text in content["tables"].values())]
    return [line for text in texts for line in ("", text)]


def readme(text: str, studies: list[Study | Search], taken: dict[str, Any]) -> str:
    """README.md with its generated blocks made anew."""
    content = taken[SHOWN]
    blocks = {
        "reproduced": "\n".join(reproduced(studies, taken)),
        "quick": "\n".join([provenance(content), *tables(content)]),
        "study": "```python\n" + (HERE / "vitrm_depth_sweep.py").read_text().rstrip() + "\n```",
    }
    for name, block in blocks.items():
        pattern = rf"(<!-- {name}: generated by make readme -->\n).*?(\n<!-- end of {name} -->)"
        text, count = re.subn(pattern, lambda match, block=block: match[1] + block + match[2], text, flags=re.DOTALL)
        assert count == 1, f"README.md has no block {name!r}"
    return text


def reproduced(studies: list[Study | Search], taken: dict[str, Any]) -> list[str]:
    """One line a published table or figure: which study answers it, and how far each preset is."""
    lines = ["| published | values | study | quick | standard | paper |", "| --- | ---: | --- | --- | --- | --- |"]
    for study in studies:
        for item, count in items(study, "paper").items():
            states = [
                state(taken.get(f"{study.name}.{preset}")) if item in items(study, preset) else "not in it"
                for preset in ("quick", "standard", "paper")
            ]
            lines.append(f"| {item} | {count} | [{study.name}](studies/{study.name}.py) | {' | '.join(states)} |")
    return lines


def items(study: Study | Search, preset: str) -> dict[str, int]:
    """Published table or figure -> how many of its values a preset's tables and figures stand beside."""
    parts = [part for part in study.by_preset(study.report, preset) if isinstance(part, Table | Arithmetic | Alignment)]
    sources = [target.source.split(" (")[0] for part in parts for target in part.targets]
    return dict(sorted(Counter(sources).items()))


def state(content: dict[str, Any] | None) -> str:
    if content is None:
        return "not run"
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in content["verdicts"].items())
    return f"{content['runs']} runs ({content['date']}): {verdicts or 'no published value beside it'}"


if __name__ == "__main__":
    finish(lambda: main(tyro.cli(Options, description=__doc__)))
