import math

import pytest
import torch
from scipy.stats import binom

from recstudy.errors import ConfigError
from recstudy.models import VQ, Aligner
from recstudy.models.fuselip import FuseLIP
from recstudy.models.networks.fuselip import (
    SHOWN,
    AlignerNetwork,
    FuseLIPNetwork,
    Hidden,
    Injection,
    Mode,
    fuselip_loss,
    hide,
    image_ids,
    image_only,
    masked_loss,
    prefix_causal,
    room,
    siglip_loss,
)
from recstudy.models.networks.layers import Past

# Text ids 0 to 9 with padding 0, BOS 1 and EOS 2, [MASK] 10, codes 0 to 5 as ids 11 to 16; two codes an image.
TINY = FuseLIP(width=8, heads=2, layers=2, text_vocabulary=10, bos=1, eos=2, codes=2, codebook=6, context=8)
CODES = torch.tensor([[0, 5], [3, 4]])
TEXTS = torch.tensor([[1, 5, 2, 0, 0], [1, 6, 7, 8, 2]])


def network(**fields) -> FuseLIPNetwork:
    torch.manual_seed(0)
    net = FuseLIPNetwork(TINY.model_copy(update=fields))
    for weight in net.parameters():
        if weight.dim() == 2:
            torch.nn.init.normal_(weight, std=0.5)  # so that every token matters
    return net


def both(codes: torch.Tensor) -> torch.Tensor:
    """Sequences of image and text, by equation (1)."""
    return torch.cat([image_ids(TINY, codes), TEXTS], dim=1)


def tiny_aligner() -> AlignerNetwork:
    return AlignerNetwork(Aligner(encoder=TINY, tokenizer=VQ(size=16, codes=2, codebook=6, width=16, layers=1, heads=2)))


def test_weights_are_drawn_as_published():
    """Width 256, 2 layers: token 0.02, position 0.01, attention 1/16, ends of branches 1/32, first MLP layer 1/22.6."""
    torch.manual_seed(0)
    net = FuseLIPNetwork(TINY.model_copy(update={"width": 256, "heads": 4, "context": 180}))
    layer = net.layers[1]
    drawn = [net.embed.weight, net.places, layer.qkv.weight, layer.out.weight, layer.ffn.up.weight, layer.ffn.down.weight]

    assert [weight.std().item() for weight in drawn] == pytest.approx([0.02, 0.01, 1 / 16, 1 / 32, 512**-0.5, 1 / 32], rel=0.03)
    assert (net.log_scale.exp().item(), net.bias.item()) == pytest.approx((10.0, -10.0))


def test_sequences_by_hand():
    assert image_only(TINY, CODES).tolist() == [[11, 16, 1, 2], [14, 15, 1, 2]]
    assert image_ids(TINY, CODES).tolist() == [[11, 16], [14, 15]]


def test_a_text_is_cut_to_the_context():
    """Ten tokens end at the eighth, which becomes EOT; a text that ends is left as it is, and so is what is given."""
    texts = torch.tensor([[*range(3, 13)], [1, 5, 2, 0, 0, 0, 0, 0, 0, 0]])
    given = texts.clone()
    images, ids = tiny_aligner().sequences(CODES, texts)

    assert images.tolist() == image_only(TINY, CODES).tolist()
    assert ids.tolist() == [[3, 4, 5, 6, 7, 8, 9, 2], [1, 5, 2, 0, 0, 0, 0, 0]]
    assert torch.equal(texts, given)


def test_features_have_length_1_and_do_not_depend_on_padding():
    net = network()
    padded = torch.nn.functional.pad(TEXTS, (0, 3))
    features = net(TEXTS)

    assert features.norm(dim=1).tolist() == pytest.approx([1.0, 1.0])
    torch.testing.assert_close(net(padded), features)
    torch.testing.assert_close(net(TEXTS[:1, :3]), features[:1])


def test_the_feature_is_the_normed_state_at_eot():
    net = network()
    state = net.states(TEXTS, net.seen(TEXTS))[0, 2]

    torch.testing.assert_close(net(TEXTS)[0], torch.nn.functional.normalize(net.norm(state), dim=-1))


