"""Which commit a study records: that of its own repository, and recstudy's own beside it."""

import json
import shutil
from pathlib import Path

import pytest
from processes import run_python
from repositories import git

import recstudy

STUDY = """import json
from pathlib import Path
from recstudy.study import repository
repository.PACKAGE = Path({package!r})
print(json.dumps(repository.code_version()))
"""


def repository(folder: Path) -> str:
    """A repository with all that the folder holds; its commit."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
    return git(folder, "rev-parse", "HEAD")


def recorded(study: Path) -> tuple[str | None, bool, str]:
    """What a study that is run from elsewhere records."""
    return tuple(json.loads(run_python(study, folder=Path("/")).stdout))


@pytest.fixture
def study(tmp_path) -> Path:
    """In a user's repository, beside an environment with a recstudy that the repository does not know."""
    package = tmp_path / "mine/.venv/lib/python3/site-packages/recstudy"
    package.mkdir(parents=True)
    shutil.copy(recstudy.__file__, package)
    file = tmp_path / "mine/studies/study.py"
    file.parent.mkdir()
    file.write_text(STUDY.format(package=str(package)))
    (tmp_path / "mine/.gitignore").write_text(".venv\n")
    return file


@pytest.mark.parametrize(
    ("file", "dirty"), [("studies/study.py", True), ("helper.py", True), ("results/plan.json", False)]
)
def test_a_users_repository_is_the_studys_and_tells_what_is_changed(study, file, dirty):
    """A Python file that the repository does not know decides numbers; results do not."""
    top = study.parents[1]
    commit = repository(top)
    assert recorded(study) == (commit, False, "")
    (top / file).parent.mkdir(exist_ok=True)
    with open(top / file, "a") as changed:
        changed.write("\n")

    assert recorded(study)[1] is dirty


def test_a_checkout_of_recstudy_has_a_commit_of_its_own(study, tmp_path):
    commit = repository(study.parents[1])
    package = tmp_path / "checkout/recstudy"
    package.mkdir(parents=True)
    shutil.copy(recstudy.__file__, package)
    own_commit = repository(package.parent)
    other_file = tmp_path / "elsewhere.py"
    other_file.write_text(STUDY.format(package=str(package)))
    study.write_text(other_file.read_text())

    assert recorded(other_file) == (None, False, own_commit)
    assert recorded(study) == (commit, True, own_commit)
    (package / "new.py").write_text("")
    assert recorded(other_file) == (None, True, f"{own_commit} with changes")


def test_copy_without_its_repository_gets_its_commit_from_the_environment(tmp_path, monkeypatch):
    (tmp_path / "study.py").write_text(STUDY.format(package=str(tmp_path)))
    assert recorded(tmp_path / "study.py") == (None, False, "")

    monkeypatch.setenv("RECSTUDY_COMMIT", "0123abc")

    assert recorded(tmp_path / "study.py") == ("0123abc", False, "")
