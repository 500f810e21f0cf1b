"""What a page tells its reader to type: each line is held to what is really there.

`perago` lines go through the program's own parser and are not run; the names of settings, extras
and targets of the Makefile are looked up. So a page can show a command that needs servers.

Each line is typed by one test, too: `page_lines` hands some of a page to the test that calls it,
test_kit_docs runs the blocks of its pages, and test_commands_of_pages types all the others.
"""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from typer import Typer
from typer.main import get_command

from perago.app.command_line.program import COMMANDS, LazyCommand, find_command
from perago.app.settings.settings import VARIABLES

ROOT = Path(__file__).parents[1]
ALL_PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
)
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


def bare(line: str) -> str:
    """The line without the comment at its end."""
    return re.sub(r" {2,}# .*$", "", line)


def page_lines(page: str, *beginnings: str) -> list[str]:
    """The lines of a page that begin so, for the test that types them.

    A call is found by reading the source, so page and beginnings stand in it as they are.
    """
    lines = shell_lines(ROOT / page)
    missing = [each for each in beginnings if not any(line.startswith(each) for line in lines)]
    assert missing == [], f"{page} has no line that begins so"
    return [bare(line) for line in lines if line.startswith(beginnings)]


@cache
def takers() -> Mapping[tuple[str, str], str]:
    """Which function takes a line, by its page and how it begins: every call of `page_lines`."""
    return {
        (page, beginning): f"{path.relative_to(ROOT)}::{function}"
        for path in sorted(ROOT.glob("tests/**/test_*.py"))
        if "page_lines(" in (text := path.read_text(encoding="utf-8"))
        for function, page, beginnings in _calls(ast.parse(text))
        for beginning in beginnings
    }


def taker_of(page: str, line: str) -> str | None:
    """The function that takes a line from its page and types it; None where none does."""
    found = (
        who for (its, begins), who in takers().items() if its == page and line.startswith(begins)
    )
    return next(found, None)


def _calls(tree: ast.Module) -> Iterator[tuple[str, str, list[str]]]:
    """Function, page and beginnings of each call; a word that is no literal is an error."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "page_lines":
                page, *beginnings = (str(ast.literal_eval(each)) for each in call.args)
                yield function.name, page, beginnings


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
        case ["make", *words]:
            targets = {each for each in words if "=" not in each}
            assert targets <= set(TARGET.findall(MAKEFILE)), targets
        case ["pip", "install", *wanted]:
            for each in wanted:
                check_extras(each)
        case _:
            pass


def check_setting(name: str) -> None:
    """Raise where a name looks like a setting of Perago and is none."""
    known = set(VARIABLES)
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
