"""A 1-D image tokenizer with TiTok's architecture: latent queries read the image and become codebook ids.

    s = LN([c + P_0; patches W + b + P; q + P_q])           class token, patches and K queries        (1)
    z = W_z LN(layers(s)_queries) + b_z,   z <- z / |z|     if codes are normalised                   (2)
    id = arg min_j |z - e_j|^2                              on the unit sphere: the nearest by cosine (3)
    r = z + sg(e_id - z)                                    straight-through; sg stops the gradient   (4)
    image = patches of W_d LN(layers(LN([m + P_d; W_r r + b_r + P_r]))) + b_d, its first N tokens     (5)
    L = MSE + w MSE of the differences of neighbouring pixels + |sg(z) - e|^2 + beta |z - sg(e)|^2    (6)

m is one mask token for every patch. A code that was not used for a long time is reset to a latent of the
batch (7).

A trained tokenizer is saved as one safetensors file. The entry `recstudy` of its header is JSON with the
format, the config, facts about the training, the data set, and the tokenizer's hash. The hash is that of the
config and the weights, and is recorded with every run that uses the tokenizer.

Shapes: B images, N patches, K latents, D width, E dimensions of a code, V codes.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.base.errors import DataError
from recstudy.base.values import canonical
from recstudy.programs.settings import configure
from recstudy.records.files import Json, write_whole
from recstudy.recursive.models.fuselip import VQ
from recstudy.recursive.models.networks.layers import ClipLayer, PatchEmbedding, init_as_clip, prepend
from recstudy.recursive.models.networks.weight_files import weight_bytes

DEAD = 0.1  # a code is dead if it is used less than this fraction of the even share 1/V
# The usage of a code after a reset: unused, it is dead again 69 batches later with a decay of 0.99.
NEW = 2 * DEAD
FORMAT = "vq-1"
KEY = "recstudy"


class Codes(NamedTuple):
    """The output of the quantiser."""

    ids: Tensor  # (B, K)
    straight: Tensor  # (B, K, E): the codes, with the gradient of the latents
    latents: Tensor  # (B, K, E), normalised if the codes are
    nearest: Tensor  # (B, K, E): the codes, with the gradient of the codebook


class TokenTransformer(nn.Module):
    """The layers of the encoder and of the decoder, with a norm before and after them."""

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config

    def add_layers(self) -> None:
        """Add the layers. The order of a subclass's parts decides their initial random numbers."""
        width = self.config.width
        self.norm_in, self.norm_out = nn.LayerNorm(width), nn.LayerNorm(width)
        self.layers = nn.Sequential(*(ClipLayer(width, self.config.heads) for _ in range(self.config.layers)))

    def transform(self, first_BSD: Tensor, last_BSD: Tensor, read: slice) -> Tensor:
        """Return LN(layers(LN([first; last]))) of the tokens that are read."""
        s_BSD = self.norm_in(torch.cat([first_BSD, last_BSD], dim=1))
        return self.norm_out(self.layers(s_BSD)[:, read])


class Encoder(TokenTransformer):
    """The encoder, Eqs. 1 and 2 without the normalisation."""

    def __init__(self, config: VQ) -> None:
        super().__init__(config)
        self.embed = PatchEmbedding(3, config.patch, config.width)
        self.class_token = random_parameter(1, config.width)
        self.places = random_parameter(config.patches + 1, config.width)
        self.queries, self.query_places = (random_parameter(config.codes, config.width) for _ in range(2))
        self.add_layers()
        self.project = nn.Linear(config.width, config.token_size)
        init_as_clip(self.layers)
        # With other patches, all images start and stay at the same codes: unit variance for pixels with a
        # standard deviation of 1/4, and mid-grey at 0.
        patch = self.embed.project
        nn.init.normal_(patch.weight, std=4 / math.sqrt(patch.weight[0].numel()))
        assert patch.bias is not None
        patch.bias.data = -patch.weight.data.sum((1, 2, 3)) / 2

    def forward(self, images: Tensor) -> Tensor:
        """Return the latents (B, K, E) of images (B, 3, size, size) with values from 0 to 1."""
        t_BND = self.embed(images)
        image_BSD = prepend(self.class_token, t_BND) + self.places
        queries_BKD = (self.queries + self.query_places).expand(len(images), -1, -1)
        # Eq. 1: class token, patches and latent queries.
        latents_BKD = self.transform(image_BSD, queries_BKD, slice(-self.config.codes, None))
        if self.config.legacy:  # TiTok-S-128 reshapes (K, D) to (D, K) without a transpose
            latents_BKD = latents_BKD.reshape(len(images), self.config.width, self.config.codes).transpose(
                1, 2
            )
        return self.project(latents_BKD)  # Eq. 2


class Quantiser(nn.Module):
    """The quantiser, Eqs. 2 to 4, with the usage of each code."""

    usage: Tensor  # (V,) moving average of each code's share

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config
        self.codebook = nn.Parameter(F.normalize(torch.randn(config.codebook, config.token_size), dim=-1))
        # 0, so that after the first batch all codes except its most used ones are reset to its latents (7).
        self.register_buffer("usage", torch.zeros(config.codebook), persistent=False)

    def forward(self, latents_BKE: Tensor) -> Codes:
        z_BKE, codebook_VE = self._scaled(latents_BKE.float()), self._scaled(self.codebook)
        # |z - e|^2 without |z|^2, which is the same for all codes.
        distances_BKV = codebook_VE.square().sum(-1) - 2 * z_BKE @ codebook_VE.T
        ids_BK = distances_BKV.argmin(-1)  # Eq. 3
        codes_BKE = codebook_VE[ids_BK]
        # Eq. 4: straight-through, the codes with the gradient of the latents.
        return Codes(ids_BK, z_BKE + (codes_BKE - z_BKE).detach(), z_BKE, codes_BKE)

    def _scaled(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) if self.config.normalised else x

    @torch.no_grad()
    def count_and_restart(self, codes: Codes, generator: torch.Generator) -> int:
        """Update the usage of the codes, and reset dead codes to latents of the batch (7).

        Args:
            codes: The codes of a batch.
            generator: The random generator that chooses the latents.

        Returns:
            The number of codes that were reset.
        """
        ids, latents_XE = codes.ids.flatten(), codes.latents.flatten(0, 1)
        share = torch.bincount(ids, minlength=len(self.usage)) / len(ids)
        self.usage.lerp_(share, 1 - self.config.usage_decay)
        dead = (self.usage < DEAD / len(self.usage)).nonzero().flatten()
        rows = torch.randint(len(latents_XE), (len(dead),), generator=generator).to(latents_XE.device)
        self.codebook[dead] = latents_XE[rows]  # (7)
        self.usage[dead] = NEW / len(self.usage)
        return len(dead)


