r"""What records answer of the NeurIPS paper checklist and of the machine-learning reproducibility checklist, and where it stands.

A question that no record answers is named as the author's. `checklist.md` is for reading, `checklist.tex` for a paper's source:
with NeurIPS's style file its own `\answerYes` is used, without it the words alone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from recstudy.analysis.caveats import drawn_anew, some
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.registration import registration_words
from recstudy.analysis.rows import distinct, origin
from recstudy.analysis.tables.entries import md
from recstudy.analysis.tables.latex import breakable
from recstudy.config import flatten
from recstudy.records import write_whole
from recstudy.report import Claims
from recstudy.report.names import metric, plain, plural
from recstudy.terminal import duration, flops

Says = Literal["Yes", "No", "NA", "TODO"]
NEURIPS, REPRODUCIBILITY = "NeurIPS paper checklist", "Machine-learning reproducibility checklist"
AUTHOR = "The author's to answer: no record says it."
MACROS = {"Yes": r"\answerYes{}", "No": r"\answerNo{}", "NA": r"\answerNA{}", "TODO": r"\answerTODO{}"}
LICENCES = {"digits": "CC BY 4.0 (UCI, by scikit-learn)"}  # data set -> what is known; of any other the author must say it
PAGE, PLAN, RESULT = "report.html", "plan.json", "runs/ID/result.json"


@dataclass(frozen=True)
class Answered:
    """A question of a checklist, what records answer, and where that stands. `TODO` is the author's."""

    checklist: str
    item: str
    answer: Says
    says: str = AUTHOR
    where: str = ""


def checklist(records: StudyRecords) -> list[Answered]:
    """Return every item of both checklists, in their order."""
    with records.standing():
        known = _Known(records)
        return [*_neurips(known), *_reproducibility(known)]


def write_checklist(records: StudyRecords, folder: Path) -> list[Path]:
    """Write `checklist.md` and `checklist.tex` into a folder, and return their paths."""
    items = checklist(records)
    files = {folder / "checklist.md": markdown(items), folder / "checklist.tex": latex(items)}
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        write_whole(file, text)
    return [*files]


def markdown(items: Sequence[Answered]) -> str:
    """Return the items as a heading and a list a checklist."""
    lines = list[str]()
    for name in dict.fromkeys(one.checklist for one in items):
        lines += [f"# {name}", ""]
        for one in (one for one in items if one.checklist == name):
            where = f" ({md(one.where)})" if one.where else ""
            lines.append(f"- **{md(one.item)}**: {'author' if one.answer == 'TODO' else one.answer}. {md(one.says)}{where}")
        lines.append("")
    return "\n".join(lines)


def latex(items: Sequence[Answered]) -> str:
    """Return the items as lists that a paper may `\\input`, answers by NeurIPS's own commands."""
    words = {"answerYes": "Yes", "answerNo": "No", "answerNA": "N/A", "answerTODO": "To be answered by the author"}
    lines = [rf"\providecommand{{\{name}}}[1][]{{{word}. #1}}" for name, word in words.items()]
    for name in dict.fromkeys(one.checklist for one in items):
        lines += [rf"\section*{{{breakable(name)}}}", r"\begin{enumerate}"]
        for one in (one for one in items if one.checklist == name):
            where = rf" ({breakable(one.where)})" if one.where else ""
            lines += [rf"\item \textbf{{{breakable(one.item)}}}", rf"\item[] Answer: {MACROS[one.answer]}"]
            lines.append(rf"\item[] Justification: {breakable(one.says)}{where}")
        lines.append(r"\end{enumerate}")
    return "\n".join(lines) + "\n"


