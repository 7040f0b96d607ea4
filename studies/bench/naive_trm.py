"""TRM-MLP (arXiv:2510.04871) and its training on puzzles as one would first write them.

The equations, parameters and initial weights are those of `recstudy.models.networks.trm`, with one cycle; the training step is
that of `recstudy.train.loop` with halting by sample: plain modules, AdamW as it comes, the average in a loop over the weights.

Shapes: B puzzles, S cells, L positions (prefix and cells), D width, V tokens.
"""

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy import RunConfig
from recstudy.data.batches import Batch
from recstudy.data.puzzles import Puzzles
from recstudy.models import TRM
from recstudy.models.networks.contract import Network
from recstudy.models.sequence import hidden_width


class RMSNorm(nn.Module):
    """x over the root of its mean square."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class NaiveSwiGLU(nn.Module):
    """down(up(x) * silu(gate(x)))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x) * F.silu(self.gate(x)))


class NaiveLayer(nn.Module):
    """Tokens are mixed first, then the width; a norm after each."""

    def __init__(self, config: TRM, length: int) -> None:
        super().__init__()
        self.mix = NaiveSwiGLU(length, hidden_width(length, config.expansion, config.multiple))
        self.ffn = NaiveSwiGLU(config.width, config.hidden_width)
        self.norm = RMSNorm()

    def forward(self, s_BLD: Tensor) -> Tensor:
        s_BDL = s_BLD.transpose(1, 2)
        s_BLD = self.norm(s_BDL + self.mix(s_BDL)).transpose(1, 2)
        return self.norm(s_BLD + self.ffn(s_BLD))


class NaiveTRM(nn.Module):
    """One segment of one cycle: logits (B, S, V), halting logits (B,) and the states."""

    y_start: Tensor
    z_start: Tensor

    def __init__(self, config: TRM, data: Puzzles) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(data.classes, config.width)
        self.f = nn.Sequential(*(NaiveLayer(config, config.prefix + data.cells) for _ in range(config.layers)))
        self.answer = nn.Linear(config.width, data.classes, bias=False)
        self.halt = nn.Linear(config.width, 2)
        for name in ("y_start", "z_start"):
            self.register_buffer(name, torch.zeros(config.width))

    def forward(self, cells_BS: Tensor, y_BLD: Tensor, z_BLD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        tokens_BSD = math.sqrt(self.config.width) * self.embed(cells_BS)
        x_BLD = F.pad(tokens_BSD, (0, 0, self.config.prefix, 0))
        for _ in range(self.config.latent_steps):
            z_BLD = self.f(z_BLD + y_BLD + x_BLD)
        y_BLD = self.f(y_BLD + z_BLD)
        return self.answer(y_BLD[:, self.config.prefix :]), self.halt(y_BLD[:, 0])[:, 0], y_BLD, z_BLD


class NaiveTraining:
    """Training with halting by sample, at one learning rate and without exploration."""

    def __init__(self, config: RunConfig, like: Network) -> None:
        assert isinstance(config.data, Puzzles)
        assert isinstance(config.model, TRM)
        self.config, train = config, config.train
        self.model = NaiveTRM(config.model, config.data)
        copy_weights(like, self.model)
        self.average = copy.deepcopy(self.model)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), train.learning_rate, (train.beta1, train.beta2), weight_decay=train.weight_decay
        )
        self.length = config.model.prefix + config.data.cells
        self.work: tuple[Tensor, ...] | None = None  # cells, labels, y, z and steps of the samples in work, and who has halted

    def step(self, batch: Batch) -> float:
        """One update; its loss."""
        train = self.config.train
        cells, labels, y, z, steps = self._fill(batch)
        logits, halt, y, z = self.model(cells, y, z)
        right = (logits.argmax(-1) == labels).all(-1)
        loss = F.cross_entropy(logits.transpose(1, 2), labels)
        loss = loss + train.halt_weight * F.binary_cross_entropy_with_logits(halt, right.float())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for average, weight in zip(self.average.parameters(), self.model.parameters(), strict=True):
                average.mul_(train.ema_decay).add_(weight, alpha=1 - train.ema_decay)
        steps = steps + 1
        halted = (steps >= train.supervision_steps) | (halt > 0)
        self.work = cells, labels, y.detach(), z.detach(), steps, halted
        return loss.item()

    def _fill(self, batch: Batch) -> list[Tensor]:
        """What is in work, after those that halted made room for samples of the batch."""
        count = len(batch.images)
        states = [start.expand(count, self.length, -1) for start in (self.model.y_start, self.model.z_start)]
        fresh = [batch.images.flatten(1).long(), batch.labels, *states, torch.zeros(count, dtype=torch.long)]
        if self.work is None:
            return fresh
        *kept, halted = self.work
        return [torch.where(halted.view(-1, *[1] * (new.dim() - 1)), new, old) for new, old in zip(fresh, kept, strict=True)]


def copy_weights(network: Network, naive: NaiveTRM) -> None:
    """Give `naive` the weights of ours, in which `up` is its `up` and `gate` in one."""
    weights = {}
    for name, value in network.state_dict().items():
        name = name.removeprefix("core.").replace("q_head", "halt").replace("z_high", "y_start").replace("z_low", "z_start")
        if name.endswith("up.weight"):
            weights[name], weights[name.replace("up.", "gate.")] = value.chunk(2)
        else:
            weights[name] = value
    naive.load_state_dict(weights)
