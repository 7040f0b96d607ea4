"""The one training loop, for every family, recursive or not.

    for each epoch
        for each batch
            for each supervision step, until the batch halts
                forward, loss, backward, one optimiser step, one step of the moving average; the carry is
                detached
            or, with halting by sample, one such step on the samples in work (halting.py)
        evaluate on the selection split with the averaged weights; keep the best
    at the end: the test set, once

Everything random is drawn from (seed, epoch), so that an epoch repeats bit for bit on a CPU whatever ran
before it: a resumed run ends as one that was never interrupted. Losses stay on the device until the epoch
ends; a halting decision is the one value read inside a step.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.data.batches import Batch, Batches
from recstudy.data.cache import DataSet, Split
from recstudy.errors import ConfigError
from recstudy.metrics import METRICS, TASKS
from recstudy.models.networks.contract import Carry, Network, Output, build
from recstudy.programs.watchdog import heartbeat
from recstudy.train.evaluate import Diverged, autocast, defined
from recstudy.train.halting import Slots, halted, proceed_target, refilled
from recstudy.train.initial import Weights, check_state
from recstudy.train.losses import step_loss
from recstudy.train.optim import MovingAverage, keep_bounds, learning_rate, make_optimizers, set_learning_rate
from recstudy.train.parallel import average_buffers, rank_and_world, solo, sum_gradients, total
from recstudy.train.process import draw

if TYPE_CHECKING:
    from recstudy.tasks import Task

log = logging.getLogger(__name__)

# What a run has used up: wall seconds of its epochs, those of the training passes, images begun, images x
# supervision steps, and wall seconds of the evaluation at its end, in which captions are written.
SPENT = ("seconds", "train_seconds", "images", "image_steps", "evaluation_seconds")
TRACED = 200  # losses kept of an epoch, evenly spaced
LAST = 3  # losses that a diverged run names
BY_EPOCH = ("epoch", "step")  # schedules that count epochs


@dataclass
class BestEpoch:
    """The selected epoch so far."""

    epoch: int = -1
    score: float = float("-inf")
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class State:
    """All that an interrupted run needs to go on."""

    network: Network
    average: MovingAverage | None
    optimizers: list[torch.optim.Optimizer]
    slots: Slots | None = None  # samples in work, where each halts by itself
    epoch: int = 0  # the next one to train
    updates: int = 0  # optimiser updates so far
    best: BestEpoch = field(default_factory=BestEpoch)
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SPENT, 0.0))

    @property
    def evaluated(self) -> Network:
        """The network with the weights that are evaluated: averaged, where an average is kept."""
        return self.network if self.average is None else self.average.network


class Training:
    """A run's data, network and device, put together.

    Args:
        config: what is trained.
        data: its data set, already read.
        device: where; every worker of a group has its own.
        compile: torch.compile the network.
        initial: the weights of `train.init_from`.
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
        self.task: Task = TASKS[config.task](config)
        torch.manual_seed(draw(config.seed, "weights"))
        network = build(config.model, config.data).to(device)
        self._read, self.facts = self.task.reader(data, device)
        self.task.equip(network, data, self.facts, self._trained)
        if (initial is None) == bool(config.train.init_from):
            raise ConfigError(
                f"train.init_from is {config.train.init_from!r}: its weights, and no others, must be given"
            )
        if initial is not None:
            check_state(initial, network.state_dict(), config.model.title)
            network.load_state_dict(initial.state)
        average = MovingAverage(network, config.train.ema_decay) if config.train.ema_decay else None
        self.state = State(network, average, make_optimizers(network, config.train))
        self._sign = METRICS[config.score].sign
        self.state.best.score = -np.inf * self._sign
        self.trace: dict[str, Any] = {}  # the last epoch's losses, update by update
        self._extras: list[Tensor] = []  # what the network added to this epoch's losses
        # what a person may look at, by file of the run's folder, after `finish`
        self.kept: dict[str, Any] = {}
        self._train = self._batches(data.train)
        rest = 0 if self._by_sample else self._train.size % self._full_batch
        self._has_graphs = has_graphs(config, device, compile, rest)
        mode = config.resources.compile_mode if self._has_graphs else None
        self._forward = torch.compile(network, dynamic=False, mode=mode) if compile else network
        self._selection = self._batches(
            data.selection(config.train.selection), shared=self.task.shares_selection
        )
        # what is computed of its images is, before training is watched; `finish` finds it
        self._read(data.test)

    def _trained(self, config: RunConfig) -> dict[str, Tensor]:
        """Weights of what is trained on the same data before this run's network is, by one worker of a
        group.
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
        """Train the epochs that are left; after each, what it gave: losses in nats, accuracy in percent."""
        state, config = self.state, self.config.train
        patience = config.patience or config.epochs  # 0: it never ends early
        while state.epoch < config.epochs and state.epoch - 1 - state.best.epoch < patience:
            started = time.perf_counter()
            rate = self._schedule()
            torch.manual_seed(draw(self.config.seed, "epoch", state.epoch, rank_and_world()[0]))
            line = {"epoch": state.epoch, "learning_rate": rate} | self.one_epoch()
            if config.selection != "last":
                line |= self.select()
            seconds = time.perf_counter() - started
            line |= {"seconds": seconds, "images_per_second": line.pop("images") / line.pop("train_seconds")}
            state.spent["seconds"] += seconds
            state.epoch += 1
            yield line
        if config.selection == "last":
            self._share_buffers()

    def one_epoch(self) -> dict[str, float]:
        """Make one pass over the training images; the losses stay on the device until it ends."""
        started, first = time.perf_counter(), self.state.updates + 1
        self.state.network.train()
        self._extras = []
        losses: list[Tensor] = []
        weights: list[float] = []  # of each loss: images it stands for
        begun = torch.zeros((), device=self.device)
        # samples that halted by themselves, and the steps that they took
        ended = torch.zeros(2, device=self.device)
        image_steps = 0
        for batch in self._train.epoch(self.state.epoch):
            heartbeat()
            if self._by_sample and batch.total < self._full_batch:
                # every slot needs its sample; the next epoch's order gives these images another place
                continue
            slots = self.state.slots
            # images seen for the first time in this epoch
            begun += len(batch.images) if slots is None else slots.halted.sum()
            new = self.train_slots(batch) if self._by_sample else self.train_batch(batch)
            if (slots := self.state.slots) is not None:
                ended += torch.stack([slots.halted.sum(), (slots.steps * slots.halted).sum()])
            image_steps += batch.total * (1 if self._by_sample else len(new) + self.config.model.silent_steps)
            updates = new if self.config.train.detach_carry else [torch.stack(new).mean()]
            losses += updates
            weights += [batch.total / len(updates)] * len(updates)
        traced = total(torch.stack(losses)).double().cpu().numpy()  # the epoch's one wait for the device
        loss, images = float(np.average(traced, weights=weights)), total(begun).item()
        finite = int(np.isfinite(traced).argmin()) if not np.isfinite(traced).all() else len(traced)
        self.trace = trace(self.state.epoch, first, traced[:finite])
        if not np.isfinite(loss):
            raise Diverged(
                f"the training loss is {loss} in epoch {self.state.epoch + 1}{_where(first, traced, finite)}"
            )
        seconds = time.perf_counter() - started
        for name, value in {"train_seconds": seconds, "images": images, "image_steps": image_steps}.items():
            self.state.spent[name] += value
        halts, steps = total(ended).tolist()
        # none begins: steps of those in work
        used = steps / halts if halts else image_steps / (images or self._full_batch)
        extra = {"extra_loss": total(torch.stack(self._extras)).mean().item()} if self._extras else {}
        return {
            "train_loss": loss,
            **extra,
            "supervision_steps_used": used,
            "images": images,
            "train_seconds": seconds,
        }

    def train_batch(self, batch: Batch) -> list[Tensor]:
        """Supervision steps on one batch, until it halts; this worker's part of each step's mean loss."""
        state, config = self.state, self.config.train
        carry = state.network.start(batch.images, batch.context)
        losses: list[Tensor] = []
        pending: list[Tensor] = []  # losses whose gradient still flows, where the carry is not detached
        for step in range(config.supervision_steps):
            silent = step < self.config.model.silent_steps
            with torch.set_grad_enabled(not (silent and config.detach_carry)):
                output, carry = self._one_step(batch, carry)
            if silent:
                continue
            loss, objective = self._losses(output, batch)
            losses.append(loss.detach())
            pending.append(objective)
            if config.detach_carry:
                self._step(pending.pop())
                carry = detached(carry)
            seen = step >= self.config.model.unseen_steps
            if seen and step + 1 < config.supervision_steps and self._halts(output, batch):
                break
        if config.supervised == "last":
            del pending[:-1]
        if pending:
            self._step(torch.stack(pending).sum())
        return losses

    def train_slots(self, batch: Batch) -> list[Tensor]:
        """Take one supervision step on the samples in work, of which `batch` replaces those that have
        halted.
        """
        state, config = self.state, self.config.train
        slots = refilled(state.slots, batch, state.network)
        output, carry = self._one_step(slots.batch, slots.carry)
        carry, steps = detached(carry), slots.steps + 1
        done, target = halted(output, steps, config, self.config.model.unseen_steps), None
        # with one step there is nothing to proceed to
        if output.proceed is not None and config.supervision_steps > 1:
            with torch.no_grad():
                following, _ = self._one_step(slots.batch, carry)
            target = proceed_target(following, steps, config.supervision_steps)
        loss, objective = self._losses(output, slots.batch, target)
        self._step(objective)
        state.slots = Slots(slots.batch, carry, steps, done)
        return [loss.detach()]

    def _one_step(self, batch: Batch, carry: Carry) -> tuple[Output, Carry]:
        with autocast(self.device, self.config.train):
            output, carry = self._forward(batch.images, carry)
        if self._has_graphs:  # whose next replay overwrites what this one gave; the logits are read before it
            carry = tuple(state.clone() for state in carry)
        return output, carry

    def _losses(self, output: Output, batch: Batch, target: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return this worker's part of a step's mean loss, without and with what the network adds to the
        task's loss.
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
        """Set learning rate and depth of recursion for what comes next, and say the rate."""
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

    def _step(self, loss: Tensor) -> None:
        """Take one step of the optimisers, along the gradients of all workers together."""
        state, clip = self.state, self.config.train.gradient_clip
        if self.config.train.schedule not in BY_EPOCH:
            self._schedule()
        for optimizer in state.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        sum_gradients(state.network.parameters())
        if clip:
            dense = [
                weight
                for weight in state.network.parameters()
                if weight.grad is None or not weight.grad.is_sparse
            ]
            torch.nn.utils.clip_grad_norm_(dense, clip)
        for optimizer in state.optimizers:
            optimizer.step()
        keep_bounds(state.network)
        state.updates += 1
        if state.average is not None:
            state.average.update()

    def _halts(self, output: Output, batch: Batch) -> bool:
        """Return (6) of 002: whether the batch mean of sigmoid(halt) exceeds tau."""
        threshold = self.config.train.halt_threshold
        if output.halt is None or threshold >= 1:
            return False
        mean = total(output.halt.detach().float().sigmoid().sum() / batch.total)
        return bool(mean > threshold)

    # ----------------------------------------------------------------------------------------------
    # evaluation

    def select(self) -> dict[str, float]:
        """Evaluate on the selection split and keep the weights where they are the best so far."""
        self._share_buffers()
        loss, reached = self.task.select(self.state.evaluated, self._selection, self.data)
        if not np.isfinite(loss):
            raise Diverged(
                f"the selection loss is {loss} in epoch {self.state.epoch + 1}, after update"
                f" {self.state.updates}"
            )
        if self._sign * reached > self._sign * self.state.best.score:  # never, where it is not a number
            weights = {
                name: value.detach().clone() for name, value in self.state.evaluated.state_dict().items()
            }
            self.state.best = BestEpoch(self.state.epoch, reached, weights)
        return {"selection_loss": loss, **defined({f"selection_{self.config.score}": reached})}

    def finish(self) -> dict[str, Any]:
        """Load the selected weights and look at the test set, this once.

        Every worker of a group calls this. The first gives what a result states; the others assist it, and
        give nothing.
        """
        state, config, started = self.state, self.config, time.perf_counter()
        if state.best.weights:
            state.evaluated.load_state_dict(state.best.weights)
        test = self._batches(self.data.test, shared=False)
        if rank_and_world()[0] != 0:
            self.task.assist(state.evaluated, test, self.data)
            return {}
        train = self._batches(self.data.train, shared=False)
        found, self.kept = self.task.findings(state.evaluated, test, train, self.data)
        if self.facts:
            found["tokenizer"] = found.get("tokenizer", {}) | self.facts
        selected = {
            "split": "" if config.train.imported else config.train.selection,
            "epoch": (
                None if config.train.imported else state.best.epoch if state.best.weights else state.epoch - 1
            ),
            **({self.config.score: state.best.score} if state.best.weights else {}),
        }
        state.spent["evaluation_seconds"] = time.perf_counter() - started
        return {**found, "selected": selected}

    def _share_buffers(self) -> None:
        """Batch norm's running statistics: the mean over the workers; and what the averaged network takes
        over.
        """
        average_buffers(self.state.network)
        if self.state.average is not None:
            average_buffers(self.state.average.network)
            self.state.average.copy_buffers()


def batches(
    task: "Task", split: Split, data: DataSet, device: torch.device, rank: int = 0, world: int = 1
) -> Batches:
    """Return the batches of a split as the network reads it (`Task.reader`), for one of `world` workers."""
    config, mean, std = task.config, data.mean, data.std
    if config.model.reads_pixels:
        mean, std = (0.0,) * len(mean), (1 / 255,) * len(std)
    train = config.train
    return Batches(
        split, mean, std, data.classes, train.batch_size, train.augment, draw(config.seed, "order"), device,
        rank=rank, world=world, data=config.data, context=task.context,
    )  # fmt: skip


def has_graphs(config: RunConfig, device: torch.device, compile: bool, rest: int) -> bool:
    """Return whether the network runs as CUDA graphs; a warning says why not, where `resources.compile_mode` asks
    for them.

    Args:
        config: the run's.
        device: where it trains.
        compile: whether the network is compiled.
        rest: images of an epoch's last batch, where that is smaller than the others.
    """
    mode = config.resources.compile_mode
    if mode == "default":
        return False
    reason = ""
    if device.type != "cuda":
        reason = f"CUDA graphs need a GPU of CUDA, but this run is on device {device.type}"
    elif not compile:
        reason = "the network is not compiled. Leave resources.compile out, or set it to on"
    elif rest:
        reason = (
            f"the last batch of an epoch has {rest} images, not {config.train.batch_size}. Choose another"
            " train.batch_size"
        )
    if reason:
        log.warning("resources.compile_mode %s is ignored: %s", mode, reason)
    return not reason


def trace(epoch: int, first: int, losses: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return at most `TRACED` of an epoch's losses, evenly spaced; `first` is the number of its first
    update.
    """
    every = max(1, -(-len(losses) // TRACED))
    return {
        "epoch": epoch,
        "first": first,
        "every": every,
        "losses": [float(f"{loss:.5g}") for loss in losses[::every]],
    }


def _where(first: int, losses: npt.NDArray[np.float64], finite: int) -> str:
    """Return at which update the losses were no longer finite, and the last before it."""
    if finite == len(losses):
        return ""
    before = ", ".join(f"{loss:.4g}" for loss in losses[max(0, finite - LAST) : finite])
    return f", since update {first + finite}" + (f"; the last losses before it: {before}" if before else "")


def detached(carry: Carry) -> Carry:
    return tuple(state.detach() for state in carry)
