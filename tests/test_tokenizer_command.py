"""`recstudy tokenizer`: from a folder of images to a file that encodes them, or one clear line and exit code 2."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from recstudy.data import CaptionFolder
from recstudy.data.cache import load
from recstudy.models.fuselip import VQ
from recstudy.models.networks.vq import load_tokenizer
from recstudy.tasks.captioning.tokenizer import image_codes, image_tokenizer

MIXER = Path(__file__).parent / "plugins/mixer/mixer_study.py"
MAIN = "from recstudy.command import main; main()"
SMALL = {"codes": 4, "codebook": 16, "width": 16, "layers": 1, "heads": 2}
FIELDS = [f"--set=tokenizer.{name}={value}" for name, value in SMALL.items()]
FILMS = ["captions", "made/vq.safetensors", "--data", ".", "--set=data.path=films", "--set=data.size=16"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with `films`: 20 images of 16x16 for training, two for validation, two for test."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "films/images").mkdir(parents=True)
    noise = np.random.default_rng(0).integers(0, 256, (24, 4, 4, 3), np.uint8)
    for at, pixels in enumerate(noise):
        Image.fromarray(pixels).resize((16, 16)).save(tmp_path / f"films/images/{at}.png")
    splits = ["train"] * 20 + ["val"] * 2 + ["test"] * 2
    lines = [f"{at},a film of noise,{split}" for at, split in enumerate(splits)]
    (tmp_path / "films/captions.csv").write_text("\n".join(["image,caption,split", *lines]) + "\n")
    return tmp_path


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MAIN, "tokenizer", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=home, text=True, env=environment, **pipes)


def ended(home: Path, *arguments: str) -> tuple[int, str, str]:
    with start(home, *arguments) as process:
        out, errors = process.communicate(timeout=120)
    return process.returncode, out, errors


@pytest.mark.whole
def test_a_folder_of_images_becomes_a_tokenizer_that_encodes_them(home):
    code, out, errors = ended(home, *FILMS, *FIELDS, "--epochs", "3")

    assert (code, errors) == (0, "")
    assert out.startswith("epoch 1 of 3: loss ")
    network, header = load_tokenizer(home / "made/vq.safetensors")
    assert (header["title"], header["facts"]["images"]) == (
        "standin-vq (trained by recstudy on films; not TiTok; not ImageNet)",
        18,
    )
    said = f"On images held out: PSNR {header['facts']['psnr']:.1f} dB, {header['facts']['used_percent']:.0f} % of 16 codes used"
    assert out.splitlines()[-2:] == [f"{header['title']}: made/vq.safetensors, hash {header['hash']}", said]
    data = load(CaptionFolder(path="films", size=16), home)
    codes = image_codes(data.test, network.tokenizer, header["hash"], torch.device("cpu"))
    assert (codes.shape, int(codes.max()) < 16) == ((2, 4), True)
    assert [path.name for path in (home / "made").iterdir()] == ["vq.safetensors"]


@pytest.mark.whole
def test_a_run_that_asks_for_the_same_finds_it_trained(home):
    ended(home, *FILMS, *FIELDS, "--epochs", "2")
    data = load(CaptionFolder(path="films", size=16), home)
    (kept,) = (home / "cache").glob("vq-*.safetensors")
    made = kept.stat().st_mtime_ns

    _, header = image_tokenizer(VQ(size=16, **SMALL), 2, data, "films", torch.device("cpu"))

    assert [path.stat().st_mtime_ns for path in (home / "cache").glob("vq-*.safetensors")] == [made]
    assert header["hash"] == load_tokenizer(home / "made/vq.safetensors")[1]["hash"]


def test_a_file_that_is_there_stays_as_it_is(home):
    (home / "made").mkdir()
    (home / "made/vq.safetensors").write_text("precious")

    code, out, errors = ended(home, *FILMS, *FIELDS)

    assert (code, out) == (2, "")
    assert errors == "ConfigError: made/vq.safetensors is there already. Give another name, or remove it first.\n"
    assert (home / "made/vq.safetensors").read_text() == "precious"


@pytest.mark.whole
def test_what_is_stopped_leaves_nothing(home):
    with start(home, *FILMS, *FIELDS, "--epochs", "100000") as process:
        assert process.stdout.readline().startswith("epoch 1 of 100000")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (130, "Stopped. Nothing was written.\n")
    assert not (home / "made").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["medpx", "a"], "ConfigError: no data set 'medpx': there are arc_agi, captions, "),
        (["digits", "a"], "ConfigError: standin-vq needs images of 3x8x8, but those of Digits are 1x8x8\n"),
        (["scans", "a", "--plugin", str(MIXER)], "ConfigError: standin-vq needs images of 3x8x8, but those of Scans are 1x8x8\n"),
        (
            ["scans", "a", "--plugin", "nowhere.py"],
            "ConfigError: nowhere.py is not there. Give the file of a study, or a module, ",
        ),
        (["cifar10", "a", "--set=tokenizer.size=64"], "standin-vq needs images of 3x64x64, but those of CIFAR-10 are 3x32x32"),
        (["medpix", "a", "--set=data.sise=64"], "ConfigError: no field 'data.sise': MedPix has allow_missing, "),
        (["medpix", "a", "--set=tokenizer.patch=9"], "tokenizer: patch must divide the image's 224x224 pixels, but got 9"),
        (["medpix", "a", "--set=size=64"], "--set takes data.FIELD and tokenizer.FIELD here, but got 'size'"),
        (
            ["medpix", "a", "--set=tokenizer.codes"],
            "a field is set by FIELD=VALUE, such as tokenizer.codes=16, but got 'tokenizer.codes'",
        ),
        (["medpix", "a", "--epochs=0"], "ConfigError: --epochs must be at least 1, but got 0\n"),
        (
            ["medpix", "a", "--data=nowhere"],
            "DataError: MedPix 2.0 not found under nowhere (medpix2 is missing). Pass --data DIR, ",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, said):
    code, out, errors = ended(tmp_path, *arguments)

    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert said in errors
    assert not (tmp_path / "a").exists()


def test_the_command_loads_no_torch_before_it_has_to(tmp_path):
    code = f"import sys\ntry:\n    {MAIN}\nfinally:\n    print({{'torch', 'ray'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, "tokenizer", "medpx", "a"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "set()\n")
