"""Finished runs know their code: an edit is told, and `--rerun` runs them again and keeps what they had."""

import json
from itertools import product
from pathlib import Path

import pytest
from PIL import Image
from shell import Shell

from recstudy import source
from recstudy.analysis.audit import audit
from recstudy.analysis.frame import load_study
from recstudy.analysis.registration import changes, lines
from recstudy.cluster.driver import archive
from recstudy.config import RunConfig, TrainConfig
from recstudy.data import Digits, ImageFolder
from recstudy.data.cache import load
from recstudy.errors import ConfigError
from recstudy.models import CNN, ViTRM
from recstudy.records import Results, read_json, write_json
from recstudy.records.plans import read_plan
from recstudy.source import Code
from recstudy.study.design import Variant
from recstudy.study.plan import earlier, record_plan
from recstudy.study.rerun import outdated
from recstudy.study.study import Run, Study, make_plan
from recstudy.train.code import codes, part_names

NETWORK = """
import torch
from torch import nn
from recstudy.models.networks.contract import Network, Output

class PerceptronNetwork(Network):
    def __init__(self, config, shape, classes):
        super().__init__()
        self.embed, self.head = nn.Linear(64, config.width), nn.Linear(config.width, classes)

    def start(self, images, told=None):
        return ()

    def forward(self, images, carry):
        embedding = self.embed(images.flatten(1))  # of all pixels
        return Output(self.head(torch.relu(embedding))), carry
"""
STUDY = '''
"""Does a perceptron read digits?"""
from typing import ClassVar, Literal
from recstudy import Place, RunConfig, Study, TrainConfig, Variant, main
from recstudy.config import FAMILIES, ModelConfig
from recstudy.data import Digits

@FAMILIES.add("perceptron")
class Perceptron(ModelConfig):
    network: ClassVar[str] = "perceptron:PerceptronNetwork"
    family: Literal["perceptron"] = "perceptron"
    width: int = 16

train = TrainConfig(epochs=2, ema_decay=0.9, batch_size=16, learning_rate=1e-2)
preset = RunConfig(data=Digits(limit=200), model=Perceptron(), train=train, place=Place(gpus_per_run=0))
study = Study(name="tiny", presets={"quick": preset}, variants=[Variant("plain", {}), Variant("wide", {"model.width": 32})])

if __name__ == "__main__":
    main(study)
'''
TINY = RunConfig(data=Digits(limit=32), model=ViTRM(patch=4, width=8, heads=2), train=TrainConfig(epochs=1))
RUN = Run(0, "tiny", 0, TINY, TINY.run_id)


@pytest.mark.whole
def test_an_edited_network_is_told_and_run_again_on_request(tmp_path):
    (tmp_path / "home").mkdir()
    network, study = tmp_path / "home/perceptron.py", tmp_path / "home/study.py"
    network.write_text(NETWORK)
    study.write_text(STUDY)
    shell = Shell(tmp_path, study)
    shell.run()
    before = shell.records()

    network.write_text(NETWORK.replace("# of all pixels", "# of every pixel"))
    assert "other code" not in shell.run()

    network.write_text(NETWORK.replace("self.embed(images.flatten(1))", "0 * self.embed(images.flatten(1))"))
    told = shell.run()
    assert "2 runs are of other code: perceptron.py changed since " in told
    assert "2 runs: all finished before" in told
    assert shell.records() == before  # nothing is run unasked
    assert "2 runs are of other code: perceptron.py changed since " in shell.page()
    assert [run["changed"] for run in json.loads(shell.run("--dry-run", "--json"))] == [["code"], ["code"]]

    assert "2 finished runs to run again" in shell.run("--rerun", "changed")

    after = shell.records()
    assert {run: result["metrics"] for run, result in after.items()} != {run: result["metrics"] for run, result in before.items()}
    assert {run: read_json(shell.results / f"runs/{run}/attempt-1/result.json") for run in before} == before
    assert [result["provenance"]["earlier"] for result in after.values()] == [1, 1]
    assert "other code" not in shell.run("--rerun", "changed")
    assert "2 runs; the records of before are kept in runs/ID/attempt-N" in shell.page()
    assert "--rerun" not in read_json(shell.results / "studies/tiny/quick/plan.json")["command"]


