"""A command as a program: real processes, without Ray."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import RECSTUDY, run_python

from recstudy import Command, LastLine, Metric, Range, Search, Study, Variant, run
from recstudy.base.errors import ConfigError
from recstudy.plugins import gathering
from recstudy.records import Attempt, EpochLine, Result, read_log
from recstudy.records.reading import read_record

ACCURACY = {"accuracy": Metric("%")}
START = """
import json, os, signal, subprocess, sys, time
folder = sys.argv[1]
def write(text): open(folder + "/metrics.json", "w").write(text)
def child(code): return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, start_new_session=True).pid
"""
GOOD = """write('{"accuracy": 91.5}')\n"""


@pytest.fixture(autouse=True)
def _forgotten():
    """No program of a test is known to the next one."""
    with gathering():
        yield


@pytest.fixture
def study(tmp_path):
    """A script's text, and what its Command has otherwise -> a study of it."""

    def make(script: str, of=ACCURACY, **options) -> Study:
        Path("train.py").write_text(START + script)
        program = Command(**{"command": "python train.py {folder}", "folder": tmp_path} | options)
        return Study("commands", program=program, metrics=of, variants=[Variant("one", {})])

    return make


def ran(study: Study, **options) -> dict:
    """The one row of its runs."""
    (row,) = run(study, ray=False, **options).runs.to_dict("records")
    return row


def run_folder() -> Path:
    (folder,) = Path("results/runs").iterdir()
    return folder


def is_running(process: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def wait(until) -> None:
    while not until():
        time.sleep(0.05)


# ---------------------------------------------------------------------------------------------------- the
# command line


def test_settings_are_words_of_their_own(tmp_path):
    Path("train.py").write_text(
        START + "json.dump({'accuracy': 1, 'words': [*sys.argv[2:], os.environ['RUN']]}, sys.stderr)\n" + GOOD
    )
    words = "python train.py {folder} '{text} {{x}}' {model.depth:.1f} --seed={seed} '$HOME'"
    program = Command(words, folder=tmp_path, environment={"RUN": "run {seed}"})
    values = {"text": "a b", "model": {"depth": 2}}

    row = ran(
        Study("words", program=program, settings=values, metrics=ACCURACY, variants=[Variant("one", {})])
    )

    assert (row["status"], row["accuracy"]) == ("done", 91.5)
    log_text = (run_folder() / "output.log").read_text()
    assert '["a b {x}", "2.0", "--seed=0", "$HOME", "run 0"]' in log_text
    assert log_text.startswith("$ python train.py ")
    assert not (run_folder() / "files").exists()


def test_the_command_and_the_name_decide_the_ids_and_the_folder_does_not(tmp_path):
    def run_id(**options):
        with gathering():
            program = Command(**{"command": "python train.py {folder}"} | options)
            return (
                Study("s", program=program, metrics=ACCURACY, variants=[Variant("one", {})])
                .presets["default"]
                .run_id
            )

    assert run_id() == run_id(folder=tmp_path, environment={"A": "1"}, minutes=3)
    assert len({run_id(), run_id(command="python train.py {folder} -v"), run_id(name="other")}) == 3


def test_a_folder_or_a_program_that_is_not_there_is_refused_before_anything_is_written(study):
    for options, message in (
        ({"folder": "/nowhere"}, "The folder of train.py does not exist: /nowhere"),
        ({"command": "pythonn train.py {folder}"}, "Program 'pythonn' of the command is not installed"),
    ):
        with gathering(), pytest.raises(ConfigError, match=message):
            ran(study(GOOD, **options))
    assert not Path("results/runs").exists()


# ---------------------------------------------------------------------------------------------------- metrics
# and failures


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("print('boom'); sys.exit(3)", {}, "train.py exited with code 3: boom"),
        ("os.kill(os.getpid(), 11)", {}, "train.py was ended by signal 11 (Segmentation fault)"),
        ("pass", {}, "its metrics are missing: Cannot read metrics.json in {folder}: No such file or directory"),
        ("write('{\"acc')", {}, "its metrics are missing: metrics.json is not JSON: Unterminated string"),
        ("write('{\"loss\": 1}')", {}, "its metrics are missing: metrics.json has no 'accuracy', but loss"),
        ("write('{\"accuracy\": \"good\"}')", {}, "its metrics are missing: train.py: accuracy must be a number, but it is 'good'"),
        ("print('f1: 3')", {"metrics": LastLine(r"accuracy: (\S+)")}, r"no line of the output matches accuracy: (\S+)"),
    ],
)  # fmt: skip
def test_a_command_without_metrics_is_a_failed_run_with_its_output(script, options, message, study):
    row = ran(study("print('before')\n" + script, **options))

    assert (row["status"], row["error_class"]) == ("failed", "code")
    assert message in row["error"]
    assert "before" in row["traceback"]
    assert "Traceback" not in row["traceback"]


