"""The code blocks of a document, and how each kind is run in a directory.

`file=NAME` is written, `python` is run, `console` is typed line by line, `output` is compared
with what the block before printed. `...` stands for anything.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"python", "console", "output", "text", "toml", "json", "bash"}


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
    """Runs blocks in one directory, like a person who follows the document."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._printed = ""
        scripts = str(Path(sys.executable).parent)
        self._environment = {
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }

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
        elif block.language == "console":
            self._type(block)

    def _type(self, block: Block) -> None:
        for each in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = each.partition("\n")
            _compare(expected, self._answer(["sh", "-c", command], block), block.line)

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
