import csv
import io

import pytest
from made_up import write_study
from rich.console import Console

from recstudy.analysis import Arithmetic
from recstudy.analysis.report import show_report, write_report
from recstudy.analysis.tables import entries
from recstudy.analysis.tables.arithmetic import counted_claims, csv_text, printed
from recstudy.analysis.tables.latex import latex
from recstudy.errors import ConfigError
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


def test_the_papers_claims_stand_in_their_own_units():
    part = Arithmetic(counted=COUNTED)

    assert [[entry.text for entry in line] for line in printed(part).lines] == [
        ["HRM vocabulary, before", "10 tokens", "12 tokens", "differs", "official ARC vocabulary is 12 (pad, eos, 10 colours)"],
        ["HRM vocabulary, after", "256 tokens", "256 tokens", "reproduced", ""],
        ["HRM token embedding, after", "131,072 parameters", "131,072 parameters", "reproduced", "256*512"],
        [
            "HRM increase in all",
            "about 252,000 parameters",
            "251,904 parameters",
            "reproduced",
            "stated approx; exact 251,904",
        ],
        ["HRM parameters of the model", "27 million", "27.28 million", "reproduced", ""],
    ]
    assert printed(part).notes[0].startswith("not counted here: HRM hidden size; HRM sequence length, before; ")


def test_a_derived_number_says_so():
    derived = claim(0.93, 0.93, unit="percent", kind="derived", note="251904/27e6")

    assert (derived.note, derived.verdict) == ("derived; 251904/27e6", "given")
    assert claim(0.93, 0.94, unit="percent", kind="derived").verdict == "differs"


def test_what_the_study_put_in_is_given():
    part = Arithmetic(counted=COUNTED, given=("vocab_old", "vocab_new"))

    assert [one.verdict for one in counted_claims(part)] == ["differs", "given", "reproduced", "reproduced", "reproduced"]
    assert printed(part).caption.startswith(
        "HRM-ChestXRay arithmetic: 3 of 4 reproduced by counting, 1 given; nothing was trained"
    )
    with pytest.raises(ConfigError, match=r"given 'vocab_odl', but counted are .* Did you mean 'vocab_old'\?"):
        Arithmetic(counted=COUNTED, given=("vocab_odl",))


def test_all_renderings():
    part = Arithmetic(counted=COUNTED, title="Counted | again")
    page = printed(part)

    shown = entries.markdown(page)
    assert "### Counted \\| again" in shown
    assert (
        "| HRM increase in all | about 252,000 parameters | 251,904 parameters | reproduced | stated approx; exact 251,904 |"
        in shown
    )
    assert "| --- | ---: | ---: | ---: | --- |" in shown
    assert "HRM-ChestXRay arithmetic: 4 of 5 reproduced by counting; nothing was trained for this." in shown
    assert "not counted here: HRM hidden size; " in shown
    assert "S[table-format=6.0]@{}lS[table-format=6.2]@{}lr>{\\hsize=1.032\\hsize\\raggedright" in latex(page)
    assert "\\textbf{differs}" in latex(page)
    assert '<td class="prose" data-head="note">256*512</td>' in entries.html_table(page)
    lines = list(csv.DictReader(csv_text(part).splitlines()))
    assert lines[4] == {
        "statement": "HRM parameters of the model",
        "metric": "params_model",
        "published": "27.0",
        "unit": "million",
        "counted": "27.275266",
        "verdict": "reproduced",
        "note": "",
        "source": "HRM-ChestXRay arithmetic (001_parameter_arithmetic#14)",
    }
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(entries.Terminal(page))
    assert "4 of 5 reproduced by counting" in console.export_text()


def test_a_count_without_a_claim_is_refused():
    with pytest.raises(ConfigError, match=r"counted 'embed_odl', but the targets have .* Did you mean 'embed_old'\?"):
        Arithmetic(counted={"embed_odl": 1.0})


def test_it_stands_in_the_report_and_in_the_terminal(tmp_path):
    report = dump_report([Arithmetic(counted=COUNTED)])
    results = write_study(tmp_path / "r", report=report)

    page = write_report(results, "made_up", "paper")

    assert sorted(path.name for path in page.parent.glob("tables/*")) == ["arithmetic.csv", "arithmetic.md", "arithmetic.tex"]
    assert "about 252,000 parameters" in page.read_text()
    console = Console(width=200, record=True, file=io.StringIO())
    show_report(results, "made_up", "paper", (), console)
    assert "about 252,000 parameters" in console.export_text()
