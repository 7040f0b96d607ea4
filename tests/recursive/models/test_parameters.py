"""Parameters of every family at its published sizes, to the digit."""

import pytest
import torch

from recstudy.recursive import (
    CNN,
    HRM,
    TRM,
    CaptionTransformer,
    Cifar10,
    Cifar100,
    DataConfig,
    HRMImage,
    ImageHRM,
    ImageLSTM,
    ImageTRM,
    MicarVLMoE,
    Mnist,
    R2Gen,
    ResNet,
    RunConfig,
    Shape,
    ShowAttendTell,
    ShowTell,
    SudokuExtreme,
    Transformer,
)
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.fuselip import TITOK_BL128, TITOK_S128, VQ, FuseLIP
from recstudy.recursive.models.networks.fuselip import FuseLIPNetwork
from recstudy.recursive.models.networks.hrm import HRMCore
from recstudy.recursive.models.networks.vq import VQNetwork

RESNET18, RESNET101 = 11_176_512, 42_500_160


class Grid(DataConfig):
    """A square of grey levels, as large as the published layouts want it."""

    name: str = "grid"
    side: int = 30

    @property
    def shape(self) -> Shape:
        return (1, self.side, self.side)

    @property
    def classes(self) -> int:
        return 10


def size(module):
    return sum(weight.numel() for weight in module.parameters())


def unfilled(model, words):
    """A captioner's network, without memory for its weights."""
    with torch.device("meta"):
        return model.build((3, 224, 224), words)


@pytest.mark.parametrize(
    ("data", "model", "params"),
    [
        (Grid(), HRM(vocabulary=12), 27_276_290),  # ARC
        (Grid(side=9), HRM(vocabulary=11), 27_275_266),  # Sudoku
        (Grid(), HRM(), 27_526_146),  # 8-bit pixels
        (Grid(), TRM(vocabulary=12, latent_steps=4), 6_829_058),
        (Grid(side=9), TRM(vocabulary=11, mixing="mlp"), 5_028_866),
        (Grid(), TRM(vocabulary=11, mixing="mlp"), 18_800_642),
        (Grid(side=9), TRM(vocabulary=11, mixing="mlp", networks=2), 2 * 5_028_866 - 2 * 11 * 512 - 1026),
        # the row of all puzzles, which the authors keep in a buffer, so that their counts are without it
        (
            SudokuExtreme(),
            TRM(tokens="cell", mixing="mlp", puzzle_emb="puzzle", identifiers=1),
            5_028_866 + 512,
        ),
        (SudokuExtreme(), HRM(tokens="cell", puzzle_emb="puzzle", identifiers=1), 27_275_266 + 512),
        # 12 heads of 42 leave out 8
        (SudokuExtreme(), Transformer(tokens="cell", heads=12), 27_275_266 - 8 * 4 * 512 * 8),
        (Cifar10(), HRMImage(), 3_552_576),
        (Mnist(), HRMImage(width=128, heads=4, low_layers=2, high_layers=2), 1_053_056),
        (Cifar100(), CNN(), 273_344),
        (Cifar10(), ResNet(stem="cifar"), 11_173_962),
        (Cifar10(), ResNet(depth=50, stem="cifar"), 23_520_842),
    ],
    ids=lambda value: getattr(value, "title", value),
)
def test_networks_that_judge_images(data, model, params):
    assert cost(RunConfig(data=data, model=model)).params == params


