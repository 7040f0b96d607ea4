"""Compare the numbers and verdicts in the LaTeX text of a paper with the records.

`recstudy check-paper` reads the paper with its inputs and without comments. A passage is a sentence, or a
cell of a table with its heads. The variants, claims and metrics that a passage names lead from each of its
numbers to numbers of the page. A number that differs from all of these is a fault.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, permutations
from pathlib import Path
from typing import NamedTuple

from recstudy.base.errors import ConfigError, choices
from recstudy.base.terminal import say
from recstudy.report.names import metric
from recstudy.report.numbers import PageNumber, numbers_of
from recstudy.report.status import StudyLocation
from recstudy.report.study_records import StudyRecords, load_studies

COMMENT = r"(?<!\\)%.*"
INPUT = re.compile(r"\\(?:input|include)\s*\{([^}]+)\}")
BODY, TABLE, TABLE_END, ROW_END = "\x01", "\x02", "\x03", "\x04"
GROUP = r"(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})"
CLEANED = (  # LaTeX -> the words that it prints
    (COMMENT, ""),
    (r"\\begin\{document\}", BODY),
    (r"\\newcommand\{\\recstudy.*|\\recstudy[a-zA-Z]+(?:\{\})?", ""),
    (r"\\\\", ROW_END),
    (rf"\\begin\{{(?:tabular[x*]?|longtable)\}}(?:\[[^]]*\])?{GROUP}+", TABLE),
    (r"\\end\{(?:tabular[x*]?|longtable)\}", TABLE_END),
    (rf"\\(?:\w*cite\w*|\w*ref|label|begin|end|includegraphics|url|href|bib\w+|[vh]space|setlength|sisetup|cmidrule)\*?"
     rf"(?:\([^)]*\))?(?:\[[^]]*\])*{GROUP}*", " "),
    (r"[-\d.]+\s*(?:pt|em|ex|cm|mm|in|\\(?:line|text|column)width)\b", " "),
    (r"\{,\}|(?<=\d),(?=\d{3}(?!\d))|\\penalty\d+ ?", ""),
    (r"\\(?:textless|leq?|lt)\b", "<"),
    (r"\\(?:%|percent\b)", "%"),
    (r"\\pm\b", "\N{PLUS-MINUS SIGN}"),
    (r"\\times\b", "\N{MULTIPLICATION SIGN}"),
    (r"\\[,;:! ]|~|\\[a-zA-Z]+\*?", " "),
    (r"[{}$]", ""),
    (r"(?<=\d)\s*--\s*(?=[-\d])", " to "),
)  # fmt: skip
COUNTS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
PRINTED = re.compile(
    r"(?<![\w.^\N{PLUS-MINUS SIGN}\N{MULTIPLICATION SIGN}])(?P<value>[-+]?\d+(?:\.\d+)?)"
    r"(?!\.?\d|\^|-[a-z]|\s*%\s(?:CI|conf|interval))"
    r"(?:\s*(?P<unit>%|M\b|millions?\b|k\b|(?:percentage )?points?\b|times\b|seconds\b|ms\b|s\b"
    r"|\N{MULTIPLICATION SIGN}(?!\d)))?(?!\w)"
    rf"|\b(?P<word>{'|'.join(COUNTS)})(?= (?:random )?(?:seeds|runs)\b)"
    r"|(?P<verdict>(?<== )\s*(?:better|worse|no significant difference)\b"
    r"|\b(?:supported|contradicted|undecided|significant(?:ly)?)\b)"
)
SCALES = {"M": 1e6, "million": 1e6, "millions": 1e6, "k": 1e3}
UNITS = {"points": "%", "seconds": "s", **dict.fromkeys(SCALES, "")}
LINKS = "and|or|for|with|against|on|in|to|of|vs|versus|by|while|but|than|at|after|from|is|are|when|if|whereas"
DIFFERENCES = "differences?|gap|gain|improvement|reduction|delta"
BOUNDS = r"(?:\[\s*|\b(?:CI|intervals?)\W{1,3})"
KINDS = (  # words before a number, the number with the words after it -> its kind
    (r"\b(?:at least|at most|claim\w*|margin)[^.\d]{0,20}$", "", "claimed"),
    (r"\bn\s*=\s*$", "", "N"),
    ("", r"\w+\s*(?:random )?(?:seeds|runs)\b", "N"),
    (r"\bp\b(?: \(\w+\))?\s*[=<>]\s*[<>]?\s*$", "", "P"),
    (rf"{BOUNDS}$", r"[-+\d.]+\s*(?:,|%?\s*to)\s*[-+\d]", "interval"),
    (rf"{BOUNDS}[-+\d.]+\s*(?:,|%?\s*to)\s*$", "", "interval"),
    ("", r"[-+\d.]+\s*(?:times|\N{MULTIPLICATION SIGN})", "ratio"),
    (r"\bfactor of (?:about )?$", "", "ratio"),
    (rf"(?i:\b(?:{DIFFERENCES})\b[^.\d]{{0,60}}$|\bby (?:about )?$)", "", "Difference"),
    ("", r"[-+\d.]+\s*(?:%|s|seconds) (?:more|less|fewer|higher|lower|better|worse)\b", "Difference"),
    ("", r"[-+\d.]+\s*(?:percentage )?points?\b", "Difference"),
    ("", rf"[-+\d.]+\s*(?!(?:{LINKS}|ms|seconds|millions?)\b)[a-z]{{2,}}", "word"),
)  # fmt: skip
MEANS = ("", "Published", "Higher", "Lower")  # kinds of numbers that are the result of a variant
PRONOUN = re.compile(r"\b(?:it|its)\b", re.IGNORECASE)
NEGATED = re.compile(r"(?:\b(?:no|not|nor|without|never|neither)\b|n't\b)[^.]{0,30}$")
OPEN = ("undecided", "no significant", "interim", "not run")
ALL_RUNS = "all runs"
STYLES = ("before", "order", "nearest")  # where a sentence names the subject of a number


@dataclass(frozen=True)
class Fault:
    """A number or verdict of a paper that differs from the records."""

    file: str
    line: int
    text: str
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}: {self.problem}"


class Passage(NamedTuple):
    """A sentence, or a cell of a table after its heads; `context` is the text around it."""

    text: str
    position: int
    heads: str
    context: str


class Mention(NamedTuple):
    """A name in a passage."""

    start: int
    end: int
    name: str


class Printed(NamedTuple):
    """A number or verdict as a paper prints it, with the words before it, and its kind."""

    match: re.Match[str]
    words_before: str
    kind: str

    @property
    def unit(self) -> str:
        unit = self.match["unit"] or ""
        return "points" if "point" in unit else unit

    @property
    def digits(self) -> str:
        return self.match["value"] or str(COUNTS.index(self.match["word"] or "zero"))

    def fits(self, item: PageNumber) -> bool:
        """Return whether the page has this verdict, or this number at its digits, without its sign."""
        if verdict := self.match["verdict"]:
            if verdict.startswith("significant"):
                return item.text.startswith(OPEN) == bool(NEGATED.search(self.words_before))
            return item.text.startswith(verdict.strip())
        scale = SCALES.get(self.unit, 1.0)
        size, printed_size = abs(item.value or 0.0), abs(float(self.digits)) * scale
        if sign := re.search(r"[<>]\s*$", self.words_before):
            return size < printed_size if "<" in sign[0] else size > printed_size
        half_step = 0.5 * 10.0 ** -len(self.digits.partition(".")[2]) * scale
        return item.value is not None and abs(printed_size - size) <= half_step * (1 + 1e-6)


Reading = list[tuple[Printed, list[PageNumber]]]


class PaperCheck:
    """The numbers of a paper beside those of studies.

    Args:
        main: The main file of the paper.
        studies: The records of the studies that it is about.

    Attributes:
        faults: The numbers and verdicts that differ from the records.
        agreeing: How many agree.
        unmatched: How many numbers are not about the records.
    """

    def __init__(self, main: Path, studies: Sequence[StudyRecords]) -> None:
        self.faults: list[Fault] = []
        self.agreeing = self.unmatched = 0
        self.items: list[PageNumber] = []
        self.units: dict[str, str] = {}
        titles: dict[str, str] = {}
        own_texts: set[str] = set()  # tables as recstudy writes them are not checked again
        # a paper may name the parts of a label apart: HRM on MNIST for `MNIST, HRM`
        self.labels: dict[str, set[str]] = {}
        for records in studies:
            for rows in (records.rows, records.finished_runs, *records.by_variant):
                count = len({row.id for row in rows})
                self.items.append(PageNumber((ALL_RUNS,), "N", str(count), value=count))
            own_texts |= {file.read_text(encoding="utf-8") for file in records.folder.glob("report/*/*.tex")}
            with records.study_modules():
                items = numbers_of(records)
                for name in {item.metric for item in items}:
                    self.units[name] = metric(name).unit
                    titles |= {name: name, metric(name).title: name} if name else {}
            self.items += items
            self.labels |= {item.labels[0]: {item.labels[0]} for item in items}
            self.labels |= {variant.label: {*variant.label.split(", ")} for variant in records.variants}
        self.find_metrics = _finder(titles)
        # a label of one letter would be found in formulas and as an article
        parts = {part for label_parts in self.labels.values() for part in label_parts if part[1:]}
        self.find_subjects = _finder({part: part for part in parts})
        lines = list(_read_lines(main, main.parent, own_texts))
        self.lines = list(dropwhile(lambda line: BODY not in line[2], lines)) or lines
        self.text = "\n".join(text for *_, text in self.lines)
        for passage in _passages(self.text, self._is_level):
            self._check(passage)

    def _is_level(self, text: str) -> bool:
        """Return whether a text is a part of a label, such as the head and a cell of a column of levels."""
        return any((low, high) == (0, len(text)) for low, high, _ in self.find_subjects(text))

    def _check(self, passage: Passage) -> None:
        """Check the numbers and verdicts of a passage.

        Means and intervals are read in the order of subjects and metrics that explains most of them.
        """
        text, start = passage.heads + passage.text, len(passage.heads)
        subjects, metrics = self.find_subjects(text), self.find_metrics(text)
        names = self._named(subjects)
        if len(names) < 2:
            names = self._named([*self.find_subjects(passage.context), *subjects])
        metric_names = {name for *_, name in metrics or self.find_metrics(passage.context)}
        mentions = [*subjects, *metrics]
        is_vague = not mentions and not PRONOUN.search(text)
        results = []
        for match in PRINTED.finditer(text, start):
            if any(low <= match.start() < high for low, high, _ in mentions):
                continue
            head, tail = text[: match.start()][-60:], text[match.start() :]
            kinds = (kind for start, end, kind in KINDS if re.search(start, head) and re.match(end, tail))
            number = Printed(match, head, "Verdict" if match["verdict"] else next(kinds, ""))
            is_count = number.kind == "word" and any(0 <= low - match.end() < 2 for low, *_ in metrics)
            if number.kind in ("", "interval") or is_count:
                results.append(number)
                continue
            if number.kind in ("Difference", "ratio"):
                items = self._differences(number, names, metric_names)
            elif number.kind == "N":
                items = self._items(("N",), {*(names or self.labels), ALL_RUNS}, (), ())
            else:
                items = self._items((number.kind,), names, names, metric_names)
            self._report(passage, number, items, is_vague)

        def agreement(reading: Reading) -> int:
            return sum(any(map(number.fits, items)) for number, items in reading)

        readings = []
        for style in STYLES:
            reading: Reading = []
            for order, number in enumerate(results):
                place = number.match.start()
                labels = self._subjects(subjects, place, style, order) or names
                nearest = [mention.name for mention in metrics if mention.start < place][-1:]
                named_metrics = {*(nearest or metric_names)}
                unit = UNITS.get(number.unit, number.unit)
                with_unit = {name for name in self.units if self.units[name] == unit}
                # the named metrics of the number's unit, else all of that unit
                chosen = (with_unit & named_metrics or with_unit) if unit else named_metrics
                if number.kind == "interval":
                    items = self._items(("Low", "High"), labels, names, chosen)
                else:
                    items = self._items(MEANS, labels, labels, chosen) if chosen else []
                reading.append((number, items))
            readings.append(reading)
        for number, items in max(readings, key=agreement):
            self._report(passage, number, items, is_vague)

    def _named(self, mentions: Sequence[Mention]) -> set[str]:
        """Return the labels all of whose parts are mentioned."""
        parts = {mention.name for mention in mentions}
        return {label for label, label_parts in self.labels.items() if label_parts <= parts}

    def _subjects(self, mentions: list[Mention], position: int, style: str, order: int) -> set[str]:
        """Return the labels with the part that a number is about, and with further parts if possible."""
        if style == "before":
            mentions = [mention for mention in reversed(mentions) if mention.start < position]
        elif style == "nearest":
            mentions = sorted(
                mentions, key=lambda mention: max(mention.start - position, position - mention.end)
            )
        elif mentions[order:]:
            mentions = mentions[order:]
        labels = {*self.labels} if mentions else set()
        for mention in mentions:
            labels = {label for label in labels if mention.name in self.labels[label]} or labels
        return labels

    def _items(
        self,
        kinds: Sequence[str],
        labels: Collection[str],
        variants: Collection[str],
        metrics: Collection[str],
    ) -> list[PageNumber]:
        """Return numbers of these kinds with these labels, or that compare these variants.

        If some of them are of these metrics, the others are left out.
        """
        items = []
        for item in self.items:
            is_comparison = bool(item.variants) and {*item.variants} <= {*variants}
            if item.kind in kinds and (item.labels[0] in labels or is_comparison):
                items.append(item)
        return [item for item in items if item.metric in metrics] or items

    def _differences(
        self, number: Printed, names: Collection[str], metrics: Collection[str]
    ) -> list[PageNumber]:
        """Return the differences or ratios of pairs of the names; of one name, those to any other label."""
        items = [] if number.kind == "ratio" else self._items(("Difference",), names, names, metrics)
        for ours, theirs in permutations(self._items(MEANS, self.labels, (), metrics), 2):
            pair = {ours.labels[0], theirs.labels[0]}
            is_about = pair <= {*names} if len(names) > 1 else bool(pair & {*names})
            # the sides of a claim have its label, and a variant minus a claim means nothing
            are_alike = bool(ours.variants) == bool(theirs.variants)
            if not is_about or not are_alike or ours.metric != theirs.metric:
                continue
            size, base_size = ours.value or 0.0, theirs.value or 0.0
            ratio = size / (base_size or 1)
            values = {"over": ratio} if number.kind == "ratio" else {"minus": size - base_size}
            if number.unit == "%":
                values["relative to"] = 100 * (ratio - 1)
            for words, value in values.items():
                labels = (f"{ours.labels[0]} {words} {theirs.labels[0]}", ours.metric)
                items.append(PageNumber(labels, "Difference", f"{value:.4g}", ours.metric, value))
        return items

    def _report(self, passage: Passage, number: Printed, items: Sequence[PageNumber], is_vague: bool) -> None:
        """Count a number that fits one of the items, or that has none; add a fault for any other."""
        if number.kind in ("", "word"):
            # a bare integer is rarely the mean of a metric with decimals
            is_bare = number.digits.isdigit() and not number.unit
            is_vague |= is_bare and all("." in item.text for item in items)
        elif number.kind not in ("Difference", "ratio"):
            is_vague = False
        if any(map(number.fits, items)):
            self.agreeing += 1
        elif is_vague or not items:
            self.unmatched += 1
        else:
            place = passage.position + number.match.start() - len(passage.heads)
            file, line, _ = self.lines[self.text.count("\n", 0, place)]
            size = abs(float(number.digits))
            nearest = min(items, key=lambda item: abs(abs(item.value or 0.0) - size))
            problem = f"the records have {nearest.text} ({nearest.meaning})"
            self.faults.append(Fault(file, line, " ".join(number.match[0].split()), problem))


def check_paper(main: Path, studies: Sequence[StudyLocation], trust: bool = False) -> int:
    """Print the faults of a paper and the counts of its numbers.

    Args:
        main: The main file of the paper.
        studies: The locations of the studies.
        trust: Whether the studies' own modules may be imported.

    Returns:
        1 if there are faults, or if no number is recognized, else 0.
    """
    readable, damages = load_studies(studies, trust)
    if damages:
        raise damages[0]
    for records in readable.values():
        records.record_look()  # a reader sees verdicts
    check = PaperCheck(main, [*readable.values()])
    say(*map(str, check.faults))
    count = len(check.faults)
    total = check.agreeing + check.unmatched + count
    say(
        f"{main}: checked {total:,} numbers and verdicts: {count:,} differ from the records,"
        f" {check.agreeing:,} agree, {check.unmatched:,} are not about the records."
    )
    is_unread = not check.faults and not check.agreeing
    if is_unread:
        labels = choices(map(repr, check.labels), 3)
        say(f"No number is recognized. Name metrics and variants as the page does, such as {labels}.")
    return int(is_unread or bool(check.faults))


def _finder(names: Mapping[str, str]) -> Callable[[str], list[Mention]]:
    """Return a function that finds names in a text by their spellings, the longest first."""
    spellings = sorted(names, key=len, reverse=True)
    texts = [r"[\W_]*".join(map(re.escape, re.findall(r"[^\W_]+|[^\w\s]", text))) for text in spellings]
    choices = "|".join(f"({text})" for text in texts) or "(?!)"
    pattern = re.compile(rf"(?<!\w)(?:{choices})s?(?!\w)", re.IGNORECASE)

    def find(text: str) -> list[Mention]:
        matches = pattern.finditer(text)
        return [Mention(*match.span(), names[spellings[(match.lastindex or 1) - 1]]) for match in matches]

    return find


def _read_lines(file: Path, folder: Path, own_texts: Collection[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the lines of a LaTeX file and its inputs: file, number of the line, text."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate([] if text in own_texts else text.splitlines(), 1):
        words = INPUT.sub("", line)
        for pattern, replacement in CLEANED:
            words = re.sub(pattern, replacement, words)
        yield str(file), number, words
        for name in INPUT.findall(re.sub(COMMENT, "", line)):
            inner = folder / name
            try:
                yield from _read_lines(inner if inner.suffix else Path(f"{inner}.tex"), folder, own_texts)
            except ConfigError as error:
                raise ConfigError(f"{file}, line {number}: {error}") from None


def _passages(text: str, is_level: Callable[[str], bool]) -> Iterator[Passage]:
    """Yield the sentences of a text, and the cells of its tables with the heads of their row and column."""
    position = 0
    for piece in re.split(rf"({TABLE}[^{TABLE_END}]*)", text):
        if not piece.startswith(TABLE):
            for match in re.finditer(r"\S(?:[^.!?\n]|[.!?](?!\s)|\n(?!\s*\n))*[.!?]*", piece):
                start = position + match.start()
                paragraph = text[max(0, start - 400) : start].rpartition("\n\n")[2]
                yield Passage(match[0], start, "", paragraph)
        else:
            text_before = text[max(0, position - 400) : position].rpartition("\n\n")[2]
            text_after = text[position + len(piece) :][:400].partition("\n\n")[0]
            yield from _cells(piece, position, text_before + text_after, is_level)
        position += len(piece)


def _cells(table: str, position: int, caption: str, is_level: Callable[[str], bool]) -> Iterator[Passage]:
    """Yield the cells of a table. The name of a row is its first cell, or its cells in columns of levels."""
    heads: list[str] = []
    for row in re.split(f"(?<={ROW_END})", table):
        cells = row.split("&")
        words = [cell.strip(f" \n{TABLE}{ROW_END}") for cell in cells]
        start = position + len(cells[0]) + 1
        texts = [f"{head} {word}" for head, word in zip(heads, words, strict=False)]
        levels = [text for text in texts if is_level(text)]
        for index, cell in enumerate(cells[1:] if heads else (), 1):
            head = next((head for head in heads[index:] if head), "")
            if index >= len(texts) or texts[index] not in levels:
                yield Passage(cell, start, f"{', '.join(levels) or words[0]} | {head} = ", caption)
            start += len(cell) + 1
        heads = heads or (words if len(words) > 1 else [])
        position += len(row)
