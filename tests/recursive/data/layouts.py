"""Image files of which tests make data sets."""

import numpy as np
from PIL import Image


def paint(file, values, kind=np.uint8, mode=None):
    file.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values.astype(kind))
    (image.convert(mode) if mode else image).save(file)
