"""`/`: the studies of the folder, how far each is, and what runs now."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from recstudy.analysis.page import Html, code, facts, table, warning_lines
from recstudy.board.markup import Address, Page, Recipe, bar, form, href, link, page_of, run_link, state, study_link, text
from recstudy.board.plans import Planned, Study
from recstudy.board.progress import Progress, Under, progress
from recstudy.board.sources import Sources
from recstudy.papers import by_name
from recstudy.report.names import metric, number
from recstudy.terminal import duration

LOST = ("failed", "diverged")
STUDIES = ("study", "runs", "running", "failed", "paid", "left")
RUNNING = ("run", "epochs", "training loss", "score", "left")
MOST = 20  # running runs on the first page
PROPOSED = 300  # runs that a form to compare them proposes


def overview(sources: Sources, address: Address) -> Page:
    """The first page."""
    watch, store, now = sources.watch, sources.store, sources.under_way()
    of = {run.run_id: ", ".join(f"{name} ({preset})" for name, preset in sources.studies_of(run.run_id)) for run in now[:MOST]}
    found = {study: progress(watch, planned) for study, planned in watch.studies.items() if not planned.error}
    return Page(
        "recstudy board",
        [
            Recipe("head", "", (watch.version, sources.live(), store and store.problem), lambda: _head(sources, found)),
            Recipe("studies", "Studies", (watch.version, sources.live(), address), lambda: _studies(sources, found, address)),
            Recipe("findings", "What they found", (watch.version, address), lambda: _findings(sources, found, address)),
            Recipe("running", "Running now", sources.live(), lambda: running_table(now[:MOST], len(now), of)),
            Recipe("compare", "Compare", tuple(watch.studies), lambda: compare_form(sources)),
            Recipe("elsewhere", "Elsewhere", sources.links, lambda: _elsewhere(sources)),
        ],
    )


def running_table(running: list[Under], whole: int, of: Mapping[str, str]) -> str:
    """The runs under way with their last epoch.

    Args:
        running: those that are shown.
        whole: how many there are.
        of: run id -> its studies, where the page is not one study's.
    """
    if not running:
        return '<p class="note">Nothing is running.</p>'
    more = f'<p class="note">The first {len(running)} of {whole:,}.</p>' if whole > len(running) else ""
    scores = {run.score[0] for run in running if run.score}
    heads = [metric(min(scores)).heading if head == "score" and len(scores) == 1 else head for head in RUNNING]
    return table("Running now", heads, [_running(run, of.get(run.run_id, "")) for run in running], kind="stack") + more


def compare_form(sources: Sources, a: str = "", b: str = "") -> str:
    """Asks for two runs or two studies; proposes the studies, and of a run's study the runs."""
    watch = sources.watch
    known = [(f"{name}/{preset}", by_name(planned.plan.question)) for (name, preset), planned in watch.studies.items()]
    for study in sources.studies_of(a)[:1]:
        planned = watch.studies[study]
        named = islice(planned.named.items(), PROPOSED)
        known = [(run_id, f"{planned.plan.variants[at].label}, seed {seed}") for run_id, (at, seed) in named]
    asked = form("/compare", "Compare", {"a": ("this run or study", a), "b": ("with this", b)}, known=known)
    return asked + '<p class="note">Give two run ids, or two studies as NAME/PRESET. Each field proposes what there is.</p>'


def _head(sources: Sources, found: dict[Study, Progress]) -> str:
    watch, store = sources.watch, sources.store
    named = {run_id for planned in watch.studies.values() for run_id in planned.named}
    counts = Counter(watch.outcome(run_id).status for run_id in named)
    planned, loose = len(named) - counts["stopped"], len(watch.runs.keys() - named)
    paid = sum(seen.outcome.paid for seen in watch.runs.values()) + sum(run.spent for run in sources.under_way())
    pairs = [
        ("Studies", f"{len(watch.studies):,}"),
        (
            "Runs",
            f"{counts['done']:,} of {planned:,} done" + (f", {loose:,} of no study" if loose else ""),
        ),
        ("Running", f"{len(watch.running):,}"),
        ("Failed", f"{counts['failed']:,}" + (f", {counts['diverged']:,} diverged" if counts["diverged"] else "")),
        ("Compute used", duration(paid)),
    ]
    problems = [f"{name} ({preset}): {one.error}" for (name, preset), one in watch.studies.items() if one.error]
    problems += [store.problem] if store and store.problem else []
    where = f'<p class="note">In <code>{text(store.results.store if store else watch.root)}</code></p>'
    return f"<h1>Studies and runs</h1>{where}{warning_lines(problems)}{facts(pairs)}"


def _studies(sources: Sources, found: dict[Study, Progress], address: Address) -> str:
    if not found:
        return f"<p>No study here yet. One is there as soon as it starts:</p>{code('python studies/vitrm_depth_sweep.py')}"
    shown, pages = page_of(address, "studies", len(found))
    rows = [_study(study, sources.watch.studies[study], one) for study, one in list(found.items())[shown]]
    return table("Studies", STUDIES, rows, {5: "prose"}, "stack") + pages


def _findings(sources: Sources, found: dict[Study, Progress], address: Address) -> str:
    """The first sentence of each study on this page of the table above: a part of its own, because it takes the longest."""
    shown, _ = page_of(address, "studies", len(found))
    rows = [[study_link(*study), text(sources.finding(study))] for study in list(found)[shown]]
    return table("What they found", ("study", "finding"), rows, {1: "prose"}, "stack") if rows else "<p>Nothing yet.</p>"


def _study(study: Study, planned: Planned, one: Progress) -> list[Html]:
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


def _running(run: Under, of: str) -> list[Html]:
    loss = run.last.get("train_loss")
    studies = f"<br><small>{text(of)}</small>" if of else ""
    return [
        Html(run_link(run.run_id, f"{run.label}, seed {run.seed}") + studies),
        bar(run.done, run.epochs, f"{run.done} of {run.epochs}, {run.phase}"),
        text(f"{loss:.3f}" if loss is not None else ""),
        text(number(*run.score) if run.score else ""),
        text(duration(run.left) if run.left else ""),
    ]


def _elsewhere(sources: Sources) -> str:
    about = {
        "Ray dashboard": "jobs, workers, nodes; there while a study runs",
        "TensorBoard": "curves of runs with --log tensorboard: tensorboard --logdir RESULTS/logs/tensorboard",
        "Optuna dashboard": "a search's trials: optuna-dashboard FILE, of a search run with --optuna-storage FILE",
    }
    items = "".join(f"<li>{link(url, name)} <small>{text(about.get(name, ''))}</small></li>" for name, url in sources.links)
    other = code('recstudy board --link "Ray dashboard=http://head:8265"')
    return f'<ul>{items}</ul><p class="note">Each answers only while it runs. Where one is elsewhere, say so:</p>{other}'
