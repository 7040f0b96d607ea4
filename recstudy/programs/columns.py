"""A column of a table of runs, and the names by which its role is recognized.

The patterns match the names of columns in lower case. They come from exports of W&B, MLflow, Optuna, Ray and
pandas.
"""

import re
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import timedelta, timezone
from functools import cache, cached_property
from math import isfinite, isnan
from typing import Any, Literal, NoReturn

from recstudy.base.errors import ALIASES
from recstudy.programs.numbers import plain_number, read_numbers
from recstudy.records.schema import MAX_INTEGER

# roles of columns
SETTING, METRIC, SEED, STATE, UNCLEAR, NEITHER = "setting", "metric", "seed", "state", "unclear", "neither"
ITEM, ERROR_OF = "item", "standard error"  # the test item of a line; the error of a metric over items
PREFIX = re.compile(r"^(?:(?P<setting>config|params|hparams|settings)|(?P<metric>summary|metrics))[./](?=.)")
# Columns that trackers add: recognized by the head, and by the name if the column has no tracker's prefix.
TRACKED = re.compile(r"_|unnamed:|tags\.|system[./]|gradients/|parameters/|user_attrs|system_attrs")
BOOKKEEPING = re.compile(
    """(run_|display_|experiment_|trial_)?name|experiment_(id|tag)|artifact_uri|lifecycle_stage|created(_at)?|updated(_at)?
    |(start|end)_time|datetime_(start|complete)|date|timestamp|heartbeat|runtime|duration|(host|node)_?(name|ip)?|pid
    |user(name)?|entity|project|job_type|sweep|tags|notes|description|commit|(gpu|cpu)_(type|count)|os|python_version
    |time_(total|this_iter|since_restore)(_s)?|(iterations|timesteps|episodes)_(total|this_iter|since_restore)
    |logdir|checkpoint_dir_name|should_checkpoint|best_(epoch|step|iteration)""",
    re.VERBOSE,
)
SPREAD = re.compile("(?:(.*)_)?(?:std|stdev|stddev|stderr|sem|se)", re.IGNORECASE)  # of a metric over seeds
TIMES = re.compile(".*(date|time|created|duration).*")
COMMITS = re.compile("(git_)?(commit|revision|sha)(_hash)?")  # the variants of a table without settings
ITEMS = re.compile("item|example|question|sample|instance|doc|document|image|problem|prompt")
ITEM_IDS = re.compile(rf"({ITEMS.pattern})_?(id|idx|index)|item|example|idx")
MANY_ITEMS = 30
ERRORS = re.compile(r"_(stderr|se)(?=_|$)")  # in the name of a metric's standard error over items
START = re.compile("created(_at)?|start(ed)?(_at)?|start_time|datetime_start")
FIRST_ZONE = timezone(timedelta(hours=14))
FURTHER_SEEDS = re.compile(
    "_.*|.*seed|random_state|rep(eat|etition|licate)?"
)  # a further seed would make each run a variant
RUN_IDS = re.compile("((run|trial)_)?(id|uuid|number)|run|_?wandb_id")
RUN_NAMES = re.compile("(run_|display_|trial_)?name")
# counters of a run's lines, if it has several
COUNTERS = re.compile(
    "((current|train|training|trainer|global|trainer_global)_|_)?(epoch|step|iter|iteration|timestep)|env_steps?"
    "|timesteps_total"
)
STEPS = re.compile(f"{COUNTERS.pattern}|_?(runtime|timestamp)|time_total_s")
FILES = re.compile("(.*_)?(path|dir|folder|file|url|hash|out|output|checkpoint|ckpt|command)")
STATE_NAMES = re.compile("((run|trial|job)_)?(state|status)|done|finished|completed")
OUTCOMES = re.compile(
    "(has_|is_|did_)?(failed|crashed|diverged|converged|success(ful)?|outcome|oom|timed_out)"
    "|(error|exception|failure)(_(message|msg|type|class|reason))?"
)
STATES = {  # words of W&B, MLflow, Optuna, Ray, Ax, ClearML, Slurm and agents
    "done": "finished complete completed done success succeeded terminated closed published ok keep"
    " discard true",
    "failed": "crashed crash failed fail failure error killed canceled cancelled preempted aborted"
    " abandoned timeout outofmemory nodefail",
    "unfinished": "running pending queued scheduled waiting paused pruned preempting stopped stopping"
    " earlystopped inprogress created starting idle suspended false",
}
STATUS = {state: status for status, states in STATES.items() for state in states.split()}
SEEDS = re.compile("(random_|rng_)?seed|random_state|rep(eat|etition|licate)?")
OTHER_SEEDS = re.compile(".*_seed|seed_.*")  # a column such as `data_seed`
MEASURES = re.compile(
    "(metric|measure(ment)?|criterion|variable|score|statistic|tag|key)s?(_?(name|type|key|id))?"
)
VALUES = re.compile("(metric_|measured_|mean_)?(value|score|result|measurement|mean)")
ERROR = (
    "[a-z]*loss|error|err|perplexity|ppl|mae|mse|rmse|rmsle|mape|smape|fid|lpips|wer|cer|eer|nll|bpc|bpb|ece|brier|regret"
    "|latency|cross_?entropy|xent|hd95|crps|deviance"
)
COST = "time|seconds|memory|mem|ram|vram|energy"  # a metric by its name, of which less is better
SIZE = (
    "params|parameters|flops|gflops|tflops|macs"  # a setting by its name, of which less is better as a metric
)
UNITS = "ms|us|s|sec|seconds|min|minutes|h|hours|kb|mb|gb|mib|gib|m|b|j|kwh|total"
UNSURE = "objective|value|score|hits?"  # scores by their names, of which a smaller value may be better
SURE = (
    "accuracy|acc|precision|recall|sensitivity|specificity|f1|f_1|auc|auroc|auprc|ap|map|kappa|qwk|mcc|em|exact_match"
    "|jaccard|iou|miou|dice|bleu|rouge_?l?|meteor|cider|spice|chrf|bertscore|ndcg|mrr|spearmanr?|pearsonr?"
    "|kendall|corr|correlation|psnr|ssim|reward|return|success_rate|win_rate|pass|top_?[15]|r2|throughput|fps"
    "|correct|is_correct|passed|solved"
)
SCORE = f"{SURE}|{UNSURE}"
SHARES = re.compile(
    "(.*_)?(accuracy|acc|precision|recall|sensitivity|specificity|f1|auc|auroc|auprc|dice|iou|miou|em|exact_match|top_?[15]"
    "|ap|map[0-9]*|bleu[0-9]*|rouge_?[12l]?|meteor|ndcg|mrr|jaccard|success_rate|win_rate)(_.*)?"
)  # scores between 0 and 1
AROUND = (
    "val|valid|validation|test|eval|evaluation|train|training|dev|mean|avg|average|median|best|final|last|overall|max|min"
    "|none|strict_match|flexible_extract"  # filters of lm-evaluation-harness
    "|macro|micro|weighted|balanced|cohen|total|episode|episodic|norm|normalized|rate|at|k|[0-9]+"
)
ERROR_RATES = re.compile(rf"(({AROUND})_)*(error|err|wer|cer|eer)(_({AROUND}))*")
LOSSES = re.compile(".*loss.*|(.*_)?(nll|perplexity|ppl|bpc|bpb|r?mse|mae)(_.*)?")  # nan if a run diverges
LOWER = re.compile(rf"(.*_)?(({ERROR})(_.*)?|({COST}|{SIZE})(_({UNITS}|{AROUND}))*)")  # is better
HIGHER = re.compile(rf"(.*_)?({SURE})s?[0-9]*(_.*)?")  # is better
NO_SCORE = re.compile(  # changes and spreads of a score, and times of which more is better
    "(.*_)?(drop|gap|diff(erence)?|degradation|reduction|improvement|gain|(de|in)crease|delta|change|distance|var(iance)?"
    f"|ci[0-9]*)(_({UNITS}|{AROUND}|percent|low(er)?|high|upper))*|.*(time|steps|epochs)_to_.*"
    "|(.*_)?(survival|up)_?time(_.*)?|(.*_)?(minus|negative)_.*"
)
TRAINING = re.compile("(.*_)?train(ing)?(_.*)?")  # metrics that are no score
USUAL_COST = re.compile(rf"(.*_)?({COST}|latency)(_({UNITS}|{AROUND}))*")
USUAL_METRIC = re.compile(rf"(({AROUND})_)*(({ERROR})|({SCORE})s?[0-9]*)(_({AROUND}|{ERROR}|{SCORE}))*")
BLOCKS = re.compile(
    "(dataset|data|data_set|task|benchmark|env|environment|game|subject|fold|split)(_?(name|id))?"
)
GROUPS = re.compile("(class|category|language|lang|corpus|domain|site)(_?(name|id))?")
AVERAGES = re.compile("((macro|micro|weighted)[ _-])?(average|avg[.]?|mean)|overall|total|all", re.IGNORECASE)
SIZES = re.compile(rf"(.*_)?({SIZE})(_.*)?", re.IGNORECASE)
TOTALS = re.compile("overall|total", re.IGNORECASE)
# stems of metrics at several numbers, such as top-k
AT_NUMBERS = re.compile("(.*_)?(top|bleu|rouge|hits?|pass|recall|precision|ndcg|distinct|[a-z])")
FOLDS = re.compile("(cv_?)?(fold|split)(_?(name|id))?")
# Levels of a column with results of training and of a test.
SPLITS = re.compile("train(ing)?"), re.compile("val(id(ation)?)?|dev|test|eval(uation)?")
VERSIONS = re.compile("(.*_)?version")
USUAL_SETTINGS = re.compile(
    """(.*_)?(lr|learning_rate|size|dims?|dimension|width|depth|layers?|heads?|units|channels|filters|experts|epochs|dropout
    |momentum|weight_decay|decay|smoothing|blocks|classes)|.*_steps
    |((n|num|max|min)_)?(hidden|neurons|rank|kernel|stride|patch(es)?|cycles|beams?|shots?|iter(ations)?|estimators|trees|leaves
    |leaf_nodes|features|neighbors|components|clusters|samples_(leaf|split)|bins|parameters|params|gpus|workers|envs|len|length
    |(seq|sequence|context|prompt|rollout)_len(gth)?)
    |(use|with|no|enable)_.*|bs|seq_len|wd|l[12](_.*)?|beta_?[12]|eps(ilon)?|clip.*|lora_.*|temperature|temp|top_[kp]|horizon|window
    |mlp_ratio|subsample|colsample_.*|reg_(alpha|lambda)|degree|version|flops|gflops|macs|year|"""
    + "|".join(f"{path.partition('.')[2]}|{'|'.join(names.split())}" for path, names in ALIASES.items()),
    re.VERBOSE | re.IGNORECASE,
)
EMPTY = ("", "nan", "none", "null", "na", "n/a", "<na>")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")  # 1.234 is 1234 in Germany
BOOLEANS = {"true": 1.0, "false": 0.0}


