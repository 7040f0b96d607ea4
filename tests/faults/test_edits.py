"""Files of a study that are edited while it runs: what its runs compute, and are said to be computed by, is what was recorded."""

import json
from pathlib import Path

import pytest
from shell import Shell, until

# Fails where it trains; a plan counts what the file says by then, with meta and fake tensors.
EDITED = "(self.edited if type(x_BLD) is Tensor and not x_BLD.is_meta else range(self.config.depth))"
NETWORK = Path(__file__).parents[1] / "plugins/mixer/mixer_network.py"
STUDY = '''"""Which of two networks learns the digits?"""

from typing import ClassVar, Literal

from recstudy import Place, RunConfig, Study, TrainConfig, Variant, main
from recstudy.analysis import Table
from recstudy.config import FAMILIES, ModelConfig
from recstudy.data import Digits


class Mixer(ModelConfig):
    recursive: ClassVar[bool] = True
    patch: int = 2
    width: int = 8
    depth: int = 1
    activation: str = "gelu"


@FAMILIES.add("first")
class First(Mixer):
    network: ClassVar[str] = "first_network:MixerNetwork"
    family: Literal["first"] = "first"


@FAMILIES.add("second")
class Second(Mixer):
    network: ClassVar[str] = "second_network:MixerNetwork"
    family: Literal["second"] = "second"


study = Study(
    name="edited",
    presets={
        "quick": RunConfig(
            data=Digits(limit=300), model=First(), train=TrainConfig(epochs=150), place=Place(gpus_per_run=0)
        )
    },
    variants=[Variant("first", {"model": First()}), Variant("second", {"model": Second()})],
    seeds={"quick": 1},
    report=[Table("both")],
)

if __name__ == "__main__":
    main(study)
'''


@pytest.mark.fault
@pytest.mark.parametrize("how", [("--cpus-per-run", "2"), ("--no-ray",)], ids=["ray", "no ray"])
def test_an_edit_while_a_study_runs_counts_from_the_next_command_on(tmp_path, how):
    """The second run's network is imported once the first has begun; by then its file says something else."""
    (tmp_path / "edited.py").write_text(STUDY)
    for name in ("first", "second"):
        (tmp_path / f"{name}_network.py").write_text(NETWORK.read_text())
    shell = Shell(tmp_path, tmp_path / "edited.py")
    run_of = {label.partition(",")[0]: run for label, run in shell.plan().items()}
    with shell.start(*how) as driver:
        until(shell.begun, "ten epochs")
        assert len(shell.lines("attempts.jsonl")) == 1, "both runs have begun: nothing is imported later"
        later = tmp_path / "second_network.py"
        later.write_text(later.read_text().replace("in range(self.config.depth)", f"in {EDITED}"))
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    assert changed(shell) == set(run_of.values())  # a file counts for every run of its study
    later.write_text(NETWORK.read_text())
    assert changed(shell) == set()


def changed(shell: Shell) -> set[str]:
    """The finished runs that were made before a file of the study changed."""
    return {run["id"] for run in json.loads(shell.run("--dry-run", "--json")) if run["changed"] == ["code"]}
