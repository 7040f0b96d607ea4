"""The options of studies' and searches' command lines, and the fields of the run config among their words."""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg

from recstudy.errors import ConfigError
from recstudy.files import read_json, refuse_existing
from recstudy.programs.settings import KINDS, RunSettings, flatten
from recstudy.records import write_whole
from recstudy.records.study_schema import PARTS
from recstudy.report.venues import Paper, paper_of

FIELD = re.compile(r"[a-z]\w*(\.\w+)+=")  # the begin of train.epochs=5
TAKING = ("--only", "--vary", "--rerun")  # which may be followed by such a word
WORD = re.compile(r"(?!(?:true|false|null)\b)[A-Za-z_][\w.-]*")
Format = Literal["pdf", "svg", "png"]
Logger = Literal["tensorboard", "wandb", "mlflow"]
# Kinds of values, by the word that help shows for them.
Name = Annotated[str, arg(metavar="NAME")]
Amount = Annotated[str, arg(metavar="AMOUNT")]
Address = Annotated[str | None, arg(metavar="ADDRESS")]
Count = Annotated[int | None, arg(metavar="N")]
File = Annotated[Path | None, arg(metavar="FILE")]
Folder = Annotated[Path | None, arg(metavar="DIR")]
ResultsPlace = Annotated[str, arg(metavar="DIR|URI")]
Several = Annotated[tuple[str, ...], UseAppendAction]
Names = Annotated[Several, arg(metavar="NAME")]
Settings = Annotated[tuple[tuple[str, ...], ...], UseAppendAction, arg(metavar="FIELD=VALUE")]


@dataclass(frozen=True)
class ForPaper:
    """What a report is to have for a paper."""

    export: tuple[Format, ...] = ()
    """Write the figures in these formats too (needs a Chrome or Chromium)."""
    venue: Name = ""
    """Whose page decides how wide figures and LaTeX's tables are: article (the default), neurips, icml, cvpr,
    acl or ieee. Figures are written as pdf then."""
    width: Annotated[str, arg(metavar="LENGTH")] = ""
    """That width by itself, such as 3.25in or 8.5cm."""
    without: Annotated[Several, arg(metavar="COLUMN")] = ()
    """Leave out this column of LaTeX's tables: its head, or a glob of heads. May be given more than once."""

    def __post_init__(self) -> None:
        assert self.paper  # refused here, before any run

    @property
    def paper(self) -> Paper:
        return paper_of(self.venue, self.width, self.without)

    @property
    def formats(self) -> tuple[Format, ...]:
        """Return the formats, with `pdf` where a paper is asked for."""
        return (
            self.export if "pdf" in self.export or not (self.venue or self.width) else ("pdf", *self.export)
        )


@dataclass(frozen=True)
class CommonOptions:
    """How runs are run. Everything that decides a number is a field of the run config: see --set."""

    preset: Name = ""
    """Which budget. Default: `standard` on a cluster (--address) with GPUs if the study has it, else its
    first one (`quick`).
    """
    fields: Positional[Annotated[tuple[str, ...], arg(metavar="FIELD=VALUE")]] = ()
    """Change a field for every variant, such as train.epochs=5; `recstudy fields` lists them. Anywhere in the
    command.
    """
    set: Settings = ()
    """The same, with a flag before them."""
    config: File = None
    """Set the fields that a file of YAML has, nested or by their dotted names; what is typed goes before."""
    write_config: File = None
    """Write the preset, with all that is set here, as a file for --config, and run nothing."""
    smoke: bool = False
    """The whole path in seconds: two epochs on 32 images, unless --set says otherwise. Its numbers mean
    nothing.
    """
    dry_run: bool = False
    """Print the plan and what it costs, and run nothing."""
    json: bool = False
    """With --dry-run: as a JSON list."""
    address: Address = None
    """The Ray cluster: auto or HOST:PORT. Default: start one on this machine."""
    no_ray: bool = False
    """Make one run after another in this process, without Ray: where there is none, or under a debugger. The
    same records, ids and checkpoints; a run that hangs or finds no memory ends the command."""
    data: Folder = None
    """Where data sets lie in their official layouts. Default: RECSTUDY_DATA, else ./data."""
    download: bool = False
    """Let torchvision download what is missing there."""
    allow_missing: bool = False
    """Go on without images that a data set's table names and its folder lacks (chest X-rays); a field of the
    run config.
    """
    results: ResultsPlace = "results"
    """Where records and reports go: a folder, or s3://bucket/folder. A finished run found there is never run
    again.
    """
    report: OmitArgPrefixes[ForPaper] = field(default_factory=ForPaper)
    init_from: Annotated[str, arg(metavar="RUN|FILE|DIR")] = ""
    """Start from these weights: a run's of the results folder, a file of safetensors, or a folder that holds
    one. Their digest is part of a run's id (train.init_from); with train.epochs=0 nothing is trained."""
    cpus: Count = None
    """CPU cores a worker may use."""
    gpus: Annotated[float | None, arg(metavar="N")] = None
    """GPUs a worker gets; a fraction shares one."""
    workers: Annotated[str | None, arg(metavar="N")] = None
    """Workers that share each batch of one run."""
    rerun: Annotated[str, arg(metavar="changed|all|GLOB")] = ""
    """Run finished runs again: those made with different code or data, all of them, or those whose label
    matches. Their records so far are kept."""
    keep: bool = False
    """Answer from finished runs although the code of a file of yours has changed since. The page says so."""
    trainer: Annotated[str | None, arg(metavar="auto|inline|train")] = None
    """Train inside Tune's process (inline) or on Ray Train workers (train), whose start takes 4 to 14 s a
    run.
    """
    log: tuple[Logger, ...] = ()
    """Log to these trackers too (W&B, MLflow, TensorBoard), each with its package: see
    docs/how-to/trackers.md.
    """
    log_losses: bool = False
    """With --log: once a run has ended, the training losses of its updates too, up to 200 an epoch, with the
    update as step.
    """

    def __post_init__(self) -> None:
        for flag, value in {
            "--address": self.address,
            "--log": self.log,
            "--trainer": self.trainer == "train",
        }.items():
            if self.no_ray and value:
                raise ConfigError(f"{flag} needs Ray: leave it out, or --no-ray")


