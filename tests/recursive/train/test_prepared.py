"""What is trained or computed before a run and kept: it is of this run's data alone, and made again where it
is damaged.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from recstudy.base.errors import DataError
from recstudy.recursive import FuseLIPBackboneConfig, PhantomCaptions
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.data.cache import load
from recstudy.recursive.tasks.captioning import encoders
from recstudy.recursive.tasks.captioning.tokenizer import encoder_weights
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.recursive.train.loop import Training

ALIGNER = tiny_model("fuselip")
EYES = FuseLIPBackboneConfig(aligner=ALIGNER, epochs=1, batch_size=8)
DATA = PhantomCaptions(limit=32, size=32)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def captioner(selection: str = "validation") -> Training:
    model = tiny_model("image_trm", backbone="fuselip", fuselip=EYES, cycles=1, latent_steps=1)
    return training_of(tiny_run(model, DATA, epochs=1, batch_size=8, ema_decay=0.0, selection=selection))


def encoder(training: Training) -> dict[str, Tensor]:
    return training.state.network.get_submodule("eyes.injection.encoder").state_dict()


def test_an_encoder_has_seen_the_training_images_of_its_own_run_alone(tmp_path, cache, monkeypatch):
    """Whatever run came before: one without a validation split trains on its images, and has another image
    tokenizer.
    """
    reference = encoder(captioner())
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "another"))
    of_all = encoder(captioner("last"))
    second = encoder(captioner())

    assert all(torch.equal(second[name], reference[name]) for name in reference)
    assert not all(torch.equal(second[name], of_all[name]) for name in reference)


@pytest.mark.parametrize(("checked", "name"), [(0, "image tokenizer"), (2, "FuseLIP encoder")])
def test_workers_with_other_encoders_are_refused(cache, monkeypatch, checked, name):
    """As on two machines with a cache each. The second check is that of the aligner, which one worker trains."""
    calls = []

    def of_two_workers(number: Tensor) -> Tensor:
        calls.append(number)
        return torch.cat([number, number + (len(calls) > checked)])

    monkeypatch.setattr(encoders, "concatenated", of_two_workers)

    with pytest.raises(DataError, match=f"its own {name}, so the workers differ. Set RECSTUDY_CACHE"):
        captioner()


def test_features_of_all_splits_are_there_before_training_is_watched(cache):
    """Those of the test images too, which are looked at after it: their hours would pass for a hang."""
    training = training_of(tiny_run(tiny_model("image_lstm"), DATA, epochs=1, batch_size=8))
    feature_files = sorted(cache.glob("features-*.npy"))
    list(training.epochs())
    training.finish()

    assert len(feature_files) == 2
    assert sorted(cache.glob("features-*.npy")) == feature_files


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("codes-*.npy", lambda content: content[: len(content) // 2]),
        ("fuselip-*.safetensors", lambda content: b""),
        ("vq-*.safetensors", lambda content: content[:-9] + bytes(9)),
    ],
)
def test_damaged_cache_file_is_rebuilt(cache, kind, damage):
    """Cut short by a full disk or a lost mount, or overwritten."""
    original = captioner()
    files = sorted(cache.glob(kind))
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, contents, strict=True):
        file.unlink()  # `whole` still reads the old one
        file.write_bytes(damage(content))

    rebuilt = captioner()

    ours, theirs = encoder(rebuilt), encoder(original)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert torch.equal(rebuilt._train.images, original._train.images)
    assert contents
    assert contents == [file.read_bytes() for file in files]


def test_a_cache_that_is_full_is_named_and_not_the_results(small_disk, monkeypatch):
    """What was trained for it has nowhere to go."""
    config = tiny_run(ALIGNER, DATA)
    data = load(DATA, Path())
    monkeypatch.setattr("recstudy.records.files.PAUSES", (0.1,))
    monkeypatch.setenv("RECSTUDY_CACHE", str(small_disk.path))

    with pytest.raises(
        DataError, match=r"cannot keep .* in .*/disk: No space left on device. Set RECSTUDY_CACHE to a folder"
    ):
        encoder_weights(config, data, "hash", lambda: {"weights": torch.zeros(400_000)})

    assert [path.suffix for path in small_disk.path.iterdir()] == [".lock"]
