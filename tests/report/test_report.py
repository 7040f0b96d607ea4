import hashlib
import json
import os
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from golden_pages import Tags
from made_up import (
    failure,
    finish,
    plan,
    printed,
    result,
    run_id,
    specs,
    variants,
    write_alignment,
    write_captions,
    write_losses,
    write_mistakes,
    write_plan,
    write_report,
    write_study,
)
from scenarios import HOSTILE, hostile

from recstudy import Claim
from recstudy.base.errors import ConfigError, StorageError
from recstudy.records import write_json
from recstudy.records.files import append_line
from recstudy.records.locks import locked
from recstudy.recursive import Alignment, Captions, Mistakes
from recstudy.report import Arithmetic, Claims, LossTrace, Table, dump_report
from recstudy.report.page import packed, safe_names
from recstudy.report.shown import MANIFEST
from recstudy.report.status import show_status, studies_at
from recstudy.report.writing import show_report


def test_a_plan_with_the_papers_numbers_is_read_with_their_names(tmp_path):
    """As plans were before studies named their papers; `003 wide` is a variant's own label."""
    claim = Claim(
        "004: HRM is worse", lower={"batch_size": 64}, higher={"batch_size": 128}, metric="top1_accuracy"
    )
    report = [Table("scores", title="Accuracy (002, section 4.3)"), Claims(claims=(claim,))]
    labelled = [record | {"label": f"003 wide, {record['label']}"} for record in variants()]
    results = write_study(
        tmp_path, variants=labelled, question="Does 002 4.4.1 hold?", report=dump_report(report)
    )

    words = Tags(write_report(results, "made_up", "paper").read_text()).words

    titles = (
        "Does ViTRM 4.4.1 hold?",
        "Accuracy (ViTRM, section 4.3)",
        "HRM-Small-Images: HRM is worse",
        "003 wide",
    )
    assert [title for title in titles if title not in words] == []


def test_page_loads_nothing(results):
    page = write_report(results, "made_up", "paper").read_text()

    loads = [
        attrs
        for tag, attrs in Tags(page).tags
        if tag in ("script", "link", "img", "iframe") and (attrs.get("src") or attrs.get("href"))
    ]
    assert [(link["rel"], (link["href"] or "").partition(",")[0]) for link in loads] == [
        ("icon", "data:image/svg+xml")
    ]
    assert page.count(packed().decode()) == 1


def test_reports_are_the_same_byte_for_byte(results):
    page = write_report(results, "made_up", "paper")
    first = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}

    write_report(results, "made_up", "paper")

    assert first == {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}


def test_hostile_names_add_no_tag(tmp_path):
    plain_page = Tags(write_report(write_study(tmp_path / "plain"), "made_up", "paper").read_text())
    results = hostile(tmp_path / "hostile", question=HOSTILE, description=HOSTILE)
    write_json(
        results.run(run_id(1, 2)).failure,
        failure() | {"class": HOSTILE, "error": HOSTILE, "traceback": HOSTILE},
    )

    page = Tags(write_report(results, "made_up", "paper").read_text())

    kinds = {tag for tag, _ in plain_page.tags}
    assert {tag for tag, _ in page.tags} <= kinds
    assert [tag for tag, _ in page.tags].count("script") == [tag for tag, _ in plain_page.tags].count(
        "script"
    )
    assert HOSTILE in page.words


def test_a_report_that_cannot_be_written_is_one_error_and_no_parts_own(tmp_path, caplog):
    results = write_study(tmp_path / "r")
    folder = results.study("made_up", "paper") / "report"
    folder.mkdir()
    (folder / "tables").write_text("in the folder's place")

    with pytest.raises(StorageError, match=r"tables: Not a directory"):
        write_report(results, "made_up", "paper")

    assert caplog.messages == []


def test_files_of_an_older_report_are_removed_but_for_those_that_a_user_changed(tmp_path, caplog):
    """A file of the user's own, one that they changed, and the target of a link with an old name stay."""
    parts = [Table("scores"), Table("older"), Table("linked"), *specs()[2:]]
    results = write_study(tmp_path / "r", report=dump_report(parts))
    tables = write_report(results, "made_up", "paper").parent / "tables"
    (tables / "mine.csv").write_text("mine")
    (tables / "older.md").write_text("with a remark")
    (tables / "linked.md").rename(tmp_path / "outside.md")
    (tables / "linked.md").symlink_to(tmp_path / "outside.md")
    write_study(tmp_path / "r", report=dump_report([Table("scores")]))

    page = write_report(results, "made_up", "paper")

    assert [path.name for path in page.parent.glob("figures/*.html")] == ["means.html"]  # of the variants
    kept_files = ["linked.md", "mine.csv", "older.md", "scores.csv", "scores.md", "scores.tex"]
    assert sorted(path.name for path in tables.iterdir()) == kept_files
    assert (tmp_path / "outside.md").exists()
    assert "older.md is from an earlier report. It was changed since and is not removed" in caplog.text


