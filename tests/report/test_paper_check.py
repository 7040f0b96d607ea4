"""`recstudy check-paper`: three papers that are true to their records, and twenty planted errors in each.

The check was written with the first two at hand. In the third it found all errors at once, with five false alarms, which
were then removed.
"""

from pathlib import Path
from zipfile import ZipFile

import pytest
from test_numbers import DIGITS, judged  # noqa: F401

import recstudy
from recstudy.records import Results
from recstudy.report.paper_check import PaperCheck
from recstudy.report.study_records import load_study

# kind of error, words of the paper, the same with the error
PLANTED = [
    ("wrong digits", r"A medium MLP reaches 93.8", r"A medium MLP reaches 98.3"),
    ("a difference that is none", r"helps by 16.0 points", r"helps by 18.0 points"),
    ("number of seeds in words", r"undecided after five seeds", r"undecided after ten seeds"),
    ("number of seeds", r"each with 5 seeds", r"each with 3 seeds"),
    ("wrong unit factor", r"\num{19210} params", r"\num{192100} params"),
    ("wrong digits of a count", r"8{,}970 params", r"8{,}790 params"),
    ("wrong interval in a table", r"77.8 [74.7, 80.8] &", r"77.8 [74.7, 83.8] &"),
    ("swapped rows in a table", r"& \textbf{96.8} [96.3, 97.4]", r"& \textbf{96.4} [96.3, 97.4]"),
    ("wrong n in a table", r"\textbf{0.160} [0.144, 0.177] & 8970 & 5", r"\textbf{0.160} [0.144, 0.177] & 8970 & 4"),
    ("wrong interval in the text", r"CI 74.7 to 80.8, $n=5$", r"CI 77.4 to 80.8, $n=5$"),
    ("wrong p", r"$p<0.001$), so a hidden", r"$p=0.02$), so a hidden"),
    ("swapped variants", "accuracy of 96.8\\,\\% and the medium MLP 93.8", "accuracy of 93.8\\,\\% and the medium MLP 96.8"),
    ("wrong verdict word", r"is not significantly worse", r"is significantly worse"),
    ("wrong verdict of a claim", r"layer helps, remains undecided", r"layer helps, is supported"),
    ("exchanged metrics", r"(accuracy 93.8\,\%, NLL 0.354)", r"(accuracy 35.4\,\%, NLL 0.938)"),
    ("wrong difference in a table", r"$-33.56$", r"$-35.36$"),
    ("wrong verdict in a table", r"1.000 & no significant difference", r"1.000 & worse"),
    ("wrong ratio", r"7.4 times", r"8.4 times"),
    ("stale rounding", r"96.4\,\% accuracy for the deep MLP", r"96.5\,\% accuracy for the deep MLP"),
    ("number of runs", r"We ran 25 runs", r"We ran 30 runs"),
]  # fmt: skip


OTHER_PLANTED = [
    ("1.05 million", "10.5 million"), ("260,672 parameters", "262,672 parameters"), ("$97.8\\%$ (95", "$98.7\\%$ (95"),
    ("[97.6, 98.0]", "[97.6, 99.0]"), ("$99.10\\%$", "$99.40\\%$"), ("0.24 points", "0.42 points"), ("98.02", "98.20"),
    ("77.1\\% with", "77.7\\% with"), ("84.9]", "89.4]"), ("84.5", "48.5"), ("2135", "1235"), ("545 seconds", "454 seconds"),
    ("$99.1$", "$97.7$"), ("1.321", "1.231"), ("261{,}824", "216{,}824"), ("29.7\\%", "27.9\\%"),
    ("three seeds", "five seeds"), ("18 runs", "20 runs"), ("is still undecided", "is supported"), ("0.573", "57.3"),
]  # fmt: skip


