"""Do the rules of evidence hold? Simulated studies with a known truth are judged by `recstudy.evidence`.

Runs answer fixed items, each with its own difficulty, as runs of one study do. The answers of each run give
the floor.

coverage     of 95 % intervals: least and mean over the variants that vary, and the median width in points; then the coverage of
             the difference between the first and the last variant
looks        share of studies in which a claim is decided at some look, and the mean number of seeds at the decision
wrong        share of studies with a wrong verdict at any look: six claims on their margin, and six exact replications
needed       share of studies that the printed upper number of seeds decides, of those that were undecided at three seeds

python tests/benchmarks/evidence.py            # about 2 minutes on two cores
python tests/benchmarks/evidence.py --studies 4000
"""

import argparse
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt

from recstudy.evidence import (
    LINEAR,
    Answer,
    Fit,
    Looks,
    Question,
    Scale,
    Verdict,
    answer,
    answer_published,
    contrast,
    independent_share,
    judge,
)

Array = npt.NDArray[np.float64]
ITEMS = 2000
SHARE = Scale(0.0, 100.0, "share", ITEMS)
# means, standard deviations, seeds
WORLDS: dict[str, tuple[Sequence[float], Sequence[float], Sequence[int]]] = {
    "SD 0.8, 4 variants, 90-93 %": ([90, 91, 92, 93], [0.8] * 4, (2, 3)),
    "SDs 0.5, 1, 2": ([90, 91, 92], [0.5, 1, 2], (3,)),
    "one of 8 variants 8 times wider": ([90] * 8, [0.5] * 7 + [4], (3,)),
    "84 % SD 2, beside three at 100 %": ([84, 100, 100, 100], [2, 0, 0, 0], (3,)),
    "84 % SD 2, beside two at 99.97 %": ([84, 99.97, 99.97], [2, 0.03, 0.03], (3,)),
    "SD 0.25 near 99.5 %": ([99.5] * 4, [0.25] * 4, (2, 3)),
    "84 and 90 %, beside two at 100 %": ([84, 90, 100, 100], [2, 2, 0, 0], (5,)),
    "no training noise: items alone, 90 %": ([90] * 3, [0] * 3, (3,)),
}
SCHEDULES = ((3, 5, 10), (3, 5, 8, 10), (3, 5, 8, 12, 16, 20))
# of an item's difficulty: at 90 % right, a third of the variance of answers is between the seeds
SHARPNESS = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=700, help="simulated for each row (default: 700)")
    studies = parser.parse_args().studies
    worlds = [(name, n) for name, (_, _, seeds) in WORLDS.items() for n in seeds]
    effects = (0.0, 1.0, 1.5, 2.0)
    with ProcessPoolExecutor(2) as pool:
        heads = ("n", "own t: least / mean, width", "moderated: least / mean, width", "difference")
        table("coverage, %", heads, pool.map(partial(coverage, studies), worlds))
        heads = (*(f"{effect:g} SD: decided %, seeds" for effect in effects), "all seeds at once, %")
        table("looks", heads, pool.map(partial(looks, studies, effects), SCHEDULES))
        heads = ("any wrong verdict of six claims, %", "any `differs` of six replications, %")
        rows = [
            (look_counts, maximum)
            for look_counts in SCHEDULES
            for maximum in (look_counts[-1], look_counts[-2])
        ]
        table("wrong verdicts over all looks", heads, pool.map(partial(wrong, studies), rows))
        heads = ("decided at the upper number, %", "median of the numbers", "none printed, %")
        table(
            "seeds needed after three seeds",
            heads,
            pool.map(partial(table_row, studies), (0.5, 1.0, 1.5, 2.5)),
        )


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


def fit_of(answers: npt.NDArray[np.bool_]) -> Fit[int]:
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


def difference_of(fit: Fit[int], first: int, second: int) -> Answer[int]:
    """Return whether two variants differ, tested alone."""
    question = Question({first: 1.0, second: -1.0}, other_than=0.0)
    return answer(question, contrast([(1.0, fit.weighted(first)), (-1.0, fit.weighted(second))]))


def looks(studies: int, effects: Sequence[float], look_counts: Sequence[int]) -> Sequence[object]:
    texts, final_rates = [], []
    for effect in effects:
        rng, decided, seeds, final_count = np.random.default_rng(7), 0, 0, 0
        for values in rng.standard_normal((studies, 4, look_counts[-1])):
            values[0] += effect
            is_decided = False
            for position, n in enumerate(look_counts):
                test = difference_of(fit := Fit(dict(enumerate(values[:, :n].tolist())), LINEAR), 0, 1)
                is_decided = (
                    is_decided
                    or judge([test], [Looks(tuple(look_counts[:position]), look_counts[-1])])[
                        0
                    ].verdict.is_decided
                )
                if is_decided:
                    break
            decided, seeds = decided + is_decided, seeds + n
            fit = Fit(dict(enumerate(values.tolist())), LINEAR)
            final_count += judge([difference_of(fit, 0, 1)])[0].verdict.is_decided
        texts.append(f"{100 * decided / studies:.1f}, {seeds / studies:.1f}")
        final_rates.append(f"{100 * final_count / studies:.0f}")
    return (", ".join(map(str, look_counts)), *texts, " / ".join(final_rates))


def wrong(studies: int, schedule: tuple[Sequence[int], int]) -> Sequence[object]:
    """Judge six claims on their margin, and six published values that are one run of the same variants."""
    look_counts, maximum = schedule
    rng = np.random.default_rng(11)
    counts = np.zeros(2)
    for values in rng.standard_normal((studies, 7, look_counts[-1] + 1)):
        values = 50 + values
        wrong_verdicts = np.zeros(2, dtype=bool)
        for position, n in enumerate(look_counts):
            fit = Fit(dict(enumerate(values[:, :n].tolist())), LINEAR)
            claims = [difference_of(fit, index, 6) for index in range(6)]
            published = [
                answer_published(values[index, -1], 0.5, fit.estimate(index), fit.prediction(index))
                for index in range(6)
            ]
            present = [Looks(tuple(look_counts[:position]), maximum)] * 6
            wrong_verdicts[0] |= any(answer.verdict.is_decided for answer in judge(claims, present))
            wrong_verdicts[1] |= any(
                answer.verdict is Verdict.DIFFERS for answer in judge(published, present)
            )
        counts += wrong_verdicts
    name = f"{', '.join(map(str, look_counts))} of {maximum}"
    return (name, *(f"{100 * count / studies:.1f}" for count in counts))


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
        values = np.concatenate([values, extra_values], axis=1)
        look_counts = [3, *(n for n in (5, 8, 10) if n < 3 + extra_seeds), 3 + extra_seeds]
        is_decided = False
        for position, n in enumerate(look_counts[1:], 1):
            test = difference_of(Fit(dict(enumerate(values[:, :n].tolist()))), 0, 1)
            is_decided = (
                is_decided or judge([test], [Looks(tuple(look_counts[:position]), 10)])[0].verdict.is_decided
            )
        decided += is_decided
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
