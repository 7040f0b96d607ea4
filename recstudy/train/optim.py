"""Optimisers, learning rate, and the moving average of the weights.

lr(e) = lr e / W                                                for e < W, W = round(warmup E)      (1)
      = lr_end + (lr - lr_end) (1 + cos(pi (e - W) / (E - W))) / 2    from there on                  (2)
        e counts from 0, and with schedule `update` from 1, as HRM and TRM do; with `batch` the cosine is E
        long, not E - W
      = lr / 10^floor(e / S),  S = floor(E / 2)                         there, with schedule `step`  (6)
shadow <- d shadow + (1 - d) weights      after each optimiser step; starts at the initial weights   (3)

Adam-atan2 (Everett et al. 2024, without their constants, as HRM and TRM use it):

p <- (1 - lr w) p;   m, v as Adam's;   p <- p - lr / (1 - b1^t) atan2(m, sqrt(v / (1 - b2^t)))       (4)

Lion (Chen et al. 2023):

p <- (1 - lr w) p - lr sign(b1 m + (1 - b1) g);   m <- b2 m + (1 - b2) g                             (7)

Muon (Jordan et al. 2024) of the hidden matrices, A x B, with updates as large as AdamW's (Liu et al. 2025):

m <- mu m + (1 - mu) g;   p <- (1 - lr w) p                                                          (8)
p <- p - 0.2 sqrt(max(A, B)) lr orthogonal((1 - mu) g + mu m)

SignSGD of the puzzle embeddings, on the rows of the batch alone, with the sum g of the gradients of equal
ids:

row <- (1 - lr w) row - lr sign(g)                                                                   (5)
"""

import copy
import math
from abc import abstractmethod
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from recstudy.config import OPTIMIZERS, SCHEDULES, TrainConfig
from recstudy.errors import ConfigError
from recstudy.models.networks.contract import Network, VisionEncoder


def learning_rate(config: TrainConfig, done: int, length: int) -> float:
    """Return what the config's schedule says after `done` of `length` epochs or updates.

    Raises:
        ConfigError: a registered schedule gives no finite number from 0.
    """
    rate = SCHEDULES[config.schedule](config, done, length, **config.schedule_options.model_dump())
    if not 0 <= rate < math.inf:
        raise ConfigError(
            f"the schedule {config.schedule!r} must give a finite number from 0, but gives {rate} at {done}"
            f" of {length}"
        )
    return rate


def by_epoch(config: TrainConfig, done: int, length: int) -> float:
    """Return (1)-(2), the cosine after a warm-up, of epochs (ViTRM)."""
    return _cosine(config, done, length)


def by_update(config: TrainConfig, done: int, length: int) -> float:
    """Return the cosine after a warm-up, of optimiser updates, from 1 (HRM, TRM)."""
    return _cosine(config, done + 1, length)


def by_batch(config: TrainConfig, done: int, length: int) -> float:
    """Return the cosine of updates, against a length in batches, all of it after the warm-up
    (HRM-Small-Images).
    """
    return _cosine(config, done, length, over=length)


