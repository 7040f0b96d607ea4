import csv
import io
from pathlib import Path

import pytest
from made_up import as_result, base, beside, findings, run_id, specs, variants, write_study
from rich.console import Console
from tex import compiled, needs_siunitx

from recstudy.analysis import Table
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables import entries
from recstudy.analysis.tables.render import cell_text, csv_text, narrow, table_shown
from recstudy.analysis.tables.table import table_data
from recstudy.errors import ConfigError

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = '<script>alert("x")</script> & \\evil{} $a_b^c$ 100% | *b* [1](http://x) #~ =1+1'


def test_cells_hold_mean_interval_counts_and_runs(records):
    table = table_data(records, specs()[0])

    score = table.rows[1].cells[0]
    assert (score.value, score.n, score.expected, score.failed, score.diverged) == (pytest.approx(93.1), 2, 3, ("code",), 0)
    assert (score.low, score.high) == pytest.approx(
        (91.1888, 94.7930), abs=1e-4
    )  # by three degrees of freedom, on angles of 1,000 items
    assert score.run_ids == (run_id(1, 0), run_id(1, 1))
    assert beside(score) == ("93.1", "undecided")


def test_what_cells_say(records):
    table = table_data(records, Table("t", metrics=("top1_accuracy", "params", "gflops", "nll")))

    assert [[cell_text(cell) for cell in row.cells] for row in table.rows] == [
        ["93.1 [91.6, 94.5] (n=3)", "3,624,971", "0.3451", "0.310 (n=3)"],
        ["93.1 [91.2, 94.8] (n=2 of 3; 1 failed: code)", "3,624,971", "0.3451", "0.310 (n=2 of 3; 1 failed: code)"],
        ["94.1 [90.5, 96.9] (n=1 of 3; 1 diverged)", "16,876,138", "0.3451", "0.310 (n=1 of 3; 1 diverged)"],
        ["– not run"] * 4,  # noqa: RUF001
    ]


def test_a_score_after_so_many_steps_is_a_column_of_its_own(records):
    """The made-up runs score two points less after one step than after two."""
    table = table_data(records, Table("t", metrics=("top1_accuracy", "top1_accuracy@1", "top1_accuracy@2")))

    for row in table.rows[:3]:
        last, first, second = (cell.value for cell in row.cells)
        assert (first, second) == (pytest.approx(last - 2), last)
    assert table.columns[1] == "Top-1 accuracy after 1 (%)"


def test_crossed_table_has_the_papers_layout(records):
    table = table_data(records, specs()[1])

    assert table.columns == ("64", "128", "Parameters", "Forward (GFLOP/image)")
    assert [row.label for row in table.rows] == ["ViTRM", "ViT-Small"]
    assert [beside(cell)[0] for cell in table.rows[1].cells] == ["94.0", "93.9", "16.9 M", ""]


def test_pooled_variants_are_named(records):
    table = table_data(records, Table("t", rows="data", columns="batch_size"))

    assert table.warnings == ("each cell pools the levels of model",)
    assert table.rows[0].cells[0].n == 4


def swept(*levels: dict[str, object]) -> list[dict[str, object]]:
    label = ", ".join
    return [
        {
            "label": label(f"{axis}={value}" for axis, value in one.items()),
            "levels": one,
            "changes": {},
            "model": "A",
            "data": "B",
        }
        for one in levels
    ]


@pytest.mark.parametrize(
    ("levels", "corner", "labels"),
    [
        ([{"layers": 2}, {"layers": 4}], "layers", ["2", "4"]),
        (
            [{"layers": "2"}, {"batch_size": 8}, {"top_k": 1, "experts": 2}],
            "variant",
            ["layers=2", "batch_size=8", "top_k=1, experts=2"],
        ),
        ([{"model": "ViTRM"}, {"batch_size": 8}], "variant", ["ViTRM", "batch_size=8"]),
    ],
)
def test_a_level_stands_alone_only_under_the_name_of_its_axis(tmp_path, levels, corner, labels):
    records = load_study(write_study(tmp_path / "r", variants=swept(*levels, *levels)[:4]), "made_up", "paper")

    table = table_data(records, Table("t"))

    assert (table.corner, [row.label for row in table.rows][: len(labels)]) == (corner, labels)
    assert list(table_data(records, Table("t", across=True)).columns)[: len(labels)] == labels


