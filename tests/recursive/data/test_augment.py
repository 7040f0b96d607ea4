import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_image
from torchvision.transforms.v2 import RandAugment

from recstudy.base.errors import ConfigError
from recstudy.recursive import AUGMENTATIONS, Augment
from recstudy.recursive.data import augment as module
from recstudy.recursive.data.augment import OPERATIONS, SIGNED, apply, augment, crop, flip, mix, randaugment

REFERENCE = RandAugment()
CASES = [
    (name, sign)
    for name, signed in zip(OPERATIONS, SIGNED, strict=True)
    for sign in ((1, -1) if signed else (1,))
]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def photographs(channels=3, size=32, count=8):
    """Pieces of a real photograph, among them a constant one; (count, channels, size, size) uint8."""
    photo = torch.from_numpy(load_sample_image("china.jpg").copy()).permute(2, 0, 1)[:channels]
    corners = np.random.default_rng(0).integers(0, 427 - size, (count, 2))
    pieces = torch.stack([photo[:, y : y + size, x : x + size] for y, x in corners])
    pieces[0] = 77
    return pieces


def reference_strength(name, magnitude, size=32):
    magnitudes, _ = REFERENCE._AUGMENTATION_SPACE[name]
    strengths = magnitudes(31, size, size)
    return 0.0 if strengths is None else float(strengths[magnitude])


@pytest.mark.parametrize(("channels", "size", "magnitude"), [(3, 33, 9), (1, 8, 30), (3, 8, 0)])
@pytest.mark.parametrize(("name", "sign"), CASES)
def test_operation_equals_torchvision_on_tensors(name, sign, channels, size, magnitude):
    assert list(REFERENCE._AUGMENTATION_SPACE) == list(OPERATIONS)
    images, strength = photographs(channels, size), sign * reference_strength(name, magnitude, size)
    fill_options = REFERENCE.interpolation, REFERENCE._fill
    expected = [
        REFERENCE._apply_image_or_video_transform(image, name, strength, *fill_options) for image in images
    ]
    codes = torch.full((8,), 2 * OPERATIONS.index(name) + (sign < 0))

    assert torch.equal(apply(images, codes, magnitude), torch.stack(expected))


def test_each_image_gets_its_own_operation_in_place():
    images, codes = photographs(count=28), torch.randperm(28, generator=generator())
    single_images = [apply(image[None], code[None], 9) for image, code in zip(images, codes, strict=True)]

    assert torch.equal(apply(images, codes, 9), torch.cat(single_images))


def test_crop_by_hand(monkeypatch):
    """Padded by 1, offset (row 0, column 2): one row of zeros comes in above, one column at the right."""
    monkeypatch.setattr(torch, "randint", lambda *args, **kwargs: torch.tensor([[[0]], [[2]]]))
    image = torch.arange(1, 10, dtype=torch.uint8).view(1, 1, 3, 3)

    assert crop(image, generator(), padding=1)[0, 0].tolist() == [[0, 0, 0], [2, 3, 0], [5, 6, 0]]


ALL_AUGMENTATIONS = Augment(crop=2, flip=True, randaugment_ops=2, mixup=0.2, cutmix=1.0)


def test_same_generator_same_images_and_nothing_touches_the_global_random_state():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    images = photographs()
    first, same_seed, other_seed = (augment(images, ALL_AUGMENTATIONS, generator(seed)) for seed in (1, 1, 2))
    mix(images.float(), torch.zeros(8, dtype=torch.int64), 10, ALL_AUGMENTATIONS, generator())

    assert torch.equal(first, same_seed)
    assert not torch.equal(first, other_seed)
    assert torch.equal(images, photographs())
    assert (first.dtype, first.shape) == (torch.uint8, images.shape)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