@dataclass(frozen=True)
class StudyOptions(CommonOptions):
    """How a study is run."""

    seeds: Count = None
    """Seeds 0 to N-1 of every variant. Going from 3 to 5 runs the two that are missing; back to 3 keeps what
    has begun.
    """
    max_seeds: Count = None
    """The maximum number of seeds. Each look before it spends a part of the 5 %. Default: as the study
    states; without any, the first look has all of it."""
    until: Annotated[Literal["decided"] | None, arg(metavar="decided")] = None
    """Run further seeds for the variants of open claims and published values, from look to look (3, 5, 8, 12,
    ... seeds), until each is decided or unlikely to be decided by --max-seeds. Default maximum: four
    times the seeds."""
    budget: Amount = ""
    """With --until: the limit of all runs, the first seeds included: 24 runs, 90min, 2h or 40gpuh. A larger
    budget later continues the study."""
    register: bool = False
    """Write all that the study states to STUDY.PRESET.registered.yaml beside it, and run nothing. See
    `recstudy register`.
    """
    only: Annotated[Several, arg(metavar="GLOB")] = ()
    """Run only the variants whose label matches, such as 'latent_steps=3*'. May be given more than once."""
    vary: Annotated[Several, arg(metavar="FIELD=V1,V2,...")] = ()
    """Sweep a field, such as model.latent_steps=1,2,4, in place of the levels that the study gives it. May be
    given more than once. The study's claims are not judged then."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget and not self.until:
            raise ConfigError(
                "--budget goes with --until decided: without it a study makes all runs that --dry-run names"
            )
        if self.until and self.only:
            raise ConfigError(
                "--until decided chooses the variants itself, by what is open: leave --only out"
            )

    @property
    def of_plan(self) -> dict[str, Any]:
        """Return what only the plan of a study is made with."""
        return {"max_seeds": self.max_seeds}


@dataclass(frozen=True)
class SearchOptions(CommonOptions):
    """How a search is run."""

    family: Names = ()
    """Model family to search; several times for one search over several. Default: the preset's first."""
    budget: Amount = ""
    """What the search may spend in all: 24 runs, 90min, 2h or 40gpuh, up to half of it for --seeds. A larger
    one goes on.
    """
    sampler: Name = ""
    """tpe, gp, cmaes, nsgaii, qmc, random, or one that the study's file registers."""
    stopping: Name = ""
    """none, asha, median, or one that the study's file registers: whether runs that look poor are stopped
    early.
    """
    seeds: Count = None
    """Fresh seeds for the best settings, paid for by the same budget; 0 for none."""
    optuna_storage: Annotated[str, arg(metavar="FILE|URL")] = ""
    """Show every trial in optuna-dashboard: a journal file or a database URL to keep them in."""
    vary: Annotated[Several, arg(metavar="FIELD=V1,V2,...")] = ()
    """Search a field over these values, such as model.latent_steps=1,2,4, in place of its range. May be given
    more than once. Of the settings to try first, only the preset's own remain."""

    @property
    def of_plan(self) -> dict[str, Any]:
        """Return what only the plan of a search is made with."""
        return {
            "families": self.family,
            "budget": self.budget,
            "sampler": self.sampler,
            "stopping": self.stopping,
        }


def move_fields_first(words: Sequence[str]) -> list[str]:
    """Return the command line with its FIELD=VALUE at the front, where no option before one takes it for its
    own.
    """
    positions = range(len(words))
    is_other = [
        FIELD.match(words[index]) is None or (index > 0 and words[index - 1] in TAKING) for index in positions
    ]
    return [words[index] for index in sorted(positions, key=is_other.__getitem__)]  # which keeps their order


