"""Each block of docs/how-to/own-program.md and judge.md runs, in order, in one folder; and the example that
stands for TRM's training script.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
from processes import RECSTUDY, run_python

import recstudy
from recstudy.programs.sources import OFFLINE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "studies/examples/trm_pretrain"
BLOCK = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)
STUDIES = {
    "own-program": {"my_function", "my_script", "degree", "label_noise", "trm_l_cycles"},
    "judge": {"runs", "table"},
}


def run(line: str) -> str:
    """Run a line without Ray."""
    program, *words = shlex.split(line, comments=True)
    if program == "python":
        script = ROOT / words[0] if words[0].startswith("studies/") else words[0]
        words = [str(script), *words[1:], *["--no-ray"] * ("--no-ray" not in words)]
    return run_python(*RECSTUDY * (program == "recstudy"), *words).stdout


@pytest.mark.parametrize("page", STUDIES)
def test_every_block_runs_and_every_claim_is_supported(tmp_path, page):
    for language, file, text in BLOCK.findall((ROOT / f"docs/how-to/{page}.md").read_text()):
        if file:
            (tmp_path / file).write_text(text)
        elif language == "bash":
            for line in text.splitlines():
                run(line)
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
    command = (EXAMPLE / "pretrain.py", "arch.L_cycles=2", "epochs=10")
    monkeypatch.setenv("PYTHONPATH", str(OFFLINE))
    monkeypatch.setenv("RECSTUDY_WANDB", str(tmp_path / "log"))

    run_python(*command, "+checkpoint_path=out")
    refused = run_python(*command, "arch.L_cycle=2", code=1)

    log = (tmp_path / "log").read_text()
    assert re.search(r'^{"step": 80, "values": {"all.exact_accuracy": 0\.\d+}}$', log, re.MULTILINE)
    assert os.listdir(tmp_path / "out") == ["step_80.npy"]
    assert refused.stderr.startswith("Could not override 'arch.L_cycle")
