"""Report the precision of a run's matrix products and its MFU (model FLOPs utilisation).

The MFU is the training FLOP/s as a share of the card's peak. The FLOPs are those of the model as its paper
writes it (`recstudy.recursive.models.costs`), without recomputed or unused results. The seconds are those of
the training passes, with data loading and compilation.
"""

import re
from typing import Literal

import torch

Products = Literal["bfloat16", "tf32", "float32"]

# CUDA's name of a card (without NVIDIA, Tesla and GeForce) -> the maker's dense TFLOP/s in bfloat16, TF32 and
# float32. None: the card has no such units, or the number is not certain. Sparse numbers of a data sheet are
# halved. A part of a card (MIG) and variants with other clocks (RTX 4090 D, 4090 Laptop GPU, 3090 Ti, A10G)
# have other names, which are not listed.
PEAKS: dict[str, tuple[float | None, float | None, float | None]] = {
    "B200": (2250, None, None),  # HGX B200 data sheet, an eighth
    "H200": (989, 494, 67),  # H200 data sheet, SXM
    "H200 NVL": (835, 417, 60),  # H200 data sheet
    "H100 80GB HBM3": (989, 494, 67),  # H100 data sheet, SXM
    "H100 PCIe": (756, 378, 51),  # H100 PCIe data sheet
    "A100(-SXM4-[48]0GB|-PCIE-40GB| 80GB PCIe)": (312, 156, 19.5),  # A100 data sheet
    "L40S": (362, 183, 91.6),  # L40S data sheet
    "L4": (121, 60, 30.3),  # L4 data sheet
    "A10": (125, 62.5, 31.2),  # A10 data sheet
    "T4": (None, None, 8.1),  # T4 data sheet
    "V100-SXM2-(16|32)GB": (None, None, 15.7),  # V100 data sheet
    "V100-PCIE-(16|32)GB": (None, None, 14),  # V100 data sheet
    "RTX 4090": (165.2, 82.6, 82.6),  # white paper of the Ada architecture, sums in float32
    "RTX 3090": (71, 35.6, 35.6),  # white paper of the GA102 architecture, sums in float32
}


def products(precision: str) -> Products:
    """Return the precision of matrix products with this `train.precision` and torch's current settings."""
    if precision == "bfloat16":
        return "bfloat16"
    return "float32" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def products_in_words(precision: str, device: torch.device) -> str:
    """Return the precision in words, on CUDA with the use of TF32 for float32 products and convolutions."""
    if device.type != "cuda":
        return products(precision)
    products_have = torch.get_float32_matmul_precision() != "highest"
    convolutions_have = torch.backends.cudnn.allow_tf32
    uses = [word for word, has in (("products", products_have), ("convolutions", convolutions_have)) if has]
    tf32 = f"TF32 in {' and '.join(uses)}" if uses else "no TF32"
    return f"bfloat16, the rest float32 ({tf32})" if precision == "bfloat16" else f"float32 ({tf32})"


def peak_tflops(card: str, kind: Products) -> float | None:
    """Return a card's dense peak in TFLOP/s; None for a card or precision that is not in `PEAKS`."""
    name = re.sub("NVIDIA |Tesla |GeForce ", "", card)
    matches = [peaks for pattern, peaks in PEAKS.items() if re.fullmatch(pattern, name)]
    if not matches:
        return None
    return dict(zip(("bfloat16", "tf32", "float32"), matches[0], strict=True))[kind]


def mfu(pflop: float, card_seconds: float, card: str, kind: Products) -> float | None:
    """Return the training FLOP/s of a card, in percent of its peak.

    Args:
        pflop: PFLOP of all training.
        card_seconds: Seconds of the training passes, summed over the cards.
        card: CUDA's name of the card; empty on a CPU.
        kind: The precision of the matrix products.

    Returns:
        The MFU in percent; None if nothing was trained or the peak is unknown.

    Examples:
        >>> mfu(98.9, 200, "NVIDIA H200", "bfloat16")
        50.0
    """
    peak = peak_tflops(card, kind)
    return 100 * pflop * 1e3 / card_seconds / peak if peak and card_seconds else None
