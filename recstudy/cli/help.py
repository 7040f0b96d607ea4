"""The texts of `--help` and `--help-all`, read from the dataclass of a command's options.

`--help` has the options that the class names in its `groups`, one line each: the first sentence of the text
below the field. `--help-all` has all options with their whole texts. tyro's own help would take five screens.
"""

import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import is_dataclass
from textwrap import wrap
from typing import Any, get_type_hints

from tyro.conf import DisallowNone, FlagCreatePairsOff, Positional

from recstudy.base.terminal import say

HELP_WORDS = frozenset({"-h", "--help", "--help-all"})
TYRO = (DisallowNone, FlagCreatePairsOff)  # how tyro reads words: no None, no --no-smoke
WIDTH = 100  # of the text, at most
COLUMN = 29  # where the texts of options start
SENTENCE_END = re.compile(r"\.(?:\s+(?=[A-Z`-])|$)")


def print_help(
    kind: type,
    program: str,
    description: str,
    examples: Mapping[str, str],
    is_whole: bool,
    left_out: Collection[str] = (),
) -> None:
    """Print the help of a command.

    Args:
        kind: The dataclass of its options. Its `groups` maps headings to names of fields.
        program: The command as it is typed.
        description: What the command does.
        examples: Command -> its meaning.
        is_whole: Print all options with their whole texts.
        left_out: Fields that have no effect here.
    """
    options = {name: option for name, option in options_of(kind).items() if name not in left_out}
    headings = {} if is_whole else getattr(kind, "groups", {})
    groups = {}
    for heading, names in (headings or {"Options": " ".join(options)}).items():
        groups[heading] = dict(options[name] for name in names.split() if name in options)
    arguments = [typed for typed, _ in options.values() if not typed.startswith("-")]
    usage = " ".join((program, "[OPTIONS]", *arguments))
    print_groups(usage, description, {**groups, "Examples": examples}, is_whole)


def print_groups(
    usage: str, description: str, groups: Mapping[str, Mapping[str, str]], is_whole: bool = False
) -> None:
    """Print a usage, a description, and groups of options, commands or examples (as typed -> its text)."""
    width = min(shutil.get_terminal_size().columns, WIDTH)
    say(f"Usage: {usage}")
    for paragraph in re.split(r"\n\s*\n", description.strip("\n")):
        say("", paragraph if paragraph.startswith(" ") else "\n".join(wrap(paragraph, width)))
    for heading, texts in groups.items():
        column = max([COLUMN, *(len(typed) + 4 for typed in texts)])
        say(*["", f"{heading}:"] * bool(texts))
        for typed, text in texts.items():
            row = f"  {typed:{column - 2}}{text if is_whole else SENTENCE_END.split(text)[0]}"
            say(*wrap(row, width, subsequent_indent=" " * column, break_on_hyphens=False))
    say("", "--help shows this text, --help-all every option with details.")


def options_of(kind: type) -> dict[str, tuple[str, str]]:
    """Return the options of a dataclass and of nested ones: field -> the option as typed, and its text."""
    from recstudy.programs.settings import field_texts  # it loads pydantic

    options, texts = dict[str, tuple[str, str]](), field_texts(kind)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if is_dataclass(getattr(hint, "__origin__", None)):
            options |= options_of(hint.__origin__)
        marks = getattr(hint, "__metadata__", ())
        words: dict[str, Any] = {}
        for mark in marks:  # tyro's, such as of arg(metavar="N")
            words |= {word: value for word, value in getattr(mark, "__dict__", {}).items() if value}
        flag = "" if Positional in marks else "--" + words.get("name", name.replace("_", "-"))
        if text := words.get("help") or texts.get(name):  # a class variable has none
            options[name] = f"{flag} {words.get('metavar', '')}".strip(), text
    return options
