"""Build the optimisers, compute the learning rate, and average the weights.

lr(e) = lr e / W                                                for e < W, W = round(warmup E)      (1)
      = lr_end + (lr - lr_end) (1 + cos(pi (e - W) / (E - W))) / 2    from there on                  (2)
        e counts from 0, but from 1 with the schedule `update` (HRM, TRM)
        with the schedule `batch`, the cosine has the length E in place of E - W
      = lr / 10^floor(e / S),  S = floor(E / 2)     from there on, with the schedule `step`          (6)
shadow <- d shadow + (1 - d) weights      after each optimiser step; starts at the initial weights   (3)

Adam-atan2 (Everett et al. 2024, without their constants, as HRM and TRM use it):

p <- (1 - lr w) p;   m, v as Adam's;   p <- p - lr / (1 - b1^t) atan2(m, sqrt(v / (1 - b2^t)))       (4)

Muon (Jordan et al. 2024) of the hidden matrices, A x B, with updates as large as AdamW's (Liu et al. 2025):

m <- mu m + (1 - mu) g;   p <- (1 - lr w) p                                                          (8)
p <- p - 0.2 sqrt(max(A, B)) lr orthogonal((1 - mu) g + mu m)

SignSGD of the puzzle embeddings, on the rows of the batch only. g is the sum of the gradients of equal ids:

row <- (1 - lr w) row - lr sign(g)                                                                   (5)
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.base.errors import ConfigError
from recstudy.recursive.config.functions import OPTIMIZERS, SCHEDULES
from recstudy.recursive.config.train import TrainConfig
from recstudy.recursive.models.networks.contract import Network, vision_weights
from recstudy.recursive.models.networks.layers import PuzzleTable

ParameterGroups = list[dict[str, Any]]  # as torch.optim takes them


def learning_rate(config: TrainConfig, done: int, length: int) -> float:
    """Return the learning rate of the config's schedule.

    Args:
        config: The settings of training.
        done: Number of finished epochs or updates.
        length: Number of all epochs or updates.

    Raises:
        ConfigError: A registered schedule returns a negative number, infinity or NaN.
    """
    rate = SCHEDULES[config.schedule](config, done, length, **config.schedule_options.model_dump())
    if not 0 <= rate < math.inf:
        raise ConfigError(
            f"the schedule {config.schedule!r} must return a finite number from 0, but returns {rate} at"
            f" {done} of {length}"
        )
    return rate


def by_epoch(config: TrainConfig, done: int, length: int, cosine_length: int | None = None) -> float:
    """Return the cosine after a warm-up, counted in epochs, Eqs. 1 and 2 (ViTRM).

    After its end, the cosine keeps its last rate.

    Args:
        config: The settings of training.
        done: Number of finished epochs or updates.
        length: Number of all epochs or updates, E.
        cosine_length: Length of the cosine; by default E - W.
    """
    warmup = round(config.warmup * length)
    if done < warmup:
        return config.learning_rate * done / warmup
    turn = math.pi * min(1.0, (done - warmup) / (length - warmup if cosine_length is None else cosine_length))
    end = min(config.final_learning_rate, config.learning_rate)  # a rate below lr_end never rises to it
    return end + (config.learning_rate - end) * (1 + math.cos(turn)) / 2


def by_update(config: TrainConfig, done: int, length: int) -> float:
    """Return the cosine after a warm-up, counted in optimiser updates from 1 (HRM, TRM)."""
    return by_epoch(config, done + 1, length)


def by_batch(config: TrainConfig, done: int, length: int) -> float:
    """Return a cosine with the length E, which starts after the warm-up (HRM-Small-Images).

    Several updates per batch pass its end early.
    """
    return by_epoch(config, done, length, cosine_length=length)


def by_step(config: TrainConfig, done: int, length: int) -> float:
    """Return a tenth of the rate from the middle epoch on, Eqs. 1 and 6 (MicarVLMoE)."""
    if done < round(config.warmup * length):
        return by_epoch(config, done, length)
    return config.learning_rate / 10 ** (done // max(1, length // 2))


def make_optimizers(network: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Return the optimiser of the weights and, if there are puzzle embeddings, their optimiser.

    Vision encoders with their own learning rate are a separate group. Each group stores its highest rate as
    `peak`, which the schedule scales.
    """
    tables = [module.weight for module in network.modules() if isinstance(module, PuzzleTable)]
    make, options = OPTIMIZERS[config.optimizer], config.optimizer_options.model_dump()
    optimizers: list[torch.optim.Optimizer] = [make(_groups(network, tables, config), config, **options)]
    if tables:
        optimizers.append(
            SignSGD(tables, lr=config.puzzle_learning_rate, weight_decay=config.puzzle_weight_decay)
        )
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def _groups(network: nn.Module, tables: list[Tensor], config: TrainConfig) -> ParameterGroups:
    """Return groups of all weights except the tables, by learning rate and weight decay.

    The first group has the learning rate of the config, from which the schedule computes the others. For
    Muon, each group is split into other weights, which may be none, and hidden matrices with the mark
    `hidden`. Hidden matrices are the weights of linear layers outside `Network.outer_parts`. A weight that is
    shared with an embedding is not hidden.
    """
    dense = [weight for weight in network.parameters() if all(weight is not table for table in tables)]
    groups: ParameterGroups = [{"params": dense}]
    rate = config.backbone_learning_rate
    if rate is not None and (encoder_ids := vision_weights(network)):
        groups = _split(groups, lambda weight: id(weight) in encoder_ids, lr=rate)
    if config.decayed == "matrices":  # FuseLIP: matrices have weight decay; gains, biases and scales do not
        groups = _split(groups, lambda weight: weight.dim() < 2, weight_decay=0.0)
        groups = [group for group in groups if group["params"]]
    if config.optimizer == "muon":
        outer_parts = getattr(network, "outer_parts", Network.outer_parts)
        layers = [(name, module) for name, module in network.named_modules() if isinstance(module, nn.Linear)]
        hidden = {id(layer.weight) for name, layer in layers if outer_parts.isdisjoint(name.split("."))}
        hidden -= {id(module.weight) for module in network.modules() if isinstance(module, nn.Embedding)}
        groups = _split(groups, lambda weight: id(weight) in hidden, hidden=True)
    return groups


