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

    def level(self, n: int, alpha: float = ALPHA) -> float:
        """The level at which an answer of n seeds is read.

        What it spends beyond the look before it; of a variant that has had further seeds beyond the last look of all, and where
        no most was stated, beyond one seed fewer.
        """
        most = max(self.at_most, *self.taken, n)
        earlier = [look for look in self.taken if look < n]
        stated = n in self.taken and most == self.at_most
        before = 0 if not earlier else max(earlier) if stated else n - 1
        now, then = (log(1 + (e - 1) * seeds / most) for seeds in (n, before))
        return alpha * (now - then)
