"""Published numbers, what names them, what replicated them, and deviations that several studies share."""

import csv
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from recstudy import Deviation, deviations
from recstudy.base.errors import ConfigError
from recstudy.papers import by_name, cite_item, papers, passage, published, rows
from recstudy.papers import settings as papers_settings
from recstudy.papers.replications import CELLS, replications
from recstudy.recursive import (
    FAMILIES,
    Cifar10,
    Cifar100,
    FuseLIPBackboneConfig,
    MicarVLMoE,
    ResNet,
    RunConfig,
    ViT,
    ViTRM,
)
from recstudy.recursive.models.costs import cost
from recstudy.report.audit import contradictions

PAPERS = files("recstudy").joinpath("recursive/papers")
MODELS = {
    "ViTRM": ViTRM(),
    "ViT-Small": ViT(),
    "ViT-Base": ViT(size="base"),
    "ViT-Large": ViT(size="large"),
    "ResNet-18": ResNet(),
    "ResNet-34": ResNet(depth=34),
    "ResNet-50": ResNet(depth=50),
}


def test_targets_carry_source_and_setting():
    target = published("002_table1_cifar10")[2]

    assert (target.value, target.unit, target.source) == (
        93.1,
        "percent",
        "002 Table 1 (002_table1_cifar10#3)",
    )
    assert (
        json.loads(json.dumps(target.where)).items() >= {"model": "ViTRM", "train.selection": "test"}.items()
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('Undecided: 004: HRM is "not competitive"', 'Undecided: HRM-Small-Images: HRM is "not competitive"'),
        ("002 Table 1 (002_table1_cifar10#3)", "ViTRM Table 1 (002_table1_cifar10#3)"),
        ("mended its leak (000-7); 003-10", "mended its leak (ImageHRM/ImageTRM-7); MicarVLMoE-10"),
        ("13 contradictions of paper 002, beside", "13 contradictions of ViTRM, beside"),
        (
            "Read with it: 003 scores its own; numbers that 003 takes over",
            "Read with it: MicarVLMoE scores its own; numbers that MicarVLMoE takes over",
        ),
        (
            "the paper (002, section 4.4), an epoch (004)",
            "the paper (ViTRM, section 4.4), an epoch (HRM-Small-Images)",
        ),
    ],
)
def test_text_uses_the_names_of_the_papers(text, words):
    assert by_name(text) == words
    assert by_name(words) == words


@pytest.mark.parametrize(
    "text",
    [
        "0.002 of 1,002 images, of 1,000 and of 0.004",
        "002_table1_cifar10#3",
        "run 004a7e-1, 000002.jpg, 2024-003-1",
        "studies/002/plan.json, seed 003, depth 004",
        "seeds: 003 and 004",
    ],
)
def test_other_numbers_stay(text):
    assert by_name(text) == text


def test_a_published_item_is_called_by_its_paper():
    assert (cite_item("002 Figure 2"), cite_item("ptrm abstract")) == ("ViTRM, Figure 2", "PTRM, abstract")
    assert published("002_table1_cifar10")[2].cited == "ViTRM Table 1 (002_table1_cifar10#3)"
    paper_numbers = {file.name.partition("_")[0] for file in PAPERS.iterdir() if ".csv" in file.name}
    assert paper_numbers - {"solved", "replications.csv"} == set(
        papers()
    )  # found here, and of several papers


def test_empty_cell_is_no_target_and_a_blank_setting_stays_blank():
    values = {
        (target.where["model"], target.where.get("train.batch_size"))
        for target in published("002_table1_cifar10")
    }
    (target,) = [target for target in published("002_ablation_fig2_fig3") if target.value == 92.6]

    assert ("ViT-Large", 512) in values
    assert ("ViT-Large", 1024) not in values  # out of memory on their card
    assert target.where["train.supervision_steps"] is None


