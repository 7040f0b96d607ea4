"""Whose modules a reader may import: those that this user has run or trusted, word for word as the plan recorded them.

A results folder may be a stranger's, and to import a module is to run it. A study that runs leaves a copy of its modules in the
user's cache folder, and `recstudy trust` leaves one of a stranger's after asking: what has a copy is trusted. A plan names
modules by their digests, so neither a changed file nor another of the same name is imported in their place.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path, PurePosixPath

from recstudy.errors import ConfigError
from recstudy.files import cache_folder, caching, sha, whole
from recstudy.plugins.bundle import Bundle, digest_of, paths, source

GROUP = "recstudy.plugins"  # of entry points, each of which names a module that registers something
TRUST = "--trust imports it"


@dataclass(frozen=True)
class Named:
    """The modules that a plan names: where they lay, which are imported, and the digest of each file by its path from there."""

    root: str
    modules: tuple[str, ...]
    files: Mapping[str, str]
    installed: tuple[str, ...] = ()  # modules without a file

    @property
    def digest(self) -> str:
        return digest_of([*self.modules, *self.installed], self.files)

    @property
    def words(self) -> str:
        return ", ".join(map(self.at, self.files))

    def at(self, path: str) -> str:
        """Return a file as the plan names it."""
        return f"{self.root}{path}"


def named(record: Iterable[Mapping[str, str]]) -> Named:
    """Return what a plan's record of its modules (`Bundle.record`) names.

    Raises:
        ConfigError: its files do not lie below one folder, as modules do.
    """
    entries = list(record)
    below = [(one["file"], path) for one in entries if one["file"] and (path := _below(one["module"], one["file"]))]
    root = below[0][0].removesuffix(below[0][1]) if below else ""
    files = {one["file"].removeprefix(root): one["digest"] for one in entries if one["file"]}
    for path in files:
        if not path.endswith(".py") or {"", ".", ".."} & set(path.split("/")) or "\0" in path:
            raise ConfigError(f"its plan names a module in {path!r}, which is not one below {root or 'a folder'!r}")
    modules = tuple(one["module"] for one in entries if one["module"] and one["file"])
    if any(not set(paths(name)) & files.keys() for name in modules):
        raise ConfigError(f"its plan names modules in several folders: {', '.join(file for file, _ in below)}")
    return Named(root, modules, files, tuple(one["module"] for one in entries if one["module"] and not one["file"]))


def _below(module: str, file: str) -> str:
    """Return a module's path below the folder where it is found; nothing where the file is not one of this name."""
    return next((path for path in paths(module) if f"/{file}".endswith(f"/{path}")), "")


def remember(given: Bundle) -> Path:
    """Leave a copy of what this user runs, or trusts, in the cache folder: it may be imported from now on.

    Raises:
        DataError: the cache folder cannot be written.
    """
    copy = _copy(given.digest)
    with caching("the study's modules", copy.parent):
        for path, text in given.files.items():
            if _kept(copy / path) != text:
                with whole(copy / path) as temporary:  # another process may do the same
                    temporary.write_text(text, encoding="utf-8")
    return copy


def remembered(named: Named) -> Bundle | None:
    """Return what this user ran or trusted of what a plan names; None where that is not all of it."""
    copy = _copy(named.digest)
    texts = {path: _kept(copy / path) for path in named.files}
    if any(text is None or sha([text]) != named.files[path] for path, text in texts.items()):
        return None
    return Bundle(named.root, named.modules, {path: text for path, text in texts.items() if text is not None})


def trusted(record: Iterable[Mapping[str, str]]) -> tuple[Bundle, list[str]]:
    """Return what may be imported of what a plan names, from a root where it lies as it was recorded, and why the rest is not."""
    try:
        wanted = named(record)
    except ConfigError as error:
        return Bundle(), [f"not imported: {error}"]
    offered = {point.module for point in entry_points(group=GROUP)}
    problems = [
        f"not imported: {name} has no file and is not installed as an entry point of the group {GROUP}; {TRUST}"
        for name in wanted.installed
        if name not in offered
    ]
    if not wanted.files:
        return Bundle(), problems
    now = {path: _digest(Path(wanted.at(path))) for path in wanted.files}
    given = remembered(wanted)
    if changed := ", ".join(wanted.at(path) for path, digest in now.items() if digest not in (wanted.files[path], "")):
        problems.append(f"not imported: {changed}, changed since the study ran; {TRUST} as it is, running the study records it")
    elif given is None and any(now.values()):
        problems.append(f"not imported: {wanted.words}, which you have neither run nor trusted; {TRUST}")
    elif given is None:
        problems.append(f"not imported: {wanted.words} is not there, and you have neither run nor trusted it")
    else:
        return (given if now == wanted.files else replace(given, root=str(_copy(wanted.digest)))), problems
    return Bundle(), problems


def _copy(digest: str) -> Path:
    return cache_folder() / "plugins" / digest


def _kept(file: Path) -> str | None:
    """Return a copy, which is in UTF-8 whatever the file says of itself."""
    with suppress(OSError, UnicodeError):
        return file.read_text(encoding="utf-8")
    return None


def _read(file: Path) -> str | None:
    with suppress(ConfigError):
        return source(file) if file.is_file() else None
    return None


def _digest(file: Path) -> str:
    """Return the digest of what a file holds now; nothing where it is not there. One that cannot be read has changed."""
    if not file.is_absolute() or not file.exists():
        return ""
    text = _read(file)
    return "unreadable" if text is None else sha([text])


# ------------------------------------------------------------------------------------------------ recstudy trust


def ask(
    records: Sequence[Iterable[Mapping[str, str]]], folder: Path, say: Callable[[str], object], agreed: Callable[[], bool]
) -> bool:
    """Show what plans below `folder` would have imported, and remember it where the user agrees; return whether all of it is.

    A file that is not where the plan says is looked for in `folder` and in its `code`, and taken if it is the same to the letter.
    """
    wanted = {one.digest: one for one in map(named, records) if one.files}
    new = {digest: one for digest, one in wanted.items() if remembered(one) is None}
    bundles = [_found(one, folder) for one in new.values()]
    if not bundles:
        say("Nothing to trust: no study here has modules of its own." if not wanted else "All of it is trusted already.")
        return True
    for given in bundles:
        for path, text in given.files.items():
            lines, digest = text.count("\n"), sha([text])
            say(f"{Path(given.root, path)}  {lines:,} lines, {digest}, as recorded")
    say("To import a module is to run it, with all that you may do. Read these files before you trust them.")
    if not agreed():
        return False
    for given in bundles:
        remember(given)
    say(f"Trusted: {', '.join(name for given in bundles for name in given.modules)}.")
    return True


def _found(wanted: Named, folder: Path) -> Bundle:
    """Return the modules as they lie where the plan says, in the folder or in its `code`.

    Raises:
        ConfigError: one is not there, or is not what was recorded.
    """
    root = Path(wanted.root)
    for place in [*([root] if root.is_absolute() else []), folder / "code", folder]:
        texts = {path: _read(place / PurePosixPath(path)) for path in wanted.files}
        if all(text is not None and sha([text]) == wanted.files[path] for path, text in texts.items()):
            files = {path: text for path, text in texts.items() if text is not None}
            return Bundle(str(place), (*wanted.modules, *wanted.installed), files)
    raise ConfigError(
        f"{wanted.words}: not there as recorded, nor in {folder} or {folder / 'code'}. Put the files where the plan names them, "
        "or run the study again"
    )
