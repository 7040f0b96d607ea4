import hashlib
import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_image
from torchvision.transforms.v2 import RandAugment
from torchvision.transforms.v2 import functional as F

from recstudy.config import AUGMENTATIONS, Augment, RunConfig, TrainConfig
from recstudy.data import Digits
from recstudy.data import augment as module
from recstudy.data.augment import OPERATIONS, SIGNED, apply, augment, crop, flip, level, mix, randaugment
from recstudy.errors import ConfigError
from recstudy.models import ViTRM
from recstudy.plugins import Registry

REFERENCE = RandAugment()
CASES = [(name, sign) for name, signed in zip(OPERATIONS, SIGNED, strict=True) for sign in ((1, -1) if signed else (1,))]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def photographs(channels: int = 3, size: int = 32, count: int = 8) -> torch.Tensor:
    """Pieces of a real photograph, among them a constant one; (count, channels, size, size) uint8."""
    photo = torch.from_numpy(load_sample_image("china.jpg").copy()).permute(2, 0, 1)[:channels]
    corners = np.random.default_rng(0).integers(0, 427 - size, (count, 2))
    pieces = torch.stack([photo[:, y : y + size, x : x + size] for y, x in corners])
    pieces[0] = 77
    return pieces


def reference_strength(name: str, magnitude: int, size: int = 32) -> float:
    magnitudes, _ = REFERENCE._AUGMENTATION_SPACE[name]
    strengths = magnitudes(31, size, size)
    return 0.0 if strengths is None else float(strengths[magnitude])


def reference(image, name: str, strength: float):
    return REFERENCE._apply_image_or_video_transform(image, name, strength, REFERENCE.interpolation, REFERENCE._fill)


def applied(images: torch.Tensor, name: str, sign: int, magnitude: int) -> torch.Tensor:
    return apply(images, torch.full((len(images),), 2 * OPERATIONS.index(name) + (sign < 0)), magnitude)


def test_operations_are_torchvisions_in_its_order():
    assert [(name, signed) for name, (_, signed) in REFERENCE._AUGMENTATION_SPACE.items()] == list(
        zip(OPERATIONS, SIGNED, strict=True)
    )


@pytest.mark.parametrize("size", [8, 28, 32, 33, 64])
@pytest.mark.parametrize("magnitude", [0, 1, 9, 15, 30])
@pytest.mark.parametrize("name", OPERATIONS[1:12])
def test_levels_are_torchvisions(name, magnitude, size):
    scale = size if name.startswith("Translate") else 1
    assert scale * level(name, magnitude) == pytest.approx(reference_strength(name, magnitude, size), rel=1e-6)


@pytest.mark.parametrize("name", ["TranslateX", "TranslateY"])
def test_shifts_are_torchvisions_to_the_pixel(name):
    shifts = [[int(size * level(name, m)) for m in range(31)] for size in range(4, 257)]
    assert shifts == [[int(reference_strength(name, m, size)) for m in range(31)] for size in range(4, 257)]


@pytest.mark.parametrize("magnitude", [0, 9, 30])
@pytest.mark.parametrize(("channels", "size"), [(3, 32), (1, 32), (1, 8), (3, 33)])
@pytest.mark.parametrize(("name", "sign"), CASES)
def test_operation_equals_torchvision_on_tensors(name, sign, channels, size, magnitude):
    images = photographs(channels, size)
    strength = sign * reference_strength(name, magnitude, size)

    expected = torch.stack([reference(image, name, strength) for image in images])

    assert torch.equal(applied(images, name, sign, magnitude), expected)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("name", "sign"), CASES)
def test_operation_equals_pillow_but_for_rounding(name, sign, channels):
    """Pillow rounds where torchvision cuts off: 1 of 255 apart."""
    images = photographs(channels)
    pictures = [reference(F.to_pil_image(image), name, sign * reference_strength(name, 9)) for image in images]

    expected = torch.stack([F.pil_to_tensor(picture) for picture in pictures])

    assert (applied(images, name, sign, 9).int() - expected.int()).abs().max() <= 1


def test_each_image_gets_its_own_operation_in_place():
    images, codes = photographs(count=28), torch.randperm(28, generator=generator())

    together = apply(images, codes, 9)

    for image, code, changed in zip(images, codes, together, strict=True):
        assert torch.equal(apply(image[None], code[None], 9)[0], changed)


def test_randaugment_draws_all_operations_and_both_signs(monkeypatch):
    drawn = []
    monkeypatch.setattr(module, "apply", lambda images, codes, magnitude: drawn.append(codes))
    randaugment(torch.zeros(14_000, 1, 4, 4, dtype=torch.uint8), generator())

    counts = torch.bincount(drawn[0], minlength=28).view(14, 2)

    assert counts.sum(1).tolist() == pytest.approx([1000] * 14, abs=150)  # 5 standard deviations
    assert counts[torch.tensor(SIGNED)].tolist() == [pytest.approx([500, 500], abs=115)] * 9
    assert counts[~torch.tensor(SIGNED), 1].tolist() == [0] * 5


