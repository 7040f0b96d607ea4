import pytest
import torch
from torch import nn

from recstudy.models import ViTRM
from recstudy.models.networks.vitrm import ViTRMNetwork

SHAPE = (1, 4, 4)  # four patches of 2x2


def tiny(**fields) -> ViTRMNetwork:
    torch.manual_seed(0)
    return ViTRMNetwork(
        ViTRM(**{"width": 8, "heads": 2, "layers": 2, "patch": 2, "latent_tokens": 3, "dropout": 0.0} | fields), SHAPE, 5
    )


class Mean(nn.Module):
    """A block a reader can compute: every token becomes the mean of all tokens."""

    def forward(self, tokens, read):
        return tokens.mean(1, keepdim=True).expand_as(tokens)[:, read]


def scalar_states(network, x, y, z):
    """Constant tokens, so that one number stands for a whole state."""
    return (torch.full((1, count, 8), float(value)) for count, value in ((4, x), (1, y), (network.config.latent_tokens, z)))


def test_cycle_refines_z_n_times_then_y_once():
    """Equations (2)-(3) by hand, f = mean over the tokens, 4 x 6, 1 y and 3 z tokens.

    z: 0 -> (24 + 2 + 0)/8 = 3.25 -> (24 + 2 + 9.75)/8 = 4.46875;  y: (2 + 3 * 4.46875)/4 = 3.8515625.
    """
    network = tiny(latent_steps=2)
    network.f = nn.ModuleList([Mean()])

    y, z = network.cycle(*scalar_states(network, 6, 2, 0), last=True)

    assert z[0, :, 0].tolist() == [4.46875] * 3
    assert y[0, 0, 0].item() == 3.8515625


def test_the_image_enters_the_y_update_only_where_asked():
    """As above with the image: y = (2 + 3 * 3.25 + 4 * 6)/8 = 4.46875 after one z-update."""
    network = tiny(latent_steps=1, image_in_answer=True)
    network.f = nn.ModuleList([Mean()])

    y, _ = network.cycle(*scalar_states(network, 6, 2, 0), last=True)

    assert y[0, 0, 0].item() == 4.46875


def test_two_blocks_serve_z_and_y_apart():
    class Add(nn.Module):
        def __init__(self, amount):
            super().__init__()
            self.amount = amount

        def forward(self, tokens, read):
            return tokens[:, read] + self.amount

    network = tiny(latent_steps=3, blocks=2)
    network.f = nn.ModuleList([Add(1.0), Add(10.0)])

    y, z = network.cycle(*scalar_states(network, 6, 2, 0), last=True)

    assert (z[0, 0, 0].item(), y[0, 0, 0].item()) == (3.0, 12.0)


def test_cycles_in_training_and_at_test_are_counted_apart():
    """T cycles of one z-update each, z + 1: `cycles` in training, `test_cycles` in evaluation."""

    class Count(nn.Module):
        def forward(self, tokens, read):
            return tokens[:, read] + 1

    network = tiny(latent_steps=1, cycles=2, test_cycles=5)
    network.f = nn.ModuleList([Count()])
    images = torch.zeros(1, *SHAPE)
    start = network.start(images)

    for mode, expected in ((True, 2), (False, 5)):
        _, (y, z) = network.train(mode)(images, start)
        torch.testing.assert_close(y, start[0] + expected)
        torch.testing.assert_close(z, start[1] + expected)


def test_heads_read_the_first_state():
    """Equation (4): logits and halting logit are affine in y."""
    network = tiny().eval()
    images = torch.randn(2, *SHAPE)

    output, (y, _) = network(images, network.start(images))

    torch.testing.assert_close(output.logits, y[:, 0] @ network.classify.weight.T + network.classify.bias)
    torch.testing.assert_close(output.halt, (y[:, 0] @ network.halt.weight.T + network.halt.bias)[:, 0])


def test_patches_are_projected_row_by_row_and_get_positions():
    """Equation (1) with one patch written out."""
    network = tiny()
    image = torch.arange(16.0).view(1, 1, 4, 4)
    second = torch.tensor([2.0, 3.0, 6.0, 7.0])  # top right 2x2

    x = network.embed(image)[0, 1]

    torch.testing.assert_close(x, network.embed.project.weight.view(8, 4) @ second + network.embed.project.bias)


@pytest.mark.parametrize("field", ["norm", "ffn", "blocks"])
def test_skipping_unread_tokens_changes_nothing(field):
    value = {"norm": "post", "ffn": "gelu", "blocks": 2}[field]
    network = tiny(**{field: value}).eval()
    images = torch.randn(3, *SHAPE)
    start = network.start(images)
    skipped, _ = network(images, start)

    for block in network.f:
        block.skip_unread = False
    whole, _ = network(images, start)

    torch.testing.assert_close(skipped.logits, whole.logits, rtol=1e-5, atol=1e-6)


def test_full_gradient_reaches_the_initial_states_and_fixed_ones_are_not_trained():
    network, images = tiny(), torch.randn(2, *SHAPE)
    output, _ = network(images, network.start(images))
    (output.logits.square().sum() + output.halt.sum()).backward()
    assert network.z_start.grad.any()

    fixed = tiny(latent_init="fixed")
    assert "z_start" not in dict(fixed.named_parameters())
    assert "z_start" in fixed.state_dict()


def test_initial_values_have_the_published_spread():
    """Xavier-normal at d=384: 0.00895 for the positions and z, 0.051 for y (authors' code)."""
    torch.manual_seed(0)
    network = ViTRMNetwork(ViTRM(), (3, 32, 32), 10)

    assert network.positions.std().item() == pytest.approx(0.00895, rel=0.02)
    assert network.z_start.std().item() == pytest.approx(0.00895, rel=0.02)
    assert network.y_start.std().item() == pytest.approx(0.051, rel=0.2)
    assert not network.classify.bias.any()
