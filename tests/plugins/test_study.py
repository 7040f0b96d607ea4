"""The stranger's study, from its command to its page: on this machine, on Train workers, on nodes that lack its folder."""

import csv
import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from ray_nodes import free_port, head_of, namespace, started
from shell import Shell

RUNS = 4
FOLDER = "studies/mixer/quick"
BRIER = """@METRICS.add("brier")
@metric("Brier score", better="lower", bounds=(0, 2))
def brier(answers):
    return float(((answers.probabilities - np.eye(10)[answers.labels]) ** 2).sum(1).mean())


"""


def statuses(stranger: Shell) -> list[str]:
    return [result["status"] for result in stranger.records().values()]


def read(stranger: Shell, *words: str, code: int = 0) -> str:
    """What the `recstudy` command prints."""
    command = [sys.executable, "-c", "from recstudy.command import main; main()", *words, str(stranger.results)]
    done = subprocess.run(command, cwd=stranger.folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def heads(printed: str) -> list[str]:
    """Of the columns of each table, which may stand in several lines."""
    found = []
    for table in re.findall(r"┏[━┳]+┓\n(.*?)\n┡", printed, re.DOTALL):
        columns = zip(*(line.strip("┃").split("┃") for line in table.splitlines()), strict=True)
        found += [" ".join(" ".join(column).split()) for column in columns]
    return found


def points(stranger: Shell) -> list[dict[str, str]]:
    """The numbers behind the reliability diagram."""
    return list(csv.DictReader((stranger.results / FOLDER / "report/figures/reliability.csv").read_text().splitlines()))


@pytest.mark.whole
def test_it_runs_and_is_read(stranger, home):
    output = stranger.run()

    assert statuses(stranger) == ["done"] * RUNS
    assert "Worst class (%)" in heads(output)
    assert all(0 <= result["metrics"]["worst_class"] <= 100 for result in stranger.records().values())
    plan = json.loads((stranger.results / FOLDER / "plan.json").read_text())
    assert [(one["module"], one["file"]) for one in plan["plugins"]] == [
        ("mixer_study", str(stranger.study)),
        ("", str(home / "mixer_network.py")),
    ]
    files = {file.name: sha256(file.read_bytes()).hexdigest() for file in (stranger.study, home / "mixer_network.py")}
    assert plan["files"] == files
    assert all(result["provenance"]["files"] == files for result in stranger.records().values())
    assert len({point["variant"] for point in points(stranger)}) == RUNS
    assert "all finished before" in stranger.run()

    drawn = points(stranger)
    assert "Worst class (%)" in heads(read(stranger, "report", "--trust"))
    assert points(stranger) == drawn
    assert "mixer" in read(stranger, "status")
    assert read(stranger, "explain", "depths:1:2", "--trust").startswith(
        "depths, row 'depth=1, supervision_steps=1', column 'Worst class"
    )

    stranger.study.write_text(stranger.study.read_text().replace("@PARTS.add", BRIER + "@PARTS.add"))
    assert "no metric 'brier'" in read(stranger, "evaluate", "--metric", "brier", code=2)
    read(stranger, "evaluate", "--metric", "brier", "--trust")
    assert sorted(stranger.records("measured.json")) == sorted(stranger.records())
    assert all("brier" in json.dumps(record) for record in stranger.records("measured.json").values())

    assert f"Not imported: {stranger.study}, " in read(stranger, "report")
    page = html.unescape(stranger.page())
    assert "no report part 'reliability'" in page
    assert "; --trust imports it" in page
    assert "Top-1 accuracy" in page
    assert "questions" in read(stranger, "audit")


@contextmanager
def nodes_without(folder: Path, home: Path, count: int) -> Iterator[int]:
    """The port of a cluster whose nodes, of one core each, see an empty folder in place of `home`."""
    hidden = [*namespace("--mount"), "sh", "-c", f'mount -t tmpfs none {home} && exec "$@"', "sh"]
    port = free_port()
    with ExitStack() as kept:
        kept.enter_context(started(folder / "head", "--num-cpus=1", *head_of(port), port=port, inside=hidden))
        for at in range(1, count):
            kept.enter_context(started(folder / f"node{at}", f"--address=127.0.0.1:{port}", "--num-cpus=1", inside=hidden))
        yield port


@pytest.mark.whole
def test_it_runs_on_two_nodes_that_have_nothing_of_it(stranger, home, tmp_path):
    """Inline, where Tune's workers load it, and over both nodes, where Train's do."""
    with nodes_without(tmp_path, home, 2) as port:
        stranger.run("--address", f"127.0.0.1:{port}", "--only", "depth=1*")
        stranger.run("--address", f"127.0.0.1:{port}", "--only", "depth=3, supervision_steps=2", "--workers-per-run", "2")

    assert statuses(stranger) == ["done"] * 3
    assert sorted(result["provenance"]["workers"] for result in stranger.records().values()) == [1, 1, 2]
    assert {point["variant"] for point in points(stranger)} >= {"depth=3, supervision_steps=2"}
