import math

import pytest
import torch
from scipy.stats import binom

from recstudy.recursive import VQ, Aligner
from recstudy.recursive.models.fuselip import FuseLIP
from recstudy.recursive.models.networks.counting import FlopCounter
from recstudy.recursive.models.networks.fuselip import (
    IGNORED_TARGET,
    AlignerNetwork,
    FuseLIPNetwork,
    Injection,
    fuselip_loss,
    hide,
    image_only,
    masked_capacity,
    masked_loss,
    prefix_causal,
    siglip_loss,
)

# Text ids 0 to 9 with padding 0, BOS 1 and EOS 2, [MASK] 10, codes 0 to 5 as ids 11 to 16; two codes an
# image.
TINY = FuseLIP(width=8, heads=2, layers=2, text_vocabulary=10, bos=1, eos=2, codes=2, codebook=6, context=8)
CODES = torch.tensor([[0, 5], [3, 4]])
TEXTS = torch.tensor([[1, 5, 2, 0, 0], [1, 6, 7, 8, 2]])


def network(**fields):
    torch.manual_seed(0)
    net = FuseLIPNetwork(TINY.model_copy(update=fields))
    for weight in net.parameters():
        if weight.dim() == 2:
            torch.nn.init.normal_(weight, std=0.5)  # so that every token matters
    return net


def tiny_aligner():
    tokenizer = VQ(size=16, codes=2, codebook=6, width=16, layers=1, heads=2)
    return AlignerNetwork(Aligner(encoder=TINY, tokenizer=tokenizer), (3, 16, 16), 10)


def test_weights_are_drawn_as_published():
    """Width 256, 2 layers: token 0.02, position 0.01, attention 1/16, ends of branches 1/32, first MLP layer
    1/22.6.
    """
    torch.manual_seed(0)
    net = FuseLIPNetwork(TINY.model_copy(update={"width": 256, "heads": 4, "context": 180}))
    layer = net.layers[1]
    drawn_weights = [
        net.embed.weight,
        net.places,
        layer.qkv.weight,
        layer.out.weight,
        layer.ffn.up.weight,
        layer.ffn.down.weight,
    ]

    assert [weight.std().item() for weight in drawn_weights] == pytest.approx(
        [0.02, 0.01, 1 / 16, 1 / 32, 512**-0.5, 1 / 32], rel=0.03
    )
    assert (net.log_scale.exp().item(), net.bias.item()) == pytest.approx((10.0, -10.0))


def test_sequences_by_hand():
    """Ten tokens end at the eighth, which becomes EOT; a text that ends is left as it is, and so is what is
    given.
    """
    texts = torch.tensor([[*range(3, 13)], [1, 5, 2, 0, 0, 0, 0, 0, 0, 0]])
    original_texts = texts.clone()
    images, ids = tiny_aligner().sequences(CODES, texts)

    assert images.tolist() == image_only(TINY, CODES).tolist() == [[11, 16, 1, 2], [14, 15, 1, 2]]
    assert ids.tolist() == [[3, 4, 5, 6, 7, 8, 9, 2], [1, 5, 2, 0, 0, 0, 0, 0]]
    assert torch.equal(texts, original_texts)


def test_the_feature_is_the_normed_state_at_eot_of_length_1_whatever_the_padding():
    net = network()
    state = net.states(TEXTS, net.padding_mask(TEXTS))[0, 2]

    torch.testing.assert_close(net(TEXTS)[0], torch.nn.functional.normalize(net.norm(state), dim=-1))
    torch.testing.assert_close(net(torch.nn.functional.pad(TEXTS, (0, 3))), net(TEXTS))


@pytest.mark.parametrize(
    ("order", "expected_loss"), [((0,), 0.3132617), ((0, 1), 1.3132617)], ids=["pairs", "swapped pairs"]
)
def test_siglip_by_hand(order, expected_loss):
    """t = 2, b = -1 and two orthogonal pairs: logits 1 and -1, each -log sigmoid(1) = 0.313262, four of them
    over B = 2. Where each belongs to the other, logits are -1 where the label is 1 and 1 where it is -1: -log
    sigmoid(-1) = 1.313262."""
    sides = torch.eye(2), torch.eye(2) if len(order) == 1 else torch.eye(2).flip(0)

    assert siglip_loss(*sides, torch.tensor(2.0), torch.tensor(-1.0)).item() == pytest.approx(
        4 * expected_loss / 2
    )


