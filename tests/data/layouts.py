"""Files of which tests make data sets in their official layouts."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image


def write_table(file: Path, rows: list[dict[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", newline="") as opened:
        table = csv.DictWriter(opened, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def paint(file: Path, values: np.ndarray, kind: type = np.uint8, mode: str | None = None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values.astype(kind))
    (image.convert(mode) if mode else image).save(file)
