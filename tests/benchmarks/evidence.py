"""Do the rules of evidence hold? Simulated studies with a known truth are judged by `recstudy.evidence`.

Runs answer fixed items, each with its own difficulty, as runs of one study do. The answers of each run give
the floor.

coverage     of 95 % intervals: least and mean over the variants that vary, and the median width in points; then the coverage of
             the difference between the first and the last variant
looks        share of studies in which a claim is decided at some look, and the mean number of seeds at the decision
wrong        share of studies with a wrong verdict at any look: six claims on their margin, where standard deviations are equal or
             not; and six exact replications
published    share of studies whose published value differs: exact replications of normal and heavy-tailed seeds, and values far away
failing      seeds that fail: false splits, coverage of intervals that are printed, and wrong verdicts beside a bound
each         wrong verdicts of claims about each of several variants, of which one is on the margin
blocks       methods that are equal on average over many data sets, decided as different
splits       equal methods whose seeds draw the test set, decided as different
needed       share of studies that the printed upper number of seeds decides, of those that were undecided at three seeds

python tests/benchmarks/evidence.py            # minutes on two cores; docs/statistics.md has its tables
python tests/benchmarks/evidence.py --studies 4000
python tests/benchmarks/evidence.py --only blocks
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt

from recstudy.evidence import (
    LINEAR,
    Answer,
    Fit,
    Kind,
    Looks,
    Question,
    Scale,
    Verdict,
    answer,
    contrast,
    independent_share,
    judge,
)
from recstudy.report.blocks import differ, other_blocks
from recstudy.report.contrast_questions import weakest
from recstudy.report.question_rows import QuestionRow

Array = npt.NDArray[np.float64]
ITEMS = 2000
SHARE = Scale(0.0, 100.0, "share", ITEMS)
# means, standard deviations, seeds
EQUAL, UNEQUAL, BASE, WIDE = (1,) * 7, (0.5, 1, 2, 0.5, 1, 2, 1), (1,) * 6 + (4,), (8, *(1,) * 6)
SPREADS = {"equal": EQUAL, "0.5, 1, 2": UNEQUAL, "base 4 times wider": BASE, "one of 7, 8 times wider": WIDE}
DISTRIBUTIONS: dict[str, Callable[..., Array]] = {
    "normal": lambda rng, *shape: rng.standard_normal(shape),
    "t3": lambda rng, *shape: rng.standard_t(3, shape) / 3**0.5,
    "t5": lambda rng, *shape: rng.standard_t(5, shape) / (5 / 3) ** 0.5,
    "lognormal 0.5": lambda rng, *shape: _standardized(rng, 0.5, shape),
    "lognormal 1": lambda rng, *shape: _standardized(rng, 1.0, shape),
}
WORLDS: dict[str, tuple[Sequence[float], Sequence[float], Sequence[int]]] = {
    "SD 0.8, 4 variants, 90-93 %": ([90, 91, 92, 93], [0.8] * 4, (2, 3)),
    "SDs 0.5, 1, 2": ([90, 91, 92], [0.5, 1, 2], (3,)),
    "one of 8 variants 8 times wider": ([90] * 8, [0.5] * 7 + [4], (2, 3, 5)),
    "84 % SD 2, beside three at 100 %": ([84, 100, 100, 100], [2, 0, 0, 0], (3,)),
    "84 % SD 2, beside two at 99.97 %": ([84, 99.97, 99.97], [2, 0.03, 0.03], (3,)),
    "SD 0.25 near 99.5 %": ([99.5] * 4, [0.25] * 4, (2, 3)),
    "84 and 90 %, beside two at 100 %": ([84, 90, 100, 100], [2, 2, 0, 0], (5,)),
    "no training noise: items alone, 90 %": ([90] * 3, [0] * 3, (3,)),
}
SCHEDULES = ((3, 5, 10), (3, 5, 8, 10), (3, 5, 8, 12, 16, 20))
# of an item's difficulty: at 90 % right, a third of the variance of answers is between the seeds
SHARPNESS = 4.0


def _standardized(rng: np.random.Generator, sigma: float, shape: Sequence[int]) -> Array:
    """Return lognormal values of mean 0 and standard deviation 1."""
    values = rng.lognormal(0.0, sigma, tuple(shape))
    mean = np.exp(sigma**2 / 2)
    return (values - mean) / (mean * np.sqrt(np.exp(sigma**2) - 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=500, help="simulated for each row (default: 500)")
    parser.add_argument("--only", default="", help="the first word of one table")
    options = parser.parse_args()
    worlds = [(name, n) for name, (_, _, seeds) in WORLDS.items() for n in seeds]
    effects = (0.0, 1.0, 1.5, 2.0)
    maxima = [(counts, maximum) for counts in SCHEDULES for maximum in (counts[-1], counts[-2])]
    tables = {
        "coverage, %": (
            ("n", "own t: least / mean, width", "moderated: least / mean, width", "difference"),
            coverage,
            worlds,
        ),
        "looks": (
            (*(f"{effect:g} SD: decided %, seeds" for effect in effects), "all seeds at once, %"),
            looks,
            [(effects, counts) for counts in SCHEDULES],
        ),
        "wrong verdicts over all looks": (
            (*(f"six claims, SDs {name}, %" for name in SPREADS), "any `differs` of six replications, %"),
            wrong,
            maxima,
        ),
        "published values: differs, %": (
            ("exact replications", *(f"{distance} SD away" for distance in (3, 4, 5, 6))),
            differing,
            [name for name in DISTRIBUTIONS if name != "t5"],
        ),
        "failing seeds": (
            ("false splits, %", "intervals printed, %", "of these cover, %", "wrong beside a bound, %"),
            failing,
            [(name, n) for n in (3, 5, 10) for name in ("normal", "t5", "lognormal 0.5")],
        ),
        "each of three variants": (
            ("supported, %", "contradicted, %"),
            each,
            [(n, gap) for n in (3, 5) for gap in (0.0, 3.0)],
        ),
        "blocks: equal methods decided as different, %": (
            ("the average as shipped", "these blocks only", "other blocks"),
            blocked,
            [2, 3, 4, 6, 8],
        ),
        "splits: equal methods decided as different, %": (
            ("t test within seeds", "with test_share"),
            overlapping,
            [(3, 0.2), (5, 0.2), (10, 0.2), (30, 0.1)],
        ),
        "seeds needed after three seeds": (
            ("decided at the upper number, %", "median of the numbers", "none printed, %"),
            table_row,
            (0.5, 1.0, 1.5, 2.5),
        ),
    }
    with ProcessPoolExecutor(2) as pool:
        for name, (heads, row, worlds) in tables.items():
            if name.startswith(options.only):
                table(name, heads, pool.map(partial(row, options.studies), worlds))


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print Markdown, line by line."""
    print(f"\n| {name} | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


class Items:
    """Test items of different difficulty, and runs that answer them."""

    def __init__(self) -> None:
        self.difficulty = np.log((np.arange(ITEMS) + 0.5) / (ITEMS - np.arange(ITEMS) - 0.5)).astype(
            np.float32
        )
        self.ability = np.linspace(-12, 12, 2001)
        self.share = np.array([self.probabilities(ability).mean() for ability in self.ability])

    def probabilities(self, ability: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float32]:
        """Return the chance of a right answer to each item, with one more axis than `ability`."""
        distance = np.asarray(ability, np.float32)[..., None] - self.difficulty
        chances: npt.NDArray[np.float32] = 1 / (1 + np.exp(-SHARPNESS * distance))
        return chances

    def answers(self, rng: np.random.Generator, truth: Array) -> npt.NDArray[np.bool_]:
        """Return the answers (..., M) of runs whose expected shares, from 0 to 1, are `truth`."""
        ability = np.interp(truth, self.share, self.ability)
        answers: npt.NDArray[np.bool_] = rng.random(
            (*truth.shape, ITEMS), dtype=np.float32
        ) < self.probabilities(ability)
        return np.where((truth >= 1)[..., None], True, answers)


def fit_of(answers: npt.NDArray[np.bool_]) -> Fit:
    """Return the fit of a study's answers (variants, n, M), with their floor."""
    floor = independent_share(list(answers.astype(np.float32))) / (4 * ITEMS)
    return Fit(dict(enumerate((100 * answers.mean(-1)).tolist())), SHARE, floor=floor)


def coverage(studies: int, world: tuple[str, int]) -> Sequence[object]:
    name, n = world
    means, deviations, _ = WORLDS[name]
    rng, items = np.random.default_rng(n), Items()
    varied = [index for index, mean in enumerate(means) if mean < 100]
    covered = {"own": np.zeros(len(varied)), "moderated": np.zeros(len(varied))}
    widths: dict[str, list[float]] = {way: [] for way in covered}
    covered_differences = 0
    for _ in range(studies):
        truth = np.array(means)[:, None] + np.array(deviations)[:, None] * rng.standard_normal(
            (len(means), n)
        )
        fit = fit_of(items.answers(rng, np.clip(truth, 0, 100) / 100))
        for position, index in enumerate(varied):
            own_interval = Fit({0: fit.scores[index]}).estimate(0).interval
            for way, interval in (("own", own_interval), ("moderated", fit.estimate(index).interval)):
                low, high = interval or (-np.inf, np.inf)
                covered[way][position] += low <= means[index] <= high
                widths[way].append(high - low)
        low, high = difference_of(fit, 0, len(means) - 1).estimate.interval or (-np.inf, np.inf)
        covered_differences += low <= means[0] - means[-1] <= high
    texts = []
    for way, counts in covered.items():
        shares = 100 * counts / studies
        texts.append(f"{shares.min():.0f} / {shares.mean():.0f}, {np.median(widths[way]):.2f}")
    return (name, n, *texts, f"{100 * covered_differences / studies:.0f}")


def difference_of(fit: Fit, first: int, second: int) -> Answer:
    """Return whether two variants differ, tested alone."""
    question = Question({first: 1.0, second: -1.0}, kind=Kind.DIFFERENCE)
    return answer(question, contrast([(1.0, fit.weighted(first)), (-1.0, fit.weighted(second))]))


def decided_at(values: Array, look_counts: Sequence[int], maximum: int) -> int | None:
    """Return at which look the first two variants are decided as different, or None."""
    for position, (fit, look) in enumerate(readings(values, look_counts, maximum)):
        if judge([difference_of(fit, 0, 1)], [look])[0].verdict.is_decided:
            return position
    return None


def looks(studies: int, plan: tuple[Sequence[float], Sequence[int]]) -> Sequence[object]:
    (effects, look_counts), texts, final_rates = plan, [], []
    for effect in effects:
        rng, decided, seeds, final_count = np.random.default_rng(7), 0, 0, 0
        for values in rng.standard_normal((studies, 4, look_counts[-1])):
            values[0] += effect
            position = decided_at(values, look_counts, look_counts[-1])
            decided += position is not None
            seeds += look_counts[-1 if position is None else position]
            final = difference_of(Fit(dict(enumerate(values.tolist())), LINEAR), 0, 1)
            final_count += judge([final])[0].verdict.is_decided
        texts.append(f"{100 * decided / studies:.1f}, {seeds / studies:.1f}")
        final_rates.append(f"{100 * final_count / studies:.0f}")
    return (", ".join(map(str, look_counts)), *texts, " / ".join(final_rates))


def wrong(studies: int, schedule: tuple[Sequence[int], int]) -> Sequence[object]:
    """Judge six claims on their margin, and six published values that are one run of the same variants."""
    look_counts, maximum = schedule
    rates = []
    for deviations in SPREADS.values():
        rng, count = np.random.default_rng(11), 0
        for values in rng.standard_normal((studies, 7, look_counts[-1])):
            values = 50 + values * np.array(deviations)[:, None]
            count += any(
                answer.verdict.is_decided
                for fit, look in readings(values, look_counts, maximum)
                for answer in judge([difference_of(fit, index, 6) for index in range(6)], [look] * 6)
            )
        rates.append(f"{100 * count / studies:.1f}")
    replications = differing(studies, "normal", look_counts, maximum)[1]
    return (f"{', '.join(map(str, look_counts))} of {maximum}", *rates, replications)


def readings(values: Array, look_counts: Sequence[int], maximum: int) -> Iterable[tuple[Fit, Looks]]:
    """Yield the fit of the first seeds of each variant (variants, seeds) at each look."""
    for position, n in enumerate(look_counts):
        fit = Fit(dict(enumerate(values[:, :n].tolist())), LINEAR)
        yield fit, Looks(tuple(look_counts[:position]), maximum)


def differing(
    studies: int, distribution: str, look_counts: Sequence[int] = (3, 5, 10), maximum: int = 10
) -> Sequence[object]:
    """Judge six published values, each one run of the same variants or some standard deviations away."""
    texts = []
    for distance in (0, 3, 4, 5, 6):
        rng, count = np.random.default_rng(13), 0
        for values in 50 + DISTRIBUTIONS[distribution](rng, studies, 6, look_counts[-1] + 1):
            truth = values[:, -1] if distance == 0 else 50 + distance * rng.choice([-1, 1], 6)
            decided = np.zeros(6, dtype=bool)
            for fit, look in readings(values, look_counts, maximum):
                judged = judge(
                    [published_of(fit, index, float(truth[index])) for index in range(6)], [look] * 6
                )
                decided |= [answer.verdict is Verdict.DIFFERS for answer in judged]
            count += decided.any() if distance == 0 else decided.mean()
        texts.append(f"{100 * count / studies:.1f}")
    return (distribution, *texts)


def published_of(fit: Fit, index: int, value: float) -> Answer:
    question = Question({index: 1.0}, center=value, half_width=0.5, kind=Kind.PUBLISHED)
    return answer(
        question,
        fit.estimate(index),
        prediction=fit.prediction(index),
        seed_range=fit.extended_range(fit.scores[index]),
    )


def failing(studies: int, world: tuple[str, int]) -> Sequence[object]:
    """A loss whose seeds are of one kind, then one of which a fifth fails; then seeds at 100 % that fail.

    Beside the bound, a variant that reaches 100 % or, in a fifth of its seeds, 40 % is compared with one at 93 %,
    which is better on average.
    """
    name, n = world
    rng = np.random.default_rng(n)
    draw, scale = DISTRIBUTIONS[name], Scale(kind="log", sign=-1)
    truth = np.exp(0.1 * draw(rng, 200_000) - 2 + 3 * (rng.random(200_000) < 0.2)).mean()
    splits = printed = covered = wrongly = 0
    for _ in range(studies):
        logs = 0.1 * draw(rng, 4, n) - 2
        splits += bool(Fit(dict(enumerate(np.exp(logs).tolist())), scale).splits)
        logs[0] += 3 * (rng.random(n) < 0.2)
        interval = Fit(dict(enumerate(np.exp(logs).tolist())), scale).estimate(0).interval
        printed += interval is not None
        covered += interval is not None and interval[0] <= truth <= interval[1]
        reaching = np.where(rng.random(n) < 0.2, 40.0, 100.0)
        values = [reaching.tolist(), *(93 + 0.4 * rng.standard_normal((2, n))).tolist()]
        (judged,) = judge([difference_of(Fit(dict(enumerate(values)), SHARE), 0, 1)])
        wrongly += judged.verdict is Verdict.HIGHER
    rates = splits / studies, printed / studies, covered / max(1, printed), wrongly / studies
    return (f"{name}, n={n}", *(f"{100 * rate:.1f}" for rate in rates))


def each(studies: int, world: tuple[int, float]) -> Sequence[object]:
    """A variant is `gap` above two others and exactly at the third: a claim about each must not be supported."""
    n, gap = world
    rng, counts = np.random.default_rng(17), Counter[Verdict]()
    for values in rng.standard_normal((studies, 4, n)):
        values[1:3] -= gap
        fit = Fit(dict(enumerate(values.tolist())), LINEAR)
        rows = []
        for index in (1, 2, 3):
            question = Question({0: 1.0, index: -1.0}, lower_bound=0.0)
            tested = answer(question, contrast([(1.0, fit.weighted(0)), (-1.0, fit.weighted(index))]))
            rows.append(QuestionRow("loss", tested, ()))
        counts[judge([weakest(rows).answer])[0].verdict] += 1
    rates = (counts[Verdict.SUPPORTED], counts[Verdict.CONTRADICTED])
    return (f"n={n}, {gap:g} SD above the others", *(f"{100 * rate / studies:.1f}" for rate in rates))


def blocked(studies: int, k: int) -> Sequence[object]:
    """Two methods that are equal on average over many data sets, in k of which they differ by 2 SD.

    The columns: the average over these data sets unless they differ, read as a statement on other data sets; the
    same where the methods are equal in these data sets; and the t test over the differences.
    """
    rng, counts = np.random.default_rng(k), np.zeros(3)
    for _ in range(studies):
        for column, spread in enumerate((2.0, 0.0)):
            rows, fits = [], []
            for effect in spread * rng.standard_normal(k):
                fit = Fit({0: rng.standard_normal(3).tolist(), 1: (effect + rng.standard_normal(3)).tolist()})
                fits.append(fit)
                rows.append(QuestionRow("loss", difference_of(fit, 1, 0), ()))
            estimates = [row.estimate for row in rows]
            question = Question({0: 1.0}, kind=Kind.DIFFERENCE)
            if differ(estimates):
                tested = weakest(rows).answer
            else:
                terms = [(sign / k, fit.weighted(key)) for fit in fits for sign, key in ((1, 1), (-1, 0))]
                tested = answer(question, contrast(terms))
            counts[column] += judge([tested])[0].verdict.is_decided
            if column == 0:
                counts[2] += judge([answer(question, other_blocks(estimates))])[0].verdict.is_decided
    rates = [f"{100 * count / studies:.1f}" for count in counts]
    return (f"{k} data sets", *rates[:2], rates[2] if k > 2 else "-")


def overlapping(studies: int, splits: tuple[int, float]) -> Sequence[object]:
    """Two linear models of other, equally good features, on random splits of one data set of 100 rows."""
    seeds, share = splits
    rng, counts, tested = np.random.default_rng(seeds), np.zeros(2), int(100 * share)
    for _ in range(studies):
        features = rng.standard_normal((100, 10))
        target = features @ np.full(10, 0.3) + rng.standard_normal(100)
        differences = []
        for _ in range(seeds):
            test, train = np.split(rng.permutation(100), [tested])
            errors = []
            for columns in (features[:, :5], features[:, 5:]):
                weights = np.linalg.lstsq(columns[train], target[train])[0]
                errors.append(float(((target[test] - columns[test] @ weights) ** 2).mean()))
            differences.append(errors[0] - errors[1])
        for column, overlap in enumerate((0.0, share / (1 - share))):
            fit, question = Fit({0: differences}, overlap=overlap), Question({0: 1.0}, kind=Kind.DIFFERENCE)
            counts[column] += judge([answer(question, fit.estimate(0))])[0].verdict.is_decided
    return (
        f"{seeds} splits, {100 * share:.0f} % tested",
        *(f"{100 * count / studies:.1f}" for count in counts),
    )


def table_row(studies: int, effect: float) -> Sequence[object]:
    rng, decided, numbers, none = np.random.default_rng(int(10 * effect)), 0, [], 0
    for _ in range(studies):
        values = rng.standard_normal((4, 3))
        values[0] += effect
        (first,) = judge([difference_of(Fit(dict(enumerate(values.tolist()))), 0, 1)], [Looks((3,), 10)])
        if first.verdict is not Verdict.NO_DIFFERENCE:
            continue
        if first.seeds_needed is None:
            none += 1
            continue
        _, extra_seeds = first.seeds_needed
        extra_values = rng.standard_normal((4, extra_seeds))
        extra_values[0] += effect
        look_counts = [3, *(n for n in (5, 8, 10) if n < 3 + extra_seeds), 3 + extra_seeds]
        # not decided at three seeds, as judged above
        values = np.concatenate([values, extra_values], axis=1)
        decided += decided_at(values, look_counts, 10) is not None
        numbers.append(extra_seeds)
    count = max(1, len(numbers))
    return (
        f"effect of {effect} SD",
        f"{100 * decided / count:.0f}",
        int(np.median(numbers)),
        f"{100 * none / (none + count):.0f}",
    )


if __name__ == "__main__":
    main()
