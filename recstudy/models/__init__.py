"""Model families by name: what can be set. Importing this loads no torch; `config.build(...)` does."""

from recstudy.models.arithmetic import parameter_growth
from recstudy.models.cnn import CNN
from recstudy.models.densenet import DenseNet
from recstudy.models.hrm import HRM
from recstudy.models.hrm_image import HRMImage
from recstudy.models.resnet import ResNet
from recstudy.models.trm import TRM
from recstudy.models.vit import ViT
from recstudy.models.vitrm import ViTRM

__all__ = ["CNN", "HRM", "TRM", "DenseNet", "HRMImage", "ResNet", "ViT", "ViTRM", "parameter_growth"]