class ImageTokenizer(nn.Module):
    """The part of the tokenizer that FuseLIP needs: images to ids."""

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.quantiser = Encoder(config), Quantiser(config)

    def forward(self, images: Tensor) -> Codes:
        return self.quantiser(self.encoder(images))


class Decoder(TokenTransformer):
    """The decoder, Eq. 5."""

    def __init__(self, config: VQ) -> None:
        super().__init__(config)
        self.embed = nn.Linear(config.token_size, config.width)
        self.mask_token = random_parameter(1, config.width)
        self.places = random_parameter(config.patches, config.width)
        self.code_places = random_parameter(config.codes, config.width)
        self.add_layers()
        self.pixels = nn.Linear(config.width, 3 * config.patch**2)
        init_as_clip(self.layers)

    def forward(self, codes_BKE: Tensor) -> Tensor:
        """Return images (B, 3, size, size) with values of about 0 to 1."""
        patches_BND = (self.mask_token + self.places).expand(len(codes_BKE), -1, -1)
        codes_BKD = self.embed(codes_BKE) + self.code_places
        patches_BND = self.transform(patches_BND, codes_BKD, slice(self.config.patches))
        side = self.config.size // self.config.patch  # in patches
        grid = self.pixels(patches_BND).transpose(1, 2).unflatten(2, (side, -1))
        return F.pixel_shuffle(grid, self.config.patch)  # Eq. 5


class VQNetwork(nn.Module):
    """The tokenizer and the decoder, which are trained together."""

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config
        self.tokenizer, self.decoder = ImageTokenizer(config), Decoder(config)

    def forward(self, images: Tensor) -> tuple[Tensor, Codes]:
        """Return the reconstructed images (B, 3, size, size), and the codes."""
        codes = self.tokenizer(images)
        return self.decoder(codes.straight), codes


def vq_loss(reconstruction: Tensor, images: Tensor, codes: Codes, config: VQ) -> Tensor:
    """Return the loss, Eq. 6, a scalar, for images with values from 0 to 1."""
    error = reconstruction - images
    # Eq. 6, term by term: neighbouring pixels, codes to latents, latents to codes.
    edges = error.diff(dim=-1).square().mean() + error.diff(dim=-2).square().mean()
    pull = F.mse_loss(codes.nearest, codes.latents.detach())
    commitment = F.mse_loss(codes.latents, codes.nearest.detach())
    return error.square().mean() + config.gradient_weight * edges + pull + config.commitment * commitment


def unit(images: Tensor) -> Tensor:
    """Scale 8-bit pixels to values from 0 to 1; return other images unchanged."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


def random_parameter(tokens: int, width: int) -> nn.Parameter:
    return nn.Parameter(width**-0.5 * torch.randn(tokens, width))  # as in TiTok


def save_tokenizer(network: VQNetwork, facts: Json, trained_on: str, path: Path) -> Json:
    """Write a trained tokenizer to a file and return the header's entry `recstudy`.

    Args:
        network: The tokenizer and its decoder.
        facts: Facts about the training.
        trained_on: The title of the data set.
        path: The file.

    Raises:
        StorageError: The file cannot be written.
    """
    weights = network.state_dict()
    header: Json = {
        "format": FORMAT,
        "title": f"{network.config.name} (trained by recstudy on {trained_on}; not TiTok; not ImageNet)",
        "trained_on": trained_on,
        "config": network.config.model_dump(mode="json"),
        "facts": facts,
        "hash": tokenizer_hash(network.config, weights),
    }
    write_whole(path, weight_bytes(weights, {KEY: json.dumps(header)}))
    return header


def load_tokenizer(path: Path) -> tuple[VQNetwork, Json]:
    """Load a tokenizer from a file.

    Returns:
        The network, and the header's entry `recstudy`.

    Raises:
        DataError: The file is missing or damaged, or is not a tokenizer.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    except (OSError, SafetensorError, ValueError) as error:
        raise DataError(f"{path} is damaged or missing ({error}). Train the tokenizer again.") from None
    if header.get("format") != FORMAT:
        raise DataError(
            f"{path} is not an image tokenizer of this version ({FORMAT}). Train the tokenizer again."
        )
    config = configure(VQ, header["config"], "tokenizer")
    if tokenizer_hash(config, weights) != header["hash"]:
        raise DataError(
            f"{path} is damaged: its weights do not match the hash in its header. Train the tokenizer again."
        )
    network = VQNetwork(config)
    network.load_state_dict(weights)
    return network, header


def tokenizer_hash(config: VQ, weights: dict[str, Tensor]) -> str:
    """Return 20 hex digits of the sha256 of the config and all weights."""
    digest = hashlib.sha256(canonical(config.model_dump(mode="json")).encode())
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:20]
