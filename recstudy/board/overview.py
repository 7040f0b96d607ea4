"""`/`: the studies of the folder, how far each is, and what runs now."""

from collections import Counter
from collections.abc import Mapping

from recstudy.board.markup import Address, Page, PagePart, bar, href, link, page_of, run_link, state, study_link, text
from recstudy.board.poller import PlannedStudy, StudyKey
from recstudy.board.progress import RunUnderWay, StudyProgress, progress
from recstudy.board.sources import Sources
from recstudy.papers import by_name
from recstudy.report.markup import Html, markup, table
from recstudy.report.names import metric
from recstudy.terminal import duration

LOST = ("failed", "diverged")
STUDIES = ("study", "runs", "running", "failed", "paid", "left")
RUNNING = ("run", "progress", "loss", "score", "left")
MOST = 20  # running runs on the first page
ELSEWHERE = {
    "Ray dashboard": "jobs, workers, nodes; there while a study runs",
    "TensorBoard": "curves of runs with --log tensorboard: tensorboard --logdir RESULTS/logs/tensorboard",
    "Optuna dashboard": "a search's trials: optuna-dashboard FILE, of a search run with --optuna-storage FILE",
}


def overview(sources: Sources, address: Address) -> Page:
    """Return the first page."""
    poller, running = sources.poller, sources.under_way()
    studies_of = {
        run.run_id: ", ".join(f"{name} ({preset})" for name, preset in poller.studies_of(run.run_id)) for run in running[:MOST]
    }
    progresses = {study: progress(poller, planned) for study, planned in poller.studies.items() if not planned.error}
    shown, pages = page_of(address, "studies", len(progresses))
    rows = [_study(study, poller.studies[study], state) for study, state in list(progresses.items())[shown]]
    begin = f"<p>No study here yet. One is there as soon as it starts:</p>{markup('code', 'python studies/vitrm_depth_sweep.py')}"
    findings = [[study_link(*study), text(sources.finding(study))] for study in list(progresses)[shown]]
    found = table("What they found", ("study", "finding"), findings, {1: "prose"}, "stack")
    return Page(
        "recstudy board",
        [
            PagePart("head", "", _head(sources)),
            PagePart("studies", "Studies", table("Studies", STUDIES, rows, {5: "prose"}, "stack") + pages if rows else begin),
            PagePart("findings", "What they found", found if findings else "<p>Nothing yet.</p>"),
            PagePart("running", "Running now", running_table(running[:MOST], len(running), studies_of)),
            PagePart("elsewhere", "Elsewhere", _elsewhere(sources)),
        ],
    )


def running_table(running: list[RunUnderWay], whole: int, of: Mapping[str, str]) -> str:
    """Show the runs under way with their last epoch.

    Args:
        running: those that are shown.
        whole: how many there are.
        of: run id -> its studies, where the page is not one study's.
    """
    if not running:
        return '<p class="note">Nothing is running.</p>'
    rows = []
    for run in running:
        loss, studies = run.last.get("train_loss", run.last.get("loss")), of.get(run.run_id, "")
        below = f"<br><small>{text(studies)}</small>" if studies else ""
        rows.append([
            Html(run_link(run.run_id, f"{run.label}, seed {run.seed}") + below),
            bar(run.done, run.epochs, run.progress),
            text(f"{loss:.3f}" if loss is not None else ""),
            text(run.score_text),
            text(duration(run.left) if run.left else ""),
        ])  # fmt: skip
    more = f'<p class="note">The first {len(running)} of {whole:,}.</p>' if whole > len(running) else ""
    scores = {run.score[0] for run in running if run.score}
    heads = [metric(min(scores)).heading if head == "score" and len(scores) == 1 else head for head in RUNNING]
    return table("Running now", heads, rows, kind="stack") + more


def _head(sources: Sources) -> str:
    poller = sources.poller
    named = {run_id for planned in poller.studies.values() for run_id in planned.named}
    counts = Counter(poller.outcome(run_id).status for run_id in named)
    planned, loose = len(named) - counts["stopped"], len(poller.runs.keys() - named)
    paid = sum(run.outcome.paid for run in poller.runs.values()) + sum(run.spent for run in sources.under_way())
    pairs = [
        ("Studies", f"{len(poller.studies):,}"),
        ("Runs", f"{counts['done']:,} of {planned:,} done" + (f", {loose:,} of no study" if loose else "")),
        ("Running", f"{len(poller.running):,}"),
        ("Failed", f"{counts['failed']:,}" + (f", {counts['diverged']:,} diverged" if counts["diverged"] else "")),
        ("Compute used", duration(paid)),
    ]
    problems = [f"{name} ({preset}): {one.error}" for (name, preset), one in poller.studies.items() if one.error]
    problems += sources.problems
    where = f'<p class="note">In <code>{text(sources.store or poller.root)}</code></p>'
    return f"<h1>Studies and runs</h1>{where}{markup('warnings', problems)}{markup('facts', pairs)}"


def _study(study: StudyKey, planned: PlannedStudy, one: StudyProgress) -> list[Html]:
    done = one.counts["done"]
    lost = {word: f"{one.counts[word]:,}{' diverged' * (word == 'diverged')}" for word in LOST if one.counts[word]}
    links = [link(href("runs", *study, status=word), words) for word, words in lost.items()]
    smoke = Html(" " + state("smoke")) if planned.plan.smoke else Html("")
    question = Html(f"<br><small>{text(by_name(planned.plan.question))}</small>")
    return [
        Html(study_link(*study) + smoke + question),
        bar(done, one.planned, f"{done:,} of {one.planned:,}"),
        text(f"{len(one.running):,}"),
        Html(", ".join(links)) if links else text(0),
        text(duration(one.paid + one.spent)),
        text(one.words or ("all done" if done == one.planned else "nothing left to run")),
    ]


def _elsewhere(sources: Sources) -> str:
    items = "".join(f"<li>{link(url, name)} <small>{text(ELSEWHERE.get(name, ''))}</small></li>" for name, url in sources.links)
    other = markup("code", 'recstudy board --link "Ray dashboard=http://head:8265"')
    return f'<ul>{items}</ul><p class="note">Each answers only while it runs. Where one is elsewhere, say so:</p>{other}'
