"""Every captioner of the registry, and every value of every switch it has."""

import pytest
import torch

from recstudy.recursive import FAMILIES, PhantomCaptions, RunConfig
from recstudy.recursive.contract import promises, switches
from recstudy.recursive.models.caption import CaptionModel
from recstudy.recursive.models.networks.caption import Captioner
from recstudy.recursive.testing import tiny_model

# what a value needs beside it
WITH = {("msve", "pyramid"): {"tuned": True}, ("msve", "one_scale"): {"tuned": True}}
CAPTIONERS = sorted(family for family, kind in FAMILIES.items() if issubclass(kind, CaptionModel))
SWITCHES = [
    (family, name, value)
    for family in CAPTIONERS
    for name, value in switches(FAMILIES[family], {"family", "backbone", "weights"})
] + [("image_hrm", "middle_cycles", 0), ("image_hrm", "high_cycles", 1)]
ONE_LAYER = {  # a second is compiled like the first, which takes seconds
    "caption_transformer": {"layers": 1},
    "r2gen": {"layers": 1},
    "micar": {"encoder_layers": 1, "decoder_layers": 1},
    "image_hrm": {"high_cycles": 1, "middle_cycles": 1},
}
DATA = PhantomCaptions(size=16, length=8)


def small(family: str, **fields) -> CaptionModel:
    for switch in fields.items():
        fields = WITH.get(switch, {}) | fields
    return tiny_model(family, **fields)


def run(model: CaptionModel) -> RunConfig:
    return RunConfig(data=DATA, model=model)


def network_of(model: CaptionModel) -> Captioner:
    return promises.network_of(run(model))


def some_tokens(count: int, length: int) -> torch.Tensor:
    return promises.some_tokens(run(small("show_tell")), count, length)


@pytest.fixture(params=SWITCHES, ids=str)
def switched(request) -> CaptionModel:
    family, name, value = request.param
    return small(family, **{name: value})


@pytest.mark.parametrize("check", promises.OF_NETWORKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("family", CAPTIONERS)
def test_every_promise_is_kept(family, check):
    check(run(small(family)))


@pytest.mark.parametrize("check", promises.OF_CAPTIONERS, ids=lambda check: check.__name__)
def test_every_promise_is_kept_by_every_switch_value(switched, check):
    check(run(switched))


def test_the_config_knows_the_weights_that_are_frozen(switched):
    assert switched.frozen_params == (0 if switched.tuned else 93_472)


@pytest.mark.whole
@pytest.mark.parametrize("family", CAPTIONERS)
def test_compiled_graphs_do_not_grow_with_the_caption(family):
    """A graph of every token would take minutes to compile."""
    model = small(family, **ONE_LAYER.get(family, {}))
    network, images = network_of(model).train(), promises.some_images(run(model), 2)

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
