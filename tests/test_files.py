import ast
import errno
import os
import re
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import read_lines
from processes import run_python

from recstudy.base.errors import DataError, StorageError
from recstudy.base.files import atomic_write, cache_folder, sweep
from recstudy.records import append_line, read_json, write_json, write_whole


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3), max_size=6
    ),
    st.data(),
)
def test_a_log_torn_anywhere_keeps_its_whole_lines_and_takes_more(tmp_path_factory, lines, data):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    for line in lines:
        append_line(path, line)
    atomic_write = path.read_bytes() if lines else b""
    cut = data.draw(st.integers(0, len(atomic_write)))
    line_count = atomic_write[:cut].count(b"\n")
    # a torn tail longer than a page, too
    path.write_bytes(atomic_write[:cut] + b"x" * data.draw(st.sampled_from([0, 10_000])))

    assert read_lines(path) == lines[:line_count]

    append_line(path, {"more": 1})

    assert read_lines(path) == [*lines[:line_count], {"more": 1}]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "values.json"
    write_json(path, {"a": 1})

    with pytest.raises(ValueError, match="Out of range float"):
        write_json(path, {"a": float("nan")})

    assert read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["values.json"]


def test_a_write_killed_half_way_leaves_the_old_file(tmp_path):
    """A real process, killed between the write and the rename."""
    path = tmp_path / "values.json"
    write_whole(path, "old")
    code = (
        "import os, sys, signal, pathlib\nfrom recstudy.records import files\n"
        "os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"files.write_whole(pathlib.Path({str(path)!r}), 'new')"
    )

    run_python("-c", code, code=-9)
    assert path.read_text() == "old"


PAUSES = "recstudy.records.files.PAUSES"


@pytest.fixture
def fast(monkeypatch):
    """The five tries within a second."""
    monkeypatch.setattr(PAUSES, (0.1, 0.2, 0.3, 0.3))


# as fast where the third try works; on a machine too busy for that, the last one does
PATIENT = (0.1, 0.2, 0.3, 20)


def test_a_full_disk_ends_with_what_to_free_and_takes_more_when_there_is_room(small_disk, fast):
    log = small_disk.path / "runs/a/log.jsonl"
    write_json(small_disk.path / "recstudy.json", {"format": 1})
    log.parent.mkdir(parents=True)
    append_line(log, {"epoch": 0})
    (small_disk.path / "runs/a/checkpoint-000001.pt").write_bytes(b"x" * 300_000)
    small_disk.fill()

    with pytest.raises(StorageError, match=r"cannot write .*log.jsonl: No space left on device. 0.0 MB are free on this disk. "
                       r"Checkpoints of unfinished runs take 0.3 MB; `recstudy clean .*disk` lists removable files"):  # fmt: skip
        append_line(log, {"epoch": 1, "text": "x" * 100_000})
    with pytest.raises(StorageError, match="No space left on device"):
        write_whole(small_disk.path / "recstudy.json", "x" * 100_000)

    assert read_lines(log) == [{"epoch": 0}]
    assert read_json(small_disk.path / "recstudy.json") == {"format": 1}
    small_disk.free_space()
    append_line(log, {"epoch": 1})
    assert read_lines(log) == [{"epoch": 0}, {"epoch": 1}]


def test_a_disk_that_turns_read_only_is_waited_for(small_disk, fast, monkeypatch):
    small_disk.bar()

    with pytest.raises(StorageError, match=r"Read-only file system. Make it writable, or use another folder"):
        write_whole(small_disk.path / "file", "text")

    monkeypatch.setattr(PAUSES, PATIENT)
    threading.Timer(0.25, small_disk.unbar).start()
    write_whole(small_disk.path / "file", "text")
    assert (small_disk.path / "file").read_text() == "text"