def test_every_token_and_its_place_matter():
    net = network()
    whole = both(CODES)
    moved = whole.clone()
    moved[1, 3], moved[1, 4] = whole[1, 4], whole[1, 3]

    for other in (both(CODES.flip(1)), moved, TEXTS):
        assert (net(other)[1] - net(whole)[1]).abs().max() > 1e-3


def test_siglip_by_hand():
    """t = 2, b = -1 and two orthogonal pairs: logits 1 and -1, each -log sigmoid(1) = 0.313262, four of them over B = 2."""
    loss = siglip_loss(torch.eye(2), torch.eye(2), torch.tensor(2.0), torch.tensor(-1.0))

    assert loss.item() == pytest.approx(4 * 0.3132617 / 2)


def test_siglip_of_two_swapped_pairs_by_hand():
    """Now each belongs to the other: logits -1 where the label is 1 and 1 where it is -1: -log sigmoid(-1) = 1.313262."""
    loss = siglip_loss(torch.eye(2), torch.eye(2).flip(0), torch.tensor(2.0), torch.tensor(-1.0))

    assert loss.item() == pytest.approx(4 * 1.3132617 / 2)


def test_siglip_is_not_rounded_under_autocast():
    """Near -10 a bfloat16 has steps of 1/16, as large as what pairs differ by."""
    sides = torch.nn.functional.normalize(torch.randn(2, 64, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    scale, bias = torch.tensor(10.0), torch.tensor(-10.0)
    exact = siglip_loss(*sides, scale, bias)

    with torch.autocast("cpu", torch.bfloat16):
        half = siglip_loss(*sides, scale, bias)

    assert torch.equal(half, exact)


def test_hidden_tokens():
    """A tenth of words, BOS and codes; never padding, EOT, [MASK] or, as published, code 0."""
    ids = torch.tensor([0, 2, 10, 11, 1, 7, 12, 16]).repeat(4000, 1)
    shown, targets = hide(TINY, ids, torch.Generator().manual_seed(0))
    hidden = targets != SHOWN

    assert not hidden[:, :4].any()
    assert hidden[:, 4:].float().mean(0).tolist() == pytest.approx([0.1] * 4, abs=0.02)
    assert torch.equal(shown, ids.where(~hidden, 10))
    assert torch.equal(targets[hidden], ids[hidden])


def test_masked_loss_by_hand():
    """Even logits over 4 ids: ln 4, whatever is said of tokens that are shown; without a hidden token 0, and not NaN."""
    assert masked_loss(torch.zeros(3, 4), torch.tensor([0, 1, 3])).item() == pytest.approx(math.log(4))
    logits = torch.tensor([[0.0] * 4, [9.0, 0.0, 0.0, 0.0]])
    assert masked_loss(logits, torch.tensor([3, SHOWN])).item() == pytest.approx(math.log(4))
    assert masked_loss(logits, torch.tensor([SHOWN, SHOWN])).item() == 0


def hidden(net: FuseLIPNetwork, *sides: torch.Tensor, seed: int) -> list[Hidden]:
    draw = torch.Generator().manual_seed(seed)
    return [hide(net.config, ids, draw) for ids in sides]


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.9])
def test_there_is_room_for_every_hidden_token(rate):
    """More would be hidden in less than one of 10^9 steps, for a margin of a quarter at 64 sequences of 130 tokens."""
    for tokens in (16, 200, 8_320, 100_000):
        assert binom.sf(room(rate, tokens), tokens, rate) < 1e-9
    assert room(0.1, 8_320) == 1_059  # 832 on average
    assert room(0.1, 16) == 16


def test_an_aligner_is_compiled_once():
    """However many tokens are hidden: two graphs, before and after they are drawn, for all steps."""
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    step = torch.compile(tiny_aligner().train(), backend=backend, dynamic=False)
    codes, texts = CODES.repeat(8, 1), TEXTS.repeat(8, 1)
    torch.manual_seed(0)
    losses = {step(codes, (texts,))[0].loss[0].item() for _ in range(10)}

    assert len(graphs) == 2
    assert len(losses) == 10


