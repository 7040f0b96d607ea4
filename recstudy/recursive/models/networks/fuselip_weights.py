"""Load the public weights of FuseLIP from a folder.

The folder has `config.json` and `pytorch_model.bin` or `model.safetensors`, with the weights of FuseLIP and
its TiTok. TiTok's encoder and codebook are read. Its decoder is not, because no image is reconstructed. Every
other key must be present and known, with the right shape; otherwise nothing is loaded. Pickled files are read
with `weights_only`, which executes nothing in them.
"""

from pathlib import Path

import torch

from recstudy.base.errors import ConfigError, DataError
from recstudy.records import read_json
from recstudy.recursive.models.fuselip import VQ, FuseLIP
from recstudy.recursive.models.networks.fuselip import FuseLIPNetwork
from recstudy.recursive.models.networks.vq import ImageTokenizer
from recstudy.recursive.models.networks.weight_files import check_weights, public_names, read_weights

# Pattern of recstudy's name -> public name. The rules in LAYERS are applied last.
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
TIED = "mask_prediction_head.decoder.weight"  # a second copy of the token embedding
CONVOLUTION = "image_tokenizer.model.encoder.conv_out.weight"
UNREAD = ("image_tokenizer.model.decoder.", "image_tokenizer.model.pixel_")  # TiTok's decoder to pixels


def load_public(config: FuseLIP, vq: VQ, folder: Path) -> tuple[FuseLIPNetwork, ImageTokenizer]:
    """Load FuseLIP and its image tokenizer with the weights of `folder`.

    Raises:
        ConfigError: `config` or `vq` does not describe the networks of the weights.
        DataError: A file is missing or damaged, or its weights are not exactly those of the networks.
    """
    _check(config, vq, folder)
    path = weight_file(folder)
    content = read_weights(path)
    tied = content.pop(TIED, None)
    weights = {name: value for name, value in content.items() if not name.startswith(UNREAD)}
    # TiTok's 1x1 convolution is a linear layer here.
    if CONVOLUTION in weights and weights[CONVOLUTION].shape[2:] == (1, 1):
        weights[CONVOLUTION] = weights[CONVOLUTION][:, :, 0, 0]
    network, tokenizer = FuseLIPNetwork(config), ImageTokenizer(vq)
    parts = (
        (network, public_names(network, ENCODER | LAYERS)),
        (tokenizer, public_names(tokenizer, TITOK | LAYERS)),
    )
    expected = {
        names[own_name]: value for part, names in parts for own_name, value in part.state_dict().items()
    }
    check_weights(path, "FuseLIP's weights", expected, weights)
    if tied is not None and not torch.equal(tied, weights["token_embedding.weight"]):
        raise DataError(
            f"{path}: {TIED} must equal token_embedding.weight, to which it is tied. Nothing was loaded."
        )
    for part, names in parts:
        part.load_state_dict({own_name: weights[name] for own_name, name in names.items()})
    return network, tokenizer


def _check(config: FuseLIP, vq: VQ, folder: Path) -> None:
    """Check that `config` and `vq` describe the networks of a folder's `config.json`.

    Raises:
        ConfigError: A setting differs.
        DataError: There is no `config.json`.
    """
    public = read_json(folder / "config.json")
    if public is None:
        raise DataError(
            f"{folder} has no config.json. Download the weights: `hf download chs20/FuseLIP-S-CC3M-MM"
            f" --local-dir {folder}`"
        )
    text = public.get("text_config", {})
    width, heads, layers = config.dimensions
    settings = {
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
    for setting, (theirs, ours) in settings.items():
        if theirs != ours:
            raise ConfigError(
                f"{folder / 'config.json'}: the {setting} is {theirs!r}, but the model has {ours!r}"
            )
    if (vq.codes, vq.codebook) != (config.codes, config.vocabulary - config.first_code):
        raise ConfigError(
            f"{config.title} needs {config.codes} codes per image from a codebook of"
            f" {config.vocabulary - config.first_code:,}, but {vq.name} has {vq.codes} codes from"
            f" {vq.codebook:,}"
        )


def weight_file(folder: Path) -> Path:
    """Return the weight file of a folder.

    Raises:
        DataError: There is none.
    """
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).exists():
            return folder / name
    raise DataError(f"{folder} has no model.safetensors or pytorch_model.bin. Download the weights again.")