def _split(groups: ParameterGroups, is_marked: Callable[[Tensor], bool], **marks: Any) -> ParameterGroups:
    """Split each group in two: other weights, then the marked ones with further fields."""
    parts: ParameterGroups = []
    for group in groups:
        marked = [weight for weight in group["params"] if is_marked(weight)]
        others = [weight for weight in group["params"] if not is_marked(weight)]
        parts += {**group, "params": others}, {**group, "params": marked, **marks}
    return parts


def adamw(groups: ParameterGroups, config: TrainConfig) -> torch.optim.Optimizer:
    """Return AdamW."""
    return torch.optim.AdamW(groups, **_rates(config), amsgrad=config.amsgrad, fused=True)


def adam_atan2(groups: ParameterGroups, config: TrainConfig) -> torch.optim.Optimizer:
    """Return Adam-atan2, Eq. 4, which has no epsilon (HRM, TRM)."""
    return AdamAtan2(groups, **_rates(config))


def sgd(
    groups: ParameterGroups, config: TrainConfig, *, momentum: float = 0.9, nesterov: bool = False
) -> torch.optim.Optimizer:
    """Return stochastic gradient descent with momentum, whose weight decay is a part of the gradient."""
    rate, decay = config.learning_rate, config.weight_decay
    return torch.optim.SGD(
        groups, lr=rate, weight_decay=decay, momentum=momentum, nesterov=nesterov, fused=True
    )


def muon(
    groups: ParameterGroups,
    config: TrainConfig,
    *,
    matrix_learning_rate: float | None = None,
    momentum: float = 0.95,
    nesterov: bool = True,
    steps: int = 5,
) -> torch.optim.Optimizer:
    """Return Muon, Eq. 8, for the groups with the mark `hidden`, and AdamW for the other groups.

    Args:
        groups: The groups of `make_optimizers`.
        config: The settings of training. The betas are AdamW's; learning rate and weight decay apply to both.
        matrix_learning_rate: Peak rate of the hidden matrices; by default `config.learning_rate`.
        momentum: mu.
        nesterov: Whether (1 - mu) g + mu m is orthogonalized instead of m.
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
            "train.optimizer 'muon' needs linear layers between the embedding and the head, but this model"
            " has none. Choose 'adamw'"
        )
    other_weights = [group for group in groups if not group.get("hidden")]
    return _MuonAndAdamW(
        torch.optim.AdamW(other_weights, **_rates(config), fused=True),
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
    """Set the learning rate of the first group, and scale every other group's peak by the same factor."""
    share = value / optimizers[0].param_groups[0]["peak"]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * share


@torch.no_grad()
def keep_bounds(network: Network) -> None:
    """Clamp the weights that have bounds, after an update."""
    for name, (lower, upper) in network.bounds.items():
        network.get_parameter(name).clamp_(lower, upper)


