"""The code blocks of a document, and how each kind is run in a directory.

`file=NAME` is written, `python` is run, `console` is typed line by line, `output` is compared
with what the block before printed. `...` stands for anything. A line that begins with `> ` goes on
with the command above. `until=TEXT` is typed in a terminal of its own, and the document goes on
when that text is there; the session ends the command at its end.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STARTS_SECONDS = 240  # a Conductor beside a busy gate
ENDS_SECONDS = 60
KINDS = {"python", "console", "output", "text", "toml", "json", "bash", "sh"}


@dataclass(frozen=True)
class Block:
    """One block: its language, its options, its text, and its line for messages."""

    language: str
    options: dict[str, str]
    text: str
    line: int


def blocks_of(document: Path) -> Iterator[Block]:
    """Yield the blocks of a document in order."""
    text = document.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        pairs = (each.partition("=") for each in found[2].split())
        options = {name: value for name, _, value in pairs}
        yield Block(found[1], options, found[3], text.count("\n", 0, found.start()) + 1)


class Session:
    """Runs blocks in one directory, like a person who follows the document.

    `environment` is added to a clean one; `first` is typed before each command, in its shell.
    """

    def __init__(
        self, directory: Path, *, environment: Mapping[str, str] | None = None, first: str = ""
    ) -> None:
        self._directory = directory
        self._printed = ""
        self._first = first
        self._running: list[subprocess.Popen[bytes]] = []
        scripts = str(Path(sys.executable).parent)
        self._environment = {
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **(environment or {}),
        }

    def close(self) -> None:
        """End what runs in other terminals, the last one first."""
        for process in reversed(self._running):
            process.terminate()
            process.wait(ENDS_SECONDS)

    def run(self, block: Block) -> None:
        """Do what a block asks for; an unexpected answer is an assertion with its line."""
        assert block.language in KINDS, f"line {block.line}: {block.language} is not known"
        if "file" in block.options:
            path = self._directory / block.options["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            self._printed = self._answer([sys.executable, "-"], block, block.text)
        elif block.language == "output":
            _compare(block.text, self._printed, block.line)
        elif "until" in block.options:
            self._start(block)
        elif block.language == "console":
            self._type(block)

    def _type(self, block: Block) -> None:
        for each in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = each.replace("\n> ", "; ").partition("\n")
            typed = ["sh", "-c", self._first + command]
            _compare(expected, self._answer(typed, block), block.line)

    def _start(self, block: Block) -> None:
        """Type the one command of a block in another terminal, and wait for what it has to say."""
        command, _, expected = block.text.removeprefix("$ ").partition("\n")
        log = self._directory / f"terminal-{len(self._running)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],  # noqa: S607 - the shell of the page
                cwd=self._directory,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._running.append(process)
        deadline = monotonic() + STARTS_SECONDS
        while block.options["until"] not in log.read_text(encoding="utf-8"):
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            goes_on = process.returncode is None and monotonic() < deadline
            assert goes_on, f"line {block.line}: {log.read_text(encoding='utf-8')}"
        _compare(expected, log.read_text(encoding="utf-8"), block.line)

    def _answer(self, command: list[str], block: Block, script: str | None = None) -> str:
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environment,
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        expected = int(block.options.get("fails", "0"))
        assert done.returncode == expected, f"line {block.line}: {command}\n{done.stdout}"
        return done.stdout


def _compare(expected: str, printed: str, line: int) -> None:
    pattern = re.escape(expected.strip()).replace(re.escape("..."), ".*")
    if not re.fullmatch(pattern, printed.strip(), re.DOTALL):
        raise AssertionError(f"line {line}: expected\n{expected}\nprinted\n{printed}")
