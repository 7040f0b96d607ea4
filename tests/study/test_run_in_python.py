"""`recstudy.run`: a study from Python, also in a notebook that is run for real."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiny
from notebooks import executed
from rich.console import Console

import recstudy
from recstudy.base.errors import ConfigError
from recstudy.cli.study_entries import study_entry
from recstudy.report.writing import show_report
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan
from recstudy.study.testing import write_study


def test_object_that_is_no_study_is_refused_in_one_line():
    with pytest.raises(
        ConfigError,
        match=r"^run takes a Study, but got <built-in function len>\. Give a function as its program",
    ):
        recstudy.run(len)


def test_a_study_is_run_off_the_main_thread_as_in_a_server(tmp_path):
    """Where Python lets nobody set what a signal does."""
    results = write_study(tmp_path / "results", tiny.study)

    with ThreadPoolExecutor(1) as pool:
        loaded = pool.submit(recstudy.run, tiny.study, results=results.root).result()

    assert loaded.runs["status"].tolist() == ["done"] * 6


def test_a_session_without_a_file_has_no_command(tmp_path, monkeypatch):
    monkeypatch.delattr("__main__.__file__", raising=False)  # as in a notebook
    results = write_study(tmp_path / "results", tiny.study, seeds=1)
    record_plan(make_plan(tiny.study, seeds=2), results)
    entry = study_entry(results, "tiny", "quick")
    assert entry.next_command == ""
    assert entry.next_step.endswith("are left. recstudy.run resumes them.")
    page = show_report(results, "tiny", "quick", (), Console(quiet=True))
    assert "This command" not in page.read_text()


CELLS = [
    f"import signal, sys; sys.path.append({str(Path(tiny.__file__).parent)!r}); import recstudy, tiny",
    "found = recstudy.run(tiny.study, smoke=True, seeds=1, vary={'model.latent_steps': [1]}, set={'train.batch_size': 16})",
    "again = recstudy.run(tiny.study, smoke=True, seeds=1, vary={'model.latent_steps': [1]}, set={'train.batch_size': 16})",
    "found.runs['status'].tolist()",
    "isinstance(found, recstudy.report.loaded.Loaded), found.runs.equals(again.runs), signal.getsignal(signal.SIGTERM)",
    "found.table('depths')",
    "found.figure('curve')",
]


@pytest.mark.whole
def test_a_study_is_run_in_a_notebook(tmp_path):
    """With one live view while it runs; what was finished is found; no signal's handler stays."""
    _, first, second, runs, description, table, figure = (cell.outputs for cell in executed(CELLS, tmp_path))

    (view,) = (output.data["text/plain"] for output in first if output.output_type == "display_data")
    assert view.startswith("2 runs: 0 finished before, 2 to run\n")
    assert "\n2 done, 0 running, 0 failed of 2" in view
    assert [output.text for output in second] == ["2 runs: all finished before\n"]
    assert runs[0].data["text/plain"] == "['done', 'done']"
    configs = [json.loads(file.read_text())["train"] for file in tmp_path.glob("results/runs/*/config.json")]
    assert {(train["epochs"], train["batch_size"]) for train in configs} == {(2, 16)}
    assert description[0].data["text/plain"] == "(True, True, <Handlers.SIG_DFL: 0>)"
    assert "text/html" in table[0].data
    assert "application/vnd.plotly.v1+json" in figure[0].data
