"""Find the files that decide the numbers of a command besides its line, and write its config."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from recstudy.base.errors import ConfigError, nearest
from recstudy.base.git import git
from recstudy.base.strict_yaml import read_yaml
from recstudy.base.values import flatten, set_at
from recstudy.plugins import UserFiles, file_digest, outside_files, user_files_of
from recstudy.records import MARKER

CODE = (".py", ".sh")
CONFIGS = (".yaml", ".yml", ".toml")
PROSE = (".md", ".rst", ".tex", ".bib", ".pdf")
MAX_FILES, MAX_FOLDERS = 500, 5000  # that are read without git
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


def input_files(words: Sequence[str], folder: Path, patterns: Sequence[str]) -> dict[str, str]:
    """Return the digests of the files that a command reads, by path relative to its working directory.

    They are the files that the line or its shell scripts name, the modules that its Python scripts import,
    and the files below the working directory and below each script's folder (`files_below`).

    Args:
        words: The words of the command, with placeholders.
        folder: The working directory.
        patterns: Globs of `Command.inputs`: further files, or excluded ones after `!`.

    Raises:
        ConfigError: No file matches a glob, or a folder has too many files.
    """
    paths, folders = set[Path](), {folder}
    # the interpreter is no input, but ./train is
    texts = [" ".join(words[Path(words[0]).is_absolute() :])]
    while texts:
        names = re.split(r"[\s=,\[\]\"';]", texts.pop())
        for previous, name in pairwise(["", *names]):
            path = folder / name
            if previous == "-m":
                line = UserFiles(folder, (), {"command.py": f"import {name}.__main__".encode()})
                paths.update(outside_files(line).values())
            elif path not in paths and os.path.isfile(path):  # noqa: PTH113  a name may be too long
                paths.add(path)
                if path.suffix in CODE:
                    folders.add(path.parent)
                    files = user_files_of(path.parent, [path.stem])
                    paths |= {path.parent / file for file in files.contents}
                    paths.update(outside_files(files).values())
                if path.suffix == ".sh":
                    texts.append(path.read_text(encoding="utf-8", errors="replace"))
    paths.update(file for parent in folders for file in files_below(parent, bool(patterns)))
    return file_digests(folder, paths, patterns)


def file_digests(folder: Path, paths: set[Path], patterns: Sequence[str]) -> dict[str, str]:
    """Return the digests of files by path relative to a folder.

    Args:
        folder: The folder.
        paths: The files that are found without `patterns`.
        patterns: Globs of `inputs`: further files, or excluded ones after `!`.

    Raises:
        ConfigError: No file matches a glob.
    """
    for pattern in patterns:
        matches = {*folder.glob(pattern.removeprefix("!"))}
        if not matches and not pattern.startswith("!"):
            raise ConfigError(f"inputs: no file matches {pattern!r} in {folder}")
        paths = paths - matches if pattern.startswith("!") else paths | matches
    files = sorted(filter(Path.is_file, paths))
    return {os.path.relpath(file, folder): _digest(file, len(files) <= PARSED) for file in files}


def files_below(folder: Path, has_inputs: bool) -> list[Path]:
    """Return the files that git tracks below a folder, and other code that git does not ignore.

    Without git, return the code and the configurations there. Prose does not count.

    Args:
        folder: The folder.
        has_inputs: Whether the user has named files, so that at most 500 others are read without git.

    Raises:
        ConfigError: There are more.
    """
    if tracked := git(folder, "ls-files", "-z"):
        new = git(folder, "ls-files", "-z", "--others", "--exclude-standard", *(f"*{end}" for end in CODE))
        return [folder / name for name in f"{tracked}\0{new or ''}".split("\0") if not name.endswith(PROSE)]
    files: list[Path] = []
    for count, (root, folders, names) in enumerate(os.walk(folder)):
        if {MARKER, "pyvenv.cfg"} & {*names}:  # results, or an environment
            folders.clear()
        else:
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
            files += [Path(root, name) for name in sorted(names) if name.endswith((*CODE, *CONFIGS, ".json"))]
        if len(files) > MAX_FILES or count > MAX_FOLDERS:
            if has_inputs:
                break
            raise ConfigError(
                f"{folder} has no git repository and more than {MAX_FILES} files of code and configuration,"
                f" or {MAX_FOLDERS} folders, so edits of some would not be noticed. Run `git init` there, or"
                " name the files that decide the numbers: inputs=[...]"
            )
    return files[:MAX_FILES]


def _digest(file: Path, is_parsed: bool) -> str:
    """Return the SHA-256 of a file. If it is parsed, edits of comments are no change of it."""
    status = file.stat()
    if status.st_size > LARGE_BYTES:
        return sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()
    content = file.read_bytes()
    if is_parsed and file.suffix == ".py":
        return file_digest(content)
    return sha256(content).hexdigest()
