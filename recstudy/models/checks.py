"""Bounds between fields that several families share."""

from recstudy.config import Shape


def patches_and_heads(shape: Shape, patch: int, width: int, heads: int) -> None:
    """Refuse patches that do not tile the image and heads that do not divide the width."""
    if width % heads:
        raise ValueError(f"model.width must be a multiple of model.heads, but got {width} and {heads}")
    if shape[1] % patch or shape[2] % patch:
        raise ValueError(f"model.patch must divide the image's {shape[1]}x{shape[2]} pixels, but got {patch}")
