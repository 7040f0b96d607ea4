"""What many tests share: a cache of their own, one thread, and a tiny run that trains in a second."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from disks import Disk
from hypothesis import settings
from objects import ObjectStore, serving
from shell import Shell

from recstudy.cli import main
from recstudy.cli import study as study_command
from recstudy.records import Results

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded
# a shell's background job ignores Ctrl-C, and so would the commands that the tests start and stop
signal.signal(signal.SIGINT, signal.default_int_handler)
# Ray's 15 lets runs starve while other tests compute: 25 s became 240
os.environ.setdefault("RAY_worker_niceness", "0")
settings.register_profile("recstudy", max_examples=50, deadline=None)  # a busy machine fails no test
settings.load_profile("recstudy")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays data of the tests, apart from the user's."""
    folder = tmp_path_factory.mktemp("cache")
    for levels in Path("~/.cache/recstudy").expanduser().glob("looks-*.json"):
        shutil.copy(levels, folder)  # a second of simulation each
    os.environ["RECSTUDY_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def clusters() -> Iterator[None]:
    """Where Ray keeps its clusters: tests that run side by side, and the user's own, do not find each
    other's.
    """
    # a short name: sockets lie in it
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        yield


@pytest.fixture(autouse=True)
def ray_mode() -> Iterator[None]:
    """A command that joins a cluster presents the user's token from then on; the next test starts without."""
    auth_mode = os.environ.get("RAY_AUTH_MODE")
    yield
    if auth_mode is None:
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


@pytest.fixture(params=["s3", "folder"])
def uri(request: pytest.FixtureRequest, tmp_path: Path, object_store: ObjectStore) -> str:
    """A store by Amazon's protocol, and a folder as pyarrow serves it."""
    return object_store.uri(tmp_path.name) if request.param == "s3" else f"local://{tmp_path}/store"


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """An empty results folder."""
    return Results(tmp_path / "results").create()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Types commands of the tiny study."""
    return Shell(tmp_path)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Types words behind `recstudy`, or options of a study, and returns all that is printed."""

    def run(*words: object, code: int = 0, study: Any = None) -> str:
        with pytest.raises(SystemExit, match=f"^{code}$"):
            study_command.main(study, [*map(str, words)]) if study else main([*map(str, words)])
        text = "".join(capsys.readouterr())
        assert "Traceback" not in text
        return text

    return run
