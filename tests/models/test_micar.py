import math

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recstudy.config import PAD, RunConfig, TrainConfig
from recstudy.data import PhantomCaptions
from recstudy.errors import ConfigError
from recstudy.models import MicarVLMoE
from recstudy.models.networks.layers import Rotary
from recstudy.models.networks.micar import (
    MDLA,
    Bottleneck,
    Fusion,
    Gate,
    MicarNetwork,
    MultiscaleEncoder,
    Pyramid,
    earlier,
    enlarged,
    stages,
)
from recstudy.train.optim import make_optimizers

TOKENS = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 4, 2, PAD]])
SMALL = {"backbone": "small", "weights": "random", "tuned": False, "msve": "off", "width": 16, "heads": 2, "latent": 24}
SMALL |= {"rope_dims": 4, "ffn_width": 24, "experts": 4, "encoder_layers": 1}


def tiny(**fields) -> MicarNetwork:
    """In float64, in evaluation mode."""
    torch.manual_seed(0)
    network = MicarVLMoE(**SMALL | fields).build((3, 64, 64), 9).double().eval()
    assert isinstance(network, MicarNetwork)
    return network


def places(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 49, 64).double()


def logits(network: MicarNetwork, images: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return network(images, network.start(images, tokens))[0].logits


def test_padding_sees_the_words_alone_and_counts_in_the_balance():
    """As in the published code: the last place sees BOS and three words, and L_b is of the mean over all ten places."""
    network, images = tiny(decoder_layers=1), places()
    balance = network(images, network.start(images, TOKENS))[0].extra

    trace = network.trace(images, TOKENS)
    mean = trace.router[0].mean((0, 1))

    assert ((trace.self_attention[0, 1, :, 4] > 0) == torch.tensor([True] * 4 + [False])).all()
    assert balance.item() == pytest.approx(0.01 * (mean * mean.log()).sum().item(), rel=1e-12)


def test_words_and_places_make_a_tokens_input():
    """sqrt(16) E[word] + (sin t, cos t, ...): at t = 1 the first pair is sin 1, cos 1, and the last turns by 10,000^(-14/16)."""
    network = tiny()
    x = network.inputs(TOKENS)

    slow = 10_000 ** (-14 / 16)
    added = x[0, 1] - 4 * network.embed.weight[4]
    torch.testing.assert_close(added[:2], torch.tensor([math.sin(1), math.cos(1)]).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(added[-2:], torch.tensor([math.sin(slow), math.cos(slow)]).double(), atol=1e-6, rtol=0)


def test_a_layer_adds_the_text_twice():
    """Where attention, fusion and experts give 0, gated fusion gives X, and X + X = 2 X (models.md 8.4)."""
    network = tiny()
    layer = network.decoder[0]
    with torch.no_grad():
        last = layer.fusion.gate.fuse[-2]
        for weight in (layer.attention.out.weight, layer.fusion.attention.out.weight, last.weight, last.bias, layer.moe.down):
            weight.zero_()
    x = torch.randn(2, 5, 16).double()

    y, _ = layer(x, network.see(places())[0], TOKENS != PAD)

    torch.testing.assert_close(y, 2 * x)


@pytest.mark.parametrize(
    ("fields", "weight"), [({}, 0.01), ({"balance": 0.0}, None), ({"experts": 1, "top_k": 1}, None)], ids=str
)
def test_the_balance_is_added_to_the_loss(fields, weight):
    """A router that knows no preference: -log 4 in both layers."""
    network, images = tiny(**fields), places()
    for layer in network.decoder:
        if layer.moe.router is not None:
            torch.nn.init.zeros_(layer.moe.router.weight)

    extra = network(images, network.start(images, TOKENS))[0].extra

    if weight is None:
        assert extra is None
    else:
        assert extra is not None
        assert extra.item() == pytest.approx(-weight * math.log(4))


def test_matrices_start_xavier_uniform_but_for_the_vision_encoders():
    """E: sqrt(6 / (9 + 16)) = 0.49, W of (1): sqrt(6 / (64 + 16)) = 0.27, where torch's own would be 64^-0.5 = 0.125."""
    network = tiny()

    assert 0.9 * (6 / 25) ** 0.5 < network.embed.weight.abs().max().item() <= (6 / 25) ** 0.5
    assert 0.9 * (6 / 80) ** 0.5 < network.project[1].weight.abs().max().item() <= (6 / 80) ** 0.5


def test_the_vision_encoder_ends_before_the_projection():
    """The published code trains W of (1) and its norm at the main rate, backbone and pyramid at the encoder's."""
    network = MicarVLMoE(**SMALL | {"tuned": True, "msve": "pyramid", "pyramid_width": 8}).build((3, 64, 64), 9)

    rest, seeing = make_optimizers(network, TrainConfig(learning_rate=1e-4, backbone_learning_rate=5e-5))[0].param_groups

    assert (rest["peak"], seeing["peak"]) == (1e-4, 5e-5)
    assert set(map(id, seeing["params"])) == set(map(id, network.eyes.parameters()))
    assert set(map(id, network.project.parameters())) <= set(map(id, rest["params"]))


def test_what_happens_inside_is_shown():
    network, images = tiny(), places()
    with torch.no_grad():
        trace = network.trace(images, TOKENS)
        own = network.decoder[0].attend(network.inputs(TOKENS), earlier(TOKENS))

    assert [tuple(part.shape) for part in trace] == [
        (2, 2, 2, 5, 5), (2, 2, 2, 5, 49), (2, 2, 5, 4), (2, 2, 5, 2), (2, 4), (2, 2, 5), (2,),
    ]  # fmt: skip
    for maps in (trace.self_attention, trace.cross_attention, trace.router):
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]).double())
    assert not trace.self_attention.masked_fill(earlier(TOKENS)[:, None], 0).any()
    attention = network.decoder[0].attention
    *_, v = attention.whole(network.decoder[0].norm1(network.inputs(TOKENS)))
    torch.testing.assert_close(attention.out((trace.self_attention[0] @ v).transpose(1, 2).flatten(2)), own)

    valid = TOKENS != PAD
    assert trace.load.sum(-1).tolist() == [2 * 9] * 2
    assert trace.dropped.tolist() == [0, 0]
    assert (trace.chosen[:, ~valid] == 4).all()
    assert torch.equal(trace.chosen[:, valid], trace.router.topk(2).indices[:, valid])
    torch.testing.assert_close(trace.entropy, -(trace.router * trace.router.log()).sum(-1))
    for layer in range(2):
        assert torch.equal(trace.chosen[layer][valid].flatten().bincount(minlength=4), trace.load[layer])


