"""The commands of remedies: what `error_codes.toml` puts in backticks, read as a shell reads it.

A command of Perago is parsed by Perago's own parser and never run here. The words of a remedy that
a person replaces are in `PLACEHOLDERS`, each with what the error names for it.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import typer

from perago.app.command_line.program import program

IN_BACKTICKS = re.compile(r"`([^`]+)`")
# A capital word that is no part of a variable's name, such as REPO in lakefs://REPO/REF.
CAPITALS = re.compile(r"(?<![A-Z_$a-z0-9])[A-Z][A-Z_]+(?![A-Z_=a-z])")

PLACEHOLDERS = MappingProxyType(
    {
        "BRANCH": "the branch in the error, or in the input of the row",
        "CODE": "a code that stands in the reason",
        "COMMAND": "the command that printed the error",
        "COMMIT": "the commit in the reason",
        "KEY": "the key of the run in the reason",
        "MESSAGE": "a message of one's own",
        "MODULE": "the module that the command or the worker was given",
        "PATH": "the path in the error",
        "PUBLISHED": "the published commit in the reason",
        "REF": "the input commit of the row",
        "REFERENCE": "the reference name of the row",
        "REPO": "the repository in the error, or in the input of the row",
        "RUN_BRANCH": "the run branch in the reason",
        "RULE": "the rule in the list that covers more than the branch",
        "RUN": "the run in the error, or the one that `perago runs` lists",
        "STAGED": "the staged commit in the reason",
        "URL": "the address in the error",
        "WORKFLOW": "the id of the row's workflow, or the name under which it is registered",
    }
)
HTTP_METHODS = frozenset({"DELETE"})
PROGRAMS = frozenset(
    {"chmod", "curl", "df", "export", "lakectl", "ls", "mkdir", "perago", "pip", "unset"}
)
"""What a machine has that runs Perago, or that administers its lakeFS; two are the shell's own."""


def commands_of(remedy: str) -> list[str]:
    """The commands of a remedy, in its order."""
    return IN_BACKTICKS.findall(remedy)


def placeholders_of(command: str) -> set[str]:
    """The words of a command that a person replaces."""
    found = set(CAPITALS.findall(command)) - HTTP_METHODS
    return {word for word in found if not word.startswith("PERAGO_")}  # settings, as of `unset`


def parse(words: Sequence[str]) -> None:
    """Parse a command of Perago as its program does; anything that it does not know raises."""
    assert words[0] == "perago"
    command: Any = program()
    rest = list(words[1:])
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(typer.Exit):
        while True:
            context = command.make_context("perago", rest)
            group = context.command  # a row of the program's table stands in for it until now
            if not hasattr(group, "resolve_command"):
                return
            # A group reads its own options, and leaves the rest to the command of that name.
            left: list[str] = [*vars(context)["_protected_args"], *context.args]
            _, command, rest = group.resolve_command(context, left)


def words_of(command: str) -> list[str]:
    """A command as a shell splits it."""
    return shlex.split(command)
