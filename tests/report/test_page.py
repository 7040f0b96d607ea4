"""The words of the pages of a study, which are golden."""

import re

import pytest
from golden_pages import FOLDER, STUDIES, compare, page_of, structure


def test_papers_are_called_by_their_names_in_all_that_is_golden():
    files = [path for path in FOLDER.parent.rglob("*") if path.is_file()]

    assert len(files) > 10
    assert [path.name for path in files if re.search(r"(?<![\w.,])00[0-4][ -]", path.read_text())] == []


@pytest.mark.parametrize("name", STUDIES)
def test_golden_pages(name, tmp_path):
    compare(structure(page_of(name, tmp_path / "r")), FOLDER / f"{name}.txt")
