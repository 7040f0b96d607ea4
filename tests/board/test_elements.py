import numpy as np
import pytest
from boards import captioners, looked
from made_up import run_id, write_captions, write_chest, write_mistakes, write_search, write_study

from recstudy.board.elements import elements
from recstudy.board.pages import address, page
from recstudy.errors import ConfigError


def test_markup_becomes_nodes_and_words_stay_text():
    found = elements('<p class="note" aria-label="x">a &lt;b&gt; <strong>c</strong></p>\n')

    assert found == [("p", {"class": "note", "aria-label": "x"}, ["a <b> ", ("strong", {}, ["c"])])]


def test_links_to_other_programs_open_beside_the_board():
    inner, outer = elements('<a href="/run/1">one</a><a href="http://h:1">two</a>')

    assert inner[1] == {"href": "/run/1"}
    assert outer[1] == {"href": "http://h:1", "target": "_blank", "rel": "noopener noreferrer"}


@pytest.mark.parametrize(
    ("markup", "problem"),
    [
        ("<script>alert(1)</script>", "no <script>"),
        ("<iframe></iframe>", "no <iframe>"),
        ('<p onclick="x">a</p>', "no 'onclick'"),
        ('<a href="javascript:x">a</a>', "points to 'javascript:x'"),
        ('<a href="//evil.example">a</a>', "points to '//evil.example'"),
        ('<a href="/\\evil.example">a</a>', "points to"),
        ('<a href="/\t/evil.example">a</a>', "points to"),
        ('<img src="http://evil.example/x.png">', "points to 'http://evil.example/x.png'"),
        ('<form action="//evil.example"></form>', "points to '//evil.example'"),
        ('<p style="x">a</p>', "no 'style'"),
        ("<p>a", "<p> is not closed"),
        ("<p><b>a</p></b>", "</p> closes <b>"),
        ("a</p>", "</p> closes <>"),
    ],
)
def test_what_pages_do_not_have_is_an_error(markup, problem):
    with pytest.raises(ValueError, match=problem):
        elements(markup)


@pytest.mark.parametrize("write", [write_study, write_search, captioners, write_chest])
def test_every_part_of_every_page_can_be_shown(tmp_path, write):
    results = write(tmp_path / "results")
    write_mistakes(results, run_id(0, 0), np.zeros((3, 1, 8, 8)))
    write_captions(results, run_id(0, 0), [(["a heart"], "a lung " * 60)])
    sources = looked(results.root)
    paths = ["/", "/study/made_up/paper", "/compare", *(f"/run/{run}" for run in sources.watch.runs)]

    for recipe in (recipe for path in paths for recipe in page(sources, address(path)).recipes):
        try:
            body = recipe.part().body
        except ConfigError:  # a part that the study has nothing for, which the page says in its place
            continue
        assert elements(body)
