"""`/`: the studies of the folder, how far each is, and what runs now."""

from recstudy.analysis.names import number, plural
from recstudy.analysis.page import code, facts, warning_lines
from recstudy.board.markup import Address, Html, Page, Recipe, bar, form, link, page_of, run_link, state, study_link, table, text
from recstudy.board.plans import Planned, Study
from recstudy.board.progress import Progress, Under, progress
from recstudy.board.sources import Sources
from recstudy.terminal import duration

STUDIES = ("study", "runs", "running", "failed", "paid", "left")
RUNNING = ("run", "epoch", "training loss", "score")
MOST = 20  # running runs on the first page


def overview(sources: Sources, address: Address) -> Page:
    """The first page."""
    watch, now = sources.watch, sources.under_way()
    found = {study: progress(watch, planned) for study, planned in watch.studies.items() if not planned.error}
    return Page(
        "recstudy board",
        [
            Recipe("head", "", (watch.version, len(now), watch.complete), lambda: _head(sources, found)),
            Recipe("studies", "Studies", (watch.version, sources.live(), address), lambda: _studies(sources, found, address)),
            Recipe("running", "Running now", sources.live(), lambda: running_table(now[:MOST], len(now))),
            Recipe("compare", "Compare", tuple(watch.studies), lambda: compare_form(sources)),
            Recipe("elsewhere", "Elsewhere", sources.links, lambda: _elsewhere(sources)),
        ],
    )


def running_table(running: list[Under], whole: int) -> str:
    """The runs under way with their last epoch."""
    if not running:
        return '<p class="note">Nothing is running.</p>'
    more = f'<p class="note">The first {len(running)} of {whole:,}.</p>' if whole > len(running) else ""
    return table("Running now", RUNNING, [_running(run) for run in running]) + more


def compare_form(sources: Sources, a: str = "", b: str = "") -> str:
    """Asks for two runs or two studies."""
    known = [f"{name}/{preset}" for name, preset in sources.watch.studies]
    asked = form("/compare", "Compare", {"a": ("this run or study", a), "b": ("with this", b)}, known=known)
    return asked + '<p class="note">Give two run ids, or two studies as NAME/PRESET.</p>'


def _head(sources: Sources, found: dict[Study, Progress]) -> str:
    watch = sources.watch
    counts = {word: sum(one.counts[word] for one in found.values()) for word in ("done", "failed", "diverged")}
    loose = len(watch.runs.keys() - {run_id for planned in watch.studies.values() for run_id in planned.named})
    paid = sum(seen.columns["seconds"] for seen in watch.runs.values() if isinstance(seen.columns.get("seconds"), int | float))
    pairs = [
        ("Studies", f"{len(watch.studies):,}"),
        ("Runs", f"{len(watch.runs):,}" + (f", {loose:,} of no study" if loose else "")),
        ("Running", f"{len(watch.running):,}"),
        ("Failed", f"{counts['failed']:,}" + (f", {counts['diverged']:,} diverged" if counts["diverged"] else "")),
        ("Paid so far", duration(paid)),
    ]
    problems = [f"{name} ({preset}): {one.error}" for (name, preset), one in watch.studies.items() if one.error]
    where = f'<p class="note">In <code>{text(watch.root)}</code></p>'
    return f"<h1>Studies and runs</h1>{where}{warning_lines(problems)}{facts(pairs)}"


def _studies(sources: Sources, found: dict[Study, Progress], address: Address) -> str:
    if not found:
        return f"<p>No study here yet. One is there as soon as it starts:</p>{code('python studies/vitrm_depth_sweep.py')}"
    shown, pages = page_of(address, "studies", len(found))
    rows = [_study(study, sources.watch.studies[study], one) for study, one in list(found.items())[shown]]
    return table("Studies", STUDIES, rows, words=(5,)) + pages


def _study(study: Study, planned: Planned, one: Progress) -> list[Html]:
    done, lost = one.counts["done"] + one.counts["diverged"], one.counts["failed"]
    smoke = Html(" " + state("smoke")) if planned.plan.get("smoke") else Html("")
    question = Html(f"<br><small>{text(planned.plan.get('question', ''))}</small>")
    return [
        Html(study_link(*study) + smoke + question),
        bar(done, one.planned, f"{done:,} of {one.planned:,}"),
        text(f"{len(one.running):,}"),
        link(Address(("study", *study)).but("runs", state="failed"), f"{lost:,}") if lost else text(0),
        text(duration(one.paid + one.spent)),
        text(one.words or "all done"),
    ]


def _running(run: Under) -> list[Html]:
    loss = run.last.get("train_loss")
    return [
        run_link(run.run_id, f"{run.label}, seed {run.seed}"),
        bar(run.done, run.epochs, f"{run.done} of {run.epochs}"),
        text(f"{loss:.3f}" if isinstance(loss, int | float) else ""),
        text(number(*run.score) if run.score else ""),
    ]


def _elsewhere(sources: Sources) -> str:
    about = {
        "Ray dashboard": "jobs, workers, nodes; there while a study runs",
        "TensorBoard": "curves of runs with --log tensorboard: tensorboard --logdir RESULTS/logs/tensorboard",
        "Optuna dashboard": "a search's trials: optuna-dashboard FILE, of a search run with --optuna-storage FILE",
    }
    items = "".join(f"<li>{link(url, name)} <small>{text(about.get(name, ''))}</small></li>" for name, url in sources.links)
    said = plural(len(sources.links), "program")
    return f'<ul>{items}</ul><p class="note">{said} of their own: each answers only while it runs.</p>'
