"""What is known of a data set without opening it: its entry in the machine's cache, and the checksum that this states.

A plan asks for no more; so no array is loaded here, nor NumPy.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic.dataclasses import dataclass

from recstudy.config import DataConfig, digest
from recstudy.data.cache_folder import unharmed
from recstudy.data.reader import Reader
from recstudy.errors import DataError
from recstudy.files import cache_folder
from recstudy.records import read_record
from recstudy.records.schema import STRICT
from recstudy.source import code_of

FORMAT = 1  # of an entry; raise it when the same sources decode to other bytes


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class Meta:
    """`meta.json`: what is told of the images beside themselves."""

    checksum: str  # sha256 of all decoded images and labels
    counts: dict[str, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...] = ()


def known_checksum(config: DataConfig, folder: Path) -> str:
    """That of the set as it lies below `folder` now, if it was decoded before; nothing is read but the cache."""
    with suppress(DataError, OSError), listing(config):
        entry = entry_of(config.reader(), folder)
        if unharmed(entry):
            return meta_of(entry).checksum
    return ""


def unread(config: DataConfig, folder: Path) -> bool:
    """Whether the set's files lie below `folder` and have not been decoded here as they are now; nothing is decoded."""
    reader = config.reader()
    with suppress(DataError, OSError), listing(config):
        return not reader.missing(folder) and bool(reader.sources(folder)) and not known_checksum(config, folder)
    return False


def entry_of(reader: Reader, folder: Path) -> Path:
    """The folder of the set's entry, by all that decides its bytes."""
    config, files, program = reader.config, reader.sources(folder), reader.program()
    if not files and not program:
        raise DataError(
            f"the reader of {config.title} names no source file. Name them in `sources`, or in `program` what draws the images "
            "and its version."
        )
    fields = config.model_dump(mode="json", exclude={*DataConfig.model_fields, *reader.ignores})
    stats = [(name, (stat := (folder / name).stat()).st_size, stat.st_mtime_ns) for name in files]
    place = [str(folder.resolve()), stats] if files else []
    decides = [FORMAT, config.name, config.revised, fields, place, program, _code(reader)]
    return cache_folder() / f"{config.name}-{digest(decides, 16)}"


def meta_of(entry: Path) -> Meta:
    """What an entry tells of its images."""
    meta = read_record(entry / "meta.json", Meta)
    if meta is None:
        raise DataError(f"{entry} was removed while it was opened. Give the same command again.")
    return meta


@contextmanager
def listing(config: DataConfig) -> Iterator[None]:
    """What the file system refuses is a DataError: a loop of links, a name that is no text, one that is too long."""
    try:
        yield
    except UnicodeEncodeError as error:
        name = next(word for word in error.object.split('"') if not word.isprintable())
        raise DataError(f"{config.title} has a file whose name is no text in UTF-8: {name!a}. Rename it.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"the files of {config.title!r} cannot be listed: {error}") from None


def _code(reader: Reader) -> str:
    """Digest of the code that reads; of what is defined at a prompt, nobody knows it, so another process reads anew."""
    kinds = type(reader.config), type(reader)
    code = code_of(*kinds, within=("recstudy.data",), without=("recstudy.data.checking",))
    return code.digest or f"process {os.getpid()}, class {id(kinds[1])}"