def changes_of(options: CommonOptions, base: RunSettings | None = None) -> dict[str, Any]:
    """Return the changes of `--config`, where `base` has not that already, of `--set`, and of the flags of
    what a run gets.
    """
    changes = read_config_file(options.config, base) if options.config and base else {}
    changes |= settings([*options.fields, *chain.from_iterable(options.set)], "train.epochs=5")
    flags = {f"resources.{flag}": getattr(options, flag) for flag in ("cpus", "gpus", "workers", "trainer")}
    flags["data.allow_missing"] = options.allow_missing or None
    return changes | {field: value for field, value in flags.items() if value is not None}


def read_config_file(file: Path, base: RunSettings) -> dict[str, Any]:
    """Return the fields of a file of `--config` that are otherwise in `base`, by their dotted names.

    Raises:
        ConfigError: there is no such file, it is no YAML with fields, or a field or a value in it is none of
            the config's.
    """
    values = read_yaml("--config", file)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ConfigError(
            f"--config {file}: a file of fields is needed, such as train: {{epochs: 5}} or train.epochs: 5"
        )
    file_values, base_values = flatten(values), flatten(base.model_dump(mode="json"))
    kinds = [f"{part}.{kind}" for part in PARTS for kind in KINDS]
    other_parts = {
        path.partition(".")[0]
        for path in kinds
        if path in file_values and file_values[path] != base_values.get(path)
    }
    fields = {
        path: file_values[path]
        for path in sorted(file_values, key=lambda path: path not in kinds)  # another kind has other fields
        if path.partition(".")[0] in other_parts
        or path not in base_values
        or base_values[path] != file_values[path]
    }
    try:
        base.with_changes(fields)
    except ConfigError as error:
        raise ConfigError(f"--config {file}: {error}") from None
    return fields


def read_yaml(option: str, file: Path) -> Any:
    """Return the values in the YAML file of an option (ConfigError: it cannot be read, or gives a key
    twice).
    """
    from recstudy import strict_yaml  # it loads PyYAML, without which --help is faster

    try:
        return strict_yaml.read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{option} {file}: {error.strerror if isinstance(error, OSError) else error}"
        ) from None


def write_fields(file: Path, config: RunSettings, about: str) -> str:
    """Write a config as a file for `--config`, and say so.

    Raises:
        ConfigError: the file is there.
        StorageError: it cannot be written.
    """
    from recstudy.strict_yaml import write_yaml

    refuse_existing(file)
    fields = config.model_dump(mode="json")
    del fields["seed"]
    write_whole(file, f"# {about}\n{write_yaml(fields)}")
    return f"{file}: {about}. Read it with --config {file}"


def settings(assignments: Iterable[str], example: str) -> dict[str, Any]:
    """Return each `FIELD=VALUE` as field -> value."""
    changes: dict[str, Any] = {}
    for setting in assignments:
        field, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"a field is set by FIELD=VALUE, such as {example}, but got {setting!r}")
        field, text = field.strip(), value.strip()
        if field[:1] in ("+", "~"):
            assignment = f"{field.lstrip('+~')}={text}"
            raise ConfigError(
                f"{setting}: every field is there, and has a value. Set it without a sign: {assignment}"
            )
        changes[field] = _typed(field, text)
        if field in PARTS and not isinstance(changes[field], dict):
            fix = {
                "data": f"data.name={text} chooses a data set, data.limit=300",
                "model": f"model.family={text} chooses a family, model.width=64",
                "train": "train.epochs=5",
                "resources": "resources.gpus=1",
            }[field]
            raise ConfigError(f"{field}={text}: {field} has fields. {fix} sets a field of it")
    return changes


def axes(assignments: Iterable[str]) -> dict[str, list[Any]]:
    """Return each `FIELD=VALUE,VALUE` as field -> levels.

    Raises:
        ConfigError: it is not of this form, or names a field twice.
    """
    levels: dict[str, list[Any]] = {}
    for axis in assignments:
        name, _, text = axis.partition("=")
        field = name.strip()
        if not text.strip():
            raise ConfigError(
                f"--vary takes FIELD=VALUE,VALUE, such as model.latent_steps=1,2,4, but got {axis!r}"
            )
        if field in levels:
            raise ConfigError(f"--vary {field} stands twice: give all its levels in one, such as {axis},...")
        try:
            levels[field] = read_json(f"[{text}]", f"--vary {axis}")
        except json.JSONDecodeError:
            _typed(field, text)  # refused as a whole
            levels[field] = [_typed(field, word.strip()) for word in text.split(",")]
    return levels


def _typed(field: str, text: str) -> Any:
    """Return what a field is given on the command line: JSON where it is some, else the word itself.

    Raises:
        ConfigError: Python's None, or a list of words without quotes, which would be taken for words.
    """
    try:
        return read_json(text, f"{field}={text}")
    except json.JSONDecodeError:
        if text == "None":
            raise ConfigError(f"{field}={text}: values are typed as in JSON, here {field}=null") from None
        if text[:1] + text[-1:] == "[]":
            quoted = WORD.sub(r'"\g<0>"', re.sub("[\"']", "", text))
            raise ConfigError(
                f"{field}={text}: values are typed as in JSON, here '{field}={quoted}'"
            ) from None
        return text


def data_folder(folder: Path | None) -> Path:
    return folder or Path(os.environ.get("RECSTUDY_DATA", "data"))
