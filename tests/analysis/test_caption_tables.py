"""Scores of captions in tables: what is not available, how the words were cut, and the numbers of 000 beside them."""

import pytest
from made_up import as_failure, as_result, beside, caption_plan, captioned, read, run_id, write_caption_study

from recstudy.analysis import Table
from recstudy.analysis.tables.render import cell_text, table_shown
from recstudy.analysis.tables.table import table_data
from recstudy.papers import published

NO_JAVA = "not available (no Java on this machine)"
TABLE2 = published("000_table2_imagetrm")
ROCO = {"name": "rocov2", "size": 224, "length": 512, "limit": None}


def table(results, *metrics, **spec):
    return table_data(read(results), Table("t", metrics=metrics, **spec))


def test_a_metric_that_only_one_machine_had(tmp_path):
    results = write_caption_study(tmp_path / "r")
    made = captioned(0.4, unavailable={})
    made["metrics"]["meteor"] = 0.195
    results.run(run_id(0, 1)).finish(as_result(made))

    assert cell_text(table(results, "meteor").rows[0].cells[0]) == "0.195 (n=1 of 2; 1 not available: no Java on this machine)"


def test_a_failed_run_beside_a_metric_that_is_not_available(tmp_path):
    results = write_caption_study(tmp_path / "r")
    results.run(run_id(0, 1)).result.unlink()
    results.run(run_id(0, 1)).fail(as_failure({"class": "code", "error": "ValueError", "traceback": ""}))

    assert cell_text(table(results, "meteor").rows[0].cells[0]) == "not available (no Java on this machine; 1 failed: code)"


def test_the_models_of_ratescore_stand_beside_it_and_their_lack_in_its_place(tmp_path):
    results = write_caption_study(tmp_path / "r")
    for seed in range(2):
        made = captioned(0.4)
        made["metrics"]["rate_score"] = 0.55
        made["tokenizer"]["rate"] = "/models/entities and /models/meanings, weights /models/weights.json; sentences end at ."
        results.run(run_id(0, seed)).finish(as_result(made))
        results.run(run_id(1, seed)).finish(
            as_result(captioned(0.4, unavailable={"rate_score": "RECSTUDY_RATESCORE names no folder"}))
        )

    data = table(results, "rate_score")

    assert data.columns == ("RaTEScore",)
    texts = [cell_text(row.cells[0]) for row in data.rows[:2]]
    assert texts == ["0.550 (n=2)", "not available (RECSTUDY_RATESCORE names no folder)"]
    made_by = "RaTEScore by the models: /models/entities and /models/meanings, weights /models/weights.json; sentences end at ."
    assert made_by in data.notes
    assert not any("RaTEScore" in note for note in table(results, "cider").notes)


def test_models_with_other_tokenizers_are_named_and_a_stand_in_is_called_so(tmp_path):
    results = write_caption_study(tmp_path / "r")
    cut = {"text": "CLIP BPE (49,408)", "image": "standin-vq (32 codes, PSNR 21.3 dB)"}
    for seed in range(2):
        results.run(run_id(3, seed)).finish(as_result(captioned(0.4, tokenizer=cut)))

    notes = table(results, "rouge_l").notes

    assert "text tokenizer of the models: byte (260): LSTM / HRM, two loops / HRM, three loops; CLIP BPE (49,408): TRM" in notes
    assert "image tokenizer: standin-vq (32 codes, PSNR 21.3 dB)" in notes
    assert "the image tokenizer is a small stand-in trained here, not the TiTok of FuseLIP" in notes


def test_table_two_of_000_by_variant(tmp_path):
    """Its resnet18 TRM and its FuseLIPs are not in this study; on other data than ROCOv2 nothing is comparable."""
    data = table(write_caption_study(tmp_path / "r"), "rouge_l", "cider", targets=TABLE2)

    cells = {row.label: row.cells for row in data.rows}
    assert [beside(cell) for cell in cells["TRM"]] == [("0.199", "not comparable"), ("0.449", "not comparable")]
    assert cells["TRM"][0].reasons == ("data phantom_captions, not rocov2", "size 64, not 224", "length 96, not 512")
    assert cells["TRM"][1].reasons[:2] == (
        "the paper states no scale of its CIDEr (ImageHRM/ImageTRM-13)",
        "data phantom_captions, not rocov2",
    )
    assert all(not cell.placed for label in ("LSTM", "HRM, two loops", "HRM, three loops") for cell in cells[label])
    assert len(data.unmatched_targets) == 6
    assert "ImageTRM (FuseLIP) ROUGE-L 0.155 fraction" in table_shown(data).markdown


