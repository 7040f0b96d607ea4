"""What a record says of the machine that made it, taken out before strangers read it: the same text each time.

    absolute paths          `.../name`: the last part alone
    hosts, users            `(name)` in what programs wrote: errors, tracebacks, notes; fields that name them are emptied
    secrets                 `(secret)`: values of variables that are called so, and what looks like a token or a password

Nothing is replaced in what an author wrote (code, labels, questions): `remaining` finds what stands there, and it is refused.
"""

import getpass
import os
import re
import shlex
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

AWAY = ".../"  # begins a path that was taken out, of which the last part is left
PERSONAL = ("host", "process")  # fields that are about the machine alone
WRITTEN = ("error", "traceback", "notes", "data_notes", "unavailable", "source", "why_missing")  # by programs
PLACES = ("--results", "--address", "--data", "--log", "--init-from", "--optuna-storage")  # options of a command
NAMING = re.compile(r"(TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL|AUTH)", re.I)  # variables with secrets
GENERIC = frozenset(  # names that are also words
    {"root", "user", "users", "admin", "ubuntu", "debian", "runner", "jovyan", "nobody", "localhost", "host", "docker", "node"}
    | {"worker", "test", "data", "home"}
)
SHAPE = r"(?:/home|/Users)/[\w.-]+/|/root/\w|\b(?:hf|ghp|glpat)[_-][A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b"  # never fitting
LEAST = 4  # characters of a name that would be found in words otherwise

_TOPS = "home|root|tmp|data|mnt|media|opt|srv|usr|var|etc|scratch|work|workspace|Users|Volumes|private|content|lustre|nfs|gpfs"
PATH = re.compile(
    r"(?<![\w.:/\\<~-])(?:file://)?(?:~[\w.-]*)?"
    rf"(?:(?:/[\w.@+=,~%-]+){{2,}}|/(?:{_TOPS})\b)/?"
    r"|(?<!\w)~/[\w.@+=,~%/-]+"
    r"|(?<!\w)[A-Za-z]:\\(?:[^\\\s\"']+\\)*[^\\\s\"']*"
)
SECRET = re.compile(
    r"(?P<before>://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|\b(?:hf|ghp|gho|ghs|glpat|xox[a-z]|sk|pk|wandb)[_-][A-Za-z0-9_-]{16,}"
    r"|\bgithub_pat_\w{20,}|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r"|(?P<named>(?:token|secret|passw(?:or)?d|api[_-]?key|authorization)[\"']?\s*[=:]\s*(?:bearer\s+)?[\"']?)[^\s\"'&,;]{4,}"
    r"|(?P<bearer>\bbearer\s+)[\w.~+/=-]{8,}",
    re.I,
)


@dataclass(frozen=True)
class Private:
    """What must not be in a bundle, literally: made once, of this machine and of the hosts that the records name.

    Args:
        places: folders, the longest first.
        names: hosts and users that are found as words.
        secrets: values.
    """

    places: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def text(self, text: str, written: bool = False) -> str:
        """Return a text without it; `written` by a program, so that names in it are those of machines and accounts."""
        for secret in self.secrets:
            text = text.replace(secret, "(secret)")
        text = SECRET.sub(_hidden, text)
        for place in self.places:
            text = re.sub(rf"(?<![\w.-]){re.escape(place)}(?![\w-])", lambda found: _last(found[0]), text)
        text = PATH.sub(lambda found: _last(found[0]), text)
        if written:
            text = re.sub(r"\b[\w.-]+@(?=[\w-]+)", "(user)@", text)
            for name in self.names:
                text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "(name)", text)
        return text

    def values(self, value: Any, key: str = "", written: bool = False) -> Any:
        """Return JSON values without it, at any depth; keys are names of fields, and stay."""
        if key in PERSONAL and isinstance(value, str | int):
            return "" if isinstance(value, str) else None
        if key == "command" and isinstance(value, str):
            return self.command(value)
        written = written or key in WRITTEN
        if isinstance(value, str):
            return self.text(value, written)
        if isinstance(value, Mapping):
            kept = {name: self.values(one, name, written) for name, one in value.items()}
            return {name: one for name, one in kept.items() if one is not None or value[name] is None}
        return [self.values(one, "", written) for one in value] if isinstance(value, list | tuple) else value

    def command(self, command: str) -> str:
        """Return a command without the options that name places of a machine, and without secrets."""
        try:
            words = shlex.split(command)
        except ValueError:
            return self.text(command, written=True)
        kept: list[str] = []
        skipping = False
        for word in words:
            option, equals, _ = word.partition("=")
            if word.startswith("--"):
                skipping = option in PLACES
            if not skipping:
                kept.append(word)
            elif equals and word.startswith("--"):
                skipping = False
        while kept and re.match(r"[A-Z_][A-Z0-9_]*=", kept[0]):  # variables before it
            kept.pop(0)
        return shlex.join(self.text(word, written=True) for word in kept)

    @cached_property
    def _forbidden(self) -> re.Pattern[str]:
        own = (rf"(?<![\w.-]){re.escape(what)}(?![\w-])" for what in (*self.secrets, *self.places))
        named = (rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in self.names)
        return re.compile("|".join([*own, *named, SHAPE]))

    def remaining(self, text: str) -> tuple[str, int] | None:
        """Return what stands in a text although it must not, and where it begins; a secret is not repeated."""
        found = self._forbidden.search(text)
        if found is None:
            return None
        return ("a secret of this machine's environment" if found[0] in self.secrets else found[0]), found.start()


def private(root: Path, hosts: Iterable[str], allowed: Iterable[str] = ()) -> Private:
    """Return what is private here: of this process's machine and account, and of the `hosts` that records name.

    Args:
        root: the results folder.
        hosts: of the runs.
        allowed: names that may be told.
    """
    places = {str(root), str(root.resolve()), str(Path.cwd())}
    with suppress(RuntimeError):  # an account without a home
        places.add(str(Path.home()))
    names = {socket.gethostname(), socket.gethostname().partition(".")[0], os.environ.get("USER", ""), *hosts}
    with suppress(Exception):  # an account without a name
        names.add(getpass.getuser())
    own = {name for name in names if len(name) >= LEAST and name.lower() not in GENERIC} - set(allowed)
    secrets = {value for name, value in os.environ.items() if NAMING.search(name) and len(value) >= 8 and "/" not in value[:1]}
    deep = (place for place in places if place.count("/") > 1)  # of `/tmp` alone nothing is told
    return Private(*(tuple(sorted(some, key=lambda one: (-len(one), one))) for some in (deep, own, secrets)))


def _last(path: str) -> str:
    return AWAY + re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _hidden(found: re.Match[str]) -> str:
    return (found["before"] or found["named"] or found["bearer"] or "") + "(secret)"
