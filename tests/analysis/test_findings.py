"""What a page opens with: for each rule a case in which it speaks and one in which it is silent."""

import io
import re
from dataclasses import replace

from made_up import as_result, base, end, plan, result, run_id, write_search, write_study
from rich.console import Console
from test_claims import AROUND, CLOSE, HELPS, HURTS, SAME, study

from recstudy.analysis import Curve, Differences, Effects, Table
from recstudy.analysis.findings import MOST, Sentence, _in_turns, findings
from recstudy.analysis.frame import load_study
from recstudy.analysis.loaded import load
from recstudy.analysis.report import show_report, write_report
from recstudy.records import Results, write_json
from recstudy.report import dump_report


def said(results) -> list[str]:
    return [str(one) for one in findings(load_study(results, "made_up", "paper"))]


def words(results) -> list[str]:
    return [one.word for one in findings(load_study(results, "made_up", "paper"))]


def ablation(root, report, means=(93.0, 93.0, 90.0), seeds=3, status="done", **changes):
    """A base and two variants, three seeds around a mean each: `same` is as the base, `less` three points below it."""
    labels = ("base", "same", "less")
    variants = [
        {"label": label, "levels": {"part": label}, "changes": {"train.supervision_steps": at + 1}, "model": "ViTRM",
         "data": "CIFAR-10", "base": None if not at else 0}
        for at, label in enumerate(labels)
    ]  # fmt: skip
    made = plan(variants=variants, axes={"part": "part"}, seeds=list(range(seeds)), report=dump_report(report), **changes)
    results = Results(root).create()
    write_json(results.study("made_up", "paper") / "plan.json", made)
    for at, mean in enumerate(means):
        for seed in range(seeds):
            end(results, run_id(at, seed), status, None, 0.3)
            if status == "done":
                results.run(run_id(at, seed)).finish(as_result(result(mean + AROUND[(seed + at) % 3])))
    return results


# -------------------------------------------------------------------------------------------------------------- shown


def test_decided_claims_come_first_with_both_sides_and_what_is_claimed_where_it_is_not_so(tmp_path):
    supported, contradicted = said(study(tmp_path / "r", [HURTS, HELPS]))

    assert supported.startswith(
        "Supported: more supervision hurts: top-1 accuracy 93.0 % vs 90.0 %, +3.00 points (95 % interval +2."
    )
    assert supported.endswith("n=3).")
    assert contradicted.startswith("Contradicted: more supervision helps: top-1 accuracy 90.0 % vs 93.0 %, -3.00 points")
    assert contradicted.endswith(", where above 0 is claimed.")


def test_claims_that_wait_for_runs_are_missing_and_neither_shown_nor_open(tmp_path):
    sentences = said(study(tmp_path / "r", [HURTS], losses={(16, 2): "not run"}))

    assert sentences == ["Missing: 1 of 12 runs not run; that leaves 1 of 1 claim open."]


def test_differences_are_named_with_their_base_and_ties_with_the_seeds_that_they_would_take(tmp_path):
    worse, tied = said(ablation(tmp_path / "r", [Differences()], means=(93.0, 93.1, 90.0)))

    assert worse.startswith("Worse than base: by top-1 accuracy, less -3.00 points (95 % interval -3.")
    assert tied.startswith("No significant difference from base: by top-1 accuracy, same +0.10 points (95 % interval -0.")
    assert tied.endswith(" more seeds of each would show such a difference.")


def test_no_difference_is_shown_where_there_is_none(tmp_path):
    assert words(ablation(tmp_path / "r", [Differences()], means=(93.0, 93.0, 93.0))) == ["No significant difference from base"]


def test_single_runs_tell_nothing_apart(tmp_path):
    (alone,) = said(ablation(tmp_path / "r", [Differences()], seeds=1))

    assert alone == "No significant difference: 2 differences of single runs, whose spread is unknown."


def test_effects_are_shown_where_holm_shows_them(tmp_path):
    axes = {"a": "train.supervision_steps", "b": "train.batch_size"}
    variants = [
        {"label": f"a={a}, b={b}", "levels": {"a": a, "b": b}, "changes": {axes["a"]: a, axes["b"]: b}, "model": "ViTRM"}
        for a in (1, 2)
        for b in (32, 64)
    ]
    made = plan(variants=variants, axes=axes, report=dump_report([Effects()]))
    results = Results(tmp_path / "r").create()
    write_json(results.study("made_up", "paper") / "plan.json", made)
    for at, mean in enumerate((90.0, 90.0, 93.0, 93.0)):
        for seed, off in enumerate(AROUND):
            results.run(run_id(at, seed)).finish(as_result(result(mean + off)))

    shown, untold = said(results)

    assert shown.startswith("Effects shown: on top-1 accuracy, a +3.00 points (95 % interval +2.")
    assert untold == "No effect shown: on top-1 accuracy, of b, a \N{MULTIPLICATION SIGN} b (n=3)."


def test_without_a_question_the_best_of_the_first_table_leads(tmp_path):
    table = Table("scores", metrics=("params", "top1_accuracy"))

    assert said(ablation(tmp_path / "told", [table], means=(93.0, 91.0, 90.0)))[0].startswith(
        "Best: by top-1 accuracy, base 93.0 "
    )
    assert said(ablation(tmp_path / "tied", [table], means=(93.0, 93.0, 93.0))) == [
        "No significant difference: between variants by top-1 accuracy (n=3)."
    ]
    assert said(ablation(tmp_path / "none", [Curve("c", x="part", y="auroc")])) == [
        "Nothing is known yet: the report has no two values to compare."
    ]
    assert words(ablation(tmp_path / "asked", [table, Differences()])) == ["Worse than base", "No significant difference from base"]


