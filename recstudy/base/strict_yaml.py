"""Read YAML files strictly: a repeated key is an error and never overwrites a value. Write YAML.

Scalars are those of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): `010` is ten, `1e-4` is a
number, and `off`, `yes` and `12:30` are texts. PyYAML reads version 1.1. ruamel.yaml 0.19 would not make this
module smaller: it also reads dates and `1_000`, does not find a nested key that repeats a dotted one, writes
no quotes for readers of version 1.1, and is 1.5 times slower.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from recstudy.base.errors import ConfigError

SCALARS = {
    "null": (r"~|null|Null|NULL|", "~nN"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    "merge": (r"<<", "<"),
}


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2."""

    yaml_implicit_resolvers = {}  # noqa: RUF012  PyYAML annotates it as of an instance

    def construct_int(self, node: yaml.ScalarNode) -> int:
        """Return an integer. A leading zero does not make it octal."""
        text = str(self.construct_scalar(node))
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


class Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which also quotes texts that only YAML 1.2 reads as numbers, such as `1e-4`."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: list(rules) for first, rules in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }


for name, (pattern, first) in SCALARS.items():
    for kind in (Loader, Dumper):
        letters = [*first, ""] if name == "null" else list(first)
        kind.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(rf"(?:{pattern})\Z"), letters)
Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_int)


def read_yaml(text: str) -> Any:
    """Return the values of a YAML document.

    Raises:
        ValueError: It is not YAML, or it has a key twice.
    """
    loader, lines = Loader(text), dict[str, int]()
    try:
        document = loader.get_single_node()
        # A nested key and its dotted name are the same key.
        for path, line in _keys(document, set()):
            if path in lines:
                raise ValueError(
                    f"line {line}: {path!r} is given twice, first in line {lines[path]}. Keep one of them"
                )
            lines[path] = line
        return loader.construct_document(document) if document else None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def read_yaml_file(option: str, file: Path) -> Any:
    """Return the content of a YAML file that an option names.

    Raises:
        ConfigError: The file cannot be read, or has a key twice.
    """
    try:
        return read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{option} {file}: {reason}") from None


def _keys(node: yaml.Node | None, visited_ids: set[int], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the dotted path and the line of every key. A node with several aliases is read once."""
    if id(node) in visited_ids:
        return
    visited_ids.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield f"{prefix}{key.value}", key.start_mark.line + 1
            yield from _keys(value, visited_ids, f"{prefix}{key.value}.")
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            yield from _keys(value, visited_ids, f"{prefix}{position}.")


def write_yaml(values: Any) -> str:
    """Return values as a YAML document that readers of YAML 1.1 and 1.2 read alike. Long texts stay whole."""
    return yaml.dump(values, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1000)
