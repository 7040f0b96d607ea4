"""What HRM and TRM read and answer: tokens, prefix, halves, heads, puzzle embeddings, and what is refused."""

import math

import pytest
import torch

from recstudy.config import RunConfig
from recstudy.data import Digits, PhantomXray
from recstudy.errors import ConfigError
from recstudy.models import HRM, TRM, HRMImage, Transformer
from recstudy.models.costs import cost
from recstudy.models.networks.hrm import HRMCore, HRMImageNetwork
from recstudy.models.networks.layers import SwiGLU
from recstudy.models.networks.sequence import SequenceNetwork
from recstudy.models.sequence import hidden_width
from recstudy.train.loop import detached

SHAPE = (1, 2, 2)
XRAY = PhantomXray(size=224)
WIDE = (1, 2, 4)  # halves of 2x2
SMALL = {"width": 8, "heads": 2, "low_layers": 1, "high_layers": 1}
CELLS = {"tokens": "cell", "width": 8, "heads": 2, "prefix": 1}


def tiny(shape=SHAPE, classes=10, **fields) -> SequenceNetwork:
    torch.manual_seed(0)
    config = HRM(**{"width": 8, "heads": 2, "low_layers": 1, "high_layers": 1, "vocabulary": 16} | fields)
    network = config.build(shape, classes)
    assert isinstance(network, SequenceNetwork)
    return network


def image(*rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float32)[None, None]


def test_pixels_are_tokens_by_their_grey_level_row_by_row():
    """16 levels of 256: 0, 15 -> 0; 16 -> 1; 255 -> 15. sqrt(8) E[level], after a prefix of zeros."""
    network = tiny()
    x = network.sequence(image((0, 16), (255, 15)), torch.zeros(1, dtype=torch.int64))

    assert torch.equal(x[0, 0, 0], torch.zeros(8))
    torch.testing.assert_close(x[0, 0, 1:], math.sqrt(8) * network.embed.weight[[0, 1, 15, 0]])


def test_learned_positions():
    """(3): (x + sqrt(D) P) / sqrt(2)."""
    network, plain = tiny(positions="learned"), tiny()
    plain.embed.weight.data = network.embed.weight.data
    images, groups = image((0, 16), (255, 15)), torch.zeros(1, dtype=torch.int64)

    expected = (plain.sequence(images, groups) + math.sqrt(8) * network.places) * 0.70710678
    torch.testing.assert_close(network.sequence(images, groups), expected)


def test_patches_are_projected():
    network = tiny(shape=WIDE, tokens="patch", patch=2)
    pixels = torch.arange(8.0).view(1, 1, 2, 4)
    x = network.sequence(pixels, torch.zeros(1, dtype=torch.int64))

    assert x.shape == (1, 1, 3, 8)
    torch.testing.assert_close(x[0, 0, 2], network.embed(torch.tensor([2.0, 3.0, 6.0, 7.0])))


def test_the_first_step_sees_the_left_half_and_the_others_the_right():
    network = tiny(shape=WIDE, halves="carry", half_steps=1)
    images = image((1, 2, 3, 4), (5, 6, 7, 8))

    assert network.seen(images, torch.tensor([0])).flatten().tolist() == [1, 2, 5, 6]
    assert network.seen(images, torch.tensor([1])).flatten().tolist() == [3, 4, 7, 8]
    assert network.seen(images, torch.tensor([9])).flatten().tolist() == [3, 4, 7, 8]


def two_steps(halves: str, images: torch.Tensor) -> torch.Tensor:
    network = tiny(shape=WIDE, halves=halves)
    _, carry = network(images, network.start(images))
    output, _ = network(images, detached(carry))
    return output.logits


def test_the_carry_crosses_the_halves_of_one_image():
    """The answer after the right half depends on the left half only where the states are carried over."""
    one, other = (image((left, left, 3, 4), (left, left, 7, 8)) for left in (0, 250))

    assert torch.equal(two_steps("no_carry", one), two_steps("no_carry", other))
    assert not torch.allclose(two_steps("carry", one), two_steps("carry", other))


def test_a_half_alone_is_a_whole_image():
    """Without carry, the second step is the first step of a network that reads the right half alone."""
    images = image((0, 30, 90, 200), (60, 120, 7, 255))
    whole = tiny(shape=(1, 2, 2))
    right = images[..., 2:]

    alone, _ = whole(right, whole.start(right))
    torch.testing.assert_close(two_steps("no_carry", images), alone.logits)


def test_halves_save_1_88_times_the_cost_and_not_four():
    """001-4, at 224x224 pixels: 116.8 TFLOP an image and segment in halves, 219.9 whole; 58.4 a half."""
    train = {"supervision_steps": 2, "evaluation_steps": 2}
    whole = cost(RunConfig(data=XRAY, model=HRM(head="multilabel"))).train_gflops
    halves = HRM(head="multilabel", halves="carry", half_loss="both")
    both = cost(RunConfig(data=XRAY, model=halves, train=train)).train_gflops

    assert (whole / 1e3, both / 1e3, whole / both) == (
        pytest.approx(219.9, abs=0.05), pytest.approx(116.8, abs=0.05), pytest.approx(1.88, abs=0.005),
    )  # fmt: skip


