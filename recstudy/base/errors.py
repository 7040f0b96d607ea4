"""Errors in the input of a user. They are shown as one clear line, with exit code 2.

A message names the object, the place, the allowed values and the fix. Any other exception is a bug in
recstudy and keeps its traceback.
"""

import sysconfig
import traceback
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from types import TracebackType

# Why a run has no numbers: the classes of failure, as a table that counts them lists them. Their order
# decides EXIT_CODES.
FAILURES = {
    "diverged": "the loss or the answers are no longer finite; a result, which is not tried again",
    "out of memory": "the device or the node has too little memory for it",
    "hung": "it showed no sign of life for resources.hang_timeout_minutes and was stopped",
    "data": "a data set is missing or damaged",
    "storage": "the results folder is full, read-only or gone",
    "code": "any other error; the traceback names the line",
    "lost node": "its process or node ended and did not come back, after all restarts",
}


# What a study exits with whose runs have no numbers for this one reason: 3 to 9. Scripts rely on them: add
# new ones at the end.
EXIT_CODES = {reason: code for code, reason in enumerate(FAILURES, 3)}


CALLS = 3  # lines of the user's files that are shown of an error in them


class RecstudyError(Exception):
    """Base class of errors that are shown as one line, without a traceback."""

    exit_code = 2


class ConfigError(RecstudyError):
    """A study, preset, field, value or variant is unknown or out of range."""

    is_combination = False  # whether each setting is allowed, but not all of them together


class NotYetError(ConfigError):
    """A part of a report has no data yet, because no run has finished."""


class PartError(RecstudyError):
    """A part of a report raised an error. The rest of the report was written."""

    exit_code = EXIT_CODES["code"]


class DataError(RecstudyError):
    """A data set is missing or damaged."""


class StorageError(RecstudyError):
    """A results folder cannot be written, is locked, or belongs to another program."""


class NewerFormatError(StorageError):
    """A record was written by a newer version, which this one must not replace."""


class RunError(RecstudyError):
    """A run failed.

    Args:
        message: The reason in one line.
        failure_class: One of `FAILURES`.
        output: The last lines of its output.
    """

    def __init__(self, message: str, failure_class: str = "code", output: str = "") -> None:
        super().__init__(message)
        self.failure_class, self.output = failure_class, output


class ClusterError(RecstudyError):
    """A Ray cluster does not answer, or lacks the resources of a run."""


# Modules and packages of the extra `train`. A base install has none of them.
TRAIN = {
    "torch", "torchvision", "timm", "sklearn", "scikit-learn", "safetensors", "tokenizers",
    "pycocoevalcap", "optuna", "cmaes", "ray", "pyarrow",
}  # fmt: skip


def missing_package(error: BaseException | None) -> str:
    """Return how to install a missing package of the extra `train`; empty for any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name not in TRAIN:
        return ""
    without_ray = ". Without Ray: --no-ray (in Python: ray=False)" * (error.name == "ray")
    return f'{error.name} is not installed. In the clone of recstudy: pip install ".[train]"{without_ray}'


# Words, with spaces between, by which other libraries and papers call a field. A hint names it without its
# part where a part's fields are known, with it where the parts are.
ALIASES = {
    "train.learning_rate": "lr base_lr max_lr eta",
    "train.final_learning_rate": "min_lr lr_min eta_min",
    "train.backbone_learning_rate": "lr_backbone backbone_lr",
    "train.batch_size": "bs batch batchsize global_batch_size",
    "train.weight_decay": "wd l2",
    "train.epochs": "n_epochs num_epochs max_epochs epoch",
    "train.warmup": "warmup_epochs warmup_steps warmup_ratio",
    "train.schedule": "scheduler lr_scheduler lr_schedule",
    "train.optimizer": "opt optim optimiser",
    "train.gradient_clip": "clip grad_clip clip_grad max_grad_norm gradient_clip_val",
    "train.ema_decay": "ema",
    "train.precision": "amp dtype bf16",
    "train.patience": "early_stopping",
    "train.supervision_steps": "n_sup N_sup halt_max_steps segments",
    "model.width": "dim d_model hidden hidden_size hidden_dim embed_dim",
    "model.layers": "depth n_layers num_layers L_layers",
    "model.heads": "n_heads num_heads nhead",
    "model.dropout": "drop p_drop drop_rate",
    "model.patch": "patch_size",
    "model.latent_steps": "L_cycles n",
    "model.cycles": "H_cycles T",
}


def nearest(word: str, known_words: Iterable[str]) -> str:
    """Return the hint `` Did you mean 'x'?`` for an unknown word; empty if no known word is similar."""
    words = list(known_words)
    usual = (field.partition(".") for field, aliases in ALIASES.items() if word in aliases.split())
    match = [
        name if name in words else f"{part}.{name}" for part, _, name in usual if {part, name} & {*words}
    ]
    match = match or get_close_matches(word, words, n=1, cutoff=0.6)
    return f" Did you mean {match[0]!r}?" if match else ""


def nearest_first(word: str, known_words: Iterable[str]) -> str:
    """Return at most eight known words in one line, the most similar first.

    Of a dotted path, only the last part is compared.
    """
    words, name = list(known_words), word.rpartition(".")[2]
    hint = nearest(word, words)

    def distance(path: str) -> tuple[bool, float]:
        return repr(path) not in hint, -SequenceMatcher(None, name, path.rpartition(".")[2]).ratio()

    return choices(sorted(words, key=distance), limit=8)


def choices(known_words: Iterable[str], limit: int = 30) -> str:
    """Return the known words in one line, at most `limit` of them."""
    words = list(known_words)
    return ", ".join(words[:limit]) + (f", ... ({len(words)} in all)" if len(words) > limit else "")


def raised_at(error: BaseException) -> str:
    """Return the last line of the user's code that raised an error, with the error, in one line."""
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '').name}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    return f"{user_line(error.__traceback__)}{type(error).__name__}: {' '.join(str(error).split())}"


def user_line(trace: TracebackType | None) -> str:
    """Return `FILE, line N: ` of the last line of the user's files in a traceback; empty if there is none."""
    frames = _user_frames(trace)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""


def user_calls(error: BaseException | None) -> tuple[str, ...]:
    """Return the last `CALLS` lines of the user's files in a traceback, the innermost last.

    An error that was raised from another error has the lines of that error.
    """
    if error is None:
        return ()
    frames = _user_frames(error.__traceback__)[-CALLS:]
    lines = (
        f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}: {frame.line}" for frame in frames
    )
    return user_calls(error.__cause__) or tuple(lines)


def _user_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    """Return the frames in files that belong neither to recstudy, Python, nor an installed package."""
    # <frozen>, <string> of a dataclass
    hidden_prefixes = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "<")
    frames = [frame for frame in traceback.extract_tb(trace) if "-packages" not in frame.filename]
    return [frame for frame in frames if not frame.filename.startswith(hidden_prefixes)]
