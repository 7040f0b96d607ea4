"""Checkpoints under the authors' names: written by this file's own mapping, and computed by its own plain form of their nets."""

import pytest
import torch
import yaml
from official import ARCH, TINY, drawn, theirs
from torch.nn import functional as F

from recstudy.data import Sudoku
from recstudy.errors import ConfigError, DataError
from recstudy.models import HRM, TRM
from recstudy.models.networks.contract import build
from recstudy.models.networks.official_weights import from_official, official_model, read_arch, read_official

PUBLISHED = {
    "HRM": HRM(tokens="cell", puzzle_emb="puzzle", identifiers=1),
    "TRM-Att": TRM(tokens="cell", puzzle_emb="puzzle", identifiers=1),
    "TRM-MLP": TRM(tokens="cell", puzzle_emb="puzzle", identifiers=1, mixing="mlp"),
}
SIZES = {"HRM": 27e6, "TRM-Att": 7e6, "TRM-MLP": 5e6}  # as the papers have them


def plain(found, arch, tokens, ids, segments):
    """Their forward pass in float32, of weights by plain names: logits (B, S, V) and q (B, 2) after so many segments."""
    width, heads = arch["hidden_size"], arch["num_heads"]
    row = F.pad(found["puzzle_emb.weights"][ids], (0, arch["puzzle_emb_len"] * width - found["puzzle_emb.weights"].shape[1]))
    x = torch.cat([row.view(len(ids), -1, width), found["embed_tokens.embedding_weight"][tokens]], 1)
    if "embed_pos.embedding_weight" in found:
        x = 0.707106781 * (x + found["embed_pos.embedding_weight"])
    x = x * width**0.5
    angles = torch.outer(torch.arange(x.shape[1]), 10000.0 ** (-torch.arange(0, width // heads, 2) * heads / width)).repeat(1, 2)

    def rms(s):
        return s * (s.square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    def gated(s, place):
        gate, up = (s @ found[f"{place}.gate_up_proj.weight"].T).chunk(2, -1)
        return (F.silu(gate) * up) @ found[f"{place}.down_proj.weight"].T

    def turned(s):
        if "embed_pos.embedding_weight" in found:
            return s
        first, second = s.chunk(2, -1)
        return s * angles.cos()[:, None] + torch.cat([-second, first], -1) * angles.sin()[:, None]

    def attended(s, place):
        qkv = (s @ found[f"{place}.qkv_proj.weight"].T).unflatten(-1, (3 * heads, -1))
        q, k, v = turned(qkv[:, :, :heads]), turned(qkv[:, :, heads : 2 * heads]), qkv[:, :, 2 * heads :]
        weights = torch.einsum("bqhe,bkhe->bhqk", q, k).div((width // heads) ** 0.5).softmax(-1)
        return torch.einsum("bhqk,bkhe->bqhe", weights, v).flatten(2) @ found[f"{place}.o_proj.weight"].T

    def level(name, s):
        for at in range(sum(key.startswith(name) and key.endswith("mlp.down_proj.weight") for key in found)):
            place = f"{name}.layers.{at}"
            if f"{place}.mlp_t.down_proj.weight" in found:
                s = rms(s.mT + gated(s.mT, f"{place}.mlp_t")).mT
            else:
                s = rms(s + attended(s, f"{place}.self_attn"))
            s = rms(s + gated(s, f"{place}.mlp"))
        return s

    upper = "H_level" if any(key.startswith("H_level") for key in found) else "L_level"
    high, low = found["H_init"].expand_as(x), found["L_init"].expand_as(x)
    for _ in range(segments * arch["H_cycles"]):
        for _ in range(arch["L_cycles"]):
            low = level("L_level", low + high + x)
        high = level(upper, high + low)
    q = high[:, 0] @ found["q_head.weight"].T + found["q_head.bias"]
    return high[:, arch["puzzle_emb_len"] :] @ found["lm_head.weight"].T, q


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_of_the_published_size_come_back_under_the_authors_names(name, tmp_path):
    data = Sudoku(side=9)
    network, other = drawn(PUBLISHED[name], data), build(PUBLISHED[name], data).eval()
    file = theirs(network, "inner." if name == "HRM" else "module._orig_mod.model.inner.")
    torch.save({"model": file, "step": 3, "optimizers": []} if name == "HRM" else file, tmp_path / "step_65100")
    other.load_state_dict(from_official(other, read_official(tmp_path / "step_65100"), "step_65100"))

    assert sum(weight.numel() for weight in network.parameters()) == pytest.approx(SIZES[name], rel=0.05)
    assert all(torch.equal(mine, back) for mine, back in zip(network.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("name", TINY)
def test_the_authors_arithmetic_gives_the_same_from_the_same_file(name):
    """Two segments of a hand-written form of their nets: gate before up, queries before keys, a row padded over the prefix."""
    model, data = TINY[name], Sudoku(side=4)
    network = drawn(model, data)
    images, ids = torch.randint(0, 6, (3, 1, 4, 4)), torch.tensor([0, 1, 1])
    arch = ARCH | {"puzzle_emb_len": model.prefix}
    carry = network.start(images, ids)
    with torch.no_grad():
        logits, q = plain(theirs(network, ""), arch, images.flatten(1).long(), ids, segments=2)
        for _ in range(2):
            output, carry = network(images, carry)

    assert torch.allclose(output.logits, logits, atol=1e-4)
    assert torch.allclose(output.halt, q[:, 0], atol=1e-4)


@pytest.mark.parametrize(("name", "family"), [("HRM", "hrm"), ("learned", "hrm"), ("TRM-Att", "trm"), ("TRM-MLP", "trm")])
def test_the_arch_of_their_config_and_the_file_say_which_network_it_is(name, family, tmp_path):
    model = TINY[name].model_copy(update={"multiple": 256})
    arch = {**ARCH, "H_layers": getattr(model, "high_layers", 0), "puzzle_emb_len": model.prefix, "puzzle_emb_ndim": 8}
    arch |= {
        "L_layers": getattr(model, "low_layers", None) or model.layers,
        "mlp_t": model.mixing == "mlp",
        "loss": {"name": "ACT"},
    }
    arch["pos_encodings"] = {"learned": "learned", "TRM-MLP": "none"}.get(name, "rope")
    (tmp_path / "all_config.yaml").write_text(yaml.safe_dump({"arch": arch, "lr": 1e-4}))

    read = read_arch(tmp_path / "all_config.yaml", family)
    assert official_model(family, read, theirs(drawn(model, Sudoku(side=4)), "")) == model


@pytest.mark.parametrize(("name", "family"), [("HRM", "hrm"), ("TRM-Att", "trm")])
def test_without_a_config_the_authors_defaults_hold(name, family):
    assert official_model(family, read_arch(None, family), {"puzzle_emb.weights": torch.zeros(1, 512)}) == PUBLISHED[name]


def test_a_short_puzzle_row_is_filled_up_with_zeros():
    network = drawn(TINY["HRM"], Sudoku(side=4))
    file = theirs(network, "")
    file["puzzle_emb.weights"] = file["puzzle_emb.weights"][:, :5]

    row = from_official(network, file, "step_1")["puzzle.weight"]

    assert torch.equal(row, F.pad(file["puzzle_emb.weights"], (0, 3)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"L_init": None}, r"step_1 is not a checkpoint of HRM .*: 1 keys \(L_init\) missing, 0 keys unexpected"),
        ({"H_level.more": torch.zeros(1)}, r"0 keys missing, 1 keys \(H_level.more\) unexpected"),
        ({"lm_head.weight": torch.zeros(11, 8)}, r"step_1: lm_head.weight must be of shape \(6, 8\), but is \(11, 8\)"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(changes, message, tmp_path):
    network = drawn(TINY["HRM"], Sudoku(side=4))
    file = {name: value for name, value in (theirs(network, "") | changes).items() if value is not None}
    with pytest.raises(DataError, match=f"^[^\n]*{message}[^\n]*$"):
        from_official(network, file, "step_1")
    torch.save({"lr": 0.1}, tmp_path / "step_1")
    with pytest.raises(DataError, match=r"step_1 holds more than weights \(lr\)"):
        read_official(tmp_path / "step_1")
    (tmp_path / "step_1").write_bytes(b"nothing")
    with pytest.raises(DataError, match="step_1 cannot be read as weights"):
        read_official(tmp_path / "step_1")


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ({"name": "recursive_reasoning.trm@Tiny"}, r"arch.name is 'recursive_reasoning.trm@Tiny', but --as hrm reads hrm_act_v1"),
        ({"adaptive_depth_controller": True}, r"adaptive_depth_controller=True: our HRM has no such setting"),
        ({"rope_theta": 500.0}, r"arch: rope_theta must be .*10000.*, but it is 500.0"),
        ({"pos_encodings": "none"}, r"arch.pos_encodings must be rope, learned, but got 'none'"),
        ("text", r"has no arch of a model"),
        ({}, r"puzzle_emb.weights is missing, but must be \(puzzles, 1 to 512\)"),
    ],
)
def test_an_arch_that_we_do_not_compute_is_one_line(arch, message, tmp_path):
    (tmp_path / "all_config.yaml").write_text(yaml.safe_dump({"arch": arch}))
    with pytest.raises((ConfigError, DataError), match=f"^[^\n]*{message}[^\n]*$"):
        official_model(
            "hrm", read_arch(tmp_path / "all_config.yaml", "hrm"), {"puzzle_emb.weights": torch.zeros(1, 512)} if arch else {}
        )
