"""The task of aligning images with captions: the features of a pair shall be close.

The network has its own loss. `captioning/retrieval.py` evaluates it.
"""

from typing import TYPE_CHECKING, ClassVar

from recstudy.programs.metric import METRICS
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.tasks.captioning import CaptionedImages

if TYPE_CHECKING:
    from torch import Tensor

    from recstudy.recursive.data.batches import Batch
    from recstudy.recursive.models.networks.contract import Output


@TASKS.add("alignment")
class ImageCaptionPairs(CaptionedImages):
    """Find the caption of each image, and the image of each caption."""

    name: ClassVar[str] = "alignment"
    output: ClassVar[str] = "pair"
    score: ClassVar[str] = "recall_1"
    evaluation: ClassVar[str] = "recstudy.recursive.tasks.captioning.retrieval"

    @classmethod
    def check_score(cls, config: RunConfig) -> None:
        if config.train.score not in (None, cls.score):
            raise ValueError(
                f"train.score must be left out for {config.model.title}, which is judged by"
                f" {METRICS[cls.score].title} alone"
            )

    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return the network's own loss, which it computes in training."""
        assert output.loss is not None
        return output.loss

    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return whether each image of the batch is nearer to its own caption than to the others, (B,)."""
        import torch

        image_BW, caption_BW = output.logits.chunk(2, dim=1)
        return (image_BW @ caption_BW.T).argmax(1) == torch.arange(len(image_BW), device=image_BW.device)
