"""`numbers.tex`: a LaTeX macro for each number and verdict of a page."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pypdf import PdfReader
from scenarios import SCENARIOS, records_of
from tex import needs_siunitx, run

from recstudy.cli import main
from recstudy.publishing.bundle import open_bundle
from recstudy.records import Results
from recstudy.report import dump_report
from recstudy.report.numbers import macro_name, numbers_of, numbers_tex
from recstudy.report.study_records import load_study

DIGITS = Path(__file__).parent / "digits"
EVIDENCE = Path(__file__).parents[2] / "studies/evidence"
MACRO = re.compile(r"^\\newcommand\{\\([^}]*)\}\{(.*)\}% (.*)$", re.M)


def macros(text):
    return {name: value for name, value, _ in MACRO.findall(text)}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The results folder of 25 trainings of five networks on scikit-learn's digits."""
    root = tmp_path_factory.mktemp("digits")
    words = ["--metrics", "accuracy:%:500,nll:lower,params", "--claims", str(DIGITS / "claims.yaml")]
    with pytest.raises(SystemExit, match="0"):
        main(["judge", str(DIGITS / "digits.csv"), *words, "--results", str(root / "r")])
    return root / "r"


def test_the_report_has_a_macro_for_each_number_and_verdict_of_its_tables(judged):
    report = judged / "studies/digits/imported/report"
    text = (report / "numbers.tex").read_text()
    found = macros(text)

    assert all(name.isalpha() and name.isascii() for name in found)
    assert len(found) == len(MACRO.findall(text)) == text.count("newcommand")
    plain = {re.sub(r"\\ensuremath\{(.*)\}", r"\1", value) for value in found.values()}
    shown = (report / "report.md").read_text().replace("\\", "").partition("### Claims")[2]
    for number in re.findall(r"(?<=\| )[-+]?\d+\.\d+|\[[^\]]*\]", shown):
        assert number.replace("+", "") in plain | {"7.69", "21.25", "2.12", "1.34"}  # what is detectable
    expected = {
        "MediumMLPAccuracy": "93.8", "MediumMLPAccuracyCI": r"\ensuremath{[92.8, 94.7]}", "LinearNllN": "5",
        "AWiderLayerHelpsVerdict": "undecided (post hoc)", "AWiderLayerHelpsDifference": "3.04",
        "AHiddenLayerHelpsP": r"\ensuremath{<0.001}", "AHiddenLayerHelpsLower": "77.8",
        "DeepMLPAgainstLargeMLPAccuracyVerdict": "no significant difference",
        "DeepMLPAgainstLargeMLPAccuracyDifference": r"\ensuremath{-0.40}",
    }  # fmt: skip
    assert {name: found[f"recstudyDigits{name}"] for name in expected} == expected


def test_its_head_names_study_records_and_version_and_each_macro_its_meaning(judged):
    text = (judged / "studies/digits/imported/report/numbers.tex").read_text()

    assert text.startswith("% Numbers and verdicts of the study Digits (imported preset).\n")
    assert re.search(
        r"^% Written by recstudy \d+\.\d+\.\d+\S* from records with the digest [0-9a-f]{16}\.", text, re.M
    )
    assert "AgainstLargeMLPAccuracyP}{0.004}% small MLP, against large MLP, Accuracy: p (Holm)" in text


def numbers_of_csv(folder, text):
    """The text of `numbers.tex` of a table of finished runs."""
    (folder / "t.csv").write_text(text)
    words = ["--metrics", "accuracy", "--results", str(folder / "r")]
    with pytest.raises(SystemExit, match="0"):
        main(["judge", str(folder / "t.csv"), *words])
    return (folder / "r/studies/t/imported/report/numbers.tex").read_text()


