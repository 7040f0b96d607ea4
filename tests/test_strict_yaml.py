"""YAML of a user: the scalars of version 1.2, and a key that is given twice."""

import pytest
import yaml

from recstudy.base.errors import ConfigError
from recstudy.base.files import read_json
from recstudy.base.strict_yaml import read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("-010", -10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1e-4", 1e-4),
        (".5", 0.5),
        ("off", "off"),
        ("Yes", "Yes"),
        ("n", "n"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("2026-11-28", "2026-11-28"),
        ("'010'", "010"),
    ],
    ids=str,
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    (read,) = read_yaml(f"- {text}")

    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    "text", ["1e-4", "0o10", "010", "off", "null", "1_000", "12:30", "<<", "~", "true", "", "2026-11-28"]
)
def test_a_text_that_looks_like_a_number_is_written_with_quotes_for_readers_of_both_versions(text):
    yaml_text = write_yaml({"value": text})

    assert read_yaml(yaml_text) == yaml.safe_load(yaml_text) == {"value": text}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: 'a' is given twice, first in line 1"),
        ("- x: {y: 1, y: 2}", "line 1: '0.x.y' is given twice, first in line 1"),
        ("x:\n  y: 1\nx.y: 2", "line 3: 'x.y' is given twice, first in line 2"),
        ("a: [", "line 1"),
    ],
)
def test_a_key_that_is_given_twice_is_refused_with_its_lines(text, message):
    with pytest.raises(ValueError, match=message):
        read_yaml(text)


def test_aliases_and_merged_blocks_repeat_no_key():
    assert read_yaml("a: &x {k: 1, l: 2}\nb: *x\nc: {<<: *x, k: 3}") == {
        "a": {"k": 1, "l": 2},
        "b": {"k": 1, "l": 2},
        "c": {"k": 3, "l": 2},
    }


def test_a_json_object_that_has_a_key_twice_is_refused():
    with pytest.raises(ConfigError, match=r"metrics\.json: 'f1' is given twice"):
        read_json('{"f1": 1, "f1": 2}', "metrics.json")
