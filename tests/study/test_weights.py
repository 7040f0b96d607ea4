"""`recstudy weights import` and `export`, and `--init-from`: from the authors' file to a page that never says
`trained here`.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from official import ARCH, TINY, random_network, theirs

import recstudy
from recstudy.base.errors import ConfigError, DataError
from recstudy.cli import main
from recstudy.cli.options import StudyOptions
from recstudy.cli.study import carry_out
from recstudy.evidence import Verdict
from recstudy.papers import Target
from recstudy.records import Result, Results, read_record
from recstudy.records.schema import Initial
from recstudy.recursive import RunConfig, Sudoku
from recstudy.recursive.data.reading import read_data
from recstudy.recursive.metrics.kept import unpack_answers
from recstudy.recursive.testing import tiny_run
from recstudy.recursive.train.initial import Weights, initial
from recstudy.report import Table
from recstudy.report.cell_text import cell_text
from recstudy.report.kinds import make_table
from recstudy.report.study_records import load_study
from recstudy.report.tables.render import verdicts
from recstudy.study.design import Variant
from recstudy.study.study import Study

DATA = Sudoku(side=4, puzzles=16, test_puzzles=32)
SET = ("--set", "data.side=4", "data.puzzles=16", "data.test_puzzles=32")
NAMES = {"hrm": "HRM", "trm": "TRM-MLP"}


def command(capsys, *words):
    with pytest.raises(SystemExit, match=r"^\d+$") as exit_info:
        main(["weights", *map(str, words)])
    captured = capsys.readouterr()
    return exit_info.value.code, captured.out, captured.err


def tiny(family: str, rows: int = 1):
    return TINY[NAMES[family]].model_copy(update={"identifiers": rows})


def checkpoint(folder: Path, family: str, rows: int = 1) -> Path:
    """A file as the authors' trainer writes it, with its config beside it."""
    folder.mkdir()
    model = tiny(family, rows)
    layers = {
        "H_layers": getattr(model, "high_layers", 0),
        "L_layers": getattr(model, "low_layers", 0) or model.layers,
    }
    arch = {
        **ARCH,
        **layers,
        "mlp_t": model.mixing == "mlp",
        "halt_max_steps": 4,
        "puzzle_emb_len": model.prefix,
    }
    (folder / "all_config.yaml").write_text(yaml.safe_dump({"arch": arch, "lr": 1e-4}))
    torch.save(theirs(random_network(model, DATA)), folder / "step_3")
    return folder / "step_3"


def only_run(results: Results) -> str:
    (run_id,) = results.run_ids()
    return run_id


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Path:
    """The results of an imported TRM."""
    root = tmp_path_factory.mktemp("imported")
    file = checkpoint(root / "theirs", "trm")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(
            [
                "weights",
                "import",
                str(file),
                "sudoku",
                "--as",
                "trm",
                *SET,
                "--results",
                str(root / "results"),
            ]
        )
    return root / "results"


@pytest.mark.parametrize("family", NAMES)
def test_a_checkpoint_of_the_authors_becomes_a_finished_run_that_nobody_trained_here(
    family, tmp_path, capsys
):
    file = checkpoint(tmp_path / "theirs", family)
    code, output, errors = command(
        capsys, "import", file, "sudoku", "--as", family, *SET, "--results", tmp_path / "r"
    )

    assert (code, errors) == (0, "")
    results = Results(tmp_path / "r")
    result = read_record(results.run(only_run(results)).result, Result)
    provenance = result.provenance
    assert (provenance.origin, provenance.initial.source, provenance.initial.names) == (
        "imported",
        str(file),
        family,
    )
    assert provenance.initial.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert provenance.initial.settings["halt_max_steps"] == 4
    config = RunConfig.model_validate(json.loads(results.run(only_run(results)).config.read_text()))
    assert (config.train.halt_weight, config.train.loss) == (0.5, "stablemax"), "as the authors' trainers"
    assert result.selected.epoch is None
    assert not [name for name in result.metrics if name.startswith("train_")]
    network = random_network(tiny(family), DATA)
    answers = unpack_answers(results.run(only_run(results)).answers).answers
    assert np.array_equal(answers.cells, solved(network, segments=4))
    assert " (imported)" in output
    assert "Imported weights, evaluated here and not trained here" in output


def solved(network, segments):
    """What the network answers after so many segments, without any of recstudy's training or evaluation."""
    decoded = read_data(DATA.reader(), Path())
    images, ids = torch.from_numpy(decoded.test_images), torch.zeros(32, dtype=torch.int64)
    carry = network.start(images, ids)
    with torch.no_grad():
        for _ in range(segments):
            output, carry = network(images, carry)
    return output.logits.argmax(-1).byte().numpy()


