"""The weights of RaTEScore, 1 for each pair of types, as a file."""

import json
from itertools import product
from pathlib import Path

from recstudy.recursive.tasks.captioning.rate_score import TYPES


def write_weights(folder: Path) -> None:
    weights = {"_".join(pair).lower(): 1 for pair in product(TYPES, TYPES)}
    (folder / "weights.json").write_text(json.dumps(weights))