DATA = PhantomCaptions(size=64, length=8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"top_k": 5}, "model.top_k must be at most model.experts, but got 5 of 4"),
        ({"experts": 1}, "model.top_k must be at most model.experts, but got 2 of 1"),
        ({"heads": 3}, "model.width must be a multiple of model.heads, but got 16 and 3"),
        ({"latent": 22}, "model.latent must be a multiple of twice model.heads, .*, but got 22 and 2"),
        ({"rope_dims": 3}, "model.rope_dims must be even and at most 6, half of a head .*, but got 3"),
        ({"rope_dims": 8}, "model.rope_dims must be even and at most 6, half of a head .*, but got 8"),
        ({"width": 20}, "model.width and model.ffn_width must be multiples of 8, .*, but got 20 and 24"),
        ({"msve": "pyramid"}, "model.tuned must be true with model.msve 'pyramid', .* Set model.msve 'off' for a frozen one"),
        ({"weights": "pretrained"}, "model.weights must be 'random' with model.backbone 'small'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(data=DATA, model=MicarVLMoE(**SMALL | fields))
    assert RunConfig(data=DATA, model=MicarVLMoE(**SMALL)).model.title == "MicarVLMoE (small CNN, random)"


# ------------------------------------------------------------------------------------- attention and gated fusion


def config(**fields) -> MicarVLMoE:
    return MicarVLMoE(**{"width": 8, "heads": 1, "latent": 4, "rope_dims": 2, "ffn_width": 8} | fields)


def mdla(*fused: int, **fields) -> MDLA:
    torch.manual_seed(0)
    chosen = config(**fields)
    return MDLA(chosen, Rotary(16, chosen.rope_dims), *(fused or (3,))).eval()


class Give(nn.Module):
    """These tensors, whatever comes."""

    def __init__(self, *given: torch.Tensor) -> None:
        super().__init__()
        self.given = given

    def forward(self, x):
        return self.given if len(self.given) > 1 else self.given[0]


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


class Sum(nn.Module):
    """Of the three parts that the fusion layer reads."""

    def forward(self, x):
        return sum(x.chunk(3, dim=-1))


@pytest.mark.parametrize(("parts", "expected"), [(2, [3 / 12.5**0.5, 4 / 12.5**0.5]), (1, [1.0])], ids=["fused", "separate"])
def test_a_fused_bottleneck_is_normalised_as_one(parts, expected):
    """d/h = 1: down gives 3 and 4, of mean square 12.5; by itself 3 becomes 1."""
    bottleneck = Bottleneck(config(heads=8, latent=16), parts)
    x = torch.tensor([[[3.0, 4.0, 0, 0, 0, 0, 0, 0]]])
    with torch.no_grad():
        bottleneck.down.weight.copy_(torch.eye(8)[:parts])
        bottleneck.up.weight.copy_(torch.eye(parts).repeat_interleave(16, dim=0))

    given = bottleneck(x)

    assert [tuple(part.shape) for part in given] == [(1, 8, 1, 2)] * parts
    for part, value in zip(given, expected, strict=True):
        torch.testing.assert_close(part, torch.full((1, 8, 1, 2), value))


def test_positions_turn_a_part_of_the_second_branch():
    """A head of 8: 4 without positions, 2 that turn by one radian at place 1, 2 that do not (rope_dims 24 of 48)."""
    attention = mdla(latent=8)

    turned = attention.turned(torch.ones(1, 1, 1, 8), start=1)[0, 0, 0]

    turn = [math.cos(1) - math.sin(1), math.cos(1) + math.sin(1)]
    torch.testing.assert_close(turned, torch.tensor([1, 1, 1, 1, *turn, 1, 1]))


def test_attention_by_hand():
    """q = k = (1, 0 | 1, 0) at places 0 and 1, E = 4. Place 1 scores itself (1 + 1)/2 and place 0 (1 + cos 1)/2 = 0.7702; the
    softmax of these is 0.5572 and 0.4428. Place 0 sees itself alone."""
    attention = mdla()
    q = torch.tensor([1.0, 0, 1, 0]).expand(1, 1, 2, 4)
    v = torch.eye(2, 4).expand(1, 1, 2, 4)
    attention.bottlenecks = nn.ModuleList([Give(q, q, v)])
    attention.out = nn.Identity()

    q, k, v = attention.whole(torch.zeros(1, 2, 8))
    before = torch.ones(1, 2, 2, dtype=torch.bool).tril()
    mixed = attention(q, k, v, before)

    expected = torch.tensor([[[1.0, 0, 0, 0], [0.4428, 0.5572, 0, 0]]])
    torch.testing.assert_close(mixed, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(attention.maps(q, k, before)[0], expected[..., :2], atol=1e-4, rtol=0)


@pytest.mark.parametrize(("scale", "width"), [("head", 96), ("latent", 768)])
def test_scores_are_divided_by_the_published_codes_root_or_the_papers(scale, width):
    model = MicarVLMoE(scale=scale)

    assert MDLA(model, Rotary(4, 24), 3).scale == pytest.approx(width**-0.5)


@pytest.mark.parametrize("scale", ["head", "latent"])
@pytest.mark.parametrize("projections", ["fused", "separate"])
def test_maps_are_what_forward_mixes_by(scale, projections):
    attention = mdla(1, 2, heads=2, latent=16, scale=scale, projections=projections).double()
    text, image = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 8).double()
    q, (k, v) = attention.asked(text), attention.seen(image)

    maps = attention.maps(q, k)

    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 2, 3).double())
    torch.testing.assert_close(attention.out((maps @ v).transpose(1, 2).flatten(2)), attention(q, k, v))


