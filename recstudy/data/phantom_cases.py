"""Draws `PhantomXray`: chest-like images of 7 findings. Synthetic, for tests, demonstrations and quick presets only.

    patient   body, two lungs, ribs, spine, diaphragm and heart, all of the patient's own measures
    image     position, exposure, lung markings, noise; each finding independently, with its probability in `SIGNS`
    finding   one visible sign, of its own side, place, extent and strength

The random numbers, but for the noise, do not depend on the size of the images.

Shapes: N images, S pixels a side, F findings that are drawn.
"""

from typing import NamedTuple

import numpy as np

from recstudy.data.chest_xray14 import FINDINGS
from recstudy.data.decoded import Decoded
from recstudy.data.images import Labels, Mask, Pixels
from recstudy.data.phantom_drawing import GRID, MEASURES, NOISE, SIGNS, Array, Place, chest, healthy
from recstudy.data.phantom_xray import PhantomXray

DRAWING = 1  # part of the cache's digest: raise it with every change of what is drawn
SEED = 14
TRAIN_IMAGES, TEST_IMAGES = 1200, 400
PIECE = 2**18  # pixels drawn at a time: 2 MiB an array


class Cases(NamedTuple):
    """All random numbers but the noise; each row an image, numbers from 0 to 1."""

    groups: Labels  # (N,) patients
    present: Mask  # (N, F)
    anatomy: Array  # (N, measures), the same for all images of a patient
    image: Array  # (N, 3): shift in x and y, exposure
    signs: Array  # (N, F, 5): side, place in x and y, extent, strength
    markings: Array  # (N, GRID, GRID)


def draw_set(config: PhantomXray) -> Decoded:
    """All images, or those with exactly one finding."""
    cases = draw_cases(config.drawing_seed)
    labels = label(cases.present)
    single = config.findings == "single"
    kept = np.flatnonzero(cases.present.sum(1) == 1) if single else np.arange(len(labels))
    images = draw_images(cases, config.size, config.drawing_seed)[kept]
    labels = labels.argmax(1)[kept] if single else labels[kept]
    groups = np.unique(cases.groups[kept], return_inverse=True)[1].astype(np.int64)
    cut = int(np.searchsorted(kept, TRAIN_IMAGES))
    return Decoded(images[:cut], labels[:cut], images[cut:], labels[cut:], groups[:cut], groups[cut:])


def label(present: Mask) -> Labels:
    """(N, 18) of (N, F): what is not drawn is unknown."""
    labels = np.full((len(present), len(FINDINGS)), -1, np.int64)
    labels[:, [FINDINGS.index(name) for name in SIGNS]] = present
    return labels


def draw_cases(seed: int) -> Cases:
    """One to three images a patient; the first test image begins a new one."""
    random = np.random.default_rng([SEED, *filter(None, [seed])])  # 0: as before there was such a seed
    count = TRAIN_IMAGES + TEST_IMAGES
    train, test = (np.repeat(np.arange(n), random.integers(1, 4, n))[:n] for n in (TRAIN_IMAGES, TEST_IMAGES))
    groups = np.concatenate([train, test + train[-1] + 1])
    return Cases(
        groups=groups,
        present=random.random((count, len(SIGNS))) < [sign.probability for sign in SIGNS.values()],
        anatomy=random.random((groups[-1] + 1, len(MEASURES)))[groups],
        image=random.random((count, 3)),
        signs=random.random((count, len(SIGNS), 5)),
        markings=random.random((count, GRID, GRID)),
    )


def draw_images(cases: Cases, size: int, seed: int) -> Pixels:
    """(N, 1, S, S), a piece at a time."""
    random = np.random.default_rng([SEED, size, *filter(None, [seed])])
    images = np.empty((len(cases.groups), 1, size, size), np.uint8)
    step = max(1, PIECE // size**2)
    for start in range(0, len(images), step):
        bright = draw(Cases._make(part[start : start + step] for part in cases), size)
        noisy = bright + NOISE * (random.random(bright.shape) - 0.5)
        images[start : start + step, 0] = (noisy.clip(0, 1) * 255 + 0.5).astype(np.uint8)
    return images


def draw(cases: Cases, size: int) -> Array:
    """Brightness (N, S, S) without noise."""
    scene = chest(cases.anatomy, cases.image, cases.markings, size)
    bright = healthy(scene)
    for index, sign in enumerate(SIGNS.values()):
        side, *numbers = cases.signs[:, index, :, None, None].swapaxes(0, 1)
        drawn = sign.draw(bright, scene, Place(np.where(side < 0.5, -1.0, 1.0), *numbers))
        bright = np.where(cases.present[:, index, None, None], drawn, bright)
    return np.asarray(bright * (0.85 + 0.3 * cases.image[:, 2, None, None]))
