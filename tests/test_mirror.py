import pickle
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from objects import proxied

from recstudy.base.errors import ConfigError, StorageError
from recstudy.records import Results, mirror, stores
from recstudy.records.files import append_line, write_json
from recstudy.records.mirror import Mirror, scratch
from recstudy.records.stores import without_secrets, write_object
from recstudy.study.testing import make_result


@pytest.fixture
def two(uri, tmp_path) -> tuple[Mirror, Mirror]:
    """Two machines that share the store."""
    return Mirror(uri, tmp_path / "a"), Mirror(uri, tmp_path / "b")


@pytest.fixture
def s3(object_store, tmp_path) -> tuple[Mirror, Mirror]:
    """The same, of a store by Amazon's protocol."""
    return Mirror(object_store.uri(tmp_path.name), tmp_path / "a"), Mirror(
        object_store.uri(tmp_path.name), tmp_path / "b"
    )


def files(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def fill(root: Path, **contents: str) -> None:
    (root / "runs/x").mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (root / "runs/x" / name.replace("_", ".")).write_text(content)


def test_mirror_fetches_files_that_another_machine_sent(two, tmp_path):
    first_mirror, second_mirror = two
    fill(first_mirror.root, result_json="{}", epochs_jsonl="1\n", lock="l", weights_safetensors="w")
    (first_mirror.root / "runs/x/hang-0.log").write_text("stack")
    first_mirror.push(first_mirror.root)

    second_mirror.pull(("*",))
    assert files(second_mirror.root) == {f"runs/x/{name}": text for name, text in
                                 {"result.json": "{}", "epochs.jsonl": "1\n", "weights.safetensors": "w"}.items()}  # fmt: skip

    third_mirror = Mirror(second_mirror.uri, tmp_path / "c")
    third_mirror.pull()
    assert set(files(third_mirror.root)) == {"runs/x/result.json", "runs/x/epochs.jsonl"}


def test_answers_are_fetched_when_they_are_asked_for(uri, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "scratch"))
    sender = Mirror(uri, tmp_path / "sender")
    fill(sender.root, result_json="{}", answers_npz="four megabytes", mistakes_npz="few")
    sender.push(sender.root)

    results = Results(uri).pull()

    assert set(files(results.root / "runs/x")) == {"result.json", "mistakes.npz"}
    assert results.fetched(results.run("x").answers).read_text() == "four megabytes"
    assert "answers.npz" in files(results.pull().root / "runs/x")
    assert not results.fetched(results.run("y").answers).exists()


def test_weights_are_as_large_as_they_are_and_records_are_not(uri, tmp_path):
    sender, receiver = Mirror(uri, tmp_path / "sender"), Mirror(uri, tmp_path / "here")
    fill(sender.root, weights_safetensors="w" * 5_000_000)
    sender.push(sender.root)
    receiver.pull(("*",))
    assert (receiver.root / "runs/x/weights.safetensors").stat().st_size == 5_000_000

    fill(sender.root, result_json="0" * 5_000_000)
    sender.push(sender.root)
    with pytest.raises(
        StorageError,
        match=r"runs/x/result\.json is damaged: it has 5\.0 MB, but a file of its kind has at most 4 MB\.",
    ):
        receiver.pull()
    assert not (receiver.root / "runs/x/result.json").exists()


def test_a_copy_becomes_equal_to_the_store_whatever_it_held(two):
    first_mirror, second_mirror = two
    fill(first_mirror.root, result_json="whole", epochs_jsonl="1\n", config_json="c")
    first_mirror.push(first_mirror.root)
    fill(second_mirror.root, result_json="who", epochs_jsonl="1\n2\n", failure_json="never sent", lock="l")
    (second_mirror.root / "runs/x/hang-0.log").write_text("stack")

    second_mirror.pull(("*",), subfolder="runs")

    records = {
        "result.json": "whole",
        "epochs.jsonl": "1\n",
        "config.json": "c",
        "lock": "l",
        "hang-0.log": "stack",
    }
    assert files(second_mirror.root / "runs/x") == records


def test_unchanged_file_is_neither_fetched_nor_sent_again(s3, monkeypatch):
    first_mirror, _ = s3
    fill(first_mirror.root, config_json="c", epochs_jsonl="1\n")
    first_mirror.push(first_mirror.root)
    moved, read = [], first_mirror.read
    monkeypatch.setattr(first_mirror, "read", lambda key: moved.append(Path(key).name) or read(key))
    monkeypatch.setattr(
        mirror,
        "write_object",
        lambda fs, key, content: moved.append(Path(key).name) or write_object(fs, key, content),
    )

    first_mirror.push(first_mirror.root)
    first_mirror.pull()
    assert moved == []

    append_line(first_mirror.root / "runs/x/epochs.jsonl", {"epoch": 1})
    first_mirror.push(first_mirror.root)
    assert moved == ["epochs.jsonl"]