def test_an_answer_after_the_last_half_alone_saves_the_first_backward_pass():
    """Forward of one half is 35.04 TFLOP, with its backward pass 58.4: 93.4 together."""
    last = HRM(head="multilabel", halves="carry")
    spent = cost(RunConfig(data=XRAY, model=last, train={"supervision_steps": 2, "evaluation_steps": 2})).train_gflops

    assert spent / 1e3 == pytest.approx(93.4, abs=0.06)


def test_pathology_queries_ask_for_each_finding_in_turn():
    """With a table of its own rows, K passes over an image give K answers, each from its own pass."""
    network = tiny(classes=3, head="multilabel", puzzle_emb="pathology_query")
    images = image((0, 16), (255, 15))
    before, _ = network(images, network.start(images))
    network.puzzle.weight.data[1] = 5.0
    after, carry = network(images, network.start(images))

    assert before.logits.shape == (1, 3)
    assert (before.logits[0] == before.logits[0, 0]).all()  # rows of zeros: the passes do not differ yet
    assert torch.equal(after.logits[0, [0, 2]], before.logits[0, [0, 2]])
    assert after.logits[0, 1] != before.logits[0, 1]
    assert carry[0].shape == (1, 3, 5, 8)
    assert after.halt.shape == (1,)


def test_a_patient_has_a_row_and_an_unseen_one_is_nobody():
    network, plain = tiny(puzzle_emb="patient", identifiers=4), tiny()
    images = image((0, 16), (255, 15))
    network.puzzle.weight.data[2] = 5.0
    plain.load_state_dict({name: value for name, value in network.state_dict().items() if name != "puzzle.weight"})

    known, _ = network(images, network.start(images, torch.tensor([2])))
    unseen, _ = network(images, network.start(images, torch.tensor([3])))
    nobody, _ = plain(images, plain.start(images))

    assert torch.equal(unseen.logits, nobody.logits)
    assert not torch.equal(known.logits, nobody.logits)


def test_the_puzzle_table_is_counted_apart():
    """001-5: 27M leaves out the 18 x 512 rows of the findings."""
    assert HRM(head="multilabel", puzzle_emb="pathology_query").counts((1, 224, 224), 18)["puzzle"] == 9_216


HALVES = {"head": "multilabel", "halves": "carry"}
TWO_STEPS = {"supervision_steps": 2, "evaluation_steps": 2}


