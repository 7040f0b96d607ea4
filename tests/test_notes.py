"""Notes and tags: written beside a run's records, shown as text, filtered by."""

import re
import shlex
from pathlib import Path

import pytest

from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.board.markup import address_of
from recstudy.board.runlist import run_list
from recstudy.command import main
from recstudy.records import Results, read_log
from recstudy.records.notes import notes_of
from recstudy.records.schema import NoteLine
from recstudy.testing import write_study


def typed(code: int, *words: object) -> None:
    with pytest.raises(SystemExit, match=rf"^{code}$"):
        main(list(map(str, words)))


@pytest.fixture
def results(tmp_path, monkeypatch) -> Results:
    monkeypatch.chdir(tmp_path)
    return write_study(tmp_path / "results")


def test_notes_and_tags_are_lines_of_a_log_and_tags_can_be_taken_off(results, capsys):
    run = min(results.states())
    typed(0, "note", run[:8], "loss \x1b[31mjumps\r\nat <b>epoch</b> 3", "--by", "K")
    typed(0, "tag", run, "odd", "seen", "--results", results.root)
    typed(0, "tag", run, "odd", "--remove")

    assert capsys.readouterr().out.endswith(f"run {run}: tags: seen\n")
    found = notes_of(results.run(run))
    assert (found.tags, [line.text for line in found.lines]) == (("seen",), ["loss [31mjumps at <b>epoch</b> 3"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d, K: loss .*", found.words[0])
    assert len(read_log(results.run(run).notes, NoteLine)) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["note", "abc", "x"], "no run 'abc': there is none in"),
        (["note", "RUN", " "], "a note has 1 to 2,000 characters, but this one has 0"),
        (["tag", "RUN", "a b"], "a tag has up to 40 letters, digits and . _ : + -, but got 'a b'"),
        (["tag", "RUN", "a", "--remove"], "has no tag 'a': it has none"),
    ],
)
def test_what_is_no_note_or_tag_is_refused_and_nothing_is_written(results, words, said, capsys):
    run = min(results.states())
    typed(2, *(run if word == "RUN" else word for word in words))

    assert said in capsys.readouterr().err
    assert not results.run(run).notes.exists()


def test_the_board_shows_and_filters_tags_and_the_page_has_notes_as_text(results):
    run, *others = sorted(results.states())
    typed(0, "tag", run, "odd", "seen")
    typed(0, "tag", others[0], "seen")
    typed(0, "note", run, "<script>alert(1)</script>")

    def listed(query: str) -> set[str]:
        html = run_list(load_study(results, "tiny", "quick"), address_of("/runs/tiny/quick", query), set())
        assert '<select name="tags">' in html
        return set(re.findall(r"/run/([0-9a-f]+)", html))

    assert listed("tags=odd") == {run}
    assert listed("tags=seen|odd") == {run, others[0]}
    page = write_report(results, "tiny", "quick").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)" not in page


def test_the_commands_of_the_documentation_run(results):
    page = (Path(__file__).parents[1] / "docs/how-to/watch.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith(("recstudy note ", "recstudy tag "))]
    run = min(results.states())

    for line in lines:
        typed(0, *[run if word == "0f3a9c6b1d2e4f5a6b7c" else word for word in shlex.split(line, comments=True)[1:]])

    assert len(lines) == 3
    assert notes_of(results.run(run)).tags == ("seen",)
