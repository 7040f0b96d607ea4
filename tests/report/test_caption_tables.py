"""Scores of captions in tables: what is not available, how the words were cut, and the numbers of 000 beside
them.
"""

import pytest
from made_up import (
    as_failure,
    caption_plan,
    captioned,
    finish,
    published_beside,
    read,
    run_id,
    write_caption_study,
)

from recstudy.papers import published
from recstudy.report import Table
from recstudy.report.cell_text import cell_text
from recstudy.report.tables.render import verdicts

TABLE2 = published("000_table2_imagetrm")
ROCO = {"name": "rocov2", "size": 224, "length": 512, "limit": None}


def table(results, *metrics, **spec):
    return Table("t", metrics=metrics, **spec).cells(read(results))


def test_a_metric_that_not_every_run_has(tmp_path):
    results = write_caption_study(tmp_path / "r")
    record = captioned(0.4, unavailable={})
    record["metrics"]["meteor"] = 0.195
    finish(results, 0, 1, record)
    results.run(run_id(1, 1)).result.unlink()
    results.run(run_id(1, 1)).fail(as_failure({"class": "code", "error": "ValueError", "traceback": ""}))

    first, second, *_ = (cell_text(row.cells[0]) for row in table(results, "meteor").rows)

    assert first == "0.195 (n=1 of 2; 1 not available: no Java on this machine)"
    assert second == "not available (no Java on this machine; 1 failed: code)"


def test_the_models_of_ratescore_are_a_note(tmp_path):
    results = write_caption_study(tmp_path / "r")
    for seed in range(2):
        record = captioned(0.4)
        record["metrics"]["rate_score"] = 0.55
        record["tokenizer"]["rate"] = "/models/entities"
        finish(results, 0, seed, record)

    assert "RaTEScore by the models: /models/entities" in table(results, "rate_score").notes
    assert not any("RaTEScore" in note for note in table(results, "cider").notes)


def test_models_with_other_tokenizers_are_named_and_a_stand_in_is_called_so(tmp_path):
    results = write_caption_study(tmp_path / "r")
    cut = {"text": "CLIP BPE (49,408)", "image": "standin-vq (32 codes, PSNR 21.3 dB)"}
    for seed in range(2):
        finish(results, 3, seed, captioned(0.4, tokenizer=cut))

    notes = table(results, "rouge_l").notes

    assert (
        "text tokenizer of the models: byte (260): LSTM / HRM, two loops / HRM, three loops; CLIP BPE (49,408): TRM"
        in notes
    )
    assert "image tokenizer: standin-vq (32 codes, PSNR 21.3 dB)" in notes
    assert "the image tokenizer is a small stand-in trained here, not the TiTok of FuseLIP" in notes


def test_on_the_papers_own_data_rouge_is_judged_and_cider_is_not(tmp_path):
    data = table(
        write_caption_study(tmp_path / "r", data=ROCO), "rouge_l", "cider", "trained_params", targets=TABLE2
    )

    rouge, cider, _ = data.rows[3].cells
    assert (verdicts(rouge), rouge.reasons) == (("undecided",), ())  # both runs have 0.199: no spread
    assert (verdicts(cider), cider.reasons) == (
        ("not comparable",),
        ("the paper states no scale of its CIDEr (ImageHRM/ImageTRM-13)",),
    )


def test_setting_that_no_variant_varies_is_a_reason_and_decides_no_match(tmp_path):
    """Every backbone here is drawn at random, as where there is no network to load weights from."""
    chosen = caption_plan()["variants"]
    for variant in chosen:
        variant["changes"]["model"]["weights"] = "random"
    results = write_caption_study(tmp_path / "r", data=ROCO, variants=chosen)

    cell = table(results, "rouge_l", targets=TABLE2).rows[3].cells[0]

    assert (published_beside(cell)[0], cell.reasons) == ("0.199", ("weights random, not pretrained",))


@pytest.mark.parametrize(("count", "words"), [(7_350_000, "agrees"), (7_600_000, "differs")])
def test_about_seven_million_is_a_count_without_decimals(tmp_path, count, words):
    results = write_caption_study(tmp_path / "r", data=ROCO)
    for seed in range(2):
        record = captioned(0.4)
        record["cost"]["trained_params"] = count
        finish(results, 3, seed, record)

    cell = table(results, "trained_params", targets=published("000_setup")).rows[3].cells[0]

    assert published_beside(cell) == ("7 M", words)


def test_table_names_parts_that_all_seeds_share(tmp_path):
    """Its own spread is in no interval."""
    (variant, *_) = caption_plan()["variants"]
    for path, value, words in (
        ("model.fuselip", {"mode": "causal"}, "one FuseLIP encoder"),
        ("model.tokenizer_epochs", 20, "one image tokenizer"),
    ):
        chosen = [variant | {"changes": variant["changes"] | {path: value, "model.files": ""}}]
        notes = table(write_caption_study(tmp_path / path, variants=chosen), "cider").notes
        assert any(note.startswith(f"all seeds share {words}") and note.endswith(": LSTM") for note in notes)
