"""What readers import of a stranger's results: nothing that this user has neither run nor trusted, word for word."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import recstudy
from recstudy.config import FAMILIES
from recstudy.errors import ConfigError
from recstudy.plugins import bundle_of, reading, remember
from recstudy.records.plans import read_plan
from recstudy.testing import tiny_study, write_study

ROOT = Path(recstudy.__file__).parents[1]
MINE = """
from pathlib import Path
from recstudy.config import FAMILIES, ModelConfig
Path({mark!r}).touch()

@FAMILIES.add("{name}")
class Model(ModelConfig): ...
"""


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Write a module that tells by a file that it was imported; give its folder and that file."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    home, mark = tmp_path / "home", tmp_path / "imported"
    home.mkdir()
    (home / "mine.py").write_text(MINE.format(mark=str(mark), name="mine"))
    return home, mark


def record(home: Path, *modules: str) -> list[dict[str, str]]:
    return bundle_of(home, modules or ["mine"]).record


def why(plan, trust=False) -> str:
    with reading(plan, trust), pytest.raises(ConfigError) as told:
        FAMILIES["mine"]
    return str(told.value)


def test_a_strangers_module_is_imported_only_once_it_is_trusted(ran):
    home, mark = ran
    plan = record(home)

    said = f"not imported: {home / 'mine.py'}, which you have neither run nor trusted; --trust imports it"
    assert why(plan).startswith(f"no model family 'mine': {said}.")
    assert not mark.exists()
    with reading(plan, trust=True):
        assert "mine" in FAMILIES
    mark.unlink()
    why(plan)
    assert not mark.exists()  # for once

    remember(bundle_of(home, ["mine"]))
    with reading(plan):
        assert "mine" in FAMILIES
    assert mark.exists()


def test_what_was_run_outlives_its_folder_and_nothing_takes_its_place(ran, tmp_path, monkeypatch):
    home, mark = ran
    plan = record(home)
    remember(bundle_of(home, ["mine"]))
    home.rename(tmp_path / "moved")
    with reading(plan):
        assert "mine" in FAMILIES
    mark.unlink()

    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "another"))
    monkeypatch.chdir(tmp_path / "moved")  # which has the very file
    assert "neither run nor trusted" in why(plan)
    assert "not imported: " + str(home / "mine.py") + " is not there" in why(plan, trust=True)
    assert not mark.exists()


def test_another_file_under_a_trusted_name_is_not_imported(ran, tmp_path):
    """Neither where the plan's digest is the old one nor where it is its own; nor what lies beside the trusted one."""
    home, mark = ran
    (home / "mine.py").write_text("import beside\n" + (home / "mine.py").read_text())
    given = bundle_of(home, ["mine"])
    remember(given)
    (home / "beside.py").write_text(f"open({str(mark)!r}, 'w')")

    assert "No module named 'beside'" in why(given.record)
    (home / "mine.py").write_text((home / "mine.py").read_text() + "\n")
    assert "changed since the study ran" in why(given.record)
    assert "neither run nor trusted" in why(record(home))
    assert not mark.exists()


def test_a_copy_that_was_changed_is_no_copy(ran, tmp_path):
    home, mark = ran
    copy = remember(bundle_of(home, ["mine"])) / "mine.py"
    copy.write_text(copy.read_text() + "\n")

    assert "neither run nor trusted" in why(record(home))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ([{"module": "antigravity", "file": "", "digest": ""}], "antigravity has no file and is not installed as an entry point"),
        (
            [{"module": "mine", "file": "mine.py", "digest": "0" * 16}],
            "mine.py is not there, and you have neither run nor trusted it",
        ),
        ([{"module": "mine", "file": "/old/mine.py", "digest": "0" * 16}], "/old/mine.py is not there, and you have neither"),
        (
            [{"module": "a", "file": "/x/a.py", "digest": ""}, {"module": "", "file": "/x/../y.py", "digest": ""}],
            "its plan names a module in '../y.py'",
        ),
        (
            [{"module": "a", "file": "/x/a.py", "digest": ""}, {"module": "b", "file": "/y/b.py", "digest": ""}],
            "its plan names a module in '/y/b.py'",
        ),
        ([{"module": "os", "file": "/x/a.py", "digest": ""}], "its plan names a module in '/x/a.py'"),
    ],
    ids=["no-file", "here", "gone", "above", "two-folders", "other-name"],
)
def test_plans_that_name_what_they_should_not(ran, monkeypatch, plan, said):
    home, mark = ran
    monkeypatch.chdir(home)
    sys.modules.pop("antigravity", None)

    assert said in why(plan)
    if "its plan names" in said:
        assert said in why(plan, trust=True)
    assert not mark.exists()
    assert "antigravity" not in sys.modules


