"""What a careful colleague would say of a plan before it runs. Not errors: each is a choice that a study may make."""

from collections.abc import Iterable, Iterator
from math import ceil

from recstudy.config import RunConfig, averaged_steps


def hints(configs: Iterable[RunConfig]) -> Iterator[str]:
    """One line each, said once a plan."""
    for config in configs:
        steps, span = optimiser_steps(config), averaged_steps(config.train.ema_decay)
        if steps is not None and steps < span:
            yield (
                f"Note: the moving average of the weights spans {span:,.0f} steps, but a run makes {steps:,}. "
                "It will be evaluated close to its initial weights. --set train.ema_decay=0 turns the average off."
            )
            return


def optimiser_steps(config: RunConfig) -> int | None:
    """Of a whole run that never halts; None where only the files tell how many images there are."""
    images = config.training_images
    if images is None:
        return None
    whole = config.train.halting == "sample"  # which leaves out a short last batch
    batches = max(1, images // config.train.batch_size) if whole else ceil(images / config.train.batch_size)
    return batches * config.updates_a_batch * config.train.epochs