def test_where_keeps_the_chosen_variants(records):
    table = table_data(records, Table("t", where={"batch_size": 64}))

    assert [row.label for row in table.rows] == ["ViTRM, batch_size=64", "ViT-Small, batch_size=64"]
    assert "4 of 6 runs done" in str(table.caption)


def test_an_unknown_axis_is_refused(records):
    with pytest.raises(ConfigError, match="the report names 'modle', but the study has model, batch_size"):
        table_data(records, Table("t", rows="modle", columns="batch_size"))


def test_best_is_not_marked_across_data_sets(tmp_path):
    mixed = variants()
    mixed[0]["data"] = "MNIST"
    records = load_study(write_study(tmp_path / "r", variants=mixed), "made_up", "paper")

    assert not any(cell.best for row in table_data(records, Table("t")).rows for cell in row.cells)


def test_caption_says_what_was_measured_and_how_to_finish(records):
    assert str(table_data(records, specs()[0]).caption) == (
        "CIFAR-10; epoch selected on the test set, as in the paper: optimistic; 6 of 12 runs done, 1 diverged, 1 failed. "
        "Mean and 95 % interval over seeds. Finish with: python studies/made_up.py --preset paper"
    )


def test_smoke_is_said_first(tmp_path):
    tiny = base(epochs=2)
    tiny["data"]["limit"] = 32
    records = load_study(write_study(tmp_path / "r", base=tiny, smoke=True), "made_up", "paper")

    text = table_shown(table_data(records, specs()[0])).markdown

    assert text.splitlines()[2] == "**smoke run: 2 epochs on 32 images; the numbers mean nothing**"
    assert "93.1 \\[91.6, 94.5\\]" in text


@pytest.mark.parametrize(("form", "ending"), [("markdown", "md"), ("latex", "tex"), ("csv", "csv")])
@pytest.mark.parametrize("number", [0, 1])
def test_golden(records, number, form, ending):
    table = table_data(records, specs()[number])

    assert getattr(table_shown(table), form) == (GOLDEN / f"{table.name}.{ending}").read_text()


def test_csv_has_full_precision_and_one_line_a_cell(records):
    lines = list(csv.DictReader(csv_text(table_data(records, specs()[0])).splitlines()))

    assert len(lines) == 12
    assert float(lines[0]["high"]) == pytest.approx(94.49909047451868, rel=1e-12)
    assert lines[0]["run_ids"].split() == [run_id(0, seed) for seed in range(3)]
    assert lines[6]["reasons"] == "epochs 1000, not 300"


def everywhere(table):
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(entries.Terminal(narrow(table)))
    return {
        "md": table_shown(table).markdown,
        "tex": table_shown(table).latex,
        "html": table_shown(table).html,
        "terminal": console.export_text(),
    }


@pytest.mark.parametrize("planned", [True, False])
def test_synthetic_data_is_said_in_every_rendering(tmp_path, planned):
    """From the plan, before any run is finished; or from a run that was made before plans said so."""
    chosen = [variant | {"synthetic": planned} for variant in variants()]
    results = write_study(tmp_path / "r", variants=chosen, **({"seeds": []} if planned else {}))
    if not planned:
        made = findings(80.0, 0)
        results.run(run_id(0, 0)).finish(as_result(made | {"provenance": made["provenance"] | {"synthetic": True}}))
    table = table_data(load_study(results, "made_up", "paper"), specs()[0])

    assert str(table.caption).startswith("CIFAR-10 (synthetic data); ")
    for text in everywhere(table).values():
        assert "ynthetic data: generated by a program, no measure of the real task" in text
    flags = [line["synthetic"] for line in csv.DictReader(csv_text(table).splitlines())]
    assert flags == (["True"] * 12 if planned else ["True"] * 3 + ["False"] * 9)


def test_data_that_is_not_synthetic_is_not_called_so(records):
    assert "synthetic" not in "".join(everywhere(table_data(records, specs()[0])).values())


