"""Execution of studies on Ray: cluster, driver, runs and workers. No other package imports Ray."""

import os
from pathlib import Path

from recstudy.base.files import cache_folder

try:
    Path.home()
except RuntimeError:  # without HOME and an entry in passwd, Ray Tune (2.60) cannot be imported
    os.environ["HOME"] = str(cache_folder())