OTHER_STYLE = [
    ("classifies 96.8", "classifies 98.6"),
    ("just 0.167", "just 0.617"),
    ("(96.4\\,\\%, NLL 0.160)", "(96.8\\,\\%, NLL 0.160)"),
    ("by 3.0 points", "by 4.0 points"),
    ("at 93.8", "at 92.8"),
    ("manages 77.8", "manages 87.8"),
    ("610 versus 650", "610 versus 690"),
    ("loses 14.6", "loses 16.4"),
    ("accuracy of 63.3", "accuracy of 66.3"),
    ("[54.5, 71.7]", "[45.5, 71.7]"),
    ("amounts to 0.194", "amounts to 0.149"),
    ("no significant difference in", "a significant difference in"),
    ("$p=0.004$", "$p=0.04$"),
    ("is undecided", "is supported"),
    ("2.02--4.06", "2.20--4.06"),
    ("$n = 5$", "$n = 10$"),
    ("20.5\\,\\%", "25.0\\,\\%"),
    ("19.2k", "192k"),
    ("0.35 & 0.17", "0.17 & 0.35"),
    ("over 5 seeds", "over 3 seeds"),
]


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """The records of the study HRM small images."""
    root = tmp_path_factory.mktemp("bundle")
    with ZipFile(Path(__file__).parents[2] / "studies/evidence/hrm_small_images.paper.zip") as bundle:
        bundle.extractall(root)
    return load_study(Results(root / "hrm_small_images/results"), "hrm_small_images", "paper")


@pytest.fixture(scope="module")
def digits(judged):  # noqa: F811
    return load_study(Results(judged), "digits", "imported")


def planted(text, errors):
    """The text with its errors, and for each error the numbers of its lines."""
    for words, error in errors:
        assert text.count(words) == 1, words
        text = text.replace(words, error)
    places = {}
    for _, error in errors:
        first = text[: text.index(error)].count("\n") + 1
        places[error] = range(first, first + 1 + error.count("\n"))
    return text, places


@pytest.mark.parametrize(
    ("records", "paper", "errors"),
    [
        ("digits", "paper.tex", [errors[1:] for errors in PLANTED]),
        ("digits", "other_style.tex", OTHER_STYLE),
        ("bundled", "small_images.tex", OTHER_PLANTED),
    ],
)
def test_planted_errors_are_found_without_false_alarms(request, tmp_path, records, paper, errors):
    text, places = planted((DIGITS / paper).read_text(), errors)
    (tmp_path / paper).write_text(text)
    studies = [request.getfixturevalue(records)]
    true_paper, false_paper = (PaperCheck(folder / paper, studies) for folder in (DIGITS, tmp_path))

    lines = {fault.line for fault in false_paper.faults}
    assert [error for error, place in places.items() if lines.isdisjoint(place)] == []
    planted_lines = {line for place in places.values() for line in place}
    assert lines <= planted_lines
    assert [*map(str, true_paper.faults)] == []
    assert true_paper.agreeing > len(errors)


def test_faults_have_file_line_and_value_and_the_exit_code_is_1(judged, tmp_path, typed):  # noqa: F811
    (tmp_path / "parts").mkdir()
    (tmp_path / "main.tex").write_text(
        "The large MLP reaches 11.1\\,\\% accuracy.\n\\begin{document}\n% The large MLP reaches 12.3\\,\\% accuracy.\n"
        "The large MLP reaches \\recstudyDigitsLargeMLPAccuracy{}\\,\\% accuracy.\n"
        "\\input{parts/text} \\input{parts/table.tex}\n\\end{document}\n"
    )
    (tmp_path / "parts/text.tex").write_text(
        "\n\nThe large\nMLP reaches 95.8\\,\\% accuracy \\cite[p.~77]{a}.\n"
    )
    own = judged / "studies/digits/imported/report/tables/results.tex"
    (tmp_path / "parts/table.tex").write_text(own.read_text())

    output = typed("check-paper", tmp_path / "main.tex", judged, code=1)

    assert (
        f"{tmp_path}/parts/text.tex:4: 95.8 %: the records have 96.8 (large MLP, Accuracy: mean)\n" in output
    )
    assert output.endswith(
        "main.tex: checked 1 numbers and verdicts: 1 differ from the records, 0 agree, 0 are not about the records.\n"
    )
    (tmp_path / "parts/text.tex").write_text("The large MLP reaches 96.8\\,\\% accuracy.\n")
    typed("check-paper", tmp_path / "main.tex", judged)


