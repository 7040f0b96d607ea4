"""A 1-D image tokenizer in TiTok's shape: a few latent queries read the image and become ids of a codebook.

    s = LN([c + P_0; patches W + b + P; q + P_q])           class token, patches and K queries        (1)
    z = W_z LN(layers(s)_queries) + b_z,   z <- z / |z|     where codes are normalised                (2)
    id = arg min_j |z - e_j|^2                              on the unit sphere: the nearest by cosine (3)
    r = z + sg(e_id - z)                                    straight-through; sg stops the gradient   (4)
    image = patches of W_d LN(layers(LN([m + P_d; W_r r + b_r + P_r]))) + b_d, its first N tokens     (5)
    L = MSE + w MSE of the differences of neighbouring pixels + |sg(z) - e|^2 + beta |z - sg(e)|^2    (6)

m is one mask token for every patch. A code that has not been used for long starts again at a latent of the
batch (7).

A trained tokenizer is kept as one safetensors file, with what it is and what it was trained on in the header:
`recstudy` there is JSON: the format, the config, the facts of the training, the data set, and the tokenizer's
hash, which is that of its config and weights and stands in the record of every run that uses it.

Shapes: B images, N patches, K latents, D width, E dimensions of a code, V codes.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from recstudy.errors import DataError
from recstudy.models.fuselip import VQ
from recstudy.models.networks.layers import ClipLayer, PatchEmbedding, init_as_clip
from recstudy.programs.settings import canonical, configure
from recstudy.records.files import Json, write_whole

DEAD = 0.1  # of the even share 1/V: a code used less is dead
# the share of a code that starts again: with a decay of 0.99 it is dead 69 batches later, if unused
NEW = 2 * DEAD
FORMAT = "vq-1"
KEY = "recstudy"


class Codes(NamedTuple):
    """What the quantiser makes of latents."""

    ids: Tensor  # (B, K)
    straight: Tensor  # (B, K, E): the codes, with the latents' gradient
    latents: Tensor  # (B, K, E), normalised where codes are
    nearest: Tensor  # (B, K, E): the codes, with the codebook's gradient


class Encoder(nn.Module):
    """Equations (1)-(2) without the normalisation."""

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config
        self.embed = PatchEmbedding(3, config.patch, config.width)
        self.class_token = random_parameter(1, config.width)
        self.places = random_parameter(config.patches + 1, config.width)
        self.queries, self.query_places = (
            random_parameter(config.codes, config.width),
            random_parameter(config.codes, config.width),
        )
        self.norm_in, self.norm_out = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.layers = nn.Sequential(*(ClipLayer(config.width, config.heads) for _ in range(config.layers)))
        self.project = nn.Linear(config.width, config.token_size)
        self._draw()

    def _draw(self) -> None:
        """Draw CLIP's weights, and patches of unit size with mid-grey at 0: else all images begin and stay at
        the same codes.
        """
        init_as_clip(self.layers)
        patch = self.embed.project
        # for pixels of deviation 1/4
        nn.init.normal_(patch.weight, std=4 / math.sqrt(patch.weight[0].numel()))
        assert patch.bias is not None
        patch.bias.data = -patch.weight.data.sum((1, 2, 3)) / 2

    def forward(self, images: Tensor) -> Tensor:
        """Return latents (B, K, E) of images (B, 3, size, size) from 0 to 1."""
        t_BND = self.embed(images)
        image_BSD = torch.cat([self.class_token.expand(len(images), -1, -1), t_BND], dim=1) + self.places
        queries_BKD = (self.queries + self.query_places).expand(len(images), -1, -1)
        s_BSD = self.norm_in(torch.cat([image_BSD, queries_BKD], dim=1))  # (1)
        latents_BKD = self.norm_out(self.layers(s_BSD)[:, -self.config.codes :])
        if self.config.legacy:
            latents_BKD = latents_BKD.reshape(len(images), self.config.width, self.config.codes).transpose(
                1, 2
            )
        return self.project(latents_BKD)  # (2)


class Quantiser(nn.Module):
    """Equations (2)-(4), and how often each code is used."""

    usage: Tensor  # (V,) moving average of each code's share

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config
        self.codebook = nn.Parameter(F.normalize(torch.randn(config.codebook, config.token_size), dim=-1))
        # At 0, so that after the first batch all but its most used codes start at its latents.
        self.register_buffer("usage", torch.zeros(config.codebook), persistent=False)

    def forward(self, latents_BKE: Tensor) -> Codes:
        z_BKE, codebook_VE = self._scaled(latents_BKE.float()), self._scaled(self.codebook)
        # but for |z|^2, the same for all codes
        distances_BKV = codebook_VE.square().sum(-1) - 2 * z_BKE @ codebook_VE.T
        ids_BK = distances_BKV.argmin(-1)  # (3)
        codes_BKE = codebook_VE[ids_BK]
        return Codes(ids_BK, z_BKE + (codes_BKE - z_BKE).detach(), z_BKE, codes_BKE)  # (4)

    def _scaled(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) if self.config.normalised else x

    @torch.no_grad()
    def count_and_restart(self, codes: Codes, generator: torch.Generator) -> int:
        """Average the usage in, and (7): dead codes start again at latents of the batch. How many did."""
        ids, latents_XE = codes.ids.flatten(), codes.latents.flatten(0, 1)
        share = torch.bincount(ids, minlength=len(self.usage)) / len(ids)
        self.usage.lerp_(share, 1 - self.config.usage_decay)
        dead = (self.usage < DEAD / len(self.usage)).nonzero().flatten()
        drawn_rows = torch.randint(len(latents_XE), (len(dead),), generator=generator).to(latents_XE.device)
        self.codebook[dead] = latents_XE[drawn_rows]
        self.usage[dead] = NEW / len(self.usage)
        return len(dead)


class ImageTokenizer(nn.Module):
    """Images to ids: all that FuseLIP needs of a tokenizer."""

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.quantiser = Encoder(config), Quantiser(config)

    def forward(self, images: Tensor) -> Codes:
        return self.quantiser(self.encoder(images))


class Decoder(nn.Module):
    """Equation (5)."""

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Linear(config.token_size, config.width)
        self.mask_token = random_parameter(1, config.width)
        self.places, self.code_places = (
            random_parameter(config.patches, config.width),
            random_parameter(config.codes, config.width),
        )
        self.norm_in, self.norm_out = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.layers = nn.Sequential(*(ClipLayer(config.width, config.heads) for _ in range(config.layers)))
        self.pixels = nn.Linear(config.width, 3 * config.patch**2)
        init_as_clip(self.layers)

    def forward(self, codes_BKE: Tensor) -> Tensor:
        """Return images (B, 3, size, size), about from 0 to 1."""
        patches_BND = (self.mask_token + self.places).expand(len(codes_BKE), -1, -1)
        s_BSD = self.norm_in(torch.cat([patches_BND, self.embed(codes_BKE) + self.code_places], dim=1))
        read_BND = self.norm_out(self.layers(s_BSD)[:, : self.config.patches])
        grid = self.pixels(read_BND).transpose(1, 2).unflatten(2, (self.config.size // self.config.patch, -1))
        return F.pixel_shuffle(grid, self.config.patch)


class VQNetwork(nn.Module):
    """Tokenizer and decoder: what is trained together."""

    def __init__(self, config: VQ) -> None:
        super().__init__()
        self.config = config
        self.tokenizer, self.decoder = ImageTokenizer(config), Decoder(config)

    def forward(self, images: Tensor) -> tuple[Tensor, Codes]:
        """Return the images again (B, 3, size, size), and their codes."""
        codes = self.tokenizer(images)
        return self.decoder(codes.straight), codes


def vq_loss(reconstruction: Tensor, images: Tensor, codes: Codes, config: VQ) -> Tensor:
    """Equation (6), a number; images from 0 to 1."""
    error = reconstruction - images
    edges = error.diff(dim=-1).square().mean() + error.diff(dim=-2).square().mean()
    pull = F.mse_loss(codes.nearest, codes.latents.detach())
    commitment = F.mse_loss(codes.latents, codes.nearest.detach())
    return error.square().mean() + config.gradient_weight * edges + pull + config.commitment * commitment


def unit(images: Tensor) -> Tensor:
    """Return 8-bit pixels as numbers from 0 to 1; others as they are."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


def random_parameter(tokens: int, width: int) -> nn.Parameter:
    return nn.Parameter(width**-0.5 * torch.randn(tokens, width))  # as in TiTok


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
    """Load the network and the header.

    Raises:
        DataError: no such file, not a tokenizer's, or damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(KEY, "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    except (OSError, SafetensorError, ValueError) as error:
        raise DataError(f"{path} is damaged or missing ({error}). Train the tokenizer again.") from None
    if header.get("format") != FORMAT:
        raise DataError(f"{path} holds no image tokenizer of this version ({FORMAT}).")
    config = configure(VQ, header["config"], "tokenizer")
    if tokenizer_hash(config, weights) != header["hash"]:
        raise DataError(
            f"{path} is damaged: its weights are not those its header names. Train the tokenizer again."
        )
    network = VQNetwork(config)
    network.load_state_dict(weights)
    return network, header


def tokenizer_hash(config: VQ, weights: dict[str, Tensor]) -> str:
    """Return 20 hex digits over the config and every weight."""
    digest = hashlib.sha256(canonical(config.model_dump(mode="json")).encode())
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:20]
