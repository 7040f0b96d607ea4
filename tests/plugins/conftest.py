"""A stranger's folder: a study with things of its own, and nothing of it in recstudy."""

from pathlib import Path

import numpy as np
import pytest
from shell import Shell, copy_examples
from sklearn.datasets import load_digits


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder, with its study and a module beside it; its data lie elsewhere."""
    data = tmp_path / "data"
    data.mkdir()
    images, labels = load_digits(return_X_y=True)
    pixels = (images.reshape(-1, 1, 8, 8) * 15).astype(np.uint8)
    np.savez(
        data / "scans.npz",
        train_x=pixels[:200],
        train_y=labels[:200],
        test_x=pixels[200:300],
        test_y=labels[200:300],
    )
    return copy_examples(tmp_path / "home", "mixer_study.py", "mixer_network.py")


@pytest.fixture
def stranger(tmp_path: Path, home: Path) -> Shell:
    """Runs the mixer study."""
    return Shell(tmp_path, home / "mixer_study.py", {"RECSTUDY_DATA": str(tmp_path / "data")})
