"""The metrics of a table: what the user states about them, and what follows from their names and values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.programs.columns import ERROR_RATES, PREFIX, SHARES, Column, direction_of, name_of
from recstudy.programs.metric import Metric
from recstudy.programs.table_options import MetricFields, listed
from recstudy.records.study_schema import MetricRecord

ERROR_RATIO = 30  # between errors in percent and as shares; 100 for equal errors


def described_metrics(words: str) -> dict[str, MetricFields]:
    """Return the fields that `--metrics` states, by the head of the column.

    >>> described_metrics("accuracy:%:10000,loss:lower")
    {'accuracy': {'unit': '%', 'items': 10000}, 'loss': {'better': 'lower'}}

    Raises:
        ConfigError: A unit is probably a misspelt `higher` or `lower`.
    """
    parts = [metric.split(":") for metric in listed(words)]
    return {head: _words(metric_words) for head, *metric_words in parts}


def _words(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the fields of a metric that the command line states.

    Raises:
        ConfigError: A unit is probably a misspelt `higher` or `lower`.
    """
    fields: dict[str, Any] = {}
    for word in words:
        if word in ("higher", "lower") and "better" not in fields:
            fields["better"] = word
        elif "=" in word or word in ("higher", "lower"):
            raise ConfigError(
                f"--metrics: {word!r} is no unit. Write higher or lower once, the unit, and the number of"
                " items, such as accuracy:%:10000"
            )
        elif hint := nearest(word, ("higher", "lower")):
            raise ConfigError(f"--metrics: {word!r} would be a unit.{hint}")
        elif word.isdigit():
            fields["items"] = int(word)
        elif word == "share":
            fields |= {"share": True, "bounds": (0.0, 1.0), "unit": ""}
        else:
            fields["unit"] = word
    return fields


def check_scale(column: Column, described: Mapping[str, MetricFields], numbers: Sequence[float]) -> None:
    """Refuse shares among the percentages of a score without a stated unit.

    Args:
        column: The column of the score.
        described: The stated fields of all metrics.
        numbers: Its values, those of earlier imports included.

    Raises:
        ConfigError: Some values are between 0 and 1, and others above 1.
    """
    shares = [number for number in numbers if 0 < number < 1]
    percentages = [number for number in numbers if number > 1]
    has_unit = stated_fields(column, described).get("unit")
    if has_unit or not shares or not percentages or max(percentages) > 100:
        return
    # an error of 0.8 % beside one of 5 % is usual
    is_error = column.matches(ERROR_RATES) and min(percentages) > ERROR_RATIO * max(shares)
    if column.matches(SHARES) or is_error:
        raise ConfigError(
            f"{column.head} has values such as {shares[0]:g} and {max(numbers):g}, which look like"
            f" shares and percentages. Write all in percent, or state it: --metrics {column.head}:%"
        )


def score_of(column: Column, described: Mapping[str, MetricFields], items: int = 0) -> Metric:
    """Return a metric that ranks lines or variants; the arguments are those of `table_metric`.

    Raises:
        ConfigError: Neither its name nor a statement says which values are better.
    """
    metric = table_metric(column, described, items)
    if metric.better is None and "better" not in stated_fields(column, described):
        raise ConfigError(
            f"the name {column.head!r} does not say whether higher or lower values are better. State it:"
            f" --metrics {column.head}:higher or --metrics {column.head}:lower"
        )
    return metric


def stated_fields(column: Column, described: Mapping[str, MetricFields]) -> Mapping[str, Any]:
    """Return the stated fields of a metric; empty if none is stated."""
    names = (name for name in described if name == column.head or name_of(name) == column.name)
    return described.get(next(names, ""), None) or {}


def table_metric(column: Column, described: Mapping[str, MetricFields], items: int = 0) -> Metric:
    """Return a metric as stated. By default it follows from its name, in percent if an accuracy exceeds 1.

    Args:
        column: The column of the metric.
        described: The stated fields of all metrics.
        items: The number of test items if each line has the result of one item. Results of 0 and 1 are then
            a share of items.

    Raises:
        ConfigError: A stated field is unknown, or some values are shares and others percentages.
    """
    field_names = [field.name for field in fields(MetricRecord)]
    overrides = stated_fields(column, described)
    for name in overrides:
        if name not in field_names:
            raise ConfigError(
                f"the metric {column.head!r} has no {name!r}: it has {choices(field_names)}."
                f"{nearest(name, field_names)}"
            )
    head = PREFIX.sub("", column.head)
    name = column.name.lower()
    is_percent = re.search("acc(uracy)?(_|$)", name) and 1 < max(column.numbers, default=0) <= 100
    usual: dict[str, Any] = {
        "title": head.replace("_", " ").capitalize() if head == column.name else head,
        "better": direction_of(column.head),
        "unit": column.notation.unit or ("%" if is_percent else ""),
    }
    check_scale(column, described, column.numbers)
    unit = {**usual, **overrides}["unit"]
    usual |= {} if unit == "%" else {"form": ".6g"}  # single runs may differ in the sixth digit
    if items and (column.is_boolean or {*column.numbers} <= {0.0, 1.0}):
        usual |= {"items": items, "unit": ""}
    return Metric(**{**usual, **overrides})
