"""Each block of docs/how-to/own-program.md and judge.md runs, in order, in one folder; and the example that
stands for TRM's training script.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import recstudy
from recstudy.programs.sources import OFFLINE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "studies/examples/trm_pretrain"
BLOCK = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)
STUDIES = {
    "own-program": {"my_function", "my_script", "degree", "label_noise", "trm_l_cycles"},
    "judge": {"runs", "table"},
}
RECSTUDY = [sys.executable, "-c", "from recstudy.cli import main; main()"]


@pytest.fixture
def typed(tmp_path):
    """Run a line in an empty folder, without Ray."""

    def run(line: str) -> str:
        program, *words = shlex.split(line, comments=True)
        if program == "python":
            script = ROOT / words[0] if words[0].startswith("studies/") else words[0]
            words = [str(script), *words[1:], *["--no-ray"] * ("--no-ray" not in words)]
        start = RECSTUDY if program == "recstudy" else [sys.executable]
        return subprocess.run(
            [*start, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    return run


@pytest.mark.parametrize("page", STUDIES)
def test_every_block_runs_and_every_claim_is_supported(typed, tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    for language, file, text in BLOCK.findall((ROOT / f"docs/how-to/{page}.md").read_text()):
        if file:
            (tmp_path / file).write_text(text)
        elif language == "bash":
            for line in text.splitlines():
                typed(line)
        else:
            exec(text, {})

    claims = {
        plan.parts[-3]: recstudy.load(plan.parent).table("claims").frame.verdict[0]
        for plan in tmp_path.glob("results/studies/*/*/plan.json")
    }
    assert {*claims} == STUDIES[page]
    for verdict in claims.values():
        assert verdict.partition(", over test items")[0].rstrip(")") == (
            "supported (post hoc" if page == "judge" else "supported"
        )


def test_the_stand_in_takes_and_refuses_overrides_as_hydra_does(tmp_path, monkeypatch):
    command = [sys.executable, str(EXAMPLE / "pretrain.py"), "arch.L_cycles=2", "epochs=10"]
    monkeypatch.setenv("PYTHONPATH", str(OFFLINE))
    monkeypatch.setenv("RECSTUDY_WANDB", str(tmp_path / "log"))

    subprocess.run([*command, "+checkpoint_path=out"], cwd=tmp_path, check=True)
    refused = subprocess.run([*command, "arch.L_cycle=2"], cwd=tmp_path, capture_output=True, text=True)

    log = (tmp_path / "log").read_text()
    assert re.search(r'^{"step": 80, "values": {"all.exact_accuracy": 0\.\d+}}$', log, re.MULTILINE)
    assert os.listdir(tmp_path / "out") == ["step_80.npy"]
    assert (refused.returncode, refused.stderr[:32]) == (1, "Could not override 'arch.L_cycle")
