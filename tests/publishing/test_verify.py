"""A changed number is found, wherever it stands and whatever manifest comes with it; a bundle is read without
trusting it.
"""

import json
import os
import re
import shutil
import time
import zipfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from bundles import changed, edited, sealed, without_seed
from processes import RECSTUDY, run_python

from recstudy.base.errors import StorageError
from recstudy.base.files import sha256_of
from recstudy.cli import main
from recstudy.publishing import Bundle
from recstudy.publishing.bundle import open_bundle
from recstudy.publishing.checks import Verified, check_records, check_variants
from recstudy.publishing.differences import page_differences, table_differences
from recstudy.publishing.verify import NOT_CHECKED, verify
from recstudy.recursive import Answers, measured
from recstudy.recursive.metrics.kept import pack_answers, rounding_errors, unpack_answers


def differences_of(root: Path) -> str:
    return "\n".join(verify(Bundle(root)).differences)


def test_a_bundle_as_it_was_published_differs_in_nothing(published_once, typed):
    output = typed("verify", f"{published_once}.zip")

    for part in (
        "the ids of 4 runs",
        "metrics of 4 runs by",
        "CSV files: numbers",
        "other files of the report: text",
    ):
        assert part in output
    # the digest is what a paper prints
    last_line = f"Nothing differs. Records: sha256 {Bundle(published_once).about.records}"
    assert output.splitlines()[-1] == last_line


def next_digit(match) -> str:
    """Another number of as many digits."""
    return match[1] + str((int(match[2]) + 1) % 10) + match[3]


PRINTED = {
    "report/report.html": r'(<td title="95 % interval[^>]*>(?:<strong>)?\d+\.)(\d)( )',
    "report/paper.tex": r"(\D\d*\.?)(\d)(\D)",
    "report/tables/depths.md": r"(\| \**\d+\.)(\d)( )",
    "report/tables/depths.csv": r"(,\d+\.\d*)(\d)(,)",
    "report/figures/curve.html": r'("tickvals":\[)(\d)(,)',
}


def test_a_digit_that_is_changed_in_print_is_found_in_every_file(bundle):
    for file, number in PRINTED.items():
        changed(bundle, file, number, next_digit)
    differences = differences_of(sealed(bundle))

    assert not [file for file in PRINTED if f"{file}, line " not in differences]
    numbers = r"depths\.csv, line \d+, column \w+: '[\d.]+', but the records give '[\d.]+'"
    assert re.search(numbers, differences)


PLAN = "results/studies/tiny/quick/plan.json"
RECORDED = {
    "parameters": ("results/runs/*/result.json", r'("params": \d+)(\d)(,)', "report/tables/depths.csv, line"),
    "a setting of a run": (
        "results/runs/*/config.json",
        r'("learning_rate": 0\.\d*)(\d)(,)',
        "config.json: the settings of run",
    ),
    "a level of the plan": (PLAN, r'("model.latent_steps": )(\d)()', f"{PLAN}: the settings of run"),
    "a planned seed": (PLAN, r'(\[\s*\d,\s*)(\d)(,\s*"[0-9a-f]{20}")', f"{PLAN}: the settings of run"),
    "a score that selected": (
        "results/runs/*/epochs.jsonl",
        r'("selection_top1_accuracy": \d*)(\d)()',
        "epochs.jsonl: ",
    ),
    "a published value": (PLAN, r'("value": 61\.)(9)(,)', "report/"),
    "a claim's margin": (
        PLAN,
        r'("margin": 0\.)(\d)()',
        f"{PLAN}: the claim 'two latent steps help' changed after it was dated",
    ),
}


@pytest.mark.parametrize("item", RECORDED)
def test_a_digit_that_is_changed_in_a_record_is_found(item, bundle):
    pattern, number, location = RECORDED[item]
    changed(bundle, pattern, number, next_digit)

    assert location in differences_of(sealed(bundle))