def test_siglip_is_not_rounded_under_autocast():
    """Near -10 a bfloat16 has steps of 1/16, as large as what pairs differ by."""
    sides = torch.nn.functional.normalize(
        torch.randn(2, 64, 8, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    scale, bias = torch.tensor(10.0), torch.tensor(-10.0)
    exact = siglip_loss(*sides, scale, bias)

    with torch.autocast("cpu", torch.bfloat16):
        half = siglip_loss(*sides, scale, bias)

    assert torch.equal(half, exact)


def test_masking_hides_a_tenth_of_words_bos_and_codes():
    """A tenth of words, BOS and codes; never padding, EOT, [MASK] or, as published, code 0."""
    ids = torch.tensor([0, 2, 10, 11, 1, 7, 12, 16]).repeat(4000, 1)
    masked_ids, targets = hide(TINY, ids, torch.Generator().manual_seed(0))
    hidden = targets != IGNORED_TARGET

    assert not hidden[:, :4].any()
    assert hidden[:, 4:].float().mean(0).tolist() == pytest.approx([0.1] * 4, abs=0.02)
    assert torch.equal(masked_ids, ids.where(~hidden, 10))
    assert torch.equal(targets[hidden], ids[hidden])


def test_masked_loss_by_hand():
    """Even logits over 4 ids: ln 4, whatever is said of tokens that are shown; without a hidden token 0, and
    not NaN.
    """
    assert masked_loss(torch.zeros(3, 4), torch.tensor([0, 1, 3])).item() == pytest.approx(math.log(4))
    logits = torch.tensor([[0.0] * 4, [9.0, 0.0, 0.0, 0.0]])
    assert masked_loss(logits, torch.tensor([3, IGNORED_TARGET])).item() == pytest.approx(math.log(4))
    assert masked_loss(logits, torch.tensor([IGNORED_TARGET, IGNORED_TARGET])).item() == 0


@pytest.mark.parametrize("rate", [0.5, 0.0])
def test_one_masked_pass_feeds_both_losses_and_without_masking_the_contrast_alone(rate):
    net, draw, repeated_draw = (
        network(mask_rate=rate),
        torch.Generator().manual_seed(1),
        torch.Generator().manual_seed(1),
    )
    sides = image_only(TINY, CODES), TEXTS
    loss = fuselip_loss(net, *(hide(net.config, ids, draw) for ids in sides))
    features, masked = [], torch.tensor(0.0)
    for ids in sides:
        masked_ids, targets = hide(net.config, ids, repeated_draw)
        features.append(net(masked_ids))
        if rate:
            logits = net.mask_head(net.states(masked_ids, net.padding_mask(masked_ids)), net.embed.weight)
            masked = masked + torch.nn.functional.cross_entropy(
                logits.mT, targets, ignore_index=IGNORED_TARGET
            )

    assert (net.mask_head is None) == (rate == 0)
    contrastive = siglip_loss(*features, net.log_scale.exp(), net.bias)
    torch.testing.assert_close(loss, contrastive + 0.25 * masked)


@pytest.mark.parametrize(
    ("mode", "changed"), [("prefix_causal", [2, 3, 4]), ("image_only", []), ("leaky", [0, 1, 2, 3, 4])]
)
def test_a_token_changes_no_feature_before_it_and_the_leaky_mode_is_caught(mode, changed):
    injection = Injection(network(), mode)
    tokens, other_tokens = torch.tensor([[1, 5, 6, 7, 8]]), torch.tensor([[1, 5, 9, 7, 8]])
    features = injection.see(CODES[:1])

    difference = (injection(features, tokens) - injection(features, other_tokens)).abs().amax(-1)[0]

    assert (difference > 1e-6).nonzero().flatten().tolist() == changed
    assert prefix_causal(2, torch.zeros(1, 2)).int().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]


def test_the_image_vector_is_the_feature_of_the_image_alone():
    net = network()

    torch.testing.assert_close(Injection(net, "image_only").see(CODES), net(image_only(TINY, CODES)))


def test_there_is_room_for_every_hidden_token():
    """More would be hidden in less than one of 10^9 steps, for a margin of a quarter at 64 sequences of 130
    tokens.
    """
    for rate, tokens in ((0.001, 16), (0.1, 8_320), (0.9, 100_000)):
        assert binom.sf(masked_capacity(rate, tokens), tokens, rate) < 1e-9
    assert (masked_capacity(0.1, 8_320), masked_capacity(0.1, 16)) == (1_059, 16)  # 832 on average


def test_the_masked_tokens_of_a_training_step_are_counted():
    """Half of the 4 + 6 tokens of a pair are masked. For each token, 2 (8 x 8 + 8 x 17) FLOPs give its logits
    over 17 ids.
    """
    flops = []
    for rate in (0.5, 0.0):
        tokenizer = VQ(size=16, codes=2, codebook=6, width=16, layers=1, heads=2)
        encoder = TINY.model_copy(update={"mask_rate": rate})
        with torch.device("meta"):
            net = AlignerNetwork(Aligner(encoder=encoder, tokenizer=tokenizer), (3, 16, 16), 10).train()
            codes, tokens = torch.zeros(2, 2).long(), torch.zeros(2, 6).long()
        with FlopCounter() as counter:
            net(codes, net.start(codes, tokens))
        flops.append(counter.flops)

    assert flops[0] - flops[1] == 2 * 5 * 2 * (8 * 8 + 8 * 17)