def by_step(config: TrainConfig, done: int, length: int) -> float:
    """Return (1) and (6): a tenth of the rate from the middle epoch on, in place of the cosine
    (MicarVLMoE).
    """
    if done < round(config.warmup * length):
        return _cosine(config, done, length)
    return config.learning_rate / 10 ** (done // max(1, length // 2))


def _cosine(config: TrainConfig, done: int, length: int, over: int | None = None) -> float:
    """Return (1)-(2), with a cosine `over` so many epochs or updates, by default W to E; past its end it
    stays there.
    """
    warmup = round(config.warmup * length)
    if done < warmup:
        return config.learning_rate * done / warmup
    turn = math.pi * min(1.0, (done - warmup) / (length - warmup if over is None else over))
    end = min(config.final_learning_rate, config.learning_rate)
    return end + (config.learning_rate - end) * (1 + math.cos(turn)) / 2


def make_optimizers(network: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Return one optimiser for the weights, and one for the puzzle embeddings where there are any.

    Vision encoders are a group of their own where they have a rate of their own. Every group keeps its own
    peak rate as `peak`, which the one schedule scales.
    """
    sparse = [module.weight for module in network.modules() if is_table(module)]
    make, options = OPTIMIZERS[config.optimizer], config.optimizer_options.model_dump()
    groups = _groups(network, sparse, config)
    if config.optimizer == "muon":
        groups = _split_hidden(groups, network)
    optimizers: list[torch.optim.Optimizer] = [make(groups, config, **options)]
    if sparse:
        optimizers.append(
            SignSGD(sparse, lr=config.puzzle_learning_rate, weight_decay=config.puzzle_weight_decay)
        )
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        group["peak"] = group["lr"]
    return optimizers


def _groups(network: nn.Module, tables: list[Tensor], config: TrainConfig) -> list[dict[str, Any]]:
    """Return all weights but the `tables`, by learning rate and decay; the rate that the schedule is told of
    comes first.
    """
    rate = config.backbone_learning_rate
    encoders = (
        [module for module in network.modules() if isinstance(module, VisionEncoder)]
        if rate is not None
        else []
    )
    seeing = {id(weight) for encoder in encoders for weight in encoder.parameters()}
    dense = [weight for weight in network.parameters() if all(weight is not table for table in tables)]
    groups: list[dict[str, Any]] = [{"params": [weight for weight in dense if id(weight) not in seeing]}]
    if seeing:
        groups.append({"params": [weight for weight in dense if id(weight) in seeing], "lr": rate})
    if config.decayed == "all":
        return groups
    parts: list[dict[str, Any]] = []
    for group in groups:  # matrices decay; gains, biases and scales do not
        flat = [weight for weight in group["params"] if weight.dim() < 2]
        whole = [weight for weight in group["params"] if weight.dim() >= 2]
        parts += {**group, "params": whole}, {**group, "params": flat, "weight_decay": 0.0}
    return [part for part in parts if part["params"]]


def _split_hidden(groups: list[dict[str, Any]], network: nn.Module) -> list[dict[str, Any]]:
    """Return two groups for each: the other weights, which may be none, and the hidden matrices, marked
    `hidden`.

    Hidden matrices are the weights of linear layers outside of `Network.outer_parts`. A weight that an
    embedding shares is not hidden.
    """
    outer_parts = getattr(network, "outer_parts", Network.outer_parts)
    layers = [(name, module) for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    hidden = {id(layer.weight) for name, layer in layers if outer_parts.isdisjoint(name.split("."))}
    hidden -= {id(module.weight) for module in network.modules() if isinstance(module, nn.Embedding)}
    parts: list[dict[str, Any]] = []
    for group in groups:
        matrices = [weight for weight in group["params"] if id(weight) in hidden]
        others = [weight for weight in group["params"] if id(weight) not in hidden]
        parts += {**group, "params": others}, {**group, "params": matrices, "hidden": True}
    return parts


def is_table(module: nn.Module) -> TypeGuard[nn.Embedding]:
    """Return whether a module is a table of puzzle embeddings, which have sparse gradients."""
    return isinstance(module, nn.Embedding) and module.sparse


def adamw(groups: list[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    """Return AdamW."""
    return torch.optim.AdamW(groups, **_rates(config), amsgrad=config.amsgrad, fused=True)


def adam_atan2(groups: list[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    """Return (4), without an epsilon (HRM, TRM)."""
    return AdamAtan2(groups, **_rates(config))


def adam(groups: list[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    """Return plain Adam, whose weight decay is a part of the gradient."""
    return torch.optim.Adam(groups, **_rates(config), fused=True)


def sgd(
    groups: list[dict[str, Any]], config: TrainConfig, *, momentum: float = 0.9, nesterov: bool = False
) -> torch.optim.Optimizer:
    """Return stochastic gradient descent with momentum, whose weight decay is a part of the gradient."""
    rate, decay = config.learning_rate, config.weight_decay
    return torch.optim.SGD(
        groups, lr=rate, weight_decay=decay, momentum=momentum, nesterov=nesterov, fused=True
    )


def lion(groups: list[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    """Return (7)."""
    return Lion(groups, **_rates(config))


def muon(
    groups: list[dict[str, Any]],
    config: TrainConfig,
    *,
    matrix_learning_rate: float | None = None,
    momentum: float = 0.95,
    nesterov: bool = True,
    steps: int = 5,
) -> torch.optim.Optimizer:
    """Return (8) for the groups that are marked `hidden`, and AdamW for the others.

    Args:
        groups: As `make_optimizers` splits them.
        config: Its betas are AdamW's; its learning rate and weight decay are for both.
        matrix_learning_rate: Peak rate of the hidden matrices; by default `config.learning_rate`.
        momentum: mu.
        nesterov: Whether the orthogonalized matrix is (1 - mu) g + mu m, and not m.
        steps: Newton-Schulz iterations, which PyTorch computes in bfloat16.

    Raises:
        ConfigError: The network has no hidden matrices, or a number is out of range.
    """
    rate = config.learning_rate if matrix_learning_rate is None else matrix_learning_rate
    if not (0 < rate < math.inf and 0 <= momentum < 1 and 1 <= steps < 100):
        raise ConfigError(
            "train.optimizer_options of muon: matrix_learning_rate must be above 0, momentum from 0 to below"
            f" 1, steps 1 to 99, but got {rate}, {momentum} and {steps}"
        )
    scale = rate / config.learning_rate
    matrices = [dict(group) for group in groups if group.get("hidden")]
    for group in matrices:
        group["lr"] = scale * group.get("lr", config.learning_rate)
    if not any(group["params"] for group in matrices):
        raise ConfigError(
            "optimizer 'muon' needs linear layers between embedding and head, but this model has none; choose"
            " 'adamw'"
        )
    others = [group for group in groups if not group.get("hidden")]
    return _MuonAndAdamW(
        torch.optim.AdamW(others, **_rates(config), fused=True),
        torch.optim.Muon(
            matrices, weight_decay=config.weight_decay, momentum=momentum, nesterov=nesterov, ns_steps=steps,
            adjust_lr_fn="match_rms_adamw",
        ),
    )  # fmt: skip


def _rates(config: TrainConfig) -> dict[str, Any]:
    return {
        "lr": config.learning_rate,
        "betas": (config.beta1, config.beta2),
        "weight_decay": config.weight_decay,
    }


def set_learning_rate(optimizers: list[torch.optim.Optimizer], value: float) -> None:
    """Set `value` for the weights; the other groups at the same share of their peak."""
    share = value / optimizers[0].param_groups[0]["peak"]
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        group["lr"] = group["peak"] * share


@torch.no_grad()
def keep_bounds(network: Network) -> None:
    """Put back weights that an update has taken out of their bounds."""
    for name, (least, most) in network.bounds.items():
        network.get_parameter(name).clamp_(least, most)


class _WithMomentum(torch.optim.Optimizer):
    """The frame of (4) and (7): decay by the learning rate, two betas, one update for all the weights that
    have a gradient.
    """

    def __init__(self, weights: Any, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                self._update(weights, [weight.grad for weight in weights], group["lr"], *group["betas"])

    @abstractmethod
    def _update(
        self, weights: list[Tensor], gradients: list[Tensor], lr: float, b1: float, b2: float
    ) -> None:
        """Move the weights, which have decayed, by their gradients."""


class AdamAtan2(_WithMomentum):
    """Equation (4)."""

    def _update(
        self, weights: list[Tensor], gradients: list[Tensor], lr: float, b1: float, b2: float
    ) -> None:
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {"step": 0, "m": torch.zeros_like(weight), "v": torch.zeros_like(weight)}
            self.state[weight]["step"] += 1
        m, v = ([self.state[weight][key] for weight in weights] for key in ("m", "v"))
        torch._foreach_lerp_(m, gradients, 1 - b1)
        torch._foreach_mul_(v, b2)
        torch._foreach_addcmul_(v, gradients, gradients, 1 - b2)
        steps = [self.state[weight]["step"] for weight in weights]
        for t in sorted(set(steps)):  # weights that had no gradient at some updates have made fewer steps
            members = [index for index, count in enumerate(steps) if count == t]
            roots = list(torch._foreach_div([v[index] for index in members], 1 - b2**t))
            torch._foreach_sqrt_(roots)
            angles = _atan2([m[index] for index in members], roots)
            torch._foreach_add_([weights[index] for index in members], angles, alpha=-lr / (1 - b1**t))


def _atan2(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    """Return atan2 of each pair. torch has no _foreach_atan2, so on a GPU all pairs are one flat tensor and
    one launch.

    On a CPU each pair is computed on its own: there the last bit of a number depends on its place in the
    vector register.
    """
    if first[0].device.type == "cpu" or len({(tensor.dtype, tensor.device) for tensor in first}) > 1:
        return [torch.atan2(*pair) for pair in zip(first, second, strict=True)]
    vectors = [torch.cat([tensor.flatten() for tensor in tensors]) for tensors in (first, second)]
    angles = torch.atan2(*vectors).split([tensor.numel() for tensor in first])
    return [angle.view_as(tensor) for angle, tensor in zip(angles, first, strict=True)]


class Lion(_WithMomentum):
    """Equation (7)."""

    def _update(
        self, weights: list[Tensor], gradients: list[Tensor], lr: float, b1: float, b2: float
    ) -> None:
        m = [self.state[weight].setdefault("m", torch.zeros_like(weight)) for weight in weights]
        steps = torch._foreach_lerp(m, gradients, 1 - b1)
        torch._foreach_sign_(steps)
        torch._foreach_sub_(weights, steps, alpha=lr)
        torch._foreach_lerp_(m, gradients, 1 - b2)


class _MuonAndAdamW(torch.optim.Optimizer):
    """Two optimizers as one, with one state and one list of groups.

    AdamW's groups come first, because the schedule reads the peak of the first group.
    """

    def __init__(self, adamw: torch.optim.AdamW, muon: torch.optim.Muon) -> None:
        self._adamw, self._muon = adamw, muon
        super().__init__([*adamw.param_groups, *muon.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for optimizer, is_hidden in ((self._adamw, False), (self._muon, True)):
            optimizer.state = self.state  # load_state_dict puts new objects here
            groups = [group for group in self.param_groups if group.get("hidden", False) is is_hidden]
            optimizer.param_groups = groups
            optimizer.step()


class SignSGD(torch.optim.Optimizer):
    """Equation (5), for embeddings with sparse gradients."""

    def __init__(self, weights: Any, lr: float, weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                gradient = table.grad.coalesce()  # sums the rows of equal ids
                ids = gradient.indices()[0]
                rows = (
                    table[ids] * (1 - group["lr"] * group["weight_decay"])
                    - group["lr"] * gradient.values().sign()
                )
                table.index_copy_(0, ids, rows)


def batch_statistics(network: nn.Module) -> list[Tensor]:
    """Batch norm's running means and variances."""
    norms = (module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm))
    return [
        buffer for norm in norms for buffer in (norm.running_mean, norm.running_var) if buffer is not None
    ]


def _other_buffers(network: nn.Module) -> list[Tensor]:
    averaged = set(map(id, batch_statistics(network)))
    return [buffer for buffer in network.buffers() if id(buffer) not in averaged]


class MovingAverage:
    """Equation (3), of batch norm's running statistics too: those of the weights of today do not fit their
    average.

    `network` is a copy of the trained one, to evaluate with.
    """

    def __init__(self, trained: Network, decay: float) -> None:
        self.decay = decay
        self.network = copy.deepcopy(trained)
        self.network.requires_grad_(False).eval()
        both = self.network, trained
        # a buffer in HRM's code
        tables = [f"{name}.weight" for name, module in trained.named_modules() if is_table(module)]
        names = [name for name, _ in trained.named_parameters()]
        averaged = [name for name in names if name not in tables]
        self._shadow, self._weights = (
            [*map(network.get_parameter, averaged), *batch_statistics(network)] for network in both
        )
        self._copied = [[*map(network.get_parameter, tables), *_other_buffers(network)] for network in both]

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self._shadow, self._weights, 1 - self.decay)

    @torch.no_grad()
    def copy_buffers(self) -> None:
        """Take over what is not averaged, such as puzzle tables; before an evaluation is enough."""
        for shadow, buffer in zip(*self._copied, strict=True):
            shadow.copy_(buffer)