LOOKS = "results/studies/looks.jsonl"
RESULT = "results/runs/*/result.json"
ATTACKS = {
    "a loss": (
        "results/runs/*/losses.jsonl",
        r'("losses": \[\d\.)\d',
        r"\g<1>0",
        "Not checked: lines of epochs.jsonl and losses",
    ),
    "seconds of an epoch": (
        "results/runs/*/epochs.jsonl",
        r'("seconds": )\d',
        r"\g<1>9",
        "Not checked: lines of epochs.jsonl",
    ),
    "a loss of a figure": (
        "results/runs/*/epochs.jsonl",
        r'("train_loss": )\d',
        r"\g<1>9",
        "report/figures/learning.csv, line",
    ),
    "the last epoch": (
        "results/runs/*/epochs.jsonl",
        r'\{"epoch": 1, .*\n',
        "",
        "epochs.jsonl: its last epoch is 1 of 2",
    ),
    "the selected epoch": (RESULT, r'("epoch": )\d', r"\g<1>7", "of epoch 8 is None"),
    "an earlier date of a claim": (
        PLAN,
        r'("stated": \{\s*"\w+": ")\d+',
        r"\g<1>2001",
        "Not checked: dates of claims",
    ),
    "a published value that is not printed": (
        PLAN,
        r'("value": )93',
        r"\g<1>39",
        "Not checked: published values, the paper's settings, and entries of plan.json",
    ),
    "no look": (LOOKS, r".*\n", "", "has no look at "),
    "a look before its runs": (LOOKS, r'("date": ")\d+', r"\g<1>2001", "a look on 2001"),
    "a commit": (
        RESULT,
        r'"commits": \[[^\]]*\]',
        '"commits": ["beef"]',
        "its commits and changes differ from attempts.jsonl",
    ),
    "a metric of the training set": (
        RESULT,
        r'("train_top1_accuracy": )\d',
        r"\g<1>9",
        "train_top1_accuracy (4 runs): it cannot be computed from answers",
    ),
    "a metric without a value": (
        RESULT,
        r'("metrics": \{[^}]*"top1_accuracy": )[\d.]+',
        r"\g<1>null",
        "it has no top1_accuracy, but its answers give",
    ),
    "accuracy at another depth": (
        RESULT,
        r'("3": )\d',
        r"\g<1>9",
        "Not checked: top1_accuracy by steps (4 runs)",
    ),
    "a cost": (
        RESULT,
        r'("epoch_seconds": )\d',
        r"\g<1>9",
        "epoch_seconds, evaluation_seconds, images_per_second",
    ),
    "workers": (
        RESULT,
        r'("workers": )1',
        r"\g<1>2",
        "Not checked: values that only result.json has, such as versions",
    ),
    "code": (
        "code/tiny.py",
        "study",
        "other",
        "Not checked: code/tiny.py: as it is now; its plan has no SHA-256 of it",
    ),
    "an author": ("CITATION.cff", "B. Author", "C. Author", "Not checked: CITATION.cff"),
    "a finding": ("README.md", r"\d points", "9 points", "README.md, line"),
    "an answer that no metric reads": (
        "",
        "",
        "",
        "Not checked: entries of answers.npz that no metric reads",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_change_with_a_new_manifest_is_found_or_named_as_not_checked(attack, bundle, capsys):
    pattern, text, replacement, line = ATTACKS[attack]
    if pattern:
        changed(bundle, pattern, text, replacement)
    else:
        file = next(bundle.glob("results/runs/*/answers.npz"))
        with np.load(file) as arrays:
            np.savez_compressed(file, **arrays, more=np.zeros(len(arrays["labels"])))
    with pytest.raises(SystemExit, match=r"^[01]$") as exit_info:
        main(["verify", str(sealed(bundle))])

    output_line = next(text for text in capsys.readouterr().out.splitlines() if line in text)
    assert exit_info.value.code == int(not output_line.startswith("Not checked"))


RUN = "results/runs/*/"


def first_run(root: Path) -> Path:
    return min(root.glob("results/runs/*"))


def swap(*keys: str):
    """Swap values of the first two variants of a plan."""

    def edit(plan):
        first, second = plan["variants"][:2]
        for key in keys:
            first[key], second[key] = second[key], first[key]

    return edit


def write(name: str, text: str = "all claims supported"):
    def add(root: Path) -> None:
        file = root / name.replace("RUN", first_run(root).name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return add


def note(pattern: str, *keys: str, value: object = "all claims supported", key: str = "note"):
    """Add a key to an object in files."""

    def add(values):
        for name in keys:
            values = values[name]
        values[key] = value

    return lambda root: edited(root, pattern, add)


def repeated(pattern: str, key: str):
    return lambda root: changed(root, pattern, r"\{", f'{{"{key}": 1, ')


PLAN_FILE = "results/studies/*/*/plan.json"
FORGED = {  # attack on a bundle -> a difference
    "first seed": (lambda root: without_seed(root, 0), "the seeds of 'latent_steps=2' have a gap: [1]"),
    "seed of one variant": (lambda root: without_seed(root, 0, (1,)), "of 'latent_steps=2' have a gap: [1]"),
    "variant without runs": (
        lambda root: [without_seed(root, seed, (1,)) for seed in (0, 1)],
        "the seeds of 'latent_steps=2' have a gap: []",
    ),
    "run that a look names": (
        lambda root: (
            edited(root, PLAN_FILE, lambda plan: plan["runs"].pop()) or shutil.rmtree(first_run(root))
        ),
        "its looks name runs without records",
    ),
    "labels": (
        lambda root: edited(root, PLAN_FILE, swap("label")),
        "does not follow from its level latent_steps=1",
    ),
    "another label": (
        lambda root: changed(root, PLAN_FILE, '"latent_steps=2"', '"latent_steps=20"'),
        "the label 'latent_steps=20' does not follow from its level latent_steps=2",
    ),
    "labels and levels": (
        lambda root: edited(root, PLAN_FILE, swap("label", "levels")),
        "'latent_steps=2' has the level latent_steps=2, but its setting is 1",
    ),
    "axis": (
        note(PLAN_FILE, "axes", key="latent_steps", value="model.cycles"),
        "has the level latent_steps=2, but its setting is 1",
    ),
    "title of a model": (
        note(PLAN_FILE, "variants", 0, key="model", value="ViT"),
        "is described as ('ViT', ",
    ),
    "generated data": (
        note(PLAN_FILE, "variants", 0, key="synthetic", value=True),
        "'Digits', True, False, False)",
    ),
    "name of the study": (
        note(PLAN_FILE, key="study", value="other"),
        "plan.json: it is of other (quick), but",
    ),
    "date": (
        note("bundle.json", key="date", value="2020-01-01"),
        "bundle.json: its date is '2020-01-01', but",
    ),
    "user files": (
        write("results/runs/RUN/files.json", '{"x.py": "0"}'),
        "files.json: its digests differ from those in",
    ),
    "attempts": (note(RUN + "result.json", key="attempts", value=9), "has 1 attempts, but result.json has 9"),
    "parameters": (
        note(RUN + "result.json", "cost", key="params", value=7),
        "'latent_steps=1': params is 7, but its settings give ",
    ),
    "FLOPs": (
        note(RUN + "result.json", "cost", key="gflops", value=7),
        "gflops is 7, but its settings give ",
    ),
    "training": (
        note(RUN + "result.json", "cost", key="train_pflop", value=7),
        "train_pflop is 7, but its settings",
    ),
    "key of a result": (
        note(RUN + "result.json", "provenance"),
        "result.json: the key 'provenance.note' is unknown",
    ),
    "key of a plan": (note(PLAN_FILE, "variants", 0), "plan.json: the key 'variants.0.note' is unknown"),
    "key of settings": (note(RUN + "config.json"), "config.json: the key 'note' is unknown"),
    "key of the bundle": (note("bundle.json"), "bundle.json: the key 'note' is unknown"),
    "key of the marker": (note("results/recstudy.json"), "recstudy.json: the key 'note' is unknown"),
    "key of an attempt": (
        repeated(RUN + "attempts.jsonl", "note"),
        "attempts.jsonl: the key 'note' is unknown",
    ),
    "metric twice": (
        lambda root: changed(root, RUN + "result.json", r'"metrics": \{', '"metrics": {"nll": 0.1, '),
        "result.json: the key 'nll' is given twice",
    ),
    "key twice in a plan": (repeated(PLAN_FILE, "study"), "plan.json: the key 'study' is given twice"),
    "key twice in a bundle": (
        repeated("bundle.json", "study"),
        "bundle.json: the key 'study' is given twice",
    ),
    "key twice in a log": (
        repeated(RUN + "epochs.jsonl", "epoch"),
        "epochs.jsonl: the key 'epoch' is given twice",
    ),
    "text below a log": (
        lambda root: changed(root, RUN + "losses.jsonl", r"\Z", "all claims supported"),
        "losses.jsonl: Expecting value",
    ),
    "file": (write("VERDICT.md"), "VERDICT.md: a bundle has no such file"),
    "file of results": (write("results/VERDICT.md"), "results/VERDICT.md: a bundle has no such file"),
    "file of a run": (write("results/runs/RUN/VERDICT.md"), "/VERDICT.md: a bundle has no such file"),
    "plan of another study": (
        write("results/studies/other/quick/plan.json"),
        "results/studies/other/quick/plan.json: a bundle has no such file",
    ),
}


@pytest.mark.parametrize("attack", FORGED)
def test_an_attack_is_found_though_all_digests_fit_it(attack, bundle):
    attack, difference = FORGED[attack]
    attack(bundle)

    assert difference in differences_of(sealed(bundle))


def test_a_file_that_a_manifest_lists_twice_is_found(bundle):
    manifest = sealed(bundle) / "manifest-sha256.txt"
    manifest.write_text(f"{'0' * 64}  README.md\n{manifest.read_text()}")

    assert "it lists a file twice" in differences_of(bundle)


def test_missing_last_seeds_and_results_are_named_because_they_may_be_honest(bundle):
    run = first_run(bundle)
    without_seed(bundle, 1, (0,))
    (run / "result.json").unlink()
    verified = Verified([], [])

    assert list(check_variants(Bundle(bundle), verified)) == []
    assert "why 'latent_steps=1' has only 1 of 2 seeds" in verified.unchecked
    assert list(check_records(Bundle(bundle), verified)) == []
    assert any(line.startswith("why planned runs have no result: ") for line in verified.unchecked)


WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, *_):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, Missing())
"""


@pytest.mark.parametrize("reason", ["torch", "glyphnet"])
def test_what_cannot_be_counted_is_named_with_the_reason(reason, bundle, tmp_path):
    """In a process without torch and without earlier counts, or of a model that the study defines."""
    if reason == "glyphnet":
        changed(bundle, PLAN_FILE, '"family": "vitrm"', '"family": "glyphnet"')
    program = WITHOUT_TORCH * (reason == "torch") + "from recstudy.cli import main; main()"
    cache = {"RECSTUDY_CACHE": str(tmp_path / "cache")}
    done = run_python("-c", program, "verify", sealed(bundle), code=reason == "glyphnet", **cache)

    line = next(line for line in done.stdout.splitlines() if "titles, parameters and FLOPs" in line)
    assert line.startswith("Not checked: titles, parameters and FLOPs of variants (2): ")
    assert reason in line


TAMPERED = {  # metric -> task, and a difference that half precision does not explain
    "top1_accuracy": ("multiclass", 3e-8),
    "ece": ("multiclass", 0.1),
    "nll": ("multiclass", 0.01),
    "auroc.1": ("multilabel", 0.1),
    "average_precision": ("multilabel", 0.1),
    "other_solutions": ("grid", 0.001),
}


def make_answers(task: str, seed: int = 2, scale: float = 3.0) -> Answers:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, (60, 4))
    if task == "grid":
        return Answers(task, labels=labels + 1, cells=labels[::-1] + 1, lawful=labels[:, 0])
    labels = labels if task == "multilabel" else labels.argmax(1)
    return Answers(task, scale * rng.normal(size=(60, 4)), labels, "0123")


@pytest.mark.parametrize("name", TAMPERED)
def test_a_metric_differs_by_no_more_than_half_precision_of_its_answers_explains(name, bundle):
    task, change = TAMPERED[name]
    answers, file = make_answers(task), min(bundle.glob(RESULT))
    file.with_name("answers.npz").write_bytes(pack_answers(answers)[0])
    result = json.loads(file.read_text()) | {"metrics": measured(answers).values}
    for difference in (0, change):
        result["metrics"][name] += difference
        file.write_text(json.dumps(result))

        assert ("but its answers give" in differences_of(sealed(bundle))) == bool(difference)


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_rounding_to_half_precision_stays_within_the_tolerance_of_a_metric(task, tmp_path):
    for seed in range(30):
        answers = make_answers(task, seed, 10 ** (seed / 6 - 3))
        (tmp_path / "answers.npz").write_bytes(pack_answers(answers)[0])
        restored = unpack_answers(tmp_path / "answers.npz").answers
        values = measured(restored).values
        errors = rounding_errors(restored, values)

        for name, value in measured(answers).values.items():
            assert values[name] == pytest.approx(value, rel=1e-9, abs=errors.get(name, 0))


def test_the_documentation_names_all_that_is_not_checked():
    guide = " ".join((Path(__file__).parents[2] / "docs/how-to/publish.md").read_text().split())

    assert [line for line in NOT_CHECKED if f"- {line}" not in guide.replace("`", "")] == []


def test_files_that_are_missing_new_or_changed_are_named(bundle):
    (bundle / "report" / "more.py").write_text("print('hello')\n")
    (bundle / "CITATION.cff").unlink()
    (bundle / "code/tiny.py").unlink()
    changed(bundle, "README.md", "verify DIR", "verify  DIR")

    differences = differences_of(bundle)
    for line in (
        "code/tiny.py: is missing",
        "report/more.py: is not in",
        "CITATION.cff: is missing",
        "README.md: changed since it was published",
    ):
        assert line in differences


def test_of_a_report_that_another_version_has_drawn_the_csv_files_are_compared(bundle):
    """Its pages may differ; their digests in the manifest cover them."""
    changed(bundle, "bundle.json", r'("drawn_by": ")(\w)', lambda match: match[1] + "x")
    changed(bundle, "report/report.html", r"<nav aria-label", '<nav class="new" aria-label')
    verification = verify(Bundle(sealed(bundle)))
    assert not verification.differences
    last = verification.unchecked[-len(NOT_CHECKED) - 1]
    assert "another version of recstudy or its packages wrote them" in last

    shutil.copy(bundle / "report/report.md", bundle / "report/summary.md")
    changed(bundle, "report/tables/depths.csv", r",low,", ",least,")
    unchecked = verify(Bundle(sealed(bundle))).unchecked
    assert any(re.match("report/summary.md: only one of the bundle", line) for line in unchecked)
    assert any(re.match("report/tables/depths.csv: .* no column least", line) for line in unchecked)

    changed(bundle, file := "report/tables/depths.md", PRINTED[file], next_digit)
    assert "report/tables/depths.md: changed since it was published" in differences_of(bundle)
    changed(bundle, file := "report/tables/depths.csv", PRINTED[file], next_digit)
    assert "report/tables/depths.csv, line " in differences_of(sealed(bundle))


def test_verify_imports_no_code_of_a_bundle_or_beside_it(bundle, tmp_path):
    """Its plan names a module that would tell; it lies in the bundle, and where the command is typed."""
    spy = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    for place in (bundle / "code" / "spy.py", bundle / "spy.py"):
        place.parent.mkdir(exist_ok=True)
        place.write_text(spy)
    plan = bundle / "results/studies/tiny/quick/plan.json"
    values = json.loads(plan.read_text())
    values["plugins"] = [{"module": "spy", "file": str(bundle / "code/spy.py"), "digest": "0"}]
    plan.write_text(json.dumps(values))
    program = f"from recstudy.cli import main; main(['verify', {str(sealed(bundle))!r}])"

    assert "Records: sha256" in run_python("-c", program, folder=bundle, code=1).stdout
    assert not (tmp_path / "ran").exists()


OWN_STUDY = """
import sys
from recstudy import Study, grid, main
from recstudy.recursive import METRICS
from recstudy.recursive import metric
from recstudy.report import Table
from recstudy.recursive.testing import tiny_run


@METRICS.add("mine")
@metric("Mine", unit="%", better="higher", bounds=(0, 100), form=".2f")
def mine(answers):
    return 100 * float((answers.predicted == answers.labels).mean())


study = Study(
    name="own_study", presets={"quick": tiny_run()}, variants=grid({"model.latent_steps": [1, 2]}),
    report=[Table("own", metrics=("top1_accuracy", "mine"))], question="?",
)
if __name__ == "__main__":
    main(study)
"""


def test_only_parts_defined_by_the_study_are_unchecked(tmp_path):
    """In processes of their own, as it is typed: the file registers a metric, which verifying does not
    import.
    """
    (tmp_path / "own_study.py").write_text(OWN_STUDY)

    def typed(*words: object, code: int = 0) -> str:
        return run_python(*words, code=code, folder=tmp_path).stdout

    typed("own_study.py", "--no-ray", "--results", "results")
    typed(*RECSTUDY, "publish", "results", "out", "--trust")
    (tmp_path / "published").mkdir()
    (tmp_path / "own_study.py").rename(tmp_path / "published" / "own_study.py")
    assert Bundle(tmp_path / "out").about.code == {"own_study.py": "as it was when the study was planned"}
    assert "the study's own code is not imported (own_study)" in typed(*RECSTUDY, "verify", "out")

    changed(tmp_path / "out", "report/tables/own.csv", PRINTED["report/tables/depths.csv"], next_digit)
    changed(tmp_path / "out", "code/own_study.py", "Mine", "Yours")
    output = typed(*RECSTUDY, "verify", sealed(tmp_path / "out"), code=1)
    assert "report/tables/own.csv, line " in output
    assert "code/own_study.py: its SHA-256 is not the one in plan.json" in output

    digests = [sha256_of(root / "own_study.py") for root in (tmp_path / "published", tmp_path / "out/code")]
    changed(tmp_path / "out", "results/studies/*/*/plan.json", *digests)
    output = typed(*RECSTUDY, "verify", sealed(tmp_path / "out"), code=1)
    assert "code/own_study.py: its SHA-256 is in plan.json, but no run has recorded it" in output


# ---------------------------------------------------------------------------------------------------- zips of
# strangers


def a_zip(file: Path, *entries: tuple[zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for about, content in entries:
            archive.writestr(about, content)
    return file


BESIDE = {
    "README.md": "has the entries 'a', 'README.md' or a comment, but a bundle is one folder",
    "__MACOSX/a/._b": "has the entries 'a', '__MACOSX' or",
    "C:/out": "has the entries 'a', 'C:' or",
    "/out": "has the entry '/out'",
    "a/../../out": "has the entry 'a/../../out'",
    "a\\b": "has the entry 'a",
    "a/b": "has the entry 'a/b', which is",
    "a/B": "has the entry 'a/B', which is",
    "a/b\0.txt": "has the entry 'a/b",
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_zip_has_each_file_once_in_one_folder_and_nothing_beside_it(name, tmp_path):
    about = zipfile.ZipInfo("x")
    about.filename = name
    entries = [(zipfile.ZipInfo(text), b"{}") for text in ("a/", "a/bundle.json", "a/b")]
    with pytest.warns(UserWarning, match="Duplicate name") if name == "a/b" else nullcontext():
        file = a_zip(tmp_path / "x.zip", *entries, (about, b"0"))

    with pytest.raises(StorageError, match=re.escape(BESIDE[name])), open_bundle(file):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]
    assert not Path("/out").exists()


def test_a_damaged_zip_is_refused_in_one_line(published_once, tmp_path):
    content = bytearray(Path(f"{published_once}.zip").read_bytes())
    with zipfile.ZipFile(f"{published_once}.zip") as archive:
        entry = max(archive.infolist(), key=lambda entry: entry.compress_size)
    start = entry.header_offset + 60 + len(entry.filename)
    content[start : start + 40] = bytes(255 - byte for byte in content[start : start + 40])
    (tmp_path / "x.zip").write_bytes(content)

    with (
        pytest.raises(StorageError, match=r"x\.zip cannot be unpacked: Error -3"),
        open_bundle(tmp_path / "x.zip"),
    ):
        pass


def test_a_damaged_record_in_a_zip_is_named_below_the_zip(published_once, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("bundle/bundle.json", (published_once / "bundle.json").read_bytes()[:100])

    with pytest.raises(StorageError, match=rf"^{tmp_path}/x.zip/bundle.json is damaged"):  # noqa: SIM117
        with open_bundle(tmp_path / "x.zip") as bundle:
            verify(bundle)


@pytest.mark.skipif(os.getuid() != 0, reason="takes the rights of another user, as root alone may")
def test_an_unreadable_file_in_a_bundle_is_one_line(bundle):
    (bundle / "README.md").chmod(0)
    for parent in (bundle, *bundle.parents):
        parent.chmod(parent.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match=r"README.md cannot be read: Permission denied. Make every"):
            verify(Bundle(bundle))
    finally:
        os.seteuid(0)


def test_a_zip_with_a_comment_is_refused(published_once, tmp_path):
    file = Path(shutil.copy(f"{published_once}.zip", tmp_path))
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b"all claims supported"

    with (
        pytest.raises(StorageError, match="has the entries 'tiny_bundle' or a comment"),
        open_bundle(file),
    ):
        pass


def test_a_zip_or_folder_that_would_fill_the_disk_is_refused_at_once(bundle, tmp_path):
    about = zipfile.ZipInfo("a/b")
    file = a_zip(tmp_path / "bomb.zip", (zipfile.ZipInfo("a/bundle.json"), b"{}"), (about, b"0" * 4000))
    file.write_bytes(
        file.read_bytes().replace((4000).to_bytes(4, "little"), (3 * 10**9).to_bytes(4, "little"))
    )
    with open(bundle / "README.md", "r+b") as readme:
        readme.truncate(3 * 10**9)  # sparse
    started, refused = time.monotonic(), "is too large. A bundle has at most 200,000 files and 2 GB"
    with pytest.raises(StorageError, match=refused), open_bundle(file):
        pass
    with pytest.raises(StorageError, match=refused):
        verify(Bundle(bundle))
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_bundle_of_too_many_files_is_refused(is_zip, published_once, monkeypatch):
    monkeypatch.setattr("recstudy.publishing.bundle.MOST_FILES", 10)
    place = Path(f"{published_once}.zip") if is_zip else published_once

    with (
        pytest.raises(StorageError, match=r"is too large\. A bundle has at most"),
        open_bundle(place) as bundle,
    ):
        verify(bundle)


def test_a_zip_that_lies_about_its_sizes_is_refused(tmp_path):
    file = a_zip(
        tmp_path / "lying.zip",
        (zipfile.ZipInfo("a/bundle.json"), b"{}"),
        (zipfile.ZipInfo("a/b"), b"0" * 4000),
    )
    content = file.read_bytes()
    file.write_bytes(content.replace((4000).to_bytes(4, "little"), (40).to_bytes(4, "little")))

    with pytest.raises(StorageError, match="cannot be unpacked"), open_bundle(file):
        pass


def test_a_link_in_a_folder_is_refused(bundle, tmp_path):
    (bundle / "results/runs/more").symlink_to(tmp_path)

    with pytest.raises(StorageError, match="is a link or a special file"):
        verify(Bundle(bundle))


def test_folder_that_is_no_bundle_is_refused_in_one_line(tmp_path, typed):
    (tmp_path / "text.zip").write_text("no zip")
    a_zip(tmp_path / "other.zip", (zipfile.ZipInfo("a/b"), b""))
    for place in ("text.zip", "other.zip", "missing.zip"):
        output = typed("verify", tmp_path / place, code=2)
        assert "is no bundle. Give a folder or a zip from `recstudy publish`." in output


def test_a_study_s_name_that_leaves_the_bundle_is_refused(bundle):
    changed(bundle, "bundle.json", '"study": "tiny"', '"study": "../../.."')

    with pytest.raises(StorageError, match="is no bundle"):
        verify(Bundle(bundle))


def test_damage_is_a_difference_and_no_traceback(bundle):
    first, *_, last = sorted(bundle.glob("results/runs/*"))
    for file in (first / "result.json", last / "answers.npz"):
        file.write_bytes(b'{"format": 1, "status": "do' + b"\0" * 10 + b"\n{}\n")
    differences = differences_of(sealed(bundle))

    assert first.name in differences
    assert last.name in differences


@pytest.mark.parametrize(
    ("compare", "published", "drawn_by", "differences"),
    [
        (table_differences, "row,mean\nx,0.30000000000000004\n", "row,mean\nx,0.3\n", 0),
        (table_differences, "row,mean\nx,0.3001\n", "row,mean\nx,0.3\n", 1),
        (table_differences, "row,mean\nx,30\n", "row,mean\nx,30\ny,1\n", 1),
        (page_differences, "run 97774d760", "run 97774e760", 1),
        (
            page_differences,
            '{"dtype":"f8","bdata":"MzMzMzMz0z8="}',
            '{"dtype":"f8","bdata":"NDMzMzMz0z8="}',
            0,
        ),
        (
            page_differences,
            '{"dtype":"f8","bdata":"MzMzMzMz0z8="}',
            '{"dtype":"f8","bdata":"mpmZmZmZ2T8="}',
            1,
        ),
    ],
)
def test_numbers_may_differ_in_their_last_digits_and_in_no_other(
    tmp_path, compare, published, drawn_by, differences
):
    """Such as 0.1 + 0.2, which another order of adding makes 0.3."""
    files = [tmp_path / "published", tmp_path / "drawn"]
    for file, text in zip(files, (published, drawn_by), strict=True):
        file.write_text(text)
    assert len(list(compare(*files, is_same_version=True))) == differences
