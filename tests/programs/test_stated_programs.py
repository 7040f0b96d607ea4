"""Programs, searches of functions and metrics that cannot be are refused where a study states them."""

from dataclasses import replace
from pathlib import Path

import climbing
import pytest
from refusals import pattern_of, read_refusals

import recstudy
from recstudy import Command, Metric, Study, Variant
from recstudy.base.errors import ConfigError
from recstudy.plugins import gathering
from recstudy.study.plan import make_plan

ACCURACY = {"accuracy": Metric("%")}


def study(command="python train.py {folder}", settings=None, of=ACCURACY, **options):
    """A study of a command."""
    with gathering():
        program = Command(command, **options)
        return Study("s", program=program, settings=settings or {}, metrics=of, variants=[Variant("one", {})])


ROWS = read_refusals(Path(__file__).with_name("stated_programs.txt").read_text(), ">>>")
NAMES = {name: getattr(recstudy, name) for name in recstudy.__all__} | {
    "TWO": {"loss": Metric(better="lower")} | ACCURACY,
    "climbing": climbing,
    "make_plan": make_plan,
    "replace": replace,
    "study": study,
}


@pytest.mark.parametrize(("expression", "message"), ROWS, ids=[row[0] for row in ROWS])
def test_what_cannot_be_is_refused_in_one_line_where_a_study_states_it(expression, message):
    with pytest.raises(ConfigError, match=f"^{pattern_of(message)}$"):
        eval(expression, NAMES)
