"""A bundle stands by itself: the same bytes each time, nothing private in it, and read by every reader of
results.
"""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml
from bundles import sealed

import recstudy
from recstudy.base.errors import ConfigError
from recstudy.publishing import Bundle
from recstudy.publishing.publish import publish
from recstudy.publishing.scrub import Private, private
from recstudy.publishing.verify import verify
from recstudy.records import Failure, Results, write_json
from recstudy.recursive import ImageTRM, MedPix, RunConfig
from recstudy.recursive.config.answers import Answers
from recstudy.recursive.metrics.kept import pack_answers
from recstudy.study.design import Variant
from recstudy.study.plan import make_plan
from recstudy.study.testing import make_result, tiny_study, write_study

TOKEN = "hf_0123456789abcdefghijABCDEFGHIJ"
SECRET = "correct-horse-battery"


def test_published_twice_gives_the_same_bytes_which_sha256sum_checks(
    trained_results, published_once, tmp_path
):
    second_bundle = tmp_path / published_once.name
    study = published_once.with_name("tiny.py")
    publish(
        trained_results,
        "tiny",
        "quick",
        second_bundle,
        study=study,
        authors=("A. Author", "B. Author"),
        licence="CC-BY-4.0",
    )

    assert (
        subprocess.run(
            ["sha256sum", "--check", "--quiet", "manifest-sha256.txt"], cwd=second_bundle, check=False
        ).returncode
        == 0
    )
    assert (
        second_bundle.with_name(f"{second_bundle.name}.zip").read_bytes()
        == published_once.with_name(f"{second_bundle.name}.zip").read_bytes()
    )


def test_every_reader_takes_its_results(published_once, tmp_path, typed):
    results = shutil.copytree(published_once / "results", tmp_path / "results")
    for words in (["report"], ["status"], ["audit"], ["explain", "depths:1:1"]):
        typed(*words, results)
    pages = (published_once / "report/report.html", results / "studies/tiny/quick/report/report.html")
    cells = [re.findall(r"<td[^>]*>[^<]*", page.read_text()) for page in pages]

    assert len(recstudy.load(results).runs) == 4
    assert cells[0] == cells[1]


def test_bundle_names_its_data_and_how_to_cite_it(published_once):
    readme, cited = (
        (published_once / "README.md").read_text(),
        yaml.safe_load((published_once / "CITATION.cff").read_text()),
    )

    assert next(iter(recstudy.load(published_once / "results").runs["provenance.data_checksum"])) in readme
    assert cited["authors"] == [{"name": "A. Author"}, {"name": "B. Author"}]
    assert cited["license"] == "CC-BY-4.0"
    assert cited["identifiers"][0]["value"] == f"sha256:{Bundle(published_once).about.records}"


def test_items_of_real_data_are_in_it_on_request_alone(trained_results, published_once, tmp_path):
    """Digits are scans of people's writing."""
    publish(trained_results, "tiny", "quick", tmp_path / "tiny", data=True)

    assert not list(published_once.glob("results/runs/*/mistakes.npz"))
    assert len(list((tmp_path / "tiny").glob("results/runs/*/mistakes.npz"))) == 4
    assert Bundle(published_once).about.left_out == (
        "items of data sets (images, captions, puzzles, traces of them): 4 files",
    )
    assert not (tmp_path / "tiny/quick").exists()  # a bundle may be named as its study


def test_captions_of_a_data_set_are_left_out_while_the_first_seed_has_no_answers_yet(tmp_path):
    study = tiny_study([Variant("base", {})], RunConfig(data=MedPix(), model=ImageTRM()))
    results = write_study(tmp_path / "results", study, seeds=2)
    write_configs(results, study)
    answers = Answers("caption", written=["a mass"], references=[["a cyst"]], rows=np.array([0]))
    _, later_id = sorted(run.id for run in make_plan(study, seeds=2).runs)
    results.run(later_id).answers.write_bytes(pack_answers(answers)[0])
    publish(results, "tiny", "quick", tmp_path / "tiny")

    assert not list((tmp_path / "tiny").glob("results/runs/*/answers.npz"))


