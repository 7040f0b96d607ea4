"""Tables of bad inputs and of the messages that they cause, in text files beside the tests."""

import re
from pathlib import Path
from typing import Any

import pytest


def read_refusals(text: str, sign: str = r"\$") -> list[tuple[str, str]]:
    """Return the inputs behind a sign, each with the message in the line below it."""
    return re.findall(rf"^{sign} (.*)\n(.*)$", text, re.MULTILINE)


def section(file: Path, heading: str) -> str:
    """Return the text below a heading of a file."""
    (text,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", file.read_text(), re.MULTILINE | re.DOTALL)
    return text


def pattern_of(message: str) -> str:
    """Return the regular expression of a message, in which [...] stands for any text. A ^ in front and a $
    at the end are anchors.
    """
    pattern = re.escape(message).replace(re.escape("[...]"), ".*")
    return re.sub(r"^\\\^|\\\$$", lambda anchor: anchor[0][1], pattern)


def refused(names: dict[str, Any], arguments: str, heading: str) -> pytest.MarkDecorator:
    """Give a test the rows below a heading of the refused.txt beside it: what its expressions are in the
    module with these names, and the `message` as a pattern.
    """
    rows = read_refusals(section(Path(names["__file__"]).with_name("refused.txt"), heading), ">>>")
    values = [(*eval(f"({inputs},)", names), pattern_of(message)) for inputs, message in rows]
    return pytest.mark.parametrize((*arguments.split(), "message"), values, ids=[row[0] for row in rows])
