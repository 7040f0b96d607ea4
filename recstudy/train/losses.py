"""The loss of one supervision step (002 equation 5).

    L = CE(logits, target) + w_halt BCE(halt, 1[argmax logits = label])        (5)

The halting target is not differentiated through. Shapes: B images, K classes.
"""

from torch import Tensor
from torch.nn import functional as F

from recstudy.config import TrainConfig
from recstudy.data.batches import Batch
from recstudy.models.networks.contract import Output


def step_loss(output: Output, batch: Batch, config: TrainConfig) -> Tensor:
    """Equation (5) for each image, (B,) in nats."""
    logits = output.logits.float()
    target = batch.labels if batch.targets is None else batch.targets
    loss = F.cross_entropy(logits, target, label_smoothing=config.label_smoothing, reduction="none")
    if output.halt is None or config.halt_weight == 0:
        return loss
    correct = (logits.argmax(-1) == _halting_label(batch, config)).float()
    halting = F.binary_cross_entropy_with_logits(output.halt.float(), correct, reduction="none")
    return loss + config.halt_weight * halting


def _halting_label(batch: Batch, config: TrainConfig) -> Tensor:
    if config.halting_target == "original" or batch.targets is None:
        return batch.labels
    return batch.targets.argmax(-1)
