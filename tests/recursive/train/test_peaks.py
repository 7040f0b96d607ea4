"""The peaks of cards, a run's share of them, and the words for its precision."""

import json

import pytest
import torch

from recstudy.programs.trial import run_trial
from recstudy.recursive.testing import make_trial, tiny_run
from recstudy.recursive.train import peaks
from recstudy.recursive.train.peaks import mfu, peak_tflops, products, products_in_words
from recstudy.report.names import metric

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def result_of(folder, config):
    return json.loads((folder / "runs" / config.run_id / "result.json").read_text())


@pytest.fixture
def matmul_precision():
    precision = torch.get_float32_matmul_precision()
    yield torch.set_float32_matmul_precision
    torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize(
    ("card", "kind", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989),
        ("NVIDIA H100 PCIe", "bfloat16", 756),
        ("NVIDIA A100-SXM4-40GB", "tf32", 156),
        ("NVIDIA A100 80GB PCIe", "float32", 19.5),
        ("Tesla V100-SXM2-16GB", "float32", 15.7),
        ("Tesla T4", "bfloat16", None),
        ("NVIDIA GeForce RTX 3090", "bfloat16", 71),
        ("NVIDIA GeForce RTX 3090 Ti", "bfloat16", None),
        ("NVIDIA A10G", "bfloat16", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "bfloat16", None),
        ("", "float32", None),
    ],
)
def test_a_peak_is_that_of_the_very_card_and_precision(card, kind, peak):
    assert peak_tflops(card, kind) == peak


def test_mfu_is_the_share_of_the_peak_of_all_cards(monkeypatch):
    monkeypatch.setattr(peaks, "PEAKS", {"Toy 1": (100, 50, 10)})

    assert mfu(3, 60, "NVIDIA Toy 1", "bfloat16") == pytest.approx(50)  # 3 PFLOP in 60 s: 50 of 100 TFLOP/s
    assert mfu(3, 120, "NVIDIA Toy 1", "tf32") == pytest.approx(50)  # two cards for the same 60 s
    assert mfu(3, 60, "NVIDIA Toy 2", "bfloat16") is None
    assert mfu(0, 0, "NVIDIA Toy 1", "bfloat16") is None


def test_the_precision_of_products_is_what_torch_is_set_to(matmul_precision, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    matmul_precision("highest")
    assert (products("float32"), products_in_words("float32", CPU)) == ("float32", "float32")
    assert products_in_words("float32", CUDA) == "float32 (TF32 in convolutions)"

    matmul_precision("high")
    assert (products("float32"), products("bfloat16")) == ("tf32", "bfloat16")
    assert (
        products_in_words("bfloat16", CUDA)
        == "bfloat16, the rest float32 (TF32 in products and convolutions)"
    )


def test_a_record_states_the_precision_and_no_mfu_on_a_cpu(tmp_path):
    config = tiny_run()
    run_trial(make_trial(tmp_path, config), lambda line: None)
    result = result_of(tmp_path, config)

    assert result["provenance"]["precision"] == "float32"
    assert "mfu" not in result["cost"]


def test_a_record_of_a_known_card_has_its_mfu(monkeypatch, tmp_path):
    monkeypatch.setattr(peaks, "PEAKS", {"": (None, None, 0.5)})  # the processor's
    config = tiny_run()
    run_trial(make_trial(tmp_path, config), lambda line: None)
    cost = result_of(tmp_path, config)["cost"]

    teraflops = 1e3 * cost["train_pflop"] / (cost["epoch_seconds"] * config.train.epochs)
    assert cost["mfu"] == pytest.approx(100 * teraflops / 0.5)
    assert metric("mfu").heading == "MFU (%)"
