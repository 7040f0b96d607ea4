"""Bundles for the tests: one that was trained, published and may be changed, with a manifest that fits
whatever was changed.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

from recstudy.publishing.bundle import ABOUT, MANIFEST, README, Bundle, digest_of_records, sha256_of


def sealed(root: Path) -> Path:
    """Write manifest and digest of the records anew, as somebody would who changes a bundle on purpose."""
    bundle = Bundle(root)
    digests = {name: sha256_of(file) for name, file in bundle.files.items() if name != MANIFEST}
    records = digest_of_records(digests)
    about = json.loads((root / ABOUT).read_text())
    for name in (ABOUT, README, "CITATION.cff"):
        (root / name).write_text((root / name).read_text().replace(about["records"], records))
        digests[name] = sha256_of(root / name)
    (root / MANIFEST).write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())))
    return root


def changed(root: Path, pattern: str, expression: str, to: str | Callable[[re.Match[str]], str]) -> str:
    """Change what an expression finds first in the first file that a glob finds; return the file's name."""
    for file in sorted(root.glob(pattern)):
        text = file.read_text()
        replaced = re.sub(expression, to, text, count=1)
        if replaced != text:
            file.write_text(replaced)
            return file.relative_to(root).as_posix()
    raise AssertionError(f"nothing in {pattern} matches {expression}")
