"""The tasks on captioned images: to write the captions, and to align images with captions.

A captioner predicts tokens in training and writes captions at the end. The features of a pair shall be close
in an aligner, whose network has its own loss.

    L = mean over a caption's tokens of CE(p, token), each by the tokens before it           (1)
    with caption_mean `batch`: (1) times its tokens, over the mean number of tokens          (2)

A halting head learns the share of right tokens, or, for an exact model, whether all tokens are right.

    writing.py    evaluates a captioner             decode.py     searches for a caption
    routing.py    saves attention and expert use    encoders.py   prepares vision encoders and their features
    retrieval.py  evaluates an aligner              tokenizer.py  trains image tokenizers and encoders once
    scores.py     registers the metrics, which coco.py and rate_score.py compute

Shapes: B images, T tokens, V of a vocabulary.
"""

from typing import TYPE_CHECKING, Any

from recstudy.programs.metric import METRICS
from recstudy.recursive.config.parts import PAD
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS, Labels
from recstudy.recursive.tasks import TokenTask
from recstudy.recursive.tasks.captioning import scores
from recstudy.recursive.train.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor

    from recstudy.recursive.config.answers import Answers
    from recstudy.recursive.data.batches import Batch, Batches
    from recstudy.recursive.data.cache import DataSet
    from recstudy.recursive.models.networks.contract import Network, Output
    from recstudy.recursive.train.task import Read


class CaptionedImages(Task):
    """Base class of the tasks on captioned images, which share their data and vision encoders."""

    labels = Labels("int32", ("tokens",), least=0, below="classes")
    takes = ("captions",)
    augments = "captions: a mirrored image has another one, and features are kept"

    @staticmethod
    def context(labels: "Tensor", groups: "Tensor | None", ids: "Tensor | None") -> "Tensor | None":
        """Return the captions without their last token, (B, T - 1)."""
        # The last token is only predicted, never read.
        return labels[:, :-1]

    def reader(self, data: "DataSet", device: "torch.device") -> "tuple[Read, dict[str, Any]]":
        from recstudy.recursive.tasks.captioning import encoders

        return encoders.reader(self.config, data, device)

    def equip(
        self,
        network: "Network",
        data: "DataSet",
        facts: dict[str, Any],
        trained: "Callable[[RunConfig], dict[str, Tensor]]",
    ) -> None:
        from recstudy.recursive.tasks.captioning import encoders

        encoders.equip(network, self.config, data, facts, trained)


@TASKS.add("caption")
class Captioning(CaptionedImages, TokenTask):
    """Predict each token of a caption from the image and the tokens before it."""

    name = "caption"
    output = "caption"
    score = "token_accuracy"
    evaluation = "recstudy.recursive.tasks.captioning.writing"

    @staticmethod
    def cut_by(name: str, answers: "Answers") -> str:
        return scores.cut_by(name, answers)

    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return the loss (1) or (2) in nats, (B,)."""
        from recstudy.recursive.train.parallel import total

        loss = super().loss(output, batch)
        if self.config.train.caption_mean == "caption":
            return loss
        # The first token is BOS, which is not predicted.
        counts = (batch.labels[:, 1:] != PAD).sum(-1).float()
        return loss * counts * batch.total / total(counts.sum())

    @property
    def shares_selection(self) -> bool:
        return METRICS[self.config.score].of is None  # otherwise it compares captions that the model writes

    def assist(self, network: "Network", test: "Batches", data: "DataSet") -> None:
        """Write this worker's share of the test set's captions."""
        from recstudy.recursive.tasks.captioning import writing

        writing.captions(network, test, self.config, data.tokenizer)


@TASKS.add("alignment")
class ImageCaptionPairs(CaptionedImages):
    """Find the caption of each image, and the image of each caption."""

    name = "alignment"
    output = "pair"
    score = "recall_1"
    evaluation = "recstudy.recursive.tasks.captioning.retrieval"

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
