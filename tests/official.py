"""Networks whose weights stand in a file as HRM's and TRM's authors write it, by a mapping that is not
recstudy's.
"""

import torch

from recstudy.recursive import HRM, TRM
from recstudy.recursive.models.networks.contract import build

SMALL = {
    "tokens": "cell",
    "puzzle_emb": "puzzle",
    "identifiers": 2,
    "width": 8,
    "heads": 2,
    "multiple": 256,
    "expansion": 1,
}
TINY = {
    "HRM": HRM(**SMALL, high_layers=1, low_layers=2),
    "TRM-Att": TRM(**SMALL, layers=2, prefix=3, cycles=2, latent_steps=2),
    "TRM-MLP": TRM(**SMALL, layers=1, prefix=3, cycles=2, latent_steps=2, mixing="mlp"),
    "single z": TRM(**SMALL, layers=1, prefix=3, cycles=2, latent_steps=2, states="single"),
    "multi-scale z": TRM(
        **SMALL, layers=1, prefix=3, cycles=2, latent_steps=2, mixing="mlp", states="multi-scale"
    ),
    "learned": HRM(**SMALL, high_layers=1, low_layers=1, positions="learned"),
}
ARCH = {"H_cycles": 2, "L_cycles": 2, "hidden_size": 8, "num_heads": 2, "expansion": 1, "puzzle_emb_len": 3}


def random_network(model, data):
    """A network whose every weight, the puzzle rows and q_head among them, is a number of its own."""
    torch.manual_seed(0)
    network = build(model, data).eval()
    for name in ("puzzle", "q_head"):
        if getattr(network, name) is not None:
            torch.nn.init.normal_(getattr(network, name).weight)
    return network


def theirs(network, wrapped="_orig_mod.model.inner."):
    """The network's weights as the authors' trainer saves them."""
    state, tensors = network.state_dict(), {}
    for name in ("lm_head.weight", "q_head.weight", "q_head.bias"):
        tensors[name] = state[name.replace("lm_head", "answer")]
    tensors |= {
        "embed_tokens.embedding_weight": state["embed.weight"],
        "puzzle_emb.weights": state["puzzle.weight"],
    }
    states = getattr(network.config, "states", "")
    if states == "single":
        tensors |= {"L_init": state["core.z_high"]}
    elif states == "multi-scale":
        tensors |= {
            "H_init": state["core.z_high"],
            "L1_init": state["core.z_low"][:8],
            "L2_init": state["core.z_low"][8:],
        }
    else:
        tensors |= {"H_init": state["core.z_high"], "L_init": state["core.z_low"]}
    if "places" in state:
        tensors["embed_pos.embedding_weight"] = state["places"]
    levels = {"f_high": "H_level", "f_low": "L_level", "f": "L_level"}
    for level, stack in ((level, getattr(network.core, level, None)) for level in levels):
        for index, layer in enumerate(stack or ()):
            place = f"{levels[level]}.layers.{index}"
            for gated, part in (("mlp", layer.ffn), ("mlp_t", layer.mix)):
                if hasattr(part, "up"):
                    hidden = part.down.in_features
                    up_weight, gate = part.up.weight[:hidden], part.up.weight[hidden:]
                    tensors[f"{place}.{gated}.gate_up_proj.weight"] = torch.cat([gate, up_weight])
                    tensors[f"{place}.{gated}.down_proj.weight"] = part.down.weight
            if hasattr(layer.mix, "qkv"):
                tensors[f"{place}.self_attn.qkv_proj.weight"] = layer.mix.qkv.weight
                tensors[f"{place}.self_attn.o_proj.weight"] = layer.mix.out.weight
    return {f"{wrapped}{name}": weight.detach().clone() for name, weight in tensors.items()}
