"""Write docs/data (one page per data set) from docs/data/sources.yaml and the configs of the data sets.

python docs/tools/data_pages.py            rewrite the pages
python docs/tools/data_pages.py --check    only check that they are up to date (make check)
"""

import sys
from inspect import getdoc
from pathlib import Path
from typing import Any

import yaml

from recstudy.records import write_whole
from recstudy.recursive import DATASETS

DATA = Path(__file__).parents[1] / "data"
FACTS: dict[str, dict[str, Any]] = yaml.safe_load((DATA / "sources.yaml").read_text(encoding="utf-8"))


def pages() -> dict[Path, str]:
    """Return the text of each page by its file."""
    kinds = {name: kind for name, kind in DATASETS.complete().items() if kind.has_page}
    texts = {DATA / f"{name}.md": page(name, kind) for name, kind in kinds.items()}
    lines = [
        "# Data sets",
        "",
        "Each page has the source, the licence, the folder tree and the size of a data set.",
        "[Weights and tools](tools.md) lists the other files that a study may need.",
        "",
        "| set | `data.name` | images |",
        "| --- | --- | --- |",
    ]
    for name, kind in kinds.items():
        lines.append(f"| [{kind().title}]({name}.md) | `{name}` | {FACTS[name]['images']} |")
    return {**texts, DATA / "index.md": "\n".join(lines) + "\n"}


def page(name: str, kind: Any) -> str:
    """Return the page of a data set."""
    facts, (about, *layout) = FACTS[name], (getdoc(kind) or "").split("\n\n")
    get = facts["get"]
    lines = [f"# {kind().title}", "", " ".join(about.split()), "", "| | |", "| --- | --- |"]
    lines += [f"| {key} | {facts[key]} |" for key in ("source", "licence", "size")]
    lines += [f"| number of images | {facts['images']} |", f"| name | `data.name={name}` |", ""]
    lines += [f"**How to get it.** {get[:1].upper()}{get[1:]}.", ""]
    lines += ["**Folder tree** below the folder of `--data DIR` or `RECSTUDY_DATA` (`*` is any name):", ""]
    lines += ["```", *facts["tree"], "```", ""]
    if layout:
        details = "\n\n".join(layout).splitlines()
        lines += ["**Details** (from the config's docstring):", "", "```", *details, "```", ""]
    lines += ["`python studies/NAME.py --preset paper --data DIR --check-setup` lists what is missing."]
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text]
    if words == ["--check"]:
        for path in stale:
            print(f"docs/data/{path.name} is out of date: run `make readme`", file=sys.stderr)
        return int(bool(stale))
    for path in stale:
        write_whole(path, pages()[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