def test_packages_without_a_file_of_their_own(ran):
    """`lab/parts/mine.py` alone, as Python has them."""
    home, _ = ran
    (home / "lab/parts").mkdir(parents=True)
    (home / "mine.py").rename(home / "lab/parts/mine.py")
    given = bundle_of(home, ["lab.parts.mine"])
    remember(given)

    with reading(given.record):
        assert "mine" in FAMILIES
    assert "lab" not in sys.modules


def test_a_file_that_says_how_it_is_encoded(ran):
    home, _ = ran
    text = "# coding: latin-1\nWORD = 'é'\n" + (home / "mine.py").read_text()
    (home / "mine.py").write_bytes(text.encode("latin-1"))
    plan = record(home)
    remember(bundle_of(home, ["mine"]))
    (home / "mine.py").unlink()

    with reading(plan):
        assert sys.modules["mine"].WORD == "é"


# ---------------------------------------------------------------------------------------------------------- the commands


@pytest.fixture
def strange(ran, tmp_path):
    """A stranger's results, whose plan names the module."""
    home, _ = ran
    results = write_study(tmp_path / "results", tiny_study())
    plan_file = next((results.root / "studies").glob("*/*/plan.json"))
    plan = json.loads(plan_file.read_text()) | {"plugins": record(home)}
    plan_file.write_text(json.dumps(plan))
    return plan_file.parent


def typed(*words: str, cwd: Path, code: int = 0, given: str = "") -> str:
    command = [sys.executable, "-c", "from recstudy.command import main; main()", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "400"}
    done = subprocess.run(command, cwd=cwd, env=environment, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_readers_import_nothing_by_default_and_say_so(ran, strange, tmp_path):
    home, mark = ran
    for words, code in ((["report"], 0), (["audit"], 0), (["evaluate"], 1)):  # its runs kept no settings
        said = typed(*words, str(strange), cwd=home, code=code)
        assert f"ot imported: {home / 'mine.py'}, which you have neither run nor trusted; --trust imports it" in said, words
    assert "not imported: " in (strange / "report/report.html").read_text()
    assert "not_here" in typed("audit", "--json", str(strange), cwd=home)
    typed("status", str(strange.parents[2]), cwd=home)
    typed("explain", "results:1:1", str(strange), cwd=home, code=2)
    assert "0 rows" not in repr(recstudy.load(strange))
    assert not mark.exists()

    typed("report", "--trust", str(strange), cwd=home)
    assert mark.exists()


def test_trust_shows_the_files_and_asks(ran, strange, tmp_path):
    home, mark = ran
    refused = typed("trust", str(strange), cwd=tmp_path, code=2)
    assert f"{home / 'mine.py'}  7 lines, " in refused
    assert "there is nobody here to ask: add --yes once you have read these files" in refused
    typed("report", str(strange), cwd=tmp_path)
    assert not mark.exists()

    assert "Trusted: mine." in typed("trust", "--yes", str(strange), cwd=tmp_path)
    assert not mark.exists()  # to trust is not to import
    assert "All of it is trusted already." in typed("trust", str(strange), cwd=tmp_path)
    assert "not imported" not in typed("report", str(strange), cwd=tmp_path)
    assert mark.exists()


def test_trust_takes_only_what_was_recorded(ran, strange, tmp_path):
    home, mark = ran
    text = (home / "mine.py").read_text()
    (home / "mine.py").write_text(text + "\n")
    assert "not there as recorded" in typed("trust", "--yes", str(strange), cwd=tmp_path, code=2)

    (strange / "code").mkdir()
    (strange / "code/mine.py").write_text(text)
    assert f"{strange / 'code/mine.py'}  7 lines" in typed("trust", "--yes", str(strange), cwd=tmp_path)
    assert read_plan(strange).plugins
    assert not mark.exists()
