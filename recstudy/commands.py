"""The commands that read and show what studies left behind, without torch or Ray; `recstudy.command` finds
them by name.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, arg

from recstudy.errors import ConfigError, StorageError, choices, nearest
from recstudy.options import Amount, File, Folder, ForPaper, Name, Names, ResultsPlace, Several, data_folder
from recstudy.plugins import UserFiles, loaded, module_files
from recstudy.programs.settings import Config, Resources
from recstudy.publishing.command import Imports, studies_of
from recstudy.records import Results
from recstudy.records.plans import record_look
from recstudy.shipped import new, question, run, shipped
from recstudy.terminal import console, say

T = TypeVar("T")
ResultsArgument = Positional[ResultsPlace]


@dataclass(frozen=True)
class Report:
    """Draw tables, figures and the page of studies again, from their records alone."""

    path: ResultsArgument
    """A results folder, a study's folder in it (results/studies/NAME/PRESET), or the URI that --results was
    given.
    """
    trust: Imports = False
    price: Amount = ""
    """What a GPU hour costs, such as 2.5EUR: the page then says what the study's GPU hours cost."""
    report: OmitArgPrefixes[ForPaper] = field(default_factory=ForPaper)

    def run(self) -> int:
        from recstudy.report.summary import Price
        from recstudy.report.writing import show_report

        price = Price.parse(self.price) if self.price else None

        def draw(results: Results, name: str, preset: str) -> None:
            record_look(results, name, preset)
            show_report(
                results, name, preset, self.report.formats, console(), self.report.paper, self.trust, price
            )

        _for_each_study(studies_of(self.path), draw)
        return 0


@dataclass(frozen=True)
class Status:
    """How far each study of a results folder is."""

    path: ResultsArgument = "results"
    """A results folder, or the URI that --results was given."""

    def run(self) -> int:
        from recstudy.report.status import show_status

        show_status(studies_of(self.path)[0][0], console())
        return 0


@dataclass(frozen=True)
class Clean:
    """Show what a results folder can do without: old checkpoints and leftovers of killed processes."""

    path: Positional[Path] = Path("results")
    """A results folder."""
    orphans: bool = False
    """Also the runs that no study names any more, finished ones too."""
    yes: bool = False
    """Remove it."""

    def run(self) -> int:
        from recstudy.records.clean import show_clean

        show_clean(self.path, self.orphans, self.yes)
        return 0


@dataclass(frozen=True)
class Board:
    """Show studies and runs in a browser and follow them while they run. Reads records only, and writes
    nothing.
    """

    path: ResultsArgument = "results"
    """A results folder, or the URI that --results was given."""
    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """Where to listen. Any other address than this machine's own wants a token."""
    port: Annotated[int, arg(metavar="N")] = 8050
    """0 takes a free one."""
    token: Annotated[str, arg(metavar="TOKEN")] = ""
    """Which readers must have, once, as ?token=TOKEN in the address. Default: RECSTUDY_BOARD_TOKEN."""
    trust: Imports = False
    link: Annotated[Several, arg(metavar="NAME=URL")] = ()
    """A program to point to, such as "Ray dashboard=http://head:8265". May be given more than once."""

    def run(self) -> int:
        from recstudy.board.server import BoardServer  # it loads Flask

        token = self.token or os.environ.get("RECSTUDY_BOARD_TOKEN", "")
        links = dict(link.partition("=")[::2] for link in self.link)
        server = BoardServer(self.path, self.host, self.port, token, links, self.trust)
        asks = ", which asks once for ?token=TOKEN" if token else ""
        print(f"Board: {server.url}{asks} (Ctrl-C stops it)", flush=True)
        server.run()
        return 0


@dataclass(frozen=True)
class Audit:
    """List what a careful reviewer would ask of studies: from their records, and from what their papers
    contradict.
    """

    path: ResultsArgument = "results"
    """A results folder, a study's folder in it (results/studies/NAME/PRESET), or the URI that --results was
    given.
    """
    trust: Imports = False
    json: bool = False
    """As a JSON list, one entry a study."""

    def run(self) -> int:
        from recstudy.report.audit import show_audits

        show_audits(studies_of(self.path), self.json, console(), self.trust)
        return 0


@dataclass(frozen=True)
class Explain:
    """Show the runs behind one number of a table, their values, and how it was judged.

    Such as: recstudy explain table1:ViTRM:64 results/studies/vitrm_batch_size/paper
    """

    cell: Positional[Annotated[str, arg(metavar="TABLE:ROW:COLUMN")]]
    """Each by its label or the beginning of it; rows and columns also by number, from 1 on."""
    path: ResultsArgument = "results"
    """A study's folder (results/studies/NAME/PRESET), or a results folder with one study that has the table,
    or its URI.
    """
    trust: Imports = False

    def run(self) -> int:
        from recstudy.report.explain import show_cell

        show_cell(studies_of(self.path), self.cell, console(), self.trust)
        return 0


@dataclass(frozen=True)
class Evaluate:
    """Compute metrics of finished runs that their results do not have, without training: such as one that was
    defined since.

    From the answers that runs keep, or, where those do not suffice, from their weights, which takes the data
    and torch.
    """

    path: ResultsArgument
    """A study's folder (results/studies/NAME/PRESET), a results folder, or the URI that --results was
    given.
    """
    trust: Imports = False
    metric: Names = ()
    """Compute this one, anew where it was computed later too. May be given more than once. Default: all that
    lack.
    """
    data: Folder = None
    """Where data sets lie in their official layouts. Default: RECSTUDY_DATA, else ./data."""

    def run(self) -> int:
        from recstudy.reevaluate import evaluate

        studies, data = studies_of(self.path, sends=True), data_folder(self.data)
        done = _for_each_study(
            studies,
            lambda results, name, preset: evaluate(results, name, preset, self.metric, data, self.trust),
        )
        say(f"Draw them with: recstudy report {self.path}")
        return 0 if all(done) else 1


