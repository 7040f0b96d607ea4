"""How much memory a training step needs.

Weights, their gradients, the optimiser's state and the copies that are kept of them; and what the forward pass saves for the
backward pass, each storage once. What a step takes for a moment beside that, such as one layer's gradients, is not in it:
measured peaks on a CPU lie between 0.8 and 1.25 times the estimate (tests/metrics/test_training_memory.py).
"""

from recstudy.config import RunConfig
from recstudy.models.cost import steps_a_batch
from recstudy.models.kept_counts import counted

KEPT = 4  # copies of the weights: themselves, their gradients and the two moments of Adam


def training_memory(config: RunConfig) -> int:
    """Bytes that one worker of a run needs to train, without the libraries' own."""
    train = config.train
    own = -(-train.batch_size // config.place.workers_per_run)  # images of this worker
    joined = 1 if train.detach_carry else steps_a_batch(config)  # supervision steps whose activations are kept at once
    half = train.precision == "bfloat16"
    weights, activations = counted("recstudy.models.memory_counting:saved", config.model, config.data, own, joined, half)
    copies = KEPT + (train.ema_decay > 0) + (train.selection != "last")
    return copies * weights + activations
