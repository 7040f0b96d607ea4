import json
import sys
from itertools import product

import pytest
import torch
from rate_weights import write_weights

from recstudy.programs.metric import NotAvailable
from recstudy.recursive import Answers, measured
from recstudy.recursive.tasks.captioning.rate_score import (
    TYPES,
    Entities,
    agreement,
    entity_spans,
    model_folder,
    rate_score,
    rate_scores,
    read_weights,
)

EAST, NORTH, BETWEEN = [2.0, 0.0], [0.0, 3.0], [3.0, 4.0]  # cosines: 0, 0.6 and 0.8
WEIGHTS = dict.fromkeys(product(TYPES, TYPES), 0.0) | {
    ("DISEASE", "DISEASE"): 0.5,
    ("DISEASE", "NON-DISEASE"): 0.4,
    ("NON-DISEASE", "DISEASE"): 0.2,
    ("ANATOMY", "NON-DISEASE"): 0.1,
}


def entities(*labelled_embeddings):
    return Entities(
        tuple(kind for kind, _ in labelled_embeddings),
        torch.tensor([embedding for _, embedding in labelled_embeddings]),
    )


def test_agreement_by_hand():
    """A disease meets its absence at 0.8 and counts by the negation, an anatomy meets the same entity at 0.6: weights
    0.4 and 0.1.
    """
    predicted = entities(("DISEASE", NORTH), ("ANATOMY", EAST))
    truth = entities(("NON-DISEASE", BETWEEN))

    assert agreement(predicted, truth, WEIGHTS) == pytest.approx((0.4 * 0.8717 * 0.8 + 0.1 * 0.6) / 0.5)
    assert agreement(truth, predicted, WEIGHTS) == pytest.approx(0.8717 * 0.8)  # its nearest is the disease


def test_the_score_is_the_harmonic_mean_of_both_directions():
    predicted = entities(("DISEASE", NORTH), ("DISEASE", EAST))
    truth = entities(("DISEASE", BETWEEN))

    assert rate_score(predicted, truth, WEIGHTS) == pytest.approx(2 * 0.7 * 0.8 / 1.5)
    assert rate_score(truth, truth, WEIGHTS) == pytest.approx(1)


def test_a_text_without_entities_scores_a_half_and_unweighted_pairs_nothing():
    no_entities, anatomy = Entities((), torch.empty(0, 1)), entities(("ANATOMY", EAST))

    assert rate_score(no_entities, anatomy, WEIGHTS) == rate_score(anatomy, no_entities, WEIGHTS) == 0.5
    assert rate_score(anatomy, anatomy, WEIGHTS) == 0


def test_spans_begin_with_b():
    labels = ["O", "I-ANATOMY", "B-DISEASE", "I-DISEASE", "B-ANATOMY", "O", "B-DISEASE"]

    assert entity_spans(labels) == [(2, 4, "DISEASE"), (4, 5, "ANATOMY"), (6, 7, "DISEASE")]


def test_weights_are_read_by_pair(tmp_path):
    path = tmp_path / "long.json"
    path.write_text(
        json.dumps(
            {"_".join(pair).lower(): index for index, pair in enumerate(product(TYPES, TYPES))}
            | {"neg_weight": 1}
        )
    )

    assert read_weights(path)["NON-DISEASE", "ANATOMY"] == list(product(TYPES, TYPES)).index(
        ("NON-DISEASE", "ANATOMY")
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [('{"disease_disease": 1}', "lack the pair"), ("[]", "cannot be read"), (None, "No such file")],
)
def test_bad_weights_are_the_reason(tmp_path, text, reason):
    if text is not None:
        (tmp_path / "weights.json").write_text(text)

    with pytest.raises(NotAvailable, match=reason):
        read_weights(tmp_path / "weights.json")


def test_missing_models_are_the_reason(tmp_path, monkeypatch):
    write_weights(tmp_path)

    with pytest.raises(NotAvailable, match="entities holds no model"):
        rate_scores(["a mass"], [["no mass"]], tmp_path)

    (tmp_path / "entities").mkdir()
    (tmp_path / "entities/config.json").touch()
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(NotAvailable, match="transformers is not installed"):
        rate_scores(["a mass"], [["no mass"]], tmp_path)


def test_the_models_are_those_of_the_folder_that_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("RECSTUDY_RATESCORE", raising=False)
    with pytest.raises(NotAvailable, match="RECSTUDY_RATESCORE names no folder with its models"):
        model_folder()
    monkeypatch.setenv("RECSTUDY_RATESCORE", str(tmp_path))
    assert model_folder() == tmp_path
    without_weights = measured(
        Answers("caption", written=["a disc"], references=[["a ring"]]), ["rate_score"]
    )
    assert without_weights.values == {}
    assert without_weights.unavailable["rate_score"].startswith(
        f"the weights {tmp_path}/weights.json cannot be read"
    )


def test_the_whole_way_with_two_tiny_models(tmp_path, monkeypatch):
    """Random weights: a text agrees with itself, and its score is the best of its references."""
    transformers = pytest.importorskip("transformers")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *["a", "mass", "in", "the", "left", "lung", "no", "nodule", "is", "seen", "."],
    ]
    size = {
        "vocab_size": len(words),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    labels = dict(enumerate(["O", *(f"{part}-{kind}" for kind in TYPES for part in "BI")]))
    torch.manual_seed(0)
    for name, kind in {"entities": "BertForTokenClassification", "meanings": "BertModel"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "vocab.txt").write_text("\n".join(words))
        config = transformers.BertConfig(**size, id2label=labels, initializer_range=1.0)
        getattr(transformers, kind)(config).save_pretrained(tmp_path / name)
        transformers.BertTokenizerFast(str(tmp_path / name / "vocab.txt")).save_pretrained(tmp_path / name)
    write_weights(tmp_path)
    report, other_report = "a mass in the left lung is seen. no nodule", "the lung in the left."

    itself, best, worse = rate_scores(
        [report, report, report], [[report], [other_report, report], [other_report]], tmp_path
    )

    assert itself == best == pytest.approx(1, abs=1e-5)
    assert worse < 1
    monkeypatch.setenv("RECSTUDY_RATESCORE", str(tmp_path))
    answers = Answers("caption", written=[report] * 2, references=[[report], [other_report]])
    values = measured(answers, ["rate_score", "rate_score_std"]).values
    assert (values["rate_score"], values["rate_score_std"]) == pytest.approx(
        ((1 + worse) / 2, (1 - worse) / 2), abs=1e-5
    )
