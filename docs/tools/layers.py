"""Draw the two halves of the package for CONTRIBUTING: their folders, with the summary of each docstring.

python docs/tools/layers.py            rewrite docs/pictures/house.svg (make readme)
python docs/tools/layers.py --check    only check that it is up to date (make check)
"""

import ast
import sys
import tomllib
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

import grimp
from generated import write_or_check

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "house.svg"
SECOND_HALF, BRIDGE = "recursive", "recursive.program"
HALVES = (
    "The platform plans, runs, judges and reports any program. Each folder imports only folders below it.",
    "recstudy/recursive is one program: HRM, TRM, ViTRM, ... It imports the platform; nothing imports it.",
)
ROW, TEXT, WIDTH = (26, 104, 760)  # pixels: height of a row, start of the text, width
STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.name,.half{font-weight:bold}.half{font-size:14px}"
    ".layer{fill:#eef2f7}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.layer{fill:#21262d}}"
)


def main() -> int:
    return write_or_check({PICTURE: picture((platform(), second_half()))})


def platform() -> list[list[str]]:
    """Return the folders of each layer of the platform, as the import-linter contract has them."""
    linted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in linted["contracts"] if contract["type"] == "layers")
    return [[name.strip() for name in layer.split("|") if name.strip() != SECOND_HALF] for layer in layers]


def second_half() -> list[list[str]]:
    """Return the program, then the folders of the recursive models, each above those that it imports."""
    graph = grimp.build_graph("recstudy", cache_dir=None)
    folders = {
        f"{SECOND_HALF}.{file.parent.name}"
        for file in (ROOT / "recstudy" / SECOND_HALF).glob("*/__init__.py")
    }
    imported: dict[str, set[str]] = {name: set() for name in folders}
    for module in graph.modules:
        importer = folder(module)
        if importer in folders:
            below = map(folder, graph.find_modules_directly_imported_by(module))
            imported[importer] |= {name for name in below if name in folders and name != importer}
    sorter = TopologicalSorter(imported)
    sorter.prepare()
    rows = []
    while names := sorted(sorter.get_ready()):
        rows.append(names)
        sorter.done(*names)
    return [[BRIDGE], *rows[::-1]]


def folder(module: str) -> str:
    """Return the folder of a module of the second half: `recursive.data`."""
    return ".".join(module.split(".")[1:3])


def summarize(name: str) -> str:
    """Return the first sentence of a docstring, cut at a colon or semicolon if it is long."""
    place = ROOT / "recstudy" / name.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    text = text.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".").replace("`", "")
    return text if len(text) <= 100 else text[: max(text.rfind(end, 0, 100) for end in ":;,")]


def picture(halves: tuple[list[list[str]], ...]) -> str:
    """Return the SVG: a title for each half, boxes for layers, rows for folders."""
    elements, top = [], 0
    for title, layers in zip(HALVES, halves, strict=True):
        elements.append(f'<text class="half" x="4" y="{top + 24}">{escape(title)}</text>')
        top += 36
        for layer in layers:
            height = ROW * len(layer)
            elements.append(
                f'<rect class="layer" x="4" y="{top}" width="{WIDTH - 8}" height="{height}" rx="5"/>'
            )
            for row, name in enumerate(layer):
                baseline = top + ROW * row + ROW // 2 + 5
                elements.append(f'<text class="name" x="14" y="{baseline}">{name.rpartition(".")[2]}</text>')
                elements.append(f'<text x="{TEXT}" y="{baseline}">{escape(summarize(name))}</text>')
            top += height + 6
    size = f'viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, f"<style>{STYLE}</style>", *elements, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