def test_a_folder_that_went_away_is_waited_for(tmp_path, fast, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.rename(tmp_path / "elsewhere")

    with pytest.raises(
        StorageError, match="Mount its file system again, then run the same command to resume"
    ):
        append_line(folder / "log", {"epoch": 0})

    monkeypatch.setattr(PAUSES, PATIENT)
    threading.Timer(0.25, (tmp_path / "elsewhere").rename, (folder,)).start()
    append_line(folder / "log", {"epoch": 0})
    assert read_lines(folder / "log") == [{"epoch": 0}]


def test_permanent_file_error_fails_without_a_retry(tmp_path, monkeypatch):
    monkeypatch.setattr(PAUSES, (60,))
    (tmp_path / "log").mkdir()
    started = time.monotonic()

    with pytest.raises(StorageError, match="log: it is a folder and not a file"):
        append_line(tmp_path / "log", {"epoch": 0})
    with pytest.raises(StorageError, match=re.escape(f" {tmp_path / 'log'}: ")):
        read_lines(tmp_path / "log")

    assert time.monotonic() - started < 30


def test_line_whose_flush_fails_is_written_once(tmp_path, fast, monkeypatch):
    """The write went well, and the disk says only then that it could not keep it: twice, and then it does."""
    failing, flush = [errno.EIO, errno.EIO], os.fsync

    def fsync(file: int) -> None:
        if failing:
            raise OSError(failing.pop(), "Input/output error")
        flush(file)

    log = tmp_path / "log"
    append_line(log, {"epoch": 0})
    monkeypatch.setattr(os, "fsync", fsync)
    failing[:] = [errno.EIO, errno.EIO]

    append_line(log, {"epoch": 1})
    append_line(log, {"epoch": 2})

    assert read_lines(log) == [{"epoch": 0}, {"epoch": 1}, {"epoch": 2}]


def test_a_retry_keeps_the_lines_of_other_processes(tmp_path, fast, monkeypatch):
    log, failures = tmp_path / "log", [errno.EIO]

    def fsync(file: int) -> None:
        if failures:
            with open(log, "a") as other_process:
                other_process.write('{"epoch": 7}\n{"epo')
            raise OSError(failures.pop(), "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    append_line(log, {"epoch": 0})
    append_line(log, {"epoch": 1})

    assert read_lines(log) == [{"epoch": 0}, {"epoch": 7}, {"epoch": 1}]


def test_a_log_that_is_a_link_is_neither_read_nor_written(tmp_path):
    append_line(tmp_path / "outside", {"epoch": 0})
    (tmp_path / "log").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="log is a link"):
        read_lines(tmp_path / "log")
    with pytest.raises(StorageError, match="log is a link"):
        append_line(tmp_path / "log", {"epoch": 1})
    assert read_lines(tmp_path / "outside") == [{"epoch": 0}]


def test_folder_is_replaced_atomically(tmp_path):
    """A real process, killed before the rename; the next one sweeps what it left, and takes the old one's
    place.
    """
    path = tmp_path / "entry"
    with atomic_write(path) as folder:
        folder.mkdir()
        (folder / "old").write_text("old")
    code = (
        "import os, sys, signal, pathlib\nfrom recstudy.base import files\n"
        "os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"with files.atomic_write(pathlib.Path({str(tmp_path / 'other')!r})) as folder:\n"
        "    folder.mkdir()\n    (folder / 'half').write_text('new')"
    )
    run_python("-c", code, code=-9)
    assert len(list(tmp_path.glob(".other.*.tmp/half"))) == 1
    sweep(tmp_path / "other")

    with pytest.raises(FileNotFoundError, match="No such file"), atomic_write(path):
        pass  # made nothing
    assert os.listdir(path) == ["old"]
    with atomic_write(path) as folder:
        folder.mkdir()
        (folder / "new").write_text("new")

    assert os.listdir(path) == ["new"]
    assert os.listdir(tmp_path) == ["entry"]


def by_locale(file: Path) -> list[str]:
    """The calls of a file that read or write text in whatever encoding the locale names."""
    calls = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name, call = ast.unparse(node.func), ast.unparse(node)
        binary = re.search(r", '[rwax+]*b[rwax+]*'|buffering=0", call)
        reads = name.endswith((".read_text", ".write_text")) or (name in ("open", "os.fdopen") and not binary)
        if (reads or re.search(r"\btext=True", call)) and "utf-8" not in call:
            calls.append(f"{file.name}:{node.lineno}: {call}")
    return calls


def test_files_are_of_utf_8_whatever_the_locale():
    package = Path(cache_folder.__code__.co_filename).parent

    assert not [call for file in sorted(package.rglob("*.py")) for call in by_locale(file)]


@pytest.fixture
def homeless(monkeypatch, tmp_path) -> Path:
    """An account as a container has it under a number: no HOME, no entry in passwd. Gives the folder of
    temporary files.
    """

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RECSTUDY_CACHE")
    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.setattr(Path, "expanduser", lambda path: unknown() if str(path).startswith("~") else path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_an_account_without_a_home_has_its_cache_among_temporary_files(homeless):
    folder = cache_folder()

    assert folder.parent == homeless
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache_folder() == folder


@pytest.mark.parametrize("strange", ["open", "link"])
def test_a_cache_that_others_may_write_is_refused(homeless, strange):
    """Whoever writes there could have modules imported."""
    folder = cache_folder()
    if strange == "link":
        folder.rename(homeless / "elsewhere")
        folder.symlink_to(homeless / "elsewhere")
    else:
        folder.chmod(0o777)

    with pytest.raises(DataError, match=r"is open to other accounts\. Set RECSTUDY_CACHE"):
        cache_folder()


def test_several_processes_append_to_one_log(tmp_path):
    log = tmp_path / "log.jsonl"
    with ProcessPoolExecutor(3, get_context("spawn")) as pool:
        list(pool.map(partial(append_line, log), [{"number": number} for number in range(200)]))

    assert sorted(line["number"] for line in read_lines(log)) == list(range(200))
