"""`recstudy verify`: whether a bundle says what its records say. It runs nothing of the bundle and needs no
network.

    files       every file has the SHA-256 of the manifest, and code that of the plan
    settings    the id of each run follows from its settings in the plan and in its own record
    answers     the metrics of each run, computed again from its answers
    records     the records of one run agree
    dates       claims and looks against the runs
    report      tables are computed again and compared as numbers; pages are written again and compared as text

If somebody changes a file and writes the manifest anew, the other checks find the change, or `NOT_CHECKED`
names it.
"""

import logging
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime, timedelta
from itertools import zip_longest
from math import isclose
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from recstudy.errors import ConfigError, RecstudyError, StorageError
from recstudy.programs.settings import run_ids
from recstudy.publishing.about import AS_PLANNED, CHANGED, readme, write_report
from recstudy.publishing.bundle import (
    ABOUT,
    CODE,
    MANIFEST,
    NO_BUNDLE,
    PLAN,
    README,
    REPORT,
    RESULTS,
    Bundle,
    digest_of_records,
    drawing_code,
    opened,
)
from recstudy.publishing.scrub import AWAY
from recstudy.records import Attempt, EpochLine, read_json, read_log
from recstudy.records.locks import temporary
from recstudy.records.plans import LOOKS, read_looks
from recstudy.records.runs import FINAL_STATUSES, Row, distinct
from recstudy.report.names import plural
from recstudy.report.parts import Undrawable
from recstudy.report.registration import description_of, digest_of, statements

NOT_CHECKED = (
    "records that were all invented to agree with each other",
    "dates of claims, looks and runs, except that their order is possible",
    "removed looks at fewer seeds than the study has now, unless the report counts them",
    "published values in plan.json that the report does not print",
    "lines of epochs.jsonl and losses.jsonl that neither result.json nor a figure of the report repeats",
    "values in result.json alone, such as versions, machine, workers, threads and commit",
    "entries of answers.npz that no metric reads",
    "CITATION.cff, and the packages and omissions that bundle.json lists",
)
OWN = "what a study defines itself is not imported"
SHOWN = 20  # differences that are printed
CELLS = 3  # of a CSV file
WIDTH = 80  # characters of a text that are shown
CLOSE = 1e-9  # relative: another processor may sum in another order
ONE_DEPTH = "answers are kept after the last of these steps alone"
COST = "it is counted or measured while the run is made"
CLOCKS = timedelta(minutes=1)  # by which the clocks of two machines may differ
DECIMAL = re.compile(r"-?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE]-\d+)")
# of numbers, as Plotly writes it
ARRAY = re.compile(r'"dtype":"(?P<type>[fiu][1248])","bdata":"(?P<data>[\w+/=\\]*)"')


class Verified(NamedTuple):
    """The digest of a bundle's records; what was checked, what was not, and what differs, in lines."""

    records: str
    checked: list[str]
    unchecked: list[str]
    differences: list[str]


def show_verified(place: Path, out: Console) -> bool:
    """Print what was checked in a bundle, a folder or a zip, what was not, and what differs; return whether
    nothing differs.
    """
    with opened(place) as bundle:
        about, verified = bundle.about, verify(bundle)
    differences = verified.differences
    count = plural(len(differences), "difference")
    verdict = f"{count}: this bundle does not say what its records say" if differences else "Nothing differs"
    if len(differences) > SHOWN:
        differences[SHOWN:] = [f"{len(differences) - SHOWN:,} more"]
    out.print(
        Text(f"{about.study} ({about.preset}), published with recstudy {about.recstudy}", "bold"),
        soft_wrap=True,
    )
    sections = {
        "Checked": verified.checked,
        "Not checked": [*verified.unchecked, *NOT_CHECKED],
        "DIFFERENT": differences,
    }
    for title, lines in sections.items():
        # the bundle has nothing of the kind
        for line in (line for line in lines if not line.startswith("0 ")):
            out.print(Text.assemble((f"{title}: ", "bold"), line), soft_wrap=True)
    out.print(Text(f"{verdict}. Records: sha256 {verified.records}", "bold"), soft_wrap=True)
    return not differences


def verify(bundle: Bundle) -> Verified:
    """Check a bundle.

    Raises:
        StorageError: It is no bundle, or has links.
    """
    if not bundle.files or not bundle.about.records:
        raise StorageError(f"{bundle.root} {NO_BUNDLE}")
    verified = Verified(digest_of_records(bundle.digests), [], [], [])
    found: list[str] = []
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # a part that cannot be drawn here is named as not checked
    try:
        for check in (check_files, check_settings, check_answers, check_records, check_dates, check_report):
            try:
                with nullcontext() if check is check_files else bundle.records.study_modules():
                    found.extend(check(bundle, verified))
            except (RecstudyError, ValueError, TypeError) as error:  # damaged records and dates
                found.append(str(error))
    finally:
        logging.disable(before)
    lines = (line.rstrip(".").replace(f"{bundle.root}/", "") for line in found)
    verified.differences.extend(dict.fromkeys(lines))  # several checks find the same damage
    return verified


