"""Run a command on several commits of its repository, each in a git worktree of its own (`Commits`).

The setting `commit` of a run is `tree HASH:FOLDER`: the tree of the commit, and the command's folder in it.
So a branch that moves gets new runs, and commits with the same files share theirs. A worktree is made once
per tree in the cache folder, `worktrees/HASH`, and leaves the user's checkout alone. `recstudy clean`
removes worktrees that no run uses.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.files import cache_folder
from recstudy.base.git import git
from recstudy.programs.attempt import Trial
from recstudy.programs.base import RunSettings
from recstudy.programs.command import Command, CommandProgram
from recstudy.programs.command_line import script_of
from recstudy.programs.function import RunContext
from recstudy.programs.metric import Metric
from recstudy.records.locks import locked

COMMIT = "commit"  # the setting of a run
TREE = "tree "  # prefix of its value
LISTED = 3  # changed files that are named


class CommitName(str):
    """A commit as the user names it: a branch, a tag or a hash."""


class CommitsProgram(CommandProgram):
    """A command that runs in the worktree of its run's commit, which is the setting `commit`.

    Args:
        command: The command, whose folder is in a git repository.
        settings: The settings without `commit`.
        metrics: Description of each metric by name.
        hashes: Tree -> a commit with it. Filled when a plan is made.
    """

    unfilled = (COMMIT,)

    def __init__(
        self,
        command: Any,
        settings: Any,
        metrics: Mapping[str, Metric],
        hashes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        if not isinstance(command, Command) or not isinstance(settings, Mapping):
            raise ConfigError(
                "Commits need a Command as the program of the study, with a dictionary of settings, but got"
                f" {command!r} and {settings!r}"
            )
        self.commits: dict[str, str] = {}  # name -> value of the setting, until the next plan is made
        self.hashes = dict(hashes)
        super().__init__(command, {**settings, COMMIT: ""}, metrics)

    def __reduce__(self) -> tuple[Any, ...]:
        return CommitsProgram, (self.command, self.settings_spec, self.metrics, self.hashes)

    @property
    def repository(self) -> Path:
        """The top folder of the checkout in which the command's folder is."""
        folder = Path(self.command.folder)
        if not (top := git(folder, "rev-parse", "--show-toplevel")):
            raise ConfigError(
                f"Commits needs a git repository, but {folder} is in none, does not exist, or git is not"
                " installed. Give the repository as folder of the Command"
            )
        return Path(top)

    def activate(self) -> None:
        super().activate()
        self.commits.clear()

    def complete(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        values = super().complete(settings)
        name = values[COMMIT]
        if name and not name.startswith(TREE):
            if name not in self.commits:
                self.commits[name] = self._tree(name)
            values[COMMIT] = self.commits[name]
        return values

    def _tree(self, name: str) -> str:
        """Return the value of the setting for a commit's name."""
        top = self.repository
        commit = git(top, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        if not commit:
            refs = (git(top, "for-each-ref", "--format=%(refname:short)") or "").split()
            near = nearest(name, refs) or f" Its branches and tags: {', '.join(refs[:6]) or 'none'}"
            raise ConfigError(f"Unknown commit {name!r} in {top}.{near}")
        tree = git(top, "rev-parse", f"{commit}^{{tree}}") or ""
        self.hashes[tree] = commit
        inner = git(Path(self.command.folder), "rev-parse", "--show-prefix")
        return f"{TREE}{tree}:{inner}"

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        top = self.repository
        hashes = [f"{name} {self.hashes[tree_of(value)[0]][:10]}" for name, value in self.commits.items()]
        lines = [f"Commits: {', '.join(hashes)}."]
        if changes := git(top, "diff", "--name-only", "HEAD"):
            names = changes.split("\n")
            words = ", ".join(names[:LISTED]) + ", ..." * (len(names) > LISTED)
            lines.append(f"{top} has uncommitted changes, which no run uses: {words}.")
        return [*lines, *super().hints(settings)]

    def _inputs(self) -> dict[str, str]:
        """Return the digests of inputs outside of the repository, whose tree is part of the run id."""
        folder = Path(self.command.folder)
        top = self.repository
        digests = super()._inputs()
        paths = {name: Path(os.path.normpath(folder / name)) for name in digests}
        return {
            name: digest
            for name, digest in digests.items()
            if not (paths[name].is_file() and paths[name].is_relative_to(top))
        }

    def check(self, settings: Iterable[RunSettings], *data_options: Any) -> None:
        for word in self.words:
            if Path(word).is_absolute() and git(self.repository, "ls-files", "--", word):
                raise ConfigError(
                    f"{word} is a file of the checkout, which all commits would run. Write it relative to"
                    f" {self.command.folder}"
                )
        for commit in sorted({run.values["settings"][COMMIT] for run in settings}):
            with self.worktree(commit) as program:
                folder = Path(program.command.folder)
                script = script_of(self.words)
                # an earlier script may have changed files
                git(folder, "checkout", "--force", "--", ":/")
                if script.endswith((".py", ".sh")) and not (folder / script).is_file():
                    names = [name for name, value in self.commits.items() if value == commit]
                    raise ConfigError(
                        f"{script} is not in {choices(names)} of {self.repository}: a worktree has the files"
                        " of its commit only. Commit the script"
                    )
                program.check([])

    def execute(self, context: RunContext, trial: Trial) -> Any:
        values = dict(trial.settings.settings)
        with self.worktree(values.pop(COMMIT)) as program:
            settings = trial.settings.model_copy(update={"settings": values})
            return program.execute(context, replace(trial, settings=settings))

    @contextmanager
    def worktree(self, commit: str) -> Iterator[CommandProgram]:
        """Yield the command in the worktree of a commit, which stays as long as the block runs.

        Args:
            commit: The value of the setting `commit`.
        """
        if not commit:
            raise ConfigError(f"Every variant of {self.title} needs a commit, as another one has one")
        tree, inner = tree_of(commit)
        with _worktree(Path(self.command.folder), tree, self.hashes.get(tree, "")) as top:
            # modules of the checkout that are installed in place must come from the worktree
            paths = f"{top}", f"{top}/src", os.environ.get("PYTHONPATH", "")
            environment = {"PYTHONPATH": os.pathsep.join(paths), **self.command.environment}
            command = replace(self.command, folder=top / inner, environment=environment)
            settings = {name: value for name, value in self.defaults.items() if name != COMMIT}
            yield CommandProgram(command, settings, self.metrics)


def tree_of(commit: str) -> list[str]:
    """Return the hash of the tree and the folder in the value of a setting `commit`."""
    return commit.removeprefix(TREE).split(":", 1)


@contextmanager
def _worktree(folder: Path, tree: str, commit: str) -> Iterator[Path]:
    """Yield the worktree of a commit. It is made by the first process that needs it."""
    place = cache_folder() / "worktrees" / tree[:20]
    lock = place / "lock"
    marker = place / "complete"
    top = place / "worktree"
    while True:
        place.mkdir(parents=True, exist_ok=True)
        with open(lock, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # `recstudy clean` then leaves it
            if marker.exists():
                yield top
                return
        with locked(lock, wait=True):
            if marker.exists():
                continue
            shutil.rmtree(top, ignore_errors=True)  # of a process that was killed
            # --force: the repository may know a worktree that `recstudy clean` has removed
            words = ["worktree", "add", "--force", "--detach", str(top), commit]
            words = ["git", "-c", "core.hooksPath=/dev/null", *words]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ConfigError(f"Cannot make a worktree of {folder}: {done.stderr.strip()}")
            marker.touch()
