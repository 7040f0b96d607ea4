"""The version is the one that the changelog dates."""

import re
import tomllib
from pathlib import Path

import pytest

from recstudy.cli import main

ROOT = Path(__file__).parents[1]
PROJECT_TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_version_is_the_one_that_the_changelog_dates(capsys):
    version = tomllib.loads(PROJECT_TEXT)["project"]["version"]
    dated = re.findall(
        r"^## (\d[\d.]*) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )

    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])

    assert version == dated[0]
    assert re.fullmatch(
        rf"recstudy {re.escape(version)}(, commit [0-9a-f]{{12}}( with changes)?)?\n", capsys.readouterr().out
    )
