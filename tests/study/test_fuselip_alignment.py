"""The study of FuseLIP from its public weights, with a tiny encoder in files of the same layout, on three test
images of ROCOv2's names.
"""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from shipped import ROOT, load, module

import recstudy
from recstudy.base.errors import DataError
from recstudy.cli.options import StudyOptions
from recstudy.cli.study import carry_out
from recstudy.records import Results
from recstudy.recursive import VQ, Alignment, FuseLIP
from recstudy.recursive.models.networks.fuselip import FuseLIPNetwork
from recstudy.recursive.models.networks.fuselip_weights import ENCODER, LAYERS, TITOK
from recstudy.recursive.models.networks.vq import ImageTokenizer
from recstudy.recursive.models.networks.weight_files import public_names
from recstudy.report.study_records import load_study

SIZES = {
    "encoder": {"width": 8, "heads": 2, "layers": 1, "codes": 4, "codebook": 16, "context": 24},
    "tokenizer": {
        "name": "tokenizer_tiny", "size": 32, "patch": 8, "codes": 4, "codebook": 16, "width": 8, "layers": 1,
        "heads": 2, "token_size": 4,
    },
}  # fmt: skip
TINY = {f"model.{part}.{name}": value for part, sizes in SIZES.items() for name, value in sizes.items()}
TINY |= {
    "data.size": 32,
    "data.length": 16,
    "train.epochs": 2,
    "train.batch_size": 4,
    "train.precision": "float32",
}
TESTED = ("000002", "000003", "000036")


@pytest.fixture
def folder(tmp_path):
    """A data folder with images, CLIP's files and FuseLIP's."""
    files = module(ROOT / "tests/recursive/data/clip_like.py").clip_files(tmp_path) / "clip/vocab.json"
    ids = json.loads(files.read_text()) | {"<|startoftext|>": 49_406, "<|endoftext|>": 49_407}
    files.write_text(json.dumps(ids))
    names = {"train": [f"{number:06}" for number in range(8)], "valid": ["000100", "000200"], "test": TESTED}
    noise = np.random.default_rng(0)
    for split, numbers in names.items():
        (tmp_path / "rocov2" / split).mkdir(parents=True)
        lines = ["ID,Caption", *(f"ROCOv2_2023_{split}_{number},left scan {number}" for number in numbers)]
        (tmp_path / "rocov2" / f"{split}_captions.csv").write_text("\n".join(lines) + "\n")
        for number in numbers:
            pixels = noise.integers(0, 256, (40, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "rocov2" / split / f"ROCOv2_2023_{split}_{number}.jpg")
    torch.manual_seed(0)
    encoder = FuseLIP(**SIZES["encoder"])
    parts = (
        (FuseLIPNetwork(encoder), ENCODER | LAYERS),
        (ImageTokenizer(VQ(legacy=True, **SIZES["tokenizer"])), TITOK | LAYERS),
    )
    weights = {
        name: part.state_dict()[own]
        for part, rules in parts
        for own, name in public_names(part, rules).items()
    }
    facts = {
        "text_config": {"vocab_size": encoder.vocabulary, "width": 8, "heads": 2, "layers": 1, "pad_id": 0},
        "context_length": 24, "mask_pad": True, "use_eoi": False, "image_tokenizer": "a/tokenizer_tiny",
    }  # fmt: skip
    public = tmp_path / "FuseLIP-S-CC3M-MM"
    public.mkdir()
    torch.save(weights, public / "pytorch_model.bin")
    (public / "config.json").write_text(json.dumps(facts))
    return tmp_path


def run(folder, **changes):
    recstudy.run(
        load("fuselip_alignment"), preset="paper", set=TINY | changes, seeds=1, only=["start=CC3M*"],
        results=folder / "r", data=folder, ray=False,
    )  # fmt: skip


def test_the_papers_pairs_stand_beside_those_of_the_same_images(folder, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(folder / "cache"))
    run(folder)
    records = load_study(Results(folder / "r"), "fuselip_alignment", "paper")
    part = next(part for part in load("fuselip_alignment").report if isinstance(part, Alignment))
    data = part.data(records)
    ours, theirs = (data[data["printed"] & (data["published"] == published)] for published in (False, True))

    assert theirs["before"].tolist() == [-0.0253, 0.3026]
    assert (
        ours["image"].tolist()
        == [f"test/ROCOv2_2023_test_{number}.jpg" for number in ("000002", "000036")] * 2
    )
    assert (ours["before"] != ours["after"]).all()
    # all runs start from the weights of the files, whatever their seed and loss
    assert ours["before"].tolist()[:2] == ours["before"].tolist()[2:]
    assert len(data) == 2 * len(TESTED) + 2
    assert data.attrs["notes"] == [
        "the published pairs belong to the same images, and to weights that the paper's authors trained"
    ]
    below = " ".join(part.html_below(records, data).split())
    label = "start CC3M, mask rate masked modelling"
    assert f"{label}, seed 0, ROCOv2 test/ROCOv2_2023_test_000036.jpg" in below
    assert f"{label}: the paper&#39;s first of 3 test pairs" in below


def test_weights_of_other_shapes_stop_the_study_before_it_writes_anything(folder):
    message = (
        r"FuseLIP-S-CC3M-MM/pytorch_model.bin: positional_embedding must have the shape \(25, 8\), but has"
        r" \(24, 8\). Set model.encoder.context=24$"
    )
    with pytest.raises(DataError, match=message):
        run(folder, **{"model.encoder.context": 25})
    assert not (folder / "r").exists()


def test_the_dry_run_reads_the_weights_of_both_mask_rates_once(folder, capsys):
    """Each reading of a file with copies of its weights prints a note."""
    file = folder / "FuseLIP-S-CC3M-MM/pytorch_model.bin"
    weights = torch.load(file)
    torch.save({"model": weights, "ema": dict(weights)}, file)

    carry_out(
        load("fuselip_alignment"),
        StudyOptions(
            dry_run=True, preset="paper", only=("start=CC3M*",), data=folder, results=str(folder / "r"),
            fields=tuple(f"{name}={value}" for name, value in TINY.items()),
        ),
    )  # fmt: skip

    output = capsys.readouterr()
    assert "6 runs" in output.out
    assert (output.out + output.err).count("has weights under model and under ema") == 1


def test_the_papers_claims_are_about_masked_modelling():
    """FuseLIP is trained with it (000, II.C and III.D)."""
    sides = [
        side for claim in load("fuselip_alignment").claims["paper"] for side in (claim.lower, claim.higher)
    ]

    assert [side["model.encoder.mask_rate"] for side in sides] == [0.1] * 4