class Column:
    """A column of a table.

    Attributes:
        head: The head in the file.
        name: The name without a tracker's prefix.
        kind: The role given by a tracker's prefix; empty without one.
        role: The assigned role.
        is_text: Whether its levels are texts, also if they are written as numbers.
        cells: All cells.
        texts: The cells that are not empty.
        notation: The numbers among the cells, and their notation.
        is_boolean: Whether all cells are true or false.
    """

    def __init__(self, head: str, cells: Sequence[str]) -> None:
        prefix = PREFIX.match(head)
        self.head, self.name, self.cells = head, name_of(head), cells
        self.role, self.is_text = "", False
        self.kind = str(prefix.lastgroup) if prefix else ""
        self.texts = [cell for cell in cells if cell.lower() not in EMPTY]
        self.notation = read_numbers(self.texts)
        self.is_boolean = bool(self.texts) and all(cell.lower() in BOOLEANS for cell in set(self.texts))

    @cached_property
    def numbers(self) -> list[float]:
        """The numbers of all cells that are numbers."""
        readings = self.notation.readings
        return [readings[cell] for cell in self.texts if cell in readings]

    @property
    def is_integral(self) -> bool:
        """Whether all of its numbers are integers. A column of texts has no numbers."""
        return all(number.is_integer() for number in self.numbers)

    @property
    def is_varied(self) -> bool:
        return len({*self.cells}) > 1

    @property
    def has_two_readings(self) -> bool:
        """Whether the decimal mark of other columns may decide how the cells are read."""
        pointed = [cell for cell in self.texts if "." in cell]
        is_grouped = bool(pointed) and all(map(THOUSANDS.fullmatch, pointed))
        return bool(self.notation.problem) or (is_grouped and self.notation.decimal == ".")

    @property
    def has_items(self) -> bool:
        """Whether the cells name test items. A plain name, such as `question`, needs many different cells."""
        return self.matches(ITEM_IDS) or (self.matches(ITEMS) and len(set(self.texts)) > MANY_ITEMS)

    def is_spread(self, names: Container[str]) -> bool:
        """Return whether it has the spread over seeds of a usual metric, or of one of these names."""
        spread = SPREAD.fullmatch(self.name)
        if not spread or self.is_boolean:
            return False
        stem = spread[1] or "score"  # a plain `std` is the spread of the score
        return is_usual_metric(stem) or stem in names or f"{stem}_mean" in names

    @property
    def error_of(self) -> str:
        """The name of the metric of which the column would be the standard error over test items."""
        return ERRORS.sub("", self.name, count=1) if ERRORS.search(self.name) else ""

    @cached_property
    def values(self) -> list[Any]:
        """The value of the setting in each row; None where it is not set."""
        # a log of 160,000 lines has few different cells
        values: dict[str, Any] = {}
        for cell in {*self.cells}:
            text = cell if self.is_plain(cell) else f"{self.notation.readings[cell]!r}"
            values[cell] = (cell or "(empty)") if self.is_text else value_of(text)
        return [values[cell] for cell in self.cells]

    @property
    def keys(self) -> Sequence[Any]:
        """The entries by which rows are equal: the values of settings and the seed, the texts of others."""
        return self.values if self.role in (SETTING, SEED) else self.cells

    def is_plain(self, cell: str) -> bool:
        """Return whether a cell is a text, or a number as Python writes it."""
        number = self.notation.readings.get(cell)
        return number is None or isnan(number) or plain_number(cell) == number

    def number(self, row: int) -> float | None:
        """Return the number of a metric in a row, which may be infinite; None for other texts."""
        cell = self.cells[row]
        if self.is_boolean:
            return BOOLEANS.get(cell.lower())
        readings = self.notation.readings
        return readings[cell] if cell in readings else plain_number(cell)  # nan counts as an empty cell

    def matches(self, *patterns: re.Pattern[str]) -> bool:
        """Return whether any of the patterns matches the name in lower case."""
        return any(pattern.fullmatch(self.name.lower()) for pattern in patterns)

    def usual_role(self, refuse_number: Callable[["Column", str], NoReturn]) -> str:
        """Return the role by the name. Texts are settings, and so are numbers that do not vary.

        Args:
            refuse_number: Raises the error about a cell that should be a number.
        """
        is_tracked = not self.kind and TRACKED.match(self.head.lower())
        patterns = [FURTHER_SEEDS] if self.kind == SETTING else [FURTHER_SEEDS, BOOKKEEPING, RUN_IDS, STEPS]
        if is_tracked or not any(self.cells) or self.matches(*patterns):
            return NEITHER
        is_metric = is_usual_metric(self.name)
        is_usual = self.matches(USUAL_SETTINGS, BLOCKS)
        wrong = [text for text in self.texts if text not in self.notation.readings]
        is_score = is_metric and not is_usual
        if self.is_boolean and is_score:
            return METRIC
        # a level may be a list of numbers, but not `12ms`, `<0.1` or `**92**`
        if wrong and is_score and any(re.match(r"[^\w\[({]*\d", text) for text in self.texts):
            refuse_number(self, wrong[0])
        if self.kind == METRIC:
            return METRIC if any(map(isfinite, self.numbers)) else NEITHER
        # `params_` is Optuna's prefix
        if self.kind or self.is_text or not self.numbers or wrong or self.name.lower().startswith("params_"):
            return SETTING
        if is_metric != is_usual:
            return METRIC if is_metric else SETTING
        if is_metric:  # `precision` is a share or a number of bits
            return UNCLEAR if self.is_integral else METRIC
        return UNCLEAR if self.is_varied else SETTING


