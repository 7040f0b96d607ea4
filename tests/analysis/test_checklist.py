"""The checklists: what records answer, where it stands, and what is left to the author."""

import re
import shlex
from pathlib import Path

import pytest

from recstudy.analysis.checklist import AUTHOR, NEURIPS, REPRODUCIBILITY, checklist, latex
from recstudy.analysis.frame import load_study
from recstudy.command import main
from recstudy.testing import make_failure, make_result, tiny_study, write_study

MADE = {"hardware": {"host": "secret-host", "cpu": "Some CPU", "cores": 8}, "commit": "abc123", "versions": {"torch": "2.11"}}
COST = {"seconds": 60.0, "evaluation_seconds": 30.0, "train_pflop": 0.5, "params": 1000, "peak_memory_mb": 64.0}


def answers(results) -> dict[str, object]:
    return {one.item: one for one in checklist(load_study(results, "tiny", "quick"))}


@pytest.fixture
def results(tmp_path):
    return write_study(
        tmp_path / "results",
        seeds=3,
        score=lambda run: make_failure() if (run.variant, run.seed) == (1, 2) else make_result(90.0, cost=COST, provenance=MADE),
    )


def test_records_answer_what_they_can_and_the_rest_is_the_author_s(results):
    found = answers(results)

    significance = found["7. Experiment statistical significance"]
    assert significance.answer == "Yes"
    assert "over 2 to 3 seeds a variant" in significance.says
    assert "initial weights, order of training" in significance.says
    compute = found["8. Experiments compute resources"].says
    assert compute.startswith(
        "5 runs on Some CPU, 8 cores, 1 worker. A run took 90 s (median; 90 s to 90 s), all 5 finished runs 7.5 min"
    )
    assert "2.5 PFLOP of training; at most 64 MB of memory. Not counted: 1 run that did not finish" in compute
    assert found["Results: number of runs and seeds"].says == "2 variants, seeds 0, 1, 2; 6 runs: 5 done, 1 failed."
    assert "commit abc123" in found["Code: dependencies, training and evaluation"].says
    assert found["12. Licences for existing assets"].says.endswith("CC BY 4.0 (UCI, by scikit-learn).")
    assert found["Code: trained weights"].answer == "No"
    for item in ("2. Limitations", "9. Code of ethics", "14. Crowdsourcing and human subjects", "16. Use of LLMs"):
        assert (found[item].answer, found[item].says) == ("TODO", AUTHOR)
    assert all(one.where for one in found.values() if one.answer == "Yes" and "icence" not in one.item)
    assert not any("secret-host" in one.says for one in found.values())


def test_variants_with_one_seed_have_no_error_bars_and_a_study_without_runs_says_so(tmp_path):
    alone = answers(write_study(tmp_path / "one", seeds=1))["7. Experiment statistical significance"]
    assert alone.answer == "No"
    assert alone.says.endswith("Without an interval over seeds: latent_steps=1 / latent_steps=2.")

    none = answers(write_study(tmp_path / "none", score=lambda run: None))
    assert none["7. Experiment statistical significance"].says == "No run has finished yet."
    assert none["8. Experiments compute resources"].answer == "TODO"


def test_both_files_have_every_item_and_latex_is_balanced_and_escaped(results, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/how-to/paper.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("recstudy checklist ")]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(shlex.split(line, comments=True)[1:])

    folder = results.study("tiny", "quick") / "report"
    md, tex = (folder / "checklist.md").read_text(), (folder / "checklist.tex").read_text()
    assert [line[2:] for line in md.splitlines() if line.startswith("# ")] == [NEURIPS, REPRODUCIBILITY]
    count = len(checklist(load_study(results, "tiny", "quick")))
    assert len(re.findall(r"^- \*\*", md, re.M)) == len(re.findall(r"Answer: \\answer(?:Yes|No|NA|TODO){}", tex)) == count
    assert tex.count("{") == tex.count("}")
    assert not re.search(r"(?<!\\)[%&#_]", tex.partition("\\section")[2])
    assert tex == latex(checklist(load_study(results, "tiny", "quick")))


def test_a_question_with_hostile_words_stays_text(tmp_path):
    results = write_study(
        tmp_path / "r", tiny_study(question="?"), score=make_result(1.0, provenance={"commit": "\\input{x}%$&"})
    )
    tex = latex(checklist(load_study(results, "tiny", "quick")))

    assert "\\input" not in tex