def test_removed_figures_of_an_export_are_named(tmp_path, caplog):
    results = write_study(tmp_path / "r", report=dump_report([Table("scores")]))
    folder = write_report(results, "made_up", "paper").parent
    (folder / "figures/means.pdf").write_bytes(b"%PDF")
    checksums = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(
        json.dumps(checksums | {"figures/means.pdf": hashlib.sha256(b"%PDF").hexdigest()})
    )

    write_report(results, "made_up", "paper")

    assert not (folder / "figures/means.pdf").exists()
    assert "1 exported figure of an earlier report will be removed, such as figures/means.pdf" in caplog.text


def test_a_manifest_of_somebody_else_removes_nothing_outside_of_the_reports_folders(tmp_path):
    results = write_study(tmp_path / "r", report=dump_report([Table("scores")]))
    folder = write_report(results, "made_up", "paper").parent
    (tmp_path / "r/keep").write_text("mine")
    digest = hashlib.sha256(b"mine").hexdigest()
    write_json(
        folder / "files.json",
        {f"{parent_path}keep": digest for parent_path in ("../../../../", "tables/../../../../../", "/", "")},
    )

    write_report(results, "made_up", "paper")

    assert (tmp_path / "r/keep").read_text() == "mine"


@pytest.mark.parametrize("link", ["report", "report/tables", "report/figures"])
def test_nothing_is_written_or_removed_through_a_link(tmp_path, monkeypatch, link):
    # a folder of folders is looked at once a second, and this may take less
    monkeypatch.setattr("recstudy.base.opened.SAME_S", 0.0)
    results = write_study(tmp_path / "r")
    folder = write_report(results, "made_up", "paper").parent
    old_files = sorted(folder.rglob("*"))
    place = results.study("made_up", "paper") / link
    place.rename(tmp_path / "outside")
    place.symlink_to(tmp_path / "outside")

    with pytest.raises(StorageError, match=f"{link} is a link"):
        write_report(results, "made_up", "paper")

    assert sorted(folder.rglob("*")) == old_files or link != "report"


def test_a_linked_file_of_the_report_is_replaced(tmp_path):
    results = write_study(tmp_path / "r")
    page = write_report(results, "made_up", "paper")
    for file in (page, page.parent / "tables/scores.md", page.parent / "figures/plotly.min.js"):
        file.unlink()
        file.symlink_to(tmp_path / "outside")
    (tmp_path / "outside").write_text("theirs")

    write_report(results, "made_up", "paper")

    assert (tmp_path / "outside").read_text() == "theirs"
    assert not page.is_symlink()
    assert not (page.parent / "tables/scores.md").is_symlink()


def every_part(root, **changes):
    """A study whose report has every kind of part, and each something to show."""
    parts = [
        *specs(),
        LossTrace(),
        Mistakes(),
        Arithmetic(counted={"embed_new": 131_072.0}),
        Table("a", across=True),
    ]
    parts += [Captions(), Alignment()]
    results = write_study(root, report=dump_report(parts), **changes)
    write_losses(results, run_id(0, 0), [2.0, 1.0])
    write_mistakes(results, run_id(0, 0), np.zeros((2, 1, 8, 8)))
    write_captions(results, run_id(0, 0), [(["a film"], "a film")])
    write_alignment(results, run_id(0, 0), [(0.1, 0.4)])
    return results


def test_every_part_writes_its_files(tmp_path):
    results = every_part(tmp_path / "r")
    page = write_report(results, "made_up", "paper")

    assert page == results.study("made_up", "paper") / "report" / "report.html"
    figures = ("by_batch", "learning_curves", "loss_trace", "mistakes", "alignment")
    tables = ("scores", "table1", "arithmetic", "a")
    assert {path.relative_to(page.parent).as_posix() for path in page.parent.glob("*/*")} == {
        "figures/plotly.min.js",
        *(f"figures/{name}.{ending}" for name in figures for ending in ("csv", "html")),
        *(f"tables/{name}.{ending}" for name in tables for ending in ("csv", "md", "tex")),
        "tables/captions.csv",
    }
    assert page.read_text().count('class="figure"') == 5
    assert "Misclassified test images. ViTRM, batch size 64: T cat, P dog, T dog, P cat." in page.read_text()


