"""The version is the one that the changelog dates, the repository has one address, and a release checks both."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from processes import run_python

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r"https://github.com/[\w-]+/recstudy\b")
PROJECT_TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_version_is_the_one_that_the_changelog_dates(typed):
    version = tomllib.loads(PROJECT_TEXT)["project"]["version"]
    dated = re.findall(
        r"^## (\d[\d.]*) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )

    output = typed("--version")

    assert version == dated[0]
    assert re.fullmatch(rf"recstudy {re.escape(version)}(, commit [0-9a-f]{{12}}( with changes)?)?\n", output)


def test_the_repository_has_one_address():
    repository = tomllib.loads(PROJECT_TEXT)["project"]["urls"]["Repository"]
    files = [ROOT / name for name in ("pyproject.toml", "CITATION.cff", "mkdocs.yml")]
    addresses = {
        address
        for file in [*files, *(ROOT / "docs").glob("*.md")]
        for address in ADDRESS.findall(file.read_text(encoding="utf-8"))
    }

    assert addresses == {repository}


@pytest.mark.parametrize(
    ("tag", "repository", "refusal"),
    [
        ("v{version}", "{repository}", ""),
        ("v9.9", "{repository}", "pyproject.toml has v{version}, but this is v9.9"),
        (
            "v{version}",
            "else/recstudy",
            "pyproject.toml has {server}/{repository}, but this is {server}/else/recstudy",
        ),
    ],
)
def test_a_release_is_of_this_version_and_repository(tag, repository, refusal):
    project = tomllib.loads(PROJECT_TEXT)["project"]
    server, _, name = project["urls"]["Repository"].partition(".com/")
    facts = {"version": project["version"], "server": f"{server}.com", "repository": name}
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    (step,) = [step for step in workflow["jobs"]["build"]["steps"] if step.get("shell") == "python"]
    environment = {
        "GITHUB_SERVER_URL": facts["server"],
        "GITHUB_REPOSITORY": repository.format(**facts),
        "GITHUB_REF_NAME": tag.format(**facts),
    }

    checked = run_python("-c", step["run"], code=bool(refusal), folder=ROOT, **environment)

    assert checked.stderr.strip() == refusal.format(**facts)
