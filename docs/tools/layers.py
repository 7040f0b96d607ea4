"""Draw the two halves of the package for CONTRIBUTING: their folders from top to bottom, the summary of each
folder's docstring, and the imports between folders.

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

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "house.svg"
SECOND_HALF = "recursive"
HALVES = (
    "The platform: plans, runs, judges and reports any program",
    "recursive: one of the programs, with HRM, TRM, ViTRM, ImageHRM, ImageTRM, MicarVLMoE and their data",
)
ROW, TEXT, ARCS, WIDTH = (
    26,
    104,
    768,
    968,
)  # pixels: height of a row, start of the text and of the arcs, width
STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.name,.half{font-weight:bold}.half{font-size:15px}"
    ".layer{fill:#eef2f7}"
    "path{fill:none;stroke:#0969da;opacity:.35}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.layer{fill:#21262d}path{stroke:#58a6ff}}"
)


def main() -> int:
    pairs = imports()
    svg = picture((platform(), second_half(pairs)), pairs)
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == svg:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{PICTURE.relative_to(ROOT)} is out of date: run `make readme`", file=sys.stderr)
        return 1
    PICTURE.write_text(svg, encoding="utf-8")
    return 0


def platform() -> list[list[str]]:
    """Return the folders of each layer of the platform, as the import-linter contract has them."""
    linted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in linted["contracts"] if contract["type"] == "layers")
    return [[name.strip() for name in layer.split("|") if name.strip() != SECOND_HALF] for layer in layers]


def second_half(pairs: set[tuple[str, str]]) -> list[list[str]]:
    """Return the folders of the recursive models, each above those that it imports."""
    folders = {
        f"{SECOND_HALF}.{place.parent.name}"
        for place in (ROOT / "recstudy" / SECOND_HALF).glob("*/__init__.py")
    }
    sorter = TopologicalSorter(
        {name: {below for above, below in pairs if above == name} & folders for name in folders}
    )
    sorter.prepare()
    rows = []
    while names := sorted(sorter.get_ready()):
        rows.append(names)
        sorter.done(*names)
    return rows[::-1]


def imports() -> set[tuple[str, str]]:
    """Return every pair of folders where the first imports the second."""
    graph = grimp.build_graph("recstudy", exclude_type_checking_imports=True, cache_dir=None)
    import_pairs = {
        (folder(module), folder(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    }
    return {pair for pair in import_pairs if len(set(pair)) == 2}


def folder(module: str) -> str:
    """Return the folder of a module: `report`, or `recursive.data` in the second half."""
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[:1] == [SECOND_HALF] else 1])


def summarize(name: str) -> str:
    """Return the first sentence of a folder's docstring, cut at a colon or semicolon if it is long."""
    file = ROOT / "recstudy" / name.replace(".", "/") / "__init__.py"
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    text = text.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".").replace("`", "")
    return text if len(text) <= 100 else text[: max(text.rfind(end, 0, 100) for end in ":;,")]


def picture(halves: tuple[list[list[str]], ...], pairs: set[tuple[str, str]]) -> str:
    """Return the SVG: a title for each half, boxes for layers, rows for folders, arcs for imports."""
    middle, elements, top = {}, [], 0
    for title, layers in zip(HALVES, halves, strict=True):
        elements.append(f'<text class="half" x="4" y="{top + 24}">{escape(title)}</text>')
        top += 36
        for layer in layers:
            height = ROW * len(layer)
            elements.append(
                f'<rect class="layer" x="4" y="{top}" width="{ARCS - 12}" height="{height}" rx="5"/>'
            )
            for row, name in enumerate(layer):
                middle[name] = top + ROW * row + ROW // 2
                title, baseline = name.rpartition(".")[2], middle[name] + 5
                elements.append(f'<text class="name" x="14" y="{baseline}">{title}</text>')
                elements.append(f'<text x="{TEXT}" y="{baseline}">{escape(summarize(name))}</text>')
            top += height + 6
    for importer, imported in sorted(pair for pair in pairs if set(pair) <= middle.keys()):
        start, end = middle[importer], middle[imported]
        arc_width = ARCS + min(40 + abs(end - start) * 0.45, 240)
        elements.append(
            f'<path d="M{ARCS} {start} C{arc_width:.0f} {start} {arc_width:.0f} {end} {ARCS} {end}"/>'
        )
    height = max(middle.values()) + ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *elements, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
