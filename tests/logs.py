"""Logs of runs, read line by line."""

import json
from pathlib import Path
from typing import Any

from recstudy.records.files import whole_lines


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return every whole line of a log; none if there is no file."""
    return [dict(json.loads(line)) for line in whole_lines(path)]