def gate(reads: str) -> Gate:
    """G = 1, g = sigmoid(log 3) = 0.75, rms(A) replaced by 2 A."""
    made = Gate(config(fusion_reads=reads))
    made.norm, made.opening, made.fuse = Double(), Give(torch.tensor(math.log(3))), Sum()
    return made


@pytest.mark.parametrize(("reads", "expected"), [("normed", 19.5), ("plain", 15.5)])
def test_the_gate_by_hand(reads, expected):
    """A = 4, rms(A) := 8, X_n = 2: F = 0.75 x 8 + 0.25 x 2 = 6.5; Z = F + A' + G + A with A' = 8 (code) or 4 (paper)."""
    a, x_n, context = torch.full((1, 2, 8), 4.0), torch.full((1, 2, 8), 2.0), torch.ones(1, 8)

    z = gate(reads)(a, x_n, context)

    torch.testing.assert_close(z, torch.full((1, 2, 8), expected))


def test_what_fusion_adds_to_a_is_dropped_as_in_the_published_code():
    """Z - A is 0 in 90 % of 80,000 places, and elsewhere ten times what it is at evaluation, one bias."""
    made = Gate(config(dropout=0.9))
    nn.init.zeros_(made.fuse[-2].weight)
    nn.init.constant_(made.fuse[-2].bias, 0.5)
    a, context = torch.zeros(100, 100, 8), torch.zeros(100, 8)

    added = made(a, a, context)

    assert added.unique().tolist() == [0.0, 5.0]
    assert (added == 0).float().mean().item() == pytest.approx(0.9, abs=0.01)
    torch.testing.assert_close(made.eval()(a, a, context), torch.full_like(a, 0.5))


