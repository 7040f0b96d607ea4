"""The code of two runs beside each other: changed lines of the study's own files, and the commits of recstudy's."""

import html
import re
from pathlib import Path

import pytest
from boards import looked

from recstudy.board.compare import LINES
from recstudy.board.markup import address_of
from recstudy.board.renderer import page_at
from recstudy.board.sources import Sources
from recstudy.plugins import bundle_of
from recstudy.records import Attempt, Result
from recstudy.records.files import write_json
from recstudy.records.reading import append_record
from recstudy.records.schema import now
from recstudy.study.repository import digest_of_texts, study_texts
from recstudy.study.study import make_plan
from recstudy.testing import make_result, tiny_study, write_study


def shown(sources: Sources, *run_ids: str) -> str:
    """The part of the page on the runs' code."""
    recipes = page_at(sources, address_of("/compare", f"?runs={','.join(run_ids)}")).recipes
    return next(recipe.part().body for recipe in recipes if recipe.key == "code")


def words(markup: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", markup).split()))


def runs_of_changing_code(root: Path, monkeypatch, texts: list[str]) -> tuple[Sources, list[str]]:
    """A study whose own module has another text at each run, as its driver records it; the board, and the runs' ids."""
    home, study = root / "home", tiny_study(seeds=len(texts))
    home.mkdir()
    monkeypatch.setattr("recstudy.study.repository.bundle", lambda: bundle_of(home, ["mine"]))
    ids = [run.id for run in make_plan(study).runs if run.variant == 0]
    for seed, content in enumerate(texts):
        (home / "mine.py").write_text(content)
        results = write_study(root / "results", study)
        append_record(results.run(ids[seed]).attempts, Attempt(started=now(), sources=digest_of_texts(study_texts())))
    return looked(results.root), ids


def test_the_changed_lines_of_a_studys_own_module_stand_between_two_runs(tmp_path, monkeypatch):
    """Escaped, because a stranger may have written them; of equal texts there is nothing to show."""
    first, second = (f"x = 1\nname = 'mine'\nbold = {value!r}\n" for value in ("plain", "<b>bold</b>"))
    sources, ids = runs_of_changing_code(tmp_path, monkeypatch, [first, second, first])

    found = shown(sources, *ids)
    assert words(found).startswith("The study's own files from a to b: --- a/mine.py +++ b/mine.py @@ -1,3 +1,3 @@")
    assert "<ins>+bold = &#x27;&lt;b&gt;bold&lt;/b&gt;&#x27;</ins>" in found
    assert "<del>-bold = &#x27;plain&#x27;</del>" in found
    assert "from a to c" not in found
    assert "No difference" in shown(sources, ids[0], ids[2])
    assert len(list((tmp_path / "results/studies/tiny/quick").glob("sources-*.json"))) == 2


def test_a_text_that_would_hold_up_the_board_is_not_compared(tmp_path, monkeypatch):
    sources, ids = runs_of_changing_code(tmp_path, monkeypatch, ["x = 1\n", "x = 2\n" * LINES])

    assert words(shown(sources, *ids)).endswith("mine.py: too long to be compared here")


@pytest.mark.parametrize("named", ["0123456789abcdef", "../../../secret", "gone"])
def test_what_runs_say_of_their_text_is_not_believed(tmp_path, monkeypatch, named):
    """A digest that names no kept text, or a path; and a file that is a link."""
    sources, (one, other) = runs_of_changing_code(tmp_path, monkeypatch, ["x = 1\n", "x = 2\n"])
    folder = tmp_path / "results/studies/tiny/quick"
    (tmp_path / "secret.json").write_text('{"a": "password"}')
    (folder / "sources-0123456789abcdef.json").symlink_to(tmp_path / "secret.json")
    append_record(sources.poller.results.run(other).attempts, Attempt(started=now(), sources=named))

    found = shown(sources, one, other)
    assert "not both texts are kept" in found
    assert "password" not in found


def test_the_commits_of_two_runs_are_named_by_the_command_that_shows_them(tmp_path):
    def made(run) -> Result:
        return make_result(90.0, provenance={"commit": "ab" * 20 if run.seed else "cd" * 20, "commits": []})

    results = write_study(tmp_path / "results", tiny_study(seeds=2), made)
    ids = [run.id for run in make_plan(tiny_study(seeds=2)).runs if run.variant == 0]
    for run, digest in zip(ids, ("0", "1"), strict=True):
        files = {"recstudy/tasks/task.py": digest, "mine.py": digest}
        write_json(results.run(run).code, {"model": {"digest": digest, "files": files}})

    found = words(shown(looked(results.root), *ids))
    assert f"git diff {'cd' * 20} {'ab' * 20} -- recstudy/tasks/task.py Copy" in found
