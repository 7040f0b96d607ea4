"""The folder tree on the page of each data set is the one that its reader reads (docs/data/sources.yaml)."""

from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from test_caption_sets import SMALL, SPLIT_SETS, WHOLE_SETS, lay

from recstudy.base.errors import DataError
from recstudy.recursive import DATASETS
from recstudy.recursive.data.reading import read_data

FACTS = yaml.safe_load((Path(__file__).parents[3] / "docs/data/sources.yaml").read_text())
CONTENTS = {  # what the tiny files of a pattern have, if the reader looks into them before it decodes
    "PATH/Data_Entry_2017*.csv": "Image Index,Finding Labels,Patient ID\n1.png,Mass,1\n2.png,Mass,2\n3.png,Mass,3\n",
    "PATH/train_val_list.txt": "1.png\n2.png\n",
    "PATH/test_list.txt": "3.png\n",
}
NAMES = {
    "PATH/images*/*.png": ("images/1.png", "images/2.png", "images/3.png"),
    "cifar-10-batches-py/data_batch_[1-5]": tuple(f"cifar-10-batches-py/data_batch_{n}" for n in range(1, 6)),
}


def test_each_data_set_in_files_has_a_page():
    names = {name for name, kind in DATASETS.complete().items() if kind.has_page}
    assert names == set(FACTS)
    assert {
        name for name in names if not (Path(__file__).parents[3] / f"docs/data/{name}.md").exists()
    } == set()


@pytest.mark.parametrize("kind", SPLIT_SETS | WHOLE_SETS, ids=lambda kind: kind().name)
def test_the_tree_of_a_captioned_set_is_read(tmp_path, kind):
    """Tiny files are laid as on the page: each fits a pattern, and each pattern has one."""
    files, images = (SPLIT_SETS | WHOLE_SETS)[kind]
    patterns = FACTS[kind().name]["tree"]
    paths = [f"{kind().path}/{name}" for name in (*files, *images.split())]
    used = {pattern for path in paths for pattern in patterns if fnmatch(path, pattern)}
    assert used == set(patterns)
    assert [path for path in paths if not any(fnmatch(path, pattern) for pattern in patterns)] == []

    lay(tmp_path / kind().path, files, images)
    assert len(read_data(kind(**SMALL).reader(), tmp_path).test_images) >= 1


@pytest.mark.parametrize("name", sorted(set(FACTS) - {kind().name for kind in SPLIT_SETS | WHOLE_SETS}))
def test_the_tree_of_another_set_is_complete(tmp_path, name):
    """A reader finds all files that it needs; without any one of them it names the file and the page."""
    config = DATASETS[name](**({"path": "nih"} if name == "chest_xray14" else {}))
    place = tmp_path / "nih" if name == "chest_xray14" else tmp_path
    for pattern in FACTS[name]["tree"]:
        for path in NAMES.get(pattern, (pattern.removeprefix("PATH/").replace("*", "_v2020"),)):
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(CONTENTS.get(pattern, "x"))
    config.reader().check(tmp_path)

    first = FACTS[name]["tree"][0].removeprefix("PATH/").replace("*", "_v2020").replace("[1-5]", "1")
    (place / first).unlink()
    with pytest.raises(DataError, match=rf"is missing\).*docs/data/{name}.md") as refused:
        DATASETS[name](**({"path": "nih"} if name == "chest_xray14" else {})).reader().check(tmp_path)
    assert Path(first).name.split("_v2020")[0] in str(refused.value)
