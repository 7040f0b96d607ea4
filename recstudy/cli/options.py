"""Options of the command lines of studies and searches, and the parsing of FIELD=VALUE words.

`recstudy.cli.study` and the commands of `recstudy` use them. `recstudy.cli.help` prints the text below each
field: its first sentence in --help, all of it in --help-all.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg

from recstudy.base.errors import ConfigError
from recstudy.base.files import read_json, refuse_existing
from recstudy.base.values import flatten
from recstudy.programs.base import RunSettings
from recstudy.programs.settings import KINDS
from recstudy.records import write_whole
from recstudy.records.study_schema import PARTS
from recstudy.report.venues import Paper, paper_of

FIELD = re.compile(r"[a-z]\w*(\.\w+)+=")  # the start of train.epochs=5
TAKING = ("--only", "--vary", "--rerun")  # options whose value may look like FIELD=VALUE
WORD = re.compile(r"(?!(?:true|false|null)\b)[A-Za-z_][\w.-]*")
Format = Literal["pdf", "svg", "png", "md"]
Logger = Literal["tensorboard", "wandb", "mlflow", "trackio"]
# Types of values, by the word that --help shows for them.
Name = Annotated[str, arg(metavar="NAME")]
Amount = Annotated[str, arg(metavar="AMOUNT")]
Address = Annotated[str | None, arg(metavar="ADDRESS")]
Count = Annotated[int | None, arg(metavar="N")]
File = Annotated[Path | None, arg(metavar="FILE")]
Folder = Annotated[Path | None, arg(metavar="DIR")]
FileArgument = Positional[Annotated[Path, arg(metavar="FILE")]]
FolderArgument = Positional[Annotated[Path, arg(metavar="DIR")]]
BundleArgument = Positional[Annotated[Path, arg(metavar="DIR|ZIP")]]
ResultsPlace = Annotated[str, arg(metavar="DIR|URI")]
Several = Annotated[tuple[str, ...], UseAppendAction]
Names = Annotated[Several, arg(metavar="NAME")]
ResultsArgument = Positional[ResultsPlace]
Imports = Annotated[bool, arg(help="Import the modules that the studies name, whoever wrote them.")]
JsonFlag = Annotated[
    bool, arg(help="Print one JSON document. Everything else goes to standard error. See docs/api/json.md.")
]
VERDICT_HELP = (
    "Exit with 0 if claims are supported, 10 if one is open, 11 if refuted. A claim is refuted if it is"
    " contradicted or smaller than claimed."
)
VerdictFlag = Annotated[bool, arg(help=VERDICT_HELP)]
Settings = Annotated[tuple[tuple[str, ...], ...], UseAppendAction, arg(metavar="FIELD=VALUE")]


@dataclass(frozen=True)
class ForPaper:
    """Export of tables and figures for a paper."""

    export: Annotated[tuple[Format, ...], arg(metavar="pdf|svg|png|md")] = ()
    """Also write figures in these formats; md shows them in report.md. Several formats may be given. This
    needs Chrome or Chromium. GitHub and Hugging Face show report.md with its folder figures/."""
    venue: Name = ""
    """Fit LaTeX and figures to article, neurips, icml, cvpr, acl or ieee. Figures are then also written as
    pdf. Default: article."""
    width: Annotated[str, arg(metavar="LENGTH")] = ""
    """The column width, such as 3.25in or 8.5cm, in place of a venue."""
    without: Annotated[Several, arg(metavar="COLUMN")] = ()
    """Leave out a column of LaTeX tables, by its head or a glob. The option may be repeated."""
    font: Literal["sans", "serif"] = "sans"
    """The font of exported figures, sans or serif."""

    def __post_init__(self) -> None:
        assert self.paper  # a bad venue or width is refused before any run

    @property
    def paper(self) -> Paper:
        return paper_of(self.venue, self.width, self.without, self.font)

    @property
    def formats(self) -> list[str]:
        """The formats of the figures: a venue or a width needs `pdf`, and `md` needs pictures."""
        formats: list[str] = [kind for kind in self.export if kind != "md"]
        if (self.venue or self.width) and "pdf" not in formats:
            formats.insert(0, "pdf")
        if "md" in self.export and not {"svg", "png"} & {*formats}:
            formats.append("png")
        return formats


@dataclass(frozen=True)
class CommonOptions:
    """Options of studies and searches. Settings that decide numbers are fields: see --set."""

    groups: ClassVar = {  # of --help; the others are in --help-all only
        "What to run": "fields preset config vary only family sampler stopping smoke init_from",
        "How many runs": "seeds max_seeds until budget rerun keep",
        "Where": "address no_ray cpus gpus workers data download results",
        "Report": "export venue log json exit_by_verdict",
        "Look before anything runs": "dry_run verbose check_setup write_config",
    }
    preset: Name = ""
    """The scale of the study. Default: the first preset, or `standard` on a cluster (--address) with GPUs."""
    fields: Positional[Annotated[tuple[str, ...], arg(metavar="FIELD=VALUE ...")]] = ()
    """Change settings of every variant. `recstudy fields` lists those of the recursive models."""
    set: Settings = ()
    """The same as FIELD=VALUE without --set. The option may be repeated."""
    config: File = None
    """Read settings from a YAML file, which the command line overrides. Fields are nested or have dotted
    names."""
    write_config: File = None
    """Write the settings as a file for --config, and exit."""
    smoke: bool = False
    """Test the whole path in seconds; the numbers mean nothing. Runs have two epochs or steps, on 32 images
    if they are of the recursive models."""
    dry_run: bool = False
    """List variants, seeds, finished runs and the price."""
    verbose: bool = False
    """With --dry-run: list every run with its cost and state."""
    check_setup: bool = False
    """List the data sets, weights and tools that the runs need. The exit code is 2 if one is missing."""
    json: JsonFlag = False
    exit_by_verdict: VerdictFlag = False
    address: Address = None
    """Use a Ray cluster: auto or HOST:PORT. Default: start Ray on this machine."""
    no_ray: bool = False
    """Run in this process, one run after another, without Ray. Records, ids and checkpoints are the same. A
    run that hangs or runs out of memory ends the command."""
    data: Folder = None
    """The folder with the data sets (default: RECSTUDY_DATA, else ./data)."""
    download: bool = False
    """Download missing data sets with torchvision."""
    allow_missing: bool = False
    """Skip images that the folder lacks. This is a field of chest X-ray data: data.allow_missing."""
    results: ResultsPlace = "results"
    """The results folder, or s3://bucket/folder (default: results). Its finished runs are not repeated."""
    report: OmitArgPrefixes[ForPaper] = field(default_factory=ForPaper)
    init_from: Annotated[str, arg(metavar="RUN|FILE|DIR")] = ""
    """Start from weights of a run, a safetensors file, or a folder with one. Their digest is part of the run
    id (train.init_from). With train.epochs=0 nothing is trained."""
    cpus: Count = None
    """CPU cores per worker."""
    gpus: Annotated[float | None, arg(metavar="N")] = None
    """GPUs per worker; a fraction shares a GPU."""
    workers: Annotated[str | None, arg(metavar="N")] = None
    """Workers per run; they share each batch."""
    rerun: Annotated[str, arg(metavar="changed|all|GLOB")] = ""
    """Repeat finished runs: of changed code or data, all, or by label. Earlier records are kept."""
    keep: bool = False
    """Use finished runs although the code of your files has changed. The page says so."""
    trainer: Annotated[str | None, arg(metavar="auto|inline|train")] = None
    """Train in the Tune process (inline) or on Ray Train workers (train). These take 4 to 14 s to start."""
    log: Annotated[tuple[Logger, ...], arg(metavar="NAME ...")] = ()
    """Also log to tensorboard, wandb, mlflow or trackio. Each needs its package (docs/how-to/trackers.md)."""
    log_losses: bool = False
    """With --log: also log the losses of updates, at most 200 per epoch, after each run."""

    def __post_init__(self) -> None:
        if self.keep and self.rerun:
            raise ConfigError("--keep uses finished runs, and --rerun repeats them. Give one of them")
        for flag, value in {
            "--address": self.address,
            "--log": self.log,
            "--trainer": self.trainer == "train",
        }.items():
            if self.no_ray and value:
                raise ConfigError(f"{flag} needs Ray. Remove {flag} or --no-ray.")
        if self.json and (self.check_setup or self.write_config):
            raise ConfigError("--check-setup and --write-config print no JSON document. Remove --json")