class _Known:
    """What records say, in sentences; each may be empty."""

    def __init__(self, records: StudyRecords) -> None:
        self.records, self.runs = records, distinct(records.rows)
        self.done = [row for row in self.runs if row.result is not None]

    def error_bars(self) -> tuple[Says, str]:
        counts = [sum(row.status == "done" for row in rows) for rows in self.records.by_variant]
        alone = [variant.label for variant, count in zip(self.records.variants, counts, strict=True) if count < 2]
        if not any(counts):
            return "No", "No run has finished yet."
        anew = drawn_anew(self.records, range(len(self.records.variants)))
        told = f"Intervals of 95 % over {min(counts)} to {max(counts)} seeds a variant. They cover what each seed draws anew: "
        told += f"{anew}. One fit a metric gives them, from each variant's own variance moderated by the others'."
        return ("No", f"{told} Without an interval over seeds: {some(alone)}.") if alone else ("Yes", told)

    def machines(self) -> str:
        found = Counter[str]()
        for row in self.done:
            made = origin(row.provenance)
            cores = f", {made['cores']} cores" if made["cores"] else ""
            kind = made["gpu"] or (f"{made['cpu']}{cores}" if made["cpu"] else "")
            found[kind and f"{kind}, {plural(made['workers'], 'worker')}"] += 1
        return "; ".join(
            f"{plural(count, 'run')} on {kind or 'a machine that was not recorded'}" for kind, count in found.most_common()
        )

    def compute(self) -> str:
        seconds = sorted(row.paid for row in self.done if row.paid)
        if not seconds:
            return ""
        peta = sum(float(row.value("train_pflop") or 0.0) for row in self.done)
        memory = [float(value) for row in self.done if (value := row.value("peak_memory_mb"))]
        told = f"A run took {duration(median(seconds))} (median; {duration(seconds[0])} to {duration(seconds[-1])}), all "
        told += f"{plural(len(seconds), 'finished run')} {duration(sum(seconds))}" + (
            f" and {flops(peta)} of training" if peta else ""
        )
        told += f"; at most {max(memory):,.0f} MB of memory" if memory else ""
        left = sum(row.status in ("failed", "stopped", "unfinished") for row in self.runs)
        told += f". Not counted: {plural(left, 'run')} that did not finish" if left else ""
        return f"{told}; earlier studies are the author's to add."

    def seeds(self) -> str:
        plan, status = self.records.plan, Counter(row.status for row in self.runs)
        ended = ", ".join(f"{count:,} {word}" for word, count in status.items())
        told = f"{plural(len(self.records.variants), 'variant')}, seeds {', '.join(map(str, plan.seeds))}"
        return f"{told}; {plural(len(self.runs), 'run')}: {ended}."

    def splits(self) -> str:
        configs = self.records.configs
        fields = ("train.selection", "data.validation", "data.limit", "data.drawing")
        told = {
            field: ", ".join(dict.fromkeys(plain(one[field]) for one in configs if one.get(field) is not None))
            for field in fields
        }
        return (
            "The test split is scored once, at the selected epoch: "
            + "; ".join(f"{f} {one}" for f, one in told.items() if one)
            + "."
        )

    def data(self) -> list[tuple[str, str, bool, str]]:
        """Return title, name, whether it is synthetic, and checksums of each data set."""
        found = dict[str, tuple[str, str, bool, str]]()
        for index, variant in enumerate(self.records.variants):
            sums = ", ".join(one[:12] for one in self.records.data_checksums(index))
            name = str(self.records.configs[index].get("data.name", ""))
            found[variant.data] = variant.data, name, index in self.records.synthetic, sums
        return list(found.values())

    def licences(self) -> tuple[Says, str]:
        told, unknown = list[str](), False
        for title, name, synthetic, _ in self.data():
            known = "generated by recstudy, no third party's" if synthetic else LICENCES.get(name, "")
            told.append(f"{title}: {known or 'licence not known to recstudy'}")
            unknown = unknown or not known
        begun = dict.fromkeys(row.provenance.begun for row in self.done if row.provenance.begun)
        told += [f"weights: {one}, licence not known to recstudy" for one in begun]
        return ("TODO" if unknown or begun else "Yes"), "; ".join(told) + "."

    def code(self) -> str:
        made = [row.provenance for row in self.done]
        commits = [one[:12] for one in dict.fromkeys(one.made_by for one in made if one.made_by)]
        told = [f"commit {some(commits, ', ')}"] if commits else []
        told += ["with uncommitted changes in some runs"] if any(one.dirty for one in made) else []
        told += [f"digests of the code of {', '.join(self.records.plan.code)}"] if self.records.plan.code else []
        versions = list(dict.fromkeys(one.packages for one in made if one.packages))
        told += (
            [f"with {versions[0]}" + (f" and {len(versions) - 1} other sets of versions" if versions[1:] else "")]
            if versions
            else []
        )
        return f"{'; '.join(told)}. Run it again with: {self.records.plan.command}" if told else ""

    def settings(self) -> str:
        plan = self.records.plan
        count = len(flatten(plan.base))
        if plan.search is None:
            return f"All {count} settings are recorded for every run, and what each variant changes. This study searches none."
        ranges = "; ".join(f"{family}: {', '.join(fields)}" for family, fields in plan.search.space.items())
        return f"All {count} settings are recorded; searched by {plan.search.sampler} within {plan.search.budget}: {ranges}."

    def metrics(self) -> str:
        shown = dict.fromkeys(name for part in self.records.parts for name in part.shows)
        return ", ".join(metric(name).heading for name in shown)

    def claims(self) -> tuple[Says, str]:
        claims = [claim for part in self.records.parts if isinstance(part, Claims) for claim in part.claims]
        if not claims:
            return "TODO", AUTHOR
        registered = registration_words(self.records)
        told = f"{plural(len(claims), 'claim')} stated as contrasts, each with a verdict; registered: {registered or 'no'}."
        return "TODO", f"{told} Whether the abstract says no more is the author's to answer."


