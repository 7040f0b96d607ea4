"""The code of two runs side by side: the user files that differ, and the command that compares the commits."""

import html
import re

from boards import looked

from recstudy.board.markup import address_of
from recstudy.board.renderer import page_at
from recstudy.study.study import make_plan
from recstudy.testing import make_result, tiny_study, write_study


def test_user_files_and_commits_that_differ_are_named(tmp_path):
    """Escaped, because a stranger may have written the names; equal runs have nothing to show."""
    study = tiny_study(seeds=3)
    commits, digests = ("cd" * 20, "ab" * 20, "cd" * 20), ("1", "2", "1")

    def made(run):
        files = {"<b>.py": digests[run.seed], "same.py": "0"}
        return make_result(90.0, provenance={"commit": commits[run.seed], "commits": [], "files": files})

    sources = looked(write_study(tmp_path / "results", study, made).root)
    first, second, third = (run.id for run in make_plan(study).runs if run.variant == 0)

    def shown(*run_ids):
        recipes = page_at(sources, address_of("/compare", f"?runs={','.join(run_ids)}")).recipes
        return next(recipe.part().body for recipe in recipes if recipe.key == "code")

    page = html.unescape(" ".join(re.sub(r"</?(p|div|pre|code|button)\b[^>]*>", " ", shown(first, second, third)).split()))
    assert "User files that differ from a to b: <b>.py." in page
    assert f"git diff {'cd' * 20} {'ab' * 20} Copy" in page
    assert "from a to c" not in page
    assert "No difference is recorded." in shown(first, third)
