"""Train a network, recursive or not: the training loop of every model family.

    for each epoch
        for each batch
            for each supervision step, until the batch halts
                forward, loss, backward, one optimiser step, one step of the moving average; the carry is
                detached
            or, with halting by sample, one such step on the current samples (halting.py)
        evaluate on the selection split with the averaged weights; keep the best
    at the end: evaluate the test set once

All random numbers follow from (seed, epoch). An epoch therefore repeats bit for bit on a CPU, and a resumed
run ends with the numbers of an uninterrupted one. Losses stay on the device until the epoch ends; the halting
decision is the only value that a step reads.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recstudy.base.errors import ConfigError
from recstudy.programs.metric import METRICS
from recstudy.programs.watchdog import heartbeat
from recstudy.records.files import Json
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.data.batches import Batch, Batches
from recstudy.recursive.data.cache import DataSet, Split
from recstudy.recursive.models.networks.contract import Carry, Network, Output, build
from recstudy.recursive.train.evaluate import DivergenceError, drop_undefined, end_update, take_step
from recstudy.recursive.train.halting import Slots, find_halted, proceed_target, refill_slots
from recstudy.recursive.train.initial import Weights, check_state
from recstudy.recursive.train.losses import step_loss
from recstudy.recursive.train.optim import (
    MovingAverage,
    keep_bounds,
    learning_rate,
    make_optimizers,
    set_learning_rate,
)
from recstudy.recursive.train.parallel import average_buffers, rank_and_world, solo, sum_gradients, total
from recstudy.recursive.train.process import draw
from recstudy.recursive.train.task import Task, task_of

log = logging.getLogger(__name__)

# Compute of a run: wall seconds of its epochs and of its training passes, images, images x supervision steps,
# and wall seconds of the final evaluation, which writes captions.
COMPUTE_FIELDS = ("seconds", "train_seconds", "images", "image_steps", "evaluation_seconds")
TRACED = 200  # maximum number of evenly spaced losses that are kept of an epoch
LAST = 3  # number of last losses in the message of a diverged run
BY_EPOCH = ("epoch", "step")  # schedules that count epochs


@dataclass
class BestEpoch:
    """The selected epoch so far."""

    epoch: int = -1
    score: float = float("-inf")
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class State:
    """The state that a run needs to resume."""

    network: Network
    average: MovingAverage | None
    optimizers: list[torch.optim.Optimizer]
    slots: Slots | None = None  # current samples, if each halts on its own
    epoch: int = 0  # the next epoch to train
    updates: int = 0  # optimiser updates so far
    best: BestEpoch = field(default_factory=BestEpoch)
    compute: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COMPUTE_FIELDS, 0.0))

    @property
    def evaluated(self) -> Network:
        """The network that is evaluated: the one with averaged weights, if there is an average."""
        return self.network if self.average is None else self.average.network


class Training:
    """One run: its network, data and device.

    Args:
        config: The run's config.
        data: The data set, already read.
        device: The device of this worker.
        compile: Whether to compile the network with torch.compile.
        initial: The weights of `train.init_from`.

    Raises:
        ConfigError: `initial` and `train.init_from` do not match.
    """

    def __init__(
        self,
        config: RunConfig,
        data: DataSet,
        device: torch.device,
        compile: bool = False,
        initial: Weights | None = None,
    ) -> None:
        self.config, self.data, self.device = config, data, device
        self.task = task_of(config)
        torch.manual_seed(draw(config.seed, "weights"))
        network = build(config.model, config.data).to(device)
        self._read, self.facts = self.task.reader(data, device)
        self.task.equip(network, data, self.facts, self._trained)
        if (initial is None) == bool(config.train.init_from):
            raise ConfigError(
                f"train.init_from is {config.train.init_from!r}, but initial weights were"
                f" {'not ' if initial is None else ''}given. Give both or neither"
            )
        if initial is not None:
            check_state(initial, network.state_dict(), config.model)
            network.load_state_dict(initial.state)
        average = MovingAverage(network, config.train.ema_decay) if config.train.ema_decay else None
        self.state = State(network, average, make_optimizers(network, config.train))
        self._sign = METRICS[config.score].sign
        self.state.best.score = -np.inf * self._sign
        self.trace: Json = {}  # losses of the last epoch, update by update
        self._extras: list[Tensor] = []  # losses that the network added in this epoch
        self.files: dict[str, Any] = {}  # content of the files in the run's folder, after `finish`
        self._train = self._batches(data.train)
        rest = 0 if self._by_sample else self._train.size % self._full_batch
        mode = compile_mode(config, device, compile, rest)
        if compile:
            for each_network in {network, self.state.evaluated}:
                each_network.compile_steps(mode)
        self._selection = self._batches(
            data.selection(config.train.selection), shared=self.task.shares_selection
        )
        # Features of the test images are computed here, before the hang watchdog starts, and are cached for
        # `finish`.
        self._read(data.test)

    def _trained(self, config: RunConfig) -> dict[str, Tensor]:
        """Return the weights of a network that is trained on the same data before this run's network.

        One worker of a group trains it.
        """
        with solo():
            training = Training(config, self.data, self.device)
            for _ in training.epochs():
                heartbeat()
        return training.state.network.state_dict()

    def _batches(self, split: Split, shared: bool = True) -> Batches:
        return batches(
            self.task, self._read(split), self.data, self.device, *(rank_and_world() if shared else ())
        )

    # ------------------------------------------------------------------------------------------------
    # training

    def epochs(self) -> Iterator[dict[str, float]]:
        """Train the remaining epochs.

        Yields:
            After each epoch its losses in nats, scores in percent, seconds and learning rate.
        """
        state, config = self.state, self.config.train
        patience = config.patience or config.epochs  # patience 0 never stops early
        while state.epoch < config.epochs and state.epoch - 1 - state.best.epoch < patience:
            started = time.perf_counter()
            rate = self._schedule()
            torch.manual_seed(draw(self.config.seed, "epoch", state.epoch, rank_and_world()[0]))
            line = {"epoch": state.epoch, "learning_rate": rate} | self.one_epoch()
            if config.selection != "last":
                line |= self.select()
            seconds = time.perf_counter() - started
            line |= {"seconds": seconds, "images_per_second": line.pop("images") / line.pop("train_seconds")}
            state.compute["seconds"] += seconds
            state.epoch += 1
            yield line
        if config.selection == "last":
            self._share_buffers()

    def one_epoch(self) -> dict[str, float]:
        """Train for one pass over the training images and return its losses and compute.

        Raises:
            DivergenceError: A loss is not finite.
        """
        started, first = time.perf_counter(), self.state.updates + 1
        self.state.network.train()
        self._extras = []
        losses: list[Tensor] = []
        weights: list[float] = []  # number of images of each loss
        new_images = torch.zeros((), device=self.device)
        halt_counts = torch.zeros(2, device=self.device)  # samples that halted on their own, and their steps
        image_steps, passes = 0, self.config.train.passes
        every_pass = (
            (batch, n) for batch in self._train.epoch(self.state.epoch) for n in range(1, 1 + passes)
        )
        for batch, number in every_pass:
            heartbeat()
            if self._by_sample and batch.total < self._full_batch:
                # Every slot needs a sample. The next epoch has another order, so other images are left out.
                continue
            slots = self.state.slots
            new_images += len(batch.images) if slots is None else slots.halted.sum()
            new = self.train_slots(batch, number) if self._by_sample else self.train_batch(batch)
            if (slots := self.state.slots) is not None:
                halt_counts += torch.stack([slots.halted.sum(), (slots.steps * slots.halted).sum()])
            image_steps += batch.total * (1 if self._by_sample else len(new) + self.config.model.silent_steps)
            updates = new if self.config.train.detach_carry else [torch.stack(new).mean()]
            losses += updates
            weights += [batch.total / len(updates)] * len(updates)
        # A loss for each update. The only wait for the device in an epoch.
        losses_by_update = torch.stack(losses).unflatten(0, (-1, passes)).mean(1)
        traced = total(losses_by_update).double().cpu().numpy()
        loss, images = float(np.average(traced, weights=weights[::passes])), total(new_images).item()
        is_finite = np.isfinite(traced)
        # The number of losses before the first infinity or NaN.
        finite = len(traced) if is_finite.all() else int(is_finite.argmin())
        self.trace = trace(self.state.epoch, first, traced[:finite])
        if not np.isfinite(loss):
            point = _divergence_point(first, traced, finite)
            raise DivergenceError(f"the training loss is {loss} in epoch {self.state.epoch + 1}{point}")
        seconds = time.perf_counter() - started
        for name, value in {"train_seconds": seconds, "images": images, "image_steps": image_steps}.items():
            self.state.compute[name] += value
        halts, steps = total(halt_counts).tolist()
        # If no sample halted on its own, this is the mean over the images; an epoch without new images only
        # continues the samples in the slots.
        steps_used = steps / halts if halts else image_steps / (images or self._full_batch)
        extra = {"extra_loss": total(torch.stack(self._extras)).mean().item()} if self._extras else {}
        return {
            "train_loss": loss,
            **extra,
            "supervision_steps_used": steps_used,
            "images": images,
            "train_seconds": seconds,
        }

    def train_batch(self, batch: Batch) -> list[Tensor]:
        """Take supervision steps on one batch until it halts.

        Returns:
            This worker's part of the mean loss of each step, scalars in nats.
        """
        state, config = self.state, self.config.train
        carry = state.network.start(batch.images, batch.context)
        losses: list[Tensor] = []
        pending: list[Tensor] = []  # losses that still need their backward pass, without detach_carry
        for step in range(config.supervision_steps):
            is_silent = step < self.config.model.silent_steps
            with torch.set_grad_enabled(not (is_silent and config.detach_carry)):
                output, carry = take_step(state.network, batch.images, carry, config)
            if is_silent:
                continue
            loss, objective = self._losses(output, batch)
            losses.append(loss.detach())
            pending.append(objective)
            if config.detach_carry:
                # Deep supervision (HRM, TRM, ViTRM): each step has its own update, and no gradient crosses
                # it.
                self._step(pending.pop())
                carry = detached(carry)
            has_seen_image = step >= self.config.model.unseen_steps
            if has_seen_image and step + 1 < config.supervision_steps and self._halts(output, batch):
                break
        if config.supervised == "last":
            del pending[:-1]
        if pending:
            self._step(torch.stack(pending).sum())
        return losses

    def train_slots(self, batch: Batch, number: int = 1) -> list[Tensor]:
        """Take one supervision step on the current samples; `batch` replaces those that have halted.

        The optimisers step after the last of `train.passes` passes.

        Args:
            batch: The new samples.
            number: The number of this pass, from 1.

        Returns:
            This worker's part of the step's mean loss, a scalar in nats.
        """
        state, config = self.state, self.config.train
        slots = refill_slots(state.slots, batch, state.network)
        output, carry = take_step(state.network, slots.batch.images, slots.carry, config)
        carry, steps = detached(carry), slots.steps + 1
        is_halted, target = find_halted(output, steps, config, self.config.model.unseen_steps), None
        # `proceed` learns from the output of one more step (HRM). With one supervision step there is none.
        if output.proceed is not None and config.supervision_steps > 1:
            with torch.no_grad():
                following, _ = take_step(state.network, slots.batch.images, carry, config)
            target = proceed_target(following, steps, config.supervision_steps)
        loss, objective = self._losses(output, slots.batch, target)
        self._step(objective, number)
        state.slots = Slots(slots.batch, carry, steps, is_halted)
        return [loss.detach()]

    def _losses(self, output: Output, batch: Batch, target: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return this worker's part of a step's mean loss, and of the objective.

        The objective also has the loss that the network adds, such as the balance of experts.
        """
        loss = step_loss(output, batch, self.task, target).sum() / batch.total
        if output.extra is None:
            return loss, loss
        extra = output.extra * (len(batch.images) / batch.total)
        self._extras.append(extra.detach())
        return loss, loss + extra

    @property
    def _by_sample(self) -> bool:
        return self.config.train.halting == "sample"

    @property
    def _full_batch(self) -> int:
        return min(self.config.train.batch_size, self._train.size)

    def _schedule(self) -> float:
        """Set the learning rate and the recursion depth of the next update, and return the rate."""
        state, config = self.state, self.config.train
        if config.schedule in BY_EPOCH:
            done, length = state.epoch, config.epochs
        else:
            updates = self.config.updates_a_batch if config.schedule == "update" else 1
            batches = self._train.size // self._full_batch if self._by_sample else len(self._train)
            done, length = state.updates, config.epochs * batches * updates
        state.network.deepen(done / length)
        rate = learning_rate(config, done, length)
        set_learning_rate(state.optimizers, rate)
        return rate

    def _step(self, loss: Tensor, number: int = 1) -> None:
        """Add a loss's gradient. After the last pass, take one step of the optimisers.

        The step is along the sum of all workers' gradients.
        """
        state, clip = self.state, self.config.train.gradient_clip
        if self.config.train.schedule not in BY_EPOCH:
            self._schedule()
        for optimizer in state.optimizers if number == 1 else ():
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if number < self.config.train.passes:
            return
        sum_gradients(state.network.parameters())
        if clip:
            # SignSGD, the second optimiser, takes only the sign of a gradient, so its norm does not matter.
            groups = state.optimizers[0].param_groups
            torch.nn.utils.clip_grad_norm_([weight for group in groups for weight in group["params"]], clip)
        for optimizer in state.optimizers:
            optimizer.step()
        keep_bounds(state.network)
        end_update(state.network)
        state.updates += 1
        if state.average is not None:
            state.average.update()

    def _halts(self, output: Output, batch: Batch) -> bool:
        """Return whether the batch mean of sigmoid(halt) exceeds tau (ViTRM, Eq. 6)."""
        threshold = self.config.train.halt_threshold
        if output.halt is None or threshold >= 1:
            return False
        mean = total(output.halt.detach().float().sigmoid().sum() / batch.total)
        return bool(mean > threshold)

    # ----------------------------------------------------------------------------------------------
    # evaluation

    def select(self) -> dict[str, float]:
        """Evaluate on the selection split and keep the weights if they are the best so far.

        Raises:
            DivergenceError: The loss is not finite.
        """
        self._share_buffers()
        loss, score = self.task.select(self.state.evaluated, self._selection, self.data)
        if not np.isfinite(loss):
            raise DivergenceError(
                f"the selection loss is {loss} in epoch {self.state.epoch + 1}, after update"
                f" {self.state.updates}"
            )
        if self._sign * score > self._sign * self.state.best.score:  # false for NaN
            state_dict = self.state.evaluated.state_dict()
            weights = {name: value.detach().clone() for name, value in state_dict.items()}
            self.state.best = BestEpoch(self.state.epoch, score, weights)
        return {"selection_loss": loss, **drop_undefined({f"selection_{self.config.score}": score})}

    def finish(self) -> Json:
        """Load the selected weights and evaluate the test set, once.

        Every worker of a group calls this method. The first worker evaluates, and the others assist it.

        Returns:
            The outcome for the run's result: metrics, scores by depth, and the selected epoch. Empty on the
            other workers.
        """
        state, config, started = self.state, self.config, time.perf_counter()
        if state.best.weights:
            state.evaluated.load_state_dict(state.best.weights)
        test = self._batches(self.data.test, shared=False)
        if rank_and_world()[0] != 0:
            self.task.assist(state.evaluated, test, self.data)
            return {}
        train = self._batches(self.data.train, shared=False)
        findings, self.files = self.task.findings(state.evaluated, test, train, self.data)
        if self.facts:
            findings["tokenizer"] = findings.get("tokenizer", {}) | self.facts
        selected: Json = {"split": "", "epoch": None}  # imported weights: nothing was selected
        if not config.train.imported:
            epoch = state.best.epoch if state.best.weights else state.epoch - 1
            selected = {"split": config.train.selection, "epoch": epoch}
        if state.best.weights:
            selected[config.score] = state.best.score
        state.compute["evaluation_seconds"] = time.perf_counter() - started
        return {**findings, "selected": selected}

    def _share_buffers(self) -> None:
        """Average batch norm's statistics over the workers, and copy buffers to the averaged network."""
        average_buffers(self.state.network)
        if self.state.average is not None:
            average_buffers(self.state.average.network)
            self.state.average.copy_buffers()


