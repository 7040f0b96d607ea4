"""A model that is told the caption it is to write: shown with its name and its numbers, and compared with
nothing.
"""

import pytest
from made_up import caption_plan, captioned, finish, published_beside, read, write_caption_study

from recstudy import Search, Study, grid
from recstudy.base.errors import ConfigError
from recstudy.papers import published
from recstudy.programs.settings import Range
from recstudy.recursive import (
    VQ,
    Aligner,
    FuseLIP,
    FuseLIPBackboneConfig,
    ImageTRM,
    PhantomCaptions,
    RunConfig,
    TrainConfig,
)
from recstudy.report import Table
from recstudy.report.tables.render import csv_text
from recstudy.study.plan import make_plan
from recstudy.study.record import plan_record

ENCODER = FuseLIP(
    width=16, heads=2, layers=1, text_vocabulary=64, bos=1, eos=2, codes=16, codebook=256, context=64
)
ALIGNER = Aligner(encoder=ENCODER, tokenizer=VQ(codes=16, codebook=256, width=64, layers=2, heads=2))
ROCO = {"name": "rocov2", "size": 224, "length": 512, "limit": None}


def captioner(mode):
    return ImageTRM(
        backbone="fuselip",
        fuselip=FuseLIPBackboneConfig(aligner=ALIGNER, mode=mode),
        width=16,
        heads=2,
        layers=1,
    )


def config(mode):
    return RunConfig(data=PhantomCaptions(), model=captioner(mode), train=TrainConfig(epochs=1))


@pytest.fixture
def records(tmp_path):
    """The last of four models, a TRM, leaks; its CIDEr is the best by far."""
    chosen = caption_plan(data=ROCO)["variants"]
    chosen[3] |= {"label": "TRM, LEAKY", "leaks": True}
    results = write_caption_study(tmp_path / "r", variants=chosen, data=ROCO)
    for seed in range(2):
        finish(results, 3, seed, captioned(3.0 + 0.01 * seed, unavailable={}))
    return read(results)


def test_the_plan_says_who_leaks_and_its_label_does_too():
    study = Study(
        "s",
        {"quick": config("prefix_causal")},
        grid({"model.fuselip.mode": ["prefix_causal", "image_only", "leaky"]}),
        question="?",
    )

    variant_records = plan_record(make_plan(study)).variants

    assert [(variant.label, variant.leaks) for variant in variant_records] == [
        ("mode=prefix_causal", False),
        ("mode=image_only", False),
        ("mode=leaky, LEAKY", True),
    ]
    assert variant_records[2].model == "ImageTRM (FuseLIP on standin-vq, LEAKY)"


def test_no_published_number_compares_with_it_on_the_papers_own_data(records):
    data = Table("t", metrics=("rouge_l", "trained_params"), targets=published("000_table2_imagetrm")).cells(
        records
    )

    rouge = data.rows[3].cells[0]
    assert (*published_beside(rouge), rouge.reasons) == (
        "0.199",
        "not comparable",
        ("is given the caption that it must write",),
    )
    assert "not comparable,is given the caption that it must write" in csv_text(data)


def test_search_ranks_no_leaking_variant():
    message = r"ImageTRM \(FuseLIP on standin-vq, LEAKY\) cannot be searched, because its input contains"

    def search(mode, **ranges):
        return Search(
            "s",
            {"quick": [config(mode)]},
            ("train.batch_size", *ranges),
            ranges,
            {"gflops": "min"},
            question="?",
        )

    with pytest.raises(ConfigError, match=message):
        make_plan(search("leaky"))
    plan = make_plan(search("image_only", **{"model.fuselip.mode": Range(["image_only", "leaky"])}))
    with pytest.raises(ConfigError, match=message):
        plan.run(0, {"model.fuselip.mode": "leaky"})
