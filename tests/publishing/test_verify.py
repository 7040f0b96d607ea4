"""A changed number is found, wherever it stands and whatever manifest comes with it; a bundle is read without trusting it."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from bundles import changed, sealed

from recstudy.command import main
from recstudy.errors import StorageError
from recstudy.publishing import Bundle
from recstudy.publishing.bundle import opened
from recstudy.publishing.verify import _differences, verify


def told(root: Path) -> str:
    return "\n".join(verify(Bundle(root)).differences)


def test_a_bundle_as_it_was_published_differs_in_nothing(published_once, capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["verify", f"{published_once}.zip"])

    said = capsys.readouterr().out
    for part in ("the ids of 4 runs", "values of metrics, by the answers of 4 runs", "CSV files, and", "Nothing differs"):
        assert part in said


def next_digit(found) -> str:
    """Another number of as many digits."""
    return found[1] + str((int(found[2]) + 1) % 10) + found[3]


PRINTED = {
    "report/report.html": r'(<td title="95 % interval[^>]*>(?:<strong>)?\d+\.)(\d)( )',
    "report/paper.tex": r"(\D\d*\.?)(\d)(\D)",
    "report/tables/depths.md": r"(\| \**\d+\.)(\d)( )",
    "report/tables/depths.csv": r"(,\d+\.\d*)(\d)(,)",
    "report/figures/curve.html": r'("y":\[\d+\.\d{2})(\d)()',
}


def test_a_digit_that_is_changed_in_print_is_found_in_every_file(bundle):
    for file, number in PRINTED.items():
        changed(bundle, file, number, next_digit)
    found = told(sealed(bundle))

    assert not [file for file in PRINTED if f"report: {file}, " not in found]


RECORDED = {
    "a metric": ("results/runs/*/result.json", r'("top1_accuracy": \d*)(\d)(\.)', "answers: run"),
    "a metric that is no count": ("results/runs/*/result.json", r'("nll": )(\d)(\.)', "answers: run"),
    "parameters": ("results/runs/*/result.json", r'("params": \d+)(\d)(,)', "records: 'latent_steps"),
    "a setting of a run": ("results/runs/*/config.json", r'("learning_rate": 0\.\d*)(\d)(,)', "settings: run"),
    "a level of the plan": ("results/studies/tiny/quick/plan.json", r'("model.latent_steps": )(\d)()', "settings: run"),
    "a planned seed": ("results/studies/tiny/quick/plan.json", r'(\[\s*\d,\s*)(\d)(,\s*"[0-9a-f]{20}")', "settings: run"),
    "a score that selected": ("results/runs/*/epochs.jsonl", r'("selection_top1_accuracy": \d*)(\d)()', "records: run"),
    "a published value": ("results/studies/tiny/quick/plan.json", r'("value": 9\d\.)(\d)(,)', "report: report/"),
    "a claim's margin": ("results/studies/tiny/quick/plan.json", r'("by": 0\.)(\d)()', "dates: 1 statement"),
}


@pytest.mark.parametrize("what", RECORDED)
def test_a_digit_that_is_changed_in_a_record_is_found(what, bundle):
    pattern, number, where = RECORDED[what]
    changed(bundle, pattern, number, next_digit)

    assert where in told(sealed(bundle))


def test_files_that_are_missing_new_or_changed_are_named(bundle):
    (bundle / "report" / "more.py").write_text("print('hello')\n")
    (bundle / "CITATION.cff").unlink()
    changed(bundle, "README.md", "verify DIR", "verify  DIR")

    said = told(bundle)
    for line in ("report/more.py is not in the manifest", "CITATION.cff is missing", "README.md is not as it was published"):
        assert f"files: {line}" in said


def test_of_a_report_that_another_version_has_drawn_the_csv_files_are_compared(bundle):
    """Its pages may differ; their digests in the manifest cover them."""
    changed(bundle, "bundle.json", r'("drawn_by": ")(\w)', lambda found: found[1] + "x")
    changed(bundle, "report/report.html", r"<nav aria-label", '<nav class="new" aria-label')
    found = verify(Bundle(sealed(bundle)))
    assert not found.differences
    assert "another version of recstudy has drawn it" in found.checks[-1].unchecked[-1]

    changed(bundle, file := "report/tables/depths.md", PRINTED[file], next_digit)
    assert "files: report/tables/depths.md is not as it was published" in told(bundle)
    changed(bundle, file := "report/tables/depths.csv", PRINTED[file], next_digit)
    assert "report: report/tables/depths.csv, row " in told(sealed(bundle))


def test_the_digest_that_a_paper_prints_is_compared(published_once, capsys):
    records = Bundle(published_once).about.records
    for asked, code in ((records[:16], 0), (records[:4], 1), ("0" * 64, 1)):
        with pytest.raises(SystemExit, match=f"^{code}$"):
            main(["verify", str(published_once), "--records", asked])
    assert "not 0000" in capsys.readouterr().out


def test_nothing_of_a_bundle_is_imported_and_nothing_beside_it(bundle, tmp_path):
    """Its plan names a module that would tell; it lies in the bundle, and where the command is typed."""
    spy = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    for place in (bundle / "code" / "spy.py", bundle / "spy.py"):
        place.parent.mkdir(exist_ok=True)
        place.write_text(spy)
    plan = bundle / "results/studies/tiny/quick/plan.json"
    values = json.loads(plan.read_text())
    values["plugins"] = [{"module": "spy", "file": str(bundle / "code/spy.py"), "digest": "0"}]
    plan.write_text(json.dumps(values))
    program = f"from recstudy.command import main; main(['verify', {str(sealed(bundle))!r}])"

    done = subprocess.run([sys.executable, "-c", program], cwd=bundle, capture_output=True, text=True, check=False)
    assert "Records: sha256" in done.stdout, done.stderr

    assert not (tmp_path / "ran").exists()


OWN = """
import sys
from recstudy import Study, grid, main
from recstudy.metrics import METRICS
from recstudy.metrics import metric
from recstudy.report import Table
from recstudy.testing import tiny_run


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


