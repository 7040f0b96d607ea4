"""The JSON entry of a study: its questions with answers, the next step, and the exit code of its claims."""

from collections import Counter
from collections.abc import Sequence
from typing import IO, Any, Literal

from recstudy.base.errors import ConfigError
from recstudy.base.terminal import shortest
from recstudy.records import Results
from recstudy.records.runs import FINAL_STATUSES, distinct
from recstudy.report.caveats import warnings
from recstudy.report.claims import Claims, QuestionPart
from recstudy.report.documents import EstimateEntry, QuestionEntry, SideEntry, StudiesDocument, StudyEntry
from recstudy.report.family import PublishedValue, family, published_values
from recstudy.report.findings import AGAINST, findings, open_question
from recstudy.report.loaded import Loaded
from recstudy.report.names import metric, plural
from recstudy.report.parts import Undrawable, parts_of
from recstudy.report.question_rows import QuestionRow
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.report.tables.question_table import answer_fields, needed_words, question_reasons
from recstudy.study.until import DEFAULT_MAXIMUM, Ending, ending, seeds_left

# the exit code of each verdict, the first of which decides if claims differ
CODES = {"contradicted": 11, "undecided": 10, "supported": 0}
NO_CLAIM = "no claim"
CommandName = Literal["judge", "report", "run"]


def require_claims(has_claims: bool) -> None:
    """Refuse --exit-by-verdict for a study without a claim, whose verdict would be no answer."""
    if not has_claims:
        raise ConfigError(
            "--exit-by-verdict needs a claim, but none is stated. State one, such as"
            " Study(claims=[Claim(...)]) or judge --claims FILE. A smoke run has no claims"
        )


def conclude(
    command: CommandName,
    entries: Sequence[StudyEntry],
    as_json: bool,
    by_verdict: bool,
    stdout: IO[str] | None,
) -> int:
    """Print the document of studies, and return the exit code of their claims, as the options state."""
    verdict: Any = worst([entry.verdict for entry in entries])
    if as_json:
        StudiesDocument(command=command, verdict=verdict, studies=list(entries)).show(stdout)
    if by_verdict:
        require_claims(verdict in CODES)
    return CODES[verdict] if by_verdict else 0


def worst(verdicts: Sequence[str]) -> str:
    return next((verdict for verdict in CODES if verdict in verdicts), NO_CLAIM)


def study_entry(results: Results, name: str, preset: str, trust: bool = False) -> StudyEntry:
    """Return the entry of a study.

    Raises:
        StorageError: A record is damaged.
    """
    records = load_study(results, name, preset, trust)
    with records.study_modules():
        questions, problems, verdicts, plan = [], [], list[str](), records.plan
        for part in parts_of(records):
            is_claims = isinstance(part, Claims)
            try:
                rows = family(records, part).rows if isinstance(part, QuestionPart) else ()
            except ConfigError as error:
                problems.append(f"{part.name}: {error}")
                verdicts += ["undecided"] * is_claims
                continue
            problems += [f"{part.name}: {part.reason}"] if isinstance(part, Undrawable) else []
            questions += [_question_entry(records, part.name, row) for row in rows]
            for row in rows if is_claims else ():
                word = "contradicted" if row.verdict in AGAINST else "undecided"
                verdicts.append(row.verdict if row.verdict in CODES else word)
        questions += [_question_entry(records, "", value) for value in published_values(records)]
        shown_metrics = {name for part in parts_of(records) for name in part.shown_metrics}
        estimates = Loaded(records).estimates
        rows_shown: Any = estimates[estimates["metric"].isin(shown_metrics)].to_dict("records")
        runs = distinct(records.rows)
        verdict: Any = worst(verdicts)
        command, step = _next_step(records, questions, verdict)
        return StudyEntry(
            study=plan.study,
            preset=plan.folder,
            question=plan.question,
            folder=shortest(results.study(name, preset)),
            runs=Counter(run.status for run in runs),
            alpha=plan.alpha,
            max_seeds=plan.max_seeds or None,
            verdict=verdict,
            findings=[str(finding) for finding in findings(records)],
            warnings=[*warnings(records)],
            questions=questions,
            estimates=[EstimateEntry(**row) for row in rows_shown],
            problems=problems,
            next_command=command,
            next_step=step,
        )


def _question_entry(records: StudyRecords, part: str, row: QuestionRow | PublishedValue) -> QuestionEntry:
    answer, plan, question = row.answer, records.plan, open_question(row)
    fewest_seeds, most_seeds = answer.seeds_needed or (None, None)
    fields: dict[str, Any] = {"question": question.text}
    if isinstance(row, PublishedValue):
        values = {run.seed: run.number(row.cell.source) for run in row.cell.counted}
        fields |= {"metric": row.cell.metric, "published": row.match.value, "reasons": answer.reasons}
        fields["sides"] = [SideEntry(label=row.label, weight=1.0, values=values)]
    else:
        fields |= {"base": row.group, "contrast": row.contrast, "metric": row.metric}
        fields |= {"lost": row.loss_reasons, "reasons": question_reasons(row)}
        fields |= {"seeds_needed_words": needed_words(row)}
        fields["sides"] = [
            SideEntry(label=term.label, weight=term.weight, values=term.by_seed) for term in row.terms
        ]
    state, command = "", ""
    if question.is_decided or answer.question.kind in ("claim", "published value"):
        seeds = [len(rows) for rows in records.by_variant]
        maximum = plan.max_seeds or DEFAULT_MAXIMUM * max(seeds, default=0)
        state = ending(question, seeds, maximum)
        # a study without a maximum may state one
        is_near = 0 < (question.more_seeds or 0) <= seeds_left(question, seeds, maximum)
        state = Ending.OPEN if state is Ending.OUT_OF_REACH and is_near and not plan.max_seeds else state
        if state is Ending.OPEN and not plan.imported:
            stated = "" if plan.max_seeds else f" --max-seeds {maximum}"
            is_running = question.waits or "--until" in plan.command
            command = plan.command if is_running else f"{plan.command} --until decided{stated}"
    definition = metric(fields["metric"])
    return QuestionEntry(
        part=part,
        kind=answer.question.kind,
        unit=definition.unit,
        better=definition.better,
        verdict=answer.verdict,
        verdict_words=question.verdict,
        is_decided=question.is_decided,
        **answer_fields(answer),
        seeds_needed=most_seeds,
        seeds_needed_for_the_estimate=fewest_seeds,
        runs_left=row.left,
        run_ids=answer.runs,
        ending=state,
        next_command=command,
        **fields,
    )


def _next_step(records: StudyRecords, questions: Sequence[QuestionEntry], verdict: str) -> tuple[str, str]:
    """Return the next command, if one is known, and the advice in words."""
    plan, claims = records.plan, [question for question in questions if question.kind == "claim"]
    runs_left = sum(run.status not in FINAL_STATUSES for run in distinct(records.rows))
    if runs_left:
        return plan.command, f"{plural(runs_left, 'run')} are left. The same command resumes them."
    if not claims:
        return "", "No claim is judged. State one with the smallest difference that matters."
    open_claims = [claim for claim in claims if claim.ending == "open"]
    if open_claims and plan.imported:
        return "", "Add runs with further seeds of both sides to the table, and judge it again."
    if open_claims:
        return open_claims[0].next_command, "Add seeds until the claims are decided."
    if verdict == "undecided":
        return (
            "",
            "Undecided claims are out of reach of the maximum number of seeds: treat them as not shown.",
        )
    return "", "Every claim is decided."
