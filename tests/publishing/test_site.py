"""A static site of several studies: every link leads somewhere, also when the folder was moved, and its search finds."""

import os
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from playwright.sync_api import sync_playwright

from recstudy.command import main
from recstudy.publishing import Bundle
from recstudy.publishing.verify import verify
from recstudy.testing import tiny_study, write_study

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def site(trained_results, tmp_path_factory) -> Path:
    """Return the site of a study that was trained and one that was not, moved to where it was not written."""
    root = tmp_path_factory.mktemp("site")
    write_study(
        root / "more", tiny_study(name="other", question="Do giraffes learn?"), score=lambda run: 50.0 + run.seed, seeds=3
    )
    write_study(root / "more", tiny_study(name="tried"), smoke=True)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["publish", "--site", str(root / "here"), str(trained_results.root), str(root / "more")])
    return Path(shutil.move(root / "here", root / "there"))


class Links(HTMLParser):
    """Gathers addresses, and what they may lead to within the page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.to: list[str] = []
        self.ids: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.to += [value for name, value in attrs if name in ("href", "src") and not value.startswith("data:")]
        self.ids |= {known["id"]} if known.get("id") else set()


def test_every_link_leads_to_a_file_of_the_site(site):
    pages = sorted(site.rglob("*.html"))
    seen = 0
    for page in pages:
        for to in Links(page).to:
            address = urlparse(to)
            assert not (address.scheme + address.netloc), (page, to)
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            assert target.is_file(), (page, to)
            assert target.is_relative_to(site.resolve())
            assert not address.fragment or address.fragment in Links(target).ids, (page, to)
            seen += 1

    assert len(pages) >= 4
    assert seen >= 30
    assert {"tiny.quick", "tiny.quick.zip", "other.quick", "other.quick.zip", "index.html"} == {
        one.name for one in site.iterdir()
    }


def test_its_bundles_verify(site):
    for name in ("tiny.quick", "other.quick"):
        assert not verify(Bundle(site / name)).differences


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)")
def test_its_front_page_has_the_findings_and_its_search_finds_studies(site):
    """As a folder that is opened, without a server."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as run, run.chromium.launch(executable_path=CHROMIUM, args=sandbox) as browser:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((site / "index.html").as_uri())

        def shown() -> list[str]:
            return [one.inner_text() for one in page.locator("section:visible h2").all()]

        assert len(shown()) == 2
        assert page.get_by_label("Answer").count() == 2
        page.get_by_label("Search").fill("giraffes")
        assert ["other" in one for one in shown()] == [True]
        assert page.get_by_role("status").inner_text() == "1 of 2 studies"
        page.get_by_label("Search").fill("latent_steps=2 nll")
        assert ["tiny" in one for one in shown()] == [True]
        page.get_by_label("Search").fill("")
        page.get_by_role("link", name="the whole page").first.click()
        assert page.locator("h1").inner_text().startswith(("other", "tiny"))
        assert not complaints


def test_a_site_of_nothing_is_refused_and_leaves_nothing(tmp_path, capsys):
    write_study(tmp_path / "results", tiny_study(name="tried"), smoke=True)

    with pytest.raises(SystemExit, match=r"^2$"):
        main(["publish", "--site", str(tmp_path / "site"), str(tmp_path / "results")])

    assert "no study to publish" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["results"]
