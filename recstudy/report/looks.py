"""The looks (interim analyses) at a study: when its verdicts were read, and at how many seeds."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from recstudy.evidence.seeds import MAX_SEEDS, Looks
from recstudy.records import PlanRecord
from recstudy.records.plans import maximum_digest, whole_seeds
from recstudy.records.study_schema import Look


@dataclass(frozen=True)
class RecordedLooks:
    """The recorded looks at a study's runs.

    Args:
        plan: Of the study.
        looks: The looks, oldest first.
        seeds: For each variant, run id -> seed.
        ended_ids: The ids of the ended runs.
        untested_seeds: The largest number of seeds without a test.
    """

    plan: PlanRecord
    looks: Sequence[Look]
    seeds: Sequence[Mapping[str, int]]
    ended_ids: set[str]
    untested_seeds: int

    def at_study(self) -> Looks:
        """Return the looks at the whole study, with the present look."""
        seeds = whole_seeds(self.plan, self.ended_ids)
        looks = self.at(range(len(self.seeds)))
        # lines of a table may have fewer seeds of some variants
        seeds = 0 if self.plan.imported and looks.seed_counts else seeds
        counts = {*looks.seed_counts, seeds, *self.plan.most_seeds.values()}
        return replace(looks, seed_counts=self._tested(counts))

    def at(self, variants: Iterable[int]) -> Looks:
        """Return the looks at these variants: how many seeds all of them had at each reading of verdicts.

        In a paired study, these are the seeds that all of them have.
        """
        # If the maximum was changed or removed after verdicts were read, the earlier maximum counts.
        variants = list(variants)
        firsts = [self._first_readings[index] for index in variants]
        if self.plan.paired:
            firsts = [self._first_common_readings(variants)]
        readings = sorted({reading for first in firsts for reading in first})
        # At each reading, the variant with the fewest runs limits the number of common seeds.
        look_sizes = {min(bisect_right(first, reading) for first in firsts) for reading in readings}
        later = self.plan.max_seeds if self.plan.max_seeds != self._max_seeds else 0
        return Looks(self._tested(look_sizes), self._max_seeds, self.plan.alpha, later)

    def _tested(self, seed_counts: set[int]) -> tuple[int, ...]:
        """Return the numbers of seeds at which a test was possible, in ascending order."""
        return tuple(sorted(count for count in seed_counts if count > self.untested_seeds))

    @cached_property
    def _first_readings(self) -> list[list[int]]:
        """For each variant, the indices of the looks that first included its runs, in ascending order."""
        return [sorted(readings.values()) for readings in self._reading_of_seeds]

    def _first_common_readings(self, variants: Iterable[int]) -> list[int]:
        """Return the indices of the looks that first included each seed of all these variants, in order."""
        readings = [self._reading_of_seeds[index] for index in variants]
        common_seeds = set.intersection(*map(set, readings)) if readings else set[int]()
        return sorted(max(of_variant[seed] for of_variant in readings) for seed in common_seeds)

    @cached_property
    def _reading_of_seeds(self) -> list[dict[int, int]]:
        """For each variant, seed -> the index of the look that first included its run."""
        first: dict[str, int] = {}
        for position, look in enumerate(self.looks):
            for run_id in look.runs:
                first.setdefault(run_id, position)
        return [
            {seed: first[run_id] for run_id, seed in of_variant.items() if run_id in first}
            for of_variant in self.seeds
        ]

    @cached_property
    def _max_seeds(self) -> int:
        """The maximum number of seeds that was stated before the first look; 0 if there is none.

        Plans before 2026 have no dates.
        """
        tested = (
            first[self.untested_seeds] for first in self._first_readings if len(first) > self.untested_seeds
        )
        first_reading = min((self.looks[look].date for look in tested), default="")
        dates, maximum = self.plan.stated, self.plan.max_seeds
        if not first_reading or (maximum and dates.get(maximum_digest(maximum), "") <= first_reading):
            return maximum
        dates_by_maximum = {seeds: dates.get(maximum_digest(seeds), "") for seeds in range(1, MAX_SEEDS)}
        in_time = [seeds for seeds, date in dates_by_maximum.items() if date and date <= first_reading]
        return max(in_time, default=0)
