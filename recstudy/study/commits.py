"""Commits of a repository as the variants of a study, or as an axis of a grid."""

from collections.abc import Mapping, Sequence
from typing import Any

from recstudy.base.errors import ConfigError
from recstudy.base.explained import explained
from recstudy.programs.commits import COMMIT, CommitName
from recstudy.study.design import Variant, grid


class Commits(list[Variant]):
    """A variant for each commit of the repository in which a `Command` runs.

    Each commit is checked out in a git worktree of its own, so neither the checkout nor the branches change.
    The files of the commit are part of the run ids: a branch that moves gives new runs. Only files that git
    tracks are there.

    Args:
        names: Branches, tags or hashes, such as `"main", "idea"`.

    Example:
        >>> [variant.label for variant in Commits("main", "idea")]
        ['commit=main', 'commit=idea']
        >>> [variant.label for variant in grid({"commit": Commits("main", "idea"), "lr": [0.1]})]
        ['commit=main, lr=0.1', 'commit=idea, lr=0.1']
    """

    @explained
    def __init__(self, *names: str) -> None:
        for name in names:
            if not isinstance(name, str) or not name.strip() or name.startswith("-") or names.count(name) > 1:
                raise ConfigError(
                    "Commits are different branches, tags or hashes, such as Commits('main', 'idea'), but got"
                    f" {name!r}"
                )
        # an axis of `grid`
        self.levels = {name: {COMMIT: CommitName(name)} for name in names}
        super().__init__(grid({COMMIT: self}) if names else ())


def has_commits(variants: Any) -> bool:
    """Return whether variants of a study, for all presets or by preset, are commits."""
    lists = variants.values() if isinstance(variants, Mapping) else [variants]
    return any(
        isinstance(value, CommitName)
        for preset_variants in lists
        if isinstance(preset_variants, Sequence)
        for variant in preset_variants
        if isinstance(variant, Variant)
        for value in variant.changes.values()
    )