def batches(
    task: Task, split: Split, data: DataSet, device: torch.device, rank: int = 0, world: int = 1
) -> Batches:
    """Return one worker's batches of a split, as the network reads it (`Task.reader`).

    Args:
        task: The task.
        split: The split.
        data: Its data set.
        device: The device of the batches.
        rank: The number of this worker.
        world: The number of workers.
    """
    config, mean, std = task.config, data.mean, data.std
    if config.model.reads_pixels:
        # (x / 255 - 0) / (1 / 255): the network gets the 256 grey levels themselves.
        mean, std = (0.0,) * len(mean), (1 / 255,) * len(std)
    train = config.train
    return Batches(
        split, mean, std, config.data.classes, train.batch_size, train.augment, draw(config.seed, "order"),
        device, config.data, rank, world, context=task.context,
    )  # fmt: skip


def compile_mode(config: RunConfig, device: torch.device, compile: bool, rest: int) -> str | None:
    """Return the mode of torch.compile; None for its default.

    If `resources.compile_mode` cannot be used, a warning names the reason.

    Args:
        config: The run's config.
        device: The device.
        compile: Whether the network is compiled.
        rest: Number of images of an epoch's last batch; 0 if it is full.
    """
    mode = config.resources.compile_mode
    if mode == "default":
        return None
    reason = ""
    if device.type != "cuda":
        reason = f"it needs a CUDA GPU, but this run uses device {device.type}"
    elif not compile:
        reason = "the network is not compiled. Leave resources.compile out, or set it to on"
    elif rest and mode == "reduce-overhead":
        # A graph replays one shape.
        reason = (
            f"the last batch of an epoch has {rest} images, but train.batch_size is"
            f" {config.train.batch_size}. Choose a batch size that divides the number of images"
        )
    if reason:
        log.warning("resources.compile_mode %s is ignored: %s", mode, reason)
    return None if reason else mode


def trace(epoch: int, first: int, losses: npt.NDArray[np.float64]) -> Json:
    """Return at most `TRACED` evenly spaced losses of an epoch.

    Args:
        epoch: The epoch.
        first: The number of its first update.
        losses: The loss of each update, in nats.
    """
    every = max(1, -(-len(losses) // TRACED))
    return {
        "epoch": epoch,
        "first": first,
        "every": every,
        "losses": [float(f"{loss:.5g}") for loss in losses[::every]],
    }


def _divergence_point(first: int, losses: npt.NDArray[np.float64], finite: int) -> str:
    """Return the update at which the losses became infinite or NaN, in words, with the last losses before it.

    Args:
        first: The number of the first update.
        losses: The loss of each update.
        finite: The number of finite losses before the first other one.
    """
    if finite == len(losses):
        return ""
    last_losses = ", ".join(f"{loss:.4g}" for loss in losses[max(0, finite - LAST) : finite])
    point = f", since update {first + finite}"
    return f"{point}; the last losses before it: {last_losses}" if last_losses else point


def detached(carry: Carry) -> Carry:
    """Return the states without their gradient."""

    return tuple(state.detach() for state in carry)
