"""Commands and options of earlier versions. The command line refuses each with one line that names its
replacement.
"""

from collections.abc import Sequence

from recstudy.errors import ConfigError

COMMANDS = {
    "contract": "It is `recstudy check` now.",
    "note": "Write notes in W&B or MLflow instead, which --log feeds.",
    "tag": "Set tags in W&B or MLflow instead, which --log feeds.",
    "completion": "Let tyro write it: recstudy --tyro-print-completion bash (zsh, tcsh)",
    "trust": "Add --trust to the command that reads the results: recstudy report RESULTS --trust",
    "checklist": (
        "Answer a checklist from the report page (report/report.html), which lists seeds, compute, data and"
        " machines."
    ),
    "register": "Commit the study file before its runs: each plan keeps the date of each statement.",
    "tokenizer": "A run trains the image tokenizer when it needs one.",
    "data": "A run draws its own puzzles: set data=Sudoku(...) or data=Maze(...).",
    "merge": (
        "Copy the runs instead: rsync -a --ignore-existing OTHER/runs/ RESULTS/runs/ (run ids are content"
        " digests)."
    ),
    "log": "Give --log to the study's command, which tells trackers while it runs; CSV tables have the rest.",
}
OPTIONS = {
    "--grouped": "Load the runs in Python and plot them: recstudy.load(FOLDER).runs is a pandas DataFrame.",
    "--site": "Publish each study instead: each bundle has its page (report/report.html).",
    "--records": "Compare the SHA-256 in the last line of `recstudy verify` with the paper's.",
    "--with-weights": (
        "Export the weights of a run instead: recstudy weights export RUN DIR --results RESULTS"
    ),
    "--control": "Press Ctrl-C to stop a study, and run the same command to resume it.",
    "--cpus-per-run": "It is --cpus now.",
    "--gpus-per-run": "It is --gpus now.",
    "--workers-per-run": "It is --workers now.",
    "--notify": "Run a command afterwards instead: python studies/NAME.py; curl -d finished URL",
}


def refuse_removed(words: Sequence[str]) -> None:
    """Refuse a command line that uses a removed command or option.

    Args:
        words: The words after the program's name.

    Raises:
        ConfigError: The first word is a removed command, or any word is a removed option.
    """
    if words and words[0] in COMMANDS:
        raise ConfigError(f"`recstudy {words[0]}` was removed. {COMMANDS[words[0]]}")
    for word in words:
        option = word.partition("=")[0]
        if option in OPTIONS:
            raise ConfigError(f"{option} was removed. {OPTIONS[option]}")
