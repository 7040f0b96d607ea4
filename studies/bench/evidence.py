"""Do the rules hold? Studies are drawn whose truth is known, and judged by `recstudy.evidence`.

coverage     of 95 % intervals over the variants that vary, the least and the mean, and their median width in points;
             of the difference between the first and the last; beside each variant's own percentile bootstrap and t interval
looks        how often a claim exactly on its margin is decided at some look, by the levels of `Looks` and at 5 % each
differs      how often an exact replication of one run is said to differ, and to be consistent or reproduced
power        how often the seeds that are said to be needed decide, of studies that were undecided at three

python studies/bench/evidence.py            # about 2 minutes
python studies/bench/evidence.py --studies 4000
"""

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from recstudy.evidence import LINEAR, Answer, Fit, Looks, Question, Scale, Verdict, asked, contrast, judged, published

Array = npt.NDArray[np.float64]
ITEMS = 2000
SHARE = Scale(0.0, 100.0, "share", ITEMS)
WORLDS: dict[str, tuple[Sequence[float], Sequence[float], Sequence[int]]] = {  # means, standard deviations, seeds
    "SD 0.8, 4 variants, 90-93 %": ([90, 91, 92, 93], [0.8] * 4, (2, 3)),
    "SDs 0.5, 1, 2": ([90, 91, 92], [0.5, 1, 2], (3,)),
    "one of 8 variants 8 times wider": ([90] * 8, [0.5] * 7 + [4], (3,)),
    "84 % SD 2, beside three at 100 %": ([84, 100, 100, 100], [2, 0, 0, 0], (3,)),
    "84 % SD 2, beside two at 99.97 %": ([84, 99.97, 99.97], [2, 0.03, 0.03], (3,)),
    "SD 0.25 near 99.5 %": ([99.5] * 4, [0.25] * 4, (2,)),
    "84 and 90 %, beside two at 100 %": ([84, 90, 100, 100], [2, 2, 0, 0], (5,)),
    "three at 92 % SD 0.5, one at 60 % SD 20": ([92, 92, 92, 60], [0.5, 0.5, 0.5, 20], (3,)),
}
LOOKS: tuple[tuple[Sequence[int], int], ...] = (((3, 5), 5), ((3, 5, 10), 10), ((3, 5, 8, 10, 15, 20), 20), (range(3, 11), 10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1500, help="drawn for each row (default: 1500)")
    studies = parser.parse_args().studies
    ways = ("bootstrap: least / mean, width", "own t: least / mean, width", "moderated: least / mean, width")
    table("coverage", ("n", *ways, "difference"), coverage(studies))
    table("looks", ("by Looks, %", "at 5 % each, %"), looks(studies))
    table("published value that is one more run", ("n", "differs, %", "consistent or reproduced, %"), replication(studies))
    table("power said 80 %", ("decided, %", "median of more seeds", "none said, %"), power(studies // 2))


def table(name: str, heads: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    """As Markdown, line by line."""
    print(f"\n| {name} | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def drawn(rng: np.random.Generator, means: Sequence[float], sds: Sequence[float], n: int) -> Array:
    """(variants, n) shares of the items: training varies by `sds`, and each run answers its items by chance."""
    truth = np.array(means)[:, None] + np.array(sds)[:, None] * rng.standard_normal((len(means), n))
    return 100 * rng.binomial(ITEMS, np.clip(truth, 0, 100) / 100) / ITEMS


def bootstrap(values: Array) -> tuple[float, float]:
    """The 95 % percentile interval of the mean over all resamples of the seeds, none of them left to chance."""
    means = values[np.indices([len(values)] * len(values)).reshape(len(values), -1)].mean(axis=0)
    low, high = np.quantile(means, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)


def coverage(studies: int) -> Iterator[Sequence[object]]:
    for name, (means, sds, seeds) in WORLDS.items():
        for n in seeds:
            rng = np.random.default_rng(n)
            varied = [at for at, sd in enumerate(sds) if sd]
            held = {way: np.zeros(len(varied)) for way in ("bootstrap", "own", "moderated")}
            widths: dict[str, list[float]] = {way: [] for way in held}
            apart = 0
            for _ in range(studies):
                scores = drawn(rng, means, sds, n)
                fit = Fit(dict(enumerate(scores.tolist())), SHARE)
                for place, at in enumerate(varied):
                    alone = Fit({0: scores[at].tolist()}).estimate(0).interval
                    for way, found in zip(held, (bootstrap(scores[at]), alone, fit.estimate(at).interval), strict=True):
                        low, high = found or (-np.inf, np.inf)
                        held[way][place] += low <= means[at] <= high
                        widths[way].append(high - low)
                difference = contrast([(1.0, fit.weighted(0)), (-1.0, fit.weighted(len(means) - 1))])
                low, high = difference.interval or (-np.inf, np.inf)
                apart += low <= means[0] - means[-1] <= high
            shares = {way: 100 * count / studies for way, count in held.items()}
            said = [f"{shares[way].min():.0f} / {shares[way].mean():.0f}, {np.median(widths[way]):.1f}" for way in held]
            yield name, n, *said, f"{100 * apart / studies:.0f}"


def looks(studies: int) -> Iterator[Sequence[object]]:
    for taken, most in LOOKS:
        rng, counts = np.random.default_rng(7), np.zeros(2)
        for values in rng.standard_normal((studies, 4, most)):
            decided = np.zeros(2, dtype=bool)
            for n in taken:
                one = difference(values[:, :n])
                assert one.p is not None
                decided |= [one.p < Looks(tuple(taken), most).level(n), one.p < 0.05]
            counts += decided
        yield f"{', '.join(map(str, taken))} of {most}", *(f"{100 * count / studies:.1f}" for count in counts)


def difference(values: Array) -> Answer[int]:
    """The first variant against the second, among all."""
    fit = Fit(dict(enumerate(values.tolist())), LINEAR)
    question = Question({0: 1.0, 1: -1.0}, other_than=0.0)
    return asked(question, contrast([(1.0, fit.weighted(0)), (-1.0, fit.weighted(1))]))


def replication(studies: int) -> Iterator[Sequence[object]]:
    means, sds = [88, 90, 92, 94], [0.8] * 4
    for n in (2, 3, 5, 10):
        rng, verdicts = np.random.default_rng(n), []
        for _ in range(studies):
            scores = drawn(rng, means, sds, n + 1)
            fit = Fit(dict(enumerate(scores[:, :-1].tolist())), SHARE)
            verdicts.append(published(float(scores[0, -1]), 2.0, fit.estimate(0), fit.prediction(0)).verdict)
        good = sum(one in (Verdict.CONSISTENT, Verdict.REPRODUCED) for one in verdicts)
        yield "SD 0.8, margin 2", n, f"{100 * verdicts.count(Verdict.DIFFERS) / studies:.1f}", f"{100 * good / studies:.1f}"


def power(studies: int) -> Iterator[Sequence[object]]:
    for effect in (0.5, 1.0, 1.5, 2.5):
        rng, decided, more, none = np.random.default_rng(int(10 * effect)), 0, [], 0
        for _ in range(studies):
            values = rng.standard_normal((4, 3))
            values[0] += effect
            (first,) = judged([difference(values)], pooled=4)
            if first.verdict is not Verdict.NO_DIFFERENCE:
                continue
            if first.seeds_needed is None:
                none += 1
                continue
            further = rng.standard_normal((4, first.seeds_needed))
            further[0] += effect
            (last,) = judged([difference(np.concatenate([values, further], axis=1))], pooled=4)
            decided += last.verdict is not Verdict.NO_DIFFERENCE
            more.append(first.seeds_needed)
        asked_for = max(1, len(more))
        share = f"{100 * none / (none + asked_for):.0f}"
        yield f"effect of {effect} SD", f"{100 * decided / asked_for:.0f}", int(np.median(more)), share


if __name__ == "__main__":
    main()