def test_a_search_opens_with_its_best_trial(tmp_path):
    results = write_search(tmp_path / "r")

    assert said(results)[0].startswith("Best trial: 4: latent_steps=4")


def test_of_each_word_one_comes_before_a_second_of_any():
    many = [Sentence("Supported", str(at)) for at in range(4)] + [Sentence("Contradicted", "4")]

    assert [one.said for one in _in_turns(many, 3)] == ["0", "1", "4"]
    assert [one.said for one in _in_turns(many, MOST)] == ["0", "1", "2", "3", "4"]


# --------------------------------------------------------------------------------------------------------------- open


def test_an_open_claim_says_what_would_settle_it_and_decided_ones_say_nothing(tmp_path):
    (undecided,) = said(study(tmp_path / "r", [CLOSE]))

    assert undecided.startswith("Undecided: two steps are worse: top-1 accuracy 93.0 % vs 92.9 %, +0.10 points (95 % interval")
    assert undecided.endswith("; needs about 11 more seeds.")
    assert "Undecided" not in words(study(tmp_path / "decided", [HURTS, SAME]))


# ---------------------------------------------------------------------------------------------------------- published


def test_published_values_are_counted_by_verdict_with_the_shortest_reason(tmp_path):
    (published,) = [one for one in said(write_study(tmp_path / "r")) if one.startswith("Published")]

    assert published.startswith("Published: ")
    assert "reproduced" in published

    other = base()
    other["data"]["name"] = "digits"
    (apart,) = [one for one in said(write_study(tmp_path / "other", base=other)) if one.startswith("Published")]
    assert "not comparable (data digits, not cifar10" in apart


def test_what_is_counted_without_training_is_told_apart_from_what_was_measured(tmp_path):
    (published,) = [one for one in said(write_study(tmp_path / "r")) if one.startswith("Published")]

    measured, _, counted = published.partition("; of parameters and FLOPs, ")
    assert measured == "Published: 1 of 4 values consistent, 1 undecided, 2 not comparable (epochs 1000, not 300)"
    assert counted == "2 of 3 values reproduced, 1 not run."  # ViTRM's and the ViT's parameters


def test_nothing_published_is_no_sentence(tmp_path):
    assert "Published" not in words(ablation(tmp_path / "r", [Table("scores", metrics=("top1_accuracy",))]))


# ------------------------------------------------------------------------------------------------------------ missing


def test_runs_without_a_number_are_counted_and_a_whole_study_says_nothing_of_them(tmp_path):
    assert said(write_study(tmp_path / "r"))[-1] == "Missing: 1 of 12 runs diverged, 1 failed (code), 1 unfinished, 3 not run."
    assert "Missing" not in words(study(tmp_path / "whole", [HURTS]))


def test_before_a_run_has_finished_and_after_a_smoke_run_nothing_is_known(tmp_path):
    none = ablation(tmp_path / "none", [Differences()], status="failed")
    smoke = ablation(tmp_path / "smoke", [Differences()], smoke=True)

    assert said(none) == ["Nothing is known yet: no run has finished.", "Missing: 9 of 9 runs failed (code)."]
    assert said(smoke) == ["Nothing is known yet: a smoke run tries the code, and its numbers mean nothing."]


# -------------------------------------------------------------------------------------------------------------- pages


def test_a_report_opens_with_its_findings_in_every_format(tmp_path):
    results = study(tmp_path / "r", [HURTS, HELPS])
    out = io.StringIO()

    path = show_report(results, "made_up", "paper", (), Console(file=out, width=200))
    page, sentence = path.read_text(), said(results)[0]

    assert page.index('class="question"') < page.index('class="findings"') < page.index('class="facts"')
    assert "<li><strong>Supported</strong>: more supervision hurts: top-1 accuracy 93.0" in page
    assert "in the order of the page and of each kind one before a second" in page
    assert out.getvalue().startswith(sentence)
    assert (
        path.with_suffix(".md")
        .read_text()
        .startswith("# made\\_up (paper)\n\nDoes the batch size matter?\n\n- **Supported:** more supervision hurts: ")
    )
    assert load(results.root).findings == said(results)
    assert "<strong>Supported</strong>" in load(results.root)._repr_html_()


def test_headings_say_the_finding_where_there_is_one(tmp_path):
    curve = Curve("depth", x="eval.depth", y="top1_accuracy", by="part", title="Depth")
    results = ablation(tmp_path / "r", [Differences(), Table("scores", title="Scores", metrics=("top1_accuracy",)), curve])
    claims = study(tmp_path / "claims", [HURTS, HELPS])

    heads = headings(write_report(results, "made_up", "paper"))
    assert heads[:3] == [
        "Top-1 accuracy: differences: 1 worse, 1 not significantly different",
        "Scores: best by top-1 accuracy: base and same",
        "Depth: 91.0 % at 1, 93.0 % at 2 (base)",
    ]
    assert headings(write_report(claims, "made_up", "paper"))[0] == "Claims: 1 supported, 1 contradicted"
    untold = ablation(
        tmp_path / "untold", [replace(curve, by=None), Table("scores", title="Scores")], (93.0, 93.0, 93.0), seeds=1
    )
    assert headings(write_report(untold, "made_up", "paper"))[:2] == ["Depth", "Scores: no significant difference by top-1 accuracy"]


def headings(path) -> list[str]:
    return re.findall("<h2[^>]*>(.*?)</h2>", path.read_text())
