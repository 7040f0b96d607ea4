"""The texts of `--help` and `--help-all`, read from the dataclass of a command's options.

`--help` has the options that the class names in its `groups`, one line each: the first sentence of the text
below the field. `--help-all` has all options with their whole texts. tyro's own help would take five screens.
"""

import ast
import inspect
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from textwrap import wrap
from typing import Any, NamedTuple, get_type_hints

from tyro.conf import DisallowNone, FlagCreatePairsOff, Positional

from recstudy.base.terminal import say

HELP_WORDS = frozenset({"-h", "--help", "--help-all"})
TYRO = (DisallowNone, FlagCreatePairsOff)  # how tyro reads words: no None, no --no-smoke
WIDTH = 100  # of the text, at most
COLUMN = 29  # where the texts of options start
SENTENCE_END = re.compile(r"\.(?:\s+(?=[A-Z`-])|$)")


class Option(NamedTuple):
    """An option, an argument, a command or an example, as it is typed, with its text."""

    typed: str
    text: str


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
    arguments = [option.typed for option in options.values() if not option.typed.startswith("-")]
    groups = {} if is_whole else getattr(kind, "groups", {})
    shown_options = {
        heading: [options[name] for name in names.split() if name in options]
        for heading, names in (groups or {"Options": " ".join(options)}).items()
    }
    print_groups(" ".join((program, "[OPTIONS]", *arguments)), description, shown_options, examples, is_whole)


def print_groups(
    usage: str,
    description: str,
    groups: Mapping[str, Sequence[Option]],
    examples: Mapping[str, str],
    is_whole: bool = False,
) -> None:
    """Print a usage, a description, groups of options or commands, and examples."""
    width = min(shutil.get_terminal_size().columns, WIDTH)
    say(f"Usage: {usage}")
    for paragraph in re.split(r"\n\s*\n", description.strip("\n")):
        say("", paragraph if paragraph.startswith(" ") else "\n".join(wrap(paragraph, width)))
    for heading, options in {**groups, "Examples": [*map(Option._make, examples.items())]}.items():
        column = max([COLUMN, *(len(option.typed) + 4 for option in options)])
        say(*["", f"{heading}:"] * bool(options))
        for typed, text in options:
            row = f"  {typed:{column - 2}}{text if is_whole else SENTENCE_END.split(text)[0]}"
            say(*wrap(row, width, subsequent_indent=" " * column, break_on_hyphens=False))
    say("", "--help shows this text, --help-all every option with details.")


def options_of(kind: type) -> dict[str, Option]:
    """Return the options of a dataclass by the names of their fields, with those of nested dataclasses."""
    options, texts = dict[str, Option](), field_texts(kind)
    types, hints = get_type_hints(kind), get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if is_dataclass(types[field.name]):
            options |= options_of(types[field.name])
            continue
        marks = getattr(hints[field.name], "__metadata__", ())
        words: dict[str, Any] = {}
        for mark in marks:  # tyro's, such as of arg(metavar="N")
            words |= {name: word for name, word in getattr(mark, "__dict__", {}).items() if word}
        flag = "" if Positional in marks else "--" + words.get("name", field.name.replace("_", "-"))
        typed = f"{flag} {words.get('metavar', '')}".strip()
        options[field.name] = Option(typed, texts.get(field.name) or words["help"])
    return options


def field_texts(kind: type) -> dict[str, str]:
    """Return the text below each field of a class, in one line each."""
    texts = {}
    for base in reversed(kind.__mro__[:-1]):
        for field, text in pairwise(ast.walk(ast.parse(inspect.getsource(base)))):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    texts[name] = " ".join(words.split())
    return texts
