"""Removing from records what identifies the machine and the account that made them: the same text each time.

    absolute paths          `.../name`: the last part alone
    hosts, users            `(name)` in texts that programs wrote, such as errors; fields that name them are emptied
    secrets                 `(secret)`: values of variables with such names, and what looks like a token or a password

What an author wrote (code, labels, questions) is not changed: `remaining` finds what is private in it, and it
is refused.
"""

import getpass
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

AWAY = ".../"  # begins a path that was removed, of which the last part is left
PERSONAL = ("host", "process")  # fields that describe the machine alone
WRITTEN = (
    "error",
    "traceback",
    "calls",
    "notes",
    "data_notes",
    "unavailable",
    "source",
    "why_missing",
)  # fields that programs write
COMMAND = re.compile(  # variables before a command, and options that name places of a machine
    r"^(?:[A-Z_][A-Z0-9_]*=\S+\s+)+|\s*--(?:results|address|data|log|init-from|optuna-storage)(?:=\S+|(?:\s+(?!--)\S+)*)(?!\S)"
)
# variables with secrets
NAMING = re.compile(r"(TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL|AUTH)", re.I)
GENERIC = re.compile(  # names that are also words
    r"root|users?|admin|ubuntu|debian|runner|jovyan|nobody|(local)?host|docker|node|worker|test|data|home",
    re.I,
)
LEAST = 4  # characters of a name; shorter ones would be found in words

PATH = (
    r"(?<![\w.:/\\<~-])(?:file://)?(?:~[\w.-]*)?(?:(?:/[\w.@+=,~%-]+){2,}|/(?:home|root|tmp|data|mnt|media|opt|srv|usr|var|etc"
    r"|scratch|work|workspace|Users|Volumes|private|content|lustre|nfs|gpfs)\b)/?|(?<!\w)~/[\w.@+=,~%/-]+"
)
SECRET = re.compile(
    r"(?P<before>://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|\b(?:hf|ghp|gho|ghs|glpat|xox[a-z]|sk|pk|wandb)[_-][A-Za-z0-9_-]{16,}"
    r"|\bgithub_pat_\w{20,}|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r"|(?P<named>(?:token|secret|passw(?:or)?d|api[_-]?key|authorization)[\"']?\s*[=:]\s*(?:bearer\s+)?[\"']?)[^\s\"'&,;]{4,}"
    r"|(?P<bearer>\bbearer\s+)[\w.~+/=-]{8,}",
    re.I,
)
# in any text
REFUSED = r"(?:/home|/Users)/[\w.-]+/|/root/\w|\b(?:hf|ghp|glpat)[_-][A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b"


@dataclass(frozen=True)
class Private:
    """What must not be in a bundle, literally.

    Args:
        places: Folders, the longest first.
        names: Hosts and users, which are found as words.
        secrets: Values.
    """

    places: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def text(self, text: str, written: bool = False) -> str:
        """Return a text without it; `written` by a program, so that names in it are those of machines and
        accounts.
        """
        for secret in self.secrets:
            text = text.replace(secret, "(secret)")
        text = SECRET.sub(
            lambda match: (match["before"] or match["named"] or match["bearer"] or "") + "(secret)", text
        )
        text = self._paths.sub(lambda match: AWAY + match[0].rstrip("/").rpartition("/")[2], text)
        if written:
            text = re.sub(r"\b[\w.-]+@(?=[\w-]+)", "(user)@", text)
            text = self._names.sub("(name)", text)
        return text

    def values(self, value: Any, key: str = "", written: bool = False) -> Any:
        """Return JSON values without it, at any depth; the names of fields stay."""
        written = written or key in WRITTEN
        if key in PERSONAL and isinstance(value, str | int):
            return "" if isinstance(value, str) else None
        if isinstance(value, str):
            return self.text(COMMAND.sub("", value), True) if key == "command" else self.text(value, written)
        if isinstance(value, dict):
            cleaned = {name: self.values(item, name, written) for name, item in value.items()}
            return {name: item for name, item in cleaned.items() if item is not None or value[name] is None}
        return [self.values(item, "", written) for item in value] if isinstance(value, list) else value

    @cached_property
    def _paths(self) -> re.Pattern[str]:
        return _any_of(self.places, PATH)

    @cached_property
    def _names(self) -> re.Pattern[str]:
        return _any_of(self.names, "(?!)")

    @cached_property
    def _refused(self) -> re.Pattern[str]:
        return _any_of((*self.secrets, *self.places, *self.names), REFUSED)

    def remaining(self, text: str) -> tuple[str, int] | None:
        """Return the first private thing in a text, and where it begins; a secret is not repeated."""
        match = self._refused.search(text)
        return match and (
            "a secret of this machine's environment" if match[0] in self.secrets else match[0],
            match.start(),
        )


def private(root: Path, hosts: Iterable[str], allowed: Iterable[str] = ()) -> Private:
    """Return what is private to this machine and account, and to the hosts that records name.

    Args:
        root: The results folder.
        hosts: The hosts of the runs.
        allowed: Names that may be published.
    """
    places = {str(root), str(root.resolve()), str(Path.cwd())}
    names = {socket.gethostname(), os.environ.get("USER", ""), *hosts}
    with suppress(Exception):  # an account without a home or a name
        places.add(str(Path.home()))
        names.add(getpass.getuser())
    names |= {name.partition(".")[0] for name in names}
    names = {name for name in names if len(name) >= LEAST and not GENERIC.fullmatch(name)} - set(allowed)
    secrets = {
        value
        for name, value in os.environ.items()
        if NAMING.search(name) and len(value) >= 8 and value[0] != "/"
    }
    deep_places = {place for place in places if place.count("/") > 1}
    return Private(
        *(
            tuple(sorted(found, key=lambda text: (-len(text), text)))
            for found in (deep_places, names, secrets)
        )
    )


def _any_of(texts: Iterable[str], pattern: str) -> re.Pattern[str]:
    words = (rf"(?<![\w-]){re.escape(text)}(?![\w-])" for text in texts)
    return re.compile("|".join([*words, pattern]))
