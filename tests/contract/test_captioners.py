"""Every captioner of the registry, and every value of every switch it has."""

import pytest
import torch
from test_families import switches

from recstudy.config import FAMILIES, PAD, RunConfig
from recstudy.data import Digits, PhantomCaptions
from recstudy.models.backbone import CaptionModel
from recstudy.models.networks.caption import Captioner, reorder
from recstudy.models.networks.contract import build

SMALL = {
    "image_hrm": {"width": 16, "heads": 2, "high_layers": 1, "middle_layers": 1, "low_layers": 1},
    "image_trm": {"width": 16, "heads": 2, "layers": 1, "cycles": 2, "latent_steps": 2},
    "image_lstm": {"width": 16},
    "show_tell": {"width": 16},
    "show_attend_tell": {"width": 16, "attention": 8, "dropout": 0.0},
    "caption_transformer": {"width": 16, "heads": 2, "layers": 2, "ffn_width": 24, "dropout": 0.0},
    "r2gen": {"width": 16, "heads": 2, "layers": 2, "ffn_width": 24, "dropout": 0.0, "image_dropout": 0.0, "slots": 2},
    "micar": {
        "width": 16, "heads": 2, "latent": 24, "rope_dims": 4, "ffn_width": 24, "experts": 4, "pyramid_width": 8, "msve": "off",
        "dropout": 0.0, "attention_dropout": 0.0,
    },
}  # fmt: skip
WITH = {("msve", "pyramid"): {"tuned": True}, ("msve", "one_scale"): {"tuned": True}}  # what a value needs beside it
CAPTIONERS = sorted(family for family, kind in FAMILIES.items() if issubclass(kind, CaptionModel))
SWITCHES = [
    (family, name, value)
    for family in CAPTIONERS
    for name, value in switches(FAMILIES[family], {"family", "backbone", "weights"})
] + [("image_hrm", "middle_cycles", 0), ("image_hrm", "high_cycles", 1)]
DATA = PhantomCaptions(size=16, length=8)
BOS, VOCABULARY = 1, DATA.classes


def small(family: str, **fields) -> CaptionModel:
    for switch in fields.items():
        fields = WITH.get(switch, {}) | fields
    return FAMILIES[family](**SMALL[family] | {"backbone": "small", "weights": "random", "tuned": False} | fields)


def network_of(model: CaptionModel) -> Captioner:
    """In float64, where causality is exact, with a halting head that reads something."""
    torch.manual_seed(0)
    network = build(model, DATA).double().eval()
    assert isinstance(network, Captioner)
    if model.halts:
        torch.nn.init.normal_(network.q_head.weight)
    return network


def some_images(model: CaptionModel, count: int) -> torch.Tensor:
    shape = (count, *model.input_shape(DATA.shape))
    return (torch.rand(shape) if model.reads_features else torch.randint(0, 256, shape)).double()


def some_tokens(count: int, length: int) -> torch.Tensor:
    return torch.cat([torch.full((count, 1), BOS), torch.randint(3, VOCABULARY, (count, length - 1))], dim=1)


def after(network: Captioner, images: torch.Tensor, tokens: torch.Tensor, steps: int = 2):
    """The output of the last of some supervision steps."""
    carry = network.start(images, tokens)
    for _ in range(steps):
        output, carry = network(images, carry)
    return output


@pytest.fixture(params=SWITCHES, ids=str)
def switched(request) -> CaptionModel:
    family, name, value = request.param
    return small(family, **{name: value})


@pytest.mark.parametrize("family", CAPTIONERS)
def test_every_captioner_has_a_small_example_here(family):
    assert family in SMALL


@pytest.mark.parametrize("family", CAPTIONERS)
def test_shapes_and_a_gradient_to_every_weight(family):
    model = small(family, tuned=True)
    network, images, tokens = network_of(model).train(), some_images(model, 3), some_tokens(3, 5)

    carry = network.start(images, tokens)
    output, after_one = network(images, carry)
    (output.logits.square().sum() + (output.halt.square().sum() if model.halts else 0)).backward()

    assert output.logits.shape == (3, 5, VOCABULARY)
    assert (output.halt is not None, output.proceed is not None) == (model.halts, model.bootstraps)
    assert carry[0] is after_one[0] is tokens
    assert all(len(part) == 3 for part in after_one)
    assert (len(carry) > 1) == model.recursive
    assert [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()] == []


def test_no_logit_depends_on_a_later_token(switched):
    network, images, tokens = network_of(switched), some_images(switched, 2), some_tokens(2, 6)
    logits = after(network, images, tokens).logits

    for place in range(1, 6):
        changed = tokens.clone()
        changed[:, place] = torch.where(changed[:, place] == 3, 4, 3)
        others = after(network, images, changed).logits
        torch.testing.assert_close(others[:, :place], logits[:, :place], rtol=0, atol=1e-12)
        assert (others[:, place:] - logits[:, place:]).abs().amax(-1).min() > 1e-6


def test_every_logit_depends_on_the_image(switched):
    network, tokens = network_of(switched), some_tokens(2, 6)

    one, other = (after(network, some_images(switched, 2), tokens).logits for _ in range(2))

    assert (one - other).abs().amax(-1).min() > 1e-6


