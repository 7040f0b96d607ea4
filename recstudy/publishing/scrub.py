"""Remove from records what identifies a machine or an account. `publish.py` copies records through it.

    absolute paths    become `.../name`
    hosts, users      become `(name)` in texts by programs, such as errors; fields with them are emptied
    secrets           become `(secret)`: values of variables with such names, and texts like tokens or
                      passwords

Texts by the author (code, labels, questions) are not changed. `Private.remaining` finds private data in them,
and `publish.py` then refuses the bundle.
"""

import getpass
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PATH_PREFIX = ".../"  # replaces the folders of a path
PERSONAL = ("host", "process")  # fields of an attempt or of `hardware` that only describe the machine
PROGRAM_FIELDS = (
    "error",
    "traceback",
    "calls",
    "notes",
    "data_notes",
    "unavailable",
    "source",
    "why_missing",
)  # fields with texts by programs
AUTHOR_FIELDS = ("settings", "changes", "levels", "base")  # fields with values and names by the author
# Variables before a command, and options with paths of a machine. Only --log has several words.
COMMAND = re.compile(
    r"^(?:[A-Z_][A-Z0-9_]*=\S+\s+)+"
    r"|\s*--(?:results|address|data|init-from|optuna-storage)(?:=|\s+(?!--))(?:'[^']*'|\S+)(?!\S)"
    r"|\s*--log(?:=\S+|(?:\s+(?!--|[\w.]+=)\S+)*)(?!\S)"
)
# Names of environment variables with secrets.
NAMING = re.compile(
    r"(?:TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL|AUTH(?!OR(?!IZ)))"
    r"(?!.*_(?:MODE|NAME|TYPE|METHOD|FILE|PATH|DIR|SOCK)$)",
    re.I,
)
GENERIC = re.compile(  # names that are common words
    r"root|users?|admin|ubuntu|debian|runner|jovyan|nobody|(local)?host|docker|node|worker|test|data|home",
    re.I,
)
# Shorter names are not removed, because they would also match common words.
MIN_LENGTH = 4

PLACES = (
    "home|root|tmp|data|mnt|media|opt|srv|usr|var|etc|scratch|work|workspace|Users|Volumes|private|content"
    "|lustre|nfs|gpfs"
)
PATH = (
    # a path within quotes, or as a whole value or level, which may have spaces
    r"(?:^|(?<=['\"=]))~?(?:/(?:(?! -)[^/:,='\"\n])+){2,}/?(?=['\"]|, |$)"
    r"|(?<![\w.:/\\<~-])(?:file://)?(?:~[\w.-]*)?(?:(?:/[\w.@+=,~%-]+){2,}|/(?:@PLACES@)\b)/?"
    r"|(?<=:)(?:///)?/(?:@PLACES@)(?:/[\w.@+=,~%-]+)+|(?<!\w)~/[\w.@+=,~%/-]+"
).replace("@PLACES@", PLACES)
SECRET = re.compile(
    r"(?P<before>://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|\b(?:hf|ghp|gho|ghs|glpat|xox[a-z]|sk|pk|wandb)[_-][A-Za-z0-9_-]{16,}"
    r"|\bgithub_pat_\w{20,}|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*",
    re.I,
)
NAMED_SECRET = re.compile(  # in texts by programs; an author may write "token: long prompts"
    r"(?P<before>(?:token|secret|passw(?:or)?d|api[_-]?key|authorization)[\"']?\s*[=:]\s*(?:bearer\s+)?[\"']?)[^\s\"'&,;]{4,}"
    r"|(?P<bearer>\bbearer\s+)[\w.~+/=-]{8,}",
    re.I,
)
# Patterns that no published text may contain.
REFUSED = (
    r"(?:/home|/Users)/[\w.-]+/|/root/\w|\b(?:hf|gh[pos]|glpat|xox[a-z])[_-][A-Za-z0-9-]{20,}"
    r"|\bsk-(?=[\w-]*\d)[\w-]{20,}|\bgithub_pat_\w{20,}|\bAKIA[0-9A-Z]{16}\b"
    # a literal in code, and a value in YAML
    r"|(?i:(?:passw(?:or)?d|secret|api[_-]?key|token)[\"']?\]?\s*[=:]\s*[\"'](?=[^\"']*\d)[\w./+=-]{12,}[\"'])"
    r"|\bkey\s*=\s*[\"'][0-9a-f]{32,}[\"']"
    r"|(?i:(?:passw(?:or)?d|secret|api[_-]?key)=(?=[a-z_+/-]*\d)[\w+/-]{8,}(?![\w.(\[]))"
    r"|(?im:^\s*(?:passw(?:or)?d|secret|api[_-]?key)\s*:\s*(?=\S*\d)[\w./+=!@#$%^&*-]{8,}\s*$)"
)


