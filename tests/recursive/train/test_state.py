import hashlib
import io
import logging
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from recstudy.base.errors import ConfigError, DataError
from recstudy.recursive import CaptionFolder
from recstudy.recursive.contract import promises
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.models.networks.vq import load_tokenizer, save_tokenizer
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.recursive.train.loop import Training
from recstudy.recursive.train.state import DIGEST, checkpoints, load_checkpoint, save_checkpoint

RUN = tiny_run(epochs=4)


def trained(epochs: int, folder: Path) -> Training:
    run = training_of(RUN)
    for line in run.epochs():
        save_checkpoint(run, folder)
        if line["epoch"] == epochs - 1:
            break
    return run


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10**9), st.sampled_from(["flip", "cut"]))
def test_two_checkpoints_are_kept_and_a_damaged_one_is_skipped_for_the_one_before(
    tmp_path_factory, place, damage
):
    folder = tmp_path_factory.mktemp("run")
    trained(3, folder)
    newest, _ = checkpoints(folder)
    content = bytearray(newest.read_bytes())
    position = place % len(content)
    content[position] ^= 1
    newest.write_bytes(content if damage == "flip" else content[:position])
    run = training_of(RUN)

    assert load_checkpoint(run, folder)
    assert run.state.epoch == 2


def test_run_without_a_good_checkpoint_warns_and_restarts(tmp_path, caplog):
    run = training_of(RUN)
    (tmp_path / "checkpoint-000001.pt").write_bytes(b"")

    with caplog.at_level(logging.WARNING):
        assert not load_checkpoint(run, tmp_path)

    assert "checkpoint-000001.pt is damaged. The checkpoint before it is tried" in caplog.text
    assert run.state.epoch == 0


def test_a_checkpoint_that_would_execute_something_is_not_read(tmp_path):
    archive = pickle.dumps(Path())
    (tmp_path / "checkpoint-000001.pt").write_bytes(archive + hashlib.sha256(archive).digest())

    with pytest.raises(Exception, match=r"weights_only|Weights only|Unsupported"):
        load_checkpoint(training_of(RUN), tmp_path)


@pytest.mark.parametrize("detach", [True, False])
def test_a_run_with_mixed_images_resumes_to_the_bit(detach):
    changes = {"train.detach_carry": detach, "train.supervision_steps": 2, "train.augment.mixup": 0.3}
    promises.resumes_to_the_bit(RUN.with_changes(changes))


CAPTIONS = ("a large bright disc", "a small faint ring")


@pytest.fixture
def films(tmp_path, monkeypatch):
    """Ten images of 16x16 with the same words each, in a folder of its own."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "films"
    (place / "images").mkdir(parents=True)
    for index in range(10):
        Image.new("RGB", (16, 16), (20 * index, 0, 0)).save(place / f"images/{index}.png")
    write_captions(place)
    return place


def write_captions(place: Path, word: str = "left") -> None:
    splits = ["train"] * 8 + ["val", "test"]
    lines = [f"{index},{CAPTIONS[index % 2]} {word},{split}" for index, split in enumerate(splits)]
    (place / "captions.csv").write_text("\n".join(["image,caption,split", *lines]) + "\n")


def captioner(place: Path, tokenizer: str = "word") -> Training:
    data = CaptionFolder(path=place.name, size=16, length=32, tokenizer=tokenizer, vocabulary=300)
    return training_of(
        tiny_run(tiny_model("image_lstm", tuned=True), data, epochs=2, batch_size=4), place.parent
    )


@pytest.mark.parametrize("tokenizer", ["word", "bpe"])
def test_a_checkpoint_refuses_captions_cut_by_another_tokenizer(films, tmp_path, tokenizer):
    """The same run id: only the words in the file have changed, and with them what each id stands for."""
    run = captioner(films, tokenizer)
    next(run.epochs())
    save_checkpoint(run, tmp_path)
    write_captions(films, word="right")
    other_training = captioner(films, tokenizer)
    assert other_training.config.run_id == run.config.run_id

    names = rf"{tokenizer} \(\d+ ids, \w{{12}}\)"
    fix = r"The captions have changed. Restore the old ones, or remove \S+ to train again"
    with pytest.raises(
        DataError,
        match=rf"000001.pt was trained with the text tokenizer {names}, but the data has {names}. {fix}",
    ):
        load_checkpoint(other_training, tmp_path)
    assert load_checkpoint(run, tmp_path)


def test_checkpoint_accepts_other_captions_of_the_same_words(films, tmp_path):
    """Bytes stand for the same letters whatever the captions are."""
    run = captioner(films, "byte")
    next(run.epochs())
    save_checkpoint(run, tmp_path)
    write_captions(films, word="right")

    assert load_checkpoint(captioner(films, "byte"), tmp_path)


def aligner(place: Path, cache: str, monkeypatch) -> Training:
    """Each cache is a machine's."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(place.parent / cache))
    data = CaptionFolder(path=place.name, size=16, length=32, tokenizer="byte")
    model = tiny_model("fuselip", encoder={"text_vocabulary": 260}, tokenizer={"size": 16, "patch": 8})
    return training_of(tiny_run(model, data, epochs=2, batch_size=4), place.parent)


def test_a_checkpoint_refuses_codes_of_another_image_tokenizer(films, tmp_path, monkeypatch):
    """As on a node whose hardware rounds otherwise: the same run, but its tokenizer came out with another
    bit.
    """
    run = aligner(films, "here", monkeypatch)
    next(run.epochs())
    save_checkpoint(run, tmp_path)
    aligner(films, "there", monkeypatch)
    (tokenizer_file,) = (tmp_path / "there").glob("vq-*.safetensors")
    network, header = load_tokenizer(tokenizer_file)
    network.tokenizer.encoder.class_token.data += 1
    save_tokenizer(network, header["facts"], header["trained_on"], tokenizer_file)
    other_training = aligner(films, "there", monkeypatch)
    assert other_training.config.run_id == run.config.run_id

    fix = r"Copy vq-\*.safetensors from RECSTUDY_CACHE of the machine where the run started, or resume there, or remove \S+ to train again"
    with pytest.raises(
        DataError, match=rf"with the image tokenizer \w{{20}}, but this machine has \w{{20}}. .*{fix}"
    ):
        load_checkpoint(other_training, tmp_path)
    assert load_checkpoint(run, tmp_path)


def test_a_checkpoint_that_names_no_tokenizers_is_used(films, tmp_path, monkeypatch):
    """Those of earlier versions."""
    run = aligner(films, "here", monkeypatch)
    next(run.epochs())
    save_checkpoint(run, tmp_path)
    (path,) = checkpoints(tmp_path)
    content = torch.load(io.BytesIO(path.read_bytes()[:-DIGEST]), weights_only=True)
    del content["tokenizer"], content["image_tokenizer"]
    buffer = io.BytesIO()
    torch.save(content, buffer)
    path.write_bytes(buffer.getvalue() + hashlib.sha256(buffer.getvalue()).digest())

    assert load_checkpoint(run, tmp_path)


def test_checkpoint_of_another_network_is_named_with_the_fix(tmp_path):
    """The network's code was changed between a kill and the command that goes on."""
    trained(2, tmp_path)
    other_network = training_of(RUN)
    other_network.state.network.extra_layer = torch.nn.Linear(1, 1)

    with pytest.raises(
        ConfigError,
        match=r"checkpoint-000002.pt does not fit the network.* Missing key.*extra_layer.weight.*remove .* to train again",
    ):
        load_checkpoint(other_network, tmp_path)