def test_crop_by_hand(monkeypatch):
    """Padded by 1, offset (row 0, column 2): one row of zeros comes in above, one column at the right."""
    monkeypatch.setattr(torch, "randint", lambda *args, **kwargs: torch.tensor([[[0]], [[2]]]))
    image = torch.arange(1, 10, dtype=torch.uint8).view(1, 1, 3, 3)

    assert crop(image, generator(), padding=1)[0, 0].tolist() == [[0, 0, 0], [2, 3, 0], [5, 6, 0]]


def test_crop_is_a_window_of_the_padded_image():
    images = photographs(size=12, count=200)
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2))
    windows = [{padded[b, :, y : y + 12, x : x + 12].numpy().tobytes() for y in range(5) for x in range(5)} for b in range(200)]

    cropped = crop(images, generator(), padding=2)

    assert all(image.numpy().tobytes() in known for image, known in zip(cropped, windows, strict=True))


def test_every_offset_is_drawn():
    image = torch.zeros(1, 1, 9, 9, dtype=torch.uint8)
    image[0, 0, 4, 4] = 1
    places = crop(image.expand(2000, 1, 9, 9), generator(), padding=2).flatten(1).argmax(1)
    assert sorted(set(places.tolist())) == [9 * row + column for row in range(2, 7) for column in range(2, 7)]


def test_flip_mirrors_half_of_the_images():
    images = torch.tensor([1, 2, 3], dtype=torch.uint8).expand(1000, 1, 2, 3)
    first = flip(images, generator())[:, 0, 0, 0]
    assert set(first.tolist()) == {1, 3}
    assert (first == 3).sum().item() == pytest.approx(500, abs=80)


@pytest.mark.parametrize(
    "settings", [Augment(crop=4), Augment(flip=True), Augment(randaugment_ops=2), Augment(crop=4, flip=True, randaugment_ops=1)]
)
def test_same_generator_same_images(settings):
    images = photographs()
    before = images.clone()

    first, same, other = (augment(images, settings, generator(seed)) for seed in (1, 1, 2))

    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(images, before)
    assert (first.dtype, first.shape) == (torch.uint8, images.shape)


def test_nothing_touches_the_global_random_state():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    everything = Augment(crop=2, flip=True, randaugment_ops=2, mixup=0.2, cutmix=1.0)

    images = augment(photographs(), everything, generator())
    mix(images.float(), torch.zeros(8, dtype=torch.int64), 10, everything, generator())

    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


class Fixed:
    """A numpy generator whose draws are given."""

    def __init__(self, share: float, *places: int) -> None:
        self.share, self.places = share, list(places)

    def beta(self, a: float, b: float) -> float:
        return self.share

    def integers(self, high: int) -> int:
        return self.places.pop(0)


def given(monkeypatch, draw: Fixed) -> None:
    """Draws are `draw`'s, and the partner of each image is the other one."""
    monkeypatch.setattr(module.np.random, "default_rng", lambda seed: draw)
    monkeypatch.setattr(torch, "randperm", lambda *args, **kwargs: torch.tensor([1, 0]))