@dataclass(frozen=True)
class Private:
    """The private texts that a bundle must not contain.

    Args:
        places: Folders, the longest first.
        names: Hosts and users, which are matched as whole words.
        secrets: Values of secrets.
    """

    places: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def text(self, text: str, by_program: bool = False) -> str:
        """Return a text without private data.

        Args:
            text: The text.
            by_program: Whether a program wrote it. Only then are names and values behind a word such as
                `token:` replaced, because in a text by an author they can mean something else.
        """
        # Secrets first: one may contain a path or a name.
        for secret in self.secrets:
            text = text.replace(secret, "(secret)")
        text = SECRET.sub(r"\g<before>(secret)", text)
        if by_program:
            text = NAMED_SECRET.sub(r"\g<before>\g<bearer>(secret)", text)
        paths = _any_of(self.places, PATH)
        text = paths.sub(lambda match: PATH_PREFIX + match[0].rstrip("/").rpartition("/")[2], text)
        if by_program:
            text = re.sub(r"\b[\w.-]+@(?=[\w-]+)", "(user)@", text)
            text = _any_of(self.names, "(?!)").sub("(name)", text)
        return text

    def values(self, value: Any, key: str = "", by_program: bool = False, parent: str = "") -> Any:
        """Return JSON values without private data at any depth. Keys stay.

        Args:
            value: The JSON value.
            key: Its key, which decides about the kind of text.
            by_program: Whether a program wrote it.
            parent: The key of the object that has it, or one of `AUTHOR_FIELDS` at any depth below it; empty
                at the top level.
        """
        is_stated, is_command = parent in AUTHOR_FIELDS, key == "command" and parent not in AUTHOR_FIELDS
        by_program = not is_stated and (by_program or is_command or key in PROGRAM_FIELDS)
        if key in PERSONAL and parent in ("", "hardware") and isinstance(value, str | int):
            return "" if isinstance(value, str) else None
        if isinstance(value, str):
            return self.text(COMMAND.sub("", value) if is_command else value, by_program)
        parent = parent if is_stated else key
        if isinstance(value, dict):
            cleaned = {name: self.values(item, name, by_program, parent) for name, item in value.items()}
            return {name: item for name, item in cleaned.items() if item is not None or value[name] is None}
        if isinstance(value, list):
            return [self.values(item, "[]", by_program, parent) for item in value]
        return value

    def remaining(self, text: str) -> tuple[str, int] | None:
        """Return the first private text and its position, or None. A secret itself is not returned."""
        match = _any_of((*self.secrets, *self.places, *self.names), REFUSED).search(text)
        return match and (
            "a secret of this machine's environment" if match[0] in self.secrets else match[0],
            match.start(),
        )


def private(root: Path, hosts: Iterable[str], allowed: Iterable[str] = ()) -> Private:
    """Return the private texts of this machine and account, and of the hosts in the records.

    Args:
        root: The results folder.
        hosts: The hosts of the runs.
        allowed: Names that may be published.
    """
    places = {str(root), str(root.resolve()), str(Path.cwd())}
    names = {socket.gethostname(), os.environ.get("USER", ""), *hosts}
    with suppress(Exception):  # the account may have no home or no name
        places.add(str(Path.home()))
        names.add(getpass.getuser())
    # A host may be recorded with or without its domain.
    names |= {name.partition(".")[0] for name in names}
    names = {name for name in names if len(name) >= MIN_LENGTH and not GENERIC.fullmatch(name)} - set(allowed)
    secrets = {
        value
        for name, value in os.environ.items()
        if NAMING.search(name) and len(value) >= 8 and value[0] != "/"
    }
    # A folder such as /root or /data is too general; `PATH` handles paths below it.
    deep_places = {place for place in places if place.count("/") > 1}
    return Private(
        *(
            tuple(sorted(texts, key=lambda text: (-len(text), text)))
            for texts in (deep_places, names, secrets)
        )
    )


@cache
def _any_of(texts: tuple[str, ...], pattern: str) -> re.Pattern[str]:
    """Return a pattern that matches one of the texts as a whole word, or the pattern."""
    words = (rf"(?<![\w-]){re.escape(text)}(?![\w-])" for text in texts)
    return re.compile("|".join([*words, pattern]))
