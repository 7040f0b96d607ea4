"""Programs of a user's own run in shells of their own, those of tests/study."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "study"))
