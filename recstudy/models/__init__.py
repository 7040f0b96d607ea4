"""Model families by name: what can be set. Importing this loads no torch; `config.build(...)` does."""

from recstudy.models.aligner import Aligner
from recstudy.models.arithmetic import parameter_growth
from recstudy.models.backbone import FuseEyes
from recstudy.models.caption_transformer import CaptionTransformer
from recstudy.models.cnn import CNN
from recstudy.models.densenet import DenseNet
from recstudy.models.fuselip import FuseLIP
from recstudy.models.hrm import HRM
from recstudy.models.hrm_image import HRMImage
from recstudy.models.image_hrm import ImageHRM
from recstudy.models.image_lstm import ImageLSTM
from recstudy.models.image_trm import ImageTRM
from recstudy.models.micar import MicarVLMoE
from recstudy.models.r2gen import R2Gen
from recstudy.models.resnet import ResNet
from recstudy.models.show_attend_tell import ShowAttendTell
from recstudy.models.show_tell import ShowTell
from recstudy.models.transformer import Transformer
from recstudy.models.trm import TRM
from recstudy.models.vit import ViT
from recstudy.models.vitrm import ViTRM
from recstudy.models.vq import VQ

__all__ = [
    "CNN", "HRM", "TRM", "VQ", "Aligner", "CaptionTransformer", "DenseNet", "FuseEyes", "FuseLIP", "HRMImage", "ImageHRM",
    "ImageLSTM", "ImageTRM", "MicarVLMoE", "R2Gen", "ResNet", "ShowAttendTell", "ShowTell", "Transformer", "ViT", "ViTRM",
    "parameter_growth",
]  # fmt: skip
