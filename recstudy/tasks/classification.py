"""Images with labels: one each, or a yes, no or unknown for each class.

    L = CE(p, target)                                    one label, or shares of several that were mixed     (1)
    L = mean over the known labels of BCE(logit, label)  a label a class                                     (2)

Shapes: B images, K classes, V >= K logits (a token's vocabulary may be larger than the classes).
"""

from typing import TYPE_CHECKING, Any, ClassVar

from recstudy.metrics import TASKS, UNKNOWN, Answers
from recstudy.tasks.task import Labels, Task

if TYPE_CHECKING:
    from torch import Tensor

    from recstudy.data.batches import Batch
    from recstudy.data.cache import Split
    from recstudy.models.networks.contract import Output
    from recstudy.tasks.task import Files

MISTAKES = 36  # misclassified test images kept to look at


@TASKS.add("multiclass")
class Classification(Task):
    """One label an image."""

    name: ClassVar[str] = "multiclass"
    labels: ClassVar[Labels] = Labels("int64", least=0, below="classes")
    score: ClassVar[str] = "top1_accuracy"
    mixes: ClassVar[bool] = True
    registered_loss: ClassVar[bool] = True

    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Equation (1) in nats, by the registered loss that `train.loss` names."""
        from torch.nn.functional import pad

        from recstudy.train.losses import loss_of

        logits = output.logits.float()
        given = batch.targets
        targets = batch.labels if given is None else pad(given, (0, logits.shape[-1] - given.shape[-1]))
        return loss_of(self.config.train)(logits, targets, batch.smoothing)

    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return whether the most likely class is the image's, or its mixture's largest part
        (`train.halting_target`).
        """
        mixed = self.config.train.halting_target == "mixed" and batch.targets is not None
        return output.logits.argmax(-1) == (
            batch.targets.argmax(-1) if mixed and batch.targets is not None else batch.labels
        )

    def shown(self, answers: Answers, split: "Split") -> "Files":
        """Return the first misclassified images, with what they are and what they were taken for."""
        import numpy as np

        at = (answers.predicted != answers.labels).nonzero()[0][:MISTAKES]
        rows, names = split.rows[at], [*answers.class_names]
        # of a vocabulary larger than the classes
        names += [f"token {at}" for at in range(len(names), answers.logits.shape[1])]
        seen: dict[str, Any] = {
            "rows": rows,
            "labels": answers.labels[at],
            "predicted": answers.predicted[at],
        }
        images = np.asarray(split.images[rows])
        if images.dtype != np.uint8 and len(images):  # to look at: the lowest value black, the highest white
            images = (255 * (images - images.min()) / max(np.ptp(images), 1e-12)).astype(np.uint8)
        return {"mistakes.npz": {**seen, "images": images, "names": np.array(names)}}


@TASKS.add("multilabel")
class Findings(Task):
    """A yes (1), no (0) or unknown (-1) for each class of an image."""

    name: ClassVar[str] = "multilabel"
    labels: ClassVar[Labels] = Labels("int64", ("classes",), least=UNKNOWN, below=2)
    score: ClassVar[str] = "auroc"

    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Equation (2) in nats."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        known = (batch.labels != UNKNOWN).float()
        targets = (1 - batch.smoothing) * batch.labels.clamp(min=0).float() + batch.smoothing / 2
        each = binary_cross_entropy_with_logits(output.logits.float(), targets, reduction="none")
        return (each * known).sum(-1) / known.sum(-1).clamp(min=1)

    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return whether every known label is on its side of 0."""
        return (((output.logits > 0) == (batch.labels == 1)) | (batch.labels == UNKNOWN)).all(-1)
