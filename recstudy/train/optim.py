"""Optimiser, learning rate by epoch, and the moving average of the weights.

lr(e) = lr e / W                                                for e < W, W = round(warmup E)      (1)
      = lr_end + (lr - lr_end) (1 + cos(pi (e - W) / (E - W))) / 2    from there on                  (2)
shadow <- d shadow + (1 - d) weights      after each optimiser step; starts at the initial weights   (3)
"""

import copy
import math

import torch
from torch import Tensor, nn

from recstudy.config import TrainConfig
from recstudy.models.networks.contract import Network


def learning_rate(config: TrainConfig, done: int, length: int) -> float:
    """Equations (1)-(2) after `done` of `length` epochs or updates; past its length the schedule stays at its end."""
    warmup = round(config.warmup * length)
    if done < warmup:
        return config.learning_rate * done / warmup
    turn = math.pi * min(1.0, (done - warmup) / (length - warmup))
    end = min(config.final_learning_rate, config.learning_rate)
    return end + (config.learning_rate - end) * (1 + math.cos(turn)) / 2


def make_optimizer(network: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW with weight decay on every parameter (002), in one fused kernel."""
    return torch.optim.AdamW(
        network.parameters(),
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        weight_decay=config.weight_decay,
        fused=True,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = value


class MovingAverage:
    """Equation (3). `network` is a copy of the trained one, to evaluate with."""

    def __init__(self, trained: Network, decay: float) -> None:
        self.decay = decay
        self.network = copy.deepcopy(trained)
        self.network.requires_grad_(False).eval()
        self._shadow: list[Tensor] = list(self.network.parameters())
        self._weights: list[Tensor] = list(trained.parameters())
        self._buffers = list(self.network.buffers()), list(trained.buffers())

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self._shadow, self._weights, 1 - self.decay)

    @torch.no_grad()
    def copy_buffers(self) -> None:
        """Take over what is not trained, such as batch norm's running statistics; before an evaluation is enough."""
        for shadow, buffer in zip(*self._buffers, strict=True):
            shadow.copy_(buffer)
