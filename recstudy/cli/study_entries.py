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
from recstudy.report.documents import QuestionEntry, SideEntry, StudiesDocument, StudyEntry
from recstudy.report.family import PublishedValue, family, published_values
from recstudy.report.findings import AGAINST, findings
from recstudy.report.loaded import Loaded
from recstudy.report.names import metric, plural
from recstudy.report.open_questions import open_question
from recstudy.report.parts import Undrawable, parts_of, shown_metrics
from recstudy.report.question_rows import QuestionRow
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.report.tables.question_table import answer_fields, needed_words, question_reasons
from recstudy.study.until import DEFAULT_MAXIMUM, Ending, ending, seeds_left

# the exit code of each verdict, the first of which decides if claims differ
CODES = {"contradicted": 11, "undecided": 10, "supported": 0}
NO_CLAIM = "no claim"
CommandName = Literal["judge", "report", "run"]


def require_claims(has_claims: bool, states_claims: bool = False) -> None:
    """Refuse --exit-by-verdict without a claim, whose verdict would be no answer.

    Args:
        has_claims: Whether there is a claim.
        states_claims: Whether the study file states claims, which this command leaves out.
    """
    if has_claims:
        return
    if states_claims:
        raise ConfigError(
            "--exit-by-verdict needs a claim, but --smoke, --vary or this preset leaves out the study's"
            " claims. Remove one of the options"
        )
    raise ConfigError(
        "--exit-by-verdict needs a claim, but none is stated. State one, such as"
        " Study(claims=[Claim(...)]) or judge --claims FILE"
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
    plan, questions, problems, verdicts = records.plan, list[QuestionEntry](), list[str](), list[str]()
    with records.study_modules():
        for part in parts_of(records):
            if isinstance(part, Undrawable):
                problems.append(f"{part.name}: {part.reason}")
            if isinstance(part, QuestionPart):
                try:
                    rows = family(records, part).rows
                    questions += [_question_entry(records, part.name, row) for row in rows]
                except ConfigError as error:
                    problems.append(f"{part.name}: {error}")
                    verdicts += ["undecided"] * isinstance(part, Claims)
        questions += [_question_entry(records, "", value) for value in published_values(records)]
        for claim in questions:
            if claim.kind == "claim":
                word = "contradicted" if claim.verdict in AGAINST else "undecided"
                verdicts.append(claim.verdict if claim.verdict in CODES else word)
        estimates = Loaded(records).estimates
        rows_shown: Any = estimates[estimates["metric"].isin(shown_metrics(records))].to_dict("records")
        verdict: Any = worst(verdicts)
        command, step = _next_step(records, questions, verdict)
        return StudyEntry(
            study=plan.study,
            preset=plan.folder,
            question=plan.question,
            folder=shortest(results.study(name, preset)),
            runs=Counter(run.status for run in distinct(records.rows)),
            alpha=plan.alpha,
            max_seeds=plan.max_seeds or None,
            verdict=verdict,
            findings=[str(finding) for finding in findings(records)],
            warnings=[*warnings(records)],
            questions=questions,
            estimates=rows_shown,
            problems=problems,
            next_command=command,
            next_step=step,
        )


def _question_entry(records: StudyRecords, part: str, row: QuestionRow | PublishedValue) -> QuestionEntry:
    answer, plan, question = row.answer, records.plan, open_question(row)
    fields = answer_fields(answer)
    if isinstance(row, PublishedValue):
        values = {run.seed: run.number(row.cell.source) for run in row.cell.counted}
        sides = [(row.label, 1.0, values)]
        fields |= {"metric": row.cell.metric, "published": row.match.value}
    else:
        sides = [(term.label, term.weight, term.by_seed) for term in row.terms]
        fields |= {
            "metric": row.metric,
            "base": row.group,
            "contrast": row.contrast,
            "lost": row.loss_reasons,
            "reasons": question_reasons(row),
            "seeds_needed_words": needed_words(row),
        }
    state, command = "", ""
    if question.is_decided or answer.question.kind in ("claim", "published value"):
        seeds = [len(rows) for rows in records.by_variant]
        maximum = plan.max_seeds or DEFAULT_MAXIMUM * max(seeds, default=0)
        state = ending(question, seeds, maximum)
        # a study without a maximum may state one
        is_near = 0 < (question.more_seeds or 0) <= seeds_left(question, seeds, maximum)
        state = Ending.OPEN if state is Ending.OUT_OF_REACH and is_near and not plan.max_seeds else state
        if state is Ending.OPEN and plan.command and not plan.imported:
            maximum_option = "" if plan.max_seeds else f" --max-seeds {maximum}"
            is_running = question.waits or "--until" in plan.command
            command = plan.command if is_running else f"{plan.command} --until decided{maximum_option}"
    definition = metric(fields["metric"])
    return QuestionEntry(
        part=part,
        question=question.text,
        kind=answer.question.kind,
        unit=definition.unit,
        better=definition.better,
        verdict_words=question.verdict,
        is_decided=question.is_decided,
        sides=[SideEntry(label=label, weight=weight, values=values) for label, weight, values in sides],
        runs_left=row.runs_left,
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
        resumption = "The same command" if plan.command else "recstudy.run"
        return plan.command, f"{plural(runs_left, 'run')} are left. {resumption} resumes them."
    if not claims:
        return "", "No claim is judged. State one with the smallest difference that matters."
    for claim in claims:
        if claim.ending == "open" and plan.imported:
            return "", "Add runs with further seeds of both sides to the table, and judge it again."
        if claim.ending == "open":
            return claim.next_command, "Add seeds until the claims are decided."
    if verdict == "undecided":
        advice = "Undecided claims are out of reach of the maximum number of seeds: treat them as not shown."
        return "", advice
    return "", "Every claim is decided."