@pytest.fixture
def results(tmp_path) -> Results:
    """With `RUN`, finished by the present code on the present images."""
    results = Results(tmp_path / "results").create()
    checksum = load(RUN.config.data, tmp_path).checksum
    made = {part: {"digest": code.digest, "files": dict(code.files)} for part, code in codes(RUN.config).items()}
    finish(results, made, checksum)
    return results


def finish(results: Results, made: dict, checksum: str, run: Run = RUN) -> None:
    code = {part: one["digest"] for part, one in made.items()}
    provenance = {"commit": "3f2a91c0ffee", "code": code, "data_checksum": checksum}
    write_json(results.run(run.id).code, made)
    write_json(results.run(run.id).result, {"status": "done", "metrics": {}, "provenance": provenance})


def told(results: Results, folder: Path) -> list[str]:
    return lines(outdated([RUN], results, folder).found)


def test_a_run_of_the_present_code_is_not_mentioned_and_neither_is_one_of_unknown_code(results, tmp_path):
    assert told(results, tmp_path) == []

    write_json(results.run(RUN.id).result, {"status": "done", "metrics": {}, "provenance": {"commit": "3f2a91c0ffee"}})

    assert told(results, tmp_path) == []


def test_a_run_of_code_whose_files_were_moved_is_not_of_other_code(results, tmp_path, monkeypatch):
    """By the table that takes digests over; every digest in it is another one's."""
    moved = source._moved()
    assert {len(digest) for old, new in moved.items() for digest in (old, *new)} == {16}
    assert all(old not in new for old, new in moved.items())
    now = codes(RUN.config)
    monkeypatch.setattr(source, "_moved", lambda: {f"old {part}": ["another", code.digest] for part, code in now.items()})

    finish(results, {part: {"digest": f"old {part}", "files": {}} for part in now}, "")
    assert told(results, tmp_path) == []

    finish(results, {part: {"digest": "older", "files": {}} for part in now}, "")
    assert told(results, tmp_path) != []


def test_other_code_is_named_by_its_files_and_the_commit_of_the_run(results, tmp_path):
    made = {part: {"digest": "of before", "files": dict(code.files)} for part, code in codes(RUN.config).items()}
    made["model"]["files"] |= {
        "recstudy/models/networks/vitrm.py": "1",
        "recstudy/models/gone.py": "2",
        "recstudy/models/classifiers.py": "3",
    }
    del made["data"], made["train"]

    finish(results, made, "")

    assert told(results, tmp_path) == [
        "1 run is of other code: recstudy/models/classifiers.py, recstudy/models/networks/vitrm.py and 1 more changed since 3f2a91c"
    ]


def test_code_that_changed_while_a_run_was_under_way_is_other_code(results, tmp_path):
    now = codes(RUN.config)["model"]

    finish(results, {"model": {"digest": f"{Code({'a.py': '1'}).digest} {now.digest}", "files": dict(now.files)}}, "")

    assert told(results, tmp_path) == ["1 run is of other code: it changed while under way"]


def test_other_data_is_named(results, tmp_path):
    finish(results, {}, "ab12")

    assert told(results, tmp_path) == ["1 run is of other data: Digits changed since 3f2a91c"]


def test_files_that_were_edited_since_they_were_read_are_told_even_where_all_is_finished(results, tmp_path):
    """Nothing decodes them then, so whether the runs are of them is not known, and is not left unsaid."""
    config = RunConfig(data=ImageFolder(path="own", class_count=2, size=8, channels=1), model=CNN(width=8))
    for part, kind, number in product(("train", "test"), "ab", range(10)):
        file = tmp_path / f"own/{part}/{kind}/{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number).save(file)
    run = Run(0, "own", 0, config, config.run_id)
    finish(results, {}, load(config.data, tmp_path).checksum, run)
    assert outdated([run], results, tmp_path).notices == []

    Image.new("L", (8, 8), 200).save(tmp_path / "own/train/a/0.png")

    assert outdated([run], results, tmp_path).notices == [
        "The files of own were not read here as they are now, so it is not known whether finished runs are of them. "
        "--rerun changed reads them."
    ]
    assert outdated([run], results, tmp_path, "changed").again == {run.id}