def test_a_command_that_finds_no_memory_fails_as_such(study):
    row = ran(study("raise MemoryError"))

    assert (row["error_class"], row["error"]) == ("out of memory", "train.py exited with code 1: MemoryError")


def test_the_last_metrics_count(study):
    assert (
        ran(study("""write('{"accuracy": 1}'); write('{"accu'); write('{"accuracy": "92.5"}')"""))["accuracy"]
        == 92.5
    )


def test_the_last_lines_count_and_a_line_may_have_a_part_of_the_metrics(study):
    script = (
        "print('accuracy: 1')\nprint('F1 0.5')\nprint('\\x1b[32maccuracy: 2\\x1b[0m accuracy: 3', end='')"
    )
    pattern = r"accuracy: (?P<accuracy>\S+)|F1 (?P<f1>\S+)"

    row = ran(study(script, ACCURACY | {"f1": Metric()}, metrics=LastLine(pattern)))

    assert (row["accuracy"], row["f1"]) == (3, 0.5)


@pytest.mark.parametrize(
    "script",
    [
        "print('accuracy: 91.5')\nfor i in range(400_000): print('noise', i)",
        "print('.' * 5_000_000, 'accuracy: 91.5')\nfor i in range(400_000): print('noise', i)",
    ],
    ids=["megabytes of other lines", "a line of megabytes"],
)
def test_metrics_are_found_while_output_is_read_however_long_it_is(script, study):
    assert ran(study(script, metrics=LastLine(r"accuracy: (\S+)")))["accuracy"] == 91.5


def test_a_part_of_a_number_in_a_long_line_is_no_metric(study):
    row = ran(study("print('1' * 5_000_000)", metrics=LastLine(r"^(\d+)$")))

    assert "no line of the output matches" in row["error"]


def test_a_line_without_end_takes_no_memory(study):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ran(study("for _ in range(300): os.write(1, b'x' * 1_000_000)\n" + GOOD))

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB


CORRECTED = "open('calls', 'a').write('x'); print('accuracy: 91.5'); time.sleep(0.3)"


def corrected(study, script=CORRECTED, **options) -> dict:
    """The row after a second command with the right pattern."""
    with gathering():
        first = ran(study(CORRECTED, metrics=LastLine(r"acc: (\S+)")))
    assert "no line of the output matches" in first["error"]
    return ran(study(script, metrics=LastLine(r"accuracy: (\S+)"), **options))


def test_a_corrected_pattern_reads_the_kept_output_and_does_not_run_the_command_again(study, capsys):
    row = corrected(study)

    assert (row["status"], row["accuracy"], row["attempts"]) == ("done", 91.5, 2)
    assert Path("calls").read_text() == "x"
    assert row["seconds"] >= 0.3  # of the attempt that ran the command
    assert "did not run again: the output that was kept has its metrics" in capsys.readouterr().out
    assert not (run_folder() / "kept.json").exists()


@pytest.mark.parametrize(
    ("script", "accuracy"),
    [
        (CORRECTED + "\nprint('accuracy: 92')", 92),  # the script has changed
        (CORRECTED, 91.5),  # the kept output is gone
    ],
)
def test_kept_output_of_other_code_or_without_a_match_is_not_used(script, accuracy, study, monkeypatch):
    if script == CORRECTED:
        monkeypatch.setattr("recstudy.programs.command.kept_lines", lambda log, start: [])

    assert corrected(study, script)["accuracy"] == accuracy
    assert Path("calls").read_text() == "xx"


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"nan"'])
def test_a_metric_that_is_not_finite_is_diverged(value, study):
    assert ran(study(f"""write('{{"accuracy": {value}}}')"""))["status"] == "diverged"


def test_a_step_that_is_not_finite_ends_the_command_as_diverged(study):
    row = ran(
        study("print(os.getpid(), 'loss nan'); time.sleep(600)", progress=r"(?P<pid>\d+) loss (?P<loss>\S+)")
    )

    assert row["status"] == "diverged"
    assert read_record(run_folder() / "result.json", Result).error == "step 0: loss is nan"
    assert not is_running(int((run_folder() / "output.log").read_text().splitlines()[1].split()[0]))


# ---------------------------------------------------------------------------------------------------- output


def test_binary_output_breaks_nothing(study):
    row = ran(study("os.write(1, bytes(range(256)) * 1000); print(); sys.exit('\\0\\x07 the end')"))

    assert (
        row["error"]
        == "train.py exited with code 1: \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} the end"
    )
    assert all(line.replace(chr(9), "").isprintable() for line in row["traceback"].splitlines())


