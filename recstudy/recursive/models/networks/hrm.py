"""The hierarchical reasoning model (HRM v1): a fast and a slow transformer.

    z_L <- f_L(z_L + z_H + x)     T times                                                     (1)
    z_H <- f_H(z_H + z_L)         once; (1)-(2) are one high cycle, N of them a segment       (2)
    layer: s <- rms(s + Attn(s)),  s <- rms(s + SwiGLU(s)),  rms(s) = s / sqrt(mean(s^2) + 1e-5)    (3)

The layers have no biases, the norms have no scales, and there is no final norm. z_H and z_L each start at one
truncated-normal vector, which is the same at every position, is initialised with the weights and is not
trained. In the paper's gradient mode, everything before the last L- and the last H-update of a segment runs
without gradient.

The form for small images is in `hrm_image.py`.

Shapes: B sequences, S tokens, D width.
"""

from torch import Tensor

from recstudy.recursive.models.hrm import HRM
from recstudy.recursive.models.networks.recursion import nested, schedule
from recstudy.recursive.models.networks.sequence import SequenceCore, make_layers


class HRMCore(SequenceCore):
    """The recursion of HRM, Eqs. 1 to 3."""

    def __init__(self, config: HRM, length: int) -> None:
        super().__init__()
        self.config = config
        self.f_high = make_layers(config, length, config.high_layers)
        self.f_low = make_layers(config, length, config.low_layers)
        self.turns = tuple(schedule([config.low_cycles, config.high_cycles]))
        self.initialise(config.width, config.width)

    def forward(self, x_BSD: Tensor, z_high_BSD: Tensor, z_low_BSD: Tensor) -> tuple[Tensor, Tensor]:
        updates, states = (self.f_low, self.f_high), (z_low_BSD, z_high_BSD)
        # Eqs. 1 and 2: two levels with `chain` are HRM.
        z_low_BSD, z_high_BSD = nested(updates, self.turns, x_BSD, states, "chain", self.config.gradient)
        return z_high_BSD, z_low_BSD
