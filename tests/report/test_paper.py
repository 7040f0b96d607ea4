"""Tables for a paper: in a column, across the text or in parts, with letters of 8 points or more; and all
parts in one document.

The documents are compiled by pdflatex, which says where a line is wider than its place; sizes are read from
the PDF.
"""

import io
import re
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pytest
from made_up import TABLE1, finish, read, result, specs, variants, write_report, write_study
from pypdf import PdfReader
from rich.console import Console
from scenarios import SCENARIOS, records_of
from tex import compiled, letters, needs_siunitx, run

from recstudy.cli import main
from recstudy.records import Results
from recstudy.report import Differences, Table, dump_report, writers
from recstudy.report.kinds import render_part
from recstudy.report.names import DASH
from recstudy.report.table import Interval, Number, TableData, TableEntry, TableRow
from recstudy.report.tables.render import table_shown
from recstudy.report.venues import VENUES, Paper, paper_of
from recstudy.report.writers import TerminalTable, latex

MANY_METRICS = (
    "top1_accuracy",
    "params",
    "gflops",
    "macro_f1",
    "nll",
    "ece",
    "seconds",
    "epoch_seconds",
    "train_pflop",
)
LONG = "a variant whose_name=says_all_of/its_settings and then some, " * 2
EVIDENCE = Path(__file__).parents[2] / "studies/evidence/hrm_small_images.paper.zip"
SMALLEST = 8.0  # points, where 7 are asked for


def table(records, *metrics, **options):
    return table_shown(Table("t", metrics=metrics or ("top1_accuracy",), **options).cells(records))


def floats(text):
    return re.findall(r"\\begin\{(table\*?)\}", text)


def complete(root, **changes):
    """Every variant with a score of each of its three seeds."""
    results = write_study(root, **changes)
    for index in range(len(variants())):
        for seed in range(3):
            finish(results, index, seed, result(90.0 + index + seed / 10))
    return read(results)


@needs_siunitx
@pytest.mark.parametrize("venue", VENUES)
def test_a_wide_table_with_long_names_fits_the_page_of_every_venue(tmp_path, venue):
    labelled = [variant | {"label": f"{LONG}{index}"} for index, variant in enumerate(variants())]
    records = read(write_study(tmp_path / "r", variants=labelled))
    wide, narrow = (
        table(records, *MANY_METRICS, targets=TABLE1),
        table(records, "nll", title="no % of {this} is_bad & <such>"),
    )

    pdf = compiled(wide.latex_for(VENUES[venue]) + narrow.latex_for(VENUES[venue]), tmp_path, VENUES[venue])

    sizes = letters(pdf)
    assert min(sizes) >= SMALLEST
    assert any("93.1" in words for words in sizes.values())


@needs_siunitx
@pytest.mark.parametrize(
    "name",
    ["table of hostile names", "table by data set", "table of improvements", "table of captions with settings",
     "differences of hostile names", "claims that wait", "effects", "arithmetic given"],
)  # fmt: skip
def test_tables_of_every_kind_compile(tmp_path, name):
    rendered = render_part(records_of(SCENARIOS[name][0], tmp_path / "r"), SCENARIOS[name][1])

    assert compiled(rendered.latex_for(Paper(9, 9)), tmp_path).exists()


@needs_siunitx
def test_a_paper_of_all_parts_compiles_and_a_command_makes_it(tmp_path):
    report = [*specs(), Differences("drops", base="ViTRM, batch_size=64")]
    results = write_study(tmp_path / "r", report=dump_report(report))

    with pytest.raises(SystemExit, match="0"):
        main(["report", str(results.root), "--width", "3.25in", "--without", "Forward*"])

    folder = results.study("made_up", "paper") / "report"
    text = (folder / "paper.tex").read_text()
    assert "textwidth=3.2500in" in text
    assert r"\section*{\raggedright Made up (paper preset)}" in text
    assert [
        part in text for part in ("{tables/scores.tex}", "{tables/table1.tex}", "{tables/drops.tex}")
    ] == [True] * 3
    assert (
        "Forward"
        not in (folder / "tables" / "scores.tex")
        .read_text()
        .partition("tabular")[2]
        .partition("\\midrule")[0]
    )
    assert min(letters(run(folder / "paper.tex"))) >= 6  # in figures


