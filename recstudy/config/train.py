"""How a model is trained: the settings of the one loop."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from recstudy.config.functions import LOSSES, OPTIMIZERS, SCHEDULES, OneOf, Options
from recstudy.plugins import Registry
from recstudy.programs.settings import Config, Range

# Each is called with images (B, C, H, W) uint8 on their device and a CPU generator that follows from the
# run's seed and the epoch, and gives as many images of the same kind; what else is drawn would differ from
# run to run. One with an argument `labels` is given those of the images, too.
AUGMENTATIONS: Registry[Callable[..., Any]] = Registry("augmentation")


def _by_commas(value: Any) -> Any:
    """Return the words of a text with commas between; anything else as it is."""
    return (
        tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value
    )


BY_COMMAS = BeforeValidator(_by_commas)


class Augment(Config):
    """What is done to training images (ViTRM, section 4.1): crop, flip, RandAugment, then Mixup or CutMix.
    All off by default.
    """

    crop: int = Field(
        0, ge=0, le=16, description="random crop of the original size after padding by this many pixels"
    )
    flip: bool = Field(False, description="mirror half of the images")
    randaugment_ops: int = Field(0, ge=0, le=8, description="RandAugment operations an image")
    randaugment_magnitude: int = Field(9, ge=0, le=30, description="their strength, of 31 levels")
    mixup: float = Field(0.0, ge=0, description="Mixup's alpha; 0 is off")
    cutmix: float = Field(
        0.0, ge=0, description="CutMix's alpha; 0 is off. With both on, each batch draws one of them"
    )
    more: Annotated[tuple[str, ...], BY_COMMAS] = Field(
        (),
        description=(
            "further augmentations by name, in this order, between RandAugment and Mixup; as text with commas"
            " between"
        ),
    )

    @field_validator("more")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            AUGMENTATIONS[name]  # a ConfigError lists those that there are
        return names


class AtTest(Config):
    """More thinking at test of puzzles, from the same weights, scored beside the plain test (PTRM, votes).
    All off by default.
    """

    segments: int = Field(16, ge=1, le=1024, description="D: segments of every trajectory and copy")
    trajectories: int = Field(
        0,
        ge=0,
        le=1024,
        description=(
            "K: the one of 1, 2, 4, ... so many noisy trajectories that the halting head is surest of"
        ),
    )
    noise: float = Field(
        0.3, gt=0, description="sigma: of the Gaussian noise before each segment of a trajectory"
    )
    noise_on: Literal["latent", "answer", "both"] = Field(
        "latent",
        description=(
            "the states that are noisy: the latent (TRM's z, HRM's z_L; PTRM), the answer (y, z_H), or both"
        ),
    )
    copies: int = Field(
        0,
        ge=0,
        le=1024,
        description="the vote of 1, 2, 4, ... so many copies under symmetries, whose answers are turned back",
    )
    halts: Annotated[tuple[float, ...], BY_COMMAS] = Field(
        (),
        description=(
            "probabilities: also score every puzzle where its halting head is first surer than each of these;"
            " as text with commas between"
        ),
    )
    puzzles: int | None = Field(
        None,
        ge=1,
        description=(
            "test puzzles on which trajectories and copies are scored, evenly over all; by default all"
        ),
    )

    @field_validator("halts")
    @classmethod
    def _probabilities(cls, halts: tuple[float, ...]) -> tuple[float, ...]:
        if wrong := [halt for halt in halts if not 0 < halt < 1]:
            raise ValueError(f"halts must be probabilities above 0 and below 1, but got {wrong[0]:g}")
        return halts

    @property
    def repeats(self) -> bool:
        """Whether puzzles are answered more than once."""
        return bool(self.trajectories or self.copies)

    @property
    def on(self) -> bool:
        return self.repeats or bool(self.halts)

    def scored(self, puzzles: int) -> int:
        """Return on how many of so many test puzzles trajectories and copies are scored: every second, third,
        ... of them.
        """
        return -(-puzzles // self.stride(puzzles))

    def stride(self, puzzles: int) -> int:
        return -(-puzzles // (self.puzzles or puzzles))


class TrainConfig(Config):
    """How a model is trained: the one loop's settings, with the defaults of ViTRM where it states them."""

    epochs: int = Field(
        1,
        ge=0,
        description=(
            "passes over the training images; with init_from also 0: its weights are judged as they are"
        ),
    )
    init_from: str = Field(
        "",
        pattern=r"^(?:[0-9a-f]{20})?$",
        description=(
            "the weights that training starts from, by the digest that `--init-from` and `recstudy weights"
            " import` keep them under; by default the seed draws them"
        ),
    )
    batch_size: Annotated[int, Range([16, 32, 64, 128, 256, 512])] = Field(
        128, ge=1, description="images an optimiser step, over all workers"
    )
    supervision_steps: Annotated[int, Range(1, 16)] = Field(
        1, ge=1, le=64, description="N_sup: losses and optimiser steps a batch, at most"
    )
    evaluation_steps: int = Field(
        1, ge=1, le=1024, description="supervision steps (segments) before the logits are read at test"
    )
    evaluation_depths: int = Field(
        4,
        ge=0,
        le=1024,
        description=(
            "also score the test set after each of 1 to so many supervision steps, without retraining"
        ),
    )
    halting: Literal["batch", "sample"] = Field(
        "batch",
        description=(
            "the batch halts as one, by its mean (ViTRM); or each sample by itself: its slot takes the next"
            " batch's sample, the other slots go on with theirs (HRM, TRM), one optimiser step a batch"
        ),
    )
    exploration: float = Field(
        0.1,
        ge=0,
        le=1,
        description=(
            "with halting 'sample': how often a random least number of steps, from 2 up, delays a halt"
        ),
    )
    halt_threshold: float = Field(
        0.5,
        ge=0,
        le=1,
        description="tau: halt when the batch mean of the halting probability exceeds it; 1 never halts",
    )
    halt_weight: float = Field(
        1.0, ge=0, description="weight of the halting loss beside the classification loss"
    )
    halting_target: Literal["original", "mixed"] = Field(
        "original",
        description=(
            "correct against the label before Mixup/CutMix, or against the mixed label's largest part"
        ),
    )
    detach_carry: bool = Field(
        True,
        description=(
            "an optimiser step each supervision step, no gradient between them; false: one step through all"
        ),
    )
    supervised: Literal["each", "last"] = Field(
        "each",
        description=(
            "which of a batch's supervision steps have a loss; only the last one with detach_carry false"
        ),
    )
    loss: Annotated[str, OneOf(LOSSES)] = Field(
        "softmax",
        description=(
            "of one label an image or token: the cross-entropy of these probabilities, or a registered one"
        ),
    )
    caption_mean: Literal["caption", "batch"] = Field(
        "caption",
        description=(
            "over which tokens a caption's loss is a mean before that over the batch: its own (HRM), or all"
            " of the batch's, so that a long caption counts more (MicarVLMoE)"
        ),
    )
    loss_options: Options = Field(Options(), description="what a registered loss lets be set")
    optimizer: Annotated[str, OneOf(OPTIMIZERS)] = Field(
        "adamw",
        description=(
            "AdamW; Adam whose step is an arctangent, without an epsilon (HRM, TRM); adam, sgd with momentum,"
            " lion; muon for the matrices of blocks, with AdamW for all other weights; or a registered one"
        ),
    )
    optimizer_options: Options = Field(Options(), description="what a registered optimiser lets be set")
    amsgrad: bool = Field(False, description="AdamW divides by the largest second moment so far (MicarVLMoE)")
    learning_rate: Annotated[float, Range(1e-5, 1e-2, log=True)] = Field(3e-4, gt=0)
    backbone_learning_rate: float | None = Field(
        None, gt=0, description="of a captioner's tuned vision encoder; by default that of the other weights"
    )
    final_learning_rate: float = Field(1e-6, ge=0, description="the cosine ends here")
    warmup: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "share of the schedule with a linear warm-up, which starts at 0; 0.03 is 30 of 1,000 epochs"
        ),
    )
    schedule: Annotated[str, OneOf(SCHEDULES)] = Field(
        "epoch",
        description=(
            "what the cosine counts: epochs (ViTRM); optimiser updates, from 1 (HRM, TRM); or updates against"
            " a length in batches, all of it after the warm-up, so that several updates a batch run it"
            " through early (as the author of HRM-Small-Images ran it, HRM-Small-Images-3). In place of the"
            " cosine, step: a tenth of the rate from the middle epoch on (MicarVLMoE); or a registered one"
        ),
    )
    schedule_options: Options = Field(Options(), description="what a registered schedule lets be set")
    weight_decay: Annotated[float, Range(1e-3, 1.0, log=True)] = Field(0.05, ge=0)
    decayed: Literal["all", "matrices"] = Field(
        "all",
        description=(
            "what weight decay shrinks: every weight (ViTRM, HRM), or those of two and more dimensions and no"
            " gains, biases and scales (FuseLIP)"
        ),
    )
    puzzle_learning_rate: float = Field(
        1e-2, gt=0, description="of the puzzle embeddings, which SignSGD trains row by row"
    )
    puzzle_weight_decay: float = Field(0.1, ge=0, description="on the puzzle embeddings of the batch")
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    gradient_clip: float = Field(0.0, ge=0, description="largest global gradient norm; 0 is off")
    ema_decay: Annotated[float, Range([0.0, 0.99, 0.999, 0.9999])] = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of the moving average of the weights that is evaluated; 0 turns it off",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of the matrix products (autocast)"
    )
    selection: Literal["validation", "test", "last"] = Field(
        "validation",
        description=(
            "which epoch is reported: the best on the held-out validation split, the best on the test set "
            "(the protocol of ViTRM, optimistic), or the last"
        ),
    )
    score: str | None = Field(
        None,
        description=(
            "metric on the selection split that selects epochs, such as nll or one of your own; by default"
            " the task's"
        ),
    )
    patience: int = Field(
        0, ge=0, description="stop after so many epochs without a better selection score; 0 never does"
    )
    augment: Augment = Augment()
    at_test: AtTest = AtTest()

    @property
    def revised(self) -> int:
        """One more for schedules that counted otherwise, and for samples of one step, which trained HRM's
        `proceed` as well.
        """
        counted = self.schedule == "update" or (self.schedule == "batch" and self.warmup > 0)
        return self.revision + (counted or (self.halting == "sample" and self.supervision_steps == 1))

    @property
    def imported(self) -> bool:
        """Whether nothing is trained: weights that others made, or another run, are judged as they are."""
        return self.epochs == 0

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if self.imported and not self.init_from:
            raise ValueError(
                "epochs must be at least 1, or 0 with the weights of init_from, which are then judged as"
                " they are"
            )
        if self.patience and self.selection == "last":
            raise ValueError("patience must be 0 with selection 'last', which scores no epoch")
        if self.score and self.selection == "last":
            raise ValueError(f"score {self.score!r} selects epochs, but selection 'last' takes the last one")
        if self.halting == "sample" and not self.detach_carry:
            raise ValueError(
                "detach_carry must be true with halting 'sample': a step's batch holds samples of several"
                " ages"
            )
        if self.supervised == "last" and self.detach_carry:
            raise ValueError(
                "supervised must be 'each' with detach_carry true: a step before the last one would learn"
                " nothing"
            )
        if self.amsgrad and self.optimizer != "adamw":
            raise ValueError(
                f"amsgrad must be false with optimizer {self.optimizer!r}: it is a variant of AdamW"
            )
        self.loss_options.check(LOSSES, self.loss)
        self.optimizer_options.check(OPTIMIZERS, self.optimizer)
        self.schedule_options.check(SCHEDULES, self.schedule)
        return self
