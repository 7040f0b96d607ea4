"""What a study's runs used of machines, summed: cores, GPUs, memory, GPU hours, and what these cost."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recstudy.errors import ConfigError
from recstudy.report.rows import Row


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
    """Say what finished runs used: cores and GPU, as means over time, the largest peak of memory, GPU hours, their price."""
    told = []
    for name, words in (("cores_used", "{:.1f} cores"), ("gpu_use", "{:.0f} % of a GPU")):
        known = [(row.number(name), row.paid) for row in rows if row.value(name) is not None]
        if known:
            told.append(words.format(sum(value * paid for value, paid in known) / (sum(paid for _, paid in known) or 1.0)))
    on_gpu = [row for row in rows if row.provenance.hardware.gpu]
    hours = sum(row.paid * row.provenance.workers * _share(configs[row.variant]) for row in on_gpu) / 3600
    peaks = [row.number("peak_memory_mb") for row in rows if row.value("peak_memory_mb") is not None] if told or on_gpu else []
    said = [f"{' and '.join(told)} on average" if told else "", f"at most {max(peaks):,.0f} MB" if peaks else ""]
    said += [f"{hours:,.3g} GPU hours" if on_gpu else "", price.of(hours) if price and on_gpu else ""]
    return ", ".join(filter(None, said))


def _share(config: Mapping[str, object]) -> float:
    """Return how much of a GPU a worker had: a whole one, unless several shared it."""
    gpus = config.get("place.gpus_per_run")
    return float(gpus) if isinstance(gpus, int | float) and gpus else 1.0
