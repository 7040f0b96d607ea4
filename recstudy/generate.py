"""The commands that make files: puzzles in the layout of HRM's and TRM's authors, and trained image tokenizers."""

import sys
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


def generate(command: Data | TrainTokenizer) -> int:
    """Make the files whole, or, where it is stopped, none; the exit code."""
    try:
        if isinstance(command, Data):
            _data(command)
        else:
            _train(command)
    except KeyboardInterrupt:
        print("Stopped. Nothing was written.", file=sys.stderr)
        return 130
    return 0


def _data(command: Data) -> None:
    kind, own = _drawn(command.name)
    if command.check:
        _check(command.folder, kind.model_construct(**own))  # of mazes, files may have even sides, which are never drawn
        return
    from recstudy.data.puzzle_files import write_layout  # it loads torch

    asked = {name: getattr(command, name) for name in ("puzzles", "test_puzzles", "augmentations")}
    config = configure(kind, {**own, "drawing_seed": command.seed, **asked}, "data")
    write_layout(command.folder, config)
    say(f"{config.title}: {command.puzzles:,} puzzles that train, {command.test_puzzles:,} that test, in {command.folder}")
    say(f"To read it: PuzzleFolder(path=..., vocabulary={config.classes}, rows={config.side}, columns={config.side})")


def _drawn(name: str) -> tuple[type[Sudoku] | type[Maze], dict[str, Any]]:
    """Which puzzles are meant, and what their name says of them.

    Raises:
        ConfigError: none.
    """
    if name in ("sudoku4", "sudoku6", "sudoku9"):
        return Sudoku, {"side": int(name[-1])}
    if (side := name.removeprefix("maze")) != name and side.isdecimal():
        return Maze, {"side": int(side)}
    raise ConfigError(
        f"no puzzles are called {name!r}: there are sudoku4, sudoku6, sudoku9 and mazes by their side, such as maze9"
    )


def _check(folder: Path, rules: Sudoku | Maze) -> None:
    """Look at every puzzle."""
    from recstudy.data.puzzle_files import check_rules, read_all

    decoded = read_all(folder, rules)
    check_rules(decoded, rules, folder)
    say(f"{folder}: {len(decoded.train_labels):,} puzzles that train, {len(decoded.test_labels):,} that test; all are right")


def _train(command: TrainTokenizer) -> None:
    if command.plugin is not None:
        use(file_bundle(command.plugin))
    _tokenizer(command, *_configs(command))


def _tokenizer(command: TrainTokenizer, data: DataConfig, config: VQ) -> None:
    _check_free(command.file)
    import torch

    from recstudy.data.cache import load
    from recstudy.models.networks.vq import save_tokenizer
    from recstudy.tasks.captioning.tokenizer import image_tokenizer

    out = console()
    images = load(data, data_folder(command.data))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def report(done: "Progress") -> None:
        restarted = f", {plural(done.restarted, 'unused code')} restarted" if done.restarted else ""
        out.print(f"epoch {done.epoch + 1} of {command.epochs}: loss {done.loss:.4f}{restarted}")

    network, header = image_tokenizer(config, command.epochs, images, data.title, device, report)
    _check_free(command.file)  # training takes a while
    save_tokenizer(network, header["facts"], header["trained_on"], command.file)
    facts, codes = header["facts"], f"{config.codebook:,} codes used"
    out.print(f"{header['title']}: {command.file}, hash {header['hash']}", soft_wrap=True)
    out.print(f"On images held out: PSNR {facts['psnr']:.1f} dB, {facts['used_percent']:.0f} % of {codes}", soft_wrap=True)


def _configs(command: TrainTokenizer) -> tuple[DataConfig, VQ]:
    """The data set, and a tokenizer of its images' size.

    Raises:
        ConfigError: no such data set or field, or images that are not square and coloured.
    """
    given: dict[str, dict[str, Any]] = {"data": {"name": command.data_set}, "tokenizer": {}}
    for path, value in settings(command.set, "tokenizer.codes=16").items():
        part, _, name = path.partition(".")
        if part not in given or not name:
            raise ConfigError(f"--set takes data.FIELD and tokenizer.FIELD here, but got {path!r}")
        given[part][name] = value
    data = configure(DATASETS[command.data_set], given["data"], "data")
    config = configure(VQ, {"size": data.shape[1]} | given["tokenizer"], "tokenizer")
    if data.shape != (3, config.size, config.size):
        shape = "x".join(map(str, data.shape))
        raise ConfigError(f"{config.name} needs images of 3x{config.size}x{config.size}, but those of {data.title} are {shape}")
    if command.epochs < 1:
        raise ConfigError(f"--epochs must be at least 1, but got {command.epochs}")
    return data, config


def _check_free(file: Path) -> None:
    if file.exists():
        raise ConfigError(f"{file} is there already. Give another name, or remove it first.")
