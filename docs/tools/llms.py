"""Write docs/llms.txt, the list of the documentation's pages for language models, from the nav of mkdocs.yml.

python docs/tools/llms.py            rewrite the file (make readme)
python docs/tools/llms.py --check    only check that it is up to date (make check)
"""

import sys
from pathlib import Path

import yaml
from generated import write_or_check

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "llms.txt"
HEAD = """\
# recstudy

> {description}.

A study is one Python file with variants, seeds, claims and a report. `recstudy skill` prints a SKILL.md for
coding agents. `judge`, `report`, `explain`, `audit`, `status`, `verify`, `reproduce`, `fields` and studies
have `--json`.
"""


def text() -> str:
    """Return the content: a section for each part of the nav, a line for each page."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    parts: dict[str, list[str]] = {"Pages": []}
    for entry in site["nav"]:
        ((title, content),) = entry.items()
        if isinstance(content, str):
            parts["Pages"].append(line(title, content))
        else:
            parts[title] = [line(*item) for entry in content for item in entry.items()]
    sections = ["\n".join((f"## {title}", "", *lines, "")) for title, lines in parts.items()]
    return "\n".join([HEAD.format(description=site["site_description"]), *sections])


def line(title: str, page: str) -> str:
    """Return the link to a page in the built site."""
    return f"- [{title}]({page.removesuffix('.md')}.html)"


if __name__ == "__main__":
    sys.exit(write_or_check({FILE: text()}))