def is_usual_metric(name: str) -> bool:
    """Return whether a name is one of a metric or a cost."""
    return any(pattern.fullmatch(name.lower()) for pattern in (USUAL_METRIC, USUAL_COST))


def name_of(head: str) -> str:
    """Return a column's name as an identifier without a tracker's prefix.

    >>> name_of("metrics.val/acc@1")
    'val_acc_1'
    """
    return re.sub(r"\W+", "_", PREFIX.sub("", head, count=1)).rstrip("_")


def direction_of(head: str) -> Literal["higher", "lower"] | None:
    """Return which values of a metric are better by its name or its arrow; None if the name does not say.

    >>> direction_of("valLoss"), direction_of("HD95 \N{DOWNWARDS ARROW}"), direction_of("mae_top1_acc")
    ('lower', 'lower', None)
    >>> direction_of("test_neg_mean_squared_error"), direction_of("accuracy_drop")
    ('higher', None)
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name_of(head)).lower()
    if negative := re.fullmatch("(.*_)?neg_(.+)", words):  # scikit-learn negates losses
        opposite = direction_of(negative[2])
        return opposite and ("lower" if opposite == "higher" else "higher")
    if NO_SCORE.fullmatch(words):
        return None
    is_lower = "\N{DOWNWARDS ARROW}" in head or bool(LOWER.fullmatch(words))
    is_higher = "\N{UPWARDS ARROW}" in head or bool(HIGHER.fullmatch(words))
    if is_lower == is_higher:
        return "higher" if not is_lower and re.fullmatch("(.*_)?scores?", words) else None
    return "lower" if is_lower else "higher"


def settle(columns: Iterable[Column]) -> None:
    """Read columns that have two readings, such as 1,234, by the decimal mark of the other columns."""
    unclear_columns = [column for column in columns if column.has_two_readings]
    marks = {column.notation.decimal for column in columns if column not in unclear_columns} - {""}
    if len(marks) == 1:
        mark = marks.pop()
        for column in unclear_columns:
            column.notation = read_numbers(column.texts, mark)


@cache
def value_of(cell: str) -> Any:
    """Return the value of a setting: None, a bool, a number or a text.

    64.0 becomes 64, because pandas writes integers as floats if a cell of the column is empty. Integers are
    exact as far as records allow.
    """
    if cell.lower() in EMPTY:
        return None
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    number = plain_number(cell)
    if number is None or not isfinite(number):
        return cell
    if re.fullmatch(r"[+-]?\d+", cell) and abs(number) <= MAX_INTEGER:
        return int(cell)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
