"""Load the public weights of FuseLIP from a folder.

The folder has `config.json` and `pytorch_model.bin` or `model.safetensors`, with the weights of FuseLIP and
its TiTok. TiTok's encoder and codebook are read. Its decoder is not, because no image is reconstructed. Every
other key must be present and known, with the right shape; otherwise nothing is loaded. Pickled files are read
with `weights_only`, which executes nothing in them.
"""

from collections.abc import Callable
from pathlib import Path

import torch

from recstudy.base.errors import ConfigError, DataError
from recstudy.programs.settings import Config
from recstudy.records import Json, read_json
from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.data.text import CLIP_BOS, CLIP_EOS, CLIP_VOCABULARY
from recstudy.recursive.models.caption import aligner_of
from recstudy.recursive.models.fuselip import PUBLIC_TOKENIZERS, Aligner
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
MASK_HEAD = "mask_prediction_head."  # not needed without masked modelling
TIED = f"{MASK_HEAD}decoder.weight"  # a second copy of the token embedding
CONVOLUTION = "image_tokenizer.model.encoder.conv_out.weight"
# That copy, and TiTok's decoder to pixels.
UNREAD = (TIED, "image_tokenizer.model.decoder.", "image_tokenizer.model.pixel_")


class MissingWeights(DataError):
    """The folder of public weights lacks a file."""


def load_public(
    config: RunConfig, data_folder: Path, read: Callable[..., dict[str, torch.Tensor]] = read_weights
) -> tuple[FuseLIPNetwork, ImageTokenizer]:
    """Load FuseLIP and its image tokenizer with the public weights that a run's settings name.

    Args:
        config: The config of an aligner, or of a captioner with one.
        data_folder: The folder to which the path of the weights is relative.
        read: Reads the weight file.

    Raises:
        ConfigError: The settings do not describe the networks of the weights.
        DataError: A file is missing or damaged, or its weights are not exactly those of the networks.
    """
    aligner, prefix, codes = aligner_of(config.model)
    assert aligner is not None
    path = weight_file(data_folder / aligner.files)
    fix = _differing_settings(path, config.data, aligner, prefix, codes)
    content = read(path)
    tied = content.get(TIED)
    unread = UNREAD if aligner.encoder.mask_rate else (*UNREAD, MASK_HEAD)
    weights = {name: value for name, value in content.items() if not name.startswith(unread)}
    # TiTok's 1x1 convolution is a linear layer here.
    if CONVOLUTION in weights and weights[CONVOLUTION].shape[2:] == (1, 1):
        weights[CONVOLUTION] = weights[CONVOLUTION][:, :, 0, 0]
    network, tokenizer = FuseLIPNetwork(aligner.encoder), ImageTokenizer(aligner.tokenizer)
    parts = (
        (network, public_names(network, ENCODER | LAYERS)),
        (tokenizer, public_names(tokenizer, TITOK | LAYERS)),
    )
    expected = {
        names[own_name]: value for part, names in parts for own_name, value in part.state_dict().items()
    }
    check_weights(path, f"{aligner.title} as set here", expected, weights, fix)
    if fix:
        raise ConfigError(f"{path.with_name('config.json')} differs from the model.{fix}")
    if tied is not None and not torch.equal(tied, weights["token_embedding.weight"]):
        raise DataError(
            f"{path}: {TIED} must equal token_embedding.weight, to which it is tied. Nothing was loaded."
        )
    for part, names in parts:
        part.load_state_dict({own_name: weights[name] for own_name, name in names.items()})
    return network, tokenizer


def _differing_settings(path: Path, data: DataConfig, aligner: Aligner, prefix: str, codes: int) -> str:
    """Return the settings that public weights need and a run does not have, as a sentence.

    Args:
        path: The weight file, next to its `config.json`.
        data: The settings of the run's data.
        aligner: The settings of the encoder and of the image tokenizer.
        prefix: The path of these settings.
        codes: Number of codes of an image that are read with a caption.

    Raises:
        ConfigError: FuseLIP here lacks a part of the networks, or captions are longer than their context.
    """
    file = path.with_name("config.json")
    public = read_json(file) or {}
    for field, required in (("use_eoi", False), ("mask_pad", True)):
        if public.get(field) != required:
            raise ConfigError(f"{file}: {field} must be {required}, but is {public.get(field)}")
    encoder, tokenizer = aligner.encoder, aligner.tokenizer
    text, context = public.get("text_config", {}), public.get("context_length", 0)
    name = str(public.get("image_tokenizer")).rsplit("/", 1)[-1]
    vq = PUBLIC_TOKENIZERS.get(name, tokenizer.model_copy(update={"name": name}))
    sizes = ("width", "heads", "layers")
    own_sizes = dict(zip(sizes, encoder.dimensions, strict=True))
    encoder = encoder.model_copy(update=own_sizes | {"codebook": encoder.vocabulary - encoder.first_code})
    words = text.get("vocab_size", 0) - vq.codebook - 1  # without [MASK]
    captions: Json = {"length": min(data.tokens, context - codes), "size": vq.size}
    ids: Json = {"text_vocabulary": words, "pad": text.get("pad_id")}
    if words == CLIP_VOCABULARY:
        captions |= {"tokenizer": "clip"}
        ids |= {"bos": CLIP_BOS, "eos": CLIP_EOS}
    shapes = {"context": context, "codes": vq.codes, "codebook": vq.codebook}
    needed_settings: tuple[tuple[str, Config, Json], ...] = (
        ("data.", data, captions),
        (f"{prefix}encoder.", encoder, ids | shapes | {name: text.get(name) for name in sizes}),
        (f"{prefix}tokenizer.", tokenizer, dict(vq)),
    )
    changes = [
        f"{part}{name}={value}"
        for part, own_config, values in needed_settings
        for name, value in values.items()
        if getattr(own_config, name) != value
    ]
    fix = f" Set {' '.join(changes)}" if changes else ""
    if data.tokens + codes > context:
        image_codes = f" and {codes} codes of the image" if codes else ""
        raise ConfigError(
            f"{path}: positional_embedding has {context} positions, but {data.tokens} tokens of"
            f" data.length{image_codes} need {data.tokens + codes}.{fix}"
        )
    return fix


def weight_file(folder: Path) -> Path:
    """Return the weight file of a folder.

    Raises:
        MissingWeights: It is missing, or `config.json` is.
    """
    names = ("model.safetensors", "pytorch_model.bin")
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path and (folder / "config.json").is_file():
        return path
    missing_names = " or ".join(names) if path is None else "config.json"
    raise MissingWeights(
        f"FuseLIP's weights not found: {folder} has no {missing_names}. Download them: `hf download"
        f" chs20/FuseLIP-S-CC3M-MM --local-dir {folder}`, or set model.files"
    )