def test_table_is_as_wide_as_its_content_needs(tmp_path):
    records = complete(tmp_path / "r")

    for venue, count, kind in (("neurips", 4, "table"), ("icml", 1, "table"), ("icml", 4, "table*")):
        assert set(floats(table(records, *MANY_METRICS[:count]).latex_for(VENUES[venue]))) == {kind}
    widest = table(records, *MANY_METRICS, targets=TABLE1).latex_for(VENUES["icml"])
    assert floats(widest) == ["table*"]  # costs are left out before a table splits
    assert "% Left out, because the page is too narrow: " in widest
    assert "Wall time" not in widest.partition("tabular}")[2]
    parts = table(records, "top1_accuracy", "macro_f1", "nll", "ece").latex_for(Paper(2.5, 2.5))
    labels = re.findall(r"\\label\{(.*)\}", parts)
    assert labels == ["tab:t", *(f"tab:t-{number}" for number in range(2, len(labels) + 1))]
    assert re.findall(r"part \d of \d", parts)[-1:] == [f"part {len(labels)} of {len(labels)}"]


@pytest.mark.parametrize("venue", VENUES)
@pytest.mark.parametrize("name", ["differences", "claims", "effects"])
def test_a_verdict_is_beside_its_difference_in_every_venue(tmp_path, venue, name):
    rendered = render_part(records_of(SCENARIOS[name][0], tmp_path / "r"), SCENARIOS[name][1])

    text = rendered.latex_for(VENUES[venue])

    assert len(floats(text)) == 1
    heads = text.partition(r"\toprule")[2].partition(r"\midrule")[0]
    assert "{verdict}" in heads
    assert "{size}" in heads or "{difference}" in heads


