import io

import pytest
from made_up import write_study
from rich.console import Console

from recstudy.analysis import Arithmetic
from recstudy.analysis.report import show_report, write_report
from recstudy.analysis.tables.arithmetic import counted_claims
from recstudy.papers import Target
from recstudy.report import dump_report

COUNTED = {
    "vocab_old": 12.0,
    "vocab_new": 256.0,
    "embed_new": 131_072.0,
    "total_increase": 251_904.0,
    "params_model": 27_275_266.0,
}


def claim(value, counted, unit="params", kind="reported", metric="total_increase", **more):
    target = Target(source="001 x (1)", metric=metric, value=value, unit=unit, kind=kind, where={}, margin=0.5, **more)
    (only,) = counted_claims(Arithmetic(counted={metric: counted}, targets=(target,)))
    return only


@pytest.mark.parametrize(
    ("value", "counted", "words", "verdict"),
    [
        (5120.0, 5120.0, {}, "reproduced"),
        (5120.0, 5121.0, {}, "differs"),
        (5120.0, 5120.4, {}, "reproduced"),  # it rounds to 5,120
        (0.93, 0.9349, {"unit": "percent"}, "reproduced"),
        (0.93, 0.9351, {"unit": "percent"}, "differs"),
        (27.0, 27_275_266.0, {"unit": "million"}, "reproduced"),
        (27.0, 27_600_000.0, {"unit": "million"}, "differs"),
        (252_000.0, 251_904.0, {}, "differs"),
        (252_000.0, 251_904.0, {"approximate": True}, "reproduced"),
        (252_000.0, 249_480.0, {"approximate": True}, "reproduced"),  # 1 % off
        (252_000.0, 249_479.0, {"approximate": True}, "differs"),
        (252_000.0, 251_904.0, {"note": "no approximation"}, "differs"),  # words do not widen the margin
    ],
)
def test_verdicts(value, counted, words, verdict):
    assert claim(value, counted, **words).verdict == verdict


def test_a_derived_number_says_so():
    derived = claim(0.93, 0.93, unit="percent", kind="derived", note="251904/27e6")

    assert (derived.note, derived.verdict) == ("derived; 251904/27e6", "given")
    assert claim(0.93, 0.94, unit="percent", kind="derived").verdict == "differs"


def test_it_stands_in_the_report_and_in_the_terminal(tmp_path):
    report = dump_report([Arithmetic(counted=COUNTED)])
    results = write_study(tmp_path / "r", report=report)

    page = write_report(results, "made_up", "paper")

    assert sorted(path.name for path in page.parent.glob("tables/*")) == ["arithmetic.csv", "arithmetic.md", "arithmetic.tex"]
    assert "about 252,000 parameters" in page.read_text()
    console = Console(width=200, record=True, file=io.StringIO())
    show_report(results, "made_up", "paper", (), console)
    assert "about 252,000 parameters" in console.export_text()
