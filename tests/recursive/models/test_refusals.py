"""Settings of models that do not fit each other or the data are refused in one line when they are read."""

import pytest

from recstudy.base.errors import ConfigError
from recstudy.recursive import (
    HRM,
    TRM,
    VQ,
    CaptionTransformer,
    Digits,
    MicarVLMoE,
    PhantomCaptions,
    PhantomXray,
    RunConfig,
    ShowTell,
)
from recstudy.recursive.models.fuselip import FuseLIP

XRAYS, DIGITS, CAPTIONS = PhantomXray(size=32), Digits(), PhantomCaptions(size=64, length=8)
SMALL = {"width": 8, "heads": 2, "low_layers": 1, "high_layers": 1}
HALVES = {"head": "multilabel", "halves": "carry"}
TWO_STEPS = {"supervision_steps": 2, "evaluation_steps": 2}
MICAR = {
    "msve": "off",
    "tuned": False,
    "width": 16,
    "heads": 2,
    "latent": 24,
    "rope_dims": 4,
    "ffn_width": 24,
    "experts": 4,
}


@pytest.mark.parametrize(
    ("data", "model", "train", "message"),
    [
        (XRAYS, HRM(puzzle_emb="pathology_query"), {}, "leaks the label: the finding's id at the input is the answer"),
        (XRAYS, HRM(), {}, "model.head must be 'multilabel' for Phantom"),
        (XRAYS, HRM(head="multilabel", puzzle_emb="patient"), {}, "model.identifiers must be the number of patients"),
        (XRAYS, HRM(head="multilabel", identifiers=7), {}, "model.identifiers must be the number of patients"),
        (XRAYS, HRM(head="multilabel", width=24, heads=8), {}, r"must be even and not 0, but got 24 // 8 = 3"),
        (XRAYS, TRM(head="multilabel", tokens="patch", patch=32, halves="carry"), {}, "must divide the 32x16 pixels"),
        (XRAYS, HRM(**HALVES), {}, "must be above 1, the steps in which HRM has not seen the whole image"),
        (XRAYS, HRM(**HALVES, half_loss="both", half_steps=2), {"supervision_steps": 2, "evaluation_steps": 3},
         "must be above 2, the steps in which HRM has not seen the whole image, but got 2 and 3"),
        (XRAYS, HRM(**HALVES), TWO_STEPS | {"halting": "sample"},
         "train.halting must be 'batch' for HRM without a loss on the left half"),
        (XRAYS, HRM(head="multilabel"), {"loss": "stablemax"}, "is for one label an image or token"),
        (DIGITS, HRM(**SMALL, head="multilabel"), {}, r"model\.head must be 'single_token' for Digits"),
        (DIGITS, HRM(**SMALL, vocabulary=9), {}, "model.vocabulary must be at least 10, the number of classes of Digits"),
        (DIGITS, HRM(**SMALL), {"augment": {"mixup": 0.2}}, "mixup and cutmix must be 0 for HRM on pixel tokens"),
        (DIGITS, TRM(feedback=1.0), {}, r"model\.feedback must be 0 for Digits \(multiclass\), whose answers are no inputs"),
        (CAPTIONS, CaptionTransformer(heads=5), {}, "model.width must be a multiple of model.heads, but got 512 and 5"),
        (CAPTIONS, ShowTell(backbone="fuselip"), {}, "model.fuselip must be set with model.backbone 'fuselip'"),
        (CAPTIONS, MicarVLMoE(**MICAR | {"top_k": 5}), {}, "model.top_k must be at most model.experts, but got 5 of 4"),
        (CAPTIONS, MicarVLMoE(**MICAR | {"latent": 22}), {}, "model.latent must be a multiple of twice model.heads, .*got 22 and 2"),
        (CAPTIONS, MicarVLMoE(**MICAR | {"rope_dims": 3}), {}, "model.rope_dims must be even and at most 6, half of a head .*got 3"),
        (CAPTIONS, MicarVLMoE(**MICAR | {"rope_dims": 8}), {}, "model.rope_dims must be even and at most 6, half of a head .*got 8"),
        (CAPTIONS, MicarVLMoE(**MICAR | {"width": 20}), {}, "model.width and model.ffn_width must be multiples of 8, .*20 and 24"),
        (CAPTIONS, MicarVLMoE(**MICAR | {"msve": "pyramid"}), {}, "model.tuned must be true with model.msve 'pyramid', .* Set"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_model_refuses_data_that_does_not_fit(data, model, train, message):
    with pytest.raises(ConfigError, match=f"^[^\n]*{message}[^\n]*$"):
        RunConfig(data=data, model=model, train=train)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (VQ, {"patch": 7}, "patch must divide the image's 64x64 pixels, but got 7"),
        (FuseLIP, {"eos": 70_000}, "pad, bos and eos must be below text_vocabulary"),
        (
            FuseLIP,
            {"context": 4, "codes": 3},
            "context must be at least 5, for the 3 codes of an image and two tokens, but got 4",
        ),
    ],
)
def test_model_refuses_fields_that_do_not_fit_together(kind, fields, message):
    with pytest.raises(ConfigError, match=message):
        kind(**fields)
