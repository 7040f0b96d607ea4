"""The one training loop, for every family, recursive or not.

    for each epoch
        for each batch
            for each supervision step, until the batch halts
                forward, loss, backward, one optimiser step, one step of the moving average; the carry is detached
        evaluate on the selection split with the averaged weights; keep the best
    at the end: the test set, once

Everything random is drawn from (seed, epoch), so that an epoch repeats bit for bit on a CPU whatever ran before it: a
resumed run ends as one that was never interrupted. Losses stay on the device until the epoch ends; a halting decision
is the one value read inside a step.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.data.batches import Batch, Batches
from recstudy.data.cache import DataSet, Split
from recstudy.metrics.classification import classification
from recstudy.models.networks.contract import Carry, Network, Output, build
from recstudy.train.losses import step_loss
from recstudy.train.optim import MovingAverage, learning_rate, make_optimizer, set_learning_rate
from recstudy.train.parallel import average_buffers, rank_and_world, sum_gradients, total

# What a run has used up: wall seconds, images, batches, supervision steps, and images x supervision steps.
SPENT = ("seconds", "images", "batches", "steps", "image_steps")


class Diverged(Exception):
    """The training loss is no longer finite."""


@dataclass
class Best:
    """The selected epoch so far."""

    epoch: int = -1
    score: float = float("-inf")
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class State:
    """All that an interrupted run needs to go on."""

    network: Network
    average: MovingAverage | None
    optimizer: torch.optim.Optimizer
    epoch: int = 0  # the next one to train
    updates: int = 0  # optimiser updates so far
    best: Best = field(default_factory=Best)
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
    """

    def __init__(self, config: RunConfig, data: DataSet, device: torch.device, compile: bool = False) -> None:
        self.config, self.data, self.device = config, data, device
        torch.manual_seed(_draw(config.seed, "weights"))
        network = build(config.model, config.data).to(device)
        average = MovingAverage(network, config.train.ema_decay) if config.train.ema_decay else None
        self.state = State(network, average, make_optimizer(network, config.train))
        self._forward = torch.compile(network, dynamic=False) if compile else network
        self._train, self._selection = self._batches(data.train), self._batches(self._selection_split())

    def _batches(self, split: Split, shared: bool = True) -> Batches:
        rank, world = rank_and_world() if shared else (0, 1)
        train = self.config.train
        return Batches(
            split, self.data.mean, self.data.std, self.data.classes, train.batch_size, train.augment,
            _draw(self.config.seed, "order"), self.device, rank=rank, world=world,
        )  # fmt: skip

    def _selection_split(self) -> Split:
        return self.data.validation if self.config.train.selection == "validation" else self.data.test

    # ------------------------------------------------------------------------------------------------ training

    def epochs(self) -> Iterator[dict[str, float]]:
        """Train the epochs that are left; after each, what it gave: losses in nats, accuracy in percent."""
        state, config = self.state, self.config.train
        while state.epoch < config.epochs and not self._out_of_patience():
            started = time.perf_counter()
            rate = self._schedule()
            torch.manual_seed(_draw(self.config.seed, "epoch", state.epoch, rank_and_world()[0]))
            line = {"epoch": state.epoch, "learning_rate": rate} | self.one_epoch()
            if config.selection != "last":
                line |= self.select()
            seconds = time.perf_counter() - started
            line |= {"seconds": seconds, "images_per_second": line.pop("images") / line.pop("train_seconds")}
            state.spent["seconds"] += seconds
            state.epoch += 1
            yield line

    def one_epoch(self) -> dict[str, float]:
        """One pass over the training images."""
        started = time.perf_counter()
        self.state.network.train()
        loss_sum = torch.zeros((), device=self.device)
        batches = steps = images = image_steps = 0
        for batch in self._train.epoch(self.state.epoch):
            losses = self.train_batch(batch)
            loss_sum += torch.stack(losses).sum() * (batch.total / len(losses))
            batches, steps, images = batches + 1, steps + len(losses), images + batch.total
            image_steps += len(losses) * batch.total
        loss = total(loss_sum).item() / images  # the epoch's one wait for the device
        if not np.isfinite(loss):
            raise Diverged(f"the training loss is {loss} in epoch {self.state.epoch}")
        for name, value in {"images": images, "batches": batches, "steps": steps, "image_steps": image_steps}.items():
            self.state.spent[name] += value
        return {
            "train_loss": loss,
            "supervision_steps_used": steps / batches,
            "images": images,
            "train_seconds": time.perf_counter() - started,
        }

    def train_batch(self, batch: Batch) -> list[Tensor]:
        """Supervision steps on one batch, until it halts; this worker's part of each step's mean loss."""
        state, config = self.state, self.config.train
        carry = state.network.start(batch.images)
        losses: list[Tensor] = []
        pending: list[Tensor] = []  # losses whose gradient still flows, where the carry is not detached
        for step in range(config.supervision_steps):
            with self._autocast():
                output, carry = self._forward(batch.images, carry)
            loss = step_loss(output, batch, config).sum() / batch.total
            losses.append(loss.detach())
            pending.append(loss)
            if config.detach_carry:
                self._step(pending.pop())
                carry = detached(carry)
            if step + 1 < config.supervision_steps and self._halts(output, batch):
                break
        if pending:
            self._step(torch.stack(pending).sum())
        return losses

    def _schedule(self) -> float:
        """Set the learning rate for what comes next, and say it."""
        state, config = self.state, self.config.train
        if config.schedule == "epoch":
            rate = learning_rate(config, state.epoch, config.epochs)
        else:
            updates = config.updates_a_batch if config.schedule == "update" else 1
            rate = learning_rate(config, state.updates, config.epochs * len(self._train) * updates)
        set_learning_rate(state.optimizer, rate)
        return rate

    def _step(self, loss: Tensor) -> None:
        state, config = self.state, self.config.train
        if config.schedule != "epoch":
            self._schedule()
        state.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        sum_gradients(state.network.parameters())
        if config.gradient_clip:
            torch.nn.utils.clip_grad_norm_(state.network.parameters(), config.gradient_clip)
        state.optimizer.step()
        state.updates += 1
        if state.average is not None:
            state.average.update()

    def _halts(self, output: Output, batch: Batch) -> bool:
        """Equation (6) of 002: the batch mean of sigmoid(halt) exceeds tau."""
        threshold = self.config.train.halt_threshold
        if output.halt is None or threshold >= 1:
            return False
        mean = total(output.halt.detach().float().sigmoid().sum() / batch.total)
        return bool(mean > threshold)

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.train.precision == "bfloat16")

    # ---------------------------------------------------------------------------------------------- evaluation

    def select(self) -> dict[str, float]:
        """Evaluate on the selection split and keep the weights where they are the best so far."""
        self._share_buffers()
        (logits,), labels = self.predict(self._selection)
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        right = (logits.argmax(-1) == labels).sum()
        loss, right = total(torch.stack([loss, right.float()])).tolist()
        if not np.isfinite(loss):
            raise Diverged(f"the selection loss is {loss} in epoch {self.state.epoch}")
        score = 100 * right / len(self._selection_split())
        if score > self.state.best.score:
            weights = {name: value.detach().clone() for name, value in self.state.evaluated.state_dict().items()}
            self.state.best = Best(self.state.epoch, score, weights)
        return {"selection_loss": loss / len(self._selection_split()), "selection_top1_accuracy": score}

    def _share_buffers(self) -> None:
        """Batch norm's running statistics: the mean over the workers, and the same in the averaged network."""
        average_buffers(self.state.network)
        if self.state.average is not None:
            self.state.average.copy_buffers()

    @torch.no_grad()
    def predict(self, batches: Batches, depths: Sequence[int] = ()) -> tuple[list[Tensor], Tensor]:
        """Logits (N, K) after each of `depths` supervision steps, and labels (N,), of this worker's share, evaluated weights.

        Without depths: after `evaluation_steps`. Depths are counted from 1 and come from one chain of steps.
        """
        depths = depths or [self.config.train.evaluation_steps]
        network = self.state.evaluated.eval()
        logits: dict[int, list[Tensor]] = {depth: [] for depth in depths}
        labels = []
        for batch in batches.plain():
            carry = network.start(batch.images)
            for step in range(1, max(depths) + 1):
                with self._autocast():
                    output, carry = network(batch.images, carry)
                if step in logits:
                    logits[step].append(output.logits.float())
            labels.append(batch.labels)
        return [torch.cat(parts) for parts in logits.values()], torch.cat(labels)

    def _out_of_patience(self) -> bool:
        patience = self.config.train.patience
        return bool(patience) and self.state.epoch - 1 - self.state.best.epoch >= patience

    def finish(self) -> dict[str, Any]:
        """Load the selected weights and look at the test set, this once."""
        state = self.state
        if state.best.weights:
            state.evaluated.load_state_dict(state.best.weights)
        else:
            self._share_buffers()
        (logits,), labels = self.predict(self._batches(self.data.test, shared=False))
        if not torch.isfinite(logits).all():
            raise Diverged("the logits of the test set are not finite")
        (seen,), known = self.predict(self._batches(self.data.train, shared=False))
        trained = {"train_top1_accuracy": 100 * (seen.argmax(-1) == known).double().mean().item()}
        return {
            "metrics": classification(logits.cpu(), labels.cpu()) | trained,
            "depths": self.by_depth(),
            "selected": {
                "split": self.config.train.selection,
                "epoch": state.best.epoch if state.best.weights else state.epoch - 1,
                **({"top1_accuracy": state.best.score} if state.best.weights else {}),
            },
        }

    def by_depth(self) -> dict[str, float]:
        """Test accuracy in percent after 1, 2, ... supervision steps, from the same weights; nothing without recursion."""
        depths = range(1, self.config.train.evaluation_depths + 1)
        if not self.config.model.recursive or not depths:
            return {}
        scores, labels = self.predict(self._batches(self.data.test, shared=False), depths)
        right = [100 * (logits.argmax(-1) == labels).double().mean().item() for logits in scores]
        return {str(depth): accuracy for depth, accuracy in zip(depths, right, strict=True)}


def detached(carry: Carry) -> Carry:
    return tuple(state.detach() for state in carry)


def _draw(seed: int, *purpose: str | int) -> int:
    """A seed of its own for each purpose, far from those of neighbouring seeds."""
    words = [int.from_bytes(part.encode(), "little") if isinstance(part, str) else part for part in purpose]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0] >> 1)
