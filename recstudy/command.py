"""The `recstudy` command: reads and shows what studies left behind, without torch or Ray; trains image tokenizers, with torch."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro

from recstudy.cli import Columns, Format, data_folder, settings
from recstudy.config import DATASETS, DataConfig, configure
from recstudy.data.maze import Maze
from recstudy.data.sudoku import Sudoku
from recstudy.errors import ConfigError, StorageError
from recstudy.models.vq import VQ
from recstudy.plugins import file_bundle, use
from recstudy.records import Results
from recstudy.records.stores import is_uri
from recstudy.report.names import plural
from recstudy.terminal import console, finish, parsed

if TYPE_CHECKING:
    from recstudy.train.tokenizer import Progress

T = TypeVar("T")
Place = tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="DIR|URI")]]


@dataclass(frozen=True)
class Report:
    """Draw tables, figures and the page of studies again, from their records alone."""

    path: Place
    """A results folder, a study's folder in it (results/studies/NAME/PRESET), or the URI that --results was given."""
    export: tuple[Format, ...] = ()
    """Write the figures in these formats too (needs a Chrome or Chromium)."""
    columns: Columns = 2
    """Those figures' width in columns of a paper: 1 is 3.5 inches, 2 are 7."""


@dataclass(frozen=True)
class Status:
    """How far each study of a results folder is."""

    path: Place = "results"
    """A results folder, or the URI that --results was given."""


@dataclass(frozen=True)
class Clean:
    """Show what a results folder can do without: old checkpoints and leftovers of killed processes."""

    path: tyro.conf.Positional[Path] = Path("results")
    """A results folder."""
    orphans: bool = False
    """Also the runs that no study names any more, finished ones too."""
    yes: bool = False
    """Remove it."""


@dataclass(frozen=True)
class Board:
    """Show studies and runs in a browser and follow them while they run. Reads records only and writes nothing."""

    path: Place = "results"
    """A results folder, or the URI that --results was given."""
    host: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = "127.0.0.1"
    """Where to listen. Any other address than this machine's own wants a token."""
    port: Annotated[int, tyro.conf.arg(metavar="N")] = 8050
    """0 takes a free one."""
    token: Annotated[str, tyro.conf.arg(metavar="TOKEN")] = ""
    """Which readers must have, once, as ?token=TOKEN in the address. Default: RECSTUDY_BOARD_TOKEN."""
    link: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=URL")] = ()
    """A program to point to, such as "Ray dashboard=http://head:8265". May be given more than once."""


@dataclass(frozen=True)
class Audit:
    """List what a careful reviewer would ask of studies: from their records, and from what their papers contradict."""

    path: Place = "results"
    """A results folder, a study's folder in it (results/studies/NAME/PRESET), or the URI that --results was given."""
    json: bool = False
    """As a JSON list, one entry a study."""


@dataclass(frozen=True)
class Explain:
    """Show what is behind one number of a table: its runs, their origin, and how the number follows from theirs.

    Such as: recstudy explain table1:ViTRM:64 results/studies/vitrm_batch_size/paper
    """

    cell: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="TABLE:ROW:COLUMN")]]
    """Each by its label or the beginning of it; rows and columns also by number, from 1 on."""
    path: Place = "results"
    """A study's folder (results/studies/NAME/PRESET), or a results folder with one study that has the table, or its URI."""


@dataclass(frozen=True)
class Evaluate:
    """Compute metrics of finished runs that their results do not have, without training: such as one that was defined since.

    From the answers that runs keep, or, where those do not suffice, from their weights, which takes the data and torch.
    """

    path: Place
    """A study's folder (results/studies/NAME/PRESET), a results folder, or the URI that --results was given."""
    metric: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = ()
    """Compute this one, anew where it was computed later too. May be given more than once. Default: all that lack."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where data sets lie in their official layouts. Default: RECSTUDY_DATA, else ./data."""


@dataclass(frozen=True)
class Tokenizer:
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


@dataclass(frozen=True)
class Contract:
    """Check what a file of your own registers: a model family's shapes, gradients, purity, counts, every switch, going on after
    a stop, and first losses; that an optimiser, a loss or an augmentation trains."""

    file: tyro.conf.Positional[Path]
    """A study's file, or a module."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the data sets of examples lie. Default: RECSTUDY_DATA, else ./data."""
    write: bool = False
    """Keep each family's first losses as they are now, beside the file; without, they are held against those that were kept."""


Command = Contract | Report | Status | Audit | Explain | Clean | Board | Evaluate | Tokenizer | Data


def main(arguments: Sequence[str] | None = None) -> None:
    """The `recstudy` command."""
    commands: dict[str, Callable[..., Command]] = {"report": Report, "status": Status, "audit": Audit, "explain": Explain}
    commands |= {"evaluate": Evaluate, "clean": Clean, "board": Board, "tokenizer": Tokenizer, "data": Data, "contract": Contract}
    finish(lambda: _done(parsed(lambda: tyro.extras.subcommand_cli_from_dict(commands, args=arguments, prog="recstudy"))))


