"""What a page tells its reader to type: each line is held to what is really there.

`perago` lines go through the program's own parser and are not run; the names of settings, extras
and targets of the Makefile are looked up. So a page can show a command that needs servers.
"""

import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer import Typer
from typer.main import get_command

from perago.app.command_line.program import COMMANDS, LazyCommand, find_command
from perago.app.settings.layers import variables
from perago.app.settings.settings import Settings

ROOT = Path(__file__).parents[1]
# Also in an item of a list, where a block is indented, and those that need servers.
SH_BLOCK = re.compile(r"^ *```sh(?: on=servers)?\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=.*")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
OWN_NAME = re.compile(r"(PERAGO|LAKECTL|CONDUCTOR)_")


def shell_lines(page: Path) -> list[str]:
    """Every command line of the `sh` blocks of a page; one that ends with a backslash goes on."""
    blocks = SH_BLOCK.findall(page.read_text(encoding="utf-8"))
    joined = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in joined if line.strip() and not line.strip().startswith("#")]


def check_line(line: str) -> None:
    """Raise where a command, an option, a setting, an extra or a target is not there."""
    words = shlex.split(line, comments=True)
    while words and (given := ASSIGNMENT.fullmatch(words[0])):
        check_setting(given[1])
        words = words[1:]
    match words:
        case ["export", *assignments]:
            for each in assignments:
                check_setting(each.partition("=")[0])
        case ["perago", *arguments]:
            parse_command([each for each in arguments if each != "&"])
        case ["make", *targets]:
            assert set(targets) <= set(TARGET.findall(MAKEFILE)), targets
        case ["pip", "install", *wanted]:
            for each in wanted:
                check_extras(each)
        case _:
            pass


def check_setting(name: str) -> None:
    """Raise where a name looks like a setting of Perago and is none."""
    known = {variable.name for _, variable in variables(Settings)}
    known |= {f"{each}_FILE" for each in known}
    assert not OWN_NAME.match(name) or name in known, name


def check_extras(requirement: str) -> None:
    """Raise where an extra of Perago is asked for that is not there."""
    found = re.fullmatch(r"perago(?:\[([\w,]+)\])?(?:[=<>~].*)?", requirement)
    if found is None or found[1] is None:
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(found[1].split(",")) <= set(project["optional-dependencies"]), requirement


def parse_command(arguments: Sequence[str]) -> None:
    """Parse a command line of `perago` down to the last subcommand, and run nothing."""
    name, *rest = arguments
    rows = {row.name: row for row in COMMANDS}
    assert name in rows, name
    found = find_command(rows[name])
    command: Any = LazyCommand(rows[name])
    if isinstance(found, Typer):
        group: Any = get_command(found)
        name, *rest = rest
        assert name in group.commands, name
        command = group.commands[name]
    try:
        command.make_context(name, rest)
    except Exception as error:
        raise AssertionError(f"perago {' '.join(arguments)}: {error}") from error
