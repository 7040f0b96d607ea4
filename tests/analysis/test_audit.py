"""Each rule of the audit on records that break it, and all of them on a study that leaves nothing to ask."""

import hashlib
import html
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made_up import TABLE1, as_result, base, read, result, write_search
from made_up import plan as made_plan

from recstudy.analysis import Pareto, Table
from recstudy.analysis.audit import RULES, audit, audit_html, audit_lines, audit_record, contradictions
from recstudy.analysis.audit.rules import command
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.report import write_report
from recstudy.records import Results, write_json
from recstudy.report import dump_report

GOLDEN = Path(__file__).parent / "golden" / "audits"
HOSTILE = '</script><img src=x onerror=alert(1)> & [b]"'
MILLION = {"answers": {"kept": 1_000_000, "of": 1_000_000}}
SHALLOW, DEEP = "latent_steps=3", "latent_steps=6"


def variant(label: str, model: str = "ViTRM", data: str = "CIFAR-10", /, **changes: Any) -> dict[str, Any]:
    fields = {path.replace("__", "."): value for path, value in changes.items()}
    return {"label": label, "levels": {}, "changes": fields, "model": model, "data": data}


CLEAN = [variant(SHALLOW), variant(DEEP, model__latent_steps=6)]


def specs(*parts: Any) -> list[Any]:
    return dump_report(list(parts))


def study(root: Path, runs: Any = None, **changes: Any) -> Results:
    """Two variants further apart than their seeds, all finished: nothing to ask. `runs(variant, seed)` changes a result. A million
    test images, so that the items add little to the spread of the seeds."""
    fine = {"variants": CLEAN, "axes": {}, "base": base(selection="validation"), "report": specs(Table("scores"))}
    made = made_plan(**fine | changes)
    results = Results(root).create()
    write_json(results.study(made["study"], made["preset"]) / "plan.json", made)
    for index, seed, identity in made["runs"]:
        told = runs(index, seed) if runs else {}
        if told is not None:
            results.run(identity).finish(
                as_result(merged(result(93.0 + 0.1 * seed + 0.9 * index), {"selected": {"split": "validation"}}, MILLION, told))
            )
    return results


