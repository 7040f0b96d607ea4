"""Image files of which tests make data sets."""

from pathlib import Path

import numpy as np
from PIL import Image


def paint(file: Path, values: np.ndarray, kind: type = np.uint8, mode: str | None = None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values.astype(kind))
    (image.convert(mode) if mode else image).save(file)