def test_a_further_variant_leaves_the_macros_and_a_new_value_changes_the_digest(tmp_path):
    texts = []
    for number, (rows, value) in enumerate((("ab", 3), ("abc", 3), ("abc", 4))):
        (tmp_path / f"{number}").mkdir()
        lines = [f"{row},{seed},{value + seed + index}" for index, row in enumerate(rows) for seed in (0, 1)]
        texts.append(numbers_of_csv(tmp_path / f"{number}", "\n".join(["model,seed,accuracy", *lines, ""])))
    before, after, changed = map(macros, texts)

    means = {name: value for name, value in before.items() if name.endswith("Accuracy")}
    assert means == {"recstudyTAAccuracy": "3.5", "recstudyTBAccuracy": "4.5"}
    assert {name: after[name] for name in means} == means
    assert len(after) > len(before)
    assert after.keys() == changed.keys()
    assert len({re.search("digest ([0-9a-f]+)", text)[1] for text in texts}) == 3


def test_a_name_that_two_numbers_would_have_is_given_to_neither(tmp_path):
    text = numbers_of_csv(tmp_path, "model,seed,accuracy\na-b,0,1\na-b,1,2\na b,0,3\na b,1,4\n")
    names = [name for name in macros(text) if re.search("TABAccuracy.{0,4}$", name)]

    assert r"% \recstudyTABAccuracy would have 2 meanings" in text
    assert "recstudyTABAccuracy" not in names
    assert sorted(macros(text)[name] for name in names if macros(text)[name] in ("1.5", "3.5")) == [
        "1.5",
        "3.5",
    ]


def test_numbers_of_one_variant_in_several_columns_have_macros_of_their_own():
    """LaTeX stops at a second \\newcommand of a name. One had ten, for the numbers of puzzles at ten budgets."""
    with open_bundle(EVIDENCE / "puzzle_test_time.quick.zip") as bundle:
        names = re.findall(r"newcommand\{(.*?)\}", numbers_tex(bundle.records))

    assert len(names) == len({*names})


def test_published_values_have_macros_with_their_source_and_verdict(records):
    found = macros(numbers_tex(records))

    name = "recstudyMadeUpViTRMBatchSizeOneTwoEightTopOneAccuracyViTRMTableOne"
    assert (found[f"{name}Published"], found[f"{name}Verdict"]) == ("93.1", "undecided")


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (["3 steps", "Top-1 accuracy"], "ThreeStepsTopOneAccuracy"),
        (["lr=1e-3, 64.5 %"], "LrOneEMinusThreeSixFourPointFivePercent"),
        (["\N{GREEK SMALL LETTER SIGMA}=0.3 \N{MULTIPLICATION SIGN} 2"], "SigmaZeroPointThreeTwo"),
        (["naïve C++_v2"], "NaiveCPlusPlusVTwo"),
    ],
)
def test_digits_and_signs_of_a_label_are_words(labels, name):
    assert macro_name("s", labels, "") == f"recstudyS{name}"


def test_long_labels_are_cut_and_stay_apart():
    long = "a claim with more words than anybody wants to type again and again in"
    names = [macro_name("s", [f"{long} {end}"], "") for end in ("March", "May")]

    assert names[0] != names[1]
    assert all(len(name) < 90 and name.isalpha() for name in names)


@needs_siunitx
@pytest.mark.parametrize(
    "name", ["table of hostile names", "differences of hostile names", "claims that wait", "effects", None]
)
def test_numbers_compile_in_text_and_formulas(judged, tmp_path, name):
    records = load_study(Results(judged), "digits", "imported")
    if name:
        records = records_of(SCENARIOS[name][0], tmp_path / "r")
        report = tuple(dump_report([SCENARIOS[name][1]]))
        records = replace(records, plan=replace(records.plan, report=report))
    text = numbers_tex(records)
    (tmp_path / "numbers.tex").write_text(text)
    # a formula has numbers only
    uses = [
        rf"\{macro} {f'${chr(92)}{macro}$' if re.fullmatch(r'[^a-z]*', value) else ''}"
        for macro, value in macros(text).items()
    ]
    body = "\n\n".join(uses)
    (tmp_path / "t.tex").write_text(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\input{numbers}\n\\begin{document}\n\\sloppy\n"
        f"{body}\n\\end{{document}}\n"
    )

    assert len(PdfReader(run(tmp_path / "t.tex")).pages) >= 1
    assert len(numbers_of(records)) > 2