def test_imported_cells_are_marked_and_not_called_reproduced(imported):
    records = load_study(Results(imported), "imported_step_3", "imported")
    value = Target(
        source="a paper", metric="exact_accuracy", value=0.0, unit="%", kind="reported", where={}, margin=1.0
    )

    (row,) = make_table(records, Table("t", metrics=("exact_accuracy",), targets=(value,))).rows

    assert row.label.endswith(", imported")
    assert cell_text(row.cells[0]) == "0.0 (imported) (n=1)"
    assert verdicts(row.cells[0]) == (Verdict.NOT_COMPARABLE,)
    assert "imported weights, evaluated here and not trained here" in row.cells[0].reasons


def base(imported: Path, **train) -> RunConfig:
    """A run of the imported network on the same data."""
    imported_config = RunConfig.model_validate(
        json.loads(Results(imported).run(only_run(Results(imported))).config.read_text())
    )
    return imported_config.with_changes(
        {"train.init_from": "", "train.epochs": 1} | {f"train.{name}": value for name, value in train.items()}
    )


def study(config: RunConfig, **fields) -> Study:
    variants = fields.pop("variants", [Variant("only", {})])
    return Study(
        name="begun",
        presets={"quick": config},
        variants=variants,
        report=[Table("t", ("exact_accuracy",))],
        **fields,
    )


def test_training_starts_from_the_weights_and_records_them(imported, tmp_path):
    """With next to no learning rate the network ends where it began: at what the imported run answers."""
    none = {"learning_rate": 1e-30, "final_learning_rate": 0.0, "puzzle_learning_rate": 1e-30}
    still, run = study(base(imported, **none)), only_run(Results(imported))
    first = recstudy.run(still, results=tmp_path / "drawn", ray=False).records.rows[0]
    started = recstudy.run(
        still, results=imported.parent / "begun", init_from=imported / "runs" / run, ray=False
    ).records.rows[0]
    source_result = read_record(Results(imported).run(run).result, Result)

    assert started.id != first.id
    assert (
        started.result.metrics["cell_accuracy"]
        == source_result.metrics["cell_accuracy"]
        != first.result.metrics["cell_accuracy"]
    )
    assert (started.provenance.origin, started.provenance.initial.source) == (
        "trained",
        str(imported / "runs" / run),
    )
    assert (first.provenance.origin, first.provenance.initial) == ("trained", None)


def test_other_weights_in_the_place_of_those_of_a_run_are_refused(tmp_path):
    own_weights, other_weights = (
        Weights({"a": torch.tensor([value])}, Initial(source="made")) for value in (1.0, 2.0)
    )
    config = tiny_run().with_changes({"train.init_from": own_weights.keep(Results(tmp_path))})
    assert initial(config, Results(tmp_path)).state["a"].item() == 1.0

    Results(tmp_path).weights(own_weights.digest).write_bytes(other_weights.content)

    with pytest.raises(
        DataError, match=f"contains other weights than its name says: their digest is {other_weights.digest}"
    ):
        initial(config, Results(tmp_path))


def test_exported_weights_can_be_imported_with_the_same_metrics(imported, tmp_path, capsys, monkeypatch):
    run = only_run(Results(imported))
    code, _, _ = command(capsys, "export", run, tmp_path / "model", "--results", imported)

    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]
    result = read_record(Results(imported).run(run).result, Result)
    readme = (tmp_path / "model" / "README.md").read_text()
    assert f"| Cell accuracy (%) | {result.metrics['cell_accuracy']:.1f} |" in readme
    assert "judged on " in readme
    assert "not trained here" in readme
    assert "The licence is to be chosen" in readme

    monkeypatch.chdir(tmp_path)
    assert command(capsys, "import", "model", "--results", "again")[0] == 0
    restored = read_record(Results("again").run(only_run(Results("again"))).result, Result)
    assert restored.metrics == result.metrics


def test_weights_exported_for_the_authors_code_can_be_imported_with_the_same_metrics(
    imported, tmp_path, capsys
):
    run = only_run(Results(imported))
    code, output, _ = command(capsys, "export", run, tmp_path / "model", "--as", "trm", "--results", imported)

    assert (code, sorted(path.name for path in (tmp_path / "model").iterdir())) == (
        0,
        ["README.md", "all_config.yaml", "step_0"],
    )
    assert "step_0, all_config.yaml and README.md" in output
    assert (
        "recstudy weights import model/step_0 sudoku --as trm" in (tmp_path / "model/README.md").read_text()
    )
    assert set(torch.load(tmp_path / "model/step_0")) == set(torch.load(imported.parent / "theirs/step_3"))
    words = (tmp_path / "model", "sudoku", "--as", "trm", *SET, "--results", tmp_path / "again")
    assert command(capsys, "import", *words)[0] == 0
    restored, result = (
        read_record(results.run(only_run(results)).result, Result)
        for results in (Results(tmp_path / "again"), Results(imported))
    )
    assert restored.metrics == result.metrics
    code, _, errors = command(capsys, "export", run, tmp_path / "other", "--as", "hrm", "--results", imported)
    assert (code, errors.count("\n"), (tmp_path / "other").exists()) == (2, 1, False), errors


