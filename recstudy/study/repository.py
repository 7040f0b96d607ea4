"""Which commits a study's code is of: its own repository's, and recstudy's where that is another one."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from recstudy.plugins import study_file

PACKAGE = Path(__file__).parents[1]
INSIDE = PACKAGE / "studies"  # where a wheel brings the studies that lie beside the package in a checkout


class CodeVersion(NamedTuple):
    """What each attempt records.

    Args:
        commit: of the study's repository; of a copy outside of one, such as a job's, what RECSTUDY_COMMIT says.
        dirty: whether that, or the repository that recstudy runs from, was changed since its commit.
        recstudy: its commit, where it runs from another repository than the study; its version stands among the packages'.
    """

    commit: str | None
    dirty: bool
    recstudy: str


def code_version(package: Path = PACKAGE) -> CodeVersion:
    """Return the code version of the study that this process runs, with the recstudy in `package`.

    At a prompt the study's repository is that of the current folder; a study that is installed has none, wherever it is. Nor
    has a recstudy in an environment inside of a user's repository, which does not know its files.
    """
    file = study_file()
    folder = Path.cwd() if file is None else None if file.installed else file.path.parent
    commit, dirty = _commit(folder) if folder else (None, False)
    commit = commit or os.environ.get("RECSTUDY_COMMIT") or None
    tops = [_git(one, "rev-parse", "--show-toplevel") for one in filter(None, (package, folder))]
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None or tops[:1] == tops[1:]:
        return CodeVersion(commit, dirty, "")
    own, changed = _commit(package)
    return CodeVersion(commit, dirty or changed, f"{own}{' with changes' * changed}")


def package_state(package: Path = PACKAGE) -> dict[str, tuple[int, int]]:
    """Return size and time of every file of Python in recstudy, which tell that one was changed."""
    return {str(file): ((stat := file.stat()).st_size, stat.st_mtime_ns) for file in sorted(package.rglob("*.py"))}


def _commit(folder: Path) -> tuple[str | None, bool]:
    """Return a repository's commit, and whether it was changed since; of files that it does not know only Python's count."""
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    unknown = _git(folder, "ls-files", "--others", "--exclude-standard", "--", ":/*.py")
    return commit, commit is not None and bool(changed or unknown)


def _git(folder: Path, *words: str) -> str | None:
    """Return what git says in this folder; None where it fails, is missing or does not answer."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
