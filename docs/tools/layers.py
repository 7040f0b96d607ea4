"""Draw the layers of the package for CONTRIBUTING: the parts from top to bottom, the summary of each part's
docstring, and the imports between parts.

python docs/tools/layers.py            rewrite docs/pictures/house.svg (make readme)
python docs/tools/layers.py --check    only check that it is up to date (make check)
"""

import ast
import sys
import tomllib
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "house.svg"
BRIDGE = "programs.recursive"
ROW, TEXT, ARCS, WIDTH = (
    26,
    104,
    768,
    968,
)  # pixels: row height, start of the text, start of the arcs, total width
STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.name{font-weight:bold}.layer{fill:#eef2f7}"
    "path{fill:none;stroke:#0969da;opacity:.35}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.layer{fill:#21262d}path{stroke:#58a6ff}}"
)


def main() -> int:
    svg = picture(layers(), imports())
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == svg:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{PICTURE.relative_to(ROOT)} is out of date: run `make readme`", file=sys.stderr)
        return 1
    PICTURE.write_text(svg, encoding="utf-8")
    return 0


def layers() -> list[list[str]]:
    """Return the parts of each layer, read from the import-linter contract in pyproject.toml."""
    linted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layer_contract = next(
        contract["layers"] for contract in linted["contracts"] if contract["type"] == "layers"
    )
    placed_names: dict[str, None] = {}
    rows = []
    for layer in layer_contract:
        names = [part(name.strip()) for name in layer.replace(":", "|").split("|")]
        rows.append([name for name in dict.fromkeys(names) if name not in placed_names])
        placed_names |= dict.fromkeys(names)
    return [row for row in rows if row]


def imports() -> set[tuple[str, str]]:
    """Return every pair of parts where the first imports the second."""
    graph = grimp.build_graph("recstudy", exclude_type_checking_imports=True)
    import_pairs = (
        (module, imported)
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    )
    return {
        (part(module), part(imported)) for module, imported in import_pairs if part(module) != part(imported)
    }


def part(module: str) -> str:
    """Return the package or file of a module; the bridge to the recursive models is a part of its own."""
    return BRIDGE if module == f"recstudy.{BRIDGE}" else module.partition(".")[2].partition(".")[0]


def summarize(name: str) -> str:
    """Return the first sentence of a part's docstring, cut at a colon or semicolon if it is long."""
    place = ROOT / "recstudy" / name.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    text = text.split("\n")[0].split(". ")[0].rstrip(".").replace("`", "")
    return text if len(text) <= 100 else text[: max(text.rfind(end, 0, 100) for end in ":;,")]


def picture(rows: list[list[str]], pairs: set[tuple[str, str]]) -> str:
    middle, elements = {}, []
    for number, layer in enumerate(rows):
        top = 10 + ROW * len(middle) + 6 * number
        elements.append(
            f'<rect class="layer" x="4" y="{top}" width="{ARCS - 12}" height="{ROW * len(layer)}" rx="5"/>'
        )
        for row, name in enumerate(layer):
            middle[name] = top + ROW * row + ROW // 2
            elements.append(
                f'<text class="name" x="14" y="{middle[name] + 5}">{name.partition(".")[2] or name}</text>'
            )
            elements.append(f'<text x="{TEXT}" y="{middle[name] + 5}">{escape(summarize(name))}</text>')
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
