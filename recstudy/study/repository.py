"""What a study's runs and its report are made of: the commits of its code, and the files that the report is drawn from.

A report that is that of its records as they are is shown again, and not drawn. The reading half knows a study's folder, the
folders of its runs and recstudy's own files, and nothing else. So their sizes and times tell, as they tell `make`. Of the plan,
which each command writes anew, the content counts.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from recstudy.errors import StorageError
from recstudy.plugins import study_file
from recstudy.records import Results, read_json, write_json
from recstudy.source import sha

PACKAGE = Path(__file__).parents[1]
DRAWING = ("numpy", "pandas", "plotly", "rich", "scipy")
KEPT = ".drawn.json"  # in the report's folder; as hidden, it is never sent to an object store
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
    """Size and time of every file of Python in recstudy, which tell that one was changed."""
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


def report_source(results: Results, folder: Path, *shown: object) -> str:
    """Digest all that the report is drawn from; nothing where that cannot be known: of a search, of a user's own parts.

    Args:
        results: where the runs lie.
        folder: of the study.
        shown: what else its words in the terminal depend on, such as the width.
    """
    plan = read_json(folder / "plan.json")
    if plan is None or plan.get("plugins") or plan.get("search") or results.store:
        return ""
    words = [plan, sys.version, *map(version, DRAWING), Path.cwd(), *shown]
    beside = [file for file in folder.iterdir() if file.name not in ("lock", "plan.json", "report")]
    others = sorted(file.name for file in beside)  # plans, of which the page has the names
    own = (file for file in beside if not file.match("plan-*"))
    runs = (file for *_, run in plan["runs"] for file in results.run(run).path.glob("*"))
    package = (file for file in PACKAGE.rglob("*") if file.suffix != ".pyc")
    return sha([*map(str, words), *others, *(state for files in (own, runs, package) for state in _states(files))])


def kept_report(folder: Path, source: str) -> str:
    """Return what was said when the report was drawn from this source, where it still lies as it was drawn; else nothing."""
    with suppress(StorageError, KeyError, TypeError):  # a damaged one is none
        before = read_json(folder / "report" / KEPT)
        if before is not None and source and (before["source"], before["report"]) == (source, _report(folder)):
            return str(before["said"])
    return ""


def keep_report(folder: Path, source: str, said: str) -> None:
    """What was said as the report was drawn, for the next time."""
    with suppress(StorageError):  # the report itself is there
        write_json(folder / "report" / KEPT, {"source": source, "report": _report(folder), "said": said})


def _report(folder: Path) -> str:
    return sha(_states(file for file in (folder / "report").rglob("*") if file.name != KEPT))


def _states(files: Iterable[Path]) -> list[str]:
    """Path, size and time of each that is a file."""
    found: list[str] = []
    for file in files:
        with suppress(OSError):
            about = file.stat()
            found += [f"{file} {about.st_size} {about.st_mtime_ns}"] * stat.S_ISREG(about.st_mode)
    return sorted(found)
