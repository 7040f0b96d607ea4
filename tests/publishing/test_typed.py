"""docs/how-to/publish.md, every command as it stands there, on its own study: drawn smaller, trained, published, run again."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = "--no-ray --set data.puzzles=64 --set data.test_puzzles=32 --set train.epochs=1"
PLACEHOLDER = "3f9a1c0b7d2e"  # of the page, for the digest that a paper prints


@pytest.mark.whole
def test_every_command_of_the_page_does_what_it_says(tmp_path):
    def typed(line: str, codes: tuple[int, ...] = (0,)) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        run = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
        )
        assert run.returncode in codes, line + run.stdout + run.stderr
        return run.stdout

    lines = [
        line
        for block in re.findall(r"^```bash\n(.*?)^```", (ROOT / "docs/how-to/publish.md").read_text(), re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    said = {}
    study = ROOT / "studies/sudoku_depth.py"
    typed(f"python {study} {SMALL} --seeds 2 --only '*cycles=1'")
    for line in lines:
        if PLACEHOLDER in line:
            line = line.replace(PLACEHOLDER, json.loads((tmp_path / "sudoku_depth/bundle.json").read_text())["records"][:12])
        fresh = "--fresh-seeds" in line  # two seeds of 32 puzzles may well give another number
        said[line] = typed(f"{line.partition('  #')[0]} {'--no-ray' if 'reproduce' in line else ''}", (0, 1) if fresh else (0,))

    assert len(said) == len(lines) == 6
    assert all("Nothing differs" in text for line, text in said.items() if " verify " in line)
    dry, again, others = (text for line, text in said.items() if " reproduce " in line)
    assert "2 runs" in dry
    assert "Bit-equal: every metric of 2 runs is the same to the last digit" in again
    assert re.search(r"(Within run-to-run spread|Different|Undecided): ", others)
