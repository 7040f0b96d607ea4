"""The stranger's study, from its command to its page: on this machine, and by Train on nodes that lack its
folder.
"""

import csv
import html
import json
from hashlib import sha256

import pytest
from processes import RECSTUDY, run_python
from ray_nodes import free_port, head_of, namespace, started
from shell import Shell

FOLDER = "studies/mixer/quick"
BRIER = """@METRICS.add("brier")
@metric("Brier score", better="lower", bounds=(0, 2))
def brier(answers):
    return float(((answers.probabilities - np.eye(10)[answers.labels]) ** 2).sum(1).mean())


"""


def read(stranger: Shell, *words: str, code: int = 0) -> str:
    """What the `recstudy` command prints."""
    done = run_python(*RECSTUDY, *words, stranger.results, folder=stranger.folder, code=code)
    return done.stdout + done.stderr


def points(stranger: Shell) -> list[dict[str, str]]:
    """The numbers behind the reliability diagram."""
    return list(
        csv.DictReader(
            (stranger.results / FOLDER / "report/figures/reliability.csv").read_text().splitlines()
        )
    )


@pytest.mark.whole
def test_study_with_a_plugin_runs_and_is_read(stranger, home):
    stranger.run("--no-ray", "--only", "depth=1*")

    assert [result["status"] for result in stranger.records().values()] == ["done"] * 2
    assert all(0 <= result["metrics"]["worst_class"] <= 100 for result in stranger.records().values())
    files = {
        file.name: sha256(file.read_bytes()).hexdigest()
        for file in (stranger.study, home / "mixer_network.py")
    }
    assert all(result["provenance"]["files"] == files for result in stranger.records().values())
    assert len({point["variant"] for point in points(stranger)}) == 2
    assert "Worst class (%)" in html.unescape(stranger.page())

    stranger.study.write_text(stranger.study.read_text().replace("@PARTS.add", BRIER + "@PARTS.add"))
    assert "no metric 'brier'" in read(stranger, "evaluate", "--metric", "brier", code=2)
    read(stranger, "evaluate", "--metric", "brier", "--trust")
    assert sorted(stranger.records("measured.json")) == sorted(stranger.records())
    assert all("brier" in json.dumps(record) for record in stranger.records("measured.json").values())

    assert f"Not imported: {stranger.study}, " in read(stranger, "report")
    page = html.unescape(stranger.page())
    assert "no report part 'reliability'" in page
    assert "Top-1 accuracy" in page


@pytest.mark.whole
def test_plugin_study_runs_on_two_nodes_without_its_files(stranger, home, tmp_path, cache):
    """They see empty folders in place of the study's and of the cache; a worker of Train's on each."""
    hiding = f'mount -t tmpfs none {home} && mount -t tmpfs none {cache} && exec "$@"'
    hidden = [*namespace("--mount"), "sh", "-c", hiding, "sh"]
    port = free_port()
    with (
        started(tmp_path / "head", "--num-cpus=1", *head_of(port), port=port, inside=hidden),
        started(tmp_path / "node", f"--address=127.0.0.1:{port}", "--num-cpus=1", inside=hidden),
    ):
        stranger.run(
            "--address",
            f"127.0.0.1:{port}",
            "--only",
            "depth=3, supervision_steps=2",
            "--workers",
            "2",
        )

    (result,) = stranger.records().values()
    assert (result["status"], result["provenance"]["workers"]) == ("done", 2)
    assert "depth 3, 2 supervision steps" in {point["variant"] for point in points(stranger)}