def test_padding_changes_nothing(switched):
    network, images, tokens = network_of(switched), some_images(switched, 2), some_tokens(2, 6)
    padded = torch.cat([tokens, torch.full((2, 3), PAD)], dim=1)

    short, long = after(network, images, tokens), after(network, images, padded)

    torch.testing.assert_close(long.logits[:, :6], short.logits, rtol=0, atol=1e-12)
    if switched.halts:
        torch.testing.assert_close(long.halt, short.halt, rtol=0, atol=1e-6)  # a float32 mean


def test_cached_decoding_is_exact(switched):
    """Token by token, with the captions' order changed on the way, as a beam search does."""
    network, images, tokens = network_of(switched), some_images(switched, 3), some_tokens(3, 6)
    logits, cache = network.next(images, tokens[:, :2], 2)

    for length in range(2, 7):
        torch.testing.assert_close(logits, after(network, images, tokens[:, :length]).logits[:, -1], rtol=0, atol=1e-12)
        rows = torch.tensor([2, 0, 0] if length == 3 else [0, 1, 2])
        images, tokens, cache = images[rows], tokens[rows], reorder(cache, rows)
        if length < 6:
            logits, cache = network.next(images, tokens[:, : length + 1], 2, cache)


def test_every_switch_value_takes_a_step(switched):
    """And the config knows every weight that it trains."""
    network, images, tokens = network_of(switched).train(), some_images(switched, 2), some_tokens(2, 6)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)

    def loss() -> torch.Tensor:
        return torch.nn.functional.cross_entropy(after(network, images, tokens[:, :-1], 1).logits.transpose(1, 2), tokens[:, 1:])

    before = loss()
    before.backward()
    optimizer.step()

    assert loss() < before
    assert sum(switched.counts(DATA.shape, VOCABULARY).values()) == sum(weight.numel() for weight in network.parameters())
    assert switched.frozen_params == (0 if switched.tuned else 93_472)


@pytest.mark.parametrize("family", CAPTIONERS)
def test_the_carry_goes_on_where_it_stopped(family):
    model = small(family)
    network, images, tokens = network_of(model), some_images(model, 2), some_tokens(2, 6)

    assert torch.equal(after(network, images, tokens, 1).logits, after(network, images, tokens, 2).logits) != model.recursive


@pytest.mark.parametrize("family", CAPTIONERS)
def test_forward_and_next_are_pure(family):
    """Two calls give the same, and nothing is written on the module."""
    model = small(family)
    network, images, tokens = network_of(model), some_images(model, 2), some_tokens(2, 6)
    attributes = {name: dict(module.__dict__) for name, module in network.named_modules()}
    weights = {name: value.clone() for name, value in network.state_dict().items()}

    calls = [after(network, images, tokens).logits[:, -1], network.next(images, tokens, 2)[0], network.next(images, tokens, 2)[0]]

    torch.testing.assert_close(calls[0], calls[1], rtol=0, atol=1e-12)
    assert torch.equal(calls[1], calls[2])
    assert all(torch.equal(weights[name], value) for name, value in network.state_dict().items())
    assert all(module.__dict__.keys() == attributes[name].keys() for name, module in network.named_modules())


@pytest.mark.parametrize("family", CAPTIONERS)
def test_what_is_compiled_does_not_grow_with_the_caption(family):
    """A graph of every token would take minutes to compile."""
    model = small(family)
    network, images = network_of(model).train(), some_images(model, 2)

    assert compiled(network, images, some_tokens(2, 9)) == compiled(network, images, some_tokens(2, 5)) > 0


def compiled(network: Captioner, images: torch.Tensor, tokens: torch.Tensor) -> int:
    """Operations of the graphs of one step."""
    operations = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        operations.append(len(graph.graph.nodes))
        return graph

    torch.compiler.reset()
    with torch.no_grad():  # where a graph ends, dynamo reads `.grad` of tensors that have none, which warns
        torch.compile(network, backend=backend, dynamic=False)(images, network.start(images, tokens))
    return sum(operations)


@pytest.mark.parametrize("family", CAPTIONERS)
def test_a_caption_is_judged_by_itself(family):
    """In evaluation no caption sees the others of its batch."""
    model = small(family)
    network, images, tokens = network_of(model), some_images(model, 4), some_tokens(4, 6)

    together, alone = after(network, images, tokens).logits[2:3], after(network, images[2:3], tokens[2:3]).logits

    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("fields", "data", "message"),
    [
        ({}, Digits(), "writes captions, but Digits is multiclass"),
        ({"weights": "pretrained"}, DATA, "weights must be 'random' with model.backbone 'small', which nobody has trained"),
        ({"backbone": "swin_t"}, DATA, "data.size must be 224 for model.backbone 'swin_t', but got 16x16"),
        ({}, PhantomCaptions(length=4096), "data.length must be at most 2,048 tokens for ImageTRM .*, but got 4,096"),
        ({"width": 18, "heads": 6}, DATA, "model.width must be an even multiple of model.heads, but got 18 and 6"),
    ],
    ids=["no captions", "untrained", "Swin's pixels", "too long", "heads"],
)
def test_what_does_not_fit_is_refused(fields, data, message):
    with pytest.raises(ValueError, match=message):
        RunConfig(data=data, model=small("image_trm", **fields))
