"""Compare the numbers and verdicts in the LaTeX text of a paper with the records.

`recstudy check-paper` reads the paper with its inputs and without comments. A passage is a sentence, or a
cell of a table with its heads. The variants, claims and metrics that a passage names lead from each of its
numbers to numbers of the page. A number that differs from all of these is a fault.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from recstudy.base.errors import ConfigError
from recstudy.base.terminal import say
from recstudy.records import Results
from recstudy.report.names import join_labels, metric
from recstudy.report.numbers import PageNumber, numbers_of
from recstudy.report.study_records import StudyRecords, load_studies

INPUT = re.compile(r"\\(?:input|include)\s*\{([^}]+)\}")
TABLE, TABLE_END, ROW_END = "\x02", "\x03", "\x04"
GROUP = r"(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})"
CLEANED = (  # LaTeX -> the words that it prints
    (r"(?<!\\)%.*", ""),
    (r"\\newcommand\{\\recstudy.*|\\recstudy[a-zA-Z]+(?:\{\})?", ""),
    (r"\\\\", ROW_END),
    (rf"\\begin\{{(?:tabular[x*]?|longtable)\}}(?:\[[^]]*\])?{GROUP}+", TABLE),
    (r"\\end\{(?:tabular[x*]?|longtable)\}", TABLE_END),
    (rf"\\(?:\w*cite\w*|\w*ref|label|begin|end|includegraphics|url|href|bib\w+|[vh]space|setlength|sisetup|cmidrule)\*?"
     rf"(?:\([^)]*\))?(?:\[[^]]*\])*{GROUP}*", " "),
    (r"[-\d.]+\s*(?:pt|em|ex|cm|mm|in|\\(?:line|text|column)width)\b", " "),
    (rf"\\multicolumn\{{(\d)\}}{GROUP}", lambda match: "&" * (int(match[1]) - 1)),
    (r"\{,\}|(?<=\d),(?=\d{3}(?!\d))", ""),
    (r"\\penalty\d+ ?", ""),
    (r"\\(?:textless|leq?|lt)\b", "<"),
    (r"\\(?:%|percent\b)", "%"),
    (r"\\pm\b", "\N{PLUS-MINUS SIGN}"),
    (r"\\times\b", "\N{MULTIPLICATION SIGN}"),
    (r"\\[,;:! ]|~", " "),
    (r"\\[a-zA-Z]+\*?", " "),
    (r"[{}$]", ""),
    (r"(?<=\d)\s*--\s*(?=[-\d])", " to "),
)  # fmt: skip
COUNTS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NUMBER = re.compile(
    r"(?<![\w.^\N{PLUS-MINUS SIGN}\N{MULTIPLICATION SIGN}])(?P<value>[-+]?\d+(?:\.\d+)?)"
    r"(?!\.?\d|\^|-[a-z]|\s*%\s(?:CI|conf|interval))"
    r"(?:\s*(?P<unit>%|M\b|millions?\b|k\b|(?:percentage )?points?\b|times\b|seconds\b|ms\b|s\b"
    r"|\N{MULTIPLICATION SIGN}(?!\d)))?(?!\w)"
    rf"|\b(?P<word>{'|'.join(COUNTS)})(?= (?:random )?(?:seeds|runs)\b)"
)
SCALES = {"M": 1e6, "million": 1e6, "millions": 1e6, "k": 1e3}
INTERVAL = re.compile(r"(?:\[\s*|(?:CI|intervals?)\W{1,3})([-+]?\d[\d.]*)\s*(?:,|%?\s*to)\s*([-+]?\d[\d.]*)")
LINKS = "and|or|for|with|against|on|in|to|of|vs|versus|by|while|but|than|at|after|from|is|are|when|if|whereas"
DIFFERENCES = "differences?|gap|gain|improvement|reduction|delta"
PRONOUN = re.compile(r"\b(?:it|its)\b", re.IGNORECASE)
CONTEXTS = (  # words before and after a number -> its kind
    (r"\b(?:at least|at most|claim\w*|margin)[^.\d]{0,20}$", "", "claimed"),
    (r"\bn\s*=\s*$", "", "N"),
    ("", r"\s*(?:random )?(?:seeds|runs)\b", "runs"),
    (r"\bp\b(?: \(\w+\))?\s*[=<>]\s*[<>]?\s*$", "", "P"),
    (rf"(?i:\b(?:{DIFFERENCES})\b[^.\d]{{0,60}}$|\bby (?:about )?$)", "", "Difference"),
    ("", r"\s*%? (?:more|less|fewer|higher|lower|better|worse)\b(?! seeds| runs)", "comparison"),
    ("", rf"\s*(?!(?:{LINKS})\b)[a-z]{{2,}}", "word"),
)  # fmt: skip
SIGNIFICANT = re.compile(r"\bsignificant(?:ly)?\b")
NEGATED = re.compile(r"(?:\b(?:no|not|nor|without|never|neither)\b|n't\b)[^.]{0,30}$")
OPEN = ("undecided", "no significant", "interim", "not run")
VERDICT = re.compile(r"\b(supported|contradicted|undecided)\b")
CELL_VERDICT = re.compile(
    r"(?<== )\s*(supported|contradicted|undecided|better|worse|no significant difference)\b"
)
RATIOS = ("times", "\N{MULTIPLICATION SIGN}")
UNITS = {"points": "%", "seconds": "s", "million": "", "M": "", "k": ""}
MEANS = ("", "Published", "Higher", "Lower")  # kinds of numbers that are the result of a variant
LINK = re.compile(r"\W*(?:for|with|of|by|in|on|at)\s+(?:the\s+|a\s+)?")
STYLES = ("before", "after", "order")  # where a sentence names the subject of a number


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
    """A sentence, or a cell of a table after its heads; `earlier` is the text before it."""

    text: str
    position: int
    heads: str
    earlier: str


class Printed(NamedTuple):
    """A number as a paper prints it, the words before it, and its kind."""

    text: str
    unit: str = ""
    before: str = ""
    kind: str = ""

    def fits(self, value: float | None) -> bool:
        """Return whether a value has this number at its digits, without its sign."""
        if value is None:
            return False
        sign, limit = self.before.rstrip()[-1:], float(self.text)
        if sign in ("<", ">"):
            return value < limit if sign == "<" else value > limit
        scale = SCALES.get(self.unit, 1.0)
        half_step = 0.5 * 10.0 ** -len(self.text.partition(".")[2]) * scale
        return abs(abs(limit) * scale - abs(value)) <= half_step * (1 + 1e-6)


Mentions = list[tuple[int, int, str]]  # start, end, name


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
        self.metrics: dict[str, re.Pattern[str]] = {}
        self.run_counts: list[int] = []
        files: list[Path] = []
        for records in studies:
            groups = (records.rows, records.finished_runs, *records.by_variant)
            self.run_counts += [len({row.id for row in rows}) for rows in groups]
            files += records.results.study(records.plan.study, records.plan.folder).glob("report/*/*.tex")
            with records.study_modules():
                items = numbers_of(records)
                for name in {item.metric for item in items}:
                    self.units[name] = metric(name).unit
                    self.metrics[name] = _pattern([name, metric(name).title])
            self.items += items
        variants = {variant.label for records in studies for variant in records.variants}
        # a paper may name the parts of a label apart: HRM on MNIST for `MNIST, HRM`
        self.labels = {
            label: frozenset(label.split(", ") if label in variants else [label])
            for label in {item.labels[0] for item in self.items} | variants
        }
        self.parts = {part: _pattern([part]) for parts in self.labels.values() for part in parts if part[1:]}
        self.means: dict[tuple[str, str], list[PageNumber]] = {}
        for item in self.items:
            if item.kind in MEANS and item.value is not None:
                self.means.setdefault((item.labels[0], item.metric), []).append(item)
        # tables and figures as recstudy writes them are not checked again
        own_texts = {file.read_text(encoding="utf-8") for file in files}
        self.lines = list(_read_lines(main, main.parent, own_texts))
        begin = [index for index, line in enumerate(self.lines) if r"\begin{document}" in line[2]]
        self.lines = self.lines[begin[0] :] if begin else self.lines
        texts, self.starts = [], [0]
        for _, _, text in self.lines:
            for pattern, words in CLEANED:
                text = re.sub(pattern, words, text)
            texts.append(text)
            self.starts.append(self.starts[-1] + len(text) + 1)
        for passage in _passages("\n".join(texts)):
            self._check(passage)

    def _check(self, passage: Passage) -> None:
        """Check the numbers and verdicts of a passage."""
        text, start = passage.heads + passage.text, len(passage.heads)
        subjects, metrics = _mentions(self.parts, text), _mentions(self.metrics, text)
        spans = [(low, high) for low, high, _ in (*subjects, *metrics)]
        own_names, earlier = self._named(subjects), _mentions(self.parts, passage.earlier)
        names = own_names if len(own_names) > 1 else self._named([*earlier, *subjects])
        if PRONOUN.search(text):
            subjects = [*((-1, -1, name) for *_, name in earlier), *subjects]
        metric_names = {name for *_, name in metrics or _mentions(self.metrics, passage.earlier)}
        for match in INTERVAL.finditer(text, start):
            spans.append(match.span())
            near = self._subjects(subjects, match.start(), "before", 0)
            near = near if len(near) == 1 and own_names else names
            ends, pairs = [Printed(match[group].rstrip(".")) for group in (1, 2)], []
            for item in self._items("CI", names, metric_names):
                low, high = map(float, re.findall(r"[-+]?[\d.]+", item.text))
                # a difference may have the other sign
                orders = [low, high], [high, low]
                if item.variants or item.labels[0] in near:
                    pairs.append((item, any(all(map(Printed.fits, ends, order)) for order in orders)))
            self._report(passage, match, pairs)
        means = []
        for match in NUMBER.finditer(text, start):
            if any(low <= match.start() < high for low, high in spans):
                continue
            number = _printed(match, text)
            items = []
            if number.kind in ("N", "runs"):
                items = self._items("N", own_names or self.labels, ())
                is_total = number.kind == "runs" and any(map(number.fits, self.run_counts))
                items = [replace(item, value=float(number.text)) for item in items] if is_total else items
            elif number.kind == "P":
                items = self._items("P", names, metric_names)
            elif number.kind in ("Difference", "ratio"):
                items = self._differences(number, names, metric_names)
            elif number.kind == "" or any(0 <= low - match.end() < 2 for low, *_ in metrics):
                means.append((match, number))
                continue
            self._report(passage, match, [(item, number.fits(item.value)) for item in items])
        # Means are read in the order of subjects and metrics that explains most of them.
        readings = []
        for styles in product(STYLES, STYLES[:2]):
            reading = []
            for order, (match, number) in enumerate(means):
                link = LINK.match(text, match.end())
                is_linked = link is not None and any(low == link.end() for low, *_ in subjects)
                style = "after" if is_linked else styles[0]
                labels = self._subjects(subjects, match.start(), style, order) or names
                fitting = self._metrics_of(number, ())
                shown = [span for span in metrics if not fitting or span[2] in fitting]
                nearest = [name for *_, name in _in_style(shown, match.start(), styles[1])[:1]]
                pairs = []
                for key in product(labels, nearest or self._metrics_of(number, metric_names)):
                    pairs += [(item, number.fits(item.value)) for item in self.means.get(key, ())]
                # a bare integer is rarely the mean of a metric with decimals
                is_bare = number.text.isdigit() and not number.unit
                is_vague = not (spans or PRONOUN.search(text)) or (
                    is_bare and all("." in item.text for item, _ in pairs)
                )
                is_vague = is_vague or (len(labels) > 1 and bool(subjects))
                reading.append([pair for pair in pairs if pair[1] or not is_vague])
            readings.append(reading)
        best = max(readings, key=lambda reading: sum(any(fits for _, fits in pairs) for pairs in reading))
        for (match, _), pairs in zip(means, best, strict=True):
            self._report(passage, match, pairs)
        for match in (CELL_VERDICT if start else VERDICT).finditer(text, start):
            items = self._items("Verdict", names, ())
            self._report(passage, match, [(item, item.text.startswith(match[1])) for item in items])
        for match in SIGNIFICANT.finditer(text, start) if len(names) > 1 and not start else ():
            is_negated = bool(NEGATED.search(text[: match.start()]))
            items = [item for item in self._items("Verdict", names, metric_names) if item.variants]
            self._report(passage, match, [(item, item.text.startswith(OPEN) == is_negated) for item in items])

    def _named(self, mentions: Mentions) -> set[str]:
        """Return the labels all of whose parts are mentioned."""
        parts = {name for *_, name in mentions}
        return {label for label, label_parts in self.labels.items() if label_parts <= parts}

    def _subjects(self, mentions: Mentions, position: int, style: str, order: int) -> set[str]:
        """Return the labels with the parts that are mentioned nearest to a position."""
        nearest = _in_style(mentions, position, style)
        if style == "order":
            named = [mention for mention in mentions if mention[0] >= 0]
            nearest = [*(named[order : order + 1] or named[:1]), *nearest]
        labels: set[str] = set()
        for *_, part in nearest:
            labels = {label for label in labels or self.labels if part in self.labels[label]} or labels
        return labels

    def _items(self, kind: str, names: Collection[str], metrics: Collection[str]) -> list[PageNumber]:
        """Return numbers of a kind about these variants and claims.

        If some of them are of these metrics, the others are left out.
        """
        items = []
        for item in (item for item in self.items if item.kind == kind):
            if item.labels[0] in names or (item.variants and {*item.variants} <= {*names}):
                items.append(item)
        return [item for item in items if item.metric in metrics] or items

    def _metrics_of(self, number: Printed, names: Collection[str]) -> list[str]:
        """Return those of the named metrics that have the number's unit, else all that have it."""
        unit = UNITS.get(number.unit, number.unit)
        fitting = [name for name in self.metrics if self.units[name] == unit] if unit else [*names]
        return [name for name in fitting if name in names] or fitting

    def _differences(
        self, number: Printed, names: Collection[str], metrics: Collection[str]
    ) -> list[PageNumber]:
        """Return the differences or ratios of pairs of the names; of one name, those to any other label."""
        items = [] if number.kind == "ratio" else self._items("Difference", names, metrics)
        # a relative difference of any metric is in percent
        chosen = self._metrics_of(number, metrics) if number.unit == "points" or not metrics else metrics
        for ours, theirs, name in product(names, names if len(names) > 1 else self.labels, chosen):
            for means in product(self.means.get((ours, name), ()), self.means.get((theirs, name), ())):
                size, base_size = (mean.value or 0.0 for mean in means)
                values = {"minus": size - base_size}
                if number.kind == "ratio":
                    values = {"over": size / (base_size or 1), "under": base_size / (size or 1)}
                elif number.unit == "%":
                    values["relative to"] = 100 * (size - base_size) / (base_size or 1)
                    values["from"] = 100 * (base_size - size) / (size or 1)
                for words, value in values.items() if means[0] is not means[1] else ():
                    labels = (f"{ours} {words} {theirs}", name)
                    items.append(PageNumber(labels, "Difference", f"{value:.4g}", name, value))
        return items

    def _report(
        self, passage: Passage, match: re.Match[str], pairs: Sequence[tuple[PageNumber, bool]]
    ) -> None:
        """Count a number that fits one of the items, or that has none; add a fault for any other."""
        if not pairs:
            self.unmatched += 1
        elif any(fits for _, fits in pairs):
            self.agreeing += 1
        else:
            place = passage.position + match.start() - len(passage.heads)
            file, line, _ = self.lines[bisect_right(self.starts, place) - 1]
            digits = re.search(r"\d+(?:\.\d+)?", match[0])
            size = float(digits[0]) if digits else 0.0
            nearest = sorted((item for item, _ in pairs), key=lambda item: abs(abs(item.value or 0.0) - size))
            words = dict.fromkeys(f"{item.text} ({item.meaning})" for item in nearest)
            problem = f"the records have {join_labels([*words], ' or ', 2)}"
            self.faults.append(Fault(file, line, " ".join(match[0].split()), problem))


