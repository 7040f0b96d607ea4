"""Commands of `recstudy` that read records, without torch or Ray. `recstudy.command` imports them."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, arg

from recstudy.errors import ConfigError, PartError, StorageError, choices, nearest
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
    """Write the page, tables and figures of studies again, from their records."""

    path: ResultsArgument
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI."""
    trust: Imports = False
    price: Amount = ""
    """The price of a GPU hour, such as 2.5EUR. The page then shows the price of the study."""
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
    """Show the progress of each study of a results folder."""

    path: ResultsArgument = "results"
    """A results folder, or its URI."""

    def run(self) -> int:
        from recstudy.report.status import show_status

        show_status(studies_of(self.path)[0][0], console())
        return 0


@dataclass(frozen=True)
class Clean:
    """List or remove old checkpoints and leftovers of killed processes."""

    path: Positional[Path] = Path("results")
    """A results folder."""
    orphans: bool = False
    """Include runs that no study uses, also finished ones."""
    yes: bool = False
    """Remove the listed files. Without it they are only listed."""

    def run(self) -> int:
        from recstudy.records.clean import show_clean

        show_clean(self.path, self.orphans, self.yes)
        return 0


@dataclass(frozen=True)
class Board:
    """Show studies and runs in a browser while they run.

    The board changes no run. Showing verdicts adds a look to studies/looks.jsonl.
    """

    path: ResultsArgument = "results"
    """A results folder, or its URI."""
    host: Annotated[str, arg(metavar="ADDRESS")] = "127.0.0.1"
    """The address to listen on. Addresses other than this machine need a token."""
    port: Annotated[int, arg(metavar="N")] = 8050
    """The port. 0 chooses a free one."""
    token: Annotated[str, arg(metavar="TOKEN")] = ""
    """Access token. Readers open the board with ?token=TOKEN once. Default: RECSTUDY_BOARD_TOKEN."""
    trust: Imports = False
    link: Annotated[Several, arg(metavar="NAME=URL")] = ()
    """A link to show, such as "Ray dashboard=http://head:8265". May be repeated."""

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
    """List what a reviewer would ask about studies, and known contradictions in their papers."""

    path: ResultsArgument = "results"
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI."""
    trust: Imports = False
    json: bool = False
    """Print a JSON list with an entry per study."""

    def run(self) -> int:
        from recstudy.report.audit import show_audits

        show_audits(studies_of(self.path), self.json, console(), self.trust)
        return 0


@dataclass(frozen=True)
class Explain:
    """Show the runs, the estimate and the verdict behind a number of a table.

    Example: recstudy explain table1:ViTRM:64 results/studies/vitrm_batch_size/paper
    """

    cell: Positional[Annotated[str, arg(metavar="TABLE:ROW:COLUMN")]]
    """Table, row and column, each by its label or the beginning of it. Rows and columns also by number, from
    1."""
    path: ResultsArgument = "results"
    """A study's folder (results/studies/NAME/PRESET), a results folder with one study that has the table, or
    a URI.
    """
    trust: Imports = False

    def run(self) -> int:
        from recstudy.report.explain import show_cell

        show_cell(studies_of(self.path), self.cell, console(), self.trust)
        return 0


@dataclass(frozen=True)
class Evaluate:
    """Compute metrics of finished runs without training.

    They are computed from the saved answers. If these do not suffice, they are computed from the weights,
    which needs the data and torch.
    """

    path: ResultsArgument
    """A results folder, a study's folder (results/studies/NAME/PRESET), or its URI."""
    trust: Imports = False
    metric: Names = ()
    """A metric to compute, again if it exists. May be repeated. Default: all missing metrics."""
    data: Folder = None
    """The folder with the data sets. Default: RECSTUDY_DATA, else ./data."""

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
    """Check the parts that your file registers.

    Tasks: losses and saved answers. Model families: shapes, gradients, independence of images, parameter
    counts, every switch, resuming and first losses. Optimizers, losses and augmentations: that they train.
    """

    file: Positional[Path]
    """A study file or a module."""
    data: Folder = None
    """The folder with the data sets of the examples. Default: RECSTUDY_DATA, else ./data."""
    write: bool = False
    """Save the first losses of each family beside the file. Without it they are compared with saved ones."""

    def run(self) -> int:
        from recstudy.contract.command import check_file  # it loads torch

        return check_file(self.file, data_folder(self.data), self.write, console())


@dataclass(frozen=True)
class Studies:
    """List the studies that come with recstudy, with their questions."""

    def run(self) -> int:
        _say_table(("study", "question"), ((name, question(file)) for name, file in shipped().items()))
        say("Run one with: recstudy run NAME")
        return 0


@dataclass(frozen=True)
class RunShipped:
    """Run a study that comes with recstudy: as python studies/NAME.py, from any folder."""

    name: Positional[Name]
    """The name in `recstudy studies`. Options of the study follow it: recstudy run NAME --help."""

    def run(self, arguments: Sequence[str]) -> int:
        run(self.name, arguments)


@dataclass(frozen=True)
class New:
    """Write a starter study that runs in under a minute.

    --function (default): a training function, in any framework. --command "python train.py": a script; if it
    does not exist, a small one is written. --model: a recursive model that recstudy trains.

    Then: python NAME.py, or python NAME.py --help.
    """

    name: Positional[Name]
    """The name of the study and of its file in this folder."""
    function: FlagCreatePairsOff[bool] = False
    """Study a training function (default)."""
    command: Annotated[str, arg(metavar="COMMAND")] = ""
    """Study a script. Give its command without options."""
    model: FlagCreatePairsOff[bool] = False
    """Study a recursive model."""

    def run(self) -> int:
        kind, *other_kinds = [kind for kind in ("function", "command", "model") if getattr(self, kind)] or [
            "function"
        ]
        if other_kinds:
            raise ConfigError(f"a study has one program: give --{kind} or --{other_kinds[0]}")
        study, *scripts = new(self.name, Path(), kind, self.command)
        say(
            *(f"{script}: the script that the study runs" for script in scripts),
            f"{study}: run it with python {study}",
        )
        return 0


@dataclass(frozen=True)
class Fields:
    """List the settings of runs with types, defaults, allowed values, search ranges and meanings."""

    part: Positional[Annotated[str, arg(metavar="PART")]] = ""
    """train, resources, a model family such as vitrm, or a data set such as digits. Default: list the
    parts."""
    plugin: File = None
    """A study file or a module that registers more parts."""

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
                    ("field", "type", "default", "search range", "meaning"),
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
    """Return the results of `work` for each study (results folder, name, preset).

    Raises:
        StorageError, PartError: Some studies are damaged. The others have been processed.
    """
    done: list[T] = []
    damages: list[StorageError | PartError] = []
    for study in studies:
        try:
            done.append(work(*study))
        except (StorageError, PartError) as damage:
            damages.append(damage)
    if damages:
        raise type(damages[0])(" ".join(map(str, damages)))
    return done
