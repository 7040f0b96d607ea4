"""The tiny recursive model (TRM): one small network updates an answer y and a latent state z repeatedly.

    z <- f(z + y + x)     n times                                                  (1)
    y <- f(y + z)         once; (1)-(2) are one cycle, T of them a segment         (2)
    layer of f: s <- rms(s + Attn(s)),  s <- rms(s + SwiGLU(s)),  as in HRM        (3)
    single state:    y <- f(y + x)     n times, then y <- f(y)                     (4)
    multi-scale:     z_i <- f(z_1 + ... + z_n + y + x)   for i = 1 to n; then (2) with the sum of z's    (5)
    curriculum:      T and n are a third of their values, rounded up, in the first 30 % of the updates,  (6)
                     and two thirds up to 60 %

TRM-MLP has a SwiGLU over the tokens in place of attention (`sequence.py`). Only (1) reads the image x. In the
paper's gradient mode, the first T-1 cycles run without gradient. y and z start like HRM's states. With two
networks, (2) has a separate f.

(4) and (5) are the variants of Table 2 as in its authors' code: the last update of (4) does not read the
image. (6) is the depth curriculum of CGAR (arXiv:2511.08653). It applies only to training: at test, the
recursion has its full depth.

Shapes: B sequences, S tokens, D width.
"""

import torch
from torch import Tensor

from recstudy.recursive.models.networks.recursion import updating
from recstudy.recursive.models.networks.sequence import SequenceCore, make_layers
from recstudy.recursive.models.trm import TRM


class TRMCore(SequenceCore):
    """The recursion of TRM, Eqs. 1 to 6.

    y takes the place of HRM's z_H. z takes the place of z_L; several latents are concatenated.
    """

    def __init__(self, config: TRM, length: int) -> None:
        super().__init__()
        self.config = config
        self.f = make_layers(config, length, config.layers)
        self.f_answer = make_layers(config, length, config.layers) if config.networks == 2 else None
        self.trained_depth = config.cycles, config.latent_steps
        self.latents = {"single": 0, "answer and latent": 1, "multi-scale": config.latent_steps}[
            config.states
        ]
        self.initialise(config.width, self.latents * config.width)

    def forward(self, x_BSD: Tensor, y_BSD: Tensor, z_BSD: Tensor) -> tuple[Tensor, Tensor]:
        cycles, _ = self.depth
        zs = list(z_BSD.chunk(self.latents, dim=-1)) if self.latents > 1 else [z_BSD]
        for turn in range(cycles):
            y_BSD = self.cycle(x_BSD, y_BSD, zs, last=turn == cycles - 1)
        return y_BSD, torch.cat(zs, dim=-1) if self.latents > 1 else zs[0]

    @property
    def depth(self) -> tuple[int, int]:
        """T and n at present: those of the curriculum in training, the full ones at test."""
        return self.trained_depth if self.training else (self.config.cycles, self.config.latent_steps)

    def deepen(self, share: float) -> None:
        """Set T and n of training after this share of its updates, Eq. 6."""
        passed = 0.0
        for share_of_updates, stage in self.config.stages:
            passed += share_of_updates
            self.trained_depth = stage.cycles, stage.latent_steps
            if share < passed:
                return

    def cycle(self, x_BSD: Tensor, y_BSD: Tensor, zs: list[Tensor], last: bool) -> Tensor:
        """Return y after one cycle: Eqs. 1 (or 5) and 2, or Eq. 4. `zs` is updated in place."""
        (_, steps), mode = self.depth, self.config.gradient
        for step in range(steps):
            with updating(mode, last_cycle=last, last_step=step == steps - 1):
                if self.latents:
                    # Eq. 1, or Eq. 5 with several latents.
                    zs[step % self.latents] = self.f(total(zs) + y_BSD + x_BSD)
                else:
                    y_BSD = self.f(y_BSD + x_BSD)  # Eq. 4, n times
        with updating(mode, last_cycle=last, last_step=True):
            # Eq. 2: y reads the latents, and no image. Eq. 4: y reads itself only.
            return (self.f_answer or self.f)(y_BSD + total(zs) if self.latents else y_BSD)


def total(zs: list[Tensor]) -> Tensor:
    """Return the sum of the latents, added from left to right."""
    return sum(zs[1:], start=zs[0])
