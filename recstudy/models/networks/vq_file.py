"""A trained image tokenizer as one safetensors file, with what it is and what it was trained on in the header.

The header's `recstudy` is JSON: the format, the config, the facts of the training, the data set, and the tokenizer's hash,
which is that of its config and weights and stands in the record of every run that uses it.
"""

import hashlib
import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from recstudy.config import canonical, configure
from recstudy.errors import DataError
from recstudy.models.networks.vq import VQNetwork
from recstudy.models.vq import VQ
from recstudy.records.files import Json, write_whole

FORMAT = "vq-1"
KEY = "recstudy"


def save_tokenizer(network: VQNetwork, facts: Json, trained_on: str, path: Path) -> Json:
    """Write the file and give its header. `trained_on` is the data set's title. Raises StorageError."""
    weights = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    header: Json = {
        "format": FORMAT,
        "title": f"{network.config.name} (trained by recstudy on {trained_on}; not TiTok; not ImageNet)",
        "trained_on": trained_on,
        "config": network.config.model_dump(mode="json"),
        "facts": facts,
        "hash": tokenizer_hash(network.config, weights),
    }
    write_whole(path, save(weights, metadata={KEY: json.dumps(header)}))
    return header


def load_tokenizer(path: Path) -> tuple[VQNetwork, Json]:
    """The network and the header.

    Raises:
        DataError: no such file, not a tokenizer's, or damaged.
    """
    header, weights = _read(path)
    config = configure(VQ, header["config"], "tokenizer")
    if tokenizer_hash(config, weights) != header["hash"]:
        raise DataError(f"{path} is damaged: its weights are not those its header names. Train the tokenizer again.")
    network = VQNetwork(config)
    network.load_state_dict(weights)
    return network, header


def tokenizer_hash(config: VQ, weights: dict[str, Tensor]) -> str:
    """20 hex digits over the config and every weight."""
    digest = hashlib.sha256(canonical(config.model_dump(mode="json")).encode())
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:20]


def _read(path: Path) -> tuple[Json, dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    except FileNotFoundError:
        raise DataError(f"no tokenizer at {path}. Train one with `recstudy tokenizer`.") from None
    except (SafetensorError, ValueError):
        raise DataError(f"{path} is damaged: it is not a safetensors file. Train the tokenizer again.") from None
    if header.get("format") != FORMAT:
        raise DataError(f"{path} holds no image tokenizer of this version ({FORMAT}). Train one with `recstudy tokenizer`.")
    return header, weights