@dataclass(frozen=True)
class StudyOptions(CommonOptions):
    """Options of a study."""

    of_plan: ClassVar = ("max_seeds",)
    seeds: Count = None
    """Seeds of every variant; a larger number later adds seeds."""
    max_seeds: Count = None
    """The number of seeds at which --until stops. Each look before it spends a part of the 5 %. Without a
    maximum, the first look has the whole 5 %. Default: the study's own."""
    until: Annotated[Literal["decided"] | None, arg(metavar="decided")] = None
    """Add seeds to the variants of open questions until each is decided. There is a look at 3, 5, 8, 12, ...
    seeds. A question that is out of reach at --max-seeds (four times the seeds) ends, too."""
    budget: Amount = ""
    """With --until: the limit of all runs: 24 runs, 90min, 2h or 40gpuh. A larger budget later continues the
    study."""
    only: Annotated[Several, arg(metavar="GLOB")] = ()
    """Run only variants whose label matches, such as 'depth=3*'. The option may be repeated."""
    vary: Annotated[Several, arg(metavar="FIELD=V1,V2,...")] = ()
    """Sweep a setting over these levels; claims are then not judged. The option may be repeated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_seeds == 0:
            raise ConfigError("--max-seeds must be at least 1. Leave it out for the maximum of the study")
        if self.budget and not self.until:
            raise ConfigError(
                "--budget needs --until decided. Without it a study runs everything that --dry-run lists."
            )
        if self.until and self.only:
            raise ConfigError("--until decided chooses the variants with open questions. Remove --only.")


@dataclass(frozen=True)
class SearchOptions(CommonOptions):
    """Options of a search."""

    of_plan: ClassVar = ("budget", "sampler", "stopping")
    family: Names = ()
    """The model family to search; may be repeated. Default: the preset's first."""
    budget: Amount = ""
    """The limit of all runs: 24 runs, 90min, 2h or 40gpuh. Up to half of it is reserved for --seeds. A larger
    budget later continues the search."""
    sampler: Name = ""
    """tpe, gp, cmaes, nsgaii, qmc, random, or one that the file registers."""
    stopping: Name = ""
    """The pruner of poor runs: none, asha, median, or one of the file."""
    seeds: Count = None
    """Fresh seeds for the best settings, within the budget; 0 for none."""
    optuna_storage: Annotated[str, arg(metavar="FILE|URL")] = ""
    """Write every trial to a journal file or a database URL, for optuna-dashboard."""
    vary: Annotated[Several, arg(metavar="FIELD=V1,V2,...")] = ()
    """Search a setting over these values instead of its range. The option may be repeated."""


