"""ImageHRM and ImageTRM: what goes in and out of their recursions, which `test_recursion.py` looks at."""

import pytest
import torch
from torch import nn

from recstudy.recursive import ImageHRM, ImageTRM
from recstudy.recursive.models.networks.image_hrm import RecursiveCaptioner

TOKENS = torch.tensor([[1, 4, 5, 6], [1, 7, 4, 2]])
FEATURES = 256  # of the small backbone


def tiny(kind=ImageHRM, **fields):
    torch.manual_seed(0)
    network = kind(**{"width": 8, "heads": 2, "backbone": "small", "weights": "random"} | fields).build(
        (3, 64, 64), 9
    )
    assert isinstance(network, RecursiveCaptioner)
    return network


class Halve(nn.Module):
    def forward(self, s, past=None):
        return s / 2


def test_cycle_refines_z_steps_times_then_y_once():
    """f(s) = s/2, n = 3, T = 1, x = 4, y = 2, z = 0: z goes 3, 4.5, 5.25 and y ends at (2 + 5.25)/2."""
    core = tiny(ImageTRM, cycles=1, latent_steps=3).core
    core.f = Halve()

    z, y = core(torch.tensor(4.0), (torch.tensor(0.0), torch.tensor(2.0)))

    assert (z.item(), y.item()) == (5.25, 3.625)


@pytest.mark.parametrize(("read", "expected"), [("mean", [4.0, 4.0]), ("last", [6.0, 9.0])])
def test_halting_reads_the_tokens_that_are_there(read, expected):
    """z is 2 and 6 at the two tokens of one caption, 1, 2 and 9 at those of the other; the first one's last
    is PAD: not read.
    """
    network = tiny(halt_read=read)
    torch.nn.init.constant_(network.q_head.weight, 1 / 8)
    z = torch.tensor([[2.0, 6.0, 9.0], [1.0, 2.0, 9.0]])[..., None].expand(2, 3, 8)

    torch.testing.assert_close(
        network.read(z, torch.tensor([[1, 5, 0], [1, 5, 6]])).halt + 5, torch.tensor(expected)
    )


@pytest.mark.parametrize(("kind", "proceed"), [(ImageHRM, [-5.0, -5.0]), (ImageTRM, None)])
def test_nothing_halts_at_the_start(kind, proceed):
    """HRM also values going on, TRM does not."""
    network, images = tiny(kind), torch.randn(2, FEATURES)
    output, _ = network(images, network.start(images, TOKENS))

    assert output.halt.tolist() == [-5.0, -5.0]
    assert (output.proceed if output.proceed is None else output.proceed.tolist()) == proceed


def test_the_image_enters_at_every_token():
    """x_t = sqrt(D) E[token t] + W_v V, by hand; with `image_norm` the image has an RMS of 1."""
    network, images = tiny(), 7 * torch.randn(2, FEATURES)
    x = network.inputs(network.eyes(images), TOKENS)

    torch.testing.assert_close(
        x, 8**0.5 * network.embed.weight[TOKENS] + (images @ network.eyes.project.weight.T)[:, None]
    )
    torch.testing.assert_close(tiny(image_norm=True).eyes(images).square().mean(-1), torch.ones(2))