def test_synthetic_data_is_named_once_a_page_and_in_every_file(tmp_path):
    """Above the page, in the title of each figure's own page and in every CSV."""
    chosen = [variant | {"synthetic": True} for variant in variants()]
    warning = "synthetic data: generated by a program"

    page = write_report(every_part(tmp_path / "r", variants=chosen), "made_up", "paper")

    assert page.read_text().count(f'<p class="warning">{warning}') == 1
    assert "CIFAR-10 (synthetic)" in page.read_text()
    for file in page.parent.glob("figures/*.html"):
        assert warning in file.read_text()
    for file in page.parent.glob("*/*.csv"):
        # which measures nothing
        assert ("synthetic" in file.read_text().splitlines()[0]) is (file.stem != "arithmetic")


def test_show_report_prints_the_tables_and_the_page(results, monkeypatch):
    monkeypatch.chdir(results.root)

    text = printed(show_report, results, "made_up", "paper", ())

    assert "92.6, undecided" in text
    assert "not shown: " in text
    assert text.endswith("Report: studies/made_up/paper/report/report.html\n")


def test_show_status_lists_running_runs(tmp_path):
    """Begun five minutes ago; one without a sign of life for a minute is not, nor one whose lock is free."""
    results = write_plan(tmp_path / "r", plan())
    start_time = datetime.now(UTC) - timedelta(minutes=5)
    for seed in (0, 1):
        folder = results.run(run_id(0, seed))
        folder.path.mkdir()
        append_line(folder.attempts, {"started": start_time.isoformat()})
        for epoch in range(3):
            append_line(folder.epochs, {"epoch": epoch})
    for file in (folder.attempts, folder.epochs):
        os.utime(file, (start_time.timestamp(),) * 2)

    def status_lines() -> list[str]:
        return [line for line in printed(show_status, results).splitlines() if " runs " in line]

    lines = [f"made_up (paper) runs {plan()['variants'][0]['label']}, seed 0"]
    assert status_lines() == lines  # a mirror of an object store has no lock
    with locked(results.run(run_id(0, 0)).lock):
        assert status_lines() == lines
    assert status_lines() == []


def test_show_status_names_the_command_that_finishes(results):
    text = printed(show_status, results)

    assert re.search(r"made_up +│ paper +│ 6 +│ 1 +│ 0 +│ 1 +│ 12", text)
    assert (
        "made_up (paper) can be resumed with its recorded command: python studies/made_up.py --preset paper"
        in text
    )


def test_studies_are_found_from_any_folder_above_them(results):
    for folder in (results.root, results.root / "studies" / "made_up", results.study("made_up", "paper")):
        assert [(results_at.root, name, preset) for results_at, name, preset in studies_at(folder)] == [
            (results.root, "made_up", "paper")
        ]
    with pytest.raises(ConfigError, match=r"no study in .*runs\. Give a results folder"):
        studies_at(results.root / "runs")


def test_names_become_safe_files():
    assert safe_names(["../../x", "a b", "a b", "<>", "é"]) == ["x", "a-b", "a-b-2", "part", "part-2"]


def test_findings_and_tables_are_marked_while_runs_are_left(results):
    """On the page, in the terminal and in LaTeX."""
    text = printed(show_report, results, "made_up", "paper", ())
    folder = results.study("made_up", "paper") / "report"
    words = Tags((folder / "report.html").read_text()).words

    assert "Published (interim, 6 of 12 runs): 2 of 4 values undecided" in text
    assert "Published (interim, 6 of 12 runs): 2 of 4 values undecided" in words
    assert "interim, 6 of 12 runs" in (folder / "tables" / "scores.tex").read_text()


def test_a_study_without_runs_left_has_no_mark(tmp_path):
    results = write_study(tmp_path / "r")
    for index, seed in ((2, 2), (3, 0), (3, 1), (3, 2)):
        finish(results, index, seed, result(94.0))

    assert "interim" not in printed(show_report, results, "made_up", "paper", ())
