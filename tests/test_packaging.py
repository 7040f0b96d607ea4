"""pyproject's reasons, the version that is told, and an environment that make sets up."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from recstudy.command import main

ROOT = Path(__file__).parents[1]
STATED = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_version_is_the_one_that_the_changelog_dates(capsys):
    version = tomllib.loads(STATED)["project"]["version"]
    dated = re.findall(r"^## (\d[\d.]*) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)

    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])

    assert version == dated[0]
    assert re.fullmatch(rf"recstudy {re.escape(version)}(, commit [0-9a-f]{{12}}( with changes)?)?\n", capsys.readouterr().out)


FAKE = """#!/bin/sh
case "$*" in
    *install*) echo "$*" >>"$(dirname "$0")/installed"; exit 0;;
esac
PYTHONPATH="$(dirname "$0")" exec {python} "$@"
"""


@pytest.fixture
def environment(tmp_path) -> Path:
    """One in which another checkout is installed to be edited; what is installed there is only written down."""
    (other := tmp_path / "other").mkdir()
    programs = tmp_path / "venv" / "bin"
    known = programs / "recstudy-0.1.0.dist-info"
    known.mkdir(parents=True)
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: recstudy\nVersion: 0.1.0\n")
    (known / "INSTALLER").write_text("pip\n")
    (known / "RECORD").write_text("")
    (known / "direct_url.json").write_text(f'{{"url": "file://{other}", "dir_info": {{"editable": true}}}}')
    (programs / "python").write_text(FAKE.format(python=sys.executable))
    (programs / "python").chmod(0o755)
    return tmp_path / "venv"


def make(environment: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = ["make", "--silent", "setup", f"VENV={environment}"]
    return subprocess.run(words, cwd=ROOT, env=kept | variables, capture_output=True, text=True, check=False)


def test_make_leaves_an_environment_to_the_checkout_that_it_has(environment):
    done = make(environment)

    first, *rest = done.stderr.splitlines()
    assert f"{environment} has the recstudy of {environment.parent / 'other'}, and not that of {ROOT}: give this one" in first
    assert len(rest) == 1  # make's own
    assert done.returncode == 2
    assert not (environment / "bin/installed").exists()


def test_make_installs_where_the_other_checkout_is_gone_or_is_this_one(environment):
    (environment.parent / "other").rmdir()

    assert make(environment).returncode == 0

    assert "--editable .[dev]" in (environment / "bin/installed").read_text()


def test_make_installs_nothing_where_pythonpath_has_this_checkout(environment):
    assert make(environment, PYTHONPATH=str(ROOT)).returncode == 0

    assert not (environment / "bin/installed").exists()