@pytest.mark.parametrize(
    ("model", "words", "params"),
    [
        # 7.21 and 7.35 M with W_v of ResNet-18's 512 features and the halting head
        (ImageTRM(), 128, 7_209_986),
        (ImageTRM(tuned=True), 260, 7_345_154 + RESNET18),
        # untied embeddings give the triple model 27.0 M (000 says 27 M of HRM)
        (ImageHRM(), 6144, 27_001_858),
        (ImageHRM(middle_cycles=0), 6144, 20_186_114),
        # E 133,120, the LSTM 2,101,248, W_o 133,380; W_v with its bias 262,656 once (merge) or for h and c
        # (inject)
        (ImageLSTM(), 260, 2_630_404),
        (ImageLSTM(image="inject"), 260, 2_893_060),
        # of 003: E 512,000 and W_o 513,000 of each; W_v 1,049,088 of all but SAT; without ResNet-101's own
        (ShowTell(tuned=False), 1000, 4_175_336),  # the LSTM 2,101,248
        (ShowTell(), 1000, 4_175_336 + RESNET101),
        # the LSTM 6,295,552, W_1 and W_2 2,098,176, attention 1,312,256, the gate 1,050,624
        (ShowAttendTell(tuned=False), 1000, 11_781_608),
        # 3 x 3,152,384 and 3 x 4,204,032, the layers of torch's own transformer
        (CaptionTransformer(tuned=False), 1000, 24_143_336),
        # encoder 3 x 1,577,984, decoder 3 x 2,626,560, two layer norms 2,048, norms 9 x 2,100,224, memory
        # 2,626,560
        (R2Gen(tuned=False), 1000, 36_218_344),
        (R2Gen(), 1000, 36_218_344 + RESNET101),
        # models.md 8.10: the published code's layout
        (MicarVLMoE(), 1000, 156_793_024),
        # the text's
        (
            MicarVLMoE(projections="separate", scale="latent", rope_dims=48, fusion_reads="plain"),
            1000,
            155_416_768,
        ),
        # 4,080,832 and 29,205,888 a layer more
        (MicarVLMoE(encoder_layers=3, decoder_layers=3), 1000, 190_079_744),
    ],
    ids=lambda value: getattr(value, "title", value),
)
def test_captioners_have_the_published_parameter_counts(model, words, params):
    assert size(unfilled(model, words)) == params
    assert model.frozen_params == (
        0 if model.tuned else RESNET18 if model.backbone == "resnet18" else RESNET101
    )


PYRAMID = 7_888_896 + 37_754_880  # of the four stages, and the convolution over them


@pytest.mark.parametrize(
    ("fields", "extra_weights"),
    [
        # 25,169,920 parameters of experts fewer, 3,145,728 of the encoder's network more; the router is gone
        ({"experts": 1, "top_k": 1}, -2 * (25_169_920 - 3_145_728)),
        ({"fusion": "attention"}, -2 * (9 * 512**2 + 6 * 512)),
        ({"encoder_layers": 0}, -2 * 4_080_832),
        ({"msve": "one_scale"}, -(256 + 512 + 1024 + 3 * 3) * 2048),
        ({"msve": "off"}, -PYRAMID),
        ({"msve": "off", "tuned": False}, -PYRAMID - RESNET101),
    ],
    ids=str,
)
def test_rows_of_table_3_have_so_many_weights_more_than_the_full_model(fields, extra_weights):
    assert size(unfilled(MicarVLMoE(**fields), 1000)) - 156_793_024 == extra_weights


@pytest.mark.parametrize(
    ("name", "titok", "tower", "mask_head", "vocabulary"),
    [("small", TITOK_S128, 41_909_376, 202_113, 53_505), ("base", TITOK_BL128, 67_413_504, 321_281, 57_601)],
)
def test_fuselip_has_the_published_parameter_counts(name, titok, tower, mask_head, vocabulary):
    """Each size reads what its tokenizer gives."""
    config = FuseLIP(size=name)
    with torch.device("meta"):
        network = FuseLIPNetwork(config)
    head = size(network.mask_head)

    assert (size(network) - head - 2, head, config.vocabulary) == (tower, mask_head, vocabulary)
    assert (titok.codes, titok.codebook) == (config.codes, config.vocabulary - config.first_code)


def test_the_stand_in_tokenizer_and_an_hrm_whose_tokens_an_mlp_mixes():
    """Of 37 positions and 64 dimensions: SwiGLUs 37 -> 64 -> 37 (hidden 49, rounded up by 32) and 64 -> 96 ->
    64 (hidden 85).
    """
    model = HRM(
        tokens="cell", mixing="mlp", width=64, heads=4, expansion=2, multiple=32, high_layers=1, low_layers=1
    )

    assert size(HRMCore(model, 37)) == 2 * (3 * 37 * 64 + 3 * 64 * 96)
    assert size(VQNetwork(VQ())) == 3_695_244
