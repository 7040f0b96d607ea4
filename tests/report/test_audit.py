"""Each rule of the audit on records that break it, and all of them on a study that leaves nothing to ask."""

import hashlib
import html
import json
from functools import partial
from pathlib import Path
from typing import Any

import made_up
import pytest
from golden_pages import compare
from made_up import TABLE1, base, finish, read, result, write_plan, write_search
from made_up import plan as made_plan

from recstudy import judge
from recstudy.records import Results
from recstudy.report import Table, dump_report
from recstudy.report.audit import audit, audit_html, audit_lines, contradictions
from recstudy.report.reasons import REASONS
from recstudy.report.study_records import StudyRecords, load_study

GOLDEN = Path(__file__).parent / "golden" / "audits"
QUESTIONS = [reason.id for reason in REASONS if reason.question]
MILLION = {"answers": {"kept": 1_000_000, "of": 1_000_000}}
SHALLOW, DEEP = "latent_steps=3", "latent_steps=6"


def variant(label: str, model: str = "ViTRM", data: str = "CIFAR-10", /, **changes: Any) -> dict[str, Any]:
    fields = {path.replace("__", "."): value for path, value in changes.items()}
    return made_up.variant(label, {}, fields, model, data)


CLEAN = [variant(SHALLOW), variant(DEEP, model__latent_steps=6)]


def specs(*parts: Any) -> list[Any]:
    return dump_report(list(parts))


def study(root: Path, runs: Any = None, **changes: Any) -> Results:
    """Two variants further apart than their seeds, all finished: nothing to ask. `runs(variant, seed)`
    changes a result. A million test images, so that the items add little to the spread of the seeds."""
    fine = {
        "variants": CLEAN,
        "axes": {},
        "base": base(selection="validation"),
        "report": specs(Table("scores")),
    }
    study_plan = made_plan(**fine | changes)
    results = write_plan(root, study_plan)
    for index, seed, _ in study_plan["runs"]:
        changed_values = runs(index, seed) if runs else {}
        if changed_values is not None:
            values = merged(
                result(93.0 + 0.1 * seed + 0.9 * index),
                {"selected": {"split": "validation"}},
                MILLION,
                changed_values,
            )
            finish(results, index, seed, values)
    return results


def merged(values: dict[str, Any], *changes: dict[str, Any]) -> dict[str, Any]:
    """`values` with the others' entries, part by part."""
    for change in changes:
        for key, value in change.items():
            values[key] = (
                {**values[key], **value}
                if isinstance(value, dict) and isinstance(values.get(key), dict)
                else value
            )
    return values


def findings_by_rule(records: StudyRecords) -> dict[str, Any]:
    """Rule -> finding."""
    return {finding.rule: finding for finding in audit(records).findings}


def test_a_study_with_nothing_to_ask(tmp_path):
    records = read(study(tmp_path))
    audited = audit(records)

    assert (audited.findings, audited.contradictions) == ([], {})
    assert all(reason in html.unescape(audit_html(records)) for reason in QUESTIONS)


def of(index: int, **parts: Any) -> Any:
    """Changes of the results of one variant."""
    return lambda variant, seed: parts if variant == index else {}


IMPORTED = variant("IMPORTED", train__epochs=0, train__selection="test")
LEAKY = variant("LEAKY", train__epochs=3) | {"leaks": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"variants": [*CLEAN, LEAKY], "runs": of(2, cost={"train_pflop": 9.0})},  # compared with none
        {"variants": [*CLEAN, IMPORTED]},  # trained nowhere here, so that no epoch was selected
        {
            "report": specs(Table("scores", metrics=("top1_accuracy", "train_pflop"))),
            "runs": of(1, cost={"train_pflop": 9.0}),
        },
    ],
)
def test_plans_that_leave_nothing_to_ask(tmp_path, changes):
    assert findings_by_rule(read(study(tmp_path, **changes))) == {}


@pytest.mark.parametrize(("drawing", "findings"), [("fixed", True), ("per seed", False)])
def test_seeds_may_generate_their_own_data_if_the_study_states_it(tmp_path, drawing, findings):
    """The same in all variants of a seed; those of one seed with other images are asked about all the
    same.
    """
    settings = base(selection="validation")
    settings["data"]["resample"] = drawing
    by_seed = findings_by_rule(
        read(study(tmp_path / "a", lambda index, seed: checksum(f"{seed}"), base=settings))
    )
    mixed = findings_by_rule(
        read(
            study(
                tmp_path / "b", lambda index, seed: checksum(f"{seed} {index * (seed == 0)}"), base=settings
            )
        )
    )

    assert ("data checksums" in by_seed) is findings
    assert "data checksums" in mixed


def checksum(digest: str) -> dict[str, Any]:
    return {"provenance": {"data_checksum": digest}}


