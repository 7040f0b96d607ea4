"""Image files of which tests make data sets, and files that are refused."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from refusals import pattern_of, read_refusals, section

from recstudy.base.errors import DataError

REFUSED = Path(__file__).with_name("refused.txt")


def paint(file, values, kind=np.uint8, mode=None):
    file.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values.astype(kind))
    (image.convert(mode) if mode else image).save(file)


def refusals(heading):
    """Edits of files and the messages that they cause, below a heading of refused.txt."""
    return read_refusals(section(REFUSED, heading))


def check_refusal(folder, edit, message, read):
    """Apply the edit to a file of the folder: `read` then fails with this message."""
    name, sign, change = re.fullmatch(r"(\S+?)(:| =) ?(.*)", edit).groups()
    file, content = folder / name, change.encode("latin-1").decode("unicode_escape")
    if sign == ":":
        old, new = content.split(" => ")
        assert old in file.read_text()
        content = file.read_text().replace(old, new)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=pattern_of(message)):
        read()