def merged(values: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """`values` with the others' entries, part by part."""
    for other in others:
        for key, value in other.items():
            values[key] = {**values[key], **value} if isinstance(value, dict) and isinstance(values.get(key), dict) else value
    return values


def found(records: StudyRecords) -> dict[str, Any]:
    """Rule -> finding; the tests' studies break a rule once."""
    named = audit(records).findings
    assert len(named) == len(dict(named))
    return dict(named)


def test_a_study_with_nothing_to_ask(tmp_path):
    asked = audit(read(study(tmp_path)))

    assert (asked.findings, asked.contradictions, asked.questions) == ((), (), 0)
    section = audit_html(asked)
    assert section.startswith("<details><summary>Nothing to ask</summary>")
    assert section.count("<details>") == 1
    assert all(html.escape(rule) in section for rule in RULES)


BATCHES = [variant(f"batch_size={size}", train__batch_size=size) for size in (64, 256)]
TUNED = [BATCHES[0], variant("batch_size=256", train__batch_size=256, train__learning_rate=1e-3)]
RESNET = {"family": "resnet", "depth": 18, "stem": "imagenet"}
FAIR = {**RESNET, "stem": "cifar"}
HANDICAPPED = [CLEAN[0], variant("ResNet-18", "ResNet-18", model=RESNET)]
EPOCHS = [CLEAN[0], variant(DEEP, model__latent_steps=6, train__epochs=300)]


RATE = base(selection="validation", learning_rate=3e-4)
PLANS = {
    "selection on the test set": {"base": base(selection="test")},
    "one seed": {"base": RATE, "seeds": [0]},
    "epochs": {"base": RATE, "variants": EPOCHS},
    "learning rates": {"base": RATE, "variants": [*BATCHES, variant("other data", "ViTRM", "Digits")]},
    "a handicapped baseline": {"base": RATE, "variants": HANDICAPPED},
}


@pytest.mark.parametrize(
    "changes",
    [
        {"variants": TUNED, "base": base(selection="validation", learning_rate=3e-4)},
        {"variants": EPOCHS, "axes": {"epochs": "train.epochs"}},  # the study's own question
        {"variants": [CLEAN[0], variant("300", "ViTRM", "Digits", train__epochs=300)]},  # rows that do not compare
        {"variants": [CLEAN[0], variant("ResNet-18", "ResNet-18", model=FAIR)]},
        {"variants": [*HANDICAPPED, variant("ResNet-18, CIFAR stem", "ResNet-18 (CIFAR stem)", model=FAIR)]},
        {"variants": [variant(f"{model}, {count} epochs", model, train__epochs=count) for model in "AB" for count in (3, 9)]},
        {"variants": [CLEAN[0], variant("ResNet-18", "ResNet-18", "X-rays", model=RESNET, data__name="nih", data__size=224)]},
    ],
)
def test_plans_that_leave_nothing_to_ask(tmp_path, changes):
    assert found(read(study(tmp_path, **changes))) == {}


@pytest.mark.parametrize(("drawing", "asked"), [("fixed", True), ("per seed", False)])
def test_seeds_may_draw_data_of_their_own_where_the_study_says_so(tmp_path, drawing, asked):
    """The same in all variants of a seed; those of one seed with other images are asked about all the same."""
    made = base(selection="validation")
    made["data"]["drawing"] = drawing
    by_seed = found(read(study(tmp_path / "a", lambda index, seed: checksum(f"{seed}"), base=made)))
    mixed = found(read(study(tmp_path / "b", lambda index, seed: checksum(f"{seed} {index * (seed == 0)}"), base=made)))

    assert ("data checksums" in by_seed) is asked
    assert "data checksums" in mixed


def checksum(told: str) -> dict[str, Any]:
    return {"provenance": {"data_checksum": told}}


def of(index: int, **parts: Any) -> Any:
    """Changes of the results of one variant."""
    return lambda variant, seed: parts if variant == index else {}


CAPTIONED = {"tokenizer": {"metrics": "PTB"}, "decode": "beam 3"}


RUNS = {
    "a run selected on the test set": of(1, selected={"split": "test"}),
    "training FLOPs": of(1, cost={"train_pflop": 3.0}),
    "small training FLOPs": lambda index, seed: {"cost": {"train_pflop": (0.000393, 0.00185)[index]}},
    "decoding": lambda index, seed: CAPTIONED | {"decode": ("beam 3", "greedy")[index]},
    "words": lambda index, seed: CAPTIONED | {"tokenizer": {"metrics": ("PTB", "spaces")[index]}},
    "data checksums": of(1, provenance={"data_checksum": "f00d"}),
    "commits": of(1, provenance={"commit": "fff"}),
    "versions": of(1, provenance={"versions": {"torch": "2.9"}}),
}


AUDITS = {
    **{name: partial(study, **changes) for name, changes in PLANS.items()},
    **{name: partial(study, runs=runs) for name, runs in RUNS.items()},
    "a search by a test score": partial(write_search, search={"objectives": {"top1_accuracy": "max"}}),
    "a search": write_search,  # of whose trials one may well diverge
}


def audit_text(name: str, root: Path) -> str:
    """All that is asked of a study, by which rules."""
    asked = audit(read(AUDITS[name](root)))
    assert all(one.why.endswith(".") and one.settle.endswith((".", ")")) for _, one in asked.findings)
    return "\n".join([*(rule for rule, _ in asked.findings), *(line.plain for line in audit_lines(asked))]) + "\n"


@pytest.mark.parametrize("name", [*AUDITS])
def test_golden_audits(tmp_path, name):
    """`python tests/analysis/golden_pages.py parts` writes them anew."""
    assert audit_text(name, tmp_path / "r") == (GOLDEN / f"{name.replace(' ', '_')}.txt").read_text()


def scored(*seeds: list[float]) -> Any:
    """The accuracies of each variant's seeds."""
    return lambda variant, seed: {"metrics": {"top1_accuracy": seeds[variant][seed], "macro_f1": seeds[variant][seed]}}


def test_rows_of_two_commits_are_a_question(tmp_path):
    by_row = found(read(study(tmp_path, lambda variant, seed: {"provenance": {"commit": f"{variant}"}})))

    assert by_row["commits, versions and machines"].what.startswith("2 commits of the code")


def test_runs_made_before_a_user_file_changed_are_a_question(tmp_path):
    def made(variant: int, seed: int) -> Any:
        return {"provenance": {"files": {"mine.py": ("now", "before")[variant]}}}

    changed = found(read(study(tmp_path, made, files={"mine.py": "now"})))

    assert {rule: one.severity for rule, one in changed.items()} == {"code and data since": "question"}
    assert changed["code and data since"].where == (DEEP,)


def test_costs_that_no_table_shows_are_a_question_and_times_of_several_machines_too(tmp_path):
    unequal = {"cost": {"train_pflop": 3.0}, "provenance": {"hardware": {"cpu": "another"}}}
    hidden, shown = Table("scores", metrics=("top1_accuracy", "seconds")), Pareto(x="train_pflop", y="top1_accuracy")

    alone = found(read(study(tmp_path / "a", of(1, **unequal), report=specs(hidden))))
    both = found(read(study(tmp_path / "b", of(1, **unequal), report=specs(Table("t", metrics=("top1_accuracy",)), shown))))

    assert alone["equal training FLOPs"].severity == "question"
    assert alone["commits, versions and machines"].what == "2 kinds of machine: a processor (3), another (3)"
    assert both["equal training FLOPs"].severity == "note"
    assert "commits, versions and machines" not in both


def test_a_moving_average_longer_than_the_run(tmp_path):
    """800 images a second for 90 s are 72,000, in batches of 128: 562.5 steps, twice as many with two steps a batch."""
    averaged = {"base": base(selection="validation", ema_decay=0.999)}

    short = found(read(study(tmp_path / "a", **averaged)))
    enough = found(read(study(tmp_path / "b", lambda *_: {"cost": {"supervision_steps_used": 2.0}}, **averaged)))
    whole = {"base": base(selection="validation", ema_decay=0.999, detach_carry=False)}
    one_step = found(read(study(tmp_path / "c", lambda *_: {"cost": {"supervision_steps_used": 2.0}}, **whole)))

    assert list(short) == list(one_step) == ["the span of the moving average"]
    assert short["the span of the moving average"].what.startswith("The moving average of the weights spans 1,000 steps")
    assert enough == {}


def test_a_contradiction_stands_with_the_finding_that_is_about_it(tmp_path):
    asked = audit(read(study(tmp_path, report=specs(Table("scores", targets=TABLE1)), base=base(selection="test"))))

    ((rule, finding),) = asked.findings
    assert (rule, finding.known, list(asked.about)) == ("selection on the test set", ("002-8",), ["002-8"])
    assert asked.papers == ("002",)
    others = [one.id for one in asked.contradictions]
    assert others == [f"002-{at}" for at in range(1, 16) if at != 8]
    record = audit_record(asked)
    quote = "We use the standard test set for validation-based early stopping"
    assert record["findings"][0]["known"][0]["statement"] == quote
    words = "\n".join(line.plain for line in audit_lines(asked))
    assert words.count("ViTRM-8: the paper says") == 1
    assert "; but: code performs one; T=1. Here: model.cycles." in words
    page = audit_html(asked)
    assert "<summary>Known inconsistencies in the ViTRM paper (14)</summary>" in page
    assert all(f'<th scope="row">{name.replace("002", "ViTRM")}: ' in page for name in others)
    assert "002" not in page + words


def test_a_contradiction_stands_with_the_first_of_two_findings(tmp_path):
    parts = {"variants": EPOCHS, "report": specs(Table("scores", targets=TABLE1))}

    finding = found(read(study(tmp_path, of(1, cost={"train_pflop": 9.0}), **parts)))

    assert (finding["equal epochs"].known, finding["equal training FLOPs"].known) == (("002-11",), ())


def test_a_model_that_is_told_the_answer_is_compared_with_none(tmp_path):
    told = variant("LEAKY", train__epochs=3) | {"leaks": True}

    assert list(found(read(study(tmp_path, of(2, cost={"train_pflop": 9.0}), variants=[*CLEAN, told])))) == []


def test_without_the_papers_numbers_nothing_is_said_of_the_paper(tmp_path):
    asked = audit(read(study(tmp_path, base=base(selection="test"))))

    assert (asked.findings[0][1].known, asked.papers, asked.contradictions) == ((), (), ())


def test_every_contradiction_that_a_rule_or_a_paper_names_is_in_the_file():
    known = contradictions()

    assert len(known) == 53
    assert {"002-8", "002-9", "002-10", "002-11", "000-7", "003-3"} <= set(known)
    assert all(one.statement and one.place and one.conflict and one.handling for one in known.values())
    assert all(one.id.startswith(f"{one.paper}-") for one in known.values())


def test_only_what_is_verbatim_stands_in_quotation_marks():
    ours, theirs = contradictions()["002-4"], contradictions()["002-12"]

    assert ours.words.startswith("ViTRM-4: the paper says each supervision step performs T recursion steps (section 3.5); but: ")
    assert theirs.cited == '"matches ViT-Base at smaller batch sizes (72.4% at BS=64)" (section 4.3.1)'
    assert not any('"' in words for one in contradictions().values() for words in (one.statement, one.conflict, one.handling))


def test_quotations_are_as_they_were_compared_with_the_papers():
    """Each was found letter by letter in its paper's text. Who changes one compares it again, and then this digest."""
    quotes = "\n".join(f"{one.id} {one.statement}" for one in contradictions().values() if one.quoted)

    assert quotes.count("\n") + 1 == 41
    assert hashlib.sha256(quotes.encode()).hexdigest()[:12] == "fcb4ff48a0c6"


def test_a_search_is_asked_for_fresh_seeds(tmp_path):
    none, planned = {"best": 2, "seeds": []}, {"best": 2, "seeds": [1, 2, 3]}
    done = {number: (number, 32, 1e-3 * number, "done", 80.0, 0.1) for number in (1, 2)}

    without = found(read(write_search(tmp_path / "a", done, {"confirm": none})))
    waiting = found(read(write_search(tmp_path / "b", done, {"confirm": planned})))
    confirmed = found(read(write_search(tmp_path / "c")))
    unbegun = found(read(write_search(tmp_path / "d", {})))

    assert unbegun["fresh seeds after a search"].place == "every variant"
    assert without["fresh seeds after a search"].severity == "question"
    assert without["fresh seeds after a search"].command.endswith(" --seeds 3 --budget 48")
    assert waiting["fresh seeds after a search"].severity == "note"
    assert "fresh seeds after a search" not in confirmed
    assert not {"the number of seeds", "equal training FLOPs"} & {*without, *waiting, *confirmed}


def typing(records, line: str):
    return replace(records, plan=replace(records.plan, command=line))


def test_the_command_takes_a_flag_in_place_of_the_one_it_has(records):
    for typed in ("python a.py --seeds 1 --preset paper", "python a.py --seeds=1 --preset paper", "python a.py --preset paper"):
        assert command(typing(records, typed), "--seeds", "3") == "python a.py --preset paper --seeds 3"
    assert command(typing(records, "python 'a study.py'")) == "python 'a study.py'"


def test_hostile_labels_are_shown_as_text(tmp_path):
    hostile = [CLEAN[0], variant(HOSTILE, HOSTILE, HOSTILE, data__limit=64, train__epochs=3)]
    results = study(
        tmp_path, of(1, provenance={"commit": HOSTILE, "dirty": True}), variants=hostile, command=f"python '{HOSTILE}'"
    )
    asked = audit(read(results))

    page = audit_html(asked)

    assert len(asked.findings) == 1
    assert "<img" not in page
    assert "</script>" not in page
    assert html.escape(HOSTILE) in page
    assert "<img" not in write_report(results, "made_up", "paper").read_text().split("<script>")[0]
    assert any(HOSTILE in line.plain for line in audit_lines(asked))


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from recstudy.command import main\ntry: main(sys.argv[1:])\n"
    code += "finally: assert not {'torch', 'ray', 'optuna'} & set(sys.modules)"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=120)


def test_the_command_prints_and_exits_with_0(results):
    write_json(results.study("another", "quick") / "plan.json", made_plan(study="another", preset="quick", seeds=[0]))

    shown = run_command("audit", str(results.root))
    as_json = run_command("audit", str(results.study("made_up", "paper")), "--json")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert "another (quick): " in shown.stdout
    assert "Question: The epoch is selected on the test set" in shown.stdout
    (entry,) = json.loads(as_json.stdout)
    assert (entry["study"], entry["preset"], entry["checked"]) == ("made_up", "paper", [*RULES])
    assert {"rule", "what", "why", "settle", "where", "command", "severity", "known"} == set(entry["findings"][0])


def test_no_study_is_one_line(tmp_path):
    done = run_command("audit", str(tmp_path))

    assert done.returncode == 2
    assert done.stderr.startswith("ConfigError: no study in ")
