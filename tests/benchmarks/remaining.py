"""How far the time left is off, after a fifth of a study's work: recorded runs, replayed one after another or
side by side.

    python tests/benchmarks/remaining.py RESULTS...      a results folder, such as that of `recstudy publish` unpacked

Each study's finished runs begin in its plan's order on 1, 2 and 4 places, and again with every fifth to every
second left out, so that one study gives several. When a fifth of their seconds are done, the estimate is held
against what the records say. Runs that are then under way have the share of their epochs done that they have
of their seconds.
"""

import heapq
import random
import sys
from pathlib import Path
from statistics import median

from recstudy.records.plans import read_plan
from recstudy.report.remaining import Job, remaining_seconds, wall_time
from recstudy.report.status import studies_at

WORK_SHARE, LARGEST_ERROR = 0.2, 0.25  # of the work; the median error that is allowed


def recorded(folder: Path) -> list[tuple[str, list[Job]]]:
    """Each study's finished runs in the order of its plan, with what they took."""
    recorded_studies = []
    for results, name, preset in studies_at(folder):
        plan, finished_runs = read_plan(results.study(name, preset)), dict(results.finished())
        costs = [
            (run.variant, finished_runs[run.id].cost)
            for run in (plan.runs if plan else ())
            if run.id in finished_runs
        ]
        jobs = [
            Job(variant, cost["train_pflop"], cost["seconds"], cost.get("evaluation_seconds", 0.0))
            for variant, cost in costs
        ]
        recorded_studies.append((f"{name} ({preset})", jobs))
    return recorded_studies


def error(jobs: list[Job], places: int) -> float | None:
    """The estimate's share of error when a fifth of the work is done; None where nothing is told yet."""
    free_times, spans = [0.0] * places, []
    for job in jobs:
        start = heapq.heappop(free_times)
        heapq.heappush(free_times, start + job.training + job.evaluation)
        spans.append((start, start + job.training + job.evaluation, job))
    work, end = sum(b - a for a, b, _ in spans), max(b for _, b, _ in spans)
    times = (end * step / 1000 for step in range(1001))
    elapsed = next(
        time for time in times if sum(min(b, time) - min(a, time) for a, b, _ in spans) >= WORK_SHARE * work
    )
    ended_jobs, todo = [job for _, b, job in spans if b <= elapsed], []
    for start, end_time, job in spans:
        if start < elapsed < end_time:
            share = min(1.0, (elapsed - start) / job.training)
            todo.append(
                Job(job.variant, job.pflop, share * job.training, epochs=int(100 * share), share=share)
            )
        elif start >= elapsed:
            todo.append(Job(job.variant, job.pflop))
    lefts = remaining_seconds(ended_jobs, todo)
    return None if lefts is None else abs(wall_time(lefts, places) - (end - elapsed)) / (end - elapsed)


def main(folders: list[str]) -> int:
    errors, silent = [], 0
    for name, jobs in (study for folder in folders for study in recorded(Path(folder))):
        chosen = random.Random(0)
        subsets = [
            jobs,
            *(
                [job for job in jobs if chosen.random() < share]
                for share in (0.8, 0.7, 0.6, 0.5)
                for _ in range(5)
            ),
        ]
        results = [error(some, places) for some in subsets if len(some) >= 4 for places in (1, 2, 4)]
        errors_of_study = [error_share for error_share in results if error_share is not None]
        silent += len(results) - len(errors_of_study)
        errors += errors_of_study
        error_text = (
            f"median error {100 * median(errors_of_study):.0f} %, largest {100 * max(errors_of_study):.0f} %"
        )
        print(f"{name}: {len(jobs)} runs, {len(errors_of_study)} replays, {error_text}")
    of = f"of {len(errors)} replays (at most {100 * LARGEST_ERROR:.0f} %); {silent} told nothing yet"
    print(f"median error {100 * median(errors):.1f} % {of}")
    return 0 if median(errors) <= LARGEST_ERROR else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