RUNS = {
    "a run selected on the test set": of(1, selected={"split": "test"}),
    "small training FLOPs": lambda index, seed: {"cost": {"train_pflop": (0.000393, 0.00185)[index]}},
    "data checksums": of(1, provenance={"data_checksum": "f00d"}),
    "noted repeats of data": of(
        1, provenance={"data_notes": ["cut", "Repeated items: 3 of 24 test images are exact copies"]}
    ),
    "commits": of(1, provenance={"commit": "f" * 40}),
    "versions": of(1, provenance={"versions": {"torch": "2.9"}}),
}


AUDITS = {
    "selection on the test set": partial(study, base=base(selection="test")),
    "one seed": partial(study, seeds=[0]),
    "seeds that change nothing": partial(study, runs=lambda index, seed: result(93.0 + index)),
    "settings that change nothing": partial(study, runs=lambda index, seed: result(93.0 + seed)),
    **{name: partial(study, runs=runs) for name, runs in RUNS.items()},
    "costs that no table shows": partial(
        study,
        runs=of(1, cost={"train_pflop": 3.0}, provenance={"hardware": {"cpu": "another"}}),
        report=specs(Table("scores", metrics=("top1_accuracy", "seconds"))),
    ),
    "a search by a test score": partial(write_search, search={"objectives": {"top1_accuracy": "max"}}),
    "a search": write_search,  # of whose trials one may well diverge
}


def audit_text(name: str, root: Path) -> str:
    """All that is asked of a study, by which rules."""
    audited = audit(read(AUDITS[name](root)))
    assert all(
        finding.conclusion.endswith(".") and finding.settle.endswith(".") for finding in audited.findings
    )
    return (
        "\n".join(
            [*(finding.rule for finding in audited.findings), *(line.plain for line in audit_lines(audited))]
        )
        + "\n"
    )


@pytest.mark.parametrize("name", [*AUDITS])
def test_golden_audits(tmp_path, name):
    compare(audit_text(name, tmp_path / "r"), GOLDEN / f"{name.replace(' ', '_')}.txt")


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_contradictions_are_on_the_page_of_the_preset_paper_and_in_every_audit(tmp_path, preset):
    results = study(tmp_path, report=specs(Table("scores", targets=TABLE1)), preset=preset)
    records = load_study(results, "made_up", preset)

    ((title, entries),) = audit(records).contradictions.items()

    assert title == "Known inconsistencies in the ViTRM paper"
    assert [entry.id for entry in entries] == [f"002-{number}" for number in range(1, 20)]
    assert (title in audit_html(records)) is (preset == "paper")


def test_contradictions_are_whole():
    entries = contradictions()

    assert len(entries) == len({entry.id for entry in entries}) == 59
    assert all(
        (entry.quote or entry.says) and entry.where and entry.conflict and entry.handling for entry in entries
    )
    assert all(entry.id.startswith(f"{entry.paper}-") for entry in entries)
    quotes = "\n".join(f"{entry.id} {entry.quote}" for entry in entries if entry.quote)
    # Each was compared letter by letter with its paper. Whoever changes one compares it again, and then
    # changes the digest.
    assert hashlib.sha256(quotes.encode()).hexdigest()[:12] == "8a0a6aae5723"
    assert not any(
        '"' in words
        for entry in entries
        for words in (entry.quote, entry.says, entry.conflict, entry.handling)
    )


def test_failed_and_unfinished_trials_of_a_search_are_asked_about_and_diverged_ones_are_not(tmp_path):
    finding = findings_by_rule(read(write_search(tmp_path)))["missing runs"]

    assert finding.what == (
        "Runs without a result: 3 of 13 (4 latent steps, batch size 16, learning rate 0.002: 1 not run; 5 latent"
        " steps, batch size 64, learning rate 0.003: 1 failed; 2 latent steps, batch size 16, learning rate"
        " 0.001: 1 not run)"
    )


def test_the_command_prints_json_and_exits_with_0(results, typed):
    (entry,) = json.loads(typed("audit", results.root, "--json"))["studies"]

    assert (entry["study"], entry["preset"], entry["checked"]) == ("made_up", "paper", QUESTIONS)
    assert {"rule", "what", "conclusion", "settle", "where"} == set(entry["findings"][0])


def test_missing_runs_are_asked_about_by_variant_and_state(results):
    finding = findings_by_rule(read(results))["missing runs"]

    assert finding.what == (
        "Runs without a result: 6 of 12 (ViTRM, batch size 128: 1 failed; ViT-Small, batch size 64: 1"
        " diverged; ViT-Small, batch size 64: 1 not run; ViT-Small, batch size 128: 2 not run; ViT-Small,"
        " batch size 128: 1 unfinished)"
    )
    assert finding.where == ["ViTRM, batch size 128", "ViT-Small, batch size 64", "ViT-Small, batch size 128"]


def test_of_imported_runs_no_commits_are_checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs.csv").write_text(
        "opt,seed,accuracy\n" + "".join(f"{opt},{seed},{80 + seed}\n" for opt in "ab" for seed in range(3))
    )
    entry = audit(judge("runs.csv").records)

    assert "commits, versions and machines" not in entry.checked
    assert "seeds that change nothing" in entry.checked
