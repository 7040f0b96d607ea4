"""The check of a published report: its files are compared with those written again from the records."""

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from os.path import commonprefix
from pathlib import Path

import numpy as np
import pandas as pd

from recstudy.publishing.about import readme, write_report
from recstudy.publishing.bundle import README, REPORT, Bundle, drawing_code, has_no_pages, is_page
from recstudy.publishing.checks import CLOSE, OWN_CODE, Verified
from recstudy.records.locks import temporary
from recstudy.report.names import plural
from recstudy.report.parts import Undrawable, parts_of

MAX_CELLS = 3  # at most so many differences of a CSV file are printed
WIDTH = 80  # characters of each text in a difference
DECIMAL = re.compile(r"-?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE]-\d+)")
# An array of numbers in Plotly's format.
ARRAY = re.compile(r'"dtype":"(?P<type>[fiu][1248])","bdata":"(?P<data>[\w+/=\\]*)"')


def check_report(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Write the report again and compare it.

    Tables must have the same numbers. If the version of recstudy is the same, pages must have the same text.
    """
    reasons = []  # why pages written here may differ from the published ones
    # Another version may format texts differently, so only numbers can be compared.
    if bundle.about.drawn_by != drawing_code():
        reasons.append(f"another version of recstudy or its packages wrote them ({bundle.about.recstudy})")
    has_own_parts = any(isinstance(part, Undrawable) for part in parts_of(bundle.records))
    if has_own_parts or (bundle.modules and not bundle.records.is_own):
        reasons.append(f"{OWN_CODE} ({', '.join(bundle.modules)})")
    published = {
        name: file for name, file in bundle.files.items() if name == README or name.startswith(f"{REPORT}/")
    }
    counts: Counter[bool] = Counter()  # whether they are tables -> files that were compared
    with temporary() as folder:
        report = write_report(bundle.records, folder)
        rewritten = {
            f"{REPORT}/{file.relative_to(report).as_posix()}": file
            for file in report.rglob("*.*")
            if not (has_no_pages(bundle.about) and is_page(file.name))
        }
        rewritten[README] = folder / README
        text = readme(bundle.records, bundle.about, bundle.modules)
        rewritten[README].write_text(text, encoding="utf-8")
        for name in sorted(published.keys() | rewritten.keys()):
            is_table = name.endswith(".csv")
            if name in published and name in rewritten and (is_table or not reasons):
                compare = table_differences if is_table else page_differences
                yield from (name + words for words in compare(published[name], rewritten[name], not reasons))
                counts[is_table] += 1
                if is_table and reasons:
                    ours, theirs = (pd.read_csv(file[name], nrows=0) for file in (published, rewritten))
                    extra_columns = ", ".join(ours.columns.difference(theirs.columns))
                    line = f"{name}: the report written here has no column {extra_columns}"
                    verified.unchecked.extend([line] * bool(extra_columns))
            elif not reasons:
                yield f"{name}: {'is missing' if name in rewritten else 'does not follow from the records'}"
            elif is_table or name in published:
                verified.unchecked.append(
                    f"{name}: only one of the bundle and the report written here has this file"
                )
    verified.checked.append(f"{plural(counts[True], 'CSV file')}: numbers, computed again from the records")
    if reasons:
        verified.unchecked.append(
            f"the page, {README}, LaTeX, Markdown and texts in CSV files: {'; '.join(reasons)}"
        )
    else:
        verified.checked.append(f"{plural(counts[False], 'other file')} of the report: text, written again")


def table_differences(published: Path, rewritten: Path, is_same_version: bool) -> Iterator[str]:
    """Yield the cells of a CSV file that differ from the computed ones.

    For a file of another version, only numbers and verdicts are compared.
    """
    ours, theirs = (pd.read_csv(file, dtype=str, keep_default_na=False) for file in (published, rewritten))
    if len(ours) != len(theirs) or (is_same_version and [*ours] != [*theirs]):
        yield (
            f": has {len(ours)} rows and {ours.shape[1]} columns, but the records give {len(theirs)} and"
            f" {theirs.shape[1]}"
        )
        return
    columns = sorted(ours.columns.intersection(theirs.columns))
    texts = [ours[columns], theirs[columns]]
    numbers = [table.apply(pd.to_numeric, errors="coerce").astype(float) for table in texts]
    differs = (texts[0] != texts[1]) & ~np.isclose(numbers[0], numbers[1], rtol=CLOSE, atol=CLOSE)
    if not is_same_version:
        is_number = numbers[1].notna() | (numbers[0].notna() & (texts[1] == ""))
        differs &= is_number.assign(verdict=True)[columns]
    cells = np.argwhere(differs)
    for row, column in cells[:MAX_CELLS]:
        words = excerpts(*(table.iloc[row, column] for table in texts))
        yield f", line {row + 2}, column {columns[column]}: {words}"
    if len(cells) > MAX_CELLS:
        yield f": {plural(len(cells) - MAX_CELLS, 'more cell')}"


def page_differences(published: Path, rewritten: Path, is_same_version: bool) -> Iterator[str]:
    """Yield the first line of a text file that differs from the rewritten file."""
    if published.read_bytes() == rewritten.read_bytes():
        return
    pages = [
        rounded(file.read_text(encoding="utf-8", errors="replace")).splitlines()
        for file in (published, rewritten)
    ]
    for number, lines in enumerate(zip_longest(*pages, fillvalue=""), 1):
        if lines[0] != lines[1]:
            yield f", line {number}: {excerpts(*lines)}"
            return


def excerpts(*texts: str) -> str:
    """Return the published and the computed text around the first different character."""
    start = max(0, len(commonprefix(texts)) - WIDTH // 2)  # noqa: RUF071  # characters are compared, not folders
    return ", but the records give ".join(repr(text[start : start + WIDTH]) for text in texts)


def rounded(text: str) -> str:
    """Return a text with decimal numbers rounded to nine digits, because later ones depend on the
    processor."""

    def numbers(array: re.Match[str]) -> str:
        return str(np.frombuffer(b64decode(array["data"].replace(r"\u002f", "/")), array["type"]).tolist())

    return DECIMAL.sub(lambda number: f"{round(float(number[0]), 9) + 0.0:.9g}", ARRAY.sub(numbers, text))
