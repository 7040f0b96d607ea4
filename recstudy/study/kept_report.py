"""A report that is that of its records as they are is shown again, and not drawn.

The reading half knows a study's folder, the folders of its runs and recstudy's own files, and nothing else. So their sizes and
times tell, as they tell `make`. Of the plan, which each command writes anew, the content counts.
"""

import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from recstudy.errors import StorageError
from recstudy.files import sha
from recstudy.records import Results, read_json, write_json
from recstudy.study.repository import PACKAGE

DRAWING = ("numpy", "pandas", "plotly", "rich", "scipy")
KEPT = ".drawn.json"  # in the report's folder; as hidden, it is never sent to an object store


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
    """Keep what was said as the report was drawn, for the next time."""
    with suppress(StorageError):  # the report itself is there
        write_json(folder / "report" / KEPT, {"source": source, "report": _report(folder), "said": said})


def _report(folder: Path) -> str:
    return sha(_states(file for file in (folder / "report").rglob("*") if file.name != KEPT))


def _states(files: Iterable[Path]) -> list[str]:
    """Return path, size and time of each that is a file."""
    found: list[str] = []
    for file in files:
        with suppress(OSError):
            about = file.stat()
            found += [f"{file} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"] * stat.S_ISREG(about.st_mode)
    return sorted(found)