def test_on_the_papers_own_data_rouge_is_judged_and_cider_is_not(tmp_path):
    data = table(write_caption_study(tmp_path / "r", data=ROCO), "rouge_l", "cider", "trained_params", targets=TABLE2)

    rouge, cider, _ = data.rows[3].cells
    assert (rouge.verdicts, rouge.reasons) == (("undecided",), ())  # both runs have 0.199: no spread
    assert (cider.verdicts, cider.reasons) == (
        ("not comparable",),
        ("the paper states no scale of its CIDEr (ImageHRM/ImageTRM-13)",),
    )


def test_what_no_variant_varies_is_a_reason_and_decides_no_place(tmp_path):
    """Every backbone here is drawn at random, as where there is no network to load weights from."""
    chosen = caption_plan()["variants"]
    for variant in chosen:
        variant["changes"]["model"]["weights"] = "random"
    results = write_caption_study(tmp_path / "r", data=ROCO, variants=chosen)

    cell = table(results, "rouge_l", targets=TABLE2).rows[3].cells[0]

    assert (beside(cell)[0], cell.reasons) == ("0.199", ("weights random, not pretrained",))


def test_table_one_of_000_is_from_before_the_leak_was_mended(tmp_path):
    results = write_caption_study(tmp_path / "r", data=ROCO)
    data = table(results, "rouge_l", "cider", targets=published("000_table1_imagehrm"))

    placed = {row.label: beside(row.cells[0])[0] for row in data.rows}
    assert placed == {"LSTM": "", "HRM, two loops": "0.125", "HRM, three loops": "0.157", "TRM": ""}  # the LSTM's is a ResNet-18
    assert data.rows[1].cells[0].reasons == ("from before the paper mended its leak of future words (ImageHRM/ImageTRM-7)",)
    losses = [reason for target, reason in data.unmatched_targets if target.metric == "act_loss"]
    assert losses[0].startswith(
        "not measured here; the paper does not define it, and gives one of a model without ACT (ImageHRM/ImageTRM-4)"
    )
    assert len(losses) == 5


@pytest.mark.parametrize(("count", "said"), [(7_350_000, "reproduced"), (7_600_000, "differs")])
def test_about_seven_million_is_a_count_without_decimals(tmp_path, count, said):
    results = write_caption_study(tmp_path / "r", data=ROCO)
    for seed in range(2):
        made = captioned(0.4)
        made["cost"]["trained_params"] = count
        results.run(run_id(3, seed)).finish(as_result(made))

    cell = table(results, "trained_params", targets=published("000_setup")).rows[3].cells[0]

    assert beside(cell) == ("7 M", said)


def test_what_is_trained_once_for_all_seeds_is_said(tmp_path):
    """Its own spread is in no interval: an encoder of FuseLIP, the image tokenizer of an aligner without public weights."""
    kinds = {"model.fuselip": {"mode": "causal"}, "model.tokenizer_epochs": 20, "model.files": ""}
    for name, of in (
        ("one FuseLIP encoder", ["model.fuselip"]),
        ("one image tokenizer", ["model.tokenizer_epochs", "model.files"]),
    ):
        made = caption_plan(variants=[variant | {"changes": variant["changes"] | {path: kinds[path] for path in of}}
                                      for variant in caption_plan()["variants"][:1]])  # fmt: skip
        notes = table(write_caption_study(tmp_path / of[0], variants=made["variants"]), "cider").notes
        assert any(note.startswith(f"the seeds share {name}") and note.endswith(": LSTM") for note in notes)
    assert not any("the seeds share" in note for note in table(write_caption_study(tmp_path / "r"), "cider").notes)
