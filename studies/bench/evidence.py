"""Do the rules hold? Studies are drawn whose truth is known, and judged by `recstudy.analysis`.

Every study has 12 variants between 60 and 99.5 % on 10,000 test images (360 where it says so); their seeds spread by
0.25 to 0.8 points at 93 %, alike in logits. Printed are, for n seeds a variant:

    coverage     of 95 % intervals: by each variant's own values, pooled in points, pooled in logits, over seeds and
                 images (of the accuracy on all images of the kind), and of the prediction interval (of one more run)
    replication  how often a published value that is one more run of the same training differs, and how often it is
                 reproduced or consistent, with a margin of 0.5 points
    power        of `Differences` (11 rows against a base) at the difference that it calls detectable, by the true spread
                 and pooled; how often the range of what is detectable holds the true one
    best         how often a table of equal variants marks some as the best, and how often the best of unequal ones is left out

    python studies/bench/evidence.py            # about 2 minutes
    python studies/bench/evidence.py --studies 50
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recstudy.analysis.cells import Cell
from recstudy.analysis.contrasts import contrast, detectable, factors, holm
from recstudy.analysis.items import over_images
from recstudy.analysis.stats import ALPHA, Interval, Scale, interval, own, pool, prediction_interval, verdict
from recstudy.analysis.tables.ranks import ranked

Array = npt.NDArray[np.float64]
Measure = Callable[[Array, float, Any], Iterator[Sequence[float]]]
TRUTHS = np.array([60.0, 75.0, 85.0, 90.0, 92.0, 93.0, 94.0, 95.0, 97.0, 98.0, 99.0, 99.5])
POINTS, MARGIN, IMAGES = Scale(0.0, 100.0), 0.5, 10_000
LOGITS = Scale(0.0, 100.0, IMAGES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200, help="drawn for each row (default: 200)")
    studies = parser.parse_args().studies
    table("coverage", ("own", "pooled", "in logits", "one more run"), coverage, studies)
    table("images", ("seeds alone", "seeds and images", "bootstrap"), images, studies)
    table("replication", ("differs", "by the interval", "reproduced", "either"), replication, studies)
    table("power", ("at detectable", "at that of 0.05", "range holds it"), power, 2 * studies)
    table("best", ("some of equals", "the best left out"), best, 2 * studies)


def table(
    name: str, heads: Sequence[str], measure: Callable[[Array, float, Any], Iterator[Sequence[float]]], studies: int
) -> None:
    """A row a spread and number of seeds: the mean of what `measure` yields."""
    print(f"\n| {name}: SD, n | " + " | ".join(heads) + " |\n| --- |" + " ---: |" * len(heads))
    for sd in (0.25, 0.5, 0.8):
        for n in (2, 3, 5, 10):
            rng = np.random.default_rng([int(100 * sd), n])
            found = [row for _ in range(studies) for row in measure(drawn(rng, sd, n + 1), sd, rng)]
            print(
                f"| {sd}, {n} | " + " | ".join(f"{value:.3f}" for value in np.nanmean(np.array(found), axis=0)) + " |", flush=True
            )


def drawn(rng: np.random.Generator, sd: float, n: int, truths: Array = TRUTHS) -> Array:
    """(variants, n) scores that spread alike in logits, by `sd` points at 93 %."""
    spread = sd / LOGITS.slope(93.0)
    places = np.array([LOGITS.there(float(truth)) for truth in truths])[:, None] + rng.normal(0, spread, (len(truths), n))
    return 100 / (1 + np.exp(-places))


def coverage(scores: Array, sd: float, rng: Any) -> Iterator[Sequence[float]]:
    """The last run of each variant is the one more that is predicted."""
    values = dict(enumerate(scores[:, :-1].tolist()))
    points, logits = pool(values, POINTS), pool(values, LOGITS)
    for at, own_values in values.items():
        means = [interval(own_values, spread) for spread in (own(own_values, POINTS), points[at], logits[at])]
        yield *(holds(one, TRUTHS[at]) for one in means), holds(prediction_interval(own_values, logits[at]), scores[at, -1])


def images(scores: Array, sd: float, rng: np.random.Generator, count: int = 360) -> Iterator[Sequence[float]]:
    """One variant at 93 % on 360 images, some of which are easy; the spread is pooled over twelve."""
    scale, n = Scale(0.0, 100.0, count), scores.shape[1] - 1
    study = 100.0 * np.stack([answers(rng, sd, n, count) for _ in range(12)])
    means = {at: own_scores.mean(1).tolist() for at, own_scores in enumerate(study)}
    spread = pool(means, scale).get(0)
    both = over_images(means[0], study[0], spread)
    yield (
        holds(interval(means[0], spread), 93.0),
        holds(both, 93.0) if both else np.nan,
        holds(bootstrap(study[0], rng), 93.0),
    )


def answers(rng: np.random.Generator, sd: float, n: int, count: int) -> npt.NDArray[np.bool_]:
    """(n, count) right or wrong: how easy an image is spreads three times as much as what a run makes of it."""
    seed = sd / 100 / 0.1345 * 10**0.5  # the density of the normal at its 93 % quantile
    return (
        rng.normal(0, seed, (n, 1)) + rng.normal(0, 3, (1, count)) + rng.normal(0, 1, (n, count)) < 1.4758 * (10 + seed**2) ** 0.5
    )


def bootstrap(scores: Array, rng: np.random.Generator, draws: int = 400) -> Interval:
    """Seeds and images drawn with replacement: what the analytic interval stands in for."""
    n, count = scores.shape
    means = [scores[rng.integers(n, size=n)].mean(0)[rng.integers(count, size=count)].mean() for _ in range(draws)]
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(scores.mean()), float(low), float(high), n)


def replication(scores: Array, sd: float, rng: Any) -> Iterator[Sequence[float]]:
    """The last run of each variant is what is published."""
    values = dict(enumerate(scores[:, :-1].tolist()))
    spreads = pool(values, LOGITS)
    for at, own_values in values.items():
        found = verdict(own_values, float(scores[at, -1]), MARGIN, spreads[at])
        old = not holds(interval(own_values, own(own_values, POINTS)), scores[at, -1])
        yield found == "differs", old, found == "reproduced", found in ("reproduced", "consistent")


def power(_: Array, sd: float, rng: np.random.Generator) -> Iterator[Sequence[float]]:
    """Twelve variants at 93 %, of which one is better by what is detectable at Holm's first step, or at 0.05."""
    n, rows = _.shape[1] - 1, 11
    df, error = 12 * (n - 1), sd * (2 / n) ** 0.5
    least = [detectable(error, df, alpha) for alpha in (ALPHA / rows, ALPHA)]
    shown = []
    for gain in least:
        values = 93.0 + rng.normal(0, sd, (12, n))
        values[1] += gain
        spreads = pool(dict(enumerate(values.tolist())), POINTS)
        found = [contrast([values[at], values[0]], (1, -1), (spreads[at], spreads[0])) for at in range(1, 12)]
        shown.append((holm([one.p for one in found])[0] or 0.0) < ALPHA)
    last = found[-1]
    assert last.error is not None and last.df is not None  # noqa: PT018
    ends = [detectable(last.error, last.df, ALPHA / rows) * factor for factor in factors(last.df)]
    yield *shown, ends[0] <= least[0] <= ends[1]


def best(_: Array, sd: float, rng: np.random.Generator) -> Iterator[Sequence[float]]:
    n = _.shape[1] - 1
    equal, unequal = 93.0 + rng.normal(0, sd, (12, n)), np.linspace(92.0, 93.0, 12)[:, None] + rng.normal(0, sd, (12, n))
    marks = [[cell.best for cell in ranked(cells(one))] for one in (equal, unequal)]
    yield any(marks[0]), any(marks[1]) and not marks[1][-1]


def cells(scores: Array) -> list[Cell]:
    spreads = pool(dict(enumerate(scores.tolist())), POINTS)
    return [
        Cell("top1_accuracy", float(own_scores.mean()), None, None, len(own_scores), len(own_scores), tuple(own_scores), spread)
        for own_scores, spread in zip(scores, spreads.values(), strict=True)
    ]


def holds(found: Interval, value: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= value <= found.high


if __name__ == "__main__":
    main()