def test_a_bundle_without_pages_verifies_and_a_removed_table_is_found(trained_results, tmp_path):
    root = tmp_path / "tiny"
    publish(trained_results, "tiny", "quick", root, pages=False)
    names = {name.partition(".")[2] for name in Bundle(root).files if name.startswith("report/")}

    assert names.isdisjoint({"html", "min.js"})
    assert verify(Bundle(root)).differences == []
    assert "`report/report.md` has every table." in (root / "README.md").read_text()

    table = next(iter(sorted(root.glob("report/tables/*.csv"))))
    table.unlink()
    assert verify(Bundle(sealed(root))).differences == [f"report/tables/{table.name}: is missing"]


# -------------------------------------------------------------------------------------------------------
# nothing private


def write_configs(results: Results, study: recstudy.Study) -> None:
    """Write the settings of runs, which `write_study` leaves out."""
    for run in make_plan(study, seeds=2).runs:
        if results.run(run.id).path.exists():
            write_json(results.run(run.id).config, run.config.model_dump(mode="json"))


def planted(root: Path) -> Results:
    """A results folder as a talkative cluster leaves it."""
    error = f"OSError: /home/annabel/data/x.npz at gpunode17: 401 for https://annabel:{SECRET}@hub/x?token={TOKEN}"
    failed = Failure(error_class="code", error=error, traceback=f"Traceback:\n{error}", attempts=1)
    about = {
        "hardware": {"host": "gpunode17.cluster.example"},
        "data_notes": ["read from /mnt/annabel/set/labels.csv"],
    }
    study = tiny_study(name="planted")
    results = write_study(
        root / "results",
        study,
        score=lambda run: (
            failed if run.seed == 0 and "=2" in run.label else make_result(80.0 + run.seed, provenance=about)
        ),
        seeds=2,
    )
    line = '{"started": "2026-01-01T00:00:00+00:00", "host": "gpunode17.cluster.example", "process": 471104711047}\n'
    write_configs(results, study)
    for folder in (results.root / "runs").iterdir():
        (folder / "attempts.jsonl").write_text(line)
    plan = results.root / "studies/planted/quick/plan.json"
    command = (
        f"HF_TOKEN={TOKEN} python /home/annabel/work/study.py --results /scratch/annabel/r --address ray://gpunode17:10001 "
        f"--data=/mnt/annabel/set --seeds 2 --set train.epochs=2"
    )
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"command": command}))
    return results


def test_bundle_contains_nothing_private(tmp_path, monkeypatch):
    """This machine's paths, user and host, those of the records, and a token from an environment or a
    command.
    """
    monkeypatch.setenv("MY_API_KEY", SECRET)
    monkeypatch.setenv("USER", "annabel")
    monkeypatch.setattr("socket.gethostname", lambda: "titan-of-annabel")
    results = planted(tmp_path)

    publish(results, "planted", "quick", tmp_path / "out")

    words = (
        "annabel",
        "gpunode17",
        "titan-of",
        TOKEN,
        SECRET,
        str(tmp_path),
        str(Path.cwd()),
        "/home/",
        "/mnt/",
        "471104711047",  # a shorter one may occur in a digest by chance
    )
    for file in (path for path in (tmp_path / "out").rglob("*") if path.is_file()):
        text = file.read_bytes().decode(errors="replace") if file.suffix != ".js" else ""
        assert not [word for word in words if word in text], file
    plan = Bundle(tmp_path / "out").plan
    assert plan.command == "python .../study.py --seeds 2 --set train.epochs=2"
    assert not verify(Bundle(tmp_path / "out")).differences


