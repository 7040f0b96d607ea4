"""The settings of training: `TrainConfig`, with augmentation and extra evaluation at test.

The settings are fields of `train` in a run config. The training loop (`recstudy.recursive.train.loop`) reads
them.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    field_validator,
    model_validator,
)

from recstudy.plugins import Registry
from recstudy.programs.settings import Config, Range
from recstudy.recursive.config.functions import LOSSES, OPTIMIZERS, SCHEDULES, OneOf, Options
from recstudy.recursive.config.parts import Count, Rate

# An augmentation takes images (B, C, H, W) uint8 and a CPU generator, and returns as many images of the same
# kind. The generator follows from the run's seed and the epoch: other random numbers would differ from run to
# run. If an augmentation has an argument `labels`, it also gets the labels of the images.
AUGMENTATIONS: Registry[Callable[..., Any]] = Registry("augmentation")


def _by_commas(value: Any) -> Any:
    """Split a text at commas; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    words = [word.strip() for word in value.split(",")]
    return tuple(word for word in words if word)


BY_COMMAS = BeforeValidator(_by_commas)


class Augment(Config):
    """Augmentation of training images (ViTRM, section 4.1): crop, flip, RandAugment, then Mixup or CutMix.

    All of them are off by default.
    """

    crop: int = Field(0, ge=0, le=16)
    """padding in pixels before a random crop to the original size"""
    flip: bool = False
    """mirror half of the images"""
    randaugment_ops: int = Field(0, ge=0, le=8)
    """number of RandAugment operations per image"""
    randaugment_magnitude: int = Field(9, ge=0, le=30)
    """RandAugment strength, one of 31 levels"""
    mixup: NonNegativeFloat = 0.0
    """alpha of Mixup; 0 turns it off"""
    cutmix: NonNegativeFloat = 0.0
    """alpha of CutMix; 0 turns it off. If Mixup is on too, each batch uses one of them"""
    more: Annotated[tuple[str, ...], BY_COMMAS] = ()
    """names of further augmentations, applied in this order between RandAugment and Mixup; as text, separated
    by commas"""

    @field_validator("more")
    @classmethod
    def _check_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            AUGMENTATIONS[name]  # an unknown name raises a ConfigError with the registered ones
        return names


