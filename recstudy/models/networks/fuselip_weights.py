"""The public weights of FuseLIP, from a folder with `config.json` and `pytorch_model.bin` or
`model.safetensors`.

They hold FuseLIP and its TiTok. Of TiTok the encoder and the codebook are read; its decoder is not, because
no image is drawn again. Every other key must be there and be known, with its shape: nothing is loaded in
part. Pickled files are read with `weights_only`, so that nothing in them is executed.
"""

import hashlib
from pathlib import Path

import torch

from recstudy.errors import ConfigError, DataError
from recstudy.models.fuselip import VQ, FuseLIP
from recstudy.models.networks.fuselip import FuseLIPNetwork
from recstudy.models.networks.vq import ImageTokenizer
from recstudy.models.networks.weight_files import check_names, check_shape, public_names, read_weights
from recstudy.records import read_json

# Our names to the public ones, by pattern; LAYERS come last.
LAYERS = {
    r"\.norm([12])\.": r".ln_\1.",
    r"\.qkv\.": ".attn.in_proj_",
    r"\.out\.": ".attn.out_proj.",
    r"\.ffn\.up\.": ".mlp.c_fc.",
    r"\.ffn\.down\.": ".mlp.c_proj.",
}
ENCODER = {
    r"^embed\.": "token_embedding.",
    r"^places$": "positional_embedding",
    r"^layers\.": "transformer.resblocks.",
    r"^norm\.": "ln_final.",
    r"^log_scale$": "logit_scale",
    r"^bias$": "logit_bias",
    r"^mask_head\.norm\.": "mask_prediction_head.layer_norm.",
    r"^mask_head\.": "mask_prediction_head.",
}
TITOK = {
    r"^quantiser\.codebook$": "quantize.embedding.weight",
    r"^encoder\.queries$": "latent_tokens",
    r"^encoder\.embed\.project\.": "encoder.patch_embed.",
    r"^encoder\.class_token$": "encoder.class_embedding",
    r"^encoder\.places$": "encoder.positional_embedding",
    r"^encoder\.query_places$": "encoder.latent_token_positional_embedding",
    r"^encoder\.norm_in\.": "encoder.ln_pre.",
    r"^encoder\.norm_out\.": "encoder.ln_post.",
    r"^encoder\.layers\.": "encoder.transformer.",
    r"^encoder\.project\.": "encoder.conv_out.",
    r"^": "image_tokenizer.model.",
}
TIED = "mask_prediction_head.decoder.weight"  # the token embedding, a second time
UNREAD = ("image_tokenizer.model.decoder.", "image_tokenizer.model.pixel_")  # TiTok's way back to pixels


def load_public(config: FuseLIP, vq: VQ, folder: Path) -> tuple[FuseLIPNetwork, ImageTokenizer]:
    """Load FuseLIP and its image tokenizer with the weights of `folder`.

    Raises:
        ConfigError: `config` or `vq` is not what the weights were made for.
        DataError: files that are missing, damaged, or not exactly these networks' weights.
    """
    _check(config, vq, folder)
    path = _file(folder)
    found = read_weights(path)
    network, tokenizer = FuseLIPNetwork(config), ImageTokenizer(vq)
    names = [
        (part, public_names(part, {**rules, **LAYERS}))
        for part, rules in ((network, ENCODER), (tokenizer, TITOK))
    ]
    wanted = [public for _, table in names for public in table.values()]
    check_names(
        path,
        "FuseLIP's weights",
        wanted,
        [key for key in found if key != TIED and not key.startswith(UNREAD)],
    )
    if TIED in found and not torch.equal(found[TIED], found["token_embedding.weight"]):
        raise DataError(
            f"{path}: {TIED} must equal token_embedding.weight, to which it is tied. Nothing was loaded."
        )
    for part, table in names:
        weights = {}
        for own, value in part.state_dict().items():
            public = found[table[own]]
            if own == "encoder.project.weight" and public.shape[2:] == (1, 1):
                public = public[:, :, 0, 0]  # a 1x1 convolution over one column is a linear layer
            check_shape(path, table[own], value, public)
            weights[own] = public
        part.load_state_dict(weights)
    return network, tokenizer


def _check(config: FuseLIP, vq: VQ, folder: Path) -> None:
    """Refuse configs that differ from `config.json`, and a tokenizer that differs from FuseLIP's."""
    public = read_json(folder / "config.json")
    if public is None:
        raise DataError(
            f"no config.json in {folder}. Download the weights: `hf download chs20/FuseLIP-S-CC3M-MM"
            f" --local-dir {folder}`"
        )
    text = public.get("text_config", {})
    width, heads, layers = config.dimensions
    stated = {
        "vocabulary": (text.get("vocab_size"), config.vocabulary),
        "context": (public.get("context_length"), config.context),
        "width": (text.get("width"), width),
        "heads": (text.get("heads"), heads),
        "layers": (text.get("layers"), layers),
        "padding id": (text.get("pad_id"), config.pad),
        "image tokenizer": (str(public.get("image_tokenizer")).rsplit("/", 1)[-1], vq.name),
        "end-of-image token": (public.get("use_eoi"), False),
        "masking of padding": (public.get("mask_pad"), True),
    }
    for what, (theirs, ours) in stated.items():
        if theirs != ours:
            raise ConfigError(
                f"{folder / 'config.json'}: the {what} is {theirs!r}, but the model's is {ours!r}"
            )
    if (vq.codes, vq.codebook) != (config.codes, config.vocabulary - config.first_code):
        raise ConfigError(
            f"{config.title} needs {config.codes} codes an image of"
            f" {config.vocabulary - config.first_code:,}, but {vq.name} gives {vq.codes} of {vq.codebook:,}"
        )


def public_hash(folder: Path) -> str:
    """Return 20 hex digits over the file of weights. Raises DataError where there is none."""
    with open(_file(folder), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:20]


def _file(folder: Path) -> Path:
    paths = [folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).exists()]
    if not paths:
        raise DataError(f"no model.safetensors or pytorch_model.bin in {folder}. Download the weights again.")
    return paths[0]