def _made(says: str, otherwise: Says = "TODO") -> tuple[Says, str]:
    return ("Yes", says) if says else (otherwise, AUTHOR)


def _neurips(known: _Known) -> Iterator[Answered]:
    def item(name: str, said: tuple[Says, str] = ("TODO", AUTHOR), where: str = "") -> Answered:
        return Answered(NEURIPS, name, *said, where=where)

    machines, compute = known.machines(), known.compute()
    yield item("1. Claims", known.claims(), f"{PAGE}, claims")
    yield item("2. Limitations")
    yield item("3. Theory assumptions and proofs")
    yield item("4. Experimental result reproducibility", _made(known.code()), f"{PAGE}, Provenance and Finish or repeat")
    yield item("5. Open access to data and code")
    yield item(
        "6. Experimental setting and details", ("Yes", f"{known.settings()} {known.splits()}"), f"{PAGE}, Settings; {PLAN}"
    )
    yield item("7. Experiment statistical significance", known.error_bars(), f"{PAGE}, tables")
    yield item("8. Experiments compute resources", _made(f"{machines}. {compute}" if compute else ""), f"{PAGE}, facts; {RESULT}")
    for name in ("9. Code of ethics", "10. Broader impacts", "11. Safeguards"):
        yield item(name)
    yield item("12. Licences for existing assets", known.licences())
    for name in (
        "13. New assets",
        "14. Crowdsourcing and human subjects",
        "15. Review boards for human subjects",
        "16. Use of LLMs",
    ):
        yield item(name)


def _reproducibility(known: _Known) -> Iterator[Answered]:
    def item(name: str, said: tuple[Says, str] = ("TODO", AUTHOR), where: str = "") -> Answered:
        return Answered(REPRODUCIBILITY, name, *said, where=where)

    models = ", ".join(dict.fromkeys(variant.model for variant in known.records.variants))
    sizes = sorted({int(value) for row in known.done if (value := row.value("params"))})
    yield item("Model: description", ("TODO", f"{models}, as code and settings; the description in words is the author's."), PLAN)
    yield item(
        "Model: complexity", _made(f"{sizes[0]:,} to {sizes[-1]:,} parameters; FLOPs are counted." if sizes else ""), RESULT
    )
    yield item("Theory: assumptions and proofs")
    data = "; ".join(f"{title}{' (synthetic)' * made}, checksum {sums or 'not known'}" for title, _, made, sums in known.data())
    yield item("Data: which, in which version", ("Yes", f"{data}."), f"{PAGE}, Provenance")
    yield item("Data: splits", ("Yes", known.splits()), f"{PAGE}, Settings")
    notes = list(dict.fromkeys(note for row in known.done for note in row.provenance.data_notes))
    yield item("Data: what was left out, and preparation", _made("; ".join(notes)), f"{PAGE}, Provenance")
    yield item("Data: licences", known.licences())
    yield item("Data: how new data were collected")
    yield item("Code: dependencies, training and evaluation", _made(known.code()), f"{PAGE}, Provenance")
    kept = sum(known.records.results.run(row.id).weights.exists() for row in known.done)
    yield item(
        "Code: trained weights", _made(f"{plural(kept, 'run')} of {len(known.done):,} keep their weights." if kept else "", "No")
    )
    yield item("Results: ranges and choice of settings", ("Yes", known.settings()), f"{PAGE}, Settings")
    yield item("Results: number of runs and seeds", ("Yes", known.seeds()), PLAN)
    yield item("Results: measures", _made(f"{known.metrics()}." if known.metrics() else ""), f"{PAGE}, tables")
    yield item("Results: central tendency and variation", known.error_bars(), f"{PAGE}, tables")
    yield item("Results: run time and cost", _made(known.compute()), RESULT)
    yield item("Results: machines", _made(f"{known.machines()}." if known.done else ""), f"{PAGE}, Provenance")