# Options without effect on a program of the user's own.
MODEL_OPTIONS = ("data", "download", "allow_missing", "init_from", "workers", "trainer", "log_losses")


def move_fields_first(words: Sequence[str]) -> list[str]:
    """Return the words with each FIELD=VALUE at the front, unless it is the value of an option."""
    positions = range(len(words))
    is_other = [
        FIELD.match(words[index]) is None or (index > 0 and words[index - 1] in TAKING) for index in positions
    ]
    return [words[index] for index in sorted(positions, key=is_other.__getitem__)]  # which keeps their order


def changes_of(options: CommonOptions, base: RunSettings | None = None) -> dict[str, Any]:
    """Return the changed fields of --config, --set and the options of resources. `base` is the preset."""
    changes = read_config_file(options.config, base) if options.config and base else {}
    changes |= settings([*options.fields, *chain.from_iterable(options.set)], "train.epochs=5")
    flags = {f"resources.{flag}": getattr(options, flag) for flag in ("cpus", "gpus", "workers", "trainer")}
    flags["data.allow_missing"] = options.allow_missing or None
    return changes | {field: value for field, value in flags.items() if value is not None}


def read_config_file(file: Path, base: RunSettings) -> dict[str, Any]:
    """Return the fields of a --config file that differ from `base`, by their dotted names.

    Raises:
        ConfigError: The file is missing, is not YAML with fields, or has an unknown field or a bad value.
    """
    from recstudy.base.strict_yaml import read_yaml_file  # it loads PyYAML, without which --help is faster

    values = read_yaml_file("--config", file)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ConfigError(
            f"--config {file} must contain fields, such as train: {{epochs: 5}} or train.epochs: 5"
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


def write_fields(file: Path, config: RunSettings, about: str) -> str:
    """Write a config as a file for --config, and return a message.

    Raises:
        ConfigError: The file exists.
        StorageError: The file cannot be written.
    """
    from recstudy.base.strict_yaml import write_yaml

    refuse_existing(file)
    fields = config.model_dump(mode="json")
    del fields["seed"]
    write_whole(file, f"# {about}\n{write_yaml(fields)}")
    return f"{file}: {about}. Read it with --config {file}"


def settings(assignments: Iterable[str], example: str) -> dict[str, Any]:
    """Return a dictionary of FIELD=VALUE words."""
    changes: dict[str, Any] = {}
    for setting in assignments:
        field, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"a field is set by FIELD=VALUE, such as {example}, but got {setting!r}")
        field, text = field.strip(), value.strip()
        if field[:1] in ("+", "~"):
            assignment = f"{field.lstrip('+~')}={text}"
            raise ConfigError(
                f"{setting}: every field has a value already. Set it without a sign: {assignment}"
            )
        changes[field] = _typed(field, text)
        if field in PARTS and not isinstance(changes[field], dict):
            fix = {
                "data": f"data.name={text} chooses a data set, data.limit=300",
                "model": f"model.family={text} chooses a family, model.width=64",
                "train": "train.epochs=5",
                "resources": "resources.gpus=1",
            }[field]
            raise ConfigError(f"{field}={text}: {field} is a group of fields. Set one of them: {fix}")
    return changes