@pytest.mark.parametrize(
    ("of", "name", "message"),
    [
        (published, "002_tabel1_cifar10", r"Did you mean '002_table1_cifar10'\?"),
        (published, "bundle:theirs.zip", r"a bundle cannot be a target\. Write its values to a CSV"),
        (
            deviations,
            "003_cod",
            r"no list of deviations '003_cod': the lists are 002_code, 003_code, puzzle_code, trm_code, trm_epochs, direct_prediction, "
            r"000_inputs, fuselip_fine_tuning\. Did you mean '003_code'",
        ),
    ],
)
def test_an_unknown_table_or_list_names_the_nearest(of, name, message):
    with pytest.raises(ConfigError, match=message):
        of(name)


def test_the_index_lists_every_table_with_its_rows_and_each_can_be_read():
    index = PAPERS.joinpath("index.yaml").read_text()
    tables = {
        file.name: len(list(csv.DictReader(file.read_text().splitlines())))
        for file in PAPERS.iterdir()
        if ".csv" in file.name
    }

    assert [name for name, rows in tables.items() if f"file: {name}, rows: {rows}," not in index] == []
    assert len(tables) > 11
    # a row a source: `recstudy.papers.replications` reads it
    for name in tables.keys() - {"replications.csv"}:
        assert isinstance(published(name.removesuffix(".csv")), tuple)


@pytest.mark.parametrize("data", [Cifar10(), Cifar100()], ids=lambda data: data.name)
@pytest.mark.parametrize("title", MODELS)
def test_parameter_counts_equal_the_published_ones_to_the_digit(title, data):
    rows = csv.DictReader(PAPERS.joinpath("solved_parameter_counts.csv").read_text().splitlines())
    (exact,) = [int(row["value"]) for row in rows if row["model"] == title and row["dataset"] == data.name]

    assert MODELS[title].title == title
    assert cost(RunConfig(data=data, model=MODELS[title])).params == exact


@pytest.mark.parametrize(
    ("data", "count"), [(Cifar10(), 3_624_203), (Cifar100(), 3_658_853)], ids=["cifar10", "cifar100"]
)
def test_vitrm_with_the_gelu_of_its_text_has_as_many_parameters_as_are_printed(data, count):
    """3 x 256 fewer than with its code's SwiGLU (002-2): 2 x 384 x 768 weights a layer against 3 x 384 x 512,
    other biases.
    """
    assert cost(RunConfig(data=data, model=ViTRM(ffn="gelu"))).params == count
    assert any(f"{count:,}" in entry.conflict for entry in contradictions() if entry.id == "002-2")


def test_published_can_select_metrics_of_a_table():
    targets = published("004_author_repo_curves", only=("test_accuracy_final", "seconds_per_epoch"))

    assert {target.metric for target in targets} == {"top1_accuracy", "epoch_seconds"}
    finals = {
        (target.where["data.name"], target.where["model"]): target.value
        for target in targets
        if target.unit == "fraction"
    }
    assert (finals["mnist", "HRM"], finals["cifar10", "CNN two-stage"]) == (0.9802, 0.7722)
    with pytest.raises(
        ConfigError, match=r"no metric 'acuracy' in 004_author_repo_curves: the metrics are .*"
    ):
        published("004_author_repo_curves", only=("acuracy",))


def test_a_margin_is_in_percentage_points_of_a_fraction():
    targets = published("004_author_repo_curves", margin=0.5, why="a reason", only=("test_accuracy_final",))
    (mnist,) = [target for target in targets if target.value == 0.9802]

    assert (mnist.margin, mnist.margin_reason) == (pytest.approx(0.005), "a reason")
    assert mnist.where["train.supervision_steps"] == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"margin": 0.5}, "margin=0.5 has no reason"), ({"why": "so"}, "why='so' has no margin")],
)
def test_a_margin_and_its_reason_go_together(fields, message):
    with pytest.raises(
        ConfigError, match=rf"published\('002_table1_cifar10'\): {message}\. Write margin=0\.3, why="
    ):
        published("002_table1_cifar10", **fields)


