"""What torch.compile has made of a network stays on disk, for the commands that train it again.

    RECSTUDY_CACHE/compiled/DIGEST/        inductor's own cache; a digest of the network's name, and of torch and Python

Who sets TORCHINDUCTOR_CACHE_DIR has it there instead. Beyond `MOST_BYTES` in all those digests go that were not used for longest;
what was used within a day stays, because a run may be reading it.
"""

import os
import platform
import time
from pathlib import Path

import torch

from recstudy.config import RunConfig
from recstudy.files import cache_folder, remove, sha

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
MOST_BYTES = 2 * 10**9  # a graph of a small network takes about 2 MB
DAY_S = 86_400.0
NAMED = VARIABLE in os.environ  # by the user: torch sets it, too, the first time that it compiles


def keep_compiled(config: RunConfig) -> None:
    """Have what is compiled from here on in this process kept, and found, below RECSTUDY_CACHE."""
    if NAMED:
        return
    root = cache_folder() / "compiled"
    folder = root / sha([config.model.network, torch.__version__, platform.python_version()])
    if os.environ.get(VARIABLE) == str(folder):
        return
    os.environ[VARIABLE] = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    _bound(root)


def _bound(root: Path) -> None:
    """Remove what was not used for longest, where all of it is too much."""
    used = sorted((folder for folder in root.iterdir()), key=lambda folder: folder.stat().st_mtime, reverse=True)
    total = 0
    for folder in used:
        total += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if total > MOST_BYTES and time.time() - folder.stat().st_mtime > DAY_S:
            remove(folder)