def test_the_context_is_the_mean_and_the_largest_over_places():
    """Places 1, 3 and 8: mean 4, largest 8."""
    made = gate("normed")
    made.summary = nn.Identity()

    context = made.context(torch.tensor([1.0, 3, 8])[None, :, None].expand(1, 3, 8))

    assert context.tolist() == [[4.0] * 8 + [8.0] * 8]


@pytest.mark.parametrize(("kind", "expected"), [("gated", 1.0), ("attention", 0.0)])
def test_the_text_is_inside_gated_fusion_and_not_inside_attention(kind, expected):
    """With an attention and a fusion layer that give 0, Z = A = X; the decoder then adds X a second time."""
    fusion = Fusion(config(fusion=kind), Rotary(16, 2)).eval()
    x = torch.randn(1, 3, 8)
    with torch.no_grad():
        fusion.attention.out.weight.zero_()
        if fusion.gate is not None:
            fusion.gate.fuse[-2].weight.zero_()
            fusion.gate.fuse[-2].bias.zero_()

    torch.testing.assert_close(fusion(x, fusion.see(torch.randn(1, 5, 8))), expected * x)


# ------------------------------------------------------------------------------------- the multiscale vision encoder


SIZES = [(8, 8), (4, 4), (2, 2), (1, 1)]


