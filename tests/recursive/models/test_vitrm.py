import pytest
import torch
from torch import nn

from recstudy.recursive import ViTRM
from recstudy.recursive.models.networks.vitrm import ViTRMNetwork

SHAPE = (1, 4, 4)  # four patches of 2x2


def tiny(**fields):
    torch.manual_seed(0)
    return ViTRMNetwork(
        ViTRM(
            **{"width": 8, "heads": 2, "layers": 2, "patch": 2, "latent_tokens": 3, "dropout": 0.0} | fields
        ),
        SHAPE,
        5,
    )


class Apply(nn.Module):
    """A block that does this to each token that is read, given all of them."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, tokens, read):
        return self.function(tokens)[:, read]


MEAN = Apply(lambda tokens: tokens.mean(1, keepdim=True).expand_as(tokens))
ADD_1, ADD_10 = Apply(lambda tokens: tokens + 1), Apply(lambda tokens: tokens + 10)


@pytest.mark.parametrize(
    ("fields", "blocks", "expected"),
    [
        # z: 0 -> (24 + 2 + 0)/8 = 3.25 -> (24 + 2 + 9.75)/8 = 4.46875;  y: (2 + 3 * 4.46875)/4 = 3.8515625
        ({"latent_steps": 2}, [MEAN], (3.8515625, 4.46875)),
        # with the image: y = (2 + 3 * 3.25 + 4 * 6)/8 = 4.46875 after one z-update
        ({"latent_steps": 1, "image_in_answer": True}, [MEAN], (4.46875, 3.25)),
        ({"latent_steps": 3, "blocks": 2}, [ADD_1, ADD_10], (12.0, 3.0)),
    ],
    ids=["one block", "image in the answer", "two blocks"],
)
def test_a_cycle_by_hand(fields, blocks, expected):
    """Equations (2)-(3): f = mean over the tokens of 4 x 6, 1 y and 3 z tokens, all constant; y = 2, z =
    0.
    """
    network = tiny(**fields)
    network.embed, network.f = nn.Identity(), nn.ModuleList(blocks)
    network.positions.data.zero_()
    x, *states = (torch.full((1, count, 8), value) for count, value in ((4, 6.0), (1, 2.0), (3, 0.0)))
    _, end_states = network(x, tuple(states))

    assert tuple(state.unique().item() for state in end_states) == expected


@pytest.mark.parametrize(("mode", "expected"), [(True, 2), (False, 5)])
def test_cycles_in_training_and_at_test_are_counted_apart(mode, expected):
    """T cycles of one z-update each, z + 1: `cycles` in training, `test_cycles` in evaluation."""
    network, images = tiny(latent_steps=1, cycles=2, test_cycles=5).train(mode), torch.zeros(1, *SHAPE)
    network.f = nn.ModuleList([ADD_1])
    start = network.start(images)

    _, end_states = network(images, start)

    for end, begin in zip(end_states, start, strict=True):
        torch.testing.assert_close(end, begin + expected)


def test_cycles_at_test_are_supervision_steps_at_test():
    """T of 3.5, so that the scores after 1 to T steps of one run are those of T, and no run is repeated for it."""
    images = torch.rand(2, *SHAPE)
    chained, stepwise = tiny(test_cycles=3).eval(), tiny(test_cycles=1).eval()
    stepwise.load_state_dict(chained.state_dict())
    carry = stepwise.start(images)

    for _ in range(3):
        output, carry = stepwise(images, carry)

    torch.testing.assert_close(chained(images, chained.start(images))[0].logits, output.logits)


def test_patches_are_projected_row_by_row_and_heads_read_the_first_state():
    """Equation (1) with the patch at the top right written out, and (4): logits and halting logit are affine
    in y.
    """
    network, image = tiny().eval(), torch.arange(16.0).view(1, 1, 4, 4)
    second = (
        network.embed.project.weight.view(8, 4) @ torch.tensor([2.0, 3.0, 6.0, 7.0])
        + network.embed.project.bias
    )
    output, (y, _) = network(image, network.start(image))

    torch.testing.assert_close(network.embed(image)[0, 1], second)
    torch.testing.assert_close(output.logits, y[:, 0] @ network.classify.weight.T + network.classify.bias)
    torch.testing.assert_close(output.halt, (y[:, 0] @ network.halt.weight.T + network.halt.bias)[:, 0])


@pytest.mark.parametrize("fields", [{"norm": "post"}, {"ffn": "gelu"}, {"blocks": 2}], ids=str)
def test_skipping_unread_tokens_changes_nothing(fields):
    network, images = tiny(**fields).eval(), torch.randn(3, *SHAPE)
    skipped, _ = network(images, network.start(images))
    for block in network.f:
        block.skip_unread = False

    torch.testing.assert_close(
        skipped.logits, network(images, network.start(images))[0].logits, rtol=1e-5, atol=1e-6
    )


def test_initial_values_have_the_published_spread():
    """Xavier-normal at d=384: 0.00895 for the positions and z, 0.051 for y (authors' code). Fixed ones are
    not trained.
    """
    torch.manual_seed(0)
    network = ViTRMNetwork(ViTRM(), (3, 32, 32), 10)

    for weight, spread in (
        (network.positions, 0.00895),
        (network.z_start, 0.00895),
        (network.y_start, 0.051),
    ):
        assert weight.std().item() == pytest.approx(spread, rel=0.02 if spread < 0.05 else 0.2)
    assert ["z_start" in dict(net.named_parameters()) for net in (network, tiny(latent_init="fixed"))] == [
        True,
        False,
    ]
