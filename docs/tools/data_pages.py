"""Write docs/data: a page for each data set that needs files, from its class and docs/data/sets.yaml.

python docs/tools/data_pages.py            rewrite the pages (make readme)
python docs/tools/data_pages.py --check    only check that they are up to date (make check)
"""

from inspect import getdoc
from pathlib import Path
from typing import Any

import yaml
from generated import write_or_check
from study_pages import load_studies

from recstudy.papers import by_name
from recstudy.recursive import DATASETS
from recstudy.study.plan import make_plan

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "data"
FACTS: dict[str, Any] = yaml.safe_load((PAGES / "sets.yaml").read_text(encoding="utf-8"))
FEW_FILES = "The layout with a few files, which the reader accepts (a run needs two items in each split):"
LONGEST = 100  # characters of a line of an example
INDEX = """\
# Data sets

Each page has the source of a data set, its licence, its size, the way to get it, and the folder tree that the
reader expects below `--data DIR` (or `RECSTUDY_DATA`). `python studies/NAME.py --preset paper --check-setup`
lists what a study still lacks. Other data sets are [embedded or generated](../how-to/data.md), and
[weights and tools](../how-to/offline.md) have a page of their own.

| data set | images or puzzles | download |
| --- | --- | --- |"""


def page(name: str, studies: list[str]) -> str:
    """Return the text of docs/data/NAME.md."""
    facts, kind = FACTS[name], DATASETS[name]
    first, *rest = (getdoc(kind) or "").split("\n\n")
    lines = [f"# {title(name)}", "", by_name(first), "", f"| {title(name)} | |", "| --- | --- |"]
    for fact in ("source", "licence", "images", "size"):
        text = facts[fact].strip()
        lines.append(f"| {fact} | {f'<{text}>' if text.startswith('http') else text} |")
    lines.append(f"| setting | `data={kind.__name__}({required(name)})` |")
    lines += [f"| studies | {', '.join(studies)} |"] if studies else []
    lines += ["", "## How to get it", "", facts["get"].strip(), "", "## Folder tree", ""]
    files = facts.get("example", {})
    lines += [FEW_FILES, ""] if files else []
    lines += ["```text", "DIR", *tree(paths(name)), "```", ""]
    for path, text in files.items():
        if text != "image":
            content = [line[:LONGEST] + "..." * (len(line) > LONGEST) for line in text.strip().split("\n")]
            lines += [f"`{path}`", "", "```text", *content, "```", ""]
    if rest:
        lines += ["## Layout and splits", "", *layout(rest)]
    return "\n".join(lines).rstrip() + "\n"


def layout(paragraphs: list[str]) -> list[str]:
    """Return the paragraphs of a docstring; a table of files is preformatted."""
    lines = []
    for paragraph in map(by_name, paragraphs):
        is_table = paragraph.lstrip().startswith("PATH")
        lines += [*(["```text", paragraph, "```"] if is_table else [paragraph]), ""]
    return lines


def title(name: str) -> str:
    return str(FACTS[name].get("title") or DATASETS[name].title)


def required(name: str) -> str:
    """Return the settings that the config needs, with example values."""
    folder = next(iter(paths(name))).partition("/")[0] if name in FACTS else "images"
    values = {"path": repr(folder), "class_count": "2", "vocabulary": "11", "rows": "9", "columns": "9"}
    fields = DATASETS[name].model_fields
    return ", ".join(f"{field}={values[field]}" for field in fields if fields[field].is_required())


def paths(name: str) -> list[str]:
    """Return the paths of the set's files below DIR."""
    facts = FACTS[name]
    return [*facts.get("example", facts.get("files", ()))] or list(DATASETS[name]().reader().sources(ROOT))


def tree(files: list[str], depth: int = 0) -> list[str]:
    """Return the lines of a folder tree."""
    lines, names = [], dict.fromkeys(file.partition("/")[0] for file in files)
    for name in names:
        inner = [rest for head, _, rest in (file.partition("/") for file in files) if head == name and rest]
        lines += [f"  {'  ' * depth}{name}{'/' * bool(inner)}", *tree(inner, depth + 1)]
    return lines


def studies_of() -> dict[str, list[str]]:
    """Return the studies of each data set, with their presets and folders."""
    names: dict[str, list[str]] = {}
    for study in load_studies():
        for preset in study.presets:
            data = [config.model_dump().get("data") or {} for config in make_plan(study, preset).configs]
            for name, path in dict.fromkeys((part.get("name"), part.get("path")) for part in data):
                folder = f", `DIR/{path}`" * bool(path)
                names.setdefault(name, []).append(
                    f"[{study.name}](../studies/{study.name}.md) ({preset}{folder})"
                )
    return names


def main() -> int:
    studies, index = studies_of(), [INDEX]
    pages = {}
    for name, facts in FACTS.items():
        pages[PAGES / f"{name}.md"] = page(name, studies.get(name, []))
        index.append(f"| [{title(name)}]({name}.md) | {facts['images'].strip()} | {facts['size']} |")
    pages[PAGES / "index.md"] = "\n".join(index) + "\n"
    return write_or_check(pages)


if __name__ == "__main__":
    raise SystemExit(main())
