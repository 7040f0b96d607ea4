"""Reads the sets that torchvision knows, in its layout, checks them against their published md5s and downloads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from recstudy.data.decoded import Decoded
from recstudy.data.reader import Reader
from recstudy.errors import DataError


class TorchvisionReader(Reader):
    """A set names its class in `torchvision.datasets` and the md5s of its unpacked files."""

    kind: ClassVar[str]

    def sources(self, folder: Path) -> Sequence[str]:
        return list(self.official)

    def fetch(self, folder: Path) -> None:
        """Shows a progress bar; a DataError says why it failed."""
        try:
            self._torchvision(folder, download=True)
        except (OSError, RuntimeError) as error:
            reason = str(error).splitlines()[0].rstrip(":")
            raise DataError(
                f"cannot download {self.config.title} into {folder}: {reason}. Unpack it there yourself, or pass --data DIR."
            ) from None

    def decode(self, folder: Path) -> Decoded:
        import numpy as np

        parts: list[Any] = []
        for train in (True, False):
            part = self._torchvision(folder, train=train)
            images = np.asarray(part.data)
            parts.append(images.transpose(0, 3, 1, 2) if images.ndim == 4 else images[:, None])
            parts.append(np.asarray(part.targets, dtype=np.int64))
        return Decoded(*parts)

    def _torchvision(self, folder: Path, **options: bool) -> Any:
        from torchvision import datasets

        return getattr(datasets, self.kind)(folder, **options)
