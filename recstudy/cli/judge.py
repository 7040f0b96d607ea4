"""`recstudy judge runs.csv`: make a study with page, tables and verdicts from a table of finished runs."""

from dataclasses import dataclass, field, fields
from typing import Annotated, ClassVar

from tyro.conf import OmitArgPrefixes, arg

from recstudy.base.terminal import document_output, output, say
from recstudy.cli.execution import draw_report
from recstudy.cli.options import File, FileArgument, ForPaper, JsonFlag, Name, ResultsPlace, VerdictFlag
from recstudy.programs.columns import name_of
from recstudy.programs.table_files import read_table
from recstudy.programs.table_metrics import described_metrics
from recstudy.programs.table_options import TableOptions
from recstudy.records import Results
from recstudy.study.claims_file import ClaimsFile, read_claims
from recstudy.study.imported import PRESET
from recstudy.study.table_study import import_table

Listed = Annotated[str, arg(metavar="A,B")]


@dataclass(frozen=True)
class JudgeCommand:
    """Write the page, tables and verdicts of finished runs in a table.

    Exports of W&B, MLflow, Optuna, Ray and pandas are read unchanged. The first line of output says which
    columns are settings, seed and metrics. Unclear columns, cells and lines are refused.
    """

    groups: ClassVar = {
        "Columns": "file settings metrics seed items texts",
        "Comparisons": "claims published base blocks paired test_share",
        "Lines of a run": "last best lines_are_runs",
        "Results": "name results replace export venue json exit_by_verdict",
    }
    examples: ClassVar = {
        "recstudy judge runs.csv": "columns are detected",
        "recstudy judge runs.csv --metrics accuracy:%:10000,loss:lower": "units and test items",
        "recstudy judge runs.csv --claims claims.yaml --paired": "judge stated claims",
    }
    file: FileArgument
    """A CSV, .jsonl, .json (a list) or Parquet file with a row per run. It has columns for settings, seed and
    metrics."""
    claims: File = None
    """A YAML file with claims (the fields of recstudy.Claim). It is a list of them, or has claims, metrics,
    question, title and data."""
    published: File = None
    """A CSV file of published values to compare with."""
    settings: Listed = ""
    """The columns that are settings. Default: detected."""
    metrics: Annotated[str, arg(metavar="A[:WORD...],B")] = ""
    """The columns that are metrics, the most important first. After colons: higher or lower (which is
    better), the unit, the number of test items, or share (from 0 to 1), such as
    accuracy:%:10000,loss:lower. Default: detected."""
    seed: Name = ""
    """The column of the seed. Without one, runs with equal settings are numbered."""
    items: Name = ""
    """The column of the test item, if each line is one item's result. Results are then paired by item.
    Default: detected, such as item_id. none: no column."""
    blocks: Listed = ""
    """The settings within which variants are compared. Default: a varied data set, task, environment or fold.
    `none`: compare across them."""
    base: Annotated[str, arg(metavar="LEVEL|A=LEVEL")] = ""
    """The level with which the others are compared. Default: a level with a name such as baseline, else the
    best one."""
    texts: Listed = ""
    """Settings whose cells are texts, such as versions 1.1 and 1.10."""
    last: Name = ""
    """The column that counts a run's lines, such as epoch; the last counts."""
    best: Name = ""
    """The metric by which a run's best line counts, such as val_accuracy. State it also as the first of
    --metrics if lower and higher are unclear."""
    paired: bool = False
    """Take differences within a seed. State this if variants with the same seed share data order and
    initialization."""
    test_share: Annotated[float, arg(metavar="SHARE")] = 0.0
    """The share of the data that a seed or fold tests, such as 0.2. State it if their training data overlap.
    Differences are then taken within a seed, and their variance is corrected (Nadeau and Bengio)."""
    lines_are_runs: bool = False
    """Count each line as a run and number the runs. Ids and seeds are then left out."""
    name: Name = ""
    """The name of the study, part of its run ids. Default: the file name."""
    results: ResultsPlace = "results"
    """Where records and reports go (default: results). Runs that were imported before under this name stay,
    and are added to."""
    replace: bool = False
    """Replace what was imported before under this name. Values of this file are taken where they differ, and
    imported runs that it does not have are dropped."""
    report: OmitArgPrefixes[ForPaper] = field(default_factory=ForPaper)
    json: JsonFlag = False
    exit_by_verdict: VerdictFlag = False

    def run(self) -> int:
        from recstudy.cli.study_entries import conclude, require_claims, study_entry  # brings pandas

        name = self.name or self.file.stem
        values = {option.name: getattr(self, option.name) for option in fields(TableOptions)}
        options = TableOptions(**values | {"metrics": described_metrics(self.metrics)})
        claims = read_claims(self.claims, map(name_of, options.texts)) if self.claims else ClaimsFile()
        if self.exit_by_verdict:
            require_claims(bool(claims.claims))
        results = Results(self.results).pull()
        table = read_table(self.file)
        with document_output(self.json) as stdout, output():
            say(*import_table(table, name, results, options, claims, self.claims, self.published))
            draw_report(results, name, PRESET, self.report, self.json)
            if not (self.json or self.exit_by_verdict):
                return 0
            entries = [study_entry(results, name, PRESET)]
            return conclude("judge", entries, self.json, self.exit_by_verdict, stdout)