@pytest.mark.parametrize("rows", [3, 1000])
def test_a_table_whose_rows_stand_for_other_puzzles_is_refused(rows, tmp_path, capsys):
    file = checkpoint(tmp_path / "theirs", "trm", rows)
    code, _, errors = command(
        capsys, "import", file, "sudoku", "--as", "trm", *SET, "--results", tmp_path / "r"
    )

    assert (code, errors.count("\n"), (tmp_path / "r").exists()) == (2, 1, False), errors
    assert (
        f"step_3 has an embedding table with {rows:,} rows, but Sudoku 4x4 (synthetic) has 1 ids. The rows belong to"
        in errors
    )


def test_a_table_with_spare_rows_is_read_again_on_the_data_set_that_it_was_trained_on(
    imported, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    larger_config = base(imported).with_changes({"model.identifiers": 4})
    trained = recstudy.run(study(larger_config), results="trained", ray=False).records.rows[0]
    for words, expected in {(): 0, ("--set", "data.drawing_seed=1"): 2}.items():
        assert (
            command(capsys, "import", f"trained/runs/{trained.id}", *words, "--results", "again")[0]
            == expected
        )


def test_an_export_is_whole_or_not_there(imported, tmp_path, capsys):
    run = only_run(Results(imported))
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")

    for words, message in {
        (run, "there"): r"there is there already. Give another name, or remove it first.",
        ("0" * 20, "new"): r"no finished run '00000000000000000000' in ",
        (run, "file/new"): r"file/new cannot be written: File exists. Nothing was.",
    }.items():
        code, _, errors = command(capsys, "export", words[0], tmp_path / words[1], "--results", imported)
        assert (code, message in errors, errors.count("\n")) == (2, True, 1), errors

    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]


def test_files_that_do_not_fit_are_one_line_and_nothing_is_written(tmp_path, capsys):
    file = checkpoint(tmp_path / "theirs", "hrm")
    for folder, steps in {"none": (), "several": (3, 20)}.items():
        (tmp_path / folder).mkdir()
        for step in steps:
            (tmp_path / folder / f"step_{step}").touch()
    for words, message in {
        (
            "import",
            tmp_path / "none",
            "sudoku",
            "--as",
            "hrm",
        ): "none must have one checkpoint step_N, but has none",
        ("import", tmp_path / "several", "sudoku", "--as", "hrm"): "but has step_20, step_3",
        ("import", file, "--as", "hrm"): "on which data set? Give its name behind ",
        ("import", file, "sudoku", "--as", "trm", *SET): "step_3 is not a checkpoint of TRM as set here: ",
        (
            "import",
            file,
            "sudoku",
            "--as",
            "hrm",
        ): "embed_tokens.embedding_weight must have the shape (8, 8), but has (6, 8)",
        ("import", file, "sudoku"): "has no config.json of recstudy's. Say whose checkpoint ",
        ("import", file, "nowhere", "--as", "hrm"): "'nowhere'",
        (
            "import",
            file,
            "sudoku",
            "--as",
            "hrm",
            "--name",
            "a/b",
            *SET,
        ): "'a/b' cannot be the name of a study",
    }.items():
        code, _, errors = command(capsys, *words, "--results", tmp_path / "r")
        assert (code, message in errors, errors.count("\n")) == (2, True, 1), errors

    assert not (tmp_path / "r").exists()


def test_the_dry_run_names_the_tensor_and_the_setting_of_other_weights(imported, tmp_path):
    model = tiny("trm").model_copy(update={"width": 16})
    options = StudyOptions(
        dry_run=True, results=str(tmp_path), init_from=str(imported / "runs" / only_run(Results(imported)))
    )
    message = r"core.z_high must have the shape \(16,\), but has \(8,\). Set model.width=8$"
    with pytest.raises(DataError, match=message):
        carry_out(study(RunConfig(data=DATA, model=model)), options)


def test_weights_of_another_network_are_refused_before_anything_runs(imported, tmp_path):
    weights = imported / "runs" / only_run(Results(imported))
    with pytest.raises(DataError, match="is not the weights of ViTRM as set here: "):
        recstudy.run(study(tiny_run()), results=tmp_path / "r", init_from=weights, ray=False)
    with pytest.raises(
        ConfigError, match=r"no weights 'nowhere': it is neither a run in .*, nor a weight file"
    ):
        recstudy.run(study(tiny_run()), results=tmp_path / "r", init_from="nowhere", ray=False)
    with pytest.raises(DataError, match=r"the weights 00000000000000000000 of train.init_from are not in "):
        recstudy.run(study(tiny_run(init_from="0" * 20)), results=tmp_path / "r", ray=False)
    assert not (tmp_path / "r").exists()


def test_weights_are_named_by_their_digest_and_none_change_no_id():
    with pytest.raises(ConfigError, match="init_from"):
        tiny_run(init_from="weights.pt")
    assert tiny_run(init_from="").run_id == tiny_run().run_id
