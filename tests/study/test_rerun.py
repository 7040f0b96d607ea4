"""A changed user file, or changed data, is named; `--rerun` repeats the finished runs and keeps their earlier
records.
"""

import json
from functools import partial
from hashlib import sha256
from itertools import product

import pytest
import tiny
from PIL import Image

from recstudy.base.errors import ConfigError
from recstudy.cluster.driver import archive
from recstudy.plugins.files import StudyFile, user_files_of
from recstudy.plugins.syntax import code_of
from recstudy.programs.base import Program
from recstudy.records import Results, Run, read_json, write_json
from recstudy.records.plans import earlier_runs, read_plan
from recstudy.recursive import CNN, Digits, ImageFolder, RunConfig, TrainConfig, ViTRM
from recstudy.recursive.data.cache import load
from recstudy.report.changes import Change, change_lines
from recstudy.report.study_records import load_study
from recstudy.study import repository
from recstudy.study.design import Variant
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan
from recstudy.study.rerun import outdated
from recstudy.study.study import Study

TINY = RunConfig(data=Digits(limit=32), model=ViTRM(patch=4, width=8, heads=2), train=TrainConfig(epochs=1))
RUN = Run(0, 0, TINY.run_id, "tiny", TINY)


@pytest.fixture(autouse=True)
def user_files(monkeypatch) -> dict[str, str]:
    """The user files of this process."""
    files = {"mine.py": "now", "net.py": "now"}
    for place in ("study.rerun", "study.record", "cli.execution"):
        monkeypatch.setattr(f"recstudy.{place}.user_files", lambda _: dict(files))
    return files


def test_changed_runs_are_repeated_on_request_and_not_unasked(tmp_path, user_files, typed):
    options = [
        "--no-ray",
        "--results",
        str(tmp_path / "r"),
        "--seeds",
        "1",
        "--set",
        "train.epochs=1",
        "--only",
        "latent_steps=1,*",
    ]

    run_command = partial(typed, *options, study=tiny.study)

    def records() -> dict[str, dict]:
        return {path.parent.name: read_json(path) for path in tmp_path.glob("r/runs/*/result.json")}

    run_command()
    old_records = records()
    user_files["mine.py"] = "edited"
    assert run_command(code=2) == (
        "ConfigError: mine.py changed since 2 finished runs were made. Repeat them with --rerun changed, or use them "
        "with --keep\n"
    )
    output = run_command("--keep")
    assert "mine.py changed since 2 finished runs were made. Repeat them with --rerun changed." in output
    assert "2 runs: all finished before" in output
    (page,) = tmp_path.glob("r/studies/tiny/*/report/report.html")
    edit = "mine.py changed since 2 finished runs were made: their numbers are from the earlier code"
    assert edit in page.read_text().split("<h2", 1)[0]
    assert records() == old_records
    planned_runs = json.loads(run_command("--dry-run", "--json"))["runs"]
    assert [run["changed"] for run in planned_runs] == [["code"], ["code"]]

    assert "2 finished runs will be repeated" in run_command("--rerun", "changed")

    assert {
        run: read_json(tmp_path / f"r/runs/{run}/attempt-1/result.json") for run in old_records
    } == old_records
    assert [result["provenance"]["earlier"] for result in records().values()] == [1, 1]
    assert "changed since" not in run_command("--rerun", "changed")
    assert edit not in page.read_text()


def test_code_is_compared_without_comments_docstrings_layout_and_the_study():
    source = '''"""A study."""
import recstudy
from recstudy import Study, main
def train(run):
    """Train."""
    return {"accuracy": 1.0}
study = Study("c", program=train, claims=[])
if __name__ == "__main__":
    main(study)
'''
    same_source = (
        source.replace("A study.", "Other words.")
        .replace('    """Train."""', "    # a comment")
        .replace("{", "{  ")
    )
    same_source = same_source.replace("claims=[]", "claims=[Claim()], seeds=9").replace(
        "main(study)", "recstudy.main(study)"
    )

    assert code_of(source.encode()) == code_of(same_source.encode())
    assert code_of(source.encode()) != code_of(source.replace("1.0", "2.0").encode())
    assert code_of(source.encode()) != code_of(
        source.replace("program=train", "program=lambda run: 1").encode()
    )