def axes(assignments: Iterable[str]) -> dict[str, list[Any]]:
    """Return a dictionary of the levels of FIELD=VALUE,VALUE words.

    Raises:
        ConfigError: A word has another form, or a field is given twice.
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
            raise ConfigError(
                f"--vary {field} is given twice. Give all its levels at once, such as {axis},..."
            )
        try:
            levels[field] = read_json(f"[{text}]", f"--vary {axis}")
        except json.JSONDecodeError:
            _typed(field, text)  # refused as a whole
            levels[field] = [_typed(field, word.strip()) for word in text.split(",")]
    return levels


def _typed(field: str, text: str) -> Any:
    """Return the value of a field on the command line: JSON if the text is JSON, else the text.

    Raises:
        ConfigError: The value is None, or a list of words without quotes.
    """
    try:
        return read_json(text, f"{field}={text}")
    except json.JSONDecodeError:
        if text == "None":
            raise ConfigError(f"{field}={text}: write values as JSON: {field}=null") from None
        if text[:1] + text[-1:] == "[]":
            quoted = WORD.sub(r'"\g<0>"', re.sub("[\"']", "", text))
            raise ConfigError(f"{field}={text}: write values as JSON: '{field}={quoted}'") from None
        return text


def data_folder(folder: Path | None) -> Path:
    return folder or Path(os.environ.get("RECSTUDY_DATA", "data"))
