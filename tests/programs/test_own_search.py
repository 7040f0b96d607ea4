"""A search of a training function: what it proposes, stops and confirms, with and without Ray, and when it
resumes.
"""

import re
from functools import partial
from pathlib import Path

import climbing
import pytest
from processes import run_python
from shell import Shell, kill_all, until

import recstudy
from recstudy import Metric, Range, Search
from recstudy.base.errors import ConfigError
from recstudy.records import Results, Stopped, read_record
from recstudy.report import Pareto
from recstudy.report.fits import fits_of
from recstudy.report.study_records import load_study
from recstudy.study.plan import make_plan
from recstudy.study.trials import TrialLog


@pytest.fixture
def command(typed):
    return partial(typed, study=climbing.study)


def log_of(folder: Path) -> TrialLog:
    return TrialLog(make_plan(climbing.study), Results(folder))


def test_a_search_of_a_function_stops_poor_runs_and_confirms_the_best(tmp_path, command):
    output = command("--no-ray", "--results", str(tmp_path))

    log = log_of(tmp_path)
    tried = log.tried()
    best = max(tried, key=lambda trial: trial.values[:1] or [0.0])
    stopped = [trial for trial in tried if trial.state == "stopped"]
    assert (len(tried), len(log.fresh)) == (10, 2)
    assert dict(tried[0].params) == {"settings.lr": 0.1, "settings.depth": 2}
    assert stopped
    assert all(max(trial.scores.values()) < best.values[0] for trial in stopped)
    assert read_record(log.results.run(stopped[0].run_id).stopped, Stopped).by == "median"
    assert next(iter(log.fresh.values())).confirms == tried.index(best)
    assert "Best trial: in the search by accuracy: trial 0 (lr 0.1, depth 2) with 58.0 (n=1)" in output
    page = (tmp_path / "studies/climbing/default/report/report.html").read_text()
    assert "Search history" in page
    assert "nothing is left to run" in command("--no-ray", "--results", str(tmp_path))


def test_fields_are_set_and_varied_by_their_own_names(tmp_path, command):
    options = ("--results", str(tmp_path), "--dry-run")

    output = command(*options, "--vary", "lr=0.1,0.2", "--vary", "epochs=3,9", "--set", "pause=0.1")

    assert [re.sub(" +", " ", line).strip() for line in output.splitlines()[4:7]] == [
        "climbing.climb lr 0.1, 0.2",
        "climbing.climb depth 1 to 6",
        "climbing.climb epochs 3, 9",
    ]
    assert "lr=0.1, depth=2, epochs=9" in output
    assert "Price: 12 runs. Their time and FLOPs are unknown: no run has finished." in output


@pytest.mark.parametrize(
    ("settings", "steps"),
    [({"epochs": 9, "steps": 100}, 9), ({"steps": 5}, 5), ({"rounds": 5}, None), ({"steps": True}, None)],
)
def test_the_steps_of_a_run_are_known_by_a_setting(settings, steps):
    study = Search("steps", program=recstudy.Function(max, name=f"steps of {settings}"), settings=settings | {"x": 1},
                   metrics={"accuracy": Metric("%")}, ranges={"x": Range(1, 3)})  # fmt: skip

    assert make_plan(study).base.steps == steps


def test_objectives_are_the_metrics_that_the_function_returns():
    metrics = {"accuracy": Metric("%"), "latency": Metric("ms", better="lower")}
    fields = {
        "program": recstudy.Function(max, name="two objectives"),
        "settings": {"x": 1},
        "ranges": {"x": Range(1, 3)},
    }

    study = Search("two", metrics=metrics, objectives={"score": "max", "latency": "min"}, **fields)

    assert make_plan(study).objectives == {"accuracy": "max", "latency": "min"}
    with pytest.raises(ConfigError, match="no objective 'gflops': there are score, accuracy, latency"):
        make_plan(Search("two", metrics=metrics, objectives={"gflops": "min"}, **fields))


ERROR, NEITHER = Metric(better="lower"), Metric(better=None)


@pytest.mark.parametrize(
    ("metrics", "objectives", "words"),
    [
        ({"error": ERROR}, {"error": "max"}, "'error': 'max', but .* 'error' lower is better. State 'error': 'min'"),
        ({"gain": Metric()}, {"score": "min"}, "'score': 'min', but .* 'gain' higher is better. State 'score': 'max'"),
        ({"error": ERROR, "score": Metric()}, {"score": "max"}, "'score' .* is its first metric, 'error', but"),
        ({"error": ERROR}, {"score": "max"}, ""),  # the default: the better direction
        ({"error": ERROR}, {"error": "min"}, ""),
        ({"ratio": NEITHER}, {"score": "min"}, ""),
    ],
)  # fmt: skip
def test_a_direction_that_contradicts_the_metric_is_refused(metrics, objectives, words):
    program = recstudy.Function(max, name="directions of " + ", ".join(metrics))
    study = Search("way", program=program, settings={"x": 1}, ranges={"x": Range(1, 3)}, metrics=metrics,
                   objectives=objectives)  # fmt: skip

    if words:
        with pytest.raises(ConfigError, match=words):
            make_plan(study)
    else:
        assert {*make_plan(study).objectives.values()} == {"min"}