def test_another_process_here_fetches_only_what_is_not_the_same(s3):
    old_mirror, _ = s3
    fill(old_mirror.root, config_json="c", result_json="{}")
    old_mirror.push(old_mirror.root)
    intact, torn = (old_mirror.root / "runs/x" / name for name in ("config.json", "result.json"))
    torn.write_text("{ ")
    inode = intact.stat().st_ino

    new_mirror = Mirror(old_mirror.uri, old_mirror.root)
    new_mirror.pull()

    assert (intact.stat().st_ino, torn.read_text()) == (inode, "{}")  # a file that is fetched is a new one


def twice_within_a_second(store: Mirror, key: str, between: Callable[[], None]) -> bool:
    """Whether an object was written two times with something between, all within one second."""
    time.sleep(1 - time.time() % 1)
    write_object(store.fs, key, b"old")
    old_time = store.fs.get_file_info(key).mtime_ns
    between()
    write_object(store.fs, key, b"new")
    return bool(old_time == store.fs.get_file_info(key).mtime_ns)


def test_file_changed_in_the_second_of_its_fetch_is_fetched_again(s3):
    """A store's times are whole seconds, and both have the same size."""
    first_mirror, second_mirror = s3
    key = first_mirror.key(first_mirror.root / "runs/x/config.json")

    assert any(twice_within_a_second(first_mirror, key, second_mirror.pull) for _ in range(20))
    second_mirror.pull()

    assert (second_mirror.root / "runs/x/config.json").read_text() == "new"


def test_file_sent_again_has_another_time(s3, monkeypatch):
    """So that a reader sees it whose clock is ahead of the store's, and who takes for settled what is not."""
    monkeypatch.setattr(mirror, "YOUNG_S", -60.0)
    first_mirror, second_mirror = s3
    fill(first_mirror.root, config_json="old")
    first_mirror.push(first_mirror.root)
    second_mirror.pull()
    fill(first_mirror.root, config_json="new")
    first_mirror.push(first_mirror.root)
    second_mirror.pull()

    assert (second_mirror.root / "runs/x/config.json").read_text() == "new"


def test_old_file_is_not_fetched_twice(s3, monkeypatch):
    monkeypatch.setattr(mirror, "YOUNG_S", 0.5)
    first_mirror, second_mirror = s3
    fill(first_mirror.root, config_json="c")
    first_mirror.push(first_mirror.root)
    time.sleep(2)
    second_mirror.pull()
    inode = (second_mirror.root / "runs/x/config.json").stat().st_ino

    Mirror(second_mirror.uri, second_mirror.root).pull()

    assert (second_mirror.root / "runs/x/config.json").stat().st_ino == inode


def test_growing_file_is_fetched_whole(object_store, tmp_path):
    slow_mirror, longer = Mirror(object_store.uri(tmp_path.name), tmp_path / "own"), [b'{"beat": 10}']
    key = f"{slow_mirror.base}/claim"
    write_object(slow_mirror.fs, key, b'{"beat": 9}')

    def grow(request: str) -> None:  # after its size was asked for
        if request.startswith("GET ") and "/claim" in request and longer:
            write_object(slow_mirror.fs, key, longer.pop())

    with proxied(object_store, grow) as slow:
        assert Mirror(slow.uri(tmp_path.name), tmp_path / "other").read(key) == b'{"beat": 10}'


def test_a_result_is_never_there_without_its_files(tmp_path, monkeypatch):
    """The store takes no checkpoint: a folder is in its place."""
    monkeypatch.setattr("recstudy.records.files.PAUSES", (0.1,))
    first_mirror = Mirror(f"local://{tmp_path}/store", tmp_path / "a")
    (tmp_path / "store/runs/x/a.pt").mkdir(parents=True)
    fill(first_mirror.root, a_pt="checkpoint", result_json="{}", zz_jsonl="1\n", weights_safetensors="w")

    with pytest.raises(StorageError, match=r"the results store fails at .*/store/runs/x/a.pt: .*irectory"):
        first_mirror.push(first_mirror.root)

    assert set(files(tmp_path / "store")) == {"runs/x/zz.jsonl", "runs/x/weights.safetensors"}


def test_removed_file_is_removed_from_the_store(two):
    first_mirror, second_mirror = two
    fill(first_mirror.root, a_pt="old", b_pt="new")
    first_mirror.push(first_mirror.root)
    (first_mirror.root / "runs/x/a.pt").unlink()
    first_mirror.forget()

    second_mirror.pull(("*",))
    assert set(files(second_mirror.root)) == {"runs/x/b.pt"}


def test_an_object_that_a_kill_left_half_sent_is_not_there(s3):
    first_mirror, _ = s3
    key = first_mirror.key(first_mirror.root / "result.json")
    stream = first_mirror.fs.open_output_stream(key)
    stream.write(b"{")
    assert first_mirror.read(key) is None
    assert first_mirror.empty
    stream.close()
    assert first_mirror.read(key) == b"{"


