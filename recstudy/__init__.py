"""recstudy: hyperparameter and ablation studies of recursive models on Ray, from one command to the paper's table.

    study     labelled run configs, seeds and the reports to make of them
    run       variant x seed; its id is a digest of everything that decides its numbers
    record    what a run leaves behind
    target    a published number with its source

Importing this loads neither torch nor Ray.
"""

from recstudy.cli import main
from recstudy.config import Augment, Place, RunConfig, TrainConfig
from recstudy.papers import published
from recstudy.study.design import Variant, grid
from recstudy.study.search import Search
from recstudy.study.study import Study
from recstudy.tunable import Tunable

__all__ = ["Augment", "Place", "RunConfig", "Search", "Study", "TrainConfig", "Tunable", "Variant", "grid", "main", "published"]