@pytest.mark.parametrize(
    ("settings", "draw", "mixed", "share"),
    [
        # a quarter of each image and three quarters of its partner
        (Augment(mixup=0.2), Fixed(0.25), [[6] * 4] * 4, 0.25),
        # lambda 3/4: a box of half the side, 2 of 4 rows and columns, about (2, 2): rows and columns 1 and 2
        (Augment(cutmix=1.0), Fixed(0.75, 2, 2), [[0, 0, 0, 0], [0, 8, 8, 0], [0, 8, 8, 0], [0, 0, 0, 0]], 0.75),
        # the same box about the corner (0, 0): one pixel of 16 is left of it, so lambda becomes 15/16
        (Augment(cutmix=1.0), Fixed(0.75, 0, 0), [[8, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], 15 / 16),
    ],
    ids=["mixup", "cutmix", "clipped"],
)
def test_mixing_by_hand(monkeypatch, settings, draw, mixed, share):
    """Images of 0 and 8 with the labels 0 and 2; each is the other's partner, and labels mix as images do."""
    given(monkeypatch, draw)
    images = torch.tensor([0.0, 8.0]).view(2, 1, 1, 1).expand(2, 1, 4, 4)

    found, targets = mix(images, torch.tensor([0, 2]), 3, settings, generator())

    assert found[0, 0].tolist() == mixed
    torch.testing.assert_close(found[1], 8 - found[0])
    assert targets.tolist() == [[share, 0.0, 1 - share], [1 - share, 0.0, share]]


def test_with_neither_on_nothing_mixes():
    images = torch.rand(4, 1, 4, 4, generator=generator())
    mixed, targets = mix(images, torch.arange(4), 4, Augment(), generator())
    assert mixed is images
    assert targets is None


@pytest.mark.parametrize("settings", [Augment(mixup=0.2), Augment(cutmix=1.0), Augment(mixup=0.2, cutmix=1.0)])
def test_targets_are_probabilities_and_say_what_is_in_the_image(settings):
    """Image b has the value b everywhere, so its mean over the pixels is the target's expected label."""
    labels = torch.arange(10)
    images = labels.float().view(10, 1, 1, 1).expand(10, 1, 16, 16)
    for seed in range(20):
        mixed, targets = mix(images, labels, 10, settings, generator(seed))
        assert targets.shape == (10, 10)
        assert torch.allclose(targets.sum(1), torch.ones(10))
        assert torch.allclose(mixed.mean((1, 2, 3)), targets @ labels.float(), atol=1e-4)


def test_with_both_on_each_batch_draws_one_of_them():
    """CutMix keeps the values of the two images, Mixup makes new ones."""
    images = torch.arange(8.0).view(8, 1, 1, 1).expand(8, 1, 16, 16)
    settings = Augment(mixup=1.0, cutmix=1.0)
    cut = [bool((m := mix(images, torch.arange(8), 8, settings, generator(s))[0]).eq(m.round()).all()) for s in range(400)]
    assert sum(cut) == pytest.approx(200, abs=50)  # 5 standard deviations


def test_mixup_shares_follow_the_beta_distribution():
    """Beta(1/2, 1/2) has the mean 1/2 and the deviation sqrt(1/8)."""
    images, labels = torch.zeros(2, 1, 1, 1), torch.tensor([0, 1])
    targets = [mix(images, labels, 2, Augment(mixup=0.5), generator(seed))[1][0] for seed in range(1500)]
    shares = torch.stack([target[0] for target in targets if target[1] > 0])  # else the image is its own partner
    assert len(shares) == pytest.approx(750, abs=100)
    assert shares.mean().item() == pytest.approx(0.5, abs=0.07)
    assert shares.std().item() == pytest.approx(math.sqrt(1 / 8), abs=0.03)


# ------------------------------------------------------------------------------------------------- by name


def test_the_order_of_draws_is_frozen():
    """What runs of before drew, they draw again."""
    images = torch.arange(64 * 3 * 16 * 16).remainder(251).to(torch.uint8).view(64, 3, 16, 16)
    changed = augment(images, Augment(crop=2, flip=True, randaugment_ops=2, randaugment_magnitude=5), generator(3))
    assert hashlib.sha256(changed.numpy().tobytes()).hexdigest()[:16] == "e0c86d28a5d0dfb8"


@pytest.fixture
def registered(monkeypatch):
    """The registry, which forgets afterwards what a test adds."""
    known = Registry("augmentation")
    known.update(AUGMENTATIONS)
    for place in ("recstudy.config.train", "recstudy.data.augment"):
        monkeypatch.setattr(f"{place}.AUGMENTATIONS", known)
    return known


def test_a_users_augmentation_comes_after_our_own(registered):
    @registered.add("invert")
    def invert(images, generator):
        return 255 - images

    @registered.add("halve")
    def halve(images, generator):
        return images // 2

    ours = augment(photographs(), Augment(crop=2, flip=True), generator())

    assert torch.equal(augment(photographs(), Augment(crop=2, flip=True, more=("invert",)), generator()), 255 - ours)
    assert torch.equal(augment(photographs(), Augment(more=("invert", "halve")), generator()), (255 - photographs()) // 2)


def test_our_own_are_known_by_name_too():
    assert sorted(AUGMENTATIONS) == ["crop", "flip", "randaugment"]
    assert torch.equal(
        augment(photographs(), Augment(more=("flip", "crop", "randaugment")), generator()),
        randaugment(crop(flip(photographs(), same := generator()), same), same),
    )


def test_names_may_be_given_as_text():
    assert Augment(more="flip, crop").more == ("flip", "crop")
    assert Augment(more="").more == ()


def test_an_unknown_augmentation_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"^no augmentation 'filp': there are crop, flip, randaugment. Did you mean 'flip'\?$"):
        Augment(more=("filp",))


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda images, generator: images / 255, r"\(8, 3, 32, 32\) float32"),
        (lambda images, generator: images[:, :1], r"\(8, 1, 32, 32\) uint8"),
    ],
)
def test_an_augmentation_must_give_images_of_the_same_kind(registered, wrong, got):
    registered.add("wrong")(wrong)
    asked = r"the augmentation 'wrong' must give images \(8, 3, 32, 32\) uint8, as it gets them, but gave "
    with pytest.raises(ConfigError, match=f"^{asked}{got}$"):
        augment(photographs(), Augment(more=("wrong",)), generator())


def test_no_further_augmentation_leaves_the_run_id(registered):
    registered.add("invert")(lambda images, generator: 255 - images)
    plain, named = (
        RunConfig(data=Digits(), model=ViTRM(patch=2), train=TrainConfig(augment=a))
        for a in (Augment(flip=True), Augment(flip=True, more=("invert",)))
    )

    assert "more" not in plain.deciding["train"]["augment"]
    assert named.deciding["train"]["augment"]["more"] == ["invert"]
    assert RunConfig.model_validate(named.values) == named
