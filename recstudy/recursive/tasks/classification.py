"""The tasks of labelled images: one label an image, or a yes, no or unknown for each class.

    L = CE(p, target)                                    one label, or the shares of mixed labels     (1)
    L = mean over the known labels of BCE(logit, label)  one label for each class                     (2)

Shapes: B images, K classes, V >= K logits (a token's vocabulary may be larger than the classes).
"""

from typing import TYPE_CHECKING

from recstudy.base.lazy import np
from recstudy.recursive.config.answers import UNKNOWN, Answers
from recstudy.recursive.config.tasks import TASKS, Labels
from recstudy.recursive.train.task import Files, Task

if TYPE_CHECKING:
    from torch import Tensor

    from recstudy.recursive.data.batches import Batch
    from recstudy.recursive.data.cache import Split
    from recstudy.recursive.models.networks.contract import Output

MISTAKES = 36  # misclassified test images that are saved for the board


@TASKS.add("multiclass")
class Classification(Task):
    """One label an image."""

    name = "multiclass"
    labels = Labels("int64", least=0, below="classes")
    score = "top1_accuracy"
    mixes = True
    registered_loss = True

    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return the loss (1) in nats, (B,), by the registered loss that `train.loss` names."""
        from torch.nn.functional import pad

        from recstudy.recursive.train.losses import loss_of

        logits = output.logits.float()
        mixed_targets = batch.targets
        if mixed_targets is None:
            targets = batch.labels
        else:
            # A network's vocabulary may be larger than the classes; its other tokens have no share.
            targets = pad(mixed_targets, (0, logits.shape[-1] - mixed_targets.shape[-1]))
        return loss_of(self.config.train)(logits, targets, batch.smoothing)

    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return whether the most likely class is the label, (B,).

        With `train.halting_target` `mixed`, the label of a mixed image is the one with the largest share.
        """
        labels = batch.labels
        if self.config.train.halting_target == "mixed" and batch.targets is not None:
            labels = batch.targets.argmax(-1)
        return output.logits.argmax(-1) == labels

    def shown(self, answers: Answers, split: "Split") -> Files:
        """Return `mistakes.npz`: the first misclassified images with their labels and predictions."""
        is_wrong = answers.predicted != answers.labels
        mistakes = is_wrong.nonzero()[0][:MISTAKES]
        rows = split.rows[mistakes]
        names = [*answers.class_names]
        # Tokens of a vocabulary that is larger than the classes have no class name.
        names += [f"token {token}" for token in range(len(names), answers.logits.shape[1])]
        images = np.asarray(split.images[rows])
        # For display, the lowest value is black and the highest white.
        if images.dtype != np.uint8 and len(images):
            value_range = max(np.ptp(images), 1e-12)
            images = (255 * (images - images.min()) / value_range).astype(np.uint8)
        labels, predicted = answers.labels[mistakes], answers.predicted[mistakes]
        arrays = {"rows": rows, "labels": labels, "predicted": predicted, "images": images}
        return {"mistakes.npz": {**arrays, "names": np.array(names)}}


@TASKS.add("multilabel")
class Findings(Task):
    """A yes (1), no (0) or unknown (-1) for each class of an image."""

    name = "multilabel"
    labels = Labels("int64", ("classes",), least=UNKNOWN, below=2)
    score = "auroc"

    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return the loss (2) in nats, (B,)."""
        from torch.nn.functional import binary_cross_entropy_with_logits

        is_known = (batch.labels != UNKNOWN).float()
        targets = (1 - batch.smoothing) * batch.labels.clamp(min=0).float() + batch.smoothing / 2
        losses = binary_cross_entropy_with_logits(output.logits.float(), targets, reduction="none")
        return (losses * is_known).sum(-1) / is_known.sum(-1).clamp(min=1)

    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return whether the sign of the logit agrees with every known label, (B,)."""
        agrees = (output.logits > 0) == (batch.labels == 1)
        return (agrees | (batch.labels == UNKNOWN)).all(-1)
