import pytest
import torch
from torchvision import models as torchvision_models

from recstudy.recursive import CNN, Cifar10, HRMImage, ResNet, RunConfig, ViT, ViTRM
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.networks.classifiers import CNNNetwork
from recstudy.recursive.models.networks.torchvision_models import ResNetNetwork


@pytest.mark.parametrize("depth", [18, 34, 50])
def test_the_imagenet_stem_is_torchvisions_resnet(depth):
    ours = ResNetNetwork(ResNet(depth=depth), (3, 32, 32), 10).net

    assert str(ours) == str(getattr(torchvision_models, f"resnet{depth}")(num_classes=10))


@pytest.mark.parametrize(
    ("model", "gflops", "near"),
    [
        # 002 per image: models.md's closed forms, checked there against torch's counter
        *(
            (ViTRM(latent_steps=n), value, 1e-3)
            for n, value in {1: 1.472, 2: 2.461, 3: 3.451, 6: 6.420, 12: 12.36}.items()
        ),
        (ViT(), 2.253, 1e-3),
        (ViT(size="base"), 11.20, 1e-3),
        (ViT(size="large"), 39.68, 1e-3),
        (ResNet(), 0.074, 1e-2),
        (ResNet(stem="cifar"), 1.111, 1e-3),
        (ResNet(depth=50, stem="cifar"), 2.596, 1e-3),
        # 004 a segment
        (HRMImage(), 1.918, 1e-3),
        (CNN(), 0.192, 5e-3),
    ],
    ids=lambda value: getattr(value, "title", value),
)
def test_flops_equal_the_published_arithmetic(model, gflops, near):
    assert cost(RunConfig(data=Cifar10(), model=model)).gflops == pytest.approx(gflops, rel=near)


def test_training_costs_three_forward_passes_a_supervision_step():
    """All of it but the gradient at the image itself: 2 * 64 * 48 * 384 FLOPs a step. 004 with its one-step
    gradient: 2.877, and the CNN 0.577. Evaluation pays for its own segments."""
    config, hrm = (RunConfig(data=Cifar10(), model=model) for model in (ViTRM(), HRMImage()))
    gflops = cost(config).train_gflops

    assert gflops == pytest.approx(3 * cost(config).gflops - 2 * 64 * 48 * 384 / 1e9, rel=1e-9)
    assert cost(config.with_changes({"train.supervision_steps": 4})).train_gflops == 4 * gflops
    assert cost(hrm).train_gflops == pytest.approx(2.877, rel=2e-3)
    assert cost(RunConfig(data=Cifar10(), model=CNN())).train_gflops == pytest.approx(0.577, rel=2e-2)
    assert cost(hrm.with_changes({"train.evaluation_steps": 3})).gflops == pytest.approx(3 * cost(hrm).gflops)


@pytest.mark.parametrize(("mode", "passes"), [("full_bptt", 9), ("last_cycle", 5)])
def test_a_last_cycle_gradient_costs_less(mode, passes):
    config = RunConfig(data=Cifar10(), model=ViTRM(latent_steps=1, cycles=3, test_cycles=3, gradient=mode))
    one_cycle = cost(RunConfig(data=Cifar10(), model=ViTRM(latent_steps=1))).gflops

    assert cost(config).train_gflops == pytest.approx(passes * one_cycle, rel=2e-3)


def test_the_cnn_starts_lecun_normal():
    """Flax's default: deviation fan_in^-1/2, which is 128^-1/2 = 0.0884 of the head, and (9 x 64)^-1/2 of a
    convolution.
    """
    torch.manual_seed(0)
    network = CNNNetwork(CNN(), (3, 32, 32), 100)

    assert network.classify.weight.std().item() == pytest.approx(128**-0.5, rel=0.03)
    assert network.stages[0][3].weight.std().item() == pytest.approx((9 * 64) ** -0.5, rel=0.03)
