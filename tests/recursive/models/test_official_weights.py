"""Checkpoints under the authors' names: written by this file's own mapping, and computed by its own plain
form of their nets.
"""

import io
import pickle

import pytest
import torch
import yaml
from official import ARCH, TINY, random_network, theirs
from refusals import refused
from safetensors.torch import save as safetensors_bytes
from torch.nn import functional as F

from recstudy.base.errors import ConfigError, DataError
from recstudy.recursive import HRM, TRM, RunConfig, Sudoku, TrainConfig
from recstudy.recursive.models.networks.contract import build
from recstudy.recursive.models.networks.official_weights import (
    PREFIX,
    from_official,
    official_arch,
    official_model,
    read_arch,
    read_official,
    to_official,
)

PUBLISHED = {
    "HRM": HRM(tokens="cell", puzzle_emb="puzzle", identifiers=1),
    "TRM-Att": TRM(tokens="cell", puzzle_emb="puzzle", identifiers=1),
    "TRM-MLP": TRM(tokens="cell", puzzle_emb="puzzle", identifiers=1, mixing="mlp"),
}
SIZES = {"HRM": 27e6, "TRM-Att": 7e6, "TRM-MLP": 5e6}  # as the papers have them


def reference_forward(weights, arch, tokens, ids, segments):
    """Their forward pass in float32, of weights by plain names: logits (B, S, V) and q (B, 2) after so many
    segments.
    """
    width, heads = arch["hidden_size"], arch["num_heads"]
    row = F.pad(
        weights["puzzle_emb.weights"][ids],
        (0, arch["puzzle_emb_len"] * width - weights["puzzle_emb.weights"].shape[1]),
    )
    x = torch.cat([row.view(len(ids), -1, width), weights["embed_tokens.embedding_weight"][tokens]], 1)
    if "embed_pos.embedding_weight" in weights:
        x = 0.707106781 * (x + weights["embed_pos.embedding_weight"])
    x = x * width**0.5
    angles = torch.outer(
        torch.arange(x.shape[1]), 10000.0 ** (-torch.arange(0, width // heads, 2) * heads / width)
    ).repeat(1, 2)

    def rms(s):
        return s * (s.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    def gated(s, place):
        gate, values = (s @ weights[f"{place}.gate_up_proj.weight"].T).chunk(2, -1)
        return (F.silu(gate) * values) @ weights[f"{place}.down_proj.weight"].T

    def turned(s):
        if "embed_pos.embedding_weight" in weights:
            return s
        first, second = s.chunk(2, -1)
        return s * angles.cos()[:, None] + torch.cat([-second, first], -1) * angles.sin()[:, None]

    def attended(s, place):
        qkv = (s @ weights[f"{place}.qkv_proj.weight"].T).unflatten(-1, (3 * heads, -1))
        q, k, v = turned(qkv[:, :, :heads]), turned(qkv[:, :, heads : 2 * heads]), qkv[:, :, 2 * heads :]
        attention = torch.einsum("bqhe,bkhe->bhqk", q, k).div((width // heads) ** 0.5).softmax(-1)
        return torch.einsum("bhqk,bkhe->bqhe", attention, v).flatten(2) @ weights[f"{place}.o_proj.weight"].T

    def level(name, s):
        for layer in range(
            sum(key.startswith(name) and key.endswith("mlp.down_proj.weight") for key in weights)
        ):
            place = f"{name}.layers.{layer}"
            if f"{place}.mlp_t.down_proj.weight" in weights:
                s = rms(s.mT + gated(s.mT, f"{place}.mlp_t")).mT
            else:
                s = rms(s + attended(s, f"{place}.self_attn"))
            s = rms(s + gated(s, f"{place}.mlp"))
        return s

    upper = "H_level" if any(key.startswith("H_level") for key in weights) else "L_level"
    high = weights.get("H_init", weights.get("L_init")).expand_as(x)
    lows = [
        value.expand_as(x)
        for name, value in weights.items()
        if name[0] == "L" and name.endswith("_init") and "H_init" in weights
    ]
    for _ in range(segments * arch["H_cycles"]):
        for step in range(arch["L_cycles"]):
            if lows:
                lows[step % len(lows)] = level("L_level", sum(lows) + high + x)
            else:
                high = level("L_level", high + x)
        high = level(upper, high + sum(lows))
    q = high[:, 0] @ weights["q_head.weight"].T + weights["q_head.bias"]
    return high[:, arch["puzzle_emb_len"] :] @ weights["lm_head.weight"].T, q


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_of_the_published_size_come_back_under_the_authors_names(name, tmp_path):
    data = Sudoku(side=9)
    network, restored = random_network(PUBLISHED[name], data), build(PUBLISHED[name], data).eval()
    file = theirs(network, "inner." if name == "HRM" else "module._orig_mod.model.inner.")
    torch.save(
        {"model": file, "step": 3, "optimizers": []} if name == "HRM" else file, tmp_path / "step_65100"
    )
    restored.load_state_dict(from_official(restored, read_official(tmp_path / "step_65100"), "step_65100"))

    assert sum(weight.numel() for weight in network.parameters()) == pytest.approx(SIZES[name], rel=0.05)
    assert all(
        torch.equal(mine, restored_weight)
        for mine, restored_weight in zip(network.parameters(), restored.parameters(), strict=True)
    )


@pytest.mark.parametrize("name", TINY)
def test_the_authors_arithmetic_gives_the_same_from_the_same_file(name):
    """Two segments of a hand-written form of their nets: gate before up, queries before keys, a row padded
    over the prefix.
    """
    model, data = TINY[name], Sudoku(side=4)
    network = random_network(model, data)
    images, ids = torch.randint(0, 6, (3, 1, 4, 4)), torch.tensor([0, 1, 1])
    arch = ARCH | {"puzzle_emb_len": model.prefix}
    carry = network.start(images, ids)
    with torch.no_grad():
        logits, q = reference_forward(theirs(network, ""), arch, images.flatten(1).long(), ids, segments=2)
        for _ in range(2):
            output, carry = network(images, carry)

    assert torch.allclose(output.logits, logits, atol=1e-4)
    assert torch.allclose(output.halt, q[:, 0], atol=1e-4)


@pytest.mark.parametrize(("name", "family"), [("HRM", "hrm"), ("learned", "hrm"), ("TRM-Att", "trm"), ("TRM-MLP", "trm"),
                                               ("single z", "trm"), ("multi-scale z", "trm")])  # fmt: skip
def test_the_arch_of_their_config_and_the_file_say_which_network_it_is(name, family, tmp_path):
    model = TINY[name].model_copy(update={"multiple": 256})
    arch = {
        **ARCH,
        "H_layers": getattr(model, "high_layers", 0),
        "puzzle_emb_len": model.prefix,
        "puzzle_emb_ndim": 8,
    }
    arch |= {
        "L_layers": getattr(model, "low_layers", None) or model.layers,
        "mlp_t": model.mixing == "mlp",
        "name": {"single z": "trm_singlez", "multi-scale z": "trm_hier6"}.get(name, ""),
        "loss": {"name": "ACT"},
    }
    arch["pos_encodings"] = {"learned": "learned", "TRM-MLP": "none", "multi-scale z": "none"}.get(
        name, "rope"
    )
    (tmp_path / "all_config.yaml").write_text(yaml.safe_dump({"arch": arch, "lr": 1e-4}))

    read = read_arch(tmp_path / "all_config.yaml", family)
    weights = theirs(random_network(model, Sudoku(side=4)), "")
    assert official_model(family, read, weights) == model
    assert official_model(family, read.model_copy(update={"name": ""}), weights) == model, (
        "the file tells as well"
    )


@pytest.mark.parametrize(("name", "family"), [("HRM", "hrm"), ("TRM-Att", "trm")])
def test_without_a_config_the_authors_defaults_hold(name, family):
    assert (
        official_model(family, read_arch(None, family), {"puzzle_emb.weights": torch.zeros(1, 512)})
        == PUBLISHED[name]
    )


def test_a_short_puzzle_row_is_filled_up_with_zeros():
    network = random_network(TINY["HRM"], Sudoku(side=4))
    file = theirs(network, "")
    file["puzzle_emb.weights"] = file["puzzle_emb.weights"][:, :5]

    row = from_official(network, file, "step_1")["puzzle.weight"]

    assert torch.equal(row, F.pad(file["puzzle_emb.weights"], (0, 3)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"L_init": None},
            r"step_1 is not a checkpoint of HRM .*: 1 keys \(L_init\) missing, 0 keys unexpected",
        ),
        ({"H_level.more": torch.zeros(1)}, r"0 keys missing, 1 keys \(H_level.more\) unexpected"),
        (
            {"lm_head.weight": torch.zeros(11, 8)},
            r"step_1: lm_head.weight must have the shape \(6, 8\), but has \(11, 8\)",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(changes, message, tmp_path):
    network = random_network(TINY["HRM"], Sudoku(side=4))
    file = {name: value for name, value in (theirs(network, "") | changes).items() if value is not None}
    with pytest.raises(DataError, match=f"^[^\n]*{message}[^\n]*$"):
        from_official(network, file, "step_1")
    torch.save({"lr": 0.1}, tmp_path / "step_1")
    with pytest.raises(DataError, match=r"step_1 contains more than weights \(lr\)"):
        read_official(tmp_path / "step_1")


class Stranger:
    """Any class of somebody's training code."""


def test_a_weight_under_two_wrappers_is_refused_with_both_names(tmp_path):
    names = ("_orig_mod.model.inner.H_init", "module.model.inner.H_init")
    torch.save(
        {name: torch.full((8,), float(value)) for value, name in enumerate(names)}, tmp_path / "step_1"
    )
    with pytest.raises(
        DataError, match=rf"step_1 has H_init twice: as {names[0]} and as {names[1]}. Remove one of the two.$"
    ):
        read_official(tmp_path / "step_1")


def saved(**content):
    file = io.BytesIO()
    torch.save({"H_init": torch.zeros(100), **content}, file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("step_1", b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 123\n", "is a pointer of Git LFS .* `git lfs pull`"),
        ("w.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
        ("step_1", b"<!doctype html><html>", "is a web page, not the file itself. .* `resolve` in place of `blob`"),
        ("step_1", b"", "is empty. Download it again."),
        ("step_1", saved()[:700], "is damaged or truncated: it has 700 bytes. Download it again"),
        ("step_1", saved(more=torch.zeros(10_000))[:20_000], "is damaged or truncated: it has 20,000 bytes."),
        ("w.safetensors", safetensors_bytes({"a": torch.zeros(100)})[:200], "is damaged or truncated: it has 200 bytes."),
        ("step_1", saved(state=Stranger()), r"contains Python objects in addition to weights \(\S*Stranger\)\. .* torch.save\(network.state_dict"),
        *(("step_1", pickle.dumps({"a": [1, 2]}, protocol), "is a pickle that torch.save did not write.") for protocol in (2, 4, 5)),
        ("step_1", b"Not found", "is a text file, not a weight file: it begins with 'Not found'."),
        ("step_1", bytes(range(200, 256)), "is not a weight file: neither torch.save nor safetensors wrote it."),
    ],
)  # fmt: skip
def test_file_without_weights_is_named_without_torchs_advice(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"^[^\n\x1b]*{name} {message}[^\n\x1b]*$") as raised:
        read_official(tmp_path / name)
    assert "weights_only" not in str(raised.value)


@pytest.mark.parametrize("wrapper", ["ema", "ema.shadow"])
def test_a_second_copy_of_the_weights_is_named(tmp_path, capsys, wrapper):
    """The states of an optimizer and of generators of random numbers are no copies."""
    copy = {"module.H_init": torch.zeros(3)}
    state = {
        "model": {"H_init": torch.ones(3)},
        "ema": {"shadow": copy, "decay": 0.999} if wrapper == "ema.shadow" else copy,
        "optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"params": [0]}]},
        "rng": {"cpu": torch.zeros(3)},
    }
    torch.save(state, tmp_path / "step_1")

    assert read_official(tmp_path / "step_1")["H_init"].tolist() == [1, 1, 1]
    assert capsys.readouterr().out.endswith(
        "step_1 has weights under model and under ema. Those under model are read. To read others, save them to a separate file.\n"
    )


def test_safetensors_are_known_by_their_content(tmp_path):
    (tmp_path / "step_1").write_bytes(safetensors_bytes({"inner.H_init": torch.ones(3)}))
    assert read_official(tmp_path / "step_1")["H_init"].tolist() == [1, 1, 1]


def run_of(model, **train):
    return RunConfig(data=Sudoku(side=4), model=model, train=TrainConfig(**train))


@pytest.mark.parametrize("name", [*(name for name in TINY if name != "multi-scale z"), "six scales"])
def test_exported_official_weights_load_and_give_the_same_logits(name, tmp_path):
    """A network without a puzzle row comes back with a row of zeros."""
    model = TINY.get(name) or TINY["multi-scale z"].model_copy(
        update={"latent_steps": 6, "puzzle_emb": "none", "identifiers": 0}
    )
    config, data = run_of(model, evaluation_steps=3), Sudoku(side=4)
    network = random_network(model, data)
    arch = official_arch(config, model.family)
    state = to_official(network, network.state_dict())
    state.setdefault("puzzle_emb.weights", torch.zeros(1, model.width))
    torch.save({PREFIX + name: value for name, value in state.items()}, tmp_path / "step_1")
    (tmp_path / "all_config.yaml").write_text(yaml.safe_dump({"arch": arch}))

    weights, read = read_official(tmp_path / "step_1"), read_arch(tmp_path / "all_config.yaml", model.family)
    rebuilt = build(official_model(model.family, read, weights), data).eval()
    rebuilt.load_state_dict(from_official(rebuilt, weights, "step_1"))

    images = torch.randint(0, 6, (3, 1, 4, 4))
    with torch.no_grad():
        outputs = [net(images, net.start(images))[0] for net in (network, rebuilt)]
    assert torch.equal(outputs[0].logits, outputs[1].logits)
    assert torch.equal(outputs[0].halt, outputs[1].halt)
    assert read.halt_max_steps == 3


@refused(globals(), "model family", "a network that their code has not")
def test_a_network_that_their_code_has_not_is_not_written(model, family, message):
    with pytest.raises(ConfigError, match=message):
        official_arch(run_of(model), family)


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        (
            {"name": "recursive_reasoning.trm@Tiny"},
            r"arch.name is 'recursive_reasoning.trm@Tiny', but --as hrm reads hrm_act_v1",
        ),
        (
            {"adaptive_depth_controller": True},
            r"adaptive_depth_controller=True: recstudy's HRM has no such setting",
        ),
        (
            {"rope_theta": 500.0},
            r"arch.rope_theta must be 10000, the constant of recstudy's layers, but got 500.0",
        ),
        ({"halt_max_steps": 0}, r"arch: halt_max_steps must be greater than or equal to 1, but it is 0"),
        ({"pos_encodings": "none"}, r"arch.pos_encodings must be rope, learned, but got 'none'"),
        ("text", r"has no arch block of a model"),
        ({}, r"puzzle_emb.weights is missing, but must have the shape \(puzzles, 1 to 512\)"),
    ],
)
def test_an_arch_that_we_do_not_compute_is_one_line(arch, message, tmp_path):
    (tmp_path / "all_config.yaml").write_text(yaml.safe_dump({"arch": arch}))
    with pytest.raises((ConfigError, DataError), match=f"^[^\n]*{message}[^\n]*$"):
        official_model(
            "hrm",
            read_arch(tmp_path / "all_config.yaml", "hrm"),
            {"puzzle_emb.weights": torch.zeros(1, 512)} if arch else {},
        )