class AdamAtan2(torch.optim.Optimizer):
    """Adam-atan2, Eq. 4, in one update of all weights."""

    def __init__(self, weights: Any, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                self._update(weights, [weight.grad for weight in weights], group["lr"], *group["betas"])

    def _update(
        self, weights: list[Tensor], gradients: list[Tensor], lr: float, b1: float, b2: float
    ) -> None:
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {"step": 0, "m": torch.zeros_like(weight), "v": torch.zeros_like(weight)}
            self.state[weight]["step"] += 1
        m, v = ([self.state[weight][key] for weight in weights] for key in ("m", "v"))
        # Eq. 4: m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
        torch._foreach_lerp_(m, gradients, 1 - b1)
        torch._foreach_mul_(v, b2)
        torch._foreach_addcmul_(v, gradients, gradients, 1 - b2)
        steps = [self.state[weight]["step"] for weight in weights]
        for t in sorted(set(steps)):  # a weight without a gradient in some updates has made fewer steps
            members = [index for index, count in enumerate(steps) if count == t]
            roots = list(torch._foreach_div([v[index] for index in members], 1 - b2**t))
            torch._foreach_sqrt_(roots)
            # Eq. 4: the bias correction of m scales the step, and not an argument of atan2.
            angles = _atan2([m[index] for index in members], roots)
            torch._foreach_add_([weights[index] for index in members], angles, alpha=-lr / (1 - b1**t))


def _atan2(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    """Return atan2 of each pair of tensors."""
    # On a CPU the last bit of a result depends on the position in the vector register, so each pair is
    # computed separately.
    if first[0].device.type == "cpu" or len({(tensor.dtype, tensor.device) for tensor in first}) > 1:
        return [torch.atan2(*pair) for pair in zip(first, second, strict=True)]
    # torch has no _foreach_atan2. On a GPU one flat tensor of all pairs needs a single launch.
    vectors = [torch.cat([tensor.flatten() for tensor in tensors]) for tensors in (first, second)]
    angles = torch.atan2(*vectors).split([tensor.numel() for tensor in first])
    return [angle.view_as(tensor) for angle, tensor in zip(angles, first, strict=True)]


class _MuonAndAdamW(torch.optim.Optimizer):
    """AdamW and Muon as one optimiser, with one state and one list of groups.

    AdamW's groups come first, because the schedule reads the peak of the first group.
    """

    def __init__(self, adamw: torch.optim.AdamW, muon: torch.optim.Muon) -> None:
        self._adamw, self._muon = adamw, muon
        super().__init__([*adamw.param_groups, *muon.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for optimizer, is_hidden in ((self._adamw, False), (self._muon, True)):
            optimizer.state = self.state  # load_state_dict replaces these objects
            groups = [group for group in self.param_groups if group.get("hidden", False) is is_hidden]
            optimizer.param_groups = groups
            optimizer.step()


class SignSGD(torch.optim.Optimizer):
    """SignSGD of puzzle embeddings, Eq. 5, on all rows or those of a sparse gradient."""

    def __init__(self, weights: Any, lr: float, weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                keep, rate = 1 - group["lr"] * group["weight_decay"], group["lr"]
                if not table.grad.is_sparse:
                    table.mul_(keep).sub_(rate * table.grad.sign())
                    continue
                ids, order = table.grad._indices()[0].sort(stable=True)
                # The number of different ids would be a wait for the device, so each row of the batch gets
                # the sum of its id, and equal rows are written several times.
                number = F.pad((ids[1:] != ids[:-1]).cumsum(0), (1, 0))
                values = table.grad._values()[order]
                sums = torch.zeros_like(values).index_add_(0, number, values)
                table.index_copy_(0, ids, table[ids] * keep - rate * sums[number].sign())


def batch_statistics(network: nn.Module) -> list[Tensor]:
    """Return batch norm's running means and variances."""
    norms = (module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm))
    return [
        buffer for norm in norms for buffer in (norm.running_mean, norm.running_var) if buffer is not None
    ]


def _other_buffers(network: nn.Module) -> list[Tensor]:
    averaged = set(map(id, batch_statistics(network)))
    return [buffer for buffer in network.buffers() if id(buffer) not in averaged]


class MovingAverage:
    """The moving average of the weights, Eq. 3.

    Args:
        trained: The trained network. `network` is a copy of it with the averaged weights, for evaluation.
        decay: d.
    """

    def __init__(self, trained: Network, decay: float) -> None:
        self.decay = decay
        self.network = copy.deepcopy(trained)
        self.network.requires_grad_(False).eval()
        networks = self.network, trained
        # Puzzle tables are copied, not averaged: they are buffers in HRM's code.
        tables = [
            f"{name}.weight" for name, module in trained.named_modules() if isinstance(module, PuzzleTable)
        ]
        names = [name for name, _ in trained.named_parameters()]
        averaged = [name for name in names if name not in tables]
        # Batch norm's running statistics are averaged too: those of the current weights do not fit the
        # averaged weights.
        self._shadow, self._weights = (
            [*map(network.get_parameter, averaged), *batch_statistics(network)] for network in networks
        )
        self._copied = [
            [*map(network.get_parameter, tables), *_other_buffers(network)] for network in networks
        ]

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self._shadow, self._weights, 1 - self.decay)

    @torch.no_grad()
    def copy_buffers(self) -> None:
        """Copy the values that are not averaged, such as puzzle tables. Call it before an evaluation."""

        for shadow, buffer in zip(*self._copied, strict=True):
            shadow.copy_(buffer)