def test_a_missing_input_is_named_with_its_line(judged, tmp_path, typed):  # noqa: F811
    (tmp_path / "main.tex").write_text("\n\\input{text}\n")

    output = typed("check-paper", tmp_path / "main.tex", judged, code=2)

    assert f"{tmp_path}/main.tex, line 2: {tmp_path}/text.tex cannot be read: No such file" in output


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("The large MLP has 19.2k params and the medium MLP 4.81k params.", ""),
        ("The large MLP has 1.92k params.", "1.92k"),
        ("Accuracies of the deep MLP and the large MLP are 96.4\\% and 96.8\\%, respectively.", ""),
        ("Accuracies of the deep MLP and the large MLP are 96.8\\% and 96.4\\%, respectively.", "96.4%"),
        ("The accuracy of the medium MLP is \\qty{93.8}{\\percent}.", ""),
        ("The accuracy of the medium MLP is \\qty{39.8}{\\percent}.", "39.8%"),
        ("The medium MLP has a 74\\% lower NLL than the linear model.", ""),
        ("The medium MLP has a 64\\% lower NLL than the linear model.", "64%"),
        ("Compared with the linear model, the small MLP has 40 fewer params.", ""),
        ("Following [3], accuracy of the large MLP is measured on 500 images.", ""),
        ("Accuracy rises from 77.8\\% (linear) to 93.8\\% (medium MLP) to 96.8\\% (large MLP).", ""),
        ("The accuracy of the linear model is 77.8\\% (95\\% CI 74.7--80.9).", "80.9"),
        ("In 2019, we trained the large MLP for 30 epochs on 1297 images with batches of 200.", ""),
        ("The large MLP and the deep MLP do not differ significantly in accuracy.", ""),
        ("The large MLP and the deep MLP differ significantly in accuracy.", "significantly"),
    ],
)  # fmt: skip
def test_single_sentences(digits, tmp_path, text, fault):
    (tmp_path / "t.tex").write_text(text)

    faults = PaperCheck(tmp_path / "t.tex", [digits]).faults

    assert [found.text for found in faults] == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (
            r"opt & lr & Accuracy (\%) \\ a & 0.1 & 80.5 \\ b & 0.1 & 81.5 \\",
            "81.5: the records have 82.5 (opt b, lr 0.1",
        ),
        (
            r"opt & lr & Accuracy (\%) \\ a & 0.1 & 80.5 \\ b & 0.1 & 82.5 \\",
            "0 differ from the records, 2 agree",
        ),
        (
            r"it & loss \\ yes & 0.77 \\",
            "No number is recognized. Name metrics and variants as the page does",
        ),
    ],
)
def test_columns_of_levels_name_a_row_and_a_paper_without_names_is_refused(
    tmp_path, monkeypatch, typed, words, output
):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{opt},{lr},{seed},{score + lr * 5 + seed}"
        for opt, score in (("a", 79), ("b", 81))
        for lr in (0.1, 0.2)
        for seed in (0, 1, 2)
    ]
    judge("opt,lr,seed,accuracy", *rows)
    Path("main.tex").write_text(
        rf"\begin{{document}}\begin{{tabular}}{{lll}} {words} \end{{tabular}}\end{{document}}"
    )

    code = 0 if "2 agree" in output else 1

    assert output in typed("check-paper", "main.tex", "results", code=code)


def judge(*rows: str) -> None:
    """Judge a table with these rows."""
    Path("runs.csv").write_text("\n".join(rows) + "\n")
    recstudy.judge("runs.csv")
