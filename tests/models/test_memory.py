import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recstudy.config import RunConfig
from recstudy.data import ImageFolder
from recstudy.models import HRM

STEP = Path(__file__).parents[1] / "step_memory.py"
DATA = ImageFolder(path="grids", class_count=10, size=16, channels=1)


def peak_of_a_step(**fields) -> int:
    """Bytes: the peak of a process that trains one step, above what it holds before (0.13 M parameters, 8 images)."""
    model = HRM(vocabulary=12, width=64, heads=2, high_layers=1, low_layers=1, **fields)
    command = [sys.executable, str(STEP), json.dumps(RunConfig(data=DATA, model=model).values), "8"]
    done = subprocess.run(command, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


@pytest.mark.whole
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel keeps no book of a process's peak")
def test_peak_memory_of_a_step_is_the_same_at_any_depth():
    """N = T = 2 and N = T = 8 within 5 %. With the gradient through all 72 updates it is many times that, so the peak tells."""
    shallow, deep = (peak_of_a_step(high_cycles=depth, low_cycles=depth) for depth in (2, 8))
    everything = peak_of_a_step(high_cycles=8, low_cycles=8, gradient="full_bptt")

    assert deep == pytest.approx(shallow, rel=0.05)
    assert everything > 5 * deep