def test_the_last_megabyte_of_the_output_is_kept(study):
    assert ran(study("for i in range(400_000): print('line', i)\n" + GOOD))["status"] == "done"

    log_bytes = (run_folder() / "output.log").read_bytes()
    assert 2**20 <= len(log_bytes) <= 2**21
    assert log_bytes.endswith(b"\nline 399999\n")


def test_lines_of_progress_are_reported_as_steps(study):
    script = "print('epoch 0: loss 0.5 n/a\\repoch 1: loss 0.25 80\\rtrained'); " + GOOD
    ran(study(script, progress=r"epoch (?P<epoch>\d+): loss (?P<loss>\S+) (?P<accuracy>\S+)"))

    first, second = read_log(run_folder() / "epochs.jsonl", EpochLine)
    assert {**first.values, "seconds": 0} == {"epoch": 0, "loss": 0.5, "seconds": 0}
    assert {**second.values, "seconds": 0} == {"epoch": 1, "loss": 0.25, "accuracy": 80, "seconds": 0}


def test_memory_and_cores_are_those_of_the_command_and_its_children(study):
    work = "x = bytearray(2**28); import time\nwhile time.process_time() < 1.5: pass"
    row = ran(study(f"subprocess.run([sys.executable, '-c', {work!r}])\n" + GOOD))

    assert 256 < row["peak_memory_mb"] < 400
    assert 0.2 < row["cores_used"] < 1.2


# ---------------------------------------------------------------------------------------------------- limits


def test_no_process_outlives_the_command(study):
    script = "print(child('import time; time.sleep(600)'), os.getpid())\n" + GOOD

    assert ran(study(script))["status"] == "done"

    pids = (run_folder() / "output.log").read_text().splitlines()[1].split()
    assert len(pids) == 2
    assert not any(is_running(int(pid)) for pid in pids)


def test_a_command_that_ignores_sigterm_is_killed_at_its_time_limit(study):
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    script = f"print(child({ignore!r}), os.getpid())\nsignal.signal(signal.SIGTERM, lambda *_: print('no'))\nwhile True: time.sleep(1)"

    row = ran(study(script, minutes=0.03, grace_seconds=0.5))

    _, pids, answer = (run_folder() / "output.log").read_text().splitlines()
    assert row["error_class"] == "hung"
    assert row["error"].startswith("train.py exceeded its time limit of 0.03 minutes and was stopped")
    assert answer == "no"
    assert not any(is_running(int(pid)) for pid in pids.split())


def test_silence_is_allowed_where_there_is_a_time_limit(study):
    silent = {"resources.hang_timeout_minutes": 0.01}
    script = "time.sleep(2)\n" + GOOD
    with gathering():
        assert ran(study(script, minutes=10), set=silent)["status"] == "done"

    row = ran(study(script, name="unlimited"), set=silent, only=["one"])

    assert row["error_class"] == "hung"
    assert row["error"].startswith(
        "unlimited printed nothing for 0.01 minutes (resources.hang_timeout_minutes) and was stopped"
    )


def test_a_search_stops_a_command_by_its_progress(study, typed):
    study("x = sys.argv[2]; print('accuracy', x, os.getpid()); time.sleep(600 * (x == '0'))\n" + GOOD)
    progress = r"accuracy (?P<accuracy>\S+) (?P<pid>\d+)"
    search = Search(
        "search",
        program=Command("python train.py {folder} {x}", folder=Path.cwd(), progress=progress),
        settings={"x": 9},
        metrics=ACCURACY,
        ranges={"x": Range([9, 8, 7, 0])},
        first=[{"x": 8}, {"x": 7}, {"x": 0}],
        budget="4 runs",
        stopping="median",
        confirm=0,
    )

    typed("--no-ray", study=search)

    (stopped,) = Path("results/runs").glob("*/stopped.json")
    (step,) = read_log(stopped.with_name("epochs.jsonl"), EpochLine)
    assert step.values["accuracy"] == 0
    assert not is_running(int(step.values["pid"]))
    assert not stopped.with_name("files").exists()


PRUNED = """
import time
from recstudy import Command, LastLine, Metric, Search, Range, main

def train(run):
    for step in range(600 if run.settings["x"] == 0 else 1):
        run.report(step, accuracy=run.settings["x"])
        time.sleep(0.1)
    return {"accuracy": run.settings["x"]}

line = r"accuracy (?P<accuracy>\\S+)"
command = Command("python train.py . {x}", metrics=LastLine(line), progress=line, grace_seconds=5)
study = Search(
    "search",
    program=PROGRAM,
    settings={"x": 9},
    metrics={"accuracy": Metric("%")},
    ranges={"x": Range([9, 8, 7, 0])},
    first=[{"x": 8}, {"x": 7}, {"x": 0}],
    budget="4 runs",
    stopping="median",
    confirm=0,
)
if __name__ == "__main__":
    main(study)
"""