def test_many_changed_files_are_one_line():
    changes = [Change("run", "code", f"{name}.py") for name in "abcdefg"]

    files = "a.py, b.py, c.py, d.py, e.py and 2 other files"
    assert change_lines(changes) == [f"{files} changed since 1 finished run was made"]


def test_an_edit_of_a_comment_is_no_change(results, tmp_path):
    """Of what earlier plans recorded; a run that resumed after such an edit has both versions."""
    finish(results, {"mine.py": "then now", "net.py": "then"}, "")

    assert outdated([RUN], results, tmp_path, code={"now": "code", "then": "code"}).changes == []
    assert [change.name for change in outdated([RUN], results, tmp_path, code={"now": "code"}).changes] == [
        "mine.py",
        "net.py",
    ]


@pytest.fixture
def results(tmp_path) -> Results:
    """With `RUN`, finished with the present files on the present images."""
    results = Results(tmp_path / "results").create()
    finish(
        results,
        {"mine.py": "now", "net.py": "now", "of another study.py": "then"},
        load(RUN.config.data, tmp_path).checksum,
    )
    return results


def finish(results: Results, files: dict[str, str], checksum: str, run: Run = RUN) -> None:
    provenance = {"commit": "3f2a91c0ffee", "files": files, "data_checksum": checksum}
    write_json(results.run(run.id).result, {"status": "done", "metrics": {}, "provenance": provenance})


def test_a_repeated_run_starts_without_the_folder_of_its_program(results):
    finish(results, {}, "")
    folder = results.run(RUN.id)
    folder.program_folder.mkdir()

    folder.archive()

    assert [file.name for file in folder.path.iterdir() if file.is_dir()] == ["attempt-1"]
    assert (folder.path / "attempt-1/files").is_dir()


MINE, DATA = (
    "mine.py changed since 1 finished run was made",
    "The data set Digits changed since 1 finished run was made",
)


@pytest.mark.parametrize(
    ("files", "checksum", "lines"),
    [
        ({"mine.py": "now", "net.py": "now", "of another study.py": "then"}, "", []),
        ({}, "", []),  # of old records, or of a study that comes with recstudy
        ({"mine.py": "then", "net.py": "now"}, "", [MINE]),
        ({"mine.py": "then now"}, "", [MINE]),  # it changed while the run was under way
        ({}, "ab12", [DATA]),
        ({"mine.py": "then"}, "ab12", [MINE, DATA]),
    ],
)
def test_changed_files_and_data_are_named(results, tmp_path, files, checksum, lines):
    finish(results, files, checksum)

    outdated_runs = outdated([RUN], results, tmp_path, "changed")
    assert change_lines(outdated_runs.changes) == lines
    assert outdated_runs.rerun_ids == ({RUN.id} if lines else set())
    assert outdated([RUN], results, tmp_path).notices == [
        f"{line}. Repeat them with --rerun changed." for line in lines
    ]


def test_files_edited_since_they_were_read_are_reported_even_if_all_runs_are_finished(results, tmp_path):
    """Nothing decodes them then, so whether the runs are of them is not known, and is not left unsaid."""
    config = RunConfig(data=ImageFolder(path="own", class_count=2, size=8, channels=1), model=CNN(width=8))
    for part, kind, number in product(("train", "test"), "ab", range(10)):
        file = tmp_path / f"own/{part}/{kind}/{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number).save(file)
    run = Run(0, 0, config.run_id, "own", config)
    finish(results, {}, load(config.data, tmp_path).checksum, run)
    assert outdated([run], results, tmp_path).notices == []

    Image.new("L", (8, 8), 200).save(tmp_path / "own/train/a/0.png")

    assert outdated([run], results, tmp_path).notices == [
        "The current files of own were not read yet, so finished runs may have used other data. "
        "Check with --rerun changed."
    ]
    assert outdated([run], results, tmp_path, "changed").rerun_ids == {run.id}