def test_a_page_names_no_folder_of_a_part_that_is_not_imported(tmp_path, monkeypatch):
    monkeypatch.chdir("/")  # a working folder would be refused
    study = tiny_study(name="parts")
    results = write_study(tmp_path / "results", study)
    write_configs(results, study)
    (tmp_path / "parts.py").write_text("x = 1\n")
    (plan,) = results.root.glob("studies/parts/quick/plan.json")
    values = json.loads(plan.read_text())
    values["plugins"] = [{"module": "parts", "file": str(tmp_path / "parts.py"), "digest": "0"}]
    values["report"] = [*values["report"], {"kind": "mine", "name": "mine"}]
    plan.write_text(json.dumps(values))

    publish(results, "parts", "quick", tmp_path / "out")

    page = (tmp_path / "out/report/report.html").read_text()
    assert "not imported: .../parts.py; --trust imports it" in html.unescape(page)
    assert str(tmp_path) not in page


def test_private_words_in_the_authors_text_are_refused_and_not_rewritten(tmp_path, monkeypatch):
    monkeypatch.setenv("USER", "annabel")
    study = tiny_study(name="told", question="Does annabel's model learn?")
    results = write_study(tmp_path / "results", study)
    write_configs(results, study)

    with pytest.raises(ConfigError, match=r"plan.json, line \d+, contains 'annabel'"):
        publish(results, "told", "quick", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not [path for path in tmp_path.iterdir() if path.name != "results"]

    publish(results, "told", "quick", tmp_path / "out", allowed=("annabel",))


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("open /home/ann/x/y.npz failed", "open .../y.npz failed"),
        ('File "/opt/env/lib/python3.11/site-packages/torch/nn.py", line 3', 'File ".../nn.py", line 3'),
        (
            "see https://arxiv.org/abs/2603.19503 and/or a/b",
            "see https://arxiv.org/abs/2603.19503 and/or a/b",
        ),
        ("password=hunter22 done", "password=(secret) done"),
        ("Authorization: Bearer abc.def.ghi123", "Authorization: Bearer (secret)"),
        ("s3://ann:pass1234@host/bucket", "s3://(secret)@host/bucket"),
        (f"token {TOKEN}", "token (secret)"),
        ("sqlite:////scratch/adal/optuna.db", "sqlite:.../optuna.db"),
        ("docker run -v /scratch/a/x:/data/adal/y", "docker run -v .../x:.../y"),
        ("no file '/scratch/alice smith/thesis/data.csv' there", "no file '.../data.csv' there"),
        ("/scratch/alice smith/thesis/data.csv", ".../data.csv"),
        ("data=/scratch/alice smith/thesis/data.csv, lr=1", "data=.../data.csv, lr=1"),
        ("python x.py --a=/scratch/x/y --b /scratch/z/y", "python x.py --a=.../y --b .../y"),
    ],
)
def test_private_words_are_redacted_from_a_text(text, redacted):
    assert Private().text(text, by_program=True) == redacted
    assert Private().text(redacted, by_program=True) == redacted


def test_a_command_keeps_its_settings_and_settings_keep_their_names():
    record = {
        "command": "python x.py --preset cpu --data '/data/my set' train.epochs=5 --log wandb csv model.width=64",
        "process": 3,
        "settings": {"process": 8, "host": "a", "notes": {"error": "token=mean"}, "command": "--data x"},
        "variants": [{"levels": {"source": "me@x"}}],
        "hardware": {"host": "node7"},
    }

    assert Private().values(record) == {
        "command": "python x.py --preset cpu train.epochs=5 model.width=64",
        "settings": {"process": 8, "host": "a", "notes": {"error": "token=mean"}, "command": "--data x"},
        "variants": [{"levels": {"source": "me@x"}}],
        "hardware": {"host": ""},
    }


def test_words_after_a_token_in_the_authors_text_stay():
    for text in ("Accuracy per token: long prompts ahead", "class_token=cls", "secret=config2.secret"):
        assert Private().values({"text": text, "label": text}) == {"text": text, "label": text}
        assert not Private().remaining(text)
    assert Private().values({"text": f"x {TOKEN}"}) == {"text": "x (secret)"}


