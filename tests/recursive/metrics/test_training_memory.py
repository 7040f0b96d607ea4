import json
from pathlib import Path

import pytest
from processes import run_python

from recstudy.recursive import (
    CNN,
    HRM,
    TRM,
    Cifar10,
    HRMImage,
    ImageFolder,
    PhantomXray,
    RunConfig,
    ViT,
    ViTRM,
)
from recstudy.recursive.models.costs import memory_fix, training_memory

STEP = Path(__file__).parents[2] / "step_memory.py"
GRID = ImageFolder(path="grids", class_count=10, size=30, channels=1)
MODELS = {
    "ViTRM": (Cifar10(), ViTRM(), 16),
    "ViT": (Cifar10(), ViT(), 16),
    "CNN": (Cifar10(), CNN(), 64),
    "HRM of 004": (Cifar10(), HRMImage(), 16),
    "HRM": (GRID, HRM(vocabulary=12, width=128, heads=4), 2),
    "HRM in chunks": (
        PhantomXray(),
        HRM(vocabulary=12, width=128, heads=4, head="multilabel", puzzle_emb="pathology_query", chunk=4),
        2,
    ),
    "TRM": (GRID, TRM(vocabulary=12, width=128, heads=4), 2),
}


def config(name, **changes):
    data, model, images = MODELS[name]
    settings = {"train.batch_size": images, "train.ema_decay": 0, "train.selection": "last"}
    return RunConfig(data=data, model=model).with_changes(settings | changes)


def weights(name):
    """Bytes of the weights: each further copy of them adds so many."""
    return training_memory(config(name, **{"train.ema_decay": 0.9})) - training_memory(config(name))


@pytest.mark.whole
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the kernel keeps no book of a process's peak"
)
def test_a_real_step_needs_what_was_estimated():
    """The peak of a process that takes one step, above its weights and the optimiser's state, which it holds
    before.
    """
    done = run_python(STEP, *(json.dumps(config(name).values) for name in MODELS), CUDA_VISIBLE_DEVICES="")
    peaks = dict(zip(MODELS, map(int, done.stdout.split()), strict=True))

    shares = {
        name: peak / (training_memory(config(name)) - 3 * weights(name)) for name, peak in peaks.items()
    }
    assert {name: share for name, share in shares.items() if not 0.8 < share < 1.25} == {}


def test_amsgrad_keeps_another_copy_of_the_weights():
    assert training_memory(config("CNN", **{"train.amsgrad": True})) == training_memory(
        config("CNN")
    ) + weights("CNN")


def test_activations_grow_with_the_images_of_a_worker_and_half_precision_needs_less():
    def memory(**changes):
        return training_memory(config("ViTRM", **{f"train.{name}": value for name, value in changes.items()}))

    weight_memory, small_batch, two = 4 * weights("ViTRM"), memory(batch_size=64), memory(batch_size=128)
    assert two - weight_memory == pytest.approx(2 * (small_batch - weight_memory), rel=0.01)
    shared = config("ViTRM", **{"train.batch_size": 128, "resources.workers": 2})
    assert training_memory(shared) == small_batch
    assert 0.5 * small_batch < memory(batch_size=64, precision="bfloat16") < 0.9 * small_batch
    assert memory(batch_size=2048) > 70e9  # counted without taking it


@pytest.mark.parametrize(
    ("gradient", "minimum", "maximum"), [("one_step", 0.95, 1.05), ("full_bptt", 5, 100)]
)
def test_a_one_step_gradient_needs_no_more_memory_in_a_deeper_recursion(gradient, minimum, maximum):
    """N = T = 2 and N = T = 8: through all 72 updates it is many times as much."""
    shallow = config("HRM", **{"model.gradient": gradient, "model.high_cycles": 2, "model.low_cycles": 2})
    deep = shallow.with_changes({"model.high_cycles": 8, "model.low_cycles": 8})
    shares = [training_memory(run_config) - 3 * weights("HRM") for run_config in (shallow, deep)]

    assert minimum < shares[1] / shares[0] < maximum


def test_a_gradient_through_all_supervision_steps_keeps_them_all():
    four = {"train.supervision_steps": 4}
    weight_memory = 4 * weights("ViTRM")
    detached = training_memory(config("ViTRM", **four)) - weight_memory
    attached = training_memory(config("ViTRM", **four, **{"train.detach_carry": False})) - weight_memory

    assert detached == training_memory(config("ViTRM")) - weight_memory
    assert attached == pytest.approx(4 * detached, rel=0.05)


def test_chunks_need_the_activations_of_one_chunk():
    """Of 36 passes, 4 are in memory at a time. The states of all passes are too."""
    chunked = training_memory(config("HRM in chunks")) - 3 * weights("HRM in chunks")
    whole = training_memory(config("HRM in chunks", **{"model.chunk": 0})) - 3 * weights("HRM in chunks")

    assert 4 / 36 < chunked / whole < 0.15


@pytest.mark.parametrize(
    ("images", "share", "fix"),
    [
        (4, 0.85, "Set resources.workers=4 to split a batch between 4 GPUs, or lower train.batch_size."),
        (9, 0.75, "Set resources.workers=3 to split a batch between 3 GPUs, or lower train.batch_size."),
        (8, 0.1, "Lower train.batch_size or the sizes of the model."),
    ],
)
def test_the_fix_is_the_smallest_number_of_workers_that_divides_the_batch_and_fits(images, share, fix):
    """Half of a batch needs more than half of the memory, because each worker has the weights."""
    one_worker = config("ViT", **{"train.batch_size": images})

    assert memory_fix(one_worker, share * training_memory(one_worker)) == fix
