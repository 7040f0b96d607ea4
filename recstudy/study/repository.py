"""Identify the code of a study: commits of its and recstudy's repository, and SHA-256 of user files."""

import os
import sys
from importlib.metadata import version
from pathlib import Path

from recstudy.base.git import git
from recstudy.plugins import current_files, file_digest, outside_files, study_file
from recstudy.plugins.files import StudyFile
from recstudy.programs.attempt import CodeVersion
from recstudy.programs.base import Program

PACKAGE = Path(__file__).parents[1]
# A wheel has the shipped studies here; in a checkout they are next to the package.
INSIDE = PACKAGE / "studies"
SHIPPED = (INSIDE, PACKAGE.parent / "studies")


def code_version() -> CodeVersion:
    """Return the code version of the study of this process.

    In an interactive session, the study's repository is that of the current folder. An installed study has no
    repository, and neither has a recstudy that is installed in an environment inside of a user's repository.
    """
    file = study_file()
    folder = Path.cwd() if file is None else None if file.installed else file.path.parent
    commit, dirty = _commit(folder) if folder else (None, False)
    commit = commit or os.environ.get("RECSTUDY_COMMIT") or None
    package_commit, changed = _own_commit()
    recstudy = "" if package_commit in (None, commit) else f"{package_commit}{' with changes' * changed}"
    return CodeVersion(commit, dirty or changed, recstudy)


def user_files(program: Program) -> dict[str, str]:
    """Return the SHA-256 of the study file, of the modules that it imports and of its program's files.

    A shipped study has no user files: version and commit identify it.

    Raises:
        ConfigError: A file cannot be read, or an object of the study was defined in no file.
    """
    file = study_file()
    if file is not None and file.path.parent in SHIPPED:
        return program.user_files()
    files = current_files()
    digests = {path: file_digest(outside.read_bytes()) for path, outside in outside_files(files).items()}
    digests |= files.digests
    if file is not None and is_user_study(file):
        name = file.path.relative_to(file.root).as_posix()
        digests.setdefault(name, file_digest(file.path.read_bytes()))
    return dict(sorted(digests.items())) | program.user_files()


def is_user_study(file: StudyFile) -> bool:
    """Return whether Python was started with a user's file, and not with recstudy or an installed command."""
    is_shipped = file.path.is_relative_to(PACKAGE) or file.path.parent in SHIPPED
    return file.path.suffix == ".py" and not file.installed and not is_shipped


def version_text() -> str:
    """Return the text of --version: `recstudy 0.1.0`, with the commit if it runs from its own repository."""
    commit, changed = _own_commit()
    return f"recstudy {version('recstudy')}" + (
        f", commit {commit[:12]}{' with changes' * changed}" if commit else ""
    )


def commit_date(file: Path) -> str:
    """Return the date of the last commit that changed a file; empty if no commit has its present content."""
    folder, name = file.absolute().parent, f"./{file.name}"
    changes = git(folder, "status", "--porcelain", "--ignored", "--", name)
    return (not changes and git(folder, "log", "-1", "--format=%cI", "--", name)) or ""


def program() -> list[str]:
    """Return the words that start this program, for printed commands."""
    script, folder = Path(sys.argv[0]), Path.cwd()
    if script.name == "recstudy":
        return ["recstudy"]  # its own commands
    if script.exists() and script.absolute().is_relative_to(folder) and script.parent != INSIDE:
        return ["python", str(script.absolute().relative_to(folder))]
    return ["recstudy", "run", script.stem] if script.parent in SHIPPED else ["python", script.name]


def _own_commit() -> tuple[str | None, bool]:
    """Return the commit of recstudy's own repository; None if it is installed in another repository."""
    tracked = git(PACKAGE, "ls-files", "--error-unmatch", "__init__.py") is not None
    return _commit(PACKAGE) if tracked else (None, False)


def _commit(folder: Path) -> tuple[str | None, bool]:
    """Return the commit of a repository, and whether it has changes. Of untracked files only Python files
    count.
    """
    commit = git(folder, "rev-parse", "HEAD")
    changed = git(folder, "status", "--porcelain", "--untracked-files=no")
    unknown = git(folder, "ls-files", "--others", "--exclude-standard", "--", ":/*.py")
    return commit, commit is not None and bool(changed or unknown)