@pytest.mark.whole
@pytest.mark.parametrize("program", ["command", "train"])
def test_a_search_on_ray_stops_a_run_that_needs_time_to_end(program, study):
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    study(ignore + "print('accuracy', sys.argv[2]); time.sleep(600 * (sys.argv[2] == '0'))")
    Path("search.py").write_text(PRUNED.replace("PROGRAM", program))

    run_python("search.py", "--set", f"resources.cpus={os.cpu_count()}")

    assert len([*Path("results/runs").glob("*/stopped.json")]) == 1
    assert len([*Path("results/runs").glob("*/result.json")]) == 3
    assert not [*Path("results/runs").glob("*/files")]


# ---------------------------------------------------------------------------------------------------- stops
# and resumes

STUDY = """
from recstudy import Command, Metric, Study, Variant, main

program = Command("python train.py {folder}", grace_seconds=10)
study = Study("commands", program=program, metrics={"accuracy": Metric("%")}, variants=[Variant("one", {})])
if __name__ == "__main__":
    main(study)
"""
SAVING = """
saved = folder + "/saved"
if os.path.exists(saved):
    write('{"accuracy": %s}' % open(saved).read())
    sys.exit()
def leave(*_):
    open(saved, "w").write("2")
    sys.exit(1)
signal.signal(signal.SIGTERM, leave)
open(saved, "w").write("1")
open("pids", "w").write(f"{os.getpid()} {child('import time; time.sleep(600)')}\\n")
time.sleep(600)
"""


@pytest.mark.parametrize(("stop", "saved"), [(signal.SIGTERM, 2), (signal.SIGINT, 2), (signal.SIGKILL, 1)])
def test_a_command_ends_with_its_worker_and_resumes_in_its_folder(stop, saved, study):
    study(SAVING)
    Path("study.py").write_text(STUDY)

    with subprocess.Popen([sys.executable, "study.py", "--no-ray"]) as worker:
        wait(lambda: Path("pids").exists() and "\n" in Path("pids").read_text())
        worker.send_signal(stop)
    wait(lambda: not any(is_running(int(pid)) for pid in Path("pids").read_text().split()))
    assert worker.returncode == (130 if stop != signal.SIGKILL else -9)
    assert not (run_folder() / "failure.json").exists()

    run_python("study.py", "--no-ray")

    assert read_record(run_folder() / "result.json", Result).metrics == {"accuracy": saved}


@pytest.mark.fault
def test_a_command_ends_with_a_lost_worker_of_ray_which_another_one_replaces(study):
    study(SAVING)
    Path("study.py").write_text(STUDY)

    with subprocess.Popen([sys.executable, "study.py"]) as driver:
        wait(lambda: Path("pids").exists() and "\n" in Path("pids").read_text())
        (attempt,) = read_log(run_folder() / "attempts.jsonl", Attempt)
        os.kill(attempt.process, signal.SIGKILL)

    assert driver.returncode == 0
    assert not any(is_running(int(pid)) for pid in Path("pids").read_text().split())
    assert read_record(run_folder() / "result.json", Result).metrics == {"accuracy": 1}


def test_the_files_of_the_command_are_those_of_the_user(study):
    program_study = study("import helper")
    Path("helper.py").write_text("x = 1")

    old_files = program_study.program.user_files()
    Path("helper.py").write_text("x = 2")

    assert [*old_files] == ["helper.py", "train.py", "environment of train.py", "metrics of train.py"]
    assert {path for path, sha in program_study.program.user_files().items() if old_files[path] != sha} == {
        "helper.py"
    }


def test_a_command_without_a_seed_is_pointed_out(study):
    assert "has no {seed}" in study("").program.hints([])[0]
    assert not study("", command="python train.py {folder} {seed}", name="seeded").program.hints([])


def test_a_bundle_has_the_script_and_its_runs_are_reproduced_from_it(study):
    study(GOOD)
    Path("study.py").write_text(STUDY)
    run_python("study.py", "--no-ray")
    run_python(*RECSTUDY, "publish", "results/studies/commands/default", "bundle")
    Path("train.py").unlink()

    process = run_python(*RECSTUDY, "reproduce", "bundle.zip", "--trust", "--no-ray")

    assert "every metric of 1 run is the same to the last digit" in process.stdout
