import pytest
from made_up import base, write_study

from recstudy.analysis import Replications
from recstudy.analysis.figures.forest import combined, replications_data, said
from recstudy.analysis.frame import load_study
from recstudy.errors import ConfigError

CELL = "trm_mlp_sudoku_extreme"


def test_all_values_stand_there_and_the_mean_is_of_independent_retrainings():
    data = replications_data(CELL)

    kinds = data["kind"].value_counts().to_dict()
    assert (kinds["published"], kinds["retrained"], kinds["mean"], kinds["prediction"]) == (1, 7, 1, 1)
    assert data.iloc[0]["value"] == 87.4
    apart = data[data["kind"] == "apart"]
    assert (apart["apart"] != "").all()
    assert said(combined(CELL)) == (
        "Random effects over 7 independent retrainings, without the published run and ours: 83.3 % [79.4, 87.3], tau 4.3; "
        "one more would find 71.6 to 95.1"
    )


def test_one_retraining_has_no_interval():
    assert said(combined("hrm_maze_hard")) == "One independent retraining: 75.0 %"


@pytest.mark.parametrize(("train_puzzles", "shown"), [(1000, 6), (500, 0)])
def test_our_runs_stand_there_where_they_compare(tmp_path, train_puzzles, shown):
    model = {"family": "trm", "mixing": "mlp", "layers": 2, "cycles": 3, "latent_steps": 6, "networks": 1, "act": "halt only"}
    own = base(ema_decay=0.999, epochs=10, batch_size=768, supervision_steps=16)
    own["data"] = {"name": "sudoku_extreme", "train_puzzles": train_puzzles, "limit": None}
    own["model"] = model | {"gradient": "last_cycle"}
    variants = [{"label": f"TRM {at}", "levels": {}, "changes": {}, "model": "TRM", "data": "Sudoku-Extreme"} for at in range(4)]
    results = write_study(tmp_path / "r", base=own, axes={}, variants=variants)
    records = load_study(results, "made_up", "paper")

    drawn = Replications(cell=CELL).drawn(records)

    assert drawn.data["kind"].eq("ours").sum() == 0  # of images: no exact accuracy
    for row in records.rows:
        object.__setattr__(row, "added", {"exact_accuracy": row.value("top1_accuracy")} if row.done else {})
    ours = Replications(cell=CELL).drawn(records).data
    assert ours["kind"].eq("ours").sum() == shown
    assert len(drawn.figure.data[1].x) == 0


def test_an_unknown_cell_names_the_nearest():
    with pytest.raises(ConfigError, match=r"replications: no cell 'trm_mlp_sudoku': there are .* Did you mean 'trm_mlp_sudoku_"):
        Replications(cell="trm_mlp_sudoku")
