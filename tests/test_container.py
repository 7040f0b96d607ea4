"""The container of .devcontainer, as far as files tell: no Docker is there to build it."""

import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_checkout_that_is_mounted_does_not_hide_what_the_image_has_installed(tmp_path):
    """Else `make setup` would install it all once more."""
    described = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    (venv,) = re.findall(r"^ENV VENV=(\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)

    assert not Path(venv).is_relative_to(described["workspaceFolder"])
    assert described["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"] == f"{venv}/bin/python"

    (tmp_path / "installed").touch()
    # `make test` hands its own flags and level on, which would make this one name the folders that it enters.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")} | {
        "VENV": str(tmp_path)
    }
    done = subprocess.run(["make", "--dry-run", "demo"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}/bin/python studies/vitrm_depth_sweep.py\n"