def test_what_a_study_defines_itself_is_said_to_be_unchecked_and_all_else_is_checked(tmp_path):
    """In processes of their own, as it is typed: the file registers a metric, which verifying does not import."""
    (tmp_path / "own_study.py").write_text(OWN)
    program = ("-c", "from recstudy.command import main; main()")

    def typed(*words: str, code: int = 0) -> str:
        run = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == code, run.stdout + run.stderr
        return run.stdout

    typed("own_study.py", "--no-ray", "--results", "results")
    typed(*program, "publish", "results", "out", "--trust")
    (tmp_path / "own_study.py").unlink()
    assert Bundle(tmp_path / "out").about.code == {"own_study.py": "as it was when the study was planned"}
    words = "it shows what the study itself may define (mine): what a study defines itself is not imported"
    assert words in typed(*program, "verify", "out")

    changed(tmp_path / "out", "report/tables/own.csv", PRINTED["report/tables/depths.csv"], next_digit)
    assert "report/tables/own.csv, row " in typed(*program, "verify", str(sealed(tmp_path / "out")), code=1)


# ---------------------------------------------------------------------------------------------------- zips of strangers


def a_zip(file: Path, *entries: tuple[zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for about, content in entries:
            archive.writestr(about, content)
    return file


def entry(name: str, mode: int = 0) -> zipfile.ZipInfo:
    about = zipfile.ZipInfo("x")
    about.filename, about.external_attr = name, mode << 16
    return about


@pytest.mark.filterwarnings("ignore:Duplicate")
@pytest.mark.parametrize(
    ("entries", "why"),
    [
        *(([entry("a/b"), entry(name)], "outside of the bundle|unpacked") for name in ("../out", "/out", "C:/out", "a\\b")),
        ([entry("a/link", 0o120777)], "is a link"),
        ([entry("a/b"), entry("a/b")], "is in it twice"),
        ([entry(f"a/{at}") for at in range(20)], "more than a bundle may hold"),
    ],
)
def test_a_zip_that_would_write_elsewhere_or_fill_the_disk_is_refused(entries, why, tmp_path, monkeypatch):
    monkeypatch.setattr("recstudy.publishing.bundle.MOST_BYTES", 10_000)
    file = a_zip(tmp_path / "x.zip", *((one, b"0" * 1000) for one in entries))

    with pytest.raises(StorageError, match=why), opened(file):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]


def test_a_zip_that_lies_about_its_sizes_is_refused(tmp_path):
    file = a_zip(tmp_path / "lying.zip", (zipfile.ZipInfo("a/b"), b"0" * 4000))
    content = file.read_bytes()
    file.write_bytes(content.replace((4000).to_bytes(4, "little"), (40).to_bytes(4, "little")))

    with pytest.raises(StorageError, match="cannot be unpacked"), opened(file):
        pass


def test_a_link_in_a_folder_is_refused(bundle, tmp_path):
    (bundle / "results/runs/more").symlink_to(tmp_path)

    with pytest.raises(StorageError, match="is a link or no file"):
        verify(Bundle(bundle))


def test_what_is_no_bundle_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "text.zip").write_text("no zip")
    a_zip(tmp_path / "other.zip", (zipfile.ZipInfo("a/b"), b""))
    for place in ("text.zip", "other.zip", "missing.zip"):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["verify", str(tmp_path / place)])
        assert "is no bundle. Give a folder or a zip that `recstudy publish` wrote." in capsys.readouterr().err


def test_a_study_s_name_that_leaves_the_bundle_is_refused(bundle):
    changed(bundle, "bundle.json", '"study": "tiny"', '"study": "../../.."')

    with pytest.raises(StorageError, match="is no bundle"):
        verify(Bundle(bundle))


def test_damage_is_a_difference_and_no_traceback(bundle):
    first, *_, last = sorted(bundle.glob("results/runs/*"))
    for file in (first / "result.json", last / "answers.npz"):
        file.write_bytes(b'{"format": 1, "status": "do' + b"\0" * 10 + b"\n{}\n")
    found = told(sealed(bundle))

    assert first.name in found
    assert last.name in found


@pytest.mark.parametrize(
    ("file", "printed", "drawn", "differences"),
    [
        ("a.csv", "row,mean\nx,0.30000000000000004\n", "row,mean\nx,0.3\n", 0),
        ("a.csv", "row,mean\nx,0.3001\n", "row,mean\nx,0.3\n", 1),
        ("a.csv", "row,mean\nx,30\n", "row,mean\nx,30\ny,1\n", 2),
        ("a.md", "run 97774d760", "run 97774e760", 1),
        ("a.html", '{"dtype":"f8","bdata":"MzMzMzMz0z8="}', '{"dtype":"f8","bdata":"NDMzMzMz0z8="}', 0),
        ("a.html", '{"dtype":"f8","bdata":"MzMzMzMz0z8="}', '{"dtype":"f8","bdata":"mpmZmZmZ2T8="}', 1),
    ],
)
def test_numbers_may_differ_in_their_last_digits_and_in_no_other(file, printed, drawn, differences):
    """Such as 0.1 + 0.2, which another order of adding makes 0.3."""
    assert len(list(_differences(file, printed.encode(), drawn.encode(), common=False))) == differences