def check_files(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compare each file with the manifest, the records with their digest in bundle.json, and the code with
    the plan.
    """
    manifest, digests, about = bundle.manifest, bundle.digests, bundle.about
    for name in sorted(manifest.keys() | digests.keys()):
        if name not in digests:
            yield f"{name}: is missing"
        elif manifest.get(name) != digests[name]:
            yield f"{name}: {'is not as it was published' if name in manifest else f'is not in {MANIFEST}'}"
    if about.records != verified.records:
        yield f"{ABOUT}: does not name the SHA-256 of the records, {verified.records}"
    verified.checked.append(f"{plural(len(digests), 'file')} by SHA-256, and that there is no other file")
    planned = bundle.plan.files
    copied = {name.removeprefix(f"{CODE}/") for name in digests if name.startswith(f"{CODE}/")}
    for name in sorted({*planned, *about.code, *copied}):
        file, words = f"{CODE}/{name}", about.code.get(name, f"{ABOUT} does not name it")
        digest, recorded = (
            digests.get(file),
            " ".join(row.provenance.files.get(name, "") for row in bundle.records.rows),
        )
        if digest is None and name in about.code:
            yield f"{file}: is missing"
        elif digest is None:
            verified.unchecked.append(f"{file}: only its SHA-256 in {PLAN} is here")
        elif words == CHANGED or (name not in planned and words != AS_PLANNED):
            verified.unchecked.append(f"{file}: {words}")
        elif planned.get(name) != digest:
            yield f"{file}: its SHA-256 is not the one in {PLAN}"
        elif digest in recorded or not recorded.strip():
            verified.checked.append(f"{file} by its SHA-256 in {PLAN}")
        else:
            verified.unchecked.append(f"{file}: it has its SHA-256 in {PLAN}, but no run has recorded it")


def check_settings(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compute the id of each run from the plan's settings of its variant and seed, and from the settings in
    its own record.
    """
    plan = bundle.plan
    reasons: Counter[str] = Counter()
    for run in plan.runs:
        sources = {bundle.study / PLAN: (plan.base | {"seed": run.seed}, plan.variants[run.variant].changes)}
        folder = bundle.results.run(run.id)
        if own := read_json(folder.config):
            sources[folder.config] = own, {}
        elif folder.result.exists():
            yield f"{folder.config}: is missing"
        for source, (settings, changes) in sources.items():
            try:
                if f"'{AWAY}" in repr((settings, changes)):
                    raise ConfigError("a path was removed from them")
                decided = bundle.records.program.deciding(settings, changes)
            except RecstudyError as error:  # most often the study defines a part of the settings itself
                reasons[re.split(r"[.:] [Tt]here are", str(error))[0]] += 1
                continue
            (actual,) = run_ids(decided, [settings.get("seed", 0)])
            if actual != run.id:
                yield f"{source}: the settings of run {run.id} are those of run {actual}"
    for name in sorted({*bundle.results.run_ids()} - {run.id for run in plan.runs}):
        yield f"{RESULTS}/runs/{name}: is no run of the plan"
    verified.unchecked.extend(
        f"settings of runs ({count}): {reason} ({OWN})" for reason, count in reasons.items()
    )
    if not reasons:
        verified.checked.append(
            f"the ids of {plural(len(plan.runs), 'run')} by the settings in the plan and in their records"
        )


def check_answers(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compute the metrics of each run from the answers that it kept, and name each metric that does not
    follow from them.
    """
    # run -> metrics; reason and metric -> runs
    compared, unchecked = Counter[str](), Counter[tuple[str, str]]()
    tolerances: dict[str, float] = {}
    for row in finished_rows(bundle):
        folder, result = bundle.results.run(row.id), row.result_or_empty
        for name, outcome in bundle.records.program.recompute(folder.answers, result).items():
            stated = result.metrics[name]
            if isinstance(outcome, str):
                unchecked[outcome, name] += 1
            elif stated is not None:
                value, tolerance = outcome
                compared[row.id] += 1
                if not isclose(stated, value, rel_tol=CLOSE, abs_tol=tolerance):
                    yield f"{folder.result}: {name} is {float(stated)!r}, but its answers give {value!r}"
                # For a metric of classes, the largest one of the mean and of each class.
                metric = name.partition(".")[0]
                tolerances[metric] = max(tolerance, tolerances.get(metric, 0))
        unchecked.update((ONE_DEPTH, f"{name} by steps") for name, values in result.depths.items() if values)
        unchecked.update((COST, name) for name in result.cost)
    if compared:
        verified.checked.append(
            f"{compared.total():,} metrics of {plural(len(compared), 'run')} by the answers on the test set"
        )
    lines: dict[tuple[str, str], list[str]] = {}
    for (reason, name), count in sorted(unchecked.items()):
        lines.setdefault((plural(count, "run"), reason), []).append(name)
    verified.unchecked.extend(
        f"{', '.join(names)} ({runs}): {reason}" for (runs, reason), names in lines.items()
    )
    if listed := ", ".join(f"{name} ({error:.1g})" for name, error in sorted(tolerances.items()) if error):
        verified.unchecked.append(f"smaller differences of {listed}: answers are kept in half precision")


def finished_rows(bundle: Bundle) -> list[Row]:
    """Return a row for each run with a result."""
    return [row for row in distinct(bundle.records.rows) if row.result]


def check_records(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compare the result of each run with its attempts and its epochs."""
    yield from (row.error for row in bundle.records.rows if row.error_class == "damaged record")
    rows = finished_rows(bundle)
    verified.checked.append(f"that attempts, epochs and results of {plural(len(rows), 'run')} agree")
    for row in rows:
        folder, made, selected = bundle.results.run(row.id), row.provenance, row.selected
        config, attempts = bundle.records.configs[row.variant], read_log(folder.attempts, Attempt)
        lines = {line.epoch: line.values for line in read_log(folder.epochs, EpochLine)}
        if made.finished and max([made.started, *(line.started or "" for line in attempts)]) > made.finished:
            yield f"{folder.result}: finished on {made.finished}, before it was started"
        commits = {*made.commits, made.commit} - {None}
        if (commits, made.dirty) != (
            {line.commit for line in attempts} - {None},
            any(line.dirty for line in attempts),
        ):
            yield f"{folder.result}: its commits and changes are not those in attempts.jsonl"
        if selected.epoch is None or not lines or made.lost_epochs:
            continue
        last, epochs = max(lines), config.get("train.epochs")
        if row.done and not config.get("train.patience") and last + 1 != epochs:
            yield f"{folder.epochs}: its last epoch is {last + 1} of {epochs}"
        if not selected.scores and selected.epoch != last:
            yield f"{folder.result}: it selects epoch {selected.number}, but the last one is {last + 1}"
        for name, value in selected.scores.items():
            score = lines.get(selected.epoch, {}).get(f"selection_{name}")
            if score != value:
                yield (
                    f"{folder.epochs}: {name} of epoch {selected.number} is {score}, but {value} in"
                    " result.json"
                )


def check_dates(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compare claims with the digests that were dated, and looks with the dates of the runs."""
    plan, rows = bundle.plan, [row for row in bundle.records.rows if row.status in FINAL_STATUSES]
    stated = [
        (description_of(statement)[1], plan.stated.get(digest_of(statement)))
        for statement in statements(plan)
    ]
    for words, date in stated:
        if date is None and plan.stated:
            yield f"{bundle.study / PLAN}: {words} is not as it was dated"
        elif not date:
            verified.unchecked.append(f"the date of {words}: the records have none")
    verified.checked.append(
        f"{plural(len(stated), 'statement')} (claims, margins, deviations) against the runs, if dated"
    )
    log = bundle.records.results.root / "studies" / LOOKS
    looks = read_looks(bundle.records.results, plan)
    # the last time of a rerun is late
    finished = {row.id: row.provenance.finished for row in rows if not row.provenance.earlier}
    for look in looks:
        latest = datetime.fromisoformat(look.date) + CLOCKS
        dates = [finished.get(run_id) for run_id in look.runs]
        if later := sum(datetime.fromisoformat(date) > latest for date in dates if date):
            yield f"{log}: a look on {look.date} has {plural(later, 'run')} that finished later"
    seen = {run_id for look in looks for run_id in look.runs}
    waiting = {row.variant for row in bundle.records.rows if row.status not in FINAL_STATUSES}
    unseen = {row.id for row in rows if row.variant not in waiting} - seen
    if plan.search is None:
        verified.checked.append(f"{plural(len(looks), 'look')} by the dates of the runs")
        if unseen and not any(look.seeds for look in looks):  # older logs have numbers of seeds and no runs
            yield f"{log}: has no look at {plural(len(unseen), 'run')}, though publishing is one"


def check_report(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Write the report again: tables must have the same numbers, and if the version is the same, pages the
    same text.
    """
    reasons = []  # why pages written here may differ from the published ones
    if bundle.about.drawn_by != drawing_code():
        reasons.append(f"another version of recstudy or its packages wrote them ({bundle.about.recstudy})")
    has_own_parts = any(isinstance(part, Undrawable) for part in bundle.records.parts)
    if has_own_parts or (bundle.modules and not bundle.records.is_own):
        reasons.append(f"{OWN} ({', '.join(bundle.modules)})")
    published = {
        name: file for name, file in bundle.files.items() if name == README or name.startswith(f"{REPORT}/")
    }
    counts: Counter[bool] = Counter()  # whether they are tables -> files that were compared
    with temporary() as folder:
        report = write_report(bundle.records, folder)
        drawn = {f"{REPORT}/{file.relative_to(report).as_posix()}": file for file in report.rglob("*.*")}
        drawn[README] = folder / README
        drawn[README].write_text(readme(bundle.records, bundle.about), encoding="utf-8")
        for name in sorted(published.keys() | drawn.keys()):
            is_table = name.endswith(".csv")
            if name in published and name in drawn and (is_table or not reasons):
                compare = table_differences if is_table else page_differences
                yield from (name + words for words in compare(published[name], drawn[name], not reasons))
                counts[is_table] += 1
            elif not reasons:
                yield f"{name}: {'is missing' if name in drawn else 'does not follow from the records'}"
            elif is_table:
                verified.unchecked.append(
                    f"{name}: it is in the bundle or in the report written here, but not in both"
                )
    verified.checked.append(
        f"{plural(counts[True], 'CSV file')} by their numbers, computed again from the records"
    )
    if reasons:
        verified.unchecked.append(
            f"the page, {README}, LaTeX, Markdown and texts in CSV files: {'; '.join(reasons)}"
        )
    else:
        verified.checked.append(
            f"{plural(counts[False], 'other file')} of the report by their text, written again"
        )


def table_differences(published: Path, drawn: Path, is_same_version: bool) -> Iterator[str]:
    """Yield the cells of a CSV file that are not as computed; of another version's file only numbers and
    verdicts.
    """
    ours, theirs = (pd.read_csv(file, dtype=str, keep_default_na=False) for file in (published, drawn))
    if len(ours) != len(theirs) or (is_same_version and [*ours] != [*theirs]):
        yield (
            f": has {len(ours)} rows and {ours.shape[1]} columns, but the records give {len(theirs)} and"
            f" {theirs.shape[1]}"
        )
        return
    cells: list[tuple[int, str]] = []
    for column in ours.columns.intersection(theirs.columns):
        stated, computed = (pd.to_numeric(side[column], errors="coerce") for side in (ours, theirs))
        differs = (ours[column] != theirs[column]) & ~np.isclose(stated, computed, rtol=CLOSE, atol=CLOSE)
        if not is_same_version and column != "verdict":
            differs &= computed.notna() | (stated.notna() & (theirs[column] == ""))
        cells += [(int(row), column) for row in np.flatnonzero(differs)]
    for row, column in sorted(cells)[:CELLS]:
        yield f", line {row + 2}, column {column}: {excerpts(ours[column][row], theirs[column][row])}"
    if len(cells) > CELLS:
        yield f": {plural(len(cells) - CELLS, 'more cell')}"


def page_differences(published: Path, drawn: Path, is_same_version: bool) -> Iterator[str]:
    """Yield the first line of a text file that is not as written here."""
    if published.read_bytes() == drawn.read_bytes():
        return
    pages = [
        rounded(file.read_text(encoding="utf-8", errors="replace")).splitlines()
        for file in (published, drawn)
    ]
    for number, lines in enumerate(zip_longest(*pages, fillvalue=""), 1):
        if lines[0] != lines[1]:
            yield f", line {number}: {excerpts(*lines)}"
            return


def excerpts(*texts: str) -> str:
    """Return the published and the computed text around the first character that differs."""
    start = max(0, len(commonprefix(texts)) - WIDTH // 2)  # noqa: RUF071  # characters are compared, not folders
    return ", but the records give ".join(repr(text[start : start + WIDTH]) for text in texts)


def rounded(text: str) -> str:
    """Return a text with nine digits of each decimal number: another processor may give other digits after
    them.
    """

    def numbers(array: re.Match[str]) -> str:
        return str(np.frombuffer(b64decode(array["data"].replace(r"\u002f", "/")), array["type"]).tolist())

    return DECIMAL.sub(lambda number: f"{round(float(number[0]), 9) + 0.0:.9g}", ARRAY.sub(numbers, text))