def hostile_table(tmp_path):
    named = variants()
    named[0]["label"] = named[0]["data"] = HOSTILE
    records = load_study(write_study(tmp_path / "r", variants=named, command=HOSTILE), "made_up", "paper")
    return table_data(records, Table("h", title=HOSTILE, targets=specs()[0].targets))


def test_hostile_names_are_text_everywhere(tmp_path):
    table = hostile_table(tmp_path)

    page = table_shown(table).html
    assert "<script" not in page
    assert "&lt;script&gt;alert(&quot;x&quot;)" in page
    shown = table_shown(table).markdown
    assert "<script" not in shown
    assert "\\*b\\* \\[1\\](http://x)" in shown
    assert all(line.count("|") - line.count("\\|") == 8 for line in shown.splitlines() if line.startswith("| "))
    console = Console(width=300, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(entries.Terminal(narrow(table)))
    assert "[1](http://x)" in console.export_text()


def test_published_values_stand_beside_ours_while_there_is_room(records):
    """A label, the metrics, a published column for each of two and the seeds make nine columns with five metrics, and ten with six."""
    metrics = ("top1_accuracy", "params", "gflops", "macro_f1", "nll", "ece")

    beside, beneath = (
        table_shown(table_data(records, Table("t", metrics=metrics[:count], targets=specs()[0].targets))).markdown.splitlines()[
            2:
        ]
        for count in (5, 6)
    )

    assert beside[0].startswith("| variant | Top-1 accuracy (%) | published | Parameters | published | Forward (GFLOP/image) |")
    assert beside[2].startswith(
        "| ViTRM, batch\\_size=64 | 93.1 \\[91.6, 94.5\\] | 92.6, consistent | 3,624,971 | 3.6 M, reproduced |"
    )
    assert "published" not in beneath[0]
    assert beneath[3] == "| published | 92.6, consistent | 3.6 M, reproduced | – | – | – | – |  |"  # noqa: RUF001
    assert beneath[7] == "| published | 94.0 \\[1\\] | 16.9 M, reproduced | – | – | – | – |  |"  # noqa: RUF001
    assert "\\[1\\] not comparable: epochs 1000, not 300" in beneath


def test_a_note_has_no_mark_without_its_row_in_a_cut_table(records):
    """The first rows of a terminal table number the reasons that they show."""
    table = table_data(records, specs()[0])
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(entries.Terminal(narrow(table, 2)))
    console.print(entries.Terminal(narrow(table, 3)))

    first, second = console.export_text().split("Accuracy and cost")[1:]
    assert "[1]" not in first
    assert "the first 2 of 4 rows; all are in scores.md" in first
    assert "[1] not comparable: epochs 1000, not 300" in second


def test_heads_are_cut_into_lines_where_they_are_long(records):
    text = table_shown(table_data(records, Table("t", metrics=("top1_accuracy", "ece", "images_per_second")))).latex

    assert (
        r"& \multicolumn{2}{c}{\shortstack{Top-1 accuracy\\(\%)}} & {ECE (\%)} & {\shortstack{Throughput\\(images/s)}} & n"
        in text
    )


@needs_siunitx
def test_latex_compiles(tmp_path):
    assert compiled(table_shown(hostile_table(tmp_path)).latex, tmp_path).exists()


def test_a_finished_run_without_the_metric_is_not_called_not_run(records):
    """No run has an AUROC: of variants with finished runs that is all there is to say; one without runs was not run."""
    table = table_data(records, Table("t", metrics=("top1_accuracy", "auroc")))
    said = [(row.cells[0].n, cell_text(row.cells[1])) for row in table.rows]

    assert (True, "\N{EN DASH}") in [(n > 0, text) for n, text in said]
    assert not any("not run" in text for n, text in said if n)


def test_a_table_without_a_title_says_what_it_shows():
    assert Table("depths").heading == "Top-1 accuracy of each variant"
    assert Table("solved", metrics=("exact_accuracy",), rows="model", columns="train.batch_size").heading == (
        "Exact accuracy by model and batch size"
    )
    assert Table("t", metrics=("auroc.*", "nll", "brier", "ece")).heading == "AUROC, NLL and other metrics of each variant"
    assert Table("t", metrics=("params",), title="Size").heading == "Size"
