import pytest
import timm
import torch
from processes import run_python

from recstudy.recursive import ImageLSTM
from recstudy.recursive.models.caption import BACKBONES
from recstudy.recursive.models.networks.caption import BackboneNetwork, frozen


@pytest.mark.parametrize("name", sorted(BACKBONES.keys() - {"fuselip"}))  # which is none of a fixed size
def test_the_table_says_what_the_networks_are(name):
    backbone = BACKBONES[name]
    with torch.device("meta"):
        images = torch.empty(2, 3, backbone.side or 64, backbone.side or 64)
        network = BackboneNetwork(name, "random")
        features, grid = network(images), BackboneNetwork(name, "random", 7)(images)

    assert (features.shape, grid.shape) == ((2, backbone.features), (2, 49, backbone.channels))
    assert sum(weight.numel() for weight in network.parameters()) == backbone.params


@pytest.mark.parametrize("name", ["resnet18", "resnet101", "swin_t", "swin_b"])
def test_pretrained_weights_have_a_name(name):
    """timm chooses the weights of a model that is named without them, and may choose others later."""
    model = BACKBONES[name].timm

    assert timm.get_pretrained_cfg(model).tag == model.partition(".")[2] != ""


def test_pixels_are_standardised_as_timms_weights_expect():
    """(255 x mean / 255 - mean) / deviation = 0: an image of ImageNet's mean colour is the zero image of the
    net.
    """
    network = BackboneNetwork("small", "random").eval()
    mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1).expand(1, 3, 16, 16)

    torch.testing.assert_close(network(255 * mean), network.net(torch.zeros(1, 3, 16, 16)), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["resnet18", "swin_t"])
def test_a_grid_is_what_the_global_average_is_the_mean_of(name):
    """At 224 pixels the last map has 7 x 7 places: each is one of the grid, row by row; 14 a side repeat
    them.
    """
    torch.manual_seed(0)
    network = BackboneNetwork(name, "random").eval()
    images = torch.randint(0, 256, (1, 3, 224, 224)).float()
    with torch.no_grad():
        pooled, grids = network(images), {}
        for network.grid in (7, 14):
            grids[network.grid] = network(images).unflatten(1, (network.grid, network.grid))

    torch.testing.assert_close(grids[7].mean((1, 2)), pooled, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(grids[14], grids[7].repeat_interleave(2, 1).repeat_interleave(2, 2))


def test_frozen_random_weights_are_the_same_for_every_seed():
    """And drawing them leaves the run's own random numbers alone."""
    networks, draws = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        networks.append(frozen(ImageLSTM(backbone="small", weights="random")))
        draws.append(torch.rand(1))
    torch.manual_seed(1)

    assert all(
        torch.equal(*pair) for pair in zip(*(network.parameters() for network in networks), strict=True)
    )
    assert torch.equal(draws[0], torch.rand(1))
    assert not any(weight.requires_grad for weight in networks[0].parameters())
    assert not networks[0].training


def test_without_a_network_pretrained_weights_are_refused(tmp_path):
    """Never random ones in silence. In a process of its own, because the hub's client reads its settings
    once.
    """
    code = "from recstudy.recursive import ImageTRM; from recstudy.recursive.models.networks.caption import frozen; frozen(ImageTRM())"
    process = run_python("-c", code, code=2, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))

    *_, line = process.stderr.strip().splitlines()
    assert line.startswith("DataError: pretrained weights of resnet18 cannot be loaded (")
    assert "timm loads them from timm/resnet18.a1_in1k on the Hugging Face hub" in line
    assert line.endswith("or set model.weights 'random'.")
