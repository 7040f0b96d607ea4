"""How well an image tokenizer does: what its codes keep of an image, and how many of them it uses."""

import torch
from torch import Tensor


def psnr(drawn_again: Tensor, images: Tensor) -> float:
    """Peak signal-to-noise ratio in dB of images (N, ...) from 0 to 1: 10 log10(1 / MSE) of each, then the mean.

    What is outside of 0 to 1 is cut off first, as a screen does.
    """
    errors_N = (drawn_again.double().clamp(0, 1) - images.double()).square().flatten(1).mean(1)
    return (-10 * errors_N.clamp(min=1e-12).log10()).mean().item()  # 120 dB where nothing is lost


def codebook_use(ids: Tensor, codebook: int) -> dict[str, float]:
    """Of `ids` (N, K): `used_percent` of the codebook's codes, and `perplexity`, as many codes as evenly used would be."""
    counts_V = torch.bincount(ids.flatten(), minlength=codebook).double()
    shares = counts_V[counts_V > 0] / counts_V.sum()
    return {
        "used_percent": 100 * len(shares) / codebook,
        "perplexity": (-(shares * shares.log()).sum()).exp().item(),
    }
