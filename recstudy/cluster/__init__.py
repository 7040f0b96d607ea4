"""Where a study meets Ray: the cluster, the driver and its runs, the workers. Nothing else imports Ray."""

import os
from pathlib import Path

from recstudy.files import cache_folder

try:
    Path.home()
except RuntimeError:  # neither HOME nor an entry in passwd: Ray Tune (2.60), for one, is not imported then
    os.environ["HOME"] = str(cache_folder())
