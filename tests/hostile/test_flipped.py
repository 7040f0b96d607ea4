"""Every kind of file of a good folder with bytes flipped, cut or swapped: read by every reader, or refused in
one line.

`RECSTUDY_FUZZ=5000 pytest tests/hostile/test_flipped.py` tries that many, other ones each time.
"""

import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strangers import good
from test_strangers import bounded, loaded, pages, run_command

EXAMPLES = int(os.environ.get("RECSTUDY_FUZZ", "0"))
FUZZ_SETTINGS = settings(
    max_examples=EXAMPLES or 25, derandomize=not EXAMPLES, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    filled_results = good(tmp_path_factory.mktemp("flipped") / "results")
    filled_results.run("a" * 20).attempts.write_text(
        '{"started": "2025-01-01T00:00:00+00:00", "host": "node", "process": 1}\n'
    )
    filled_results.study("made_up", "paper").joinpath("looks-.jsonl").write_text(
        '{"seeds": 1, "date": "2025-01-01"}\n'
    )
    return filled_results


@pytest.fixture(scope="module")
def good_files(results):
    """What each file held at first, by its place."""
    return {file.relative_to(results.root): file.read_bytes() for file in kinds(results.root)}


def kinds(root):
    """One file of each name, of the run that has it."""
    files = (file for place in ("runs", "studies") for file in sorted((root / place).rglob("*")))
    return sorted(
        {file.name: file for file in files if file.is_file() and "report" not in file.parts}.values()
    )


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few bytes changed, a piece cut out, or one put in another's place."""
    values = bytearray(content)
    position = st.integers(0, max(0, len(values) - 1))
    match draw(st.sampled_from(["flip", "cut", "swap", "put"])):
        case "flip":
            for _ in range(draw(st.integers(1, 4))):
                values[draw(position)] ^= draw(st.integers(1, 255))
        case "cut":
            first = draw(position)
            del values[first : first + draw(st.integers(1, len(values)))]
        case "swap":
            first, second, size = draw(position), draw(position), draw(st.integers(1, 16))
            piece = bytes(values[first : first + size])
            values[second : second + len(piece)] = piece
        case "put":
            words = [
                b"null",
                b"-1",
                b"1e999",
                b"NaN",
                b"[]",
                b"{}",
                b'""',
                b"9" * 400,
                b"\0",
                b'"\\ud800"',
                b"true",
                b"0.5",
            ]
            first = draw(position)
            values[first : first + draw(st.integers(0, 8))] = draw(st.sampled_from(words))
    return bytes(values)


@FUZZ_SETTINGS
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(results, good_files, capsys, data):
    file, content = data.draw(st.sampled_from(list(good_files.items())))
    (results.root / file).write_bytes(data.draw(damaged(content)))
    try:
        with bounded():
            for command in ("status", "report", "audit"):
                assert run_command(capsys, command, str(results.root))[0] in (0, 2)
            loaded(results.root)
            pages(results.root)
        if file.parts[:2] != ("studies", "other") and file.parts[1] != "a" * 20:
            assert (results.study("other", "paper") / "report/report.html").exists()
    finally:
        (results.root / file).write_bytes(content)
        for study in results.root.glob("studies/*/*"):
            shutil.rmtree(study / "report", ignore_errors=True)
            for log in {*study.glob("looks-*")} - {results.root / place for place in good_files}:
                log.unlink()