@dataclass(frozen=True)
class Contract:
    """Check what a file of your own registers: a task's losses and kept answers; a model family's shapes,
    gradients, purity, counts, every switch, resuming after a stop, and first losses; that an optimiser, a
    loss or an augmentation trains."""

    file: Positional[Path]
    """A study's file, or a module."""
    data: Folder = None
    """Where the data sets of examples lie. Default: RECSTUDY_DATA, else ./data."""
    write: bool = False
    """Keep each family's first losses as they are now, beside the file; without, they are held against those
    that were kept.
    """

    def run(self) -> int:
        from recstudy.contract.command import check_file  # it loads torch

        return check_file(self.file, data_folder(self.data), self.write, console())


@dataclass(frozen=True)
class Studies:
    """The studies that come with recstudy, and what each of them asks."""

    def run(self) -> int:
        _say_table(("study", "asks"), ((name, question(file)) for name, file in shipped().items()))
        say("Run one with: recstudy run NAME")
        return 0


@dataclass(frozen=True)
class RunShipped:
    """Run a study that comes with recstudy: `recstudy run NAME ...` is `python studies/NAME.py ...`, from any
    directory.
    """

    name: Positional[Name]
    """As `recstudy studies` has it. All that follows is the study's: recstudy run NAME --help."""

    def run(self, arguments: Sequence[str]) -> int:
        run(self.name, arguments)


@dataclass(frozen=True)
class Register:
    """Write what a study states before it runs - seeds, claims, margins, deviations, code - to a small file
    beside the study's.

    Commit it, or deposit it where it gets a date. Every page of the study then says what has changed since.
    """

    name: Positional[Annotated[str, arg(metavar="STUDY")]]
    """A study's file, or one that `recstudy studies` lists. All that follows is the study's: --preset paper
    --seeds 5.
    """

    def run(self, arguments: Sequence[str]) -> int:
        run(self.name, [*arguments, "--register"])


@dataclass(frozen=True)
class New:
    """Write a study that runs as it stands in under a minute: a starting point.

    --function (default): your training function, in any framework. It reports its steps and returns its
    metrics. --command "python train.py": your script, once for each setting and seed. Without that script, a
    small one is written. --model: a recursive model of your own, which recstudy trains.

    Then: python NAME.py, or python NAME.py --help.
    """

    name: Positional[Name]
    """Name of the study and of its file, which is written into this folder."""
    function: FlagCreatePairsOff[bool] = False
    """Begin with a training function."""
    command: Annotated[str, arg(metavar="COMMAND")] = ""
    """Begin with a script. Give its command without options: the study file has them."""
    model: FlagCreatePairsOff[bool] = False
    """Begin with a recursive model."""

    def run(self) -> int:
        kind, *other_kinds = [kind for kind in ("function", "command", "model") if getattr(self, kind)] or [
            "function"
        ]
        if other_kinds:
            raise ConfigError(f"a study has one program: give --{kind} or --{other_kinds[0]}")
        study, *scripts = new(self.name, Path(), kind, self.command)
        say(
            *(f"{script}: a script that it runs" for script in scripts),
            f"{study}: run it with python {study}",
        )
        return 0


@dataclass(frozen=True)
class Fields:
    """Every field of a run config: its type, its default, what it may be, what a search tries, and what it
    means.
    """

    part: Positional[Annotated[str, arg(metavar="PART")]] = ""
    """train, place, a model family such as vitrm, or a data set such as digits. Default: which there are."""
    plugin: File = None
    """A study's file, or a module, that registers more of them."""

    def run(self) -> int:
        from recstudy.config import DATASETS, FAMILIES, TrainConfig
        from recstudy.config.fields import describe_fields

        with loaded(UserFiles() if self.plugin is None else module_files(self.plugin)):
            kinds: dict[str, tuple[type[Config], str]] = {
                "train": (TrainConfig, "train."),
                "resources": (Resources, "resources."),
            }
            kinds |= {name: (kind, "model.") for name, kind in FAMILIES.complete().items()}
            kinds |= {name: (kind, "data.") for name, kind in DATASETS.complete().items()}
            if self.part in kinds:
                _say_table(
                    ("field", "type", "default", "a search tries", "what it is"),
                    describe_fields(*kinds[self.part]),
                )
                return 0
            limit = len(kinds)
            if self.part:
                raise ConfigError(
                    f"no part {self.part!r}: there are {choices(kinds, limit)}.{nearest(self.part, kinds)}"
                )
            for title, names in (
                ("model families", FAMILIES),
                ("data sets", DATASETS),
                ("of every run", ("train", "resources")),
            ):
                say(f"{title}: {choices(sorted(names), limit)}")
            say("Their fields: recstudy fields NAME")
            return 0


def _say_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    table = Table(*names, box=SIMPLE)
    for row in rows:
        table.add_row(*map(escape, row))
    console().print(table)


def _for_each_study(
    studies: Iterable[tuple[Results, str, str]], work: Callable[[Results, str, str], T]
) -> list[T]:
    """Return what `work` gives for each study (results folder, name, preset).

    Raises:
        StorageError: some are damaged; the others are done.
    """
    done: list[T] = []
    damages: list[str] = []
    for study in studies:
        try:
            done.append(work(*study))
        except StorageError as damage:
            damages.append(str(damage))
    if damages:
        raise StorageError(" ".join(damages))
    return done
