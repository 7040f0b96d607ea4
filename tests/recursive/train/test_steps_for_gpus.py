"""What a step asks of a GPU, counted on a CPU: graphs of torch.compile, waits of the host, aligned products; and
states in bfloat16.
"""

from pathlib import Path

import pytest
import torch

from recstudy.base.errors import ConfigError
from recstudy.recursive import HRM, TRM, Sudoku, TrainConfig, Transformer
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.models.networks.sequence import MixLayer
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.recursive.train.evaluate import predict, take_step

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CELLS = {"tokens": "cell", "width": 8, "heads": 1, "expansion": 1, "multiple": 8}
PUZZLES = Sudoku(side=4, puzzles=16, test_puzzles=19)


def run_of(family: str, **train):
    model = tiny_model(family, tokens="cell", puzzle_emb="puzzle", identifiers=1)
    return tiny_run(model, PUZZLES, batch_size=4, halting="sample", **train)


@pytest.mark.skipif(not BENCHMARKS.exists(), reason="the benchmarks are not in this copy")
def test_the_preset_of_the_paper_has_one_graph_in_training_and_one_at_test(monkeypatch):
    """No graph break and no wait of the host. Of all products the three of the head are unaligned, because a
    cell has 11 tokens."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import counts

    counted = counts.counts(**{"model.cycles": 1, "model.latent_steps": 1, "model.layers": 1})

    assert counted.pop("matrix products an update") > 10
    assert counted == {
        "graph breaks": 0,
        "graphs compiled in training": 1,
        "of them of the whole recursion": 1,
        "graphs compiled in evaluation": 1,
        "of them of the whole recursion (evaluation)": 1,
        "waits of the host an update": 0,
        "unaligned matrix products an update": 3,
    }


def test_tokens_are_mixed_by_a_swiglu_over_the_sequence_of_each_dimension():
    """Equation (L2), with its gradients, beside nn.Linear on transposed sequences of 5 tokens."""
    torch.manual_seed(0)
    layer = MixLayer(TRM(tokens="cell", width=6, heads=1, expansion=2, multiple=4, mixing="mlp"), 5).double()
    s_BSD = torch.randn(3, 5, 6, dtype=torch.float64, requires_grad=True)
    weights = [s_BSD, *layer.parameters()]

    def norm(s):
        return s / (s.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()

    s_BDS = s_BSD.transpose(1, 2)
    mixed = norm(s_BDS + layer.mix(s_BDS)).transpose(1, 2)
    expected = norm(mixed + layer.ffn(mixed))
    ours = layer(s_BSD.transpose(0, 1)).transpose(0, 1)

    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)
    pairs = zip(
        *(torch.autograd.grad(output.cos().sum(), weights) for output in (ours, expected)), strict=True
    )
    for gradient, expected_gradient in pairs:
        torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        TRM(**CELLS, mixing="mlp"),
        TRM(**CELLS, states="single", mixing="mlp"),
        Transformer(**CELLS),
        HRM(**CELLS),
    ],
    ids=lambda model: model.title,
)
def test_the_first_states_have_the_layout_of_later_ones(model):
    """Or the graph of a step would be compiled twice. An empty state is contiguous with any strides."""
    network, images = model.build((1, 2, 2), 6), torch.ones(3, 1, 2, 2)
    layouts, carry = [], network.start(images)
    for _ in range(3):
        layouts.append([state.contiguous().stride() for state in carry])
        _, carry = take_step(network, images, carry, TrainConfig())

    assert layouts[0] == layouts[1] == layouts[2]
    assert carry[2] is not carry[3]


@pytest.mark.parametrize("family", ["hrm", "trm", "transformer"])
@pytest.mark.parametrize("mixing", ["attention", "mlp"])
def test_states_and_sums_between_layers_are_in_bfloat16_on_request(family, mixing):
    """The losses stay close to those with states in float32."""
    losses, carries, inner = {}, {}, {}
    for precision in ("float32", "bfloat16"):
        config = run_of(family, precision="bfloat16", state_precision=precision)
        training = training_of(config.with_changes({"model.mixing": mixing}))
        types = inner[precision] = set()
        for layer in training.state.network.core.modules():
            if isinstance(layer, MixLayer) or type(layer).__name__ == "PostNorm":
                layer.register_forward_hook(
                    lambda layer, inputs, output, types=types: types.add(output.dtype)
                )
        batch = next(training._train.epoch(0))
        torch.manual_seed(0)
        losses[precision] = [training.train_slots(batch)[0].item() for _ in range(3)]
        carries[precision] = {
            state.dtype for state in training.state.slots.carry if state.is_floating_point()
        }

    assert carries["float32"] == inner["float32"] == {torch.float32}
    assert carries["bfloat16"] == inner["bfloat16"] == {torch.bfloat16}
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.02)


@pytest.mark.parametrize(
    ("family", "precision"), [("hrm_image", "bfloat16"), ("trm", "float32")], ids=lambda part: part
)
def test_states_in_bfloat16_are_refused_where_they_have_no_effect(family, precision):
    config = run_of("trm") if family == "trm" else tiny_run(tiny_model(family))
    with pytest.raises(
        ConfigError, match=r"train.state_precision must be 'float32' for .*'bfloat16' is for HRM"
    ):
        config.with_changes({"train.precision": precision, "train.state_precision": "bfloat16"})


def test_a_compiled_network_answers_a_short_batch_as_before():
    """19 puzzles are two full batches of 8 and a rest of 3, which zeros fill."""
    training = training_of(run_of("trm"))
    network, test = training.state.network, training._batches(training.data.test)
    (before,), losses = predict(training.task, network, test)
    sizes = []
    network.register_forward_hook(lambda network, inputs, output: sizes.append(len(inputs[0])))
    network.is_compiled = True
    (after,), padded_losses = predict(training.task, network, test)

    assert set(sizes) == {8}
    assert torch.equal(before["cells"], after["cells"])
    torch.testing.assert_close(losses, padded_losses)
    assert len(losses) == 19


def test_a_shared_row_is_no_lookup_and_leaves_the_clipped_norm_alone():
    """One row has a dense gradient of its own optimiser; two have a sparse one."""
    sparse = []
    for identifiers in (1, 2):
        training = training_of(run_of("trm").with_changes({"model.identifiers": identifiers}))
        training.train_slots(next(training._train.epoch(0)))
        sparse.append(training.state.network.puzzle.weight.grad.is_sparse)
        clipped = [
            weight for group in training.state.optimizers[0].param_groups for weight in group["params"]
        ]
        assert all(weight is not training.state.network.puzzle.weight for weight in clipped)

    assert sparse == [False, True]