class AtTest(Config):
    """More computation on test puzzles with the same weights: noisy trajectories (PTRM), votes and halts.

    Their scores are added to the plain test scores. All of them are off by default.
    """

    segments: int = Field(16, ge=1, le=1024)
    """D: number of segments of each trajectory and copy"""
    trajectories: int = Field(0, ge=0, le=1024)
    """K: maximum number of noisy trajectories. For 1, 2, 4, ... K of them, the answer with the highest
    halting probability is scored"""
    noise: PositiveFloat = 0.3
    """sigma of the Gaussian noise that is added before each segment of a trajectory"""
    copies: int = Field(0, ge=0, le=1024)
    """maximum number of copies of a puzzle under symmetries. For 1, 2, 4, ... of them, the answers are
    transformed back and their vote is scored"""
    halts: Annotated[tuple[float, ...], BY_COMMAS] = ()
    """halting thresholds: also score each puzzle at the first step whose halting probability exceeds the
    threshold; as text, separated by commas"""
    puzzles: int | None = Field(None, ge=1)
    """number of evenly spaced test puzzles on which trajectories and copies are scored; by default all"""

    @field_validator("halts")
    @classmethod
    def _probabilities(cls, halts: tuple[float, ...]) -> tuple[float, ...]:
        if wrong := [halt for halt in halts if not 0 < halt < 1]:
            raise ValueError(f"halts must be probabilities above 0 and below 1, but got {wrong[0]:g}")
        return halts

    @property
    def repeats(self) -> bool:
        """Whether a puzzle is answered more than once."""
        return bool(self.trajectories or self.copies)

    @property
    def on(self) -> bool:
        return self.repeats or bool(self.halts)

    def scored(self, puzzles: int) -> int:
        """Return the number of test puzzles on which trajectories and copies are scored.

        Args:
            puzzles: The number of test puzzles, of which every second, third, ... one is scored.
        """
        # ceil(puzzles / stride): the first puzzle is always scored.
        return -(-puzzles // self.stride(puzzles))

    def stride(self, puzzles: int) -> int:
        return -(-puzzles // (self.puzzles or puzzles))


class TrainConfig(Config):
    """Settings of the training loop. The defaults are those of ViTRM where its paper states them."""

    epochs: NonNegativeInt = 1
    """passes over the training images; 0 evaluates the weights of init_from without training"""
    init_from: str = Field("", pattern=r"^(?:[0-9a-f]{20})?$")
    """digest of the initial weights, set by `--init-from` or printed by `recstudy weights import`; by default
    the weights are initialised at random"""
    batch_size: Annotated[Count, Range([16, 32, 64, 128, 256, 512])] = 128
    """number of images per optimiser step, over all workers"""
    supervision_steps: Annotated[int, Range(1, 16)] = Field(1, ge=1, le=64)
    """N_sup: maximum number of supervision steps on a batch"""
    evaluation_steps: int = Field(1, ge=1, le=1024)
    """number of supervision steps (segments) at test"""
    evaluation_depths: int = Field(4, ge=0, le=1024)
    """also score the test set after each supervision step up to this number, without retraining"""
    halting: Literal["batch", "sample"] = "batch"
    """batch: the whole batch halts, by its mean halting probability (ViTRM). sample: each sample halts on its
    own, and its slot takes a sample of the next batch, with one optimiser step per batch (HRM, TRM)"""
    exploration: float = Field(0.1, ge=0, le=1)
    """with halting 'sample': probability that a random minimum number of steps, from 2 up, delays a halt"""
    halt_threshold: float = Field(0.5, ge=0, le=1)
    """tau: a batch halts if its mean halting probability exceeds this value; 1 never halts"""
    halt_weight: NonNegativeFloat = 1.0
    """weight of the halting loss, which is added to the loss of the answer"""
    halting_target: Literal["original", "mixed"] = "original"
    """label that decides whether an answer is correct: the label before Mixup and CutMix, or the largest part
    of the mixed label"""
    detach_carry: bool = True
    """true: one optimiser step per supervision step, without a gradient between them; false: one optimiser
    step, with the gradient through all supervision steps"""
    supervised: Literal["each", "last"] = "each"
    """supervision steps that have a loss; 'last' needs detach_carry false"""
    passes: int = Field(1, ge=1, le=16)
    """with halting 'sample': supervision steps on each batch, whose gradients are added up for one optimiser
    step; a sample that halts is followed by that of the batch"""
    loss: Annotated[str, OneOf(LOSSES)] = "softmax"
    """loss of one label per image or token: the cross-entropy of softmax or stablemax probabilities, or a
    registered loss"""
    caption_mean: Literal["caption", "batch"] = "caption"
    """average of the token losses: first within each caption (HRM), or over all tokens of the batch, so that
    a long caption counts more (MicarVLMoE)"""
    optimizer: Annotated[str, OneOf(OPTIMIZERS)] = "adamw"
    """adamw; adam_atan2, whose step is an arctangent without an epsilon (HRM, TRM); sgd with momentum; muon
    for the matrices of blocks, with AdamW for all other weights; or a registered optimiser"""
    optimizer_options: Options = Options()
    """options of a registered optimiser"""
    amsgrad: bool = False
    """AdamW divides by the largest second moment so far (MicarVLMoE)"""
    learning_rate: Annotated[PositiveFloat, Range(1e-5, 1e-2, log=True)] = 3e-4
    """learning rate after the warm-up"""
    backbone_learning_rate: float | None = Field(None, gt=0)
    """learning rate of a captioner's tuned vision encoder; by default learning_rate"""
    final_learning_rate: NonNegativeFloat = 1e-6
    """learning rate at the end of the cosine"""
    warmup: Rate = 0.0
    """share of the schedule with a linear warm-up from 0; 0.03 is 30 of 1,000 epochs"""
    schedule: Annotated[str, OneOf(SCHEDULES)] = "epoch"
    """epoch: the cosine counts epochs (ViTRM). update: it counts optimiser updates, from 1 (HRM, TRM). batch:
    it counts updates, but its length after the warm-up is the number of batches, so several updates a batch
    end it early (HRM-Small-Images-3, as its author ran it). step: a tenth of the rate from the middle epoch
    on (MicarVLMoE). Or a registered schedule"""
    schedule_options: Options = Options()
    """options of a registered schedule"""
    weight_decay: Annotated[NonNegativeFloat, Range(1e-3, 1.0, log=True)] = 0.05
    """weight decay of the weights that decayed selects"""
    decayed: Literal["all", "matrices"] = "all"
    """weights with weight decay: all (ViTRM, HRM), or those with two or more dimensions, so no gains, biases
    and scales (FuseLIP)"""
    puzzle_learning_rate: PositiveFloat = 1e-2
    """learning rate of the puzzle embeddings, which SignSGD trains row by row"""
    puzzle_weight_decay: NonNegativeFloat = 0.1
    """weight decay of the puzzle embeddings in the batch"""
    beta1: Rate = 0.9
    """decay of the gradient's first moment (not of sgd)"""
    beta2: Rate = 0.999
    """decay of the gradient's second moment (not of sgd)"""
    label_smoothing: Rate = 0.0
    """share of a label that is spread evenly over all classes"""
    gradient_clip: NonNegativeFloat = 0.0
    """maximum global gradient norm; 0 turns clipping off"""
    ema_decay: Annotated[Rate, Range([0.0, 0.99, 0.999, 0.9999])] = 0.0
    """decay of the moving average of the weights, which is evaluated; 0 turns it off"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """precision of the matrix products (autocast)"""
    state_precision: Literal["float32", "bfloat16"] = "float32"
    """precision of the recurrent states and of the sums between layers; the authors of HRM and TRM train with
    bfloat16, which needs precision bfloat16"""
    selection: Literal["validation", "test", "last"] = "validation"
    """epoch that is reported: the best on the held-out validation split, the best on the test set (the
    protocol of ViTRM, optimistic), or the last"""
    score: str | None = None
    """metric on the selection split that selects epochs, such as nll or a registered metric; by default the
    task's metric"""
    patience: NonNegativeInt = 0
    """stop after this many epochs without a better selection score; 0 never stops"""
    augment: Augment = Augment()
    at_test: AtTest = AtTest()

    @property
    def revised(self) -> int:
        """The revision of what these settings compute, which is part of the run id."""
        # Revision 1 counted the updates of these schedules in another way, and trained HRM's `proceed` on
        # samples with a single step as well.
        counts_updates = self.schedule == "update" or (self.schedule == "batch" and self.warmup > 0)
        has_single_steps = self.halting == "sample" and self.supervision_steps == 1
        return self.revision + (counts_updates or has_single_steps)

    @property
    def imported(self) -> bool:
        """Whether the run only evaluates the weights of init_from, without training."""
        return self.epochs == 0

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if self.imported and not self.init_from:
            raise ValueError(
                "epochs must be at least 1, but got 0 without init_from. With init_from, 0 evaluates its"
                " weights without training"
            )
        if self.patience and self.selection == "last":
            raise ValueError(
                f"patience must be 0 with selection 'last', which scores no epoch, but got {self.patience}"
            )
        if self.score and self.selection == "last":
            raise ValueError(
                f"score must be left out with selection 'last', which scores no epoch, but got {self.score!r}"
            )
        if self.halting == "sample" and not self.detach_carry:
            raise ValueError(
                "detach_carry must be true with halting 'sample', because a batch contains samples at"
                " different supervision steps"
            )
        if self.passes > 1 and self.halting != "sample":
            raise ValueError(
                "passes must be 1 with halting 'batch', where supervision_steps is the number of steps on a"
                f" batch, but got {self.passes}"
            )
        if self.supervised == "last" and self.detach_carry:
            raise ValueError(
                "supervised must be 'each' with detach_carry true, because the steps before the last one"
                " would train nothing"
            )
        if self.amsgrad and self.optimizer != "adamw":
            raise ValueError(
                f"amsgrad must be false with optimizer {self.optimizer!r}, because it is a variant of AdamW"
            )
        Options().check(LOSSES, self.loss)
        self.optimizer_options.check(OPTIMIZERS, self.optimizer)
        self.schedule_options.check(SCHEDULES, self.schedule)
        return self