@pytest.mark.parametrize(
    ("model", "train", "message"),
    [
        (HRM(puzzle_emb="pathology_query"), {}, "leaks the label: the finding's id at the input is the answer"),
        (HRM(), {}, "model.head must be 'multilabel' for Phantom"),
        (HRM(head="multilabel", puzzle_emb="patient"), {}, "model.identifiers must be the number of patients"),
        (HRM(head="multilabel", identifiers=7), {}, "model.identifiers must be the number of patients"),
        (HRM(head="multilabel", width=24, heads=8), {}, r"a head's dimensions, must be even and not 0, but got 24 // 8 = 3"),
        (HRM(head="multilabel", tokens="patch", patch=5), {}, "model.patch must divide the 32x32 pixels"),
        (TRM(head="multilabel", tokens="patch", patch=32, halves="carry"), {}, "must divide the 32x16 pixels"),
        (HRM(**HALVES), {}, "must be above 1, the steps in which HRM has not seen the whole image"),
        (HRM(**HALVES, half_loss="both", half_steps=2), {"supervision_steps": 2, "evaluation_steps": 3},
         "must be above 2, the steps in which HRM has not seen the whole image, but got 2 and 3"),
        (HRM(**HALVES), TWO_STEPS | {"halting": "sample"}, "train.halting must be 'batch' for HRM without a loss on the left half"),
        (HRM(head="multilabel"), {"loss": "stablemax"}, "is for one label an image or token"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_does_not_fit_x_rays_is_refused_when_it_is_read(model, train, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(data=PhantomXray(size=32), model=model, train=train)


@pytest.mark.parametrize(
    ("fields", "train", "message"),
    [
        ({"head": "multilabel"}, {}, r"model\.head must be 'single_token' for Digits"),
        ({"vocabulary": 9}, {}, "a token for each of the 10 classes"),
        ({}, {"augment": {"mixup": 0.2}}, "mixup and cutmix must be 0 for HRM on pixel tokens"),
    ],
)
def test_what_does_not_fit_digits_is_refused(fields, train, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(data=Digits(), model=HRM(**SMALL, **fields), train=train)


def test_halting_by_sample_is_priced_by_the_step():
    """A batch is one step, whatever the samples' most steps are; HRM's target looks one step ahead, without gradient."""
    hrm = RunConfig(data=Digits(), model=HRM(**SMALL))
    by_sample = hrm.with_changes({"train.halting": "sample", "train.supervision_steps": 16, "train.evaluation_steps": 16})

    assert cost(by_sample).train_gflops == pytest.approx(cost(hrm).train_gflops + cost(hrm).gflops)


def test_patients_beyond_the_table_are_refused():
    with pytest.raises(ConfigError, match=r"model.identifiers must be at least 12, the patients of Phantom.*but got 4"):
        HRM(head="multilabel", puzzle_emb="patient", identifiers=4).check_groups(12, "Phantom chest X-rays")


def test_swiglu_width_is_rounded_up_to_256s():
    """ceil_256(round(4 x 512 x 2/3)) = ceil_256(1365) = 1536; 64 gives 171, so 256."""
    assert (hidden_width(512, 4), hidden_width(64, 4)) == (1536, 256)
    assert sum(weight.numel() for weight in SwiGLU(512, 1536, bias=False).parameters()) == 3 * 512 * 1536


def test_states_start_as_one_fixed_vector_at_every_position():
    network = tiny()
    images = torch.zeros(2, *SHAPE)
    z_high, z_low, steps, _ = network.start(images)

    assert z_high.shape == z_low.shape == (2, 1, 5, 8)
    assert torch.equal(z_high, network.core.z_high.expand(2, 1, 5, 8))
    assert steps.tolist() == [0, 0]
    assert not isinstance(network.core.z_high, torch.nn.Parameter)
    assert "core.z_high" in network.state_dict()


def test_initial_states_have_deviation_one_after_the_cut():
    torch.manual_seed(0)
    core = HRMCore(HRM(width=1024, heads=8, low_layers=1, high_layers=1), 2)

    assert core.z_high.std().item() == pytest.approx(1.0, abs=0.05)
    assert core.z_high.abs().max().item() <= 2 / 0.8796


def test_states_of_hrm_for_small_images_start_fixed_and_are_not_trained():
    torch.manual_seed(0)
    network = HRMImageNetwork(HRMImage(width=8, heads=2, patch=2), (1, 4, 4), 5)

    assert {"z_low", "z_high"} <= set(network.state_dict())
    assert {"z_low", "z_high"}.isdisjoint(dict(network.named_parameters()))
    assert network.z_low.abs().max() <= 2


@pytest.mark.parametrize("kind", [HRM, TRM, Transformer])
def test_a_random_start_is_drawn_for_each_puzzle_and_place_in_training_alone(kind):
    """Equation (9)."""
    torch.manual_seed(0)
    network, images = kind(start="random", **CELLS).build(SHAPE, 6), image((1, 2), (3, 4)).expand(2, -1, -1, -1)
    z_BQSD, *_ = network.start(images)
    fixed_BQSD, *_ = network.eval().start(images)

    assert len(z_BQSD.flatten(0, 2).unique(dim=0)) == 2 * 5  # five places, one of them the prefix
    assert abs(z_BQSD.std() - 1) < 0.2
    assert torch.equal(fixed_BQSD, network.core.z_high.expand(2, 1, 5, -1))


@pytest.mark.parametrize(("fields", "noisy"), [({}, 1), ({"states": "single"}, 0)])
def test_noise_is_added_to_the_last_state_there_is_before_a_segment_in_training_alone(fields, noisy):
    """Equation (10): the core is given that state and 0.5 times a Gaussian, drawn anew at each segment."""
    torch.manual_seed(0)
    network, given = TRM(noise=0.5, **CELLS, **fields).build(SHAPE, 6), []
    network.core.forward = lambda x, y, z: given.append((y, z)) or (y, z)
    images = image((1, 2), (3, 4)).expand(20, -1, -1, -1)
    carry = network.start(images)
    for mode in (True, True, False):
        network.train(mode)(images, carry)

    added = [(states[noisy] - carry[noisy].flatten(0, 1)) for states in given]
    assert [round(float(one.std()), 1) for one in added] == [0.5, 0.5, 0.0]
    assert not torch.equal(added[0], added[1])
    if noisy:
        assert torch.equal(given[0][0], carry[0].flatten(0, 1))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_segment_reads_the_answer_so_far_beside_the_input(sign):
    """Equation (11) where the head is sure of token 2 in every cell: x + sqrt(8) E[2] there, x in the prefix."""
    network, seen = TRM(feedback=sign, **CELLS).build(SHAPE, 6), []
    network.answer.weight.data.zero_()[2] = 1e4 * network.core.z_high.sign()
    network.core.forward = lambda x, y, z: seen.append(x) or (y, z)
    images = image((1, 2), (3, 4))
    network(images, network.start(images))

    x_SD = network.sequence(images, torch.zeros(1, dtype=torch.int64))[0, 0]
    torch.testing.assert_close(seen[0][0, 1:] - x_SD[1:], sign * math.sqrt(8) * network.embed.weight[[2, 2, 2, 2]])
    assert torch.equal(seen[0][0, 0], x_SD[0])


def test_feedback_is_refused_where_an_answer_is_no_input():
    with pytest.raises(ConfigError, match=r"model\.feedback must be 0 for Digits \(multiclass\): an answer is no input there"):
        RunConfig(data=Digits(), model=TRM(feedback=1.0))
