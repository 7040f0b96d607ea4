"""What many tests share: a cache of their own, one thread, and a tiny run that trains in a second."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
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


class Disk:
    """A file system of its own, of 1 MB where no `size` says otherwise."""

    def __init__(self, path: Path, size: str = "1m") -> None:
        self.path, self.size = path, size

    def mount(self) -> bool:
        """Whether it is there, which takes root."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={self.size}", "tmpfs", self.path]
        return self.path.is_mount() or subprocess.run(command, capture_output=True, check=False).returncode == 0

    def unmount(self) -> None:
        while self.path.is_mount():
            subprocess.run(["umount", "--lazy", self.path], check=True)

    def bar(self) -> None:
        """Read-only from now on, as a network mount turns; files that are open for writing would forbid a plain remount."""
        subprocess.run(["mount", "--bind", self.path, self.path], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", self.path], check=True)

    def unbar(self) -> None:
        subprocess.run(["umount", "--lazy", self.path], check=True)

    def fill(self) -> None:
        with open(self.path / "filler", "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def free(self) -> None:
        (self.path / "filler").unlink()


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
