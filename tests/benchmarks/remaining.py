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

AT, MOST = 0.2, 0.25  # of the work; the median error that is allowed


def recorded(folder: Path) -> list[tuple[str, list[Job]]]:
    """Each study's finished runs in the order of its plan, with what they took."""
    found = []
    for results, name, preset in studies_at(folder):
        plan, made = read_plan(results.study(name, preset)), dict(results.finished())
        costs = [(run.variant, made[run.id].cost) for run in (plan.runs if plan else ()) if run.id in made]
        jobs = [
            Job(variant, cost["train_pflop"], cost["seconds"], cost.get("evaluation_seconds", 0.0))
            for variant, cost in costs
        ]
        found.append((f"{name} ({preset})", jobs))
    return found


def error(jobs: list[Job], places: int) -> float | None:
    """The estimate's share of error when a fifth of the work is done; None where nothing is told yet."""
    free, spans = [0.0] * places, []
    for job in jobs:
        begun = heapq.heappop(free)
        heapq.heappush(free, begun + job.training + job.evaluation)
        spans.append((begun, begun + job.training + job.evaluation, job))
    work, end = sum(b - a for a, b, _ in spans), max(b for _, b, _ in spans)
    times = (end * step / 1000 for step in range(1001))
    now = next(time for time in times if sum(min(b, time) - min(a, time) for a, b, _ in spans) >= AT * work)
    ended, todo = [job for _, b, job in spans if b <= now], []
    for begun, over, job in spans:
        if begun < now < over:
            share = min(1.0, (now - begun) / job.training)
            todo.append(
                Job(job.variant, job.pflop, share * job.training, epochs=int(100 * share), share=share)
            )
        elif begun >= now:
            todo.append(Job(job.variant, job.pflop))
    lefts = remaining_seconds(ended, todo)
    return None if lefts is None else abs(wall_time(lefts, places) - (end - now)) / (end - now)


def main(folders: list[str]) -> int:
    errors, silent = [], 0
    for name, jobs in (one for folder in folders for one in recorded(Path(folder))):
        chosen = random.Random(0)
        subsets = [
            jobs,
            *(
                [job for job in jobs if chosen.random() < share]
                for share in (0.8, 0.7, 0.6, 0.5)
                for _ in range(5)
            ),
        ]
        found = [error(some, places) for some in subsets if len(some) >= 4 for places in (1, 2, 4)]
        told = [one for one in found if one is not None]
        silent += len(found) - len(told)
        errors += told
        off = f"median error {100 * median(told):.0f} %, largest {100 * max(told):.0f} %"
        print(f"{name}: {len(jobs)} runs, {len(told)} replays, {off}")
    of = f"of {len(errors)} replays (at most {100 * MOST:.0f} %); {silent} told nothing yet"
    print(f"median error {100 * median(errors):.1f} % {of}")
    return 0 if median(errors) <= MOST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
