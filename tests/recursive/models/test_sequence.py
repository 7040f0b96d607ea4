"""What HRM and TRM read and answer: tokens, prefix, halves, heads, puzzle embeddings, and what is refused."""

import math

import pytest
import torch

from recstudy.base.errors import ConfigError
from recstudy.recursive import HRM, TRM, PhantomXray, RunConfig, Transformer
from recstudy.recursive.models.costs import cost
from recstudy.recursive.models.sequence import hidden_width
from recstudy.recursive.train.loop import detached

SHAPE = (1, 2, 2)
WIDE = (1, 2, 4)  # halves of 2x2
SMALL = {"width": 8, "heads": 2, "low_layers": 1, "high_layers": 1}
CELLS = {"tokens": "cell", "width": 8, "heads": 2, "prefix": 1}


def tiny(shape=SHAPE, classes=10, **fields):
    torch.manual_seed(0)
    return HRM(**SMALL | {"vocabulary": 16} | fields).build(shape, classes)


def image(*rows):
    return torch.tensor(rows, dtype=torch.float32)[None, None]


def test_pixels_are_tokens_by_their_grey_level_row_by_row():
    """16 levels of 256: 0, 15 -> 0; 16 -> 1; 255 -> 15. x = sqrt(8) E[level], after a prefix of zeros.
    Patches are projected.
    """
    network, patches = tiny(), tiny(shape=WIDE, tokens="patch", patch=2)
    x = torch.cat([torch.zeros(1, 8), math.sqrt(8) * network.embed.weight[[0, 1, 15, 0]]])
    nobody = torch.zeros(1, dtype=torch.int64)

    torch.testing.assert_close(network.sequence(image((0, 16), (255, 15)), nobody)[0, 0], x)
    second = patches.sequence(torch.arange(8.0).view(1, 1, 2, 4), nobody)[0, 0, 2]
    torch.testing.assert_close(second, patches.embed(torch.tensor([2.0, 3.0, 6.0, 7.0])))


@pytest.mark.parametrize(("halves", "equals_right_half"), [("no_carry", True), ("carry", False)])
def test_the_carry_crosses_the_halves_of_one_image(halves, equals_right_half):
    """Without carry, the second step is the first step of a network that reads the right half alone."""
    images = image((0, 30, 90, 200), (60, 120, 7, 255))
    network, half_network, right = tiny(shape=WIDE, halves=halves), tiny(shape=(1, 2, 2)), images[..., 2:]
    _, carry = network(images, network.start(images))
    logits = network(images, detached(carry))[0].logits

    assert (
        torch.allclose(logits, half_network(right, half_network.start(right))[0].logits) == equals_right_half
    )


@pytest.mark.parametrize(
    ("fields", "tflops"),
    [({}, 219.9), ({"halves": "carry", "half_loss": "both"}, 116.8), ({"halves": "carry"}, 93.4)],
)
def test_halves_save_1_88_times_the_cost_and_not_four(fields, tflops):
    """001-4, at 224x224 pixels, an image and segment: 219.9 TFLOP whole, 116.8 in halves; an answer after the
    last half alone saves the first backward pass: forward of one half is 35.04, with its backward pass 58.4,
    93.4 together."""
    train = {"supervision_steps": 2, "evaluation_steps": 2} if fields else {}
    config = RunConfig(data=PhantomXray(size=224), model=HRM(head="multilabel", **fields), train=train)

    assert cost(config).train_gflops / 1e3 == pytest.approx(tflops, abs=0.06)


def test_pathology_queries_ask_for_each_finding_in_turn():
    """With a table of its own rows, K passes over an image give K answers, each from its own pass. The table
    of 18 x 512 is counted apart (001-5)."""
    network, images = (
        tiny(classes=3, head="multilabel", puzzle_emb="pathology_query"),
        image((0, 16), (255, 15)),
    )
    output_before, _ = network(images, network.start(images))
    network.puzzle.weight.data[1] = 5.0
    output_after, carry = network(images, network.start(images))

    assert (
        output_before.logits[0] == output_before.logits[0, 0]
    ).all()  # rows of zeros: the passes do not differ yet
    assert (output_after.logits[0] == output_before.logits[0]).tolist() == [True, False, True]
    assert (carry[0].shape, output_after.halt.shape) == ((1, 3, 5, 8), (1,))


@pytest.mark.parametrize("kind", [HRM, TRM, Transformer])
def test_chunks_have_the_answers_and_the_gradient_of_all_sequences_at_once(kind):
    """2 images with 5 passes each: chunks of 4, 4 and 2 sequences. The second step starts from a carry."""
    images = torch.randint(256, (2, 1, 2, 2), generator=torch.manual_seed(0)).double()
    numbers = []
    for chunk in (0, 4):
        torch.manual_seed(0)
        config = kind(
            width=8, heads=2, vocabulary=16, head="multilabel", puzzle_emb="pathology_query", chunk=chunk
        )
        network = config.build(SHAPE, 5).double().train()
        for weight in (network.puzzle.weight, network.q_head.weight):
            torch.nn.init.normal_(weight)
        _, carry = network(images, network.start(images))
        output, carry = network(images, detached(carry))
        (output.logits.sin().sum() + output.halt.sum()).backward()
        gradients = [weight.grad.to_dense() for weight in network.parameters() if weight.grad is not None]
        numbers.append([output.logits, output.halt, *carry, *gradients])

    for whole, chunked in zip(*numbers, strict=True):
        torch.testing.assert_close(chunked, whole, rtol=1e-9, atol=1e-9)