def test_the_reading_half_says_the_same_of_the_plan_on_disk(results, tmp_path):
    study = Study("tiny", {"quick": RUN.config}, [Variant("tiny", {})], question="?")
    finish(results, {"mine.py": "then"}, "ab12")
    record_plan(make_plan(study), results, tmp_path)
    records = load_study(results, "tiny", "quick")

    assert [*records.changed("code"), *records.changed("data")] == [MINE, DATA]


@pytest.mark.parametrize(
    ("selection", "chosen"), [("", set()), ("changed", set()), ("all", {RUN.id}), ("ti*", {RUN.id})]
)
def test_finished_runs_are_run_again_only_where_they_are_named(results, tmp_path, selection, chosen):
    assert outdated([RUN], results, tmp_path, selection).rerun_ids == chosen


def test_a_label_that_nothing_has_is_refused(results, tmp_path):
    with pytest.raises(ConfigError, match="No variant matches --rerun 'chnged'"):
        outdated([RUN], results, tmp_path, "chnged")


@pytest.mark.parametrize("store", [False, True])
def test_rerun_keeps_the_old_records_in_a_folder_and_on_a_store(store, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "scratch"))
    results = Results(f"local://{tmp_path}/store" if store else tmp_path / "store").create()
    folder = results.run(RUN.id)
    write_json(folder.result, {"status": "done", "metrics": {}})
    folder.weights.write_text("weights")
    results.send(folder.path)
    assert results.states() == {RUN.id: "done"}

    archive([RUN.id], results)

    assert results.states() == {}
    store_folder = tmp_path / "store/runs" / RUN.id
    assert {str(file.relative_to(store_folder)) for file in store_folder.rglob("*") if file.is_file()} - {"lock"} == {
        "attempt-1/result.json", "attempt-1/weights.safetensors"
    }  # fmt: skip


def test_run_repeated_by_another_process_is_not_repeated(results):
    other_results = Results(results.root)
    assert results.states() == other_results.states() == {RUN.id: "done"}
    archive([RUN.id], other_results)
    write_json(results.run(RUN.id).result, {"status": "done", "metrics": {}})

    archive([RUN.id], results)

    assert (results.run(RUN.id).archive_count, results.run(RUN.id).finished) == (1, True)


@pytest.mark.parametrize("folder", ["home", "studies"])
def test_user_files_are_the_study_and_its_modules(tmp_path, monkeypatch, folder):
    """A study that comes with recstudy has none."""
    home = tmp_path / folder
    home.mkdir()
    for name in ("mine.py", "net.py"):
        (home / name).write_text(f"# {name}\n")
    monkeypatch.undo()  # of `own`
    monkeypatch.setattr(repository, "SHIPPED", (tmp_path / "studies",))
    monkeypatch.setattr(repository, "study_file", lambda: StudyFile("mine", home, home / "mine.py"))
    monkeypatch.setattr(repository, "current_files", lambda: user_files_of(home, ["net"]))

    expected = {name: sha256(f"# {name}\n".encode()).hexdigest() for name in ("mine.py", "net.py")}
    assert repository.user_files(Program()) == (expected if folder == "home" else {})


def test_runs_of_earlier_definitions_are_counted_in_one_line(tmp_path):
    results = Results(tmp_path / "results").create()
    variants = [Variant("one", {}), Variant("two", {"model.latent_steps": 2})]
    study = Study("made_up", {"quick": RUN.config}, variants, seeds=1)
    old_plan, new_plan = make_plan(study, changes={"train.epochs": 9}), make_plan(study, seeds=2)
    for plan in (old_plan, new_plan):
        record_plan(plan, results)
        for run in plan.runs:
            finish(results, {}, "", run)
    folder, ids = results.study("made_up", "quick"), {run.id for run in new_plan.runs}

    old_runs = earlier_runs(results, folder, new_plan.definition, ids)

    assert old_runs == {run.id for run in old_plan.runs}
    notices = outdated(new_plan.runs, results, tmp_path, earlier_ids=old_runs).notices
    assert (
        notices[-1]
        == "2 finished runs of variants or settings that the study no longer has: kept in runs/, but not used."
    )
    assert read_plan(folder).definition == new_plan.definition
    (folder / f"plan-{old_plan.definition}.json").write_text("{torn")
    assert earlier_runs(results, folder, new_plan.definition, ids) == set()
