import pytest
import torch
from torchvision import models as torchvision_models

from recstudy.config import RunConfig
from recstudy.data import Cifar10, Digits
from recstudy.models import CNN, HRMImage, ResNet, ViT, ViTRM
from recstudy.models.costs import cost
from recstudy.models.networks.classifiers import CNNNetwork, ResNetNetwork, ViTNetwork


def gflops(model):
    return cost(RunConfig(data=Cifar10(), model=model)).gflops


@pytest.mark.parametrize("depth", [18, 34, 50])
def test_the_imagenet_stem_is_torchvisions_resnet(depth):
    ours = ResNetNetwork(ResNet(depth=depth), (3, 32, 32), 10).net
    theirs = getattr(torchvision_models, f"resnet{depth}")(num_classes=10)

    assert str(ours) == str(theirs)


def test_the_cifar_stem_keeps_every_pixel():
    network = ResNetNetwork(ResNet(stem="cifar"), (3, 32, 32), 10).net

    assert network.maxpool(network.conv1(torch.zeros(1, 3, 32, 32))).shape == (1, 64, 32, 32)


@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
def test_gray_images_get_a_stem_of_one_channel(stem):
    network = ResNetNetwork(ResNet(stem=stem), (1, 8, 8), 10)

    assert network(torch.zeros(2, 1, 8, 8), ())[0].logits.shape == (2, 10)


def test_flops_equal_the_published_arithmetic():
    """002 per image: models.md's closed forms, checked there against torch's counter."""
    expected = {1: 1.472, 2: 2.461, 3: 3.451, 6: 6.420, 12: 12.36}
    for steps, value in expected.items():
        assert gflops(ViTRM(latent_steps=steps)) == pytest.approx(value, rel=1e-3)
    assert gflops(ViT()) == pytest.approx(2.253, rel=1e-3)
    assert gflops(ViT(size="base")) == pytest.approx(11.20, rel=1e-3)
    assert gflops(ViT(size="large")) == pytest.approx(39.68, rel=1e-3)
    assert gflops(ResNet()) == pytest.approx(0.074, rel=1e-2)
    assert gflops(ResNet(stem="cifar")) == pytest.approx(1.111, rel=1e-3)
    assert gflops(ResNet(depth=50, stem="cifar")) == pytest.approx(2.596, rel=1e-3)


def test_training_costs_three_forward_passes_a_supervision_step():
    """All of it but the gradient at the image itself: 2 * 64 * 48 * 384 FLOPs a step."""
    config = RunConfig(data=Cifar10(), model=ViTRM())
    once = cost(config).train_gflops

    assert once == pytest.approx(3 * cost(config).gflops - 2 * 64 * 48 * 384 / 1e9, rel=1e-9)
    assert cost(config.with_changes({"train.supervision_steps": 4})).train_gflops == 4 * once


def test_a_last_cycle_gradient_costs_less():
    config = RunConfig(data=Cifar10(), model=ViTRM(cycles=3, test_cycles=3))
    full, last = (cost(config.with_changes({"model.gradient": mode})).train_gflops for mode in ("full_bptt", "last_cycle"))
    one_cycle = cost(RunConfig(data=Cifar10(), model=ViTRM())).gflops

    assert full == pytest.approx(9 * one_cycle, rel=2e-3)
    assert last == pytest.approx(5 * one_cycle, rel=2e-3)


def test_vit_reads_the_class_token():
    """Equation (4): the other tokens reach the logits through attention alone."""
    network = ViTNetwork(ViT(width=8, layers=1, heads=2, ffn_width=8, patch=2, dropout=0.0), (1, 4, 4), 3).eval()
    images = torch.randn(2, 1, 4, 4)
    tokens = torch.cat([network.class_token.expand(2, -1, -1), network.embed(network.patches(images).flatten(2).mT)], 1)
    tokens = network.layers.layers[0](tokens + network.positions)

    torch.testing.assert_close(network(images, ())[0].logits, network.classify(network.norm(tokens[:, 0])))


def test_a_resized_vit_says_so():
    assert ViT(width=64, heads=4).title == "ViT-Small (resized)"
    assert RunConfig(data=Digits(), model=ViT(patch=2)).model.title == "ViT-Small"


def test_the_cnn_starts_lecun_normal():
    """Flax's default: deviation fan_in^-1/2, which is 128^-1/2 = 0.0884 of the head, and (9 x 64)^-1/2 of a convolution."""
    torch.manual_seed(0)
    network = CNNNetwork(CNN(), (3, 32, 32), 100)

    assert network.classify.weight.std().item() == pytest.approx(128**-0.5, rel=0.03)
    assert network.stages[0][3].weight.std().item() == pytest.approx((9 * 64) ** -0.5, rel=0.03)


def test_flops_of_hrm_and_of_its_baseline_equal_the_published_arithmetic():
    """004: 1.918 GFLOP a segment, 2.877 to train it (one-step gradient); CNN 0.192 and 0.577."""
    hrm, cnn = (cost(RunConfig(data=Cifar10(), model=model)) for model in (HRMImage(), CNN()))

    assert (hrm.gflops, hrm.train_gflops) == (pytest.approx(1.918, rel=1e-3), pytest.approx(2.877, rel=2e-3))
    assert (cnn.gflops, cnn.train_gflops) == (pytest.approx(0.192, rel=5e-3), pytest.approx(0.577, rel=2e-2))


def test_evaluation_segments_are_paid_for():
    base = RunConfig(data=Cifar10(), model=HRMImage())

    assert cost(base.with_changes({"train.evaluation_steps": 3})).gflops == pytest.approx(3 * cost(base).gflops)