def _done(command: Command) -> int:
    if isinstance(command, Board):
        return _board(command)
    if isinstance(command, Contract):
        from recstudy.contract.command import check_file  # it loads torch

        return check_file(command.file, data_folder(command.data), command.write, console())
    if isinstance(command, Evaluate):
        return _evaluate(command)
    if isinstance(command, Data):
        return _whole_or_nothing(lambda: _data(command))
    return _whole_or_nothing(lambda: _train(command)) if isinstance(command, Tokenizer) else _read(command)


def _whole_or_nothing(make: Callable[[], None]) -> int:
    try:
        make()
    except KeyboardInterrupt:
        print("Stopped. Nothing was written.", file=sys.stderr)
        return 130
    return 0


def _evaluate(command: Evaluate) -> int:
    from recstudy.analysis.frame import studies
    from recstudy.analysis.report import studies_at
    from recstudy.train.later import evaluate

    out, stored = console(), is_uri(command.path)
    folder = _folder(command.path)
    results = Results(command.path) if stored else None  # a folder is a place of its own, a copy is sent back
    found = [(results, *study) for study in studies(results)] if results else studies_at(folder)
    data = data_folder(command.data)
    told = _each(found, lambda results, name, preset: evaluate(results, name, preset, command.metric, data, out))
    out.print(f"Draw them with: recstudy report {command.path}", markup=False, soft_wrap=True)
    return 0 if all(told) else 1


def _board(command: Board) -> int:
    from recstudy.board.serve import Board as Server  # it loads Dash

    token = command.token or os.environ.get("RECSTUDY_BOARD_TOKEN", "")
    links = dict(link.partition("=")[::2] for link in command.link)
    server = Server(command.path, command.host, command.port, token, links)
    asks = ", which asks once for ?token=TOKEN" if token else ""
    print(f"Board: {server.url}{asks} (Ctrl-C stops it)", flush=True)
    server.run()
    return 0


def _data(command: Data) -> None:
    kind, own = _drawn(command.name)
    if command.check:
        _check(command.folder, kind.model_construct(**own))  # of mazes, files may have even sides, which are never drawn
        return
    from recstudy.data.official_writing import write_layout  # it loads torch

    asked = {name: getattr(command, name) for name in ("puzzles", "test_puzzles", "augmentations")}
    config = configure(kind, {**own, "drawing_seed": command.seed, **asked}, "data")
    write_layout(command.folder, config)
    _say(f"{config.title}: {command.puzzles:,} puzzles that train, {command.test_puzzles:,} that test, in {command.folder}")
    _say(f"To read it: PuzzleFolder(path=..., vocabulary={config.classes}, rows={config.side}, columns={config.side})")


def _say(line: str) -> None:
    console().print(line, markup=False, soft_wrap=True)


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
    from recstudy.data.puzzle_reading import check_rules, read_all

    decoded = read_all(folder, rules)
    check_rules(decoded, rules, folder)
    _say(f"{folder}: {len(decoded.train_labels):,} puzzles that train, {len(decoded.test_labels):,} that test; all are right")


def _train(command: Tokenizer) -> None:
    if command.plugin is not None:
        use(file_bundle(command.plugin))
    _tokenizer(command, *_configs(command))


def _tokenizer(command: Tokenizer, data: DataConfig, config: VQ) -> None:
    _check_free(command.file)
    import torch

    from recstudy.data.cache import load
    from recstudy.models.networks.vq_file import save_tokenizer
    from recstudy.train.prepared import image_tokenizer

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


def _configs(command: Tokenizer) -> tuple[DataConfig, VQ]:
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


def _read(command: Report | Status | Audit | Explain | Clean) -> int:
    from recstudy.analysis.report import show_report, show_status, studies_at
    from recstudy.records.clean import show_clean

    out = console()
    if isinstance(command, Clean):
        show_clean(command.path, command.orphans, command.yes, out)
        return 0
    if isinstance(command, Status):
        show_status(studies_at(_folder(command.path))[0][0], out)
        return 0
    found = studies_at(_folder(command.path))
    if isinstance(command, Audit):
        from recstudy.analysis.audit.printed import show_audits

        show_audits(found, command.json, out)
        return 0
    if isinstance(command, Explain):
        from recstudy.analysis.tables.explain import show_cell

        show_cell(found, command.cell, out)
        return 0
    export, columns = command.export, command.columns
    _each(found, lambda results, name, preset: show_report(results, name, preset, export, out, columns))
    return 0


def _each(found: Iterable[tuple[Results, str, str]], work: Callable[[Results, str, str], T]) -> list[T]:
    """What `work` gives for each study (results folder, name, preset).

    Raises:
        StorageError: some are damaged; the others are done.
    """
    done: list[T] = []
    damaged: list[str] = []
    for study in found:
        try:
            done.append(work(*study))
        except StorageError as damage:
            damaged.append(str(damage))
    if damaged:
        raise StorageError(" ".join(damaged))
    return done


def _folder(place: str) -> Path:
    """The results folder, which is a copy where they are on an object store."""
    if not is_uri(place):
        return Path(place.removeprefix("file://"))
    folder = Results(place).pull().root
    if not any(folder.glob("studies/*/*/plan.json")):
        raise ConfigError(f"no study at {place}. Give the URI that --results was given.")
    return folder