def test_one_masked_pass_feeds_both_losses():
    net = network(mask_rate=0.5)
    sides = image_only(TINY, CODES), TEXTS
    losses = fuselip_loss(net, *hidden(net, *sides, seed=1))
    draw = torch.Generator().manual_seed(1)
    features, masked = [], 0.0
    for ids in sides:
        shown, targets = hide(net.config, ids, draw)
        states = net.states(shown, net.seen(shown))
        features.append(net(shown))
        logits = net.mask_head(states, net.embed.weight)
        masked += torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=SHOWN)

    torch.testing.assert_close(losses.contrastive, siglip_loss(*features, net.log_scale.exp(), net.bias))
    torch.testing.assert_close(losses.masked, masked)
    torch.testing.assert_close(losses.total, losses.contrastive + 0.25 * masked)


def test_without_masking_only_the_contrast_is_left():
    net = network(mask_rate=0.0)
    sides = image_only(TINY, CODES), TEXTS
    losses = fuselip_loss(net, *hidden(net, *sides, seed=1))

    assert net.mask_head is None
    assert losses.masked.item() == 0
    torch.testing.assert_close(losses.total, siglip_loss(*map(net, sides), net.log_scale.exp(), net.bias))


def test_every_weight_learns():
    net = network(mask_rate=0.5)
    fuselip_loss(net, *hidden(net, both(CODES), TEXTS, seed=0)).total.backward()

    assert [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()] == []


def test_pairs_that_are_trained_on_come_together():
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    sides = image_only(TINY, CODES), TEXTS
    for step in range(60):
        optimizer.zero_grad()
        fuselip_loss(net, *hidden(net, *sides, seed=step)).total.backward()
        optimizer.step()
    cosines = net(sides[0]) @ net(sides[1]).T

    assert cosines.diag().min() > cosines.fill_diagonal_(-1).max() + 0.3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 9}, "width must be a multiple of heads, but got 9 and 2"),
        ({"eos": 10}, "pad, bos and eos must be below text_vocabulary 10"),
        ({"context": 4, "codes": 3}, "context must hold 3 codes of an image and two tokens, but got 4"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        FuseLIP(**TINY.model_dump() | fields)


def test_who_sees_whom_by_hand():
    """Two codes that see each other, two tokens that see the codes, themselves and those before."""
    seen = prefix_causal(2, torch.zeros(1, 2))

    assert seen.int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def earliest_change(mode: Mode, token: int) -> int:
    """The first token whose feature changes with token `token`; 5 where none does."""
    injection = Injection(network(), mode)
    tokens = torch.tensor([[1, 5, 6, 7, 8]])
    other = tokens.clone()
    other[0, token] = 9
    seen = injection.see(CODES[:1])
    changed = (injection(seen, tokens) - injection(seen, other)).abs().amax(-1)[0] > 1e-6
    return changed.int().argmax().item() if changed.any() else 5


@pytest.mark.parametrize("token", range(1, 5))
def test_a_token_changes_no_feature_before_it_and_the_leaky_mode_is_caught(token):
    assert earliest_change("prefix_causal", token) == token
    assert earliest_change("image_only", token) == 5
    assert earliest_change("leaky", token) == 0


@pytest.mark.parametrize("mode", ["prefix_causal", "image_only", "leaky"])
def test_every_code_changes_every_feature(mode):
    injection = Injection(network(), mode)
    tokens = torch.tensor([[1, 5, 6]])
    features = injection(injection.see(torch.tensor([[0, 5]])), tokens)

    assert features.shape == (1, 3, 8)
    for other in ([[1, 5]], [[0, 4]]):
        assert ((injection(injection.see(torch.tensor(other)), tokens) - features).abs().amax(-1) > 1e-5).all()


def test_the_image_vector_is_the_feature_of_the_image_alone():
    net = network()

    torch.testing.assert_close(Injection(net, "image_only").see(CODES), net(image_only(TINY, CODES)))


def test_features_token_by_token_are_those_of_the_whole():
    injection = Injection(network())
    whole = injection(CODES, TEXTS)
    kept: tuple[torch.Tensor, ...] = ()
    for length in range(2, 6):
        past = Past(kept)
        new = injection(CODES, TEXTS[:, :length], past)
        torch.testing.assert_close(new[:, -1], whole[:, length - 1])
        kept = tuple(past.now)

    assert new.shape == (2, 1, 8)
