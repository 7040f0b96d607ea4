"""What many tests share: a cache of their own, one thread, and a tiny run that trains in a second."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("HYPOTHESIS_MAX_EXAMPLES", "50")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decoded data of the tests, apart from the user's."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["RECSTUDY_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real data sets in their official layouts."""
    folder = os.environ.get("RECSTUDY_DATA")
    if not folder or not Path(folder).exists():
        pytest.skip("RECSTUDY_DATA names no folder with the real data sets")
    return Path(folder)
