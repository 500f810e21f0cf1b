"""A shell that runs the commands of remedies, as a person would who reads one.

Perago's own commands run inside this process, with modules imported anew. `export` and `unset`
change the environment. What a machine has anyway (`ls`, `df`, `mkdir`, `chmod`) really runs. A
scene with servers in memory says what `lakectl` and `curl` do there.
"""

import io
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from shutil import rmtree

import pytest
import typer
from tests.remedies import PLACEHOLDERS, commands_of, placeholders_of, words_of
from tests.unit.app.command_line.command_run import Ran, Run

from perago.app.command_line.reporting import reports_errors
from perago.domain.error_codes import error_codes

OF_THE_MACHINE = frozenset({"chmod", "df", "ls", "mkdir"})
REMEDY_LINE = r"^  {code}: (?P<remedy>.*) \(perago explain {code}\)$"
DONE = Ran(0, "", "")
NUMBERS = count(1)


@dataclass
class Shell:
    """Runs one command after another on the machine of a worker."""

    project: Path
    run: Run
    variables: pytest.MonkeyPatch
    servers: dict[str, Callable[[list[str]], Ran]] = field(
        default_factory=dict[str, Callable[[list[str]], Ran]]
    )
    # A name for each scene, because a process remembers by module and line what was declared.
    module: str = field(default_factory=lambda: f"words{next(NUMBERS)}")
    typed: list[str] = field(default_factory=list[str])

    def __call__(self, command: str) -> Ran:
        """Run one command line."""
        self.typed.append(command)
        program, *rest = words_of(command)
        match program:
            case "perago":
                self._forget_modules()
                return self.run(*rest)
            case "export":
                for name, _, value in (word.partition("=") for word in rest):
                    self.variables.setenv(name, value)
                return DONE
            case "unset":
                for name in rest:
                    self.variables.delenv(name, raising=False)
                return DONE
            case _ if program in OF_THE_MACHINE:
                return self._on_the_machine(command)
            case _:
                return self.servers[program](rest)

    def follow(self, code: str, printed: Ran, **names: str) -> Ran:
        """Run the commands of the remedy as it was printed; how the first of them ended.

        `names` has what a person puts in for each placeholder: it was printed, or typed before.
        """
        found = re.search(REMEDY_LINE.format(code=code), printed.err, re.MULTILINE)
        assert found is not None, printed.err
        self.typed.append(printed.err)
        remedy, command = error_codes()[code].remedy, names.get("COMMAND", "COMMAND")
        assert found["remedy"] == remedy.replace("COMMAND", command)
        return self._follow(found["remedy"], names)

    def follow_reason(self, code: str, **names: str) -> Ran:
        """The same for the code of a reason in Conductor: `perago explain` prints the remedy."""
        found = re.search(r"^Remedy: (.*)$", self(f"perago explain {code}").out, re.MULTILINE)
        assert found is not None
        assert found[1] == error_codes()[code].remedy
        return self._follow(found[1], names)

    def _follow(self, remedy: str, names: dict[str, str]) -> Ran:
        commands = commands_of(remedy)
        for placeholder in {each for command in commands for each in placeholders_of(command)}:
            assert any(names[placeholder] in text for text in self.typed), placeholder
        first, *_ = [self(filled(each, names)) for each in commands]
        return first

    def write(self, text: str) -> None:
        """Write the task module.

        Python takes a compiled module for the current one if size and whole second of its source
        are the same, and a correction may be as long as the mistake.
        """
        rmtree(self.project / "__pycache__", ignore_errors=True)
        (self.project / f"{self.module}.py").write_text(text)

    def _forget_modules(self) -> None:
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(str(self.project)):
                del sys.modules[name]

    def _on_the_machine(self, command: str) -> Ran:
        ran = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.project,
            check=False,
            capture_output=True,
            text=True,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)


def filled(command: str, names: dict[str, str]) -> str:
    """A command with a value for each of its placeholders."""
    for placeholder in sorted(placeholders_of(command), key=len, reverse=True):
        assert placeholder in PLACEHOLDERS
        command = re.sub(rf"(?<![A-Z_]){placeholder}(?![A-Z_])", names[placeholder], command)
    return command


def printed_for(error: Exception) -> Ran:
    """How a command ends that raises an error, where no argument of ours can cause it."""

    @reports_errors
    def command() -> None:
        raise error

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(typer.Exit) as ended:
        command()
    return Ran(ended.value.exit_code, out.getvalue(), err.getvalue())
