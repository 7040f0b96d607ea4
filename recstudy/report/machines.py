"""What a study's runs used of machines, summed: cores, GPUs, memory, GPU hours, and what these cost."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recstudy.errors import ConfigError
from recstudy.records.runs import Row


@dataclass(frozen=True)
class Price:
    """What an hour of a GPU costs, such as `2.5 EUR`."""

    amount: float
    currency: str

    @classmethod
    def parse(cls, text: str) -> "Price":
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Z]{3})", text.strip())
        if found is None:
            raise ConfigError(f"--price is what a GPU hour costs, with its currency, such as 2.5EUR or 3USD, but got {text!r}")
        return cls(float(found[1]), found[2])

    def of(self, hours: float) -> str:
        return f"{hours * self.amount:,.2f} {self.currency} at {self.amount:g} an hour"


def machines_used(rows: Sequence[Row], configs: Sequence[Mapping[str, object]], price: Price | None) -> str:
    """Return what finished runs used: cores and GPU, as means over time, the largest peak of memory, GPU hours, their price."""
    means = []
    for name, words in (("cores_used", "{:.1f} cores"), ("gpu_use", "{:.0f} % of a GPU")):
        uses = [(row.number(name), row.paid) for row in rows if row.value(name) is not None]
        if uses:
            means.append(words.format(sum(use * paid for use, paid in uses) / (sum(paid for _, paid in uses) or 1.0)))
    facts = [f"{' and '.join(means)} on average"] if means else []
    on_gpu = [row for row in rows if row.provenance.hardware.gpu]
    peaks = [row.number("peak_memory_mb") for row in rows if row.value("peak_memory_mb") is not None]
    if peaks and (means or on_gpu):
        facts.append(f"at most {max(peaks):,.0f} MB")
    if on_gpu:  # a run had a whole one, unless several shared it
        shares = [configs[row.variant].get("place.gpus_per_run") or 1.0 for row in on_gpu]
        pairs = zip(on_gpu, shares, strict=True)
        hours = sum(row.paid * row.provenance.workers * float(str(share)) for row, share in pairs) / 3600
        facts.append(f"{hours:,.3g} GPU hours")
        facts += [price.of(hours)] if price else []
    return ", ".join(facts)