def test_a_table_of_long_lines_of_words_has_room_on_each_page():
    rows = tuple(TableRow("a variant with a long name " * 3, (TableEntry("yes"),)) for _ in range(40))

    text = latex(TableData("t", "t", ("verdict",), rows, notes=("some note",) * 12))

    counts = [part.count("a variant") // 3 for part in text.split(r"\begin{tabular}")[1:]]
    assert sum(counts) == 40
    assert max(counts) * 5 <= 42  # each has five lines
    assert text.count("Some note.") == 12


def test_published_values_align_with_their_digits(records):
    text = table(records, "top1_accuracy", "params", targets=TABLE1).latex_for(Paper(9, 9))

    assert r"ViTRM & 64 & 93.1 & {[}92.8, 93.4] & 92.6 & undecided & 3624971 &  & 3.6 & M, agrees" in text
    assert "lrS[table-format=2.1]@{~}lS[table-format=2.1]@{~}lS[table-format=8.0]" in text


def test_captions_keep_names_and_signs_of_mathematics():
    row = TableRow("a", (TableEntry("p \N{NOT EQUAL TO} 1"),))

    text = latex(TableData("t", "HRM vs. CNN: weight_decay & lr", ("a",), (row,)), finding="best: a_b")

    assert r"\caption{HRM vs. CNN: weight\_decay \& lr (best: a\_b).}" in text.replace(r"\penalty500 ", "")
    assert r"p $\neq$ 1" in text


def test_a_paper_names_the_debian_and_tex_live_package_of_each_package_that_it_needs(tmp_path):
    results = write_study(tmp_path / "r", report=dump_report(specs()))
    text = (write_report(results, "made_up", "paper").parent / "paper.tex").read_text()
    comment, _, document = text.partition(r"\documentclass")
    packages = re.findall(
        r"\\usepackage(?:\[[^]]*\])?\{([^}]*)\}", document.partition(r"\begin{document}")[0]
    )

    names = {name for names in packages for name in names.split(",")}
    assert names == {"geometry", "fontenc", "lmodern", "array", "booktabs", "graphicx", "siunitx"}
    origins = dict(re.findall(r"^%   (.*?)  +Debian: (\S+) +TeX Live: ", comment, re.M))
    assert {name for words in origins for name in words.split(", ")} == names
    assert origins["siunitx"] == "texlive-science"


def test_a_column_that_no_table_has_is_named(tmp_path, caplog):
    results = write_study(tmp_path / "r", report=dump_report(specs()[:2]))

    write_report(results, "made_up", "paper", paper=paper_of(hidden_columns=("forwrd*", "64")))

    assert caplog.messages == ["--without forwrd*: no table of made_up has such a column"]


def typed():
    """Numbers, intervals and words as they stand in a place, and one in which nothing can be aligned."""
    rows = (
        TableRow(
            "a",
            (
                TableEntry((Number(93.14), " ", Interval(92, 94)), bold=True),
                TableEntry(Number(3624971, ",.0f")),
                TableEntry(Interval(-1.1, 0.5, "+.1f")),
            ),
        ),
        TableRow(
            "b",
            (
                TableEntry((Number(-7.0), " ", Interval(-8, -6), " (2 of 3)")),
                TableEntry(Number(1e-07, ".3g")),
                TableEntry("not run"),
            ),
        ),
        TableRow("c", (TableEntry("not run"), TableEntry(Number(0.5, ".3g")), TableEntry(DASH))),
    )
    return TableData("t", "typed", ("score (%)", "parameters", "difference"), rows, "model")


def test_each_writer_formats_a_number_for_itself():
    """93.14 as `93.1` everywhere; LaTeX has no separators, which siunitx sets, and knows 2 digits and a sign
    from the values.
    """
    text = latex(typed())
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(writers.TerminalTable(typed()))

    assert "{@{}lS[table-format=+2.1]@{~}lS[table-format=7.1]@{~}lr@{}}" in text
    assert r"a & \bfseries 93.1 & {[}92.0, 94.0] & 3624971 &  & {[}$-$1.1, +0.5] \\" in text
    assert r"b & -7.0 & {[}$-$8.0, $-$6.0] (2 of 3) &  & 1$\times10^{-7}$ & not run \\" in text
    assert r"c &  & not run & 0.5 &  & \textendash{} \\" in text
    assert r"| a | **93.1 \[92.0, 94.0\]** | 3,624,971 | \[-1.1, +0.5\] |" in writers.markdown(typed())
    assert "<td><strong>93.1 [92.0, 94.0]</strong></td><td>3,624,971</td>" in writers.html(typed())
    assert "-7.0 [-8.0, -6.0] (2 of 3)" in console.export_text()


def test_a_terminal_shows_every_number_and_note_whole(records):
    table_content = Table("t", metrics=MANY_METRICS, targets=TABLE1).cells(records)
    console = Console(width=80, record=True, file=io.StringIO())

    console.print(TerminalTable(table_shown(table_content).table))

    text, page = console.export_text(), table_shown(table_content).table
    assert max(map(len, text.splitlines())) <= 80
    numbers = [entry.text for line in page.lines for entry in line[1:] if len(entry.text) <= 30]
    assert [number for number in numbers if number not in text] == []
    assert all(" ".join(note.split()) in " ".join(text.split()) for note in map(str, page.notes))


def test_widths_have_units():
    assert paper_of(width="8.5cm") == Paper(8.5 / 2.54, 8.5 / 2.54)
    assert paper_of(width="289.08pt").column == pytest.approx(4.0)
    assert paper_of("acl").columns == 2


def test_greek_letters_are_mathematics_and_other_scripts_name_luatex():
    row = TableRow("\N{MICRO SIGN}-net 5e-07", (TableEntry("\N{GREEK CAPITAL LETTER DELTA}"),))
    greek = TableData("t", "\N{GREEK SMALL LETTER ALPHA}", ("name",), (row,))
    chinese = TableData("t", "t", ("name",), (replace(row, label="\u65e5\u672c"),))

    text = latex(greek)

    assert r"$\mu$-net 5$\times10^{-7}$ & $\Delta$ \\" in text
    assert r"\caption{$\alpha$.}" in text
    assert "LuaLaTeX" not in text
    assert "% pdfLaTeX cannot print \u65e5\u672c: compile with LuaLaTeX" in latex(chinese)


WIDE_GRID = [
    (
        optimizer,
        rate,
        size,
        seed,
        80 + 2 * (optimizer == "adam") - 30 * rate + size % 7 + (seed * 7 + size) % 5 / 9,
    )
    for optimizer in ("adam", "sgd")
    for rate in (0.001, 0.01, 0.1)
    for size in (20, 1_000, 50_000)
    for seed in range(3)
]


@needs_siunitx
@pytest.mark.parametrize("venue", ["neurips", "icml"])
def test_the_paper_of_a_judged_grid_and_of_published_records_compiles(tmp_path, venue):
    grid = pd.DataFrame(WIDE_GRID, columns=["optimizer", "learning_rate", "batch_size", "seed", "accuracy"])
    grid = grid.assign(seconds=grid["batch_size"] * 1.37, params=grid["batch_size"] * 211)
    grid.to_csv(tmp_path / "grid.csv", index=False)
    with pytest.raises(SystemExit, match="0"):
        main(["judge", str(tmp_path / "grid.csv"), "--results", str(tmp_path / "r")])
    with ZipFile(EVIDENCE) as bundle:
        bundle.extractall(tmp_path)
    for root, name, preset in (
        ("r", "grid", "imported"),
        ("hrm_small_images/results", "hrm_small_images", "paper"),
    ):
        page = write_report(Results(tmp_path / root), name, preset, paper=VENUES[venue])

        text = "".join(sheet.extract_text() for sheet in PdfReader(run(page.parent / "paper.tex")).pages)

        assert "verdict" in text
        assert not re.search(r"part \d of \d", text)
        assert not re.search(r"(?<![\w,.])\d{5,}\b", text)  # thousands are grouped
