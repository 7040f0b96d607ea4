"""Read a data set: check its files, decode them, and check the arrays."""

import hashlib
from pathlib import Path

from recstudy.base.errors import DataError
from recstudy.recursive.config.arrays import Arrays
from recstudy.recursive.config.reader import Reader
from recstudy.recursive.data.checking import checked
from recstudy.recursive.data.repeats import repeat_notes


def read_data(reader: Reader, folder: Path) -> Arrays:
    """Check the files of a data set, decode them, check the arrays, and add notes on repeated items.

    Returns:
        The set, with contiguous arrays.

    Raises:
        DataError: A file is missing, is not the official one, or decodes to wrong arrays.
    """
    config = reader.config
    reader.check(folder)
    for name, md5 in reader.official.items():
        with open(folder / name, "rb") as file:
            if hashlib.file_digest(file, "md5").hexdigest() != md5:
                raise DataError(
                    f"{folder / name} is damaged: its md5 is not the official one of {config.title}."
                    " Delete it and unpack or download it again."
                )
    decoded = checked(reader.decode(folder), config)
    if not reader.sources(folder):
        return decoded
    repeats = reader.repeats(decoded)
    notes = repeat_notes(decoded, config) if repeats is None else repeats
    return decoded._replace(notes=(*decoded.notes, *notes))
