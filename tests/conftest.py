"""What many tests share: a cache of their own, one thread, and a tiny run that trains in a second."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Disk
from hypothesis import settings
from objects import ObjectStore, serving

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
settings.register_profile("recstudy", max_examples=50, deadline=None)  # a busy machine fails no test
settings.load_profile("recstudy")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decoded data of the tests, apart from the user's."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["RECSTUDY_CACHE"] = str(folder)
    return folder


@pytest.fixture(autouse=True)
def ray_mode() -> Iterator[None]:
    """A command that joins a cluster presents the user's token from then on; the next test starts without."""
    before = os.environ.get("RAY_AUTH_MODE")
    yield
    if before is None:
        os.environ.pop("RAY_AUTH_MODE", None)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real data sets in their official layouts."""
    folder = os.environ.get("RECSTUDY_DATA")
    if not folder or not Path(folder).exists():
        pytest.skip("RECSTUDY_DATA names no folder with the real data sets")
    return Path(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    """Which may be filled, made read-only and taken away."""
    disk = Disk(tmp_path / "disk")
    disk.path.mkdir()
    if not disk.mount():
        pytest.skip("a file system cannot be mounted here (not root)")
    yield disk
    disk.unmount()


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """A bucket of its own on this machine."""
    with serving() as store:
        yield store
