import pytest
import torch

from recstudy.models import ImageLSTM
from recstudy.models.networks.lstm_captioners import ImageLSTMNetwork

TOKENS = torch.tensor([[1, 4, 5], [1, 7, 4]])


def tiny(**fields) -> ImageLSTMNetwork:
    torch.manual_seed(0)
    network = ImageLSTM(**{"width": 8, "backbone": "small", "weights": "random"} | fields).build((3, 64, 64), 9)
    assert isinstance(network, ImageLSTMNetwork)
    return network


@pytest.mark.parametrize(("image", "params"), [("merge", 2_630_404), ("inject", 2_893_060)])
def test_counts_to_the_digit(image, params):
    """Bytes: E 133,120, the LSTM 2,101,248, W_o 133,380; W_v with its bias 262,656 once (merge) or for h and c (inject)."""
    model = ImageLSTM(image=image)
    with torch.device("meta"):
        network = model.build((3, 224, 224), 260)

    assert sum(weight.numel() for weight in network.parameters()) == params
    assert model.frozen_params == 11_176_512


def cell(network: ImageLSTMNetwork, x, h, c):
    """An LSTM's cell by its textbook equations."""
    lstm = network.lstm
    gates = x @ lstm.weight_ih_l0.T + lstm.bias_ih_l0 + h @ lstm.weight_hh_l0.T + lstm.bias_hh_l0
    i, f, g, o = gates.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@pytest.mark.parametrize("image", ["merge", "inject"])
def test_equations_cell_by_cell(image):
    network = tiny(image=image)
    images = torch.randn(2, 256)
    seen = network.eyes.project(images)
    zero = torch.zeros(2, 8)
    added, h, c = (seen, zero, zero) if image == "merge" else (zero, *seen.chunk(2, dim=-1))

    output, carry = network(images, network.start(images, TOKENS))

    for place in range(3):
        h, c = cell(network, network.embed.weight[TOKENS[:, place]] + added, h, c)
        torch.testing.assert_close(output.logits[:, place], network.answer(h))
    assert output.halt is None
    assert len(carry) == 1
