"""Looks: whoever reads a study at three seeds and again at five has had two chances to be wrong.

A study states its most seeds; each look at n of them spends part of the error that the whole may have (Lan and DeMets 1983,
Pocock's type):

    alpha(t) = alpha ln(1 + (e - 1) t),   t = n / n_max          (1)

The level of a look is what it spends beyond the look before it. With looks at 3 and 5 of 5, or at 3, 5 and 10 of 10, a claim
exactly on its margin is decided wrongly in under 5 % of studies.
"""

from dataclasses import dataclass
from math import e, log

ALPHA = 0.05


@dataclass(frozen=True)
class Looks:
    """At which numbers of seeds a study's answers were read.

    Args:
        taken: seeds at each look, in their order.
        at_most: the seeds that the study stated as its most before it ran; 0 where it stated none. Then looks beyond the first
            count as if every seed had been one, up to the last taken.
    """

    taken: tuple[int, ...] = ()
    at_most: int = 0

    def spent(self, n: int) -> float:
        """alpha(t) of (1): the share of ALPHA that may be spent up to n seeds, from 0 to 1."""
        most = max(self.at_most, *self.taken, n)
        return log(1 + (e - 1) * min(1.0, n / most))

    def before(self, n: int) -> int:
        """The look before that at n seeds; 0 where n is the first."""
        earlier = [look for look in self.taken if look < n]
        return 0 if not earlier else max(earlier) if self.at_most else n - 1

    def level(self, n: int, alpha: float = ALPHA) -> float:
        """The level at which an answer at n seeds is read; one of more seeds than the last look had whole is read at that look."""
        n = min(n, max(self.taken, default=n))
        before = self.before(n)
        return alpha * (self.spent(n) - (self.spent(before) if before else 0.0))
