"""What Prometheus and the Ray dashboard see of a study that runs."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import tiny
from prometheus_client.parser import text_string_to_metric_families
from shell import Shell, kill_all, until

from recstudy.cluster.trackers import ENDED, GAUGES, MOST, OTHERS, Metrics
from recstudy.records import Results
from recstudy.study.study import Run, make_plan

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
GRAFANA = json.loads((DASHBOARDS / "grafana/recstudy.json").read_text())
BROKEN = "latent_steps=1, supervision_steps=1"


@dataclass
class Session:
    """A sweep under way, and the folder of its Ray session."""

    shell: Shell
    driver: subprocess.Popen[str]
    folder: Path

    def series(self) -> list[tuple[str, dict[str, str], float]]:
        """Ours at every endpoint that Ray names to Prometheus: name, labels, value."""
        assert self.driver.poll() is None, self.driver.communicate()
        found = []
        with suppress(OSError, ValueError):  # not there yet
            for group in json.loads((self.folder / "prom_metrics_service_discovery.json").read_text()):
                for target in group["targets"]:
                    text = urllib.request.urlopen(f"http://{target}/metrics", timeout=10).read().decode()
                    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
                    found += [(name, labels, value) for name, labels, value, *_ in samples if name.startswith("ray_recstudy_")]
        return found

    def at_work(self) -> list[tuple[str, dict[str, str], float]]:
        """All series as they stood at one look that has every gauge: between looks runs end, and Ray forgets what is not set for a while."""
        series = self.series()
        return series if {f"ray_{name}" for name in GAUGES} <= {name for name, _, _ in series} else []

    def runs(self, status: str) -> list[str]:
        """The variants of which a run has ended so."""
        return [labels["variant"] for _, labels, _ in self.series() if labels.get("status") == status]


@pytest.fixture(scope="module")
def session(tmp_path_factory) -> Iterator[Session]:
    """Six runs of half a minute, of which one fails at once; two run at a time."""
    ray = Path(tempfile.mkdtemp(prefix="ray-"))  # short, for Ray's sockets lie below
    shell = Shell(tmp_path_factory.mktemp("sweep"), environment={"RAY_TMPDIR": str(ray), "RAY_metrics_report_interval_ms": "500"})
    half = str(max(1, (os.cpu_count() or 1) // 2))
    arguments = ("--set", "train.epochs=300", "--cpus-per-run", half, "--log", "tensorboard")
    Results(shell.results).create()
    broken = shell.plan(*arguments)[f"{BROKEN}, seed 0"]
    (shell.results / "runs" / broken / "losses.jsonl").mkdir(parents=True)
    with shell.start(*arguments) as driver:
        try:
            yield Session(shell, driver, ray / "ray/session_latest")
        finally:
            driver.send_signal(signal.SIGINT)
            try:
                driver.wait(60)
            except subprocess.TimeoutExpired:
                kill_all(driver)
            shutil.rmtree(ray, ignore_errors=True)


@pytest.mark.whole
def test_the_endpoint_counts_runs_and_shows_how_they_do(session):
    until(lambda: session.runs("done"), "a run that is done at the endpoint")
    series = until(session.at_work, "a run under way, with numbers of its own, at the endpoint")

    assert session.runs("failed") == [BROKEN]
    assert session.shell.results.joinpath("logs/tensorboard/tiny").exists()
    labels = {run.label for run in make_plan(tiny.study).runs}
    for _, tags, _ in series:
        assert (tags["study"], tags["family"]) == ("tiny", "vitrm")
        assert tags["variant"] in labels
    values = {name: [value for of, _, value in series if of == f"ray_{name}"] for name in GAUGES}
    assert 1 <= sum(values["recstudy_runs_running"]) <= 2
    assert all(0 < loss < 10 for loss in values["recstudy_loss"])
    assert all(0 < score <= 100 for score in values["recstudy_score"])
    assert max(values["recstudy_images_per_second"]) > 1
    assert all(1 <= steps <= 2 for steps in values["recstudy_supervision_steps_used"])


def test_each_metric_has_a_panel_and_each_panel_a_metric():
    drawn = {name for panel in GRAFANA["panels"] for name in names(panel)}
    assert drawn == {*(f"ray_{name}" for name in GAUGES), f"ray_{ENDED}_total"}


def names(panel: dict) -> list[str]:
    return [name for target in panel["targets"] for name in re.findall(r"ray_\w+", target["expr"])]


def test_a_label_in_any_script_is_recorded():
    """Ray's metrics raise at what is not ASCII, which would end the sweep."""
    metrics, (run, *_) = Metrics("größe"), make_plan(tiny.study).runs
    labelled = Run(0, 'τ=½ "two"\n', 0, run.config, run.id)

    metrics.started(labelled)
    metrics.show()
    metrics.ended(labelled, {"status": "done"})
    metrics.close()

    assert metrics.series(labelled) == ("gr\\xf6\\xdfe", "vitrm", '\\u03c4=\\xbd "two"\n')


def test_the_series_of_a_long_search_are_few():
    metrics, (run, *_) = Metrics("search"), make_plan(tiny.study).runs
    runs = [Run(number, f"learning_rate={number}", 0, run.config, run.id) for number in range(MOST + 20)]

    series = [metrics.series(run) for run in runs]

    assert series[:MOST] == [("search", "vitrm", run.label) for run in runs[:MOST]]
    assert set(series[MOST:]) == {("search", "vitrm", OTHERS)}
    assert [metrics.series(run) for run in runs] == series