@pytest.mark.parametrize(
    "text",
    [
        'OPENAI_API_KEY = "sk-proj-abcdefghijklmnopqrstuv0123"',
        "password: hunter22hunter",
        "token = 'c0ffee-c0ffee-c0ffee'",
        "github_pat_0123456789abcdefghijkl",
        'os.environ["WANDB_API_KEY"] = "0123456789abcdef0123456789abcdef01234567"',
        'wandb.login(key="0123456789abcdef0123456789abcdef01234567")',
        "sk-ant-api03-abcdefghijklmnop",
        "train.py --api-key=hunter22hunter",
    ],
)
def test_secrets_in_the_authors_text_are_found(text):
    assert Private().remaining(text)


@pytest.mark.parametrize(
    "text",
    [
        "token = tokenizer.decode(row)",
        "token: Tokenizer",
        "secret = 'short'",
        'cls_token="global_average"',
    ],
)
def test_code_about_tokens_is_no_secret(text):
    assert Private().remaining(text) is None


def test_variables_that_name_a_mode_or_an_author_are_no_secrets(monkeypatch):
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada Lovelace")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef")

    secrets = private(Path("results"), ()).secrets
    monkeypatch.setenv("HTTP_AUTHORIZATION", "fedcba9876543210")
    assert {"0123456789abcdef", "fedcba9876543210"} <= {*private(Path("results"), ()).secrets}
    assert not {"Ada Lovelace", "disabled"} & {*secrets}


def test_names_that_are_words_are_no_names(monkeypatch):
    monkeypatch.setenv("USER", "root")
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    monkeypatch.setattr("socket.gethostname", lambda: "vm")

    assert private(Path("results"), {"node", "gpu7-left"}).names == ("gpu7-left",)


# -------------------------------------------------------------------------------------------------------------- refusals


def test_an_out_below_a_file_is_refused_in_one_line(trained_results, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        recstudy.base.errors.StorageError, match=r"cannot write .*: (File exists|Not a directory)"
    ):
        publish(trained_results, "tiny", "quick", tmp_path / "file" / "out")


@pytest.mark.parametrize("place", ["records", "zip"])
def test_a_full_disk_blames_no_record(place, trained_results, published_once, small_disk):
    small_disk.unmount()
    small_disk.size = "20m"
    small_disk.mount()
    packed = published_once.with_name(f"{published_once.name}.zip").stat().st_size
    blocks = sum(1 + file.stat().st_size // 4096 for file in published_once.rglob("*"))
    room = blocks * 4096 + packed // 2 if place == "zip" else 0
    (small_disk.path / "room").write_bytes(b"x" * room)
    small_disk.fill()
    (small_disk.path / "room").unlink()
    with pytest.raises(recstudy.base.errors.StorageError, match=r"cannot write .*/out: No space left"):
        publish(trained_results, "tiny", "quick", small_disk.path / "out")
    assert [file.name for file in small_disk.path.iterdir()] == ["filler"]


def test_an_out_that_is_there_is_refused(trained_results, tmp_path):
    (tmp_path / "out.zip").touch()

    with pytest.raises(ConfigError, match=r"out.zip is there already"):
        publish(trained_results, "tiny", "quick", tmp_path / "out")


def test_a_damaged_record_is_refused_before_anything_is_there(trained_results, tmp_path):
    root = shutil.copytree(trained_results.root, tmp_path / "results")
    damaged = next((root / "runs").glob("*/epochs.jsonl"))
    damaged.write_text('{"epoch": 0}\n{"epoch":\n')

    with pytest.raises(recstudy.base.errors.StorageError, match=r"epochs\.jsonl"):
        publish(Results(root), "tiny", "quick", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_link_of_its_pages_leads_to_a_file_in_it(published_once):
    for page in published_once.rglob("*.html"):
        links = re.findall(r'<[^>]*\s(?:href|src)="([^"#]+)', page.read_text())
        for link in (link for link in links if not link.startswith("data:")):
            assert (page.parent / link).resolve().is_relative_to(published_once.resolve()), link
            assert (page.parent / link).is_file(), link
