"""A weight-tied MLP-Mixer: one block, applied repeatedly to its own answer.

    y <- y + tokens(norm(y + x))       one hidden layer over the L patches     (1)
    y <- y + channels(norm(y))         one over the D dimensions               (2)
(1)-(2) run `depth` times in a supervision step; y starts at 0.

Shapes: B images, L patches, D width, K classes.
"""

from torch import Tensor, nn

from recstudy.recursive.models.networks.contract import Carry, Network, Output


class MixerNetwork(Network):
    """Equations (1)-(2)."""

    def __init__(self, config, shape, classes):
        super().__init__()
        channels, height, width = shape
        self.config, self.patches = config, (height // config.patch) * (width // config.patch)
        self.embed = nn.Conv2d(channels, config.width, config.patch, config.patch)
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(3))
        self.tokens = mlp(self.patches, config.activation)
        self.channels = mlp(config.width, config.activation)
        self.head = nn.Linear(config.width, classes)

    def start(self, images: Tensor, context: Tensor | None = None) -> Carry:
        return (images.new_zeros(len(images), self.patches, self.config.width),)

    def forward(self, images: Tensor, carry: Carry) -> tuple[Output, Carry]:
        x_BLD, (y_BLD,) = self.embed(images).flatten(2).mT, carry
        for _ in range(self.config.depth):
            y_BLD = y_BLD + self.tokens(self.norms[0](y_BLD + x_BLD).mT).mT  # (1)
            y_BLD = y_BLD + self.channels(self.norms[1](y_BLD))  # (2)
        return Output(self.head(self.norms[2](y_BLD).mean(1))), (y_BLD,)


def mlp(width, activation):
    hidden = nn.GELU() if activation == "gelu" else nn.ReLU()
    return nn.Sequential(nn.Linear(width, 2 * width), hidden, nn.Linear(2 * width, width))
