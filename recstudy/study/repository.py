"""The code of a study: commits of its own repository, and of recstudy's if that is another one; the SHA-256
of user files.
"""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from recstudy.plugins import current_files, file_digest, study_file
from recstudy.plugins.files import StudyFile
from recstudy.programs.base import Program

PACKAGE = Path(__file__).parents[1]
INSIDE = PACKAGE / "studies"  # where a wheel brings the studies that lie beside the package in a checkout
SHIPPED = (INSIDE, PACKAGE.parent / "studies")


class CodeVersion(NamedTuple):
    """What each attempt records.

    Args:
        commit: of the study's repository; of a copy outside of one, such as a job's, what RECSTUDY_COMMIT
            says.
        dirty: whether that, or the repository that recstudy runs from, was changed since its commit.
        recstudy: its commit, where it runs from another repository than the study; its version stands among
            the packages'.
    """

    commit: str | None
    dirty: bool
    recstudy: str


def code_version(package: Path = PACKAGE) -> CodeVersion:
    """Return the code version of the study that this process runs, with the recstudy in `package`.

    At a prompt the study's repository is that of the current folder; a study that is installed has none,
    wherever it is. Nor has a recstudy in an environment inside of a user's repository, which does not know
    its files.
    """
    file = study_file()
    folder = Path.cwd() if file is None else None if file.installed else file.path.parent
    commit, dirty = _commit(folder) if folder else (None, False)
    commit = commit or os.environ.get("RECSTUDY_COMMIT") or None
    package_commit, changed = _own_commit(package)
    recstudy = "" if package_commit in (None, commit) else f"{package_commit}{' with changes' * changed}"
    return CodeVersion(commit, dirty or changed, recstudy)


def user_files(program: Program) -> dict[str, str]:
    """Return the SHA-256 of the study's file, of the modules that it needs and of its program's files, by
    their paths.

    A study that comes with recstudy has none of its own: version and commit identify it.

    Raises:
        ConfigError: a file cannot be read, or something was defined where there is no file.
    """
    file = study_file()
    if file is not None and file.path.parent in SHIPPED:
        return program.user_files()
    digests = dict(current_files().digests)
    if file is not None and is_user_study(file):
        name = file.path.relative_to(file.root).as_posix()
        digests.setdefault(name, file_digest(file.path.read_bytes()))
    return dict(sorted(digests.items())) | program.user_files()


def is_user_study(file: StudyFile) -> bool:
    """Return whether the file that Python was started with is a user's, and neither recstudy's nor an
    installed command.
    """
    is_shipped = file.path.is_relative_to(PACKAGE) or file.path.parent in SHIPPED
    return file.path.suffix == ".py" and not file.installed and not is_shipped


def version_text() -> str:
    """Return what --version says: `recstudy 0.1.0`, with the commit where it runs from a repository of its
    own.
    """
    commit, changed = _own_commit(PACKAGE)
    return f"recstudy {version('recstudy')}" + (
        f", commit {commit[:12]}{' with changes' * changed}" if commit else ""
    )


def program() -> list[str]:
    """Return the words that start this program, as one may type them again in this folder; of a file
    elsewhere its name.
    """
    script, folder = Path(sys.argv[0]), Path.cwd()
    if script.name == "recstudy":
        return ["recstudy"]  # its own commands
    if script.exists() and script.absolute().is_relative_to(folder) and script.parent != INSIDE:
        return ["python", str(script.absolute().relative_to(folder))]
    return ["recstudy", "run", script.stem] if script.parent in SHIPPED else ["python", script.name]


def _own_commit(package: Path) -> tuple[str | None, bool]:
    """Return the commit of recstudy's own repository; None in an environment inside of another one, which
    does not know it.
    """
    tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py") is not None
    return _commit(package) if tracked else (None, False)


def _commit(folder: Path) -> tuple[str | None, bool]:
    """Return a repository's commit, and whether it was changed since; of files that it does not know only
    Python's count.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    unknown = _git(folder, "ls-files", "--others", "--exclude-standard", "--", ":/*.py")
    return commit, commit is not None and bool(changed or unknown)


def _git(folder: Path, *words: str) -> str | None:
    """Return what git says in this folder; None where it fails, is missing or does not answer."""
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