def test_captioners_of_000_are_matched_by_their_fields():
    """Table I calls Swin-Base "Swin" (sections III.B and V), Table II has Swin-Tiny."""
    dual, swin = (published("000_table1_imagehrm", only=("rouge_l",))[row].where for row in (1, 3))
    tiny = published("000_table2_imagetrm", only=("rouge_l",))[2].where

    assert (dual["model.middle_cycles"], dual["model.backbone"]) == (0, "resnet18")
    assert (swin["model.middle_cycles"], swin["model.backbone"]) == (2, "swin_b")
    assert (tiny["model.family"], tiny["model.backbone"], tiny["data.length"]) == ("image_trm", "swin_t", 512)


def test_contradiction_of_a_number_of_000_is_attached_to_it():
    against = {(target.model, target.metric): target.against for target in published("000_table2_imagetrm")}

    assert against["ImageTRM (Swin)", "rouge_l"] == ()
    assert against["ImageTRM (Swin)", "cider"] == ("the paper states no scale of its CIDEr (000-13)",)
    assert against["ImageHRM (Triple)", "rouge_l"] == (
        "from before the paper mended its leak of future words (000-7)",
        "the paper's FuseLIP was trained on CC3M before, with TiTok's codes of images",
    )


@pytest.mark.parametrize(
    ("dataset", "model", "metric", "against", "assumed"),
    [
        ("cov_ctr", "MicarVLMoE", "bleu_1_jury", (), ""),
        ("mm_retinal", "MicarVLMoE", "rouge_l_f1", (), ""),
        ("peir_gross", "SAT", "bleu_4_jury", (), "the words of BLEU are jury's"),
        ("mm_retinal", "R2Gen", "bleu_4", (), "the words of BLEU are of the Penn Treebank and its batch was"),
        (
            "mm_retinal",
            "R2Gen",
            "avg_bleu_jury_delta",
            ("its two scores are of two codes (003-3)",),
            "the words",
        ),
        ("cov_ctr", "SAT", "rouge_l", ("copied from MDAK's paper (IV.C), which trained it with",), ""),
        ("cov_ctr", "R2Gen", "meteor", ("copied from MDAK's paper (IV.C), which trained it with",), ""),
        ("cov_ctr", "Transformer", "meteor_nltk", (), "the paper trained and scored this model itself and"),
    ],
)
def test_the_code_that_scored_a_row_of_micars_table_1(dataset, model, metric, against, assumed):
    (target,) = (
        target
        for target in published("003_table1_sota")
        if (target.where["data.name"], target.model, target.metric) == (dataset, model, metric)
    )

    assert len(target.against) == len(against)
    assert all(map(str.startswith, target.against, against))
    assert target.assumed.startswith(assumed)
    assert bool(target.assumed) == bool(assumed)


def test_rows_of_micars_table_3_name_the_replacement_that_is_assumed():
    replacements = {
        (target.where.get("model.experts"), target.where.get("model.msve")): target.assumed
        for target in published("003_table3_ablation")
    }

    assert replacements == {
        (None, None): "",
        (1, None): "one gated FFN of 2,048 replaces the experts",
        (None, "off"): "the last feature map of ResNet-101, of 49 patches, replaces the MSVE",
    }


def test_a_value_that_is_no_number_is_a_setting_and_no_target():
    metrics = {target.metric for target in published("003_setup")}

    assert {"max_len", "layers", "alpha_lb", "lr_msve"} <= metrics
    assert not {"split", "act"} & metrics
    # ROCO's are "over 81000"
    assert len([target for target in published("003_setup") if target.metric == "images"]) == 2
    with pytest.raises(
        ConfigError, match=r"'act' in 003_setup is a setting \(silu\): the metrics are images, covid, "
    ):
        published("003_setup", only=("act",))


