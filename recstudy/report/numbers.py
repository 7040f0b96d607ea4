"""The numbers and verdicts of a page, each with its subject, and `numbers.tex` with a LaTeX macro for each.

`recstudy check-paper` (paper_check.py) compares the text of a paper with them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any
from unicodedata import name as character_name
from unicodedata import normalize

from recstudy.base.values import digest, hashed
from recstudy.report.cell_text import is_measured, number_content
from recstudy.report.cells import Cell
from recstudy.report.claims import QuestionPart
from recstudy.report.family import family, published_answers
from recstudy.report.kinds import make_table
from recstudy.report.names import formatted, metric, number, page_title
from recstudy.report.page import render
from recstudy.report.parts import Part, TablePart, parts_of
from recstudy.report.question_rows import QuestionRow
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import Interval, Number
from recstudy.report.tables.question_table import p_words, verdict_words
from recstudy.report.targets import MatchedTarget
from recstudy.report.writers import tex

KINDS = {  # kind of a number, the end of its macro -> its meaning
    "": "mean",
    "Difference": "difference",
    "Higher": "mean of the higher side",
    "Lower": "mean of the lower side",
    "Low": "lower end of the 95 % interval",
    "High": "upper end of the 95 % interval",
    "CI": "95 % interval",
    "N": "number of seeds",
    "P": "p (Holm)",
    "Verdict": "verdict",
    "Published": "published value",
}
SPELLED = (  # signs of a label that tell it from others -> their words in a macro
    (r"(?<=\d)\.(?=\d)", "Point"),
    (r"(?:(?<=\de)|(?<![\w)]))[-\N{MINUS SIGN}](?=\.?\d)", "Minus"),
    (r"\+(?=\S)", "Plus"),
    ("%", "Percent"),
)
MAX_WORDS = 12  # of a label in a macro; a longer one ends with letters of its digest
LETTERS = str.maketrans("0123456789", "ghijklmnop")


@dataclass(frozen=True)
class PageNumber:
    """A number or a verdict of a page.

    Args:
        labels: Its subject: the variant, claim or row, what it is compared with, and the metric's title.
        kind: One of `KINDS`.
        text: The number or verdict as the page prints it.
        metric: The metric's name; empty if it has none.
        value: The number; None if it is in words.
        variants: The variants that a question compares.
        part: The report's part.
    """

    labels: tuple[str, ...]
    kind: str
    text: str
    metric: str = ""
    value: float | None = None
    variants: tuple[str, ...] = ()
    part: str = ""

    def of(self, kind: str, text: str, value: float | None = None) -> "PageNumber":
        """Return another number of the same subject."""
        return replace(self, kind=kind, text=text, value=value)

    @property
    def meaning(self) -> str:
        return " ".join(f"{', '.join(self.labels)}: {KINDS[self.kind]}".split())

    @property
    def latex(self) -> str:
        """The text in LaTeX, for paragraphs and formulas."""
        if self.value is None and self.kind != "CI":
            return tex(self.text)
        formula = re.sub(r"e(-?\d+)$", r"\\times10^{\1}", re.sub(r",(?=\d)", "{,}", self.text))
        return formula if re.fullmatch(r"[\d.,{}]+", formula) else rf"\ensuremath{{{formula}}}"


def numbers_of(records: StudyRecords) -> list[PageNumber]:
    """Return the numbers and verdicts of the tables and questions of a study's report, each once."""
    numbers: list[PageNumber] = []
    for part in parts_of(records):
        try:
            numbers += _numbers_of_part(records, part)
        except Exception:  # the part's own section and the log state the problem
            continue
    # parts repeat numbers, such as the mean of a variant
    return list({(item.labels, item.kind, item.text): item for item in reversed(numbers)}.values())[::-1]


def _numbers_of_part(records: StudyRecords, part: Part) -> Iterator[PageNumber]:
    if isinstance(part, QuestionPart):
        for row in family(records, part).rows:
            yield from _numbers_of_question(row, part.name)
    elif isinstance(part, TablePart):
        table, group = make_table(records, part), ""
        counts = Counter((cell.variants, cell.metric) for cell in table.cells)
        for table_row in table.rows:
            group = group if table_row.cells else table_row.label
            for column, cell in zip(table.columns, table_row.cells, strict=bool(table_row.cells)):
                if isinstance(cell, Cell):
                    label, place = records.variants[cell.variants[0]].label, f"{table_row.label} {column}"
                    labels = [label, metric(cell.metric).title]
                    if len(cell.variants) > 1:
                        labels = [f"{part.name} {group}".strip(), place]
                    elif counts[cell.variants, cell.metric] > 1:
                        labels.append(place)
                    yield from _numbers_of_cell(cell, tuple(labels), part.name)