def check_paper(main: Path, studies: Sequence[tuple[Results, str, str]], trust: bool = False) -> int:
    """Print the faults of a paper and the counts of its numbers.

    Args:
        main: The main file of the paper.
        studies: Results folder, name and preset of each study.
        trust: Whether the studies' own modules may be imported.

    Returns:
        1 if there are faults, else 0.
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
    return int(bool(check.faults))


def _in_style(mentions: Mentions, position: int, style: str) -> Mentions:
    """Return the mentions, the nearest before a position first, or the nearest after it."""
    before = [span for span in reversed(mentions) if span[0] < position]
    after = [span for span in mentions if span[0] >= position]
    return [*before, *after] if style == "before" else [*after, *before]


def _printed(match: re.Match[str], text: str) -> Printed:
    before, after = text[: match.start()][-60:], text[match.end() :]
    unit = match["unit"] or ""
    kinds = (kind for head, tail, kind in CONTEXTS if re.search(head, before) and re.match(tail, after))
    kind = next(kinds, "")
    if kind in ("word", "comparison") and unit:
        kind = "Difference" if kind == "comparison" else ""
    if unit in RATIOS or re.search(r"\bfactor of (?:about )?$", before):
        kind = "ratio"
    elif unit.endswith(("point", "points")) and kind == "":
        kind = "Difference"
    digits = match["value"] or str(COUNTS.index(match["word"]))
    return Printed(digits, "points" if unit.endswith("points") else unit, before, kind)


def _mentions(patterns: Mapping[str, re.Pattern[str]], text: str) -> Mentions:
    """Return the names in a text, in their order, without those inside of longer ones."""
    spans = [(*match.span(), name) for name, pattern in patterns.items() for match in pattern.finditer(text)]
    return sorted(
        span
        for span in spans
        if not any(
            low <= span[0] and span[1] <= high and high - low > span[1] - span[0] for low, high, _ in spans
        )
    )


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    texts = [r"[\W_]*".join(map(re.escape, re.findall(r"[^\W_]+|[^\w\s]", name))) for name in names]
    return re.compile(rf"(?<!\w)(?:{'|'.join(texts)})s?(?!\w)", re.IGNORECASE)


def _read_lines(file: Path, folder: Path, own_texts: Collection[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the lines of a LaTeX file and its inputs: file, number of the line, text."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    for number, line in enumerate([] if text in own_texts else text.splitlines(), 1):
        yield str(file), number, INPUT.sub("", line)
        for name in INPUT.findall(re.sub(CLEANED[0][0], "", line)):
            inner = folder / name
            try:
                yield from _read_lines(inner if inner.suffix else Path(f"{inner}.tex"), folder, own_texts)
            except ConfigError as error:
                raise ConfigError(f"{file}, line {number}: {error}") from None


def _passages(text: str) -> Iterator[Passage]:
    """Yield the sentences of a text, and the cells of its tables with the heads of their row and column."""
    position = 0
    for piece in re.split(rf"({TABLE}[^{TABLE_END}]*)", text):
        if not piece.startswith(TABLE):
            for match in re.finditer(r"\S(?:[^.!?\n]|[.!?](?!\s)|\n(?!\s*\n))*[.!?]*", piece):
                start = position + match.start()
                paragraph = text[max(0, start - 400) : start].rpartition("\n\n")[2]
                yield Passage(match[0], start, "", paragraph)
        else:
            before = re.split(rf"{TABLE_END}|\n\s*\n", text[max(0, position - 400) : position].strip())[-1]
            after = re.split(r"\n\s*\n", text[position + len(piece) + 1 :][:400])[0]
            yield from _cells(piece, position, f"{before} {after}")
        position += len(piece)


def _cells(table: str, position: int, caption: str) -> Iterator[Passage]:
    heads: list[str] = []
    for row in re.split(f"(?<={ROW_END})", table):
        cells = row.split("&")
        words = [cell.strip(f" \n{TABLE}{ROW_END}") for cell in cells]
        start = position + len(cells[0]) + 1
        for index, cell in enumerate(cells[1:] if heads else (), 1):
            head = next((head for head in heads[index:] if head), "")
            yield Passage(cell, start, f"{words[0]} | {head} = ", caption)
            start += len(cell) + 1
        heads = heads or (words if len(words) > 1 else [])
        position += len(row)
