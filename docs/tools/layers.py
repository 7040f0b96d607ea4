"""Draws CONTRIBUTING's picture of the house: its layers from top to bottom, what each part says of itself,
and who imports whom.

python docs/tools/layers.py            rewrite docs/pictures/house.svg (make readme)
python docs/tools/layers.py --check    only say whether it is up to date (make check)
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
ROW, TEXT, ARCS, WIDTH = 26, 104, 768, 968  # pixels: a row's height, where words and arcs begin, the whole
STYLE = (
    "text{font:13px"
    " sans-serif;fill:#24292f}.name{font-weight:bold}.layer{fill:#eef2f7}path{fill:none;stroke:#0969da;opacity:.35}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.layer{fill:#21262d}path{stroke:#58a6ff}}"
)


def main() -> int:
    drawn = picture(layers(), imports())
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == drawn:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{PICTURE.relative_to(ROOT)} is out of date: run `make readme`", file=sys.stderr)
        return 1
    PICTURE.write_text(drawn, encoding="utf-8")
    return 0


def layers() -> list[list[str]]:
    """The parts of each layer, as pyproject.toml states them to import-linter."""
    linted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    stated = next(contract["layers"] for contract in linted["contracts"] if contract["type"] == "layers")
    shown: dict[str, None] = {}
    rows = []
    for layer in stated:
        names = [part(name.strip()) for name in layer.replace(":", "|").split("|")]
        rows.append([name for name in dict.fromkeys(names) if name not in shown])
        shown |= dict.fromkeys(names)
    return [row for row in rows if row]


def imports() -> set[tuple[str, str]]:
    """Each pair of parts of which the first imports the second."""
    graph = grimp.build_graph("recstudy", exclude_type_checking_imports=True)
    found = (
        (module, other)
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    )
    return {(part(module), part(other)) for module, other in found if part(module) != part(other)}


def part(module: str) -> str:
    """Return the part of a module: a package or file of recstudy, and by itself the bridge to the recursive
    models.
    """
    return BRIDGE if module == f"recstudy.{BRIDGE}" else module.partition(".")[2].partition(".")[0]


def says(name: str) -> str:
    """The first sentence of its docstring, without what comes after a colon or semicolon where it is long."""
    place = ROOT / "recstudy" / name.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    text = text.split("\n")[0].split(". ")[0].rstrip(".").replace("`", "")
    return text if len(text) <= 100 else text[: max(text.rfind(end, 0, 100) for end in ":;,")]


def picture(rows: list[list[str]], pairs: set[tuple[str, str]]) -> str:
    middle, drawn = {}, []
    for number, layer in enumerate(rows):
        top = 10 + ROW * len(middle) + 6 * number
        drawn.append(
            f'<rect class="layer" x="4" y="{top}" width="{ARCS - 12}" height="{ROW * len(layer)}" rx="5"/>'
        )
        for at, name in enumerate(layer):
            middle[name] = top + ROW * at + ROW // 2
            drawn.append(
                f'<text class="name" x="14" y="{middle[name] + 5}">{name.partition(".")[2] or name}</text>'
            )
            drawn.append(f'<text x="{TEXT}" y="{middle[name] + 5}">{escape(says(name))}</text>')
    for above, below in sorted(pair for pair in pairs if set(pair) <= middle.keys()):
        start, end = middle[above], middle[below]
        out = ARCS + min(40 + abs(end - start) * 0.45, 240)
        drawn.append(f'<path d="M{ARCS} {start} C{out:.0f} {start} {out:.0f} {end} {ARCS} {end}"/>')
    height = max(middle.values()) + ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *drawn, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
