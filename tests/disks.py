"""A file system of its own for the tests, which may be filled, made read-only and taken away."""

import subprocess
from contextlib import suppress
from pathlib import Path


class Disk:
    """A file system of its own, of 1 MB where no `size` says otherwise."""

    def __init__(self, path: Path, size: str = "1m") -> None:
        self.path, self.size = path, size

    def mount(self) -> bool:
        """Whether it is there, which takes root."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={self.size}", "tmpfs", self.path]
        return (
            self.path.is_mount() or subprocess.run(command, capture_output=True, check=False).returncode == 0
        )

    def unmount(self) -> None:
        while self.path.is_mount():
            subprocess.run(["umount", "--lazy", self.path], check=True)

    def bar(self) -> None:
        """Read-only from now on, as a network mount turns; files that are open for writing would forbid a
        plain remount.
        """
        subprocess.run(["mount", "--bind", self.path, self.path], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", self.path], check=True)

    def unbar(self) -> None:
        subprocess.run(["umount", "--lazy", self.path], check=True)

    def fill(self) -> None:
        with open(self.path / "filler", "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def free_space(self) -> None:
        (self.path / "filler").unlink()
