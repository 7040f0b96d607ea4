"""Model families by name: what can be set. Importing this loads no torch; `config.build(...)` does."""

from recstudy.models.resnet import ResNet
from recstudy.models.vit import ViT
from recstudy.models.vitrm import ViTRM

__all__ = ["ResNet", "ViT", "ViTRM"]
