"""The commands that make files: puzzles in the layout of HRM's and TRM's authors, and trained image tokenizers."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from recstudy.config import DATASETS, DataConfig, configure
from recstudy.data.maze import Maze
from recstudy.data.sudoku import Sudoku
from recstudy.errors import ConfigError
from recstudy.models.fuselip import VQ
from recstudy.options import data_folder, settings
from recstudy.plugins import file_bundle, use
from recstudy.report.names import plural
from recstudy.terminal import console, say

if TYPE_CHECKING:
    from recstudy.tasks.captioning.tokenizer import Progress


@dataclass(frozen=True)
class TrainTokenizer:
    """Train the stand-in image tokenizer on a data set's training images, as a run that needs one does by itself.

    A run on this machine that asks for the same one uses it. Such as:
    recstudy tokenizer medpix standin.safetensors --data DIR --set data.size=64 --set tokenizer.codes=16
    """

    data_set: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="NAME")]]
    """The data set, by its name in a run config: medpix, rocov2, captions (with --set data.path=FOLDER), cifar10, ..."""
    file: tyro.conf.Positional[Path]
    """What to write; a file that is there already is left as it is."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where data sets lie in their official layouts. Default: RECSTUDY_DATA, else ./data."""
    epochs: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """Passes over the training images."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FIELD=VALUE")] = ()
    """A field of the data set or of the tokenizer, such as data.size=64 or tokenizer.codes=16. May be given more than once."""
    plugin: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A study's file, or a module, that defines the data set."""

    def run(self) -> int:
        return _whole_or_none(self._train)

    def _train(self) -> None:
        if self.plugin is not None:
            use(file_bundle(self.plugin))
        data, config = self._configs()
        _check_free(self.file)
        import torch

        from recstudy.data.cache import load
        from recstudy.models.networks.vq import save_tokenizer
        from recstudy.tasks.captioning.tokenizer import image_tokenizer

        out = console()
        images = load(data, data_folder(self.data))
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

        def report(done: "Progress") -> None:
            restarted = f", {plural(done.restarted, 'unused code')} restarted" if done.restarted else ""
            out.print(f"epoch {done.epoch + 1} of {self.epochs}: loss {done.loss:.4f}{restarted}")

        network, header = image_tokenizer(config, self.epochs, images, data.title, device, report)
        _check_free(self.file)  # training takes a while
        save_tokenizer(network, header["facts"], header["trained_on"], self.file)
        facts, codes = header["facts"], f"{config.codebook:,} codes used"
        out.print(f"{header['title']}: {self.file}, hash {header['hash']}", soft_wrap=True)
        out.print(f"On images held out: PSNR {facts['psnr']:.1f} dB, {facts['used_percent']:.0f} % of {codes}", soft_wrap=True)

    def _configs(self) -> tuple[DataConfig, VQ]:
        """Return the data set, and a tokenizer of its images' size.

        Raises:
            ConfigError: no such data set or field, or images that are not square and coloured.
        """
        given: dict[str, dict[str, Any]] = {"data": {"name": self.data_set}, "tokenizer": {}}
        for path, value in settings(self.set, "tokenizer.codes=16").items():
            part, _, name = path.partition(".")
            if part not in given or not name:
                raise ConfigError(f"--set takes data.FIELD and tokenizer.FIELD here, but got {path!r}")
            given[part][name] = value
        data = configure(DATASETS[self.data_set], given["data"], "data")
        config = configure(VQ, {"size": data.shape[1]} | given["tokenizer"], "tokenizer")
        if data.shape != (3, config.size, config.size):
            shape = "x".join(map(str, data.shape))
            raise ConfigError(
                f"{config.name} needs images of 3x{config.size}x{config.size}, but those of {data.title} are {shape}"
            )
        if self.epochs < 1:
            raise ConfigError(f"--epochs must be at least 1, but got {self.epochs}")
        return data, config


@dataclass(frozen=True)
class Data:
    """Draw puzzles and write them in the layout of HRM's and TRM's authors, so that their code can train on the same ones.

    The folder is there whole, or not at all; recstudy reads it as `PuzzleFolder`. Such as:
    recstudy data sudoku9 DIR --puzzles 1000 --augmentations 1000
    """

    name: tyro.conf.Positional[str]
    """sudoku4, sudoku6, sudoku9, or mazes of an odd side: maze9, maze21, ..."""
    folder: tyro.conf.Positional[Path]
    """What to write; nothing may be there."""
    puzzles: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """Puzzles that train, each a group of its own."""
    test_puzzles: Annotated[int, tyro.conf.arg(metavar="N")] = 500
    """Puzzles that test, as they are."""
    augmentations: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Symmetries of each training puzzle beside itself: digits, rows and columns exchanged; mazes turned and mirrored."""
    seed: Annotated[int, tyro.conf.arg(metavar="S")] = 0
    """Draws the puzzles: `data.drawing_seed` of a run config, which trains on the same ones."""
    check: bool = False
    """Write nothing: hold every puzzle of a folder that is there, in this layout or in train.csv and test.csv, against the rules,
    and count the solutions of every Sudoku. Runs do so for a sample."""

    def run(self) -> int:
        return _whole_or_none(self._check if self.check else self._write)

    def _write(self) -> None:
        from recstudy.data.official_layout import write_layout  # it loads torch

        kind, own = self._drawn
        asked = {name: getattr(self, name) for name in ("puzzles", "test_puzzles", "augmentations")}
        config = configure(kind, {**own, "drawing_seed": self.seed, **asked}, "data")
        write_layout(self.folder, config)
        say(f"{config.title}: {self.puzzles:,} puzzles that train, {self.test_puzzles:,} that test, in {self.folder}")
        say(f"To read it: PuzzleFolder(path=..., vocabulary={config.classes}, rows={config.side}, columns={config.side})")

    def _check(self) -> None:
        from recstudy.data.puzzle_files import check_rules, read_all

        kind, own = self._drawn
        rules = kind.model_construct(**own)  # of mazes, files may have even sides, which are never drawn
        decoded = read_all(self.folder, rules)
        check_rules(decoded, rules, self.folder)
        counts = f"{len(decoded.train_labels):,} puzzles that train, {len(decoded.test_labels):,} that test"
        say(f"{self.folder}: {counts}; all are right")

    @property
    def _drawn(self) -> tuple[type[Sudoku] | type[Maze], dict[str, Any]]:
        """Tell which puzzles are meant, and what their name says of them.

        Raises:
            ConfigError: none.
        """
        if self.name in ("sudoku4", "sudoku6", "sudoku9"):
            return Sudoku, {"side": int(self.name[-1])}
        if (side := self.name.removeprefix("maze")) != self.name and side.isdecimal():
            return Maze, {"side": int(side)}
        raise ConfigError(
            f"no puzzles are called {self.name!r}: there are sudoku4, sudoku6, sudoku9 and mazes by their side, such as maze9"
        )


def _whole_or_none(make: Callable[[], None]) -> int:
    """Make files whole, or, where that is stopped, none; the exit code."""
    try:
        make()
    except KeyboardInterrupt:
        print("Stopped. Nothing was written.", file=sys.stderr)
        return 130
    return 0


def _check_free(file: Path) -> None:
    if file.exists():
        raise ConfigError(f"{file} is there already. Give another name, or remove it first.")
