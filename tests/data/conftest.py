"""What tests of data sets share: a cache of their own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