def test_the_reading_half_says_the_same_of_the_plan_on_disk(results, tmp_path):
    study = Study("tiny", {"quick": RUN.config}, [Variant("tiny", {})], question="?")
    finish(results, {"model": {"digest": "of before", "files": {}}}, "ab12")
    record_plan(make_plan(study), results, tmp_path)
    records = load_study(results, "tiny", "quick")

    found = [finding for rule, finding in audit(records).findings if rule == "code and data since"]

    assert lines(changes(records)) == told(results, tmp_path) == [finding.what for finding in found]
    assert [one.partition(":")[0] for one in told(results, tmp_path)] == ["1 run is of other code", "1 run is of other data"]
    assert found[0].command.endswith("--rerun changed")


@pytest.mark.parametrize(("which", "chosen"), [("", set()), ("changed", set()), ("all", {RUN.id}), ("ti*", {RUN.id})])
def test_finished_runs_are_run_again_only_where_they_are_named(results, tmp_path, which, chosen):
    assert outdated([RUN], results, tmp_path, which).again == chosen


def test_a_label_that_nothing_has_is_refused(results, tmp_path):
    with pytest.raises(ConfigError, match=r"--rerun takes changed, all or a label, but got 'chnged': there are 'tiny'"):
        outdated([RUN], results, tmp_path, "chnged")


@pytest.mark.parametrize("store", [False, True])
def test_what_a_run_had_stays_in_a_folder_and_on_a_store(store, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "scratch"))
    results = Results(f"local://{tmp_path}/store" if store else tmp_path / "store").create()
    folder = results.run(RUN.id)
    write_json(folder.result, {"status": "done", "metrics": {}})
    folder.weights.write_text("weights")
    results.send(folder.path)

    archive([RUN.id], results)

    assert results.states() == {}
    there = tmp_path / "store/runs" / RUN.id
    assert {str(file.relative_to(there)) for file in there.rglob("*") if file.is_file()} - {"lock", "lease"} == {
        "attempt-1/result.json", "attempt-1/weights.safetensors"
    }  # fmt: skip


def test_what_is_named_by_the_training_s_settings_is_part_of_its_code():
    """Another optimiser, loss, augmentation or selecting metric is other code under another name."""
    changes = {"train.optimizer": "adam_atan2", "train.loss": "stablemax", "train.augment.more": ("flip",), "train.score": "nll"}
    runs = [RUN.config, *(RUN.config.with_changes({field: value}) for field, value in changes.items())]

    assert len({part_names(run)["train"] for run in runs}) == 5
    assert len({codes(run)["train"].digest for run in runs}) >= 4  # `flip` is part of every training's code
    assert "recstudy/metrics/classification.py" in codes(runs[-1])["train"].files


def test_runs_of_an_earlier_revision_are_told_and_those_of_other_settings_are_not(tmp_path, monkeypatch):
    """Raised for the two runs of attention, not for the one of the baseline, which the new plan still names."""
    results = Results(tmp_path / "results").create()
    variants = [Variant("one", {}), Variant("two", {"model.latent_steps": 2}), Variant("CNN", {"model": CNN()})]
    study = Study("made_up", {"quick": RUN.config}, variants, seeds=1)
    before, other = make_plan(study), make_plan(study, changes={"train.epochs": 9})
    for plan in (before, other):
        record_plan(plan, results)
        for run in plan.runs:
            finish(results, {}, "", run)
    monkeypatch.setattr(ViTRM, "revision", 2)

    now = make_plan(study)
    notices = outdated(now.runs, results, tmp_path, earlier=earlier(now, results)).notices
    record_plan(now, results)

    assert notices[-1] == "2 finished runs of these settings are of an earlier revision: kept, and not used."
    assert read_plan(results.study("made_up", "quick")).others == {
        before.definition: "2 runs of an earlier revision",
        other.definition: "3 runs",
    }