def test_a_store_that_comes_back_in_time_is_waited_for(tmp_path):
    first_mirror = Mirror(f"local://{tmp_path}/store", tmp_path / "a")
    fill(first_mirror.root, config_json="c")
    (tmp_path / "store").write_text("in the way")

    started = time.monotonic()
    threading.Timer(1.0, (tmp_path / "store").unlink).start()
    first_mirror.push(first_mirror.root)

    assert time.monotonic() - started > 1.0
    assert files(tmp_path / "store") == {"runs/x/config.json": "c"}


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s4://bucket/x", r"unsupported URI scheme 's4'. Known: s3, gs, local\."),
        ("s3://", "the URI has no bucket or folder. Example: s3://bucket/results"),
        ("s3://me:secret@bucket/x", r"must not contain a password.*AWS_SECRET_ACCESS_KEY"),
        (
            "s3://bucket/x?region=eu&token=secret",
            r"a password or a key.*: s3://bucket/x\?region=eu&token=\*\*\*\. Give",
        ),
    ],
)
def test_a_uri_that_nobody_here_can_use_is_refused(uri, words, tmp_path):
    with pytest.raises(ConfigError, match=words) as raised:
        Mirror(uri, tmp_path)
    assert "secret" not in str(raised.value)


SECRETS = {
    "s3://me:a/b@c d@bucket/x": "s3://me:***@bucket/x",
    "--link=Ray=http://[::1]:8265/?token=secret#access_token=secret": "--link=Ray=http://[::1]:8265/?token=***#access_token=***",
    "x://host/?secret": "x://host/?***",
    "x://host/?a=b=c;sig=d%26e": "x://host/?a=***;sig=***",
}
HARMLESS = [
    "s3://bucket/folder?scheme=http&endpoint_override=127.0.0.1%3A9000&region=eu",
    "results/a:b@c?token=d",
    "train.epochs=5",
]


@pytest.mark.parametrize(("word", "expected"), [*SECRETS.items(), *((word, word) for word in HARMLESS)])
def test_a_uri_is_shown_without_what_may_be_a_secret(word, expected):
    assert without_secrets(word) == expected


def test_a_bucket_that_is_not_there_is_refused(object_store):
    with pytest.raises(
        StorageError, match=r"cannot use the results store s3://none/x.*bucket does not exist.*s3 client"
    ):
        Results(object_store.uri("x", bucket="none")).create()


def test_a_store_that_does_not_answer_is_refused_in_time(tmp_path, monkeypatch):
    """It takes the connection, and says nothing."""
    monkeypatch.setattr(stores, "ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"s3://bucket/x?scheme=http&region=us-east-1&endpoint_override=127.0.0.1%3A{silent.getsockname()[1]}"
        with pytest.raises(
            StorageError, match=r"cannot use the results store s3://bucket/x.* \(no answer in 1 s\)"
        ):
            Mirror(uri, tmp_path)


def test_a_store_of_another_program_is_left_alone(object_store, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path))
    uri = object_store.uri(f"{tmp_path.name}-theirs")
    theirs = Mirror(uri, tmp_path / "theirs")
    write_object(theirs.fs, theirs.key(tmp_path / "theirs/photo.json"), b"{}")
    with pytest.raises(StorageError, match=r"s3://results/.* holds files of another program"):
        Results(uri).create()
    assert theirs.read(theirs.key(tmp_path / "theirs/recstudy.json")) is None


def test_results_on_a_store_are_the_same_wherever_they_travel(object_store, tmp_path, monkeypatch):
    uri = object_store.uri(tmp_path.name)
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "here"))
    results = Results(uri).create()
    with results.changing(results.run("x").result):
        results.run("x").finish(make_result())
    packed = pickle.dumps(results)

    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "there"))
    unpickled = pickle.loads(packed)
    assert unpickled.root.is_relative_to(tmp_path / "there")
    assert unpickled.pull().states() == {"x": "done"}
    assert unpickled.create().root == scratch(uri)


def test_a_change_sends_what_was_changed_and_nothing_older(object_store, tmp_path, monkeypatch):
    """Somebody else here reads the store while a run goes on; then the driver adds a file to the run's."""
    uri = object_store.uri(tmp_path.name)
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "here"))
    driver, reader, worker = Results(uri).create(), Results(uri), Mirror(uri, tmp_path / "work")
    fill(worker.root, epochs_jsonl="1\n")
    worker.push(worker.root)
    reader.pull()
    fill(worker.root, epochs_jsonl="1\n2\n")
    worker.push(worker.root)

    run = driver.run("x")
    with driver.changing(run.stopped):
        write_json(run.stopped, {"epoch": 2})

    assert driver.pull().states() == {"x": "stopped"}
    assert run.epochs.read_text() == "1\n2\n"


def test_a_file_uri_is_the_folder(tmp_path):
    results = Results(f"file://{tmp_path}/r")
    assert (results.store, results.root) == ("", tmp_path / "r")
