"""Bundles for the tests: one that was trained, published and may be changed, with a manifest that fits
whatever was changed.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recstudy.base.files import sha256_of
from recstudy.publishing.bundle import ABOUT, MANIFEST, README, Bundle, digest_of_records


def sealed(root: Path) -> Path:
    """Write manifest and digest of the records anew, as somebody would who changes a bundle on purpose."""
    bundle = Bundle(root)
    digests = {name: sha256_of(file) for name, file in bundle.files.items() if name != MANIFEST}
    records = digest_of_records(digests)
    about = json.loads((root / ABOUT).read_text())
    for name in (ABOUT, README, "CITATION.cff"):
        (root / name).write_text((root / name).read_text().replace(about["records"], records))
        digests[name] = sha256_of(root / name)
    (root / MANIFEST).write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())))
    return root


def changed(root: Path, pattern: str, expression: str, to: str | Callable[[re.Match[str]], str]) -> str:
    """Change what an expression finds first in the first file that a glob finds; return the file's name."""
    for file in sorted(root.glob(pattern)):
        text = file.read_text()
        replaced = re.sub(expression, to, text, count=1)
        if replaced != text:
            file.write_text(replaced)
            return file.relative_to(root).as_posix()
    raise AssertionError(f"nothing in {pattern} matches {expression}")


def edited(root: Path, pattern: str, edit: Callable[[Any], object]) -> None:
    """Edit the values of every JSON file that a glob finds."""
    for file in root.glob(pattern):
        values = json.loads(file.read_text())
        edit(values)
        file.write_text(json.dumps(values, indent=1))


def without_seed(root: Path, seed: int, variants: tuple[int, ...] = (0, 1)) -> None:
    """Remove a seed of some variants from the plan, the runs and the looks."""

    def drop(plan: Any) -> None:
        dropped = {run[2] for run in plan["runs"] if run[1] == seed and run[0] in variants}
        plan["runs"] = [run for run in plan["runs"] if run[2] not in dropped]
        plan["seeds"] = sorted({run[1] for run in plan["runs"]})
        looks = root / "results/studies/looks.jsonl"
        lines = [json.loads(line) for line in looks.read_text().splitlines()]
        for line in lines:
            line["runs"] = [run for run in line["runs"] if run not in dropped]
        looks.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        for run in dropped:
            shutil.rmtree(root / "results/runs" / run)

    edited(root, "results/studies/*/*/plan.json", drop)