@pytest.mark.parametrize(
    "table",
    ["000_table1_imagehrm", "000_table2_imagetrm", "trm_table1_sudoku_ablation", "trm_table3_recursions"],
)
def test_fields_of_a_table_are_there(table):
    """A field renamed in the models, or a letter not understood, would leave a number without a place, in
    silence.
    """
    for target in published(table):
        model = FAMILIES[target.where["model.family"]]
        model_fields = {
            path.removeprefix("model."): value
            for path, value in target.where.items()
            if path.startswith("model.")
        }
        fuselip = {
            path.removeprefix("fuselip."): model_fields.pop(path)
            for path in [*model_fields]
            if path.startswith("fuselip.")
        }
        assert FuseLIPBackboneConfig(**fuselip).model_dump().items() >= fuselip.items()
        assert model.model_construct(**model_fields).model_dump().items() >= model_fields.items()
        assert model_fields.keys() <= model.model_fields.keys()


def test_rows_of_the_trm_paper_are_matched_by_their_fields():
    ablation = {
        target.model: target.where
        for target in published("trm_table1_sudoku_ablation", only=("exact_accuracy",))
    }
    recursions = published("trm_table3_recursions", only=("exact_accuracy",))

    assert (ablation["TRM w/ ACT"]["model.act"], ablation["TRM no EMA"]["train.ema_decay"]) == ("continue", 0)
    assert {target.where["data.train_puzzles"] for target in recursions} == {1000}


def test_every_cell_is_that_of_a_published_row():
    tables = {cell.row.partition("#")[0] for cell in CELLS.values()}
    rows = {target.row for table in tables for target in published(table)}

    assert {cell.row for cell in CELLS.values()} <= rows
    assert {row.cell for row in replications()} <= {"", *CELLS}
    assert len(replications()) == 185


def test_only_independent_retrainings_enter_a_mean_one_row_a_run():
    counting = {row.id: row.value for row in replications("trm_mlp_sudoku_extreme") if row.counts}

    assert counting == {
        "r001": 84.8,
        "r005": 79.37,
        "r006": 75.57,
        "r025": 86.03,
        "r030": 86.65,
        "r035": 87.0,
        "r096": 84.0,
    }
    why = {row.id: row.why_not for row in replications("trm_mlp_sudoku_extreme")}
    assert why["r002"] == "weights re-evaluated"
    assert why["r028"] == "trained without halting"


def test_models_of_another_protocol_are_shown_beside_trm_and_not_averaged():
    """RSM and Sotaku train on millions of puzzles, where TRM has 1,000."""
    reasons = {
        row.model.split()[0]: row.why_not
        for row in replications("trm_mlp_sudoku_extreme")
        if "million" in row.apart
    }

    assert reasons.keys() == {"RSM", "Sotaku"}
    assert reasons["RSM"] == "trained on all 3.83 million puzzles, not 1,000"


def test_the_error_of_a_row_is_of_its_items_and_its_digits():
    by_id = {row.id: row for row in replications()}

    # 1,000 mazes
    assert by_id["r119"].error == pytest.approx(
        (100 * 78.7 * 21.3 / 100 / 1000 + 0.01**2 / 12) ** 0.5, rel=1e-3
    )
    assert by_id["r149"].error == pytest.approx((55 * 45 / 422_786 + 1 / 12) ** 0.5)  # "about 55"


def test_micar_deviations_state_the_text_and_our_default_if_text_and_code_differ():
    """Sections III-D, III-F and IV-C: our search, weights and image size are the text's, so they do not
    deviate from it.
    """
    settings_of_row = papers_settings(published("003_table1_sota", only=("avg_bleu",))[-1])
    differing = {path: value for path, value in settings_of_row.items() if isinstance(value, dict)}
    ours = {f"model.{name}": value for name, value in MicarVLMoE().model_dump().items()}
    stated_deviations = {deviation.field: deviation for deviation in deviations("003_code")}

    assert {"model.decode", "model.combine", "model.scale"} < {*differing}
    assert {path for path, value in differing.items() if ours[path] != value["text"]} == {*differing} & {
        *stated_deviations
    }
    for path in {*differing} & {*stated_deviations}:
        assert (stated_deviations[path].paper, stated_deviations[path].ours) == (
            differing[path]["text"],
            ours[path],
        )
    assert (stated_deviations["images, in the code"].paper, "images" in stated_deviations) == (
        "resized to 232, cropped to 224",
        False,
    )


