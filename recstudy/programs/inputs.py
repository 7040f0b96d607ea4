"""Find the files that decide the numbers of a command besides its line, and write its config."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from recstudy.base.errors import ConfigError, nearest
from recstudy.base.git import git
from recstudy.base.strict_yaml import read_yaml
from recstudy.base.values import flatten, set_at
from recstudy.plugins import file_digest, outside_files, user_files_of
from recstudy.records import MARKER

CODE = (".py", ".sh")
CONFIGS = (".yaml", ".yml", ".toml")
PROSE = (".md", ".rst", ".tex", ".bib", ".pdf")
MAX_FILES = 500  # files, and folders, that are read without git
PARSED = 200  # Parsing takes 10 ms a file. Of more files, edits of comments count as changes.
LARGE_BYTES = 2**26  # of a larger file, size and time of change are compared


@dataclass(frozen=True)
class Yaml:
    """A YAML config that is written for each run, with its settings at their dotted keys and its seed.

    Args:
        path: The file with all keys, relative to the working directory. `{folder}` in its values is the run's
            folder.
        seed: The key of the seed, unless `{seed}` is on the command line.
    """

    path: str
    seed: str = "seed"

    def fill(self, folder: Path, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config with other values (ConfigError if the file lacks one of the keys).

        Args:
            folder: The working directory.
            values: The values by dotted key.
        """
        try:
            config = read_yaml((folder / self.path).read_text(encoding="utf-8"))
            keys = flatten(config)
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{self.path} cannot be read as a config: {error}") from None
        for name, value in values.items():
            if name not in keys:
                hint = nearest(name, keys) or (
                    f" Name it: Yaml({self.path!r}, seed=...)" * (name == self.seed)
                )
                raise ConfigError(f"{self.path} has no key {name!r}. Add it to the file.{hint}")
            set_at(config, name, value)
        return dict(config)


def input_files(words: Sequence[str], folder: Path, patterns: Iterable[str]) -> dict[str, str]:
    """Return the digests of the files that a command reads, by path relative to its working directory.

    They are the files that the line names, the modules that its Python scripts import, and the files below
    the working directory and below each script's folder that git tracks (`_files_below`).

    Args:
        words: The words of the command, with placeholders.
        folder: The working directory.
        patterns: Globs of `Command.inputs`: further files, or excluded ones after `!`.

    Raises:
        ConfigError: No file matches a glob.
    """
    paths, folders = set[Path](), {folder}
    # the interpreter is no input, but ./train is
    text = " ".join(words[Path(words[0]).is_absolute() :])
    for name in re.split(r"[\s=,\[\]]", text):
        path = folder / name
        if os.path.isfile(path):  # noqa: PTH113  a name may be too long
            paths.add(path)
            if path.suffix in CODE:
                folders.add(path.parent)
                files = user_files_of(path.parent, [path.stem])
                paths |= {path.parent / file for file in files.contents} | {*outside_files(files).values()}
    paths.update(file for parent in folders for file in _files_below(parent))
    for pattern in patterns:
        matches = {*folder.glob(pattern.removeprefix("!"))}
        if not matches and not pattern.startswith("!"):
            raise ConfigError(f"inputs: no file matches {pattern!r} in {folder}")
        paths = paths - matches if pattern.startswith("!") else paths | matches
    files = sorted(filter(Path.is_file, paths))
    return {os.path.relpath(file, folder): _digest(file, len(files) <= PARSED) for file in files}


def _files_below(folder: Path) -> list[Path]:
    """Return the files that git tracks below a folder, and other code that git does not ignore.

    Without git, return the code and the configurations there, at most 500 files. Prose does not count.
    """
    if tracked := git(folder, "ls-files", "-z"):
        new = git(folder, "ls-files", "-z", "--others", "--exclude-standard", *(f"*{end}" for end in CODE))
        return [folder / name for name in f"{tracked}\0{new or ''}".split("\0") if not name.endswith(PROSE)]
    files: list[Path] = []
    for root, folders, names in islice(os.walk(folder), MAX_FILES):
        if {MARKER, "pyvenv.cfg"} & {*names}:  # results, or an environment
            folders.clear()
        else:
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
            files += [Path(root, name) for name in names if name.endswith((*CODE, *CONFIGS, ".json"))]
    return sorted(files[:MAX_FILES])


def _digest(file: Path, is_parsed: bool) -> str:
    """Return the SHA-256 of a file. If it is parsed, edits of comments are no change of it."""
    status = file.stat()
    if status.st_size > LARGE_BYTES:
        return sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()
    content = file.read_bytes()
    if is_parsed and file.suffix == ".py":
        return file_digest(content)
    return sha256(content).hexdigest()
