"""What a bundle's numbers stand on is run again: the same bits, other seeds, a number that was changed, and
who is asked first.
"""

import json
from functools import partial

import pytest
from bundles import edited, sealed

from recstudy.plugins import user_files_of


@pytest.fixture
def reproduce(tmp_path, monkeypatch, typed):
    """Type the command, with runs in this process."""
    monkeypatch.chdir(tmp_path)
    return partial(typed, "reproduce", "--no-ray")


def test_one_cell_is_reproduced_bit_for_bit(published_once, reproduce, tmp_path):
    zipped = f"{published_once}.zip"

    priced = reproduce(zipped, "depths:1:1", "--dry-run")
    assert "tiny, preset quick: 1 variant, 2 runs" in priced
    assert not (tmp_path / "reproduced").exists()

    output = reproduce(zipped, "depths:1:1")
    assert "2 runs to make; 2 published runs took " in output
    assert "Bit-equal: every metric of 2 runs is the same to the last digit" in output
    assert len(list(tmp_path.glob("reproduced/runs/*/result.json"))) == 2

    assert "2 runs: all finished before" in reproduce(zipped, "depths:1:1")  # nothing is run twice
    assert "Bit-equal: every metric of 4 runs" in reproduce(zipped)


def test_a_claim_is_asked_again_with_other_seeds(published_once, reproduce, tmp_path):
    output = reproduce(published_once, "two latent", "--fresh-seeds", "2")

    assert len(list(tmp_path.glob("reproduced/runs/*/result.json"))) == 4
    assert "Bit-equal" not in output
    assert "Within run-to-run spread: two latent steps help: here minus theirs " in output


def test_a_number_that_nobody_gets_is_different(bundle, reproduce, tmp_path):
    """Whoever invents records that fit one another is found by running one of them."""
    for file in bundle.glob("results/runs/*/result.json"):
        result = json.loads(file.read_text())
        result["metrics"]["nll"] += 40
        result["provenance"]["threads"] = 7
        file.write_text(json.dumps(result))

    output = reproduce(sealed(bundle), "depths:1:2", code=1)

    assert "Not bit-equal: 0 of 2 runs have the same metrics to the last digit" in output
    assert ", 1 worker of 7 threads, here on " in output
    assert "Bit-equal runs need the same processor and the same number of workers and threads." in output
    assert (
        "Different: depths, row '1 latent step', column 'NLL (nats)': here minus theirs -40 [-40." in output
    )


def test_runs_of_a_gpu_are_made_again_without_one(bundle, reproduce):
    edited(bundle, "results/runs/*/config.json", lambda config: config["resources"].update(gpus=1.0))
    assert "Bit-equal" in reproduce(sealed(bundle), "depths:1:1")


def test_a_missing_number_or_claim_is_refused(published_once, reproduce, tmp_path):
    assert "No claim begins with 'three'" in reproduce(published_once, "three", code=2)
    assert "no table 'depth9'" in reproduce(published_once, "depth9:1:1", code=2)
    assert not (tmp_path / "reproduced").exists()


def test_a_strangers_modules_are_trusted_first(bundle, reproduce, tmp_path):
    mark = tmp_path / "imported"
    (bundle / "code").mkdir(exist_ok=True)
    (bundle / "code/mine.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n")
    (plan,) = bundle.glob("results/studies/*/*/plan.json")
    entry = user_files_of(bundle / "code", ["mine"]).record[0] | {"file": "code/mine.py"}
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"plugins": [entry]}))
    sealed(bundle)

    assert "its runs need modules of the bundle: mine." in reproduce(bundle, "depths:1:1", code=2)
    assert not mark.exists()

    assert "Bit-equal" in reproduce(bundle, "depths:1:1", "--trust")
    assert mark.exists()
