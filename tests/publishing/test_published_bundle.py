"""A published study as the target of another one: `published("bundle:PLACE")`."""

import json
import re
from statistics import fmean

import pytest

import recstudy
from recstudy.command import main
from recstudy.errors import ConfigError
from recstudy.papers import published
from recstudy.records import Results
from recstudy.report import Table
from recstudy.testing import tiny_run, tiny_study

SCORE = "top1_accuracy"


def replicated(bundle, folder, **train):
    """The page's table of a study that stands beside the bundle, by variant."""
    targets = published(f"bundle:{bundle}", margin=60, why="a test's")
    study = tiny_study(
        base=tiny_run(epochs=2, **train),
        seeds=2,
        name="again",
        report=[Table("beside", metrics=(SCORE, "params"), targets=targets)],
    )
    recstudy.run(study, seeds=2, results=folder, ray=False)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["report", str(Results(folder).study("again", "quick"))])
    return (Results(folder).study("again", "quick") / "report/tables/beside.md").read_text()


def test_each_variant_is_the_mean_of_its_runs_with_all_its_settings(published_once):
    targets = published(f"bundle:{published_once}")
    own = [file for file in published_once.glob("results/runs/*/config.json") if '"latent_steps": 1' in file.read_text()]
    scores = [json.loads((file.parent / "result.json").read_text())["metrics"][SCORE] for file in own]
    (first,) = (one for one in targets if one.metric == SCORE and one.where["model.latent_steps"] == 1)

    assert published(f"bundle:{published_once}.zip") == targets
    assert [one.metric for one in targets] == [SCORE, "params"] * 2
    assert len(scores) == 2
    assert first.value == pytest.approx(fmean(scores))
    assert (first.where["train.epochs"], first.where["data.limit"], first.note) == (2, 32, "the mean of n=2")
    assert re.fullmatch(r"tiny quick \(records [0-9a-f]{12}, latent_steps=1\)", first.source)
    assert published(f"bundle:{published_once}", only=["nll"])[0].metric == "nll"


def test_who_runs_the_same_again_is_compared_and_who_runs_something_else_is_not(published_once, tmp_path):
    same = replicated(published_once, tmp_path / "same")
    other = replicated(published_once, tmp_path / "other", learning_rate=0.002)

    assert re.search(r"\| 1 \| 14\.1 .*\| 14\.1, .*\| 905 \| 905, reproduced \|", same)
    assert "not comparable" not in same
    assert re.search(r"not comparable: learning\\_rate 0\.002, not 0\.0003", other)


def test_a_variant_of_which_a_run_gave_no_number_compares_with_nothing(bundle):
    lost = next(iter(sorted(bundle.glob("results/runs/*/result.json"))))
    lost.unlink()

    against = {one.model: one.against for one in published(f"bundle:{bundle}")}

    assert sorted(against.values()) == [(), ("of its 2 runs 1 gave no number, and the rest may be the lucky ones",)]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere.zip", "no bundle at '.*nowhere.zip'. Give the folder or the zip that `recstudy publish` wrote"),
        (".", "is no bundle"),
        ("test_published_bundle.py", "is no bundle"),
    ],
)
def test_what_is_no_bundle_is_refused(place, words):
    with pytest.raises(ConfigError, match=words):
        published(f"bundle:{place}")


def test_damaged_settings_are_refused(bundle):
    for config in bundle.glob("results/runs/*/config.json"):
        config.write_text('{"data": {"name": "digits"}, "train": 3}')

    with pytest.raises(ConfigError, match=r"config\.json is damaged: it has not all of data, model, train"):
        published(f"bundle:{bundle}")


def test_a_metric_that_the_bundle_has_not_is_refused(published_once):
    with pytest.raises(ConfigError, match="no metric 'cider' in bundle:"):
        published(f"bundle:{published_once}", only=["cider"])
