"""What Prometheus and the Ray dashboard see of a study that runs."""

import json
import os
import re
import tempfile
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import tiny
from prometheus_client.parser import text_string_to_metric_families
from shell import Shell, kill_all, until

from recstudy.cluster.trackers import END_COUNTER, GAUGES, MAX_SERIES, OTHER_LABEL, Metrics
from recstudy.records import Results, Run
from recstudy.study.plan import make_plan

BROKEN = "latent_steps=1, supervision_steps=1"
Series = list[tuple[str, dict[str, str], float]]


def series(session: Path) -> Series:
    """Ours at every endpoint that Ray names to Prometheus, once there is a finished run and every gauge:
    name, labels, value.
    """
    gauges: Series = []
    with suppress(OSError, ValueError):  # not there yet
        for group in json.loads((session / "prom_metrics_service_discovery.json").read_text()):
            for target in group["targets"]:
                text = urllib.request.urlopen(f"http://{target}/metrics", timeout=10).read().decode()
                samples = (
                    sample for family in text_string_to_metric_families(text) for sample in family.samples
                )
                gauges += [
                    (name, labels, value)
                    for name, labels, value, *_ in samples
                    if name.startswith("ray_recstudy_")
                ]
    done = any(labels.get("status") == "done" for _, labels, _ in gauges)
    return gauges if done and {f"ray_{name}" for name in GAUGES} <= {name for name, _, _ in gauges} else []


@pytest.mark.whole
def test_the_endpoint_counts_runs_and_shows_how_they_do(tmp_path):
    """Six runs of some seconds, of which one fails at once; two run at a time."""
    runs = make_plan(tiny.study, changes={"train.epochs": 80}).runs
    (broken,) = (run.id for run in runs if run.label == BROKEN)
    half = str(max(1, (os.cpu_count() or 1) // 2))
    # short, for Ray's sockets lie below
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as ray:
        shell = Shell(tmp_path, environment={"RAY_TMPDIR": ray, "RAY_metrics_report_interval_ms": "500"})
        (Results(shell.results).create().run(broken).path / "losses.jsonl").mkdir(parents=True)
        with shell.start("--set", "train.epochs=80", "--cpus", half, "--log", "tensorboard") as driver:
            try:
                session = Path(ray, "ray/session_latest")
                gauges = until(
                    lambda: series(session) or driver.poll() is not None, "a finished run and every gauge"
                )
            finally:
                kill_all(driver)

    assert isinstance(gauges, list), driver.communicate()
    assert [labels["variant"] for _, labels, _ in gauges if labels.get("status") == "failed"] == [BROKEN]
    assert shell.results.joinpath("logs/tensorboard/tiny").exists()
    assert {(labels["study"], labels["family"]) for _, labels, _ in gauges} == {("tiny", "vitrm")}
    assert {labels["variant"] for _, labels, _ in gauges} <= {run.label for run in runs}
    values = {name: [value for of, _, value in gauges if of == f"ray_{name}"] for name in GAUGES}
    assert 1 <= sum(values["recstudy_runs_running"]) <= 2
    for name, minimum, maximum in (("loss", 0, 10), ("score", 0, 100), ("supervision_steps_used", 1, 2)):
        assert all(minimum <= value <= maximum for value in values[f"recstudy_{name}"])


def test_each_metric_has_a_panel_and_each_panel_a_metric():
    dashboard = (Path(__file__).parents[2] / "dashboards/grafana/recstudy.json").read_text()
    assert set(re.findall(r"ray_recstudy_\w+", dashboard)) == {
        *(f"ray_{name}" for name in GAUGES),
        f"ray_{END_COUNTER}_total",
    }


def test_a_label_in_any_script_is_recorded():
    """Ray's metrics raise at what is not ASCII, which would end the sweep."""
    metrics, (run, *_) = Metrics("größe"), make_plan(tiny.study).runs
    labelled = run._replace(label='τ=½ "two"\n')

    metrics.on_start(labelled)
    metrics.show()
    metrics.on_end(labelled, {"status": "done"})
    metrics.close()

    assert metrics.series(labelled) == ("gr\\xf6\\xdfe", "vitrm", '\\u03c4=\\xbd "two"\n')


def test_the_series_of_a_long_search_are_few():
    metrics, (run, *_) = Metrics("search"), make_plan(tiny.study).runs
    runs = [
        Run(number, 0, run.id, f"learning_rate={number}", run.config) for number in range(MAX_SERIES + 20)
    ]

    series = [metrics.series(run) for run in runs]

    assert series[:MAX_SERIES] == [("search", "vitrm", run.label) for run in runs[:MAX_SERIES]]
    assert set(series[MAX_SERIES:]) == {("search", "vitrm", OTHER_LABEL)}
    assert [metrics.series(run) for run in runs] == series