def test_a_patient_has_a_row_and_an_unseen_one_is_nobody():
    network, plain_network, images = (
        tiny(puzzle_emb="patient", identifiers=4),
        tiny(),
        image((0, 16), (255, 15)),
    )
    network.puzzle.weight.data[2] = 5.0
    plain_network.load_state_dict(
        {name: value for name, value in network.state_dict().items() if name != "puzzle.weight"}
    )
    known_logits, unseen = (
        network(images, network.start(images, torch.tensor([row])))[0].logits for row in (2, 3)
    )
    nobody = plain_network(images, plain_network.start(images))[0].logits

    assert torch.equal(unseen, nobody)
    assert not torch.equal(known_logits, nobody)
    with pytest.raises(
        ConfigError,
        match=r"model.identifiers must be at least 12, the number of patients of Phantom.*but got 4",
    ):
        HRM(head="multilabel", puzzle_emb="patient", identifiers=4).check_groups(12, "Phantom chest X-rays")


def test_swiglu_width_is_rounded_up_to_256s():
    """ceil_256(round(4 x 512 x 2/3)) = ceil_256(1365) = 1536; 64 gives 171, so 256."""
    assert (hidden_width(512, 4), hidden_width(64, 4)) == (1536, 256)


def test_states_start_fixed_at_every_position_and_are_not_trained():
    """Truncated at 2 deviations, of which one is left after the cut."""
    network = tiny(width=1024, heads=8)
    z_high, *_ = network.start(torch.zeros(2, *SHAPE))

    assert torch.equal(z_high, network.core.z_high.expand(2, 1, 5, 1024))
    assert {"core.z_low", "core.z_high"} <= {*network.state_dict()} - {
        name for name, _ in network.named_parameters()
    }
    assert z_high.std().item() == pytest.approx(1.0, abs=0.05)
    assert z_high.abs().max().item() <= 2 / 0.8796


@pytest.mark.parametrize("kind", [HRM, TRM, Transformer])
def test_a_random_start_is_drawn_for_each_puzzle_and_place_in_training_alone(kind):
    """Equation (9)."""
    torch.manual_seed(0)
    network, images = (
        kind(start="random", **CELLS).build(SHAPE, 6),
        image((1, 2), (3, 4)).expand(2, -1, -1, -1),
    )
    z_BQSD, *_ = network.start(images)
    fixed_BQSD, *_ = network.eval().start(images)

    assert len(z_BQSD.flatten(0, 2).unique(dim=0)) == 2 * 5  # five places, one of them the prefix
    assert abs(z_BQSD.std() - 1) < 0.2
    assert torch.equal(fixed_BQSD, network.core.z_high.expand(2, 1, 5, -1))


@pytest.mark.parametrize(("fields", "noisy"), [({}, 1), ({"states": "single"}, 0)])
def test_noise_is_added_to_the_last_state_there_is_before_a_segment_in_training_alone(fields, noisy):
    """Equation (10): the core is given that state and 0.5 times a Gaussian, drawn anew at each segment."""
    torch.manual_seed(0)
    network, states = TRM(noise=0.5, **CELLS, **fields).build(SHAPE, 6), []
    network.core.forward = lambda x, y, z: states.append((y, z)) or (y, z)
    images = image((1, 2), (3, 4)).expand(20, -1, -1, -1)
    carry = network.start(images)
    for mode in (True, True, False):
        network.train(mode)(images, carry)
    added = [(states[noisy] - carry[noisy].flatten(0, 1)) for states in states]

    assert [round(float(noise.std()), 1) for noise in added] == [0.5, 0.5, 0.0]
    assert not torch.equal(added[0], added[1])
    assert noisy == 0 or torch.equal(states[0][0], carry[0].flatten(0, 1))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_segment_reads_the_answer_so_far_beside_the_input(sign):
    """Equation (11) where the head is sure of token 2 in every cell: x + sqrt(8) E[2] there, x in the
    prefix.
    """
    network, inputs = TRM(feedback=sign, **CELLS).build(SHAPE, 6), []
    network.answer.weight.data.zero_()[2] = 1e4 * network.core.z_high.sign()
    network.core.forward = lambda x, y, z: inputs.append(x) or (y, z)
    images = image((1, 2), (3, 4))
    network(images, network.start(images))

    x_SD = network.sequence(images, torch.zeros(1, dtype=torch.int64))[0, 0]
    torch.testing.assert_close(
        inputs[0][0, 1:] - x_SD[1:], sign * math.sqrt(8) * network.embed.weight[[2, 2, 2, 2]]
    )
    assert torch.equal(inputs[0][0, 0], x_SD[0])
