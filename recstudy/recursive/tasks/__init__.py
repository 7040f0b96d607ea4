"""What a network predicts, and how answers are scored: classes, findings, cells, captions, pairs.

`TokenTask` is the base class of the tasks whose answer is a sequence of tokens. Importing this package loads
neither numpy nor torch.
"""

from typing import TYPE_CHECKING

from recstudy.recursive.train.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from recstudy.recursive.data.batches import Batch
    from recstudy.recursive.models.networks.contract import Output


class TokenTask(Task):
    """Predict a token at each position: the cells of a grid, or a caption. PAD, or label 0, is not scored."""

    registered_loss = True

    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return the mean loss over the tokens of each item in nats, (B,)."""
        from recstudy.recursive.train.losses import loss_of, token_loss

        return token_loss(output.logits.float(), batch.labels, loss_of(self.config.train), batch.smoothing)

    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return whether all tokens are right, or their share if halting is learned by shares, (B,)."""
        from recstudy.recursive.train.losses import token_share

        return token_share(output.logits, batch.labels, exact=self.config.model.exact_halt)
