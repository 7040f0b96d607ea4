import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recstudy.models.micar import MicarVLMoE
from recstudy.models.networks.micar import MultiscaleEncoder, Pyramid, enlarged, stages

SIZES = [(8, 8), (4, 4), (2, 2), (1, 1)]


def test_the_pyramids_shapes_at_224_pixels():
    """Section III-C: 256, 512, 1,024 and 2,048 channels at 1/4 to 1/32; Psi at 56x56; 49 places of 512."""
    with torch.device("meta"):
        eyes = MultiscaleEncoder(MicarVLMoE())
        images = torch.zeros(2, 3, 224, 224)
        assert eyes.backbone is not None
        assert eyes.pyramid is not None
        maps = stages(eyes.backbone, images)

        assert [tuple(map_.shape[1:]) for map_ in maps] == [(256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7)]
        assert eyes.pyramid(maps).shape == (2, 2048, 56, 56)
        assert eyes(images).shape == (2, 49, 2048)


@pytest.mark.parametrize("backbone", ["small", "resnet18"])
@pytest.mark.parametrize("msve", ["pyramid", "one_scale", "off"])
def test_every_backbone_gives_49_places(backbone, msve):
    config = MicarVLMoE(backbone=backbone, weights="random", msve=msve, pyramid_width=8, width=16)

    assert MultiscaleEncoder(config)(torch.randint(0, 256, (2, 3, 64, 64)).float()).shape == (2, 49, config.seen_width)


def plain(channels: list[int]) -> Pyramid:
    """Without batch norm; phi adds up the channels, Psi passes them on."""
    pyramid = Pyramid(channels, 1)
    for phi in [*pyramid.lateral, pyramid.fuse]:
        phi[1] = nn.Identity()
        nn.init.zeros_(phi[0].bias)
        nn.init.ones_(phi[0].weight)
    nn.init.dirac_(pyramid.fuse[0].weight)
    return pyramid


def test_the_pyramid_by_hand():
    """C_2 to C_5 constant at 1, 2, 3, 4: P_5 = 4, P_4 = 3 + 4 = 7, P_3 = 2 + 7 = 9, P_2 = 1 + 9 = 10, F = 10 + 9 + 7 + 4 = 30."""
    maps = [torch.full((1, 1, *size), float(value)) for value, size in enumerate(SIZES, 1)]

    torch.testing.assert_close(plain([1] * 4)(maps), torch.full((1, 1, 8, 8), 30.0))


def test_one_scale_is_the_last_map_enlarged():
    maps = [torch.rand(1, 3, *size) for size in [(8, 8), (4, 4), (4, 4), (2, 2)]]

    given = plain([3])(maps)

    torch.testing.assert_close(given, enlarged(maps[-1].sum(1, keepdim=True), maps[0]))
    assert given.unique().numel() > 4  # bilinear, not a repetition


def test_the_stages_of_a_trained_backbone_end_in_its_own_answer():
    """C_5 pooled is what the backbone gives by itself."""
    eyes = MultiscaleEncoder(MicarVLMoE(backbone="resnet18", weights="random", msve="off", width=16)).eval()
    images = torch.randint(0, 256, (2, 3, 64, 64)).float()
    assert eyes.backbone is not None

    last = torch.nn.functional.adaptive_avg_pool2d(stages(eyes.backbone, images)[-1], 7).flatten(2).transpose(1, 2)

    torch.testing.assert_close(eyes(images), last)


def gflops(msve: str, words: int = 80) -> float:
    """Of one image and its report, with 1,000 words."""
    with torch.device("meta"):
        network = MicarVLMoE(msve=msve).build((3, 224, 224), 1000).eval()
        images, tokens = torch.zeros(1, 3, 224, 224), torch.ones(1, words, dtype=torch.int64)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network.requires_grad_(False)(images, network.start(images, tokens))
    return counter.get_total_flops() / 1e9


def test_the_control_costs_what_the_pyramid_costs():
    """models.md 11: ResNet-101 15.6, laterals 6.2 and Psi 236.8 GFLOP; encoder 0.41 a layer, decoder 1.58 at 80 tokens."""
    full, control, without = (gflops(msve) for msve in ("pyramid", "one_scale", "off"))

    assert full == pytest.approx(15.6 + 6.2 + 236.8 + 2 * 0.41 + 2 * 1.58, rel=0.005)
    assert full - control == pytest.approx(5.76, rel=0.01)  # three of the four phi
    assert full - without == pytest.approx(236.8 + 6.2, rel=0.01)