@pytest.mark.parametrize(
    ("settings", "places", "mixed", "share"),
    [
        # a quarter of each image and three quarters of its partner
        (Augment(mixup=0.2), [], [[2] * 4] * 4, 0.75),
        # lambda 3/4: a box of half the side, 2 of 4 rows and columns, about (2, 2): rows and columns 1 and 2
        (Augment(cutmix=1.0), [2, 2], [[0, 0, 0, 0], [0, 8, 8, 0], [0, 8, 8, 0], [0, 0, 0, 0]], 0.75),
        # the same box about the corner (0, 0): one pixel of 16 is left of it, so lambda becomes 15/16
        (Augment(cutmix=1.0), [0, 0], [[8, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], 15 / 16),
    ],
    ids=["mixup", "cutmix", "clipped"],
)
def test_mixing_by_hand(monkeypatch, settings, places, mixed, share):
    """Images of 0 and 8 with the labels 0 and 2; each is the other's partner, and labels mix as images do.
    Lambda is 3/4.
    """
    draw = SimpleNamespace(beta=lambda a, b: 0.75, integers=lambda high: places.pop(0))
    monkeypatch.setattr(module.np.random, "default_rng", lambda seed: draw)
    monkeypatch.setattr(torch, "randperm", lambda *args, **kwargs: torch.tensor([1, 0]))
    images = torch.tensor([0.0, 8.0]).view(2, 1, 1, 1).expand(2, 1, 4, 4)
    assert mix(images, torch.tensor([0, 2]), 3, Augment(), generator()) == (images, None)

    mixed_images, targets = mix(images, torch.tensor([0, 2]), 3, settings, generator())

    assert mixed_images[0, 0].tolist() == mixed
    torch.testing.assert_close(mixed_images[1], 8 - mixed_images[0])
    assert targets.tolist() == [[share, 0.0, 1 - share], [1 - share, 0.0, share]]


def test_with_mixup_and_cutmix_each_batch_draws_one():
    """CutMix keeps the values of the two images, Mixup makes new ones."""
    images = torch.arange(8.0).view(8, 1, 1, 1).expand(8, 1, 16, 16)
    settings = Augment(mixup=1.0, cutmix=1.0)
    cut = [
        bool((m := mix(images, torch.arange(8), 8, settings, generator(s))[0]).eq(m.round()).all())
        for s in range(400)
    ]
    assert sum(cut) == pytest.approx(200, abs=50)  # 5 standard deviations


def test_the_order_of_draws_is_frozen():
    """What runs of before drew, they draw again."""
    images = torch.arange(64 * 3 * 16 * 16).remainder(251).to(torch.uint8).view(64, 3, 16, 16)
    changed = augment(
        images, Augment(crop=2, flip=True, randaugment_ops=2, randaugment_magnitude=5), generator(3)
    )
    assert hashlib.sha256(changed.numpy().tobytes()).hexdigest()[:16] == "e0c86d28a5d0dfb8"
    shares = [
        mix(images[:2].float(), torch.arange(2), 2, Augment(mixup=0.5), generator(seed))[1][0, 0].item()
        for seed in range(4)
    ]
    assert shares == pytest.approx([0.362483, 1, 0.204927, 0.990757], abs=1e-6)


def test_a_users_augmentation_comes_after_our_own_which_are_known_by_name_too(monkeypatch):
    monkeypatch.setitem(AUGMENTATIONS, "invert", lambda images, generator: 255 - images)
    monkeypatch.setitem(AUGMENTATIONS, "halve", lambda images, generator: images // 2)
    ours, images = augment(photographs(), Augment(crop=2, flip=True), generator()), photographs()

    assert torch.equal(augment(images, Augment(crop=2, flip=True, more=("invert",)), generator()), 255 - ours)
    assert torch.equal(augment(images, Augment(more="invert, halve"), generator()), (255 - images) // 2)
    named_result = augment(images, Augment(more=("flip", "crop", "randaugment")), generator())
    assert torch.equal(
        named_result,
        randaugment(crop(flip(images, shared_generator := generator()), shared_generator), shared_generator),
    )


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda images, generator: images / 255, r"\(8, 3, 32, 32\) float32"),
        (lambda images, generator: images[:, :1], r"\(8, 1, 32, 32\) uint8"),
    ],
)
def test_an_augmentation_must_give_images_of_the_same_kind(monkeypatch, wrong, got):
    monkeypatch.setitem(AUGMENTATIONS, "wrong", wrong)
    message = (
        r"the augmentation 'wrong' must return images \(8, 3, 32, 32\) uint8, as it was given, but returned "
    )
    with pytest.raises(ConfigError, match=f"^{message}{got}$"):
        augment(photographs(), Augment(more=("wrong",)), generator())
