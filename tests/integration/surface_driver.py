"""Runs `check` and `extract` of many modules in one process, with whichever perago is installed.

A program for two interpreters: it uses the standard library and the console script only. Names
of modules come as arguments, the answers go to stdout as JSON.
"""

import importlib
import io
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

PROGRAMS = {"peer": ("perago.cli", "app"), "ours": ("perago.app.command_line.program", "program")}


def program(side: str) -> Callable[..., object]:
    """Return what the console script of a side calls."""
    module, name = PROGRAMS[side]
    found = getattr(importlib.import_module(module), name)
    made: Callable[..., object] = found() if side == "ours" else found
    return made


def answer(command: Callable[..., object], arguments: list[str]) -> dict[str, object]:
    """Run one command line and return how it ended."""
    out, err, raised, code = io.StringIO(), io.StringIO(), "", 0
    with redirect_stdout(out), redirect_stderr(err):
        warnings.resetwarnings()
        try:
            command(arguments, prog_name="perago")
        except SystemExit as ended:
            code = int(ended.code or 0)
        except BaseException as error:  # noqa: BLE001  # a traceback is an answer as well
            raised, code = f"{type(error).__name__}: {error}", 1
    return {"code": code, "out": out.getvalue(), "err": err.getvalue(), "raised": raised}


def main() -> None:
    """Answer for each module named on the command line."""
    side, *modules = sys.argv[1:]
    command = program(side)
    answers: dict[str, dict[str, object]] = {}
    for name in modules:
        target = Path("taskdefs") / f"{name}.json"
        checked = answer(command, ["check", name])
        # A failed import leaves nothing behind, a successful one must not be seen twice.
        extracted = answer(command, ["extract", name, "-o", str(target)])
        text = target.read_text(encoding="utf-8") if target.exists() else None
        answers[name] = {"check": checked, "extract": extracted, "taskdef": text}
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