def _numbers_of_cell(cell: Cell, labels: tuple[str, ...], part: str) -> Iterator[PageNumber]:
    content = number_content(cell)
    printed_numbers = [piece for piece in content if isinstance(piece, Number)]
    words = "".join(str(piece) for piece in content if not isinstance(piece, Interval)).strip()
    is_bare = cell.value is not None and words == "".join(map(str, printed_numbers))
    base = PageNumber(labels, "", words, cell.metric, part=part)
    yield base.of("", words, printed_numbers[0].value if is_bare else None)
    for piece in content:
        if isinstance(piece, Interval):
            yield from _interval(base, piece)
    if is_measured(cell):
        yield base.of("N", f"{cell.n:,}", cell.n)
    answers = published_answers(cell)
    sources = Counter(_source(match) for match, _ in answers)
    for match, answer in answers:
        source = _source(match) if sources[_source(match)] == 1 else match.target.cited
        published = replace(base, labels=(*labels, source))
        yield published.of("Published", match.text, match.value)
        yield published.of("Verdict", str(answer.verdict))


def _source(match: MatchedTarget) -> str:
    return match.target.cited.partition(" (")[0]


def _numbers_of_question(row: QuestionRow, part: str) -> Iterator[PageNumber]:
    labels = (row.label, *([f"against {row.group}", metric(row.metric).title] if row.group else []))
    variants = tuple(term.label for term in row.terms)
    base = PageNumber(labels, "Verdict", verdict_words(row), row.metric, None, variants, part)
    yield base
    value, form = row.estimate.value, row.form.removeprefix("+")
    if value is None:
        return
    yield base.of("" if row.is_mean else "Difference", formatted(value, form), value)
    if row.interval:
        yield from _interval(base, Interval(*row.interval, form))
    yield base.of("N", f"{row.estimate.n:,}", row.estimate.n)
    if row.answer.adjusted is not None:
        yield base.of("P", p_words(row.answer.adjusted), row.answer.adjusted)
    for kind, side in zip(("Higher", "Lower"), row.sides, strict=False):
        text = number(side.metric, side.value, row.interval)
        yield replace(base.of(kind, text, side.value), metric=side.metric)


def _interval(base: PageNumber, interval: Interval) -> Iterator[PageNumber]:
    form = interval.form.removeprefix("+")
    yield base.of("Low", formatted(interval.low, form), interval.low)
    yield base.of("High", formatted(interval.high, form), interval.high)
    yield base.of("CI", str(interval).replace("+", ""))


# --- macros


def numbers_tex(records: StudyRecords) -> str:
    """Return `numbers.tex`: a macro for each number and verdict of the page, with its meaning.

    A name that two numbers would have is given to neither. Each then has its name with letters of a digest.
    """
    names: dict[str, list[PageNumber]] = {}
    for item in numbers_of(records):
        names.setdefault(macro_name(records.plan.study, item.labels, item.kind), []).append(item)
    lines = []
    for name, items in names.items():
        if len(items) > 1:
            lines.append(f"% \\{name} would have {len(items)} meanings, so each has letters of its own:")
        for item in items:
            own_name = name + _letters(*item.labels, item.part) * (len(items) > 1)
            lines.append(rf"\newcommand{{\{own_name}}}{{{item.latex}}}% {item.meaning}")
    # the same runs with the same numbers give the same digest
    records_digest = digest([sorted(row.id for row in records.finished_runs), lines], 16)
    words: dict[str, Any] = {"version": version("recstudy"), "digest": records_digest, "lines": lines}
    return render("numbers.tex.jinja", title=page_title(records.plan), **words)


def macro_name(study: str, labels: Sequence[str], kind: str) -> str:
    """Return the name of a macro, which has letters only.

    Examples:
        >>> macro_name("depths", ["3 steps", "Top-1 accuracy"], "Low")
        'recstudyDepthsThreeStepsTopOneAccuracyLow'
    """
    return f"recstudy{''.join(map(_camel_case, [study, *labels]))}{kind}"


def _camel_case(label: str) -> str:
    text = re.sub(r"[\u0300-\u036f]", "", normalize("NFKD", label))  # letters without their accents
    for pattern, word in SPELLED:
        text = re.sub(pattern, f" {word} ", text)
    # a digit, or a letter of another alphabet, has the last word of its name, such as ALPHA
    text = re.sub(
        r"[^\W_a-zA-Z]", lambda match: f" {character_name(match[0], '').split(' ')[-1].title()} ", text
    )
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text)
    ending = _letters(label) if len(words) > MAX_WORDS or not words else ""
    return "".join(word[0].upper() + word[1:] for word in words[:MAX_WORDS]) + ending


def _letters(*labels: str) -> str:
    return hashed("\n".join(labels), 4).translate(LETTERS).capitalize()