def test_a_list_is_of_deviations_in_the_order_of_the_file():
    first, *other_deviations = deviations("trm_code")

    assert first == Deviation(
        field="train.optimizer",
        paper="adamw",
        ours="adam_atan2",
        why="AdamW in the text of TRM, Adam-atan2 in its code",
    )
    assert [(deviation.field, deviation.paper, deviation.ours) for deviation in other_deviations] == [
        ("train.halt_weight", 1.0, 0.5),
        ("model.prefix", 1, 16),
    ]


SEEDS = Path(__file__).parents[2] / "shared" / "seeds"
# rows of the five papers without a quote: the text read here leaves their numbers blank
BLANK_IN_TEXT = {"002_text_claims#4", "002_text_claims#5"}
TABLES = sorted(
    file.name.removesuffix(".csv")
    for file in PAPERS.iterdir()
    if file.name.endswith(".csv") and file.name != "replications.csv"
)


@pytest.mark.parametrize("table", TABLES)
def test_every_published_value_has_its_cell_and_those_of_the_five_papers_a_quote_with_the_number(table):
    quotes = {row["id"]: row.get("quote", "") for row in rows(table)}
    is_read = {row["id"] for row in rows(table) if row["kind"] == "reported" and table[:3].isdecimal()}

    for target in published(table):
        words = passage(target)
        assert target.metric.partition("@")[0].split("_")[0] in words or len(words.split(", ")) > 2
        quote = quotes[target.row]
        assert bool(quote) == (target.row in is_read - BLANK_IN_TEXT), target.row
        assert words.endswith(f'"{quote}"' if quote else words)
        assert len(quote.replace("|", " ").split()) <= 10
        assert not re.search("^[A-Z].*[.!?]$", quote)  # no sentence


@pytest.mark.skipif(not SEEDS.exists(), reason="the papers' texts are not beside the checkout")
@pytest.mark.parametrize("table", TABLES)
def test_quotes_occur_in_the_texts(table):
    texts = {path.name: plain(path.read_text()) for path in SEEDS.iterdir()}
    for row in rows(table):
        if row.get("quote"):
            assert plain(row["quote"]) in texts[row["seed_file"]], row["id"]
            value = row["value"].removeprefix("-")
            if value[:1].isdigit() and ":" not in value:
                digits = f"{float(value):g}".partition("e")[0].replace(".", "").strip("0")
                is_word = digits in ("2", "3") and re.search("two|three", row["quote"])
                assert is_word or digits in re.sub(r"\D", "", row["quote"]), row["id"]


def plain(text):
    """The text without the signs of LaTeX and of its extraction, and with single spaces."""
    text = re.sub(r"plus-or-minus\\pm±|\\uparrow|\*\*", "", text)
    text = re.sub(
        r"\\(?:sim|approx)\s*",
        "~",
        re.sub(r"\N{MULTIPLICATION SIGN}?\\times\N{MULTIPLICATION SIGN}?", "\N{MULTIPLICATION SIGN}", text),
    )
    return " ".join(re.sub(r"[\\$`]", "", text).split())


def test_a_user_s_table_states_page_cell_and_quote(tmp_path, monkeypatch):
    (tmp_path / "mine.csv").write_text(
        'metric,value,page,cell,quote\ntop1_accuracy,91.5,7,"Table 2, row Ours",Ours 3.6M 91.5\nnll,0.3,,,\n'
    )
    monkeypatch.chdir(tmp_path)
    accuracy, loss = published(tmp_path / "mine.csv")

    assert passage(accuracy) == 'page 7, Table 2, row Ours: "Ours 3.6M 91.5"'
    assert passage(loss) == ""
    assert {"cell", "quote"}.isdisjoint(loss.model_dump())  # plans of other tables stay as they are
