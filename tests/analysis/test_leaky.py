"""A model that is told the caption it is to write: shown with its name and its numbers, and compared with nothing."""

import pytest
from made_up import TABLE1, as_result, beside, caption_plan, captioned, run_id, write_caption_study, write_study
from made_up import variants as models_by_batch

from recstudy import RunConfig, Search, Study, TrainConfig, grid
from recstudy.analysis import Curve, Pareto, Table
from recstudy.analysis.figures.curve import curve_data, curve_notes
from recstudy.analysis.figures.learning import shown_variants
from recstudy.analysis.frame import load_study
from recstudy.analysis.search import pareto_data, pareto_notes
from recstudy.analysis.tables.render import csv_text, table_shown
from recstudy.analysis.tables.table import table_data
from recstudy.config.tunable import Tunable
from recstudy.data import PhantomCaptions
from recstudy.errors import ConfigError
from recstudy.models import VQ, Aligner, FuseLIP, FuseLIPBackboneConfig, ImageTRM
from recstudy.papers import published
from recstudy.study.plan import plan_record
from recstudy.study.search_making import make_search
from recstudy.study.study import make_plan

NEVER = "never compared, because it is told the caption it is to write: TRM, LEAKY"
ENCODER = FuseLIP(width=16, heads=2, layers=1, text_vocabulary=64, bos=1, eos=2, codes=16, codebook=256, context=64)
ALIGNER = Aligner(encoder=ENCODER, tokenizer=VQ(codes=16, codebook=256, width=64, layers=2, heads=2))
ROCO = {"name": "rocov2", "size": 224, "length": 512, "limit": None}


def captioner(mode):
    return ImageTRM(backbone="fuselip", fuselip=FuseLIPBackboneConfig(aligner=ALIGNER, mode=mode), width=16, heads=2, layers=1)


def config(mode):
    return RunConfig(data=PhantomCaptions(), model=captioner(mode), train=TrainConfig(epochs=1))


@pytest.fixture
def records(tmp_path):
    """The last of four models, a TRM, leaks; its CIDEr is the best by far."""
    made = caption_plan(data=ROCO)["variants"]
    made[3] |= {"label": "TRM, LEAKY", "leaks": True}
    results = write_caption_study(tmp_path / "r", variants=made, data=ROCO)
    for seed in range(2):
        results.run(run_id(3, seed)).finish(as_result(captioned(3.0 + 0.01 * seed, unavailable={})))
    return load_study(results, "made_up", "paper")


def test_the_plan_says_who_leaks_and_its_label_does_too():
    study = Study(
        "s",
        {"quick": config("prefix_causal")},
        grid({"model.fuselip.mode": ["prefix_causal", "image_only", "leaky"]}),
        question="?",
    )

    made = plan_record(make_plan(study)).variants

    assert [(variant.label, variant.leaks) for variant in made] == [
        ("mode=prefix_causal", False),
        ("mode=image_only", False),
        ("mode=leaky, LEAKY", True),
    ]
    assert made[2].model == "ImageTRM (FuseLIP on standin-vq, LEAKY)"


def test_a_label_that_says_so_already_stays():
    levels = {"TRM": {"model": captioner("prefix_causal")}, "TRM, LEAKY": {"model": captioner("leaky")}}
    study = Study("s", {"quick": config("prefix_causal")}, grid({"model": levels}), question="?")

    assert [made.label for made in plan_record(make_plan(study)).variants] == ["model=TRM", "model=TRM, LEAKY"]


def test_its_row_is_shown_and_never_the_best(records):
    data = table_data(records, Table("t", metrics=("cider", "rouge_l")))

    assert [row.label for row in data.rows if row.cells[0].best] == ["HRM, three loops"]
    assert (data.rows[3].label, round(data.rows[3].cells[0].value, 3)) == ("TRM, LEAKY", 3.005)
    assert NEVER in data.warnings
    assert NEVER in table_shown(data).markdown


def test_where_metrics_stand_in_rows_neither(records):
    data = table_data(records, Table("t", metrics=("cider",), across=True))

    assert [cell.best for cell in data.rows[0].cells] == [False, False, True, False]


def test_no_published_number_compares_with_it_on_the_papers_own_data(records):
    data = table_data(records, Table("t", metrics=("rouge_l", "trained_params"), targets=published("000_table2_imagetrm")))

    rouge = data.rows[3].cells[0]
    assert (*beside(rouge), rouge.reasons) == ("0.199", "not comparable", ("is told the caption it is to write",))
    assert "not comparable,is told the caption it is to write" in csv_text(data)


def test_no_mean_of_a_crossed_table_or_a_curve_takes_it_in(tmp_path):
    made = models_by_batch()
    made[0]["leaks"] = True  # ViTRM at batch 64
    records = load_study(write_study(tmp_path / "r", variants=made), "made_up", "paper")

    table = table_data(records, Table("t", rows="model", columns="batch_size", targets=TABLE1))
    spec = Curve("c", x="batch_size", y="top1_accuracy", by="model", targets=TABLE1)
    curve = curve_data(records, spec)

    assert [cell.n for cell in table.rows[0].cells[:2]] == [2, 0]  # batch 128 comes first now
    left = "left out, because it is told the caption it is to write: ViTRM, batch_size=64"
    assert left in table.warnings
    assert left in curve_notes(records, spec, curve)
    assert curve[(curve["line"] == "ViTRM") & ~curve["published"].astype(bool)]["x"].tolist() == [128]


def test_it_is_on_no_front(records):
    data = pareto_data(records, Pareto(x="trained_params", y="cider"))

    assert dict(zip(data["label"], data["front"], strict=True)) == {
        "LSTM": False,
        "HRM, two loops": False,
        "HRM, three loops": True,
        "TRM, LEAKY": False,
    }
    assert NEVER in pareto_notes(records, Pareto(y="cider"))


def test_where_only_the_best_are_shown_it_comes_last(records):
    assert shown_variants(records, 3) == [0, 1, 2]
    assert shown_variants(records, 4) == [0, 1, 2, 3]


def test_no_search_ranks_it():
    told = r"a search compares, and ImageTRM \(FuseLIP on standin-vq, LEAKY\) is told the caption it is to write"

    def search(mode, **ranges):
        return Search("s", {"quick": [config(mode)]}, ("train.batch_size", *ranges), ranges, {"gflops": "min"}, question="?")

    with pytest.raises(ConfigError, match=told):
        make_search(search("leaky"))
    plan = make_search(search("image_only", **{"model.fuselip.mode": Tunable(["image_only", "leaky"])}))
    with pytest.raises(ConfigError, match=told):
        plan.config({"model.fuselip.mode": "leaky"})