TRIALS = '''
"""Which level is best?"""
from recstudy import Metric, Range, Search, main


def train(run):
    level = run.settings["level"]
    if level == FAILED:
        raise ValueError("no such level")
    for step in range(3):
        run.report(step, REPORTED=50.0)
    return {"accuracy": float("nan") if level == 2 else level}


study = Search("levels", program=train, settings={"level": 1, NAMED: 3}, metrics={"accuracy": Metric("%")},
               ranges={"level": Range([1, 2, 3])}, budget="8 runs", confirm=1, seeds=1, stopping="median")

if __name__ == "__main__":
    main(study)
'''


@pytest.mark.parametrize(
    ("failed", "reported", "named", "code"),
    [
        (3, "accuracy", "epochs", 8),  # the user's code
        (0, "acc", "n_epochs", 0),  # diverged trials are expected
    ],
)
def test_a_search_says_what_it_could_not_do(tmp_path, failed, reported, named, code):
    file = tmp_path / "levels.py"
    text = TRIALS.replace("FAILED", str(failed)).replace("REPORTED", reported).replace("NAMED", repr(named))
    file.write_text(text)

    ended = run_python(file, "--no-ray", folder=tmp_path, code=code)

    silence = "No run reports 'accuracy' at its steps (they report acc), so --stopping median stopped none."
    guess = "has no setting `epochs` or `steps`, which states the number of steps of a run. --stopping median"
    assert (silence in ended.stdout) is (reported == "acc")
    assert (guess in ended.stdout) is (named == "n_epochs")


def test_a_killed_search_resumes_and_repeats_no_finished_run(tmp_path):
    start = [climbing.FILE, "--no-ray", "--results", tmp_path, "--stopping", "none"]
    run_python(*start, code=-9, CLIMBING="4")
    old_log = log_of(tmp_path)

    resumed = run_python(*start)

    new_log = log_of(tmp_path)
    assert [run.label for run in new_log.runs[: len(old_log.runs)]] == [run.label for run in old_log.runs]
    assert "4 runs made before, 1 of them to run" in resumed.stdout
    assert [new_log.results.run(run.id).tries for run in new_log.runs] == [1, 1, 1, 2, *[1] * 6]


@pytest.mark.whole
def test_a_search_of_a_function_on_ray_resumes_after_its_driver_was_killed(tmp_path):
    shell = Shell(tmp_path, climbing.FILE)
    with shell.start("pause=0.2") as driver:
        until(lambda: shell.records(), "a run has finished")
        kill_all(driver)
    finished = shell.records()

    output = shell.run("pause=0.2")

    assert all(shell.records()[run] == result for run, result in finished.items())
    assert len(shell.records()) + len(shell.records("stopped.json")) == 12
    assert {record["by"] for record in shell.records("stopped.json").values()} == {"median"}
    assert "Best trial: in the search by accuracy: trial 0 (lr 0.1, depth 2) with 58.0 (n=1)" in output


NOISY = '''
"""Which level is best?"""
from recstudy import Metric, Range, Search, main

NOISE = {1: [9, 0, 0], 2: [3, 4, 5], 3: [0, 1, 2]}  # the first is best by its first seed only


def train(run):
    (run.folder / "weights.txt").write_text(f"{run.settings['level']} {run.seed}")
    value = NOISE[run.settings["level"]][run.seed % 3]
    return {"score": value}


study = Search(
    "noisy",
    program=train,
    settings={"level": 1},
    metrics={"score": Metric(better="BETTER")},
    ranges={"level": Range([1, 2, 3])},
    budget="20 runs",
    confirm=1,
    seeds=3,
    trial_seeds=3,
    keep="best",
)

if __name__ == "__main__":
    main(study)
'''


@pytest.mark.parametrize(("better", "level", "scores"), [("higher", 2, "4"), ("lower", 3, "1")])
def test_a_trial_is_scored_by_several_seeds_and_the_folders_of_the_best_one_stay(
    tmp_path, better, level, scores
):
    Path("noisy.py").write_text(NOISY.replace("BETTER", better))

    started = run_python("noisy.py", "--no-ray", "--budget", "6 runs").stdout
    output = run_python("noisy.py", "--no-ray").stdout

    assert "6 runs in total: 3 to search with 3 seeds a trial" in started
    best = re.search(r"in the search by score: trial (\d) \(level (\d)\) with (\d)", output)
    assert (best[2], best[3]) == (str(level), scores)
    kept = sorted(path.read_text() for path in tmp_path.glob("results/runs/*/files/weights.txt"))
    assert kept == [f"{level} {seed}" for seed in range(3)]
    assert f"Kept of trial {best[1]}, the best: " in output
    assert "Seeds of the best 1 trial: 3, 4, 5" in " ".join(output.split())
    assert "nothing is left to run" in run_python("noisy.py", "--no-ray").stdout
    assert len(list(tmp_path.glob("results/runs/*/result.json"))) == 15
    records = load_study(Results(tmp_path / "results"), "noisy", "default")
    points = Pareto("cost", x="seconds", y="score").data(records)
    assert sorted(points["score"]) == [1.0, 3.0, 4.0]  # the means of three seeds each
    fits = fits_of(records, "score").values()  # of fresh seeds alone
    assert {len(fit.scores[key]) for fit, key in fits} == {3}