def test_the_pyramids_shapes_at_224_pixels():
    """Section III-C: 256, 512, 1,024 and 2,048 channels at 1/4 to 1/32; Psi at 56x56; 49 places of 512."""
    with torch.device("meta"):
        eyes = MultiscaleEncoder(MicarVLMoE())
        images = torch.zeros(2, 3, 224, 224)
        assert eyes.backbone is not None
        assert eyes.pyramid is not None
        maps = stages(eyes.backbone, images)

        assert [tuple(map_.shape[1:]) for map_ in maps] == [(256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7)]
        assert eyes.pyramid(maps).shape == (2, 2048, 56, 56)
        assert eyes(images).shape == (2, 49, 2048)


@pytest.mark.parametrize("backbone", ["small", "resnet18"])
@pytest.mark.parametrize("msve", ["pyramid", "one_scale", "off"])
def test_every_backbone_gives_49_places(backbone, msve):
    config = MicarVLMoE(backbone=backbone, weights="random", msve=msve, pyramid_width=8, width=16)

    assert MultiscaleEncoder(config)(torch.randint(0, 256, (2, 3, 64, 64)).float()).shape == (2, 49, config.seen_width)


def plain(channels: list[int]) -> Pyramid:
    """Without batch norm; phi adds up the channels, Psi passes them on."""
    pyramid = Pyramid(channels, 1)
    for phi in [*pyramid.lateral, pyramid.fuse]:
        phi[1] = nn.Identity()
        nn.init.zeros_(phi[0].bias)
        nn.init.ones_(phi[0].weight)
    nn.init.dirac_(pyramid.fuse[0].weight)
    return pyramid


def test_the_pyramid_by_hand():
    """C_2 to C_5 constant at 1, 2, 3, 4: P_5 = 4, P_4 = 3 + 4 = 7, P_3 = 2 + 7 = 9, P_2 = 1 + 9 = 10, F = 10 + 9 + 7 + 4 = 30."""
    maps = [torch.full((1, 1, *size), float(value)) for value, size in enumerate(SIZES, 1)]

    torch.testing.assert_close(plain([1] * 4)(maps), torch.full((1, 1, 8, 8), 30.0))


def test_one_scale_is_the_last_map_enlarged():
    maps = [torch.rand(1, 3, *size) for size in [(8, 8), (4, 4), (4, 4), (2, 2)]]

    given = plain([3])(maps)

    torch.testing.assert_close(given, enlarged(maps[-1].sum(1, keepdim=True), maps[0]))
    assert given.unique().numel() > 4  # bilinear, not a repetition


def test_the_stages_of_a_trained_backbone_end_in_its_own_answer():
    """C_5 pooled is what the backbone gives by itself."""
    eyes = MultiscaleEncoder(MicarVLMoE(backbone="resnet18", weights="random", msve="off", width=16)).eval()
    images = torch.randint(0, 256, (2, 3, 64, 64)).float()
    assert eyes.backbone is not None

    last = torch.nn.functional.adaptive_avg_pool2d(stages(eyes.backbone, images)[-1], 7).flatten(2).transpose(1, 2)

    torch.testing.assert_close(eyes(images), last)


def gflops(msve: str, words: int = 80) -> float:
    """Of one image and its report, with 1,000 words."""
    with torch.device("meta"):
        network = MicarVLMoE(msve=msve).build((3, 224, 224), 1000).eval()
        images, tokens = torch.zeros(1, 3, 224, 224), torch.ones(1, words, dtype=torch.int64)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network.requires_grad_(False)(images, network.start(images, tokens))
    return counter.get_total_flops() / 1e9


def test_the_control_costs_what_the_pyramid_costs():
    """models.md 11: ResNet-101 15.6, laterals 6.2 and Psi 236.8 GFLOP; encoder 0.41 a layer, decoder 1.58 at 80 tokens."""
    full, control, without = (gflops(msve) for msve in ("pyramid", "one_scale", "off"))

    assert full == pytest.approx(15.6 + 6.2 + 236.8 + 2 * 0.41 + 2 * 1.58, rel=0.005)
    assert full - control == pytest.approx(5.76, rel=0.01)  # three of the four phi
    assert full - without == pytest.approx(236.8 + 6.2, rel=0.01)
