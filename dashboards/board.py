"""The live board over a results folder: `recstudy board`, for those who look for it beside the other
dashboards.

python dashboards/board.py results
python dashboards/board.py --help
"""

import sys

from recstudy.cli import main

if __name__ == "__main__":
    main(["board", *sys.argv[1:]])
