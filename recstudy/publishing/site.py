"""`recstudy publish --site`: several studies as one static site: a front page of their findings with a search, and a bundle each.

    SITE/index.html                       what each study asks and found, and a field that searches them
         NAME.PRESET/                     its bundle, to the byte: `recstudy verify SITE/NAME.PRESET` holds
         NAME.PRESET.zip

It opens from a folder and from any web server, and needs neither: every link is relative, and nothing is fetched from elsewhere.
"""

import html
import shutil
from collections.abc import Iterable
from pathlib import Path

from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.analysis.page import Section, escape, facts, page
from recstudy.analysis.summary import found, summary
from recstudy.errors import ConfigError
from recstudy.papers import by_name
from recstudy.publishing.bundle import REPORT, Bundle
from recstudy.publishing.publish import Asked, publish, temporary
from recstudy.records import Results, write_whole

SHORT = 16  # digits of a digest that tell it apart
SEARCH = """<p><label>Search: <input type="search" id="search" autocomplete="off" size="40"></label>
<span id="count" role="status"></span></p>
<script>
addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("search"), count = document.getElementById("count");
  const studies = [...document.querySelectorAll("section")].map((one) => {
    const more = one.querySelector("[data-words]");
    return [one, (one.textContent + " " + (more ? more.dataset.words : "")).toLowerCase()];
  });
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let left = 0;
    for (const [one, text] of studies) {
      one.hidden = !words.every((word) => text.includes(word));
      left += !one.hidden;
    }
    count.textContent = words.length ? `${left} of ${studies.length} studies` : "";
  });
});
</script>
"""


def publish_site(studies: Iterable[tuple[Results, str, str]], site: Path, asked: Asked) -> tuple[int, list[str]]:
    """Write the site of these studies (results folder, name, preset), as a new folder, whole or not at all.

    Returns:
        How many studies it has, and lines on what was left out.

    Raises:
        ConfigError: `site` is there; no study is left, or two have one name; or as `publish` raises.
    """
    if site.exists():
        raise ConfigError(f"{site} is there already. Give another name, or remove it first.")
    left, sections, names = list[str](), list[Section](), set[str]()
    with temporary(site) as folder:
        made = folder / site.name
        made.mkdir()
        for results, name, preset in studies:
            records = load_study(results, name, preset)
            if records.plan.smoke:
                left.append(f"{name} ({preset}), a smoke run, whose numbers mean nothing")
                continue
            place = f"{name}.{preset}"
            if place in names:
                raise ConfigError(
                    f"two of the folders have a study {name} ({preset}): publish one, or `recstudy merge` them first."
                )
            names.add(place)
            left += [f"{name} ({preset}), {line}" for line in publish(results, name, preset, made / place, asked)[1]]
            sections.append(_section(Bundle(made / place), records))
        if not sections:
            raise ConfigError("no study to publish: give results folders with studies that are no smoke runs")
        title = counted(len(sections))
        write_whole(made / "index.html", page(title, [f"<h1>{escape(title.capitalize())}</h1>", SEARCH], sections))
        shutil.move(made, site)
    return len(sections), left


def counted(studies: int) -> str:
    return "one study" if studies == 1 else f"{studies} studies"


def _section(bundle: Bundle, records: StudyRecords) -> Section:
    """Return what the front page says of a study: question, findings, where to go on, and words that the search finds it by."""
    plan, place = bundle.plan, bundle.root.name
    shown = bundle.records
    with records.standing():
        said = found(shown)
        about = facts(
            [one for one in summary(shown) if one[0] in ("Runs", "Plan", "Search", "Data", "Registered", "Compute used")]
        )
    metrics = dict.fromkeys(name for part in shown.parts for name in part.shows)
    words = " ".join(
        [place, plan.description, *(one.label for one in plan.variants), *(one.model for one in plan.variants), *metrics]
    )
    links = [
        ("the whole page", f"{place}/{REPORT}/report.html", "every table and figure"),
        ("README", f"{place}/README.md", "how to check and repeat it"),
        ("zip", f"{place}.zip", f"records sha256 {bundle.about.records[:SHORT]}"),
    ]
    going_on = "".join(f'<li><a href="{html.escape(to)}">{escape(name)}</a>: {escape(what)}</li>' for name, to, what in links)
    question = f'<p class="question" data-words="{html.escape(words)}">{escape(by_name(plan.question))}</p>'
    return Section(f"{plan.study} ({plan.folder})", f"{question}{said}{about}<ul>{going_on}</ul>\n")
